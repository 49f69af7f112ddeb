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
    """Read the whole log of a store, and all snapshots, and check them.

    The exit code is 1 if anything is damaged. A service on SQLite cuts its log by itself when it starts; a log that
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
        snapshots, last = 0, ""
        damaged: list[str] = []
        while names := log.snapshot_names("", last):
            snapshots, last = snapshots + len(names), names[-1]
            # one that a service has dropped meanwhile is not damaged
            damaged += [n for n in names if log.get_snapshot(n) is None and n in log.snapshot_names(n, limit=1)]
    except StoreDamaged as error:
        typer.echo(f"{entries:,} entries are intact, then: {error}")
        raise typer.Exit(1) from None
    finally:
        log.close()
    for name in damaged:
        typer.echo(f"the snapshot {name!r} is damaged")
    if damaged:
        raise typer.Exit(1)
    typer.echo(f"{entries:,} entries and {snapshots:,} snapshots, all intact")
