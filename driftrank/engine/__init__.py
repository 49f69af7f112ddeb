"""The engine: runs policies against environments in compiled code."""

from driftrank.engine.cluster.cluster import Cluster
from driftrank.engine.cpu import cores, run_on_cpu
from driftrank.engine.fixed_list import best_fixed_list
from driftrank.engine.simulator import Simulator
from driftrank.engine.task import MEASURES, Task, Unit

__all__ = ["MEASURES", "Cluster", "Simulator", "Task", "Unit", "best_fixed_list", "cores", "run_on_cpu"]
