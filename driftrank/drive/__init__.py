"""Simulated users for a running service, and warm starts from a log."""
