"""The page of a leaderboard: the same content as HTML in one file, and as Markdown with its image."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from driftrank.experiments.leaderboards.arena import LEVEL, Detection
from driftrank.experiments.leaderboards.figure import board_figure, shown_policies
from driftrank.experiments.leaderboards.findings import (
    HALF,
    LARGE,
    TOLERATED,
    advice,
    amount,
    beaten,
    counts,
    detection,
    forgetting,
    losses,
    price,
    suspicious,
    title,
)
from driftrank.experiments.leaderboards.leaderboard import DRAWN
from driftrank.experiments.leaderboards.result import Leaderboard
from driftrank.experiments.leaderboards.suite import PARTS
from driftrank.files import written_text
from driftrank.reporting.page import (
    Block,
    Bullets,
    Cell,
    Code,
    Facts,
    Grid,
    Heading,
    Picture,
    Plain,
    Row,
    Text,
    duration,
    html_page,
    markdown_page,
    origin,
)
from driftrank.reporting.plot_style import save_figure
from driftrank.reporting.seen import counted
from driftrank.reporting.table import Table

#: the signs of the verdicts
SIGNS = {"better": "▼", "worse": "▲", "not significant": "≈"}


def write_page(board: Leaderboard, folder: str | os.PathLike[str], command: Sequence[str]) -> list[Path]:
    """Write the figure, ``table.csv`` and the page beside the numbers; returns their paths.

    ``command`` repeats the leaderboard.
    """
    path = Path(folder)
    save_figure(board_figure(board), path, "leaderboard", dpi=110)
    written_text(path / "table.csv", board.numbers().to_csv())
    blocks = content(board, command)
    written_text(path / "leaderboard.html", html_page("driftrank: leaderboard", blocks, path, width=84))
    written_text(path / "leaderboard.md", markdown_page(blocks))
    return [path / name for name in DRAWN]


def content(board: Leaderboard, command: Sequence[str]) -> list[Block]:
    """The blocks of the page: what a reader must know first, then every part of the suite."""
    return [
        Heading("Leaderboard", 1),
        Text(_lead(board), "lead"),
        Heading(f"Where {board.default} loses"),
        Bullets(counts(board)),
        *_losses(board),
        Heading("Which policy for which users"),
        Plain(advice(board), prose=True),
        Text(
            "Of the policies that ran in all of these environments, the one with the smallest *ratio to best*, and in "
            "how many environments it is significantly better or worse than the default policy.",
            "note",
        ),
        *_suspicious(board),
        *(block for part in board.every_part for block in _part(part, with_picture=part is board)),
        Heading("Settings"),
        Facts(_settings(board)),
        Heading("Repeat it"),
        Code(shlex.join(command)),
        Text(
            "The seed determines every number on this page except times; they do not depend on the number of cores or "
            "on the machine. `results.parquet` has the regret, reward, clicks and alarms of every policy, environment, "
            "query and run at every checkpoint; `table.csv` and `summary.json` have what is shown here with all digits."
        ),
    ]


def _losses(board: Leaderboard) -> list[Block]:
    found = losses(board)
    if not found.rows:
        return []
    about = (
        f"Every environment in which a policy has significantly less regret than {board.default}, by the paired test "
        f"below, or in which the loss is large whatever the test says: at least {LARGE} times the regret of another "
        f"policy, and a click in 1,000 lists. Beside it the other policy with the least regret (of many policies the "
        "best one is lucky too), the clicks lost to it, and how many policies are significantly better. A ? marks what "
        "the permutation test does not confirm."
    )
    return [Plain(found, prose=True), Text(about, "note")]


def _suspicious(board: Leaderboard) -> list[Block]:
    found = suspicious(board)
    if not found:
        return []
    about = (
        "A policy that beats every oracle should arouse suspicion. An oracle is not a bound: OracleRestart forgets "
        "all it has learnt at every breakpoint, and learns again with the prior of its policy. That loses under drift, "
        "where every step is a breakpoint; when regimes come back; when announced items are the only new ones; and if "
        "the same items stay the best in another order. Elsewhere the difference is that between a good "
        "prior, or a cheaper order of the list, and those of the oracle's policy."
    )
    return [Heading("Better than every oracle"), Bullets(found), Text(about, "note")]


def _part(board: Leaderboard, with_picture: bool) -> list[Block]:
    """A group of environments, by itself."""
    blocks: list[Block] = [Heading(title(board))]
    if board.part in PARTS:
        blocks.append(Text(PARTS[board.part].about))
    if board.with_caller:
        blocks += [gain_grid(board), Text(_about_gains(board), "note")]
    else:
        blocks += [regret_grid(board), Text(_about_regret(board), "note")]
    blocks += [
        Heading(f"{title(board)}: against {board.default}", 3),
        comparison_grid(board),
        Text(_about_comparisons(board), "note"),
    ]
    if with_picture:
        blocks += [
            Heading(f"{title(board)}: over time", 3),
            Picture("leaderboard", _caption(board), _seen(board), wide=True),
        ]
    if not board.with_caller:
        blocks += [
            Heading(f"{title(board)}: detection", 3),
            *_detection(board),
            Heading(f"{title(board)}: where forgetting hurts", 3),
            Bullets(forgetting(board)),
            Heading(f"{title(board)}: where detection fails", 3),
            Bullets(detection(board)),
        ]
    return [
        *blocks,
        Heading(f"{title(board)}: where {board.default} is beaten", 3),
        Bullets(beaten(board)),
        *_price(board),
        Heading(f"{title(board)}: environments", 3),
        Plain(environment_table(board), prose=True),
    ]


def regret_grid(board: Leaderboard) -> Grid:
    """Final regret by policy and environment, the best marked."""
    least = {name: board.regret(board.best(name), name)[0] for name in board.environments}
    rows = []
    for label in board.ranked():
        cells = [Cell(_score(board.scores[label])), Cell(f"{board.nanoseconds(label):,.0f}")]
        for arena in board.arenas:
            mean, error = board.regret(label, arena.name)
            if label in arena.obstacles:
                cells.append(Cell(arena.obstacles[label], mark="missing"))
                continue
            small = [] if math.isnan(error) else [f"± {amount(error, mean)}"]
            best = board.groups[label] != "oracle" and mean == least[arena.name]
            cells.append(Cell(amount(mean), small, "best" if best else ""))
        rows.append(_row(board, label, cells))
    return Grid(("policy", "ratio to best", "ns a step", *board.environments), rows)


def gain_grid(board: Leaderboard) -> Grid:
    """Clicks a list that policies gain over the caller's order in Traffic, the best marked."""
    rows = []
    for label in board.ranked():
        cells = [Cell(_score(board.scores[label])), Cell(f"{board.nanoseconds(label):,.0f}")]
        for arena in board.arenas:
            if label in arena.obstacles:
                cells.append(Cell(arena.obstacles[label], mark="missing"))
                continue
            gain, error = arena.gain(label)
            best = board.groups[label] != "oracle" and label == board.best(arena.name)
            cells.append(Cell(f"{gain:+.4f}", [f"± {error:.4f}"], "best" if best else ""))
        rows.append(_row(board, label, cells))
    most = [sum(arena.caller) / len(arena.caller) / arena.result.horizon for arena in board.arenas]
    rows.append(Row("best list", [Cell("–"), Cell("–"), *(Cell(f"{gain:+.4f}") for gain in most)], apart=True))
    return Grid(("policy", "ratio to best", "ns a list", *board.environments), rows)


