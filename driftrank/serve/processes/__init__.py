"""Processes: workers behind one address, their metrics, and the compiler of kernels."""
