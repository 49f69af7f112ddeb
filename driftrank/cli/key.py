"""driftrank key: a new key of the ranking service."""

from __future__ import annotations

import typer

from driftrank.cli._options import JsonOption


def key(json: JsonOption = False) -> None:
    """Make a key for the ranking service, and its hash.

    The service stores only hashes, in its settings or environment variables, so that reading those gives no access. The
    key is for the applications that send requests; it is shown only here. The admin key has access to everything; a key
    of a ranker (keys = ["sha256:..."] in its settings) to that ranker only.

    \b
    driftrank key
    driftrank key --json
    """
    from driftrank.cli._output import show_json
    from driftrank.serve.keys import new_key

    made, digest = new_key()
    if json:
        show_json({"key": made, "hash": digest})
        return
    typer.echo(f"key   {made}")
    typer.echo(f"hash  {digest}")
    typer.echo("")
    typer.echo(f"DRIFTRANK_ADMIN_KEY={digest} driftrank serve")
    typer.echo(f'curl -H "Authorization: Bearer {made}" http://127.0.0.1:8080/v1/rankers')
