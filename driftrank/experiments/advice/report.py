"""The report on an advice, for somebody who has not read the documentation."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from driftrank import __version__
from driftrank.experiments.advice.advice import REFUSED, UNCLEAR, USE, Advice
from driftrank.experiments.advice.figures import figure_candidates, figure_ladder, figure_over_time
from driftrank.files import usable_folder, written_text
from driftrank.reporting.page import Block, Bullets, Code, Facts, Heading, Picture, Plain, Text, html_page
from driftrank.reporting.plot_style import save_figure
from driftrank.reporting.table import Table

_GRADES = {
    "C": "C: by click models that passed their checks. Not measured with users: the next step below would do that.",
    "D": "D: no click model that passes its checks, so no number. Only what to try first.",
    None: "None: this log cannot tell.",
}
#: queries that are named
_NAMED = 10


def write_report(advice: Advice, folder: str | os.PathLike[str], command: Sequence[str] = ()) -> list[Path]:
    """Write ``report.html``, its figures, ``advice.json`` and ``driftrank.toml``; returns the files.

    All are made in a temporary folder first, so that an interrupt leaves none of them half-written.
    """
    path = usable_folder(folder)
    with tempfile.TemporaryDirectory(dir=path, prefix=".advice-") as made:
        blocks = _blocks(advice, Path(made), command)
        written_text(Path(made) / "report.html", html_page("driftrank: advice", blocks, Path(made), width=48))
        written_text(Path(made) / "advice.json", advice.json())
        written_text(Path(made) / "driftrank.toml", advice.settings())
        for file in sorted(Path(made).iterdir()):
            os.replace(file, path / file.name)
    names = ("report.html", "advice.json", "driftrank.toml")
    return sorted(p for p in path.iterdir() if p.name in names or p.suffix in (".png", ".svg"))


def _blocks(advice: Advice, folder: Path, command: Sequence[str]) -> list[Block]:
    return [
        Heading(_title(advice), 1),
        Text(advice.lead(), "lead"),
        Facts(_facts(advice)),
        *_against(advice),
        *_next(advice),
        *_figures(advice, folder),
        *_losers(advice),
        *_tables(advice),
        Heading("Settings for the service"),
        Text("Paste this into the configuration of `driftrank serve`:"),
        Code(advice.settings().rstrip()),
        *_how(advice),
        Heading("Repeat it"),
        Code(shlex.join(command) if command else f"driftrank advise {shlex.quote(advice.source)} --k {advice.k}"),
        Text(f"driftrank {__version__}, seed {advice.seed}. The same log and seed give the same report.", "note"),
    ]


def _title(advice: Advice) -> str:
    if advice.verdict == USE:
        return f"Use {advice.name}"
    if advice.verdict == REFUSED:
        return "No advice from this log"
    return "Keep what you have" + " for now" * (advice.verdict == UNCLEAR)


def _facts(advice: Advice) -> list[tuple[str, str]]:
    out = []
    if advice.gain is not None:
        whose = "" if advice.verdict == USE else f" of {advice.name}"
        out = [
            (
                f"Expected gain{whose}",
                f"{advice.gain.value:+.4f} clicks per list, {_percent(advice)} of the {advice.logged:.4f} that was"
                " earned",
            ),
            ("Between", f"{advice.gain.low:+.4f} and {advice.gain.high:+.4f}"),
        ]
    out.append(("Grade", _GRADES[advice.grade]))
    out.append(
        (
            "Log",
            f"`{advice.source}`: {advice.lists:,} lists of {advice.queries:,} queries, {advice.k} positions; used"
            f" {advice.used:,} lists of the {advice.used_queries:,} most frequent queries, with {advice.changes:,}"
            " changes of what users like.",
        )
    )
    return out


def _percent(advice: Advice) -> str:
    assert advice.gain is not None
    return f"{advice.gain.value / advice.logged:+.1%}" if advice.logged else "none"


def _against(advice: Advice) -> list[Block]:
    if advice.verdict == REFUSED:
        texts = [f"{refusal.text} (`{refusal.code}`)" for refusal in advice.refused]
        rows = [(each.query, each.lists, each.different, each.items) for each in advice.shown]
        columns = ("query", "lists", "different lists", "items shown")
        return [
            Heading("Why not"),
            Bullets(texts),
            Plain(Table(columns, rows, (None, ",.0f", ",.0f", ",.0f"))),
            Text(
                f"Different lists: in their first {advice.k} positions. Items that were not shown are unknown.", "note"
            ),
        ]
    return [Heading("What speaks against it"), Bullets(advice.against or ["Nothing that this log shows."])]


def _next(advice: Advice) -> list[Block]:
    if advice.next is None:
        return []
    way = advice.next
    vary = (
        f"With `explore = {way.explore:g}` lists vary a little around the order, and the log has their probabilities."
    )
    compare = (
        f"`holdout = {way.holdout:g}` keeps the present order in that share of the lists. After about {way.lists:,}"
        f" lists the comparison is exact to ±{way.within:g} clicks per list, however often you look at it."
    )
    steps = [f"Serve {advice.name}: `driftrank serve` with the settings below.", vary, compare]
    if advice.verdict != USE:
        steps = [
            f"Run `driftrank serve` with the settings below: users see the present order, and {advice.name} learns.",
            vary,
            'Ask again with the new log; or try it with some of the users: `mode = "live"` and a holdout. ' + compare,
        ]
    return [Heading("To be sure"), Bullets(steps)]


def _figures(advice: Advice, folder: Path) -> list[Block]:
    if advice.series is None or advice.gain is None or advice.trial is None:
        return []
    series = advice.series
    save_figure(figure_over_time(series, advice.name), folder, "over_time")
    save_figure(figure_candidates(advice), folder, "candidates")
    save_figure(figure_ladder(advice), folder, "ladder")
    order = sorted(advice.candidates, key=lambda each: -each.gain.value)
    ranked = ", ".join(f"{each.name} {each.gain.value:+.4f}" for each in order)
    models = ", ".join(f"{each.check.model} {each.gain}" for each in advice.models if each.gain is not None)
    shadow = advice.cross_check
    by_propensities = (
        ""
        if shadow is None
        else f" By propensities (grade B, without the price of exploration): {shadow.difference.value:+.4f}"
        f" ({shadow.difference.low:+.4f} to {shadow.difference.high:+.4f})."
    )
    return [
        Heading("Over the log"),
        Picture(
            "over_time",
            "Share of lists with a click, from the first list of the log to the last. The policy starts without any"
            " knowledge. Grey bars: queries whose users changed.",
            f"Line chart of the share of lists with a click over the log. Averages: {advice.name}"
            f" {series.advised.mean():.3f}, what was shown {series.logged.mean():.3f}, the best possible"
            f" {series.best.mean():.3f}.",
        ),
        Heading("The candidates"),
        Picture(
            "candidates",
            "Gain over what was shown, with its interval.",
            f"Bars of the gain of every candidate, from best to worst: {ranked}.",
        ),
        Heading("By assumption about users"),
        Picture(
            "ladder",
            "The same gain by every click model that is plausible, and by propensities where the log has them.",
            f"Bars of the gain by click model: {models}.{by_propensities}",
        ),
    ]


def _losers(advice: Advice) -> list[Block]:
    if not advice.losers:
        return []
    rows = [(each.query, each.gain, each.lists) for each in advice.losers[:_NAMED]]
    more = len(advice.losers) - len(rows)
    return [
        Heading("Queries that would lose"),
        Plain(Table(("query", "gain", "lists"), rows, (None, "+.4f", ",.0f"))),
        *([Text(f"And {more:,} more.", "note")] if more else []),
    ]


def _tables(advice: Advice) -> list[Block]:
    verdicts = {True: "passed", False: "failed", None: "not decided"}
    checks = [(check.code, verdicts[check.passed], check.text) for check in advice.checks.checks]
    blocks: list[Block] = [
        Heading("Checks of the log"),
        Plain(Table(("check", "result", "meaning"), checks, (None, None, None)), prose=True),
        Text("Propensities are not needed for this advice; with them it is checked by another way.", "note"),
    ]
    if advice.models:
        rows = [
            (
                each.check.model, each.check.behind, each.check.error, each.check.off,
                "used" if each.gain is not None else _why_not(each.check.plausible, each.check.usable),
            )
            for each in advice.models
        ]  # fmt: skip
        columns = ("click model", "behind", "s.e.", "off", "")
        blocks += [
            Heading("Click models"),
            Plain(Table(columns, rows, (None, ".5f", ".5f", "+.4f", None))),
            Text(
                "*behind*: log-likelihood of a held-out list that the model lacks to the best; *off*: its value of the"
                " logged lists minus what they earned.",
                "note",
            ),
        ]
    return blocks


def _why_not(plausible: bool, usable: bool) -> str:
    return "not plausible" if not plausible else "plausible" if usable else "fails its checks"


def _how(advice: Advice) -> list[Block]:
    if advice.gain is None:
        return []
    return [
        Heading("How this was found"),
        Text(
            "Click models were fitted to the log between the changes of its items. In a simulation of these users every"
            " candidate ran from nothing for as many lists as the log has, with the items that were shown. The"
            f" candidate was chosen on one half of the queries and measured on the other. The interval comes from"
            f" {advice.repetitions} logs per model that were drawn from the fit, with which everything was done again;"
            " it spans all plausible models."
        ),
    ]
