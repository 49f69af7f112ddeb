"""The command line. One file per command, found by looking: ``cli/NAME.py`` holds the function ``NAME``."""

from driftrank.cli.app import main

__all__ = ["main"]
