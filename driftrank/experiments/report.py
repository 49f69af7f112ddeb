"""The page about a reproduction: figures, table, settings, and what they say, in one file."""

from __future__ import annotations

import base64
import os
import platform
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from driftrank import __version__
from driftrank.experiments.files import written_text
from driftrank.experiments.findings import differences, losses, outcome, reported
from driftrank.experiments.paper import DRAWN, Reproduction, short
from driftrank.experiments.paper_figures import figure1, figure2, save_figure


def write_report(reproduction: Reproduction, folder: str | os.PathLike[str], command: Sequence[str]) -> list[Path]:
    """Write the figures, ``table.csv`` and ``report.html`` beside the numbers; returns what there is now.

    ``command`` repeats the reproduction.
    """
    path = Path(folder)
    save_figure(figure1(reproduction.result), path, "figure1")
    save_figure(figure2(reproduction.single), path, "figure2")
    written_text(path / "table.csv", reproduction.numbers().to_csv())
    written_text(path / "report.html", page(reproduction, path, command))
    return [path / name for name in DRAWN]


def page(reproduction: Reproduction, folder: Path, command: Sequence[str]) -> str:
    """The report as HTML; the figures are read from the folder."""
    r = reproduction.result
    runs = "1 run" if r.runs == 1 else f"{r.runs} runs"
    averaged = (
        f"Figure 1. Regret after up to {r.horizon:,} steps; lower is better. Mean over {len(r.queries)} queries with "
        f"{runs} each; the bands are one standard error of the mean over queries. Vertical lines are breakpoints; "
        "in the shaded epochs three items are perturbed."
    )
    panels = len(reproduction.single.queries)
    single = f"Figure 2. Single queries ({panels} of them), {runs} each. Every panel has its own scale."
    parts = [
        "<h1>Cascading Non-Stationary Bandits, reproduced</h1>",
        f"<p class=lead>{_lead(reproduction)}</p>",
        _figure(folder / "figure1.svg", averaged),
        "<h2>Table</h2>",
        f"<div class=wide>{reproduction.table().to_html()}</div>",
        "<p class=note>Mean regret ± one standard error over queries: of the whole run, and of three epochs of it. "
        "Speed is that of all cores together, on this machine. <code>table.csv</code> has all digits.</p>",
        "<h2>What the paper reports</h2>",
        *(f"<p>{escape(text)}</p>" for text in reported()),
        "<h2>What came out</h2>",
        _list(outcome(reproduction)),
        "<h2>Where the paper's two policies lose</h2>",
        _list(losses(reproduction)),
        "<h2>What differs from the paper</h2>",
        _list(differences(reproduction)),
        "<h2>Single queries</h2>",
        _figure(folder / "figure2.svg", single, wide=True),
        "<h2>Settings</h2>",
        _facts(settings(reproduction)),
        "<h2>Repeat it</h2>",
        f"<pre>{escape(shlex.join(command))}</pre>",
        "<p>The seed determines every number on this page except times; they do not depend on the number of cores or "
        "on the machine. <code>run.toml</code> holds the settings, <code>results.parquet</code> the regret, reward "
        "and clicks of every policy, query and run at every checkpoint.</p>",
    ]
    return _PAGE.replace("STYLE", _STYLE).replace("BODY", "\n".join(parts))


def _lead(x: Reproduction) -> str:
    r = x.result
    each = f"{r.runs} run{'s' * (r.runs > 1)} of {r.horizon:,} steps each"
    return (
        f"{len(r.queries)} queries, {each}, {len(r.labels)} policies: simulated in {_duration(x.seconds)}. "
        "The experiment is that of section 5 of Li and de Rijke, <i>Cascading Non-Stationary Bandits: Online Learning "
        "to Rank in the Non-Stationary Cascade Model</i>, IJCAI 2019."
    )


def settings(x: Reproduction) -> list[tuple[str, str]]:
    r = x.result
    return [
        ("Queries", f"{len(r.queries)}, {x.source}"),
        ("Policies", "; ".join(dict.fromkeys([*r.specs, *x.single.specs]))),
        ("Environment", f"{r.environment}, k=3, epochs of {x.period:,} steps, 3 items at 0.9 in every second one"),
        ("Horizon", f"{r.horizon:,}"),
        ("Breakpoints", ", ".join(short(step) for step in r.breakpoints)),
        ("Runs of each query", str(r.runs)),
        ("Seed", str(r.seed)),
        ("Duration", f"{_duration(x.seconds)}, compilation included"),
        ("Date", datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")),
        (
            "Machine",
            f"{_processor()}, {r.cores} core{'s' * (r.cores > 1)} used, {platform.system()} {platform.machine()}",
        ),
        ("Versions", ", ".join(f"{name} {number}" for name, number in versions())),
    ]


def versions() -> list[tuple[str, str]]:
    found = [("driftrank", __version__), ("Python", platform.python_version())]
    for name in ("numpy", "numba", "llvmlite", "matplotlib", "pyarrow"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found


def _figure(path: Path, caption: str, wide: bool = False) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(caption)}">'
    return (
        f"<figure><div class='paper{' wide' * wide}'>{image}</div><figcaption>{escape(caption)}</figcaption></figure>"
    )


def _list(items: Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in items) + "\n</ul>"


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    return "<dl>\n" + "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts) + "\n</dl>"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>driftrank: the paper reproduced</title>
<style>STYLE</style>
</head>
<body>
<main>
BODY
</main>
</body>
</html>
"""

_STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1b1b1f; --paper: #ffffff; --soft: #5c5f66; --line: #d9dce1; --code: #f3f4f6;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6ea; --paper: #15171b; --soft: #a0a4ad; --line: #353941; --code: #1f2229; }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word;
}
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
.lead, .note, figcaption, dt { color: var(--soft); }
.note, figcaption { font-size: .88rem; }
figure { margin: 1.2rem 0; }
.paper { background: #fff; border: 1px solid var(--line); border-radius: 6px; padding: .5rem; }
.wide, .paper { overflow-x: auto; }
.paper img { display: block; width: 100%; height: auto; min-width: 32rem; }
.paper.wide img { min-width: 52rem; }
figcaption { margin-top: .4rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .35rem .5rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
th { font-weight: 600; border-bottom-width: 2px; white-space: normal; vertical-align: bottom; }
tr :first-child { padding-left: 0; }
.number { text-align: right; }
li { margin: .3rem 0; }
ul { padding-left: 1.2rem; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .3rem 1.2rem; margin: 0; }
dd { margin: 0; min-width: 0; }
pre, code { font-family: ui-monospace, monospace; font-size: .9em; background: var(--code); border-radius: 4px; }
code { padding: .1em .3em; }
pre { padding: .7rem 1rem; overflow-x: auto; }
"""
