"""Ranking policies: one file each."""
