"""Estimators, one per file."""
