"""Environments: how attraction changes over time. One file each."""

from driftrank.environments.abrupt import Abrupt
from driftrank.environments.b_lb import BLB
from driftrank.environments.base import Environment, QueryEnvironment
from driftrank.environments.churn import Churn
from driftrank.environments.drift import Drift
from driftrank.environments.garivier_moulines import GarivierMoulines
from driftrank.environments.learning_to_rank import LearningToRank
from driftrank.environments.linear_features import LinearFeatures
from driftrank.environments.low_ctr import LowCTR
from driftrank.environments.lower_bound import LowerBound
from driftrank.environments.order_only import OrderOnly
from driftrank.environments.piecewise_random import PiecewiseRandom
from driftrank.environments.recurring import Recurring
from driftrank.environments.replay import Replay
from driftrank.environments.scaling import Scaling
from driftrank.environments.silent import Silent
from driftrank.environments.stationary import Stationary
from driftrank.environments.traffic.traffic import Traffic

__all__ = [
    "BLB",
    "Abrupt",
    "Churn",
    "Drift",
    "Environment",
    "GarivierMoulines",
    "LearningToRank",
    "LinearFeatures",
    "LowCTR",
    "LowerBound",
    "OrderOnly",
    "PiecewiseRandom",
    "QueryEnvironment",
    "Recurring",
    "Replay",
    "Scaling",
    "Silent",
    "Stationary",
    "Traffic",
]
