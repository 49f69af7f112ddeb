"""driftrank store create: an empty store."""

from __future__ import annotations

import typer

from driftrank.cli._options import StoreArgument
from driftrank.extras import need


def create(url: StoreArgument) -> None:
    """Create the tables of a store; nothing changes if they exist.

    A service creates them by itself if its role may. With this command a role that owns the database creates them, and
    services use them with fewer rights: USAGE of the schema; SELECT, INSERT, UPDATE and DELETE of its tables.

    \b
    driftrank store create "postgresql://admin@db1,db2/driftrank?schema=shop"
    """
    need("serve", "msgspec")
    from driftrank.serve.log.store.base import open_store

    with open_store(url) as store:
        typer.echo(f"the store is there, with {store.last:,} entries so far")
