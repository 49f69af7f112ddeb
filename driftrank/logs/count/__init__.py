"""Sufficient statistics of a log, counted in SQL."""
