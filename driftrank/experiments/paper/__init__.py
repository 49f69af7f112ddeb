"""The experiments of the paper: figures, findings, bounds, report."""
