"""The default policy and its predecessor: Thompson sampling on change points, with a memory of past regimes."""
