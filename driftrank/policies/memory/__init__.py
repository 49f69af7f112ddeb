"""The weight of the past: all of it, a discounted sum, or a sliding window."""
