"""What commands print."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftrank.experiments.table import Table


def show_table(table: Table) -> None:
    """A table for people; plain text where it goes to a file or another program."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(table)
    else:
        print(table)


def show_json(value: Any) -> None:
    print(json.dumps(value))