def comparison_grid(board: Leaderboard) -> Grid:
    """Better, worse or not significant, by policy and environment."""
    compared = {(c.policy, c.environment): c for c in board.comparisons}
    marks = {"better": "better", "worse": "worse", "not significant": "same"}
    rows = []
    for label in board.ranked():
        if label == board.default:
            continue
        own = [compared.get((label, arena.name)) for arena in board.arenas]
        verdicts = [c.verdict for c in own if c]
        cells = [Cell(f"{verdicts.count('better')} / {verdicts.count('worse')}")]
        for c in own:
            if c is None:
                cells.append(Cell("–"))
                continue
            doubt = "?" if c.verdict != "not significant" and not c.confirmed else ""
            cells.append(Cell(f"{SIGNS[c.verdict]}{doubt} {_ratio(c.ratio)}", mark=marks[c.verdict]))
        rows.append(_row(board, label, cells))
    return Grid(("policy", "better / worse", *board.environments), rows)


def detection_grid(board: Leaderboard) -> Grid:
    """Share of breakpoints detected, mean delay, false alarms per run, by policy and environment."""
    found = {(d.policy, d.environment): d for d in board.found_changes}
    shown = [arena.name for arena in board.arenas if arena.changes or arena.kind == "stationary"]
    rows = []
    for label in dict.fromkeys(d.policy for d in board.found_changes):
        cells = [_detected(found.get((label, name))) for name in shown]
        rows.append(_row(board, label, cells))
    return Grid(("policy", *shown), rows)


