"""driftrank compile: the kernels of the ranking service, before its first start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import policy_names
from driftrank.extras import need


def compile(
    policies: Annotated[
        list[str] | None,
        typer.Argument(metavar="[POLICY]...", help="Further policies.", autocompletion=policy_names),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Settings of the server and its rankers.", show_default="none"),
    ] = None,
    imports: o.ImportOption = None,
) -> None:
    """Compile policies before the first start of the service.

    These are the default policy, those of the rankers in the settings file, and others that are named; several are
    compiled on all cores. Kernels are kept in ~/.cache/driftrank, or $DRIFTRANK_CACHE_DIR. They are for this kind of
    processor, unless NUMBA_CPU_NAME is generic, here and for the service.

    \b
    driftrank compile
    driftrank compile --config driftrank.toml
    NUMBA_CPU_NAME=generic driftrank compile CascadeSWUCB:window=24h
    """
    import os

    need("serve", "msgspec")
    from driftrank.engine.cpu import cores
    from driftrank.serve.processes.compiling import Needed, compile_policies
    from driftrank.serve.settings.load import load_settings, ranker_settings
    from driftrank.serve.settings.ranker import arms_of, policy_of, settings_of_arm

    settings = load_settings(config, os.environ)
    named = [ranker_settings({"policy": policy}) for policy in policies or ()]
    configured = settings.rankers.values()
    arms = [settings_of_arm(ranker, arm) for ranker in configured for arm in arms_of(ranker)]
    needed: dict[str, Needed] = {}
    for ranker in [ranker_settings({}), *configured, *arms, *named]:
        policy = policy_of(ranker)
        needed.setdefault(policy.spec, Needed(policy, ranker.k, ranker.horizon, settings.memory_bytes))
    for policy, seconds in compile_policies(list(needed.values()), cores(), lambda line: typer.echo(line, err=True)):
        typer.echo(f"{policy.spec}: {seconds:.1f} s")
