"""Experiments: what to run, and what came out."""

from driftrank.experiments.board import Leaderboard
from driftrank.experiments.leaderboard import leaderboard
from driftrank.experiments.results import Result
from driftrank.experiments.simulate import simulate
from driftrank.experiments.sweep_result import Sweep
from driftrank.experiments.sweep_run import sweep

__all__ = ["Leaderboard", "Result", "Sweep", "leaderboard", "simulate", "sweep"]
