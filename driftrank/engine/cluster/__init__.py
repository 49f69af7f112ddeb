"""Simulations on many machines: joblib with its Dask backend."""
