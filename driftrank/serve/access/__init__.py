"""Access: the keys of callers, and the rates of their requests."""
