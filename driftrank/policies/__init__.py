"""Ranking policies, one algorithm per file."""
