"""The output of commands."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftrank.reporting.table import Table


def show_table(table: Table) -> None:
    """Print a table; as plain text if standard output is not a terminal."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(table)
    else:
        print(table)


def show_json(value: Any) -> None:
    print(json.dumps(value))
