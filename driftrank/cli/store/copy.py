"""driftrank store copy: move a service to PostgreSQL."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli._options import JsonOption
from driftrank.extras import need


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The address of the store to copy.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The address of a PostgreSQL store.")],
    json: JsonOption = False,
) -> None:
    """Copy a store to PostgreSQL, with the numbers of its entries.

    No service may use either: stop all services, copy, and start them with the new address. A copy that was
    interrupted goes on when it is started again; if TO has another entry under a number of FROM, it is refused. FROM
    stays as it is.

    \b
    driftrank store copy sqlite:////var/lib/driftrank/log.db "postgresql://db1,db2/driftrank?schema=shop"
    """
    need("serve", "msgspec")
    from driftrank.cli._output import show_json
    from driftrank.serve.log.copying import copy_store

    done = copy_store(source, target, progress=False if json else None)
    if json:
        show_json(done._asdict())
    else:
        typer.echo(f"{done.entries:,} entries and {done.snapshots:,} snapshots copied")
