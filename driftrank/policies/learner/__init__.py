"""A learner: a compiled policy with its state for one query."""
