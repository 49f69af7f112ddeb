"""driftrank store nodes: the services that use a store."""

from __future__ import annotations

import typer

from driftrank.cli._options import JsonOption, StoreArgument
from driftrank.extras import need


def nodes(url: StoreArgument, json: JsonOption = False) -> None:
    """List the services that use a store, or did in the last hour.

    For each, its address, the entries of the log that it has yet to take in, and the seconds since it said so. The
    keeper ends feedback windows, takes checkpoints and forgets old entries; another one follows it within 10 seconds.

    \b
    driftrank store nodes "postgresql://db1,db2/driftrank?schema=shop"
    """
    need("serve", "msgspec")
    from driftrank.cli._output import show_json, show_table
    from driftrank.reporting.table import Table
    from driftrank.serve.log.store.base import open_reader, open_store, store_at
    from driftrank.serve.log.store.shared import SharedStore

    if not issubclass(store_at(url), SharedStore):
        raise ValueError(f"store={url!r}: must be a store of several services, such as postgresql://host/db")
    open_reader(url).close()  # it must exist; a store that is opened would be created
    with open_store(url) as store:
        assert isinstance(store, SharedStore)
        found, last = store.nodes(), store.last
    if json:
        show_json([{**node._asdict(), "behind": last - node.seq} for node in found])
        return
    rows = [(node.name, node.url, last - node.seq, node.seconds, "keeper" if node.keeper else "") for node in found]
    if rows:
        show_table(
            Table(("node", "address", "entries behind", "seconds ago", ""), rows, (None, None, ",", ".1f", None))
        )
    else:
        typer.echo("no service uses the store")
