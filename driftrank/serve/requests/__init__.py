"""Requests that become records: rank, feedback, changes of rankers."""
