"""Policies against one environment: settings, runs, results, run folder."""
