"""driftrank replay: the lists of a ranker teach another policy."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import policy_names

KOption = Annotated[int | None, typer.Option("--k", metavar="K", help="Positions.", show_default="of the longest list")]
PolicyOption = Annotated[
    str, typer.Option(metavar=o.SPEC, help="The policy, see driftrank policies.", autocompletion=policy_names)
]


def replay(
    store: Annotated[str, typer.Argument(metavar="STORE", help="Address of the store: sqlite:///driftrank.db.")],
    policy: PolicyOption,
    ranker: o.StoredRankerOption = None,
    k: KOption = None,
    top: Annotated[int, typer.Option(metavar="N", help="Queries to show, those with the most lists.")] = 10,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", help="A new folder for the learners.")] = None,
    imports: o.ImportOption = None,
    json: o.JsonOption = False,
) -> None:
    """Let another policy learn from the lists of a service.

    Reads the store of a service, also while that runs, and lets the policy learn from every list that was shown, with
    its clicks, as from an old click log. Prints what the policy believes then.

    This shows what the policy would have learnt from these lists. It does not estimate how the policy would have done:
    that would have shown other lists, whose clicks are unknown. Estimate it with driftrank evaluate if lists have
    propensities, compare policies with driftrank fit and simulate, or with users.

    Lists of the holdout teach nothing, as in the service. What was reset since, or learnt by another policy or k, is
    learnt from, as long as its records are kept (the setting retention); rows of a warm start are not.

    \b
    driftrank replay sqlite:///driftrank.db --policy CascadeKLUCB
    driftrank replay sqlite:///driftrank.db --ranker shop --policy CascadeSWUCB:window=24h --out learners
    """
    from driftrank.cli._output import show_json, show_table
    from driftrank.extras import need
    from driftrank.files import usable_folder
    from driftrank.policies.registry import parse_policy
    from driftrank.reporting.table import Table
    from driftrank.validation import check_integer

    need("serve", "msgspec")
    from driftrank.serve.offline.replay import replay_store

    check_integer("top", top, 0)
    folder = None if out is None else usable_folder(out)
    if folder is not None and any(folder.iterdir()):
        raise ValueError(f"out={out!r}: must be a new folder, or an empty one")
    done = replay_store(store, parse_policy(policy), ranker, k)
    if folder is not None:
        done.save(folder)
    found = done.to_dict(top)
    if json:
        show_json(found)
        return
    rows = [
        (q["query"], q["lists"], q["clicks"], ", ".join(f"{e['item']} {e['estimate']:.3f}" for e in q["items"]))
        for q in found["busiest"]
    ]
    if rows:
        show_table(Table(("query", "lists", "clicks", "best items, estimates"), rows, (None, ",", ",", None)))
        typer.echo()
    for note in done.notes:
        typer.echo(note, err=True)
    typer.echo(
        f"{done.policy.spec} learnt from {done.lists:,} lists with {done.clicks:,} clicks of {found['queries']:,}"
        " queries, as they were shown; it would have shown others."
    )
    if out is not None:
        typer.echo(f"{out}: a learner of each query, named in queries.json")
