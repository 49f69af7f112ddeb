"""Experiments: simulations, sweeps, leaderboards, and their results."""

from driftrank.experiments.leaderboards.leaderboard import leaderboard
from driftrank.experiments.leaderboards.result import Leaderboard
from driftrank.experiments.simulation.result import Result
from driftrank.experiments.simulation.simulate import simulate
from driftrank.experiments.sweeps.result import Sweep
from driftrank.experiments.sweeps.sweep import sweep

__all__ = ["Leaderboard", "Result", "Sweep", "leaderboard", "simulate", "sweep"]
