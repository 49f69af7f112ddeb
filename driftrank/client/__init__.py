"""Clients of the ranking service."""
