"""Simulations of Traffic: one policy over all queries of a run."""
