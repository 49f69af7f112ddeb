"""The state of the service: a fold over its log."""
