"""Policies that forget: by discounting, or by a sliding window."""
