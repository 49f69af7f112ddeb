"""The simulator of a task: of single queries, or of Traffic."""

from __future__ import annotations

from driftrank.engine.simulator import Simulator
from driftrank.engine.task import Task
from driftrank.engine.traffic.simulator import TrafficSimulator


def simulator_of(task: Task, policy: int) -> Simulator:
    """The simulator of one policy of a task."""
    return (TrafficSimulator if task.environment.traffic else Simulator)(task, policy)