def environment_table(board: Leaderboard) -> Table:
    """The environments of the leaderboard."""
    rows = []
    for arena in board.arenas:
        result = arena.result
        size = f"{len(result.queries)} × {result.runs}"
        each = arena.changes / arena.runs
        shown = f"{each:.3g}" if each else "–"
        command = f"{arena.spec} {arena.options}".strip()
        rows.append((arena.name, arena.what, command, size, shown, board.best(arena.name)))
    names = ("environment", "what happens", "simulate --env", "queries × runs", "breakpoints to detect", "least regret")
    return Table(names, rows, (None, None, None, "", "", None))


def _row(board: Leaderboard, label: str, cells: list[Cell]) -> Row:
    oracle = board.groups[label] == "oracle"
    names = next((" = ".join(alike) for alike in board.twins() if alike[0] == label), label)
    return Row(f"{names} (oracle)" if oracle else names, cells, apart=oracle, mine=label == board.default)


def _detected(d: Detection | None) -> Cell:
    if d is None:
        return Cell("–")
    false = f"{d.false_alarms:.1f} false"
    if not d.changes:
        return Cell("–", [false], "worse" if d.false_alarms > TOLERATED else "")
    delay = [] if math.isnan(d.delay) else [f"{d.delay:,.0f} steps"]
    return Cell(f"{d.share:.0%}", [*delay, false], "worse" if d.share < HALF else "")


def _detection(board: Leaderboard) -> list[Block]:
    if not board.found_changes:
        return [Text("No policy raised an alarm.")]
    about = (
        "The share of breakpoints that were detected (before the next one), the mean number of steps that this took, "
        "and false alarms per run. An alarm is false if its item has not changed since it was last cleared. "
        "Environments with announced changes, or with drift only, have no breakpoints to detect and are left out; "
        "in stationary environments all alarms are false."
    )
    return [detection_grid(board), Text(about, "note")]


def _price(board: Leaderboard) -> list[Block]:
    costs = price(board)
    return [Heading(f"{title(board)}: the price of being better", 3), Bullets(costs)] if costs else []


def _about_gains(board: Leaderboard) -> str:
    runs, horizon = board.arenas[0].runs, board.arenas[0].result.horizon
    about = (
        f"{runs} runs of {horizon:,} lists. The numbers are expected clicks a list, less those of the order that the "
        "caller had, ± one standard error over runs; the last row is what the best list gains. *Ratio to best* is of "
        "regret, over the environments of this table only."
    )
    return f"{about} Could not run: {', '.join(_missing(board))}." if _missing(board) else about


def _missing(board: Leaderboard) -> list[str]:
    return [f"{label} in {arena.name} ({why})" for arena in board.arenas for label, why in arena.obstacles.items()]


def _lead(board: Leaderboard) -> str:
    parts = board.every_part
    contenders = {label for part in parts for label in part.contenders}
    oracles = len({label for part in parts for label in part.specs if part.groups[label] == "oracle"})
    more = f" and {oracles} oracle{'s' * (oracles > 1)}" if oracles else ""
    total = sum(len(part.arenas) for part in parts)
    groups = f", in {len(parts)} groups that are compared by themselves" if len(parts) > 1 else ""
    seconds = sum(part.seconds for part in parts)
    best = "; ".join(_best(part) for part in parts)
    return (
        f"{len(contenders)} policies{more} in {total} environments{groups}: simulated in {duration(seconds)}. All "
        "policies meet the same users, and have their default parameters unless their names give others. The least "
        f"regret relative to the best policy of each environment, in the geometric mean: {best}."
    )


