"""Stores of the log: ``base.py`` defines them, each backend is one file, ``checks.py`` is the contract suite."""
