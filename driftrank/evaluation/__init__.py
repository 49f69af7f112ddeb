"""Evaluation: what rankings are worth, and how certain that is."""
