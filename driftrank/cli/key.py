"""driftrank key: a new key of the ranking service."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from driftrank.cli._options import JsonOption

OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the key to a new file that only you can read.", show_default="standard output"
    ),
]


def key(out: OutOption = None, json: JsonOption = False) -> None:
    """Make a key for the ranking service, and its hash.

    The service stores only hashes, in its settings or environment variables, so that reading those gives no access. The
    key is for the applications that send requests; it is shown only here. The admin key has access to everything; a key
    of a ranker (keys = ["sha256:..."] in its settings) to that ranker only.

    \b
    driftrank key
    driftrank key --out admin.key
    driftrank key --json
    """
    from driftrank.cli._output import show_json
    from driftrank.serve.access.keys import new_key

    made, digest = new_key()
    if out is not None:
        try:
            with open(out, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(f"key   {made}\nhash  {digest}\n")
        except OSError as error:
            raise ValueError(f"out={str(out)!r}: cannot be written ({error.strerror})") from None
        made = f"$(awk '/^key/ {{print $2}}' {shlex.quote(str(out))})"
        typer.echo(f"hash  {digest}")
    elif json:
        show_json({"key": made, "hash": digest})
        return
    else:
        typer.echo(f"key   {made}")
        typer.echo(f"hash  {digest}")
    typer.echo("")
    typer.echo(f"DRIFTRANK_ADMIN_KEY={digest} driftrank serve")
    typer.echo(f'curl -H "Authorization: Bearer {made}" http://127.0.0.1:8080/v1/rankers')
