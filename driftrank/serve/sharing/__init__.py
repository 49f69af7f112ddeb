"""Several services on one log: each follows it, one keeps it."""
