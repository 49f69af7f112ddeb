"""Ranked bandits: one bandit per position."""
