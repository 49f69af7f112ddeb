"""The engine: policies against environments, compiled."""

from driftrank.engine.cluster import Cluster
from driftrank.engine.cpu import cores, run_on_cpu
from driftrank.engine.fixed import best_fixed_list
from driftrank.engine.unit import MEASURES, Simulator, Task, Unit

__all__ = ["MEASURES", "Cluster", "Simulator", "Task", "Unit", "best_fixed_list", "cores", "run_on_cpu"]
