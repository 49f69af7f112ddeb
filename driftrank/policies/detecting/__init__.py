"""Policies that detect changes and restart."""