def _best(board: Leaderboard) -> str:
    """The best policy of a part, and the default one."""
    first, own = board.ranked()[0], board.default
    shown = f"{title(board)}: {first} {_score(board.scores[first])}"
    return shown if first == own or own not in board.scores else f"{shown} ({own} {_score(board.scores[own])})"


def _about_regret(board: Leaderboard) -> str:
    text = (
        "Mean regret at the end of a run ± one standard error of the mean over queries (over runs if an environment "
        "has one query); lower is better, and the best of each environment is marked. *Ratio to best* sorts the table: "
        "in every environment, regret is divided by that of the best policy there, and the geometric mean of these "
        "ratios is taken over the environments. The best is chosen on one half of the queries for the other half and "
        "the other way round, so that its luck does not count. 1 would be a policy that is the best everywhere, 2 one "
        "that typically loses twice as much as the best; every environment has the same weight, however much regret "
        "there is. Oracles know the truth: they are references, listed separately and never the best. StaticOracle "
        "shows the best list that never changes, OracleRestart restarts a policy, by default CascadeTS, at every "
        "breakpoint, which under drift is all the time. "
        "*ns a step* is the time of a core, the users' part included."
    )
    for alike in board.twins():
        text += f" {' and '.join(alike)} made the same choices in every run: they are one policy, and count once."
    if _missing(board):
        text += (
            f" Could not run, so that their ratio is over the other environments only: {', '.join(_missing(board))}."
        )
    return text


def _about_comparisons(board: Leaderboard) -> str:
    fewest = min(len(arena.samples(board.default)) for arena in board.arenas if board.ran(board.default, arena.name))
    weak = f" With {fewest} queries or runs only very regular differences are significant." if fewest < 10 else ""
    decided = [c for c in board.comparisons if c.verdict != "not significant"]
    confirmed = sum(c.confirmed for c in decided)
    return (
        f"Regret divided by that of {board.default}, and the verdict of a paired test: "
        f"{SIGNS['better']} better, {SIGNS['worse']} worse, {SIGNS['not significant']} not significant. "
        f"Both policies met the same users, so their difference is taken query by query (or run by run if an "
        f"environment has one query) and tested with Student's t; Holm's correction makes it improbable "
        f"(at most {LEVEL:.0%}, if differences are normal) that even one of all {len(board.comparisons)} verdicts is "
        f"wrong. A permutation test of the signs, exact and without that assumption, confirms {confirmed} of the "
        f"{len(decided)} significant ones after the same correction; a ? marks the others.{weak}"
    )


def _caption(board: Leaderboard) -> str:
    alarmed = bool(board.found_changes)
    strip = " Below: when policies that detect changes raised alarms, the darker the more." if alarmed else ""
    return (
        f"Mean regret of {len(shown_policies(board))} policies over time, with bands of one standard error; every "
        f"panel has its own scale. Vertical lines are breakpoints that most runs have in common.{strip}"
    )


def _seen(board: Leaderboard) -> str:
    least = [board.best(name) for name in board.environments]
    return (
        f"Line charts of regret over time in {len(least)} environments. Least regret at the end, oracles left out: "
        f"{counted(least)} of them."
    )


def _settings(board: Leaderboard) -> list[tuple[str, str]]:
    result = board.arenas[0].result
    parts = board.every_part
    specs = {spec: None for part in parts for spec in part.specs.values()}
    most = max(len(arena.result.queries) for part in parts for arena in part.arenas)
    return [
        ("Queries", f"{most}, {board.source or 'given'}"),
        ("Positions", str(board.k)),
        ("Policies", "; ".join(specs)),
        ("Horizon", f"{max(arena.result.horizon for part in parts for arena in part.arenas):,}"),
        ("Seed", str(result.seed)),
        *origin(sum(part.seconds for part in parts), result.cores),
    ]


def _score(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def _ratio(value: float) -> str:
    value = max(value, 0.0)  # rounding errors may be negative
    return "" if math.isnan(value) else f"{value:.2f}" if value < 10 else f"{value:,.0f}"
