"""Checked requests, the choice of items, and the clicks that come back, without log or state of the service."""
