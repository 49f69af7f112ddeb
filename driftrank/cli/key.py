"""driftrank key: a new key of the ranking service."""

from __future__ import annotations

from typing import Annotated

import typer


def key(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Make a key for the ranking service, and the hash by which the service knows it.

    The service keeps hashes only, in its settings or its environment: whoever reads those has no key. The key goes to
    whoever sends requests, and is shown here and never again. The admin key opens everything; keys of a ranker (keys =
    ["sha256:..."] in its settings) open that ranker, and nothing else.

    \b
    driftrank key
    driftrank key --json
    """
    from driftrank.cli._output import show_json
    from driftrank.serve.keys import new_key

    made, kept = new_key()
    if json:
        show_json({"key": made, "hash": kept})
        return
    typer.echo(f"key   {made}")
    typer.echo(f"hash  {kept}")
    typer.echo("")
    typer.echo(f"DRIFTRANK_ADMIN_KEY={kept} driftrank serve")
    typer.echo(f'curl -H "Authorization: Bearer {made}" http://127.0.0.1:8080/v1/rankers')
