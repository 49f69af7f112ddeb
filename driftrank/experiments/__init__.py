"""Experiments: what to run, and what came out."""

from driftrank.experiments.results import Result
from driftrank.experiments.simulate import simulate

__all__ = ["Result", "simulate"]
