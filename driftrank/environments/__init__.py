"""Environments: how what attracts users changes. One file each."""

from driftrank.environments.abrupt import Abrupt
from driftrank.environments.b_lb import BLB
from driftrank.environments.base import Environment, QueryEnvironment
from driftrank.environments.lower_bound import LowerBound
from driftrank.environments.stationary import Stationary

__all__ = ["BLB", "Abrupt", "Environment", "LowerBound", "QueryEnvironment", "Stationary"]
