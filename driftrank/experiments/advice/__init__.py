"""Advice from a click log: which policy to use, how much it would gain, how sure that is, and what to try next."""
