"""Experiments: what to run, and what came out."""

from driftrank.experiments.board import Leaderboard
from driftrank.experiments.leaderboard import leaderboard
from driftrank.experiments.results import Result
from driftrank.experiments.simulate import simulate

__all__ = ["Leaderboard", "Result", "leaderboard", "simulate"]
