"""The command line. One file per command: ``cli/NAME.py`` with the function ``NAME``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command line."""
    try:
        from driftrank.cli.app import start

        sys.exit(start(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # during the imports
        sys.exit(130)
