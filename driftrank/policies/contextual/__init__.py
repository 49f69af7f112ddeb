"""Linear policies that use item features."""
