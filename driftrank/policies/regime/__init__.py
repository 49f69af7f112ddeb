"""The default policy and its predecessor: Thompson sampling on a posterior over change points, with a memory of past regimes."""
