"""Policies with grids of parameters."""
