"""The speed of simulations on this machine."""
