"""driftrank store verify: find damage."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli._options import StoreArgument
from driftrank.extras import need


def verify(
    url: StoreArgument,
    cut: Annotated[
        bool, typer.Option("--cut", help="Cut the log before the first damaged entry; no service may use the store.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Cut it even if services use it; they notice, and read it again.")
    ] = False,
) -> None:
    """Read the whole log of a store and check every entry.

    The exit code is 1 if an entry is damaged. A service on SQLite cuts its log by itself when it starts; a log that
    several services use is cut only here, with --cut. What is cut off is kept in the table "damaged".

    \b
    driftrank store verify sqlite:///driftrank.db
    driftrank store verify "postgresql://db1,db2/driftrank?schema=shop"
    """
    need("serve", "msgspec")
    from driftrank.serve.log.store.base import StoreDamaged, open_reader, open_store
    from driftrank.serve.log.store.shared import SharedStore

    if cut:
        with open_store(url) as store:
            if isinstance(store, SharedStore) and not force:
                store.check_unused()
            typer.echo(str(store.verify(0) or "every entry is intact; nothing was cut"))
            return
    log = open_reader(url)
    try:
        entries, after = 0, 0
        while chunk := log.read(after):
            entries, after = entries + len(chunk), chunk[-1].seq
    except StoreDamaged as error:
        typer.echo(f"{entries:,} entries are intact, then: {error}")
        raise typer.Exit(1) from None
    finally:
        log.close()
    typer.echo(f"{entries:,} entries, all intact")
