"""Scores of items: mean plus bonus, KL upper bound, Beta posterior, exponential weights."""
