"""driftrank compare: the experiment of a ranker, in a sentence."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftrank.cli import _options as o
from driftrank.cli.evaluate import REFUSED

if TYPE_CHECKING:
    from driftrank.wire import Comparison, ExperimentState

_REASONS = {
    "few": "there are fewer than 100 lists of one of them, or those of too few visitors",
    "lost-feedback": "more lists of one than of the other were taken back or dropped, so the rest does not compare",
    "pending": "more lists of one than of the other still wait for feedback; ask again when their windows are over",
}

SourceArgument = Annotated[
    str, typer.Argument(metavar="STORE|URL", help="A store (driftrank.db, sqlite:///...), or the address of a service.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(metavar="TIME|7d", help="Only lists from this time on; of a store.", show_default="all"),
]
WatchOption = Annotated[bool, typer.Option("--watch", help="Ask again and again, until Ctrl-C.")]
EveryOption = Annotated[str, typer.Option(metavar="TIME", help="With --watch: the time between two answers.")]


def compare(
    source: SourceArgument,
    ranker: o.StoredRankerOption = None,
    since: SinceOption = None,
    watch: WatchOption = False,
    every: EveryOption = "10s",
    key: o.KeyOption = None,
    json: o.JsonOption = False,
) -> None:
    """Compare the arms of a ranker: is it better than the holdout?

    Prints the answer in a sentence, for each arm that is compared. Its interval of 95% holds at all times together: ask
    as often as you like, and stop when it is clear. The difference is that of clicks per list, below the items that
    both would have shown; this assumes that users read from the top, and is left out if clicks say otherwise.

    Needs a ranker with a holdout or with arms. A store can be read while its service runs. With --since, decide on the
    time before you look at the results. The exit code is 3 if nothing can be said yet.

    \b
    driftrank compare driftrank.db
    driftrank compare http://127.0.0.1:8080 --ranker shop --watch
    driftrank compare sqlite:///driftrank.db --ranker shop --since 7d --json
    """
    from driftrank.policies.parameters import seconds

    pause = seconds("every", every)
    while True:
        found = _experiment(source, ranker, since, key)
        answered = _show(found, json)
        if not watch:
            break
        time.sleep(pause)
    if not answered:
        raise typer.Exit(REFUSED)


def _experiment(source: str, ranker: str | None, since: str | None, key: str | None) -> ExperimentState:
    if source.startswith(("http://", "https://")):
        if since is not None:
            raise ValueError(f"since={since!r}: must not be given with the address of a service; a store can tell")
        from driftrank.client import Client

        with Client(source, key=key, ranker=ranker or "default") as client:
            return client.experiment()
    from driftrank.extras import need

    need("serve", "msgspec", "prometheus_client")
    from driftrank.serve.offline.comparison import stored_experiment

    return stored_experiment(source if "://" in source else f"sqlite:///{source}", ranker, _time(since))


def _time(text: str | None) -> float | None:
    """Seconds since 1970, of a time or of a duration before now."""
    from datetime import UTC, datetime

    from driftrank.policies.parameters import is_duration, seconds

    if text is None:
        return None
    if is_duration(text):
        return time.time() - seconds("since", text)
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"since={text!r}: must be a duration such as '7d', or a time such as 2026-11-18T09:00"
        ) from None
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()


def _show(found: ExperimentState, json: bool) -> bool:
    """Print the experiment; False if nothing can be said."""
    from msgspec import to_builtins

    from driftrank.cli._output import show_json, show_table
    from driftrank.reporting.table import Table

    running = [each for each in found.comparisons if each.running]
    answers = [sentence(each) for each in running]
    if not running:
        answers = [_nothing(found)]
    answered = any(each.best_known is not None for each in running)
    if json:
        show_json({"answers": answers, **to_builtins(found)})
        return answered
    for answer in answers:
        typer.echo(answer)
    if not found.arms:
        return answered
    rows: list[tuple[Any, ...]] = [
        (
            arm.arm, found.shares.get(arm.arm, 0.0), arm.lists,
            float("nan") if arm.clicks_per_list is None else arm.clicks_per_list, arm.lost, arm.pending,
        )
        for arm in found.arms
    ]  # fmt: skip
    typer.echo()
    show_table(Table(("arm", "share", "lists", "clicks per list", "lost", "pending"), rows,
                     (None, ".3g", ",", ".4f", ",", ",")))  # fmt: skip
    rows = [row for each in running for row in _rows(each)]
    if rows:
        typer.echo()
        columns = ("arm", "less", "clicks counted", "difference", "95% interval, at all times", "lists for ±.01")
        show_table(Table(columns, rows, (None, None, None, "+.4f", None, ",")))
    return answered


def _rows(each: Comparison) -> list[tuple[Any, ...]]:
    after = each.after_prefix
    found = [("all", each.clicks, each.needed)]
    if after is not None:
        name = f"after the shared prefix ({after.differing:.0%} of lists differ)"
        found.append((f"{name}: {after.refused}" if after.refused else name, after.clicks, after.needed))
    return [
        (
            each.arm, each.baseline, name, float("nan") if interval is None else interval.difference,
            "–" if interval is None else f"{interval.low:+.4f} to {interval.high:+.4f}",
            float("nan") if needed is None else needed,
        )
        for name, interval, needed in found
    ]  # fmt: skip


def sentence(each: Comparison) -> str:
    """The answer.

    >>> from driftrank.wire import Comparison, Interval
    >>> found = Comparison("live", "holdout", "2026-11-18T09:00:00Z", 20_000, Interval(0.03, 0.01, 0.05))
    >>> sentence(found)
    'live earns 0.0300 more clicks per list than holdout (+0.0100 to +0.0500 at 95%, at all times): keep it.'
    """
    interval = each.best_known
    if interval is None:
        return f"No answer for {each.arm} against {each.baseline}: {_REASONS[each.refused or 'few']}."
    ends = f"{interval.low:+.4f} to {interval.high:+.4f} at 95%, at all times"
    if interval.low > 0:
        earns = f"{each.arm} earns {interval.difference:.4f} more clicks per list than {each.baseline}"
        return f"{earns} ({ends}): keep it."
    if interval.high < 0:
        return (
            f"{each.arm} earns {-interval.difference:.4f} fewer clicks per list than {each.baseline} ({ends}):"
            f" show {each.baseline} instead."
        )
    needed = each.needed if interval is each.clicks or each.after_prefix is None else each.after_prefix.needed
    more = f"; about {needed:,} lists in all tell ±.01, {each.lists:,} have ended" if needed else ""
    return f"No difference between {each.arm} and {each.baseline} is certain ({ends}){more}."


def _nothing(found: ExperimentState) -> str:
    if len(found.shares) > 1:
        return f"No answer for {found.ranker}: no list of the experiment has ended."
    return f"No answer: {found.ranker} has nothing to compare with. Set holdout, or arms."
