"""Policies for stationary users."""
