"""The default policy: Thompson sampling on a posterior over change points, with a memory of past regimes."""
