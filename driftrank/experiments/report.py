"""The page about a reproduction: figures, table, settings, and what they say. One file, nothing fetched from elsewhere."""

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
from driftrank.experiments.paper import DRAWN, EPOCHS, OWN, PAPER, PRINTED, SINGLE, Reproduction, short
from driftrank.experiments.paper_figures import figure1, figure2, save_figure

KLUCB = "CascadeKLUCB"


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
    single = f"Figure 2. Single queries ({len(reproduction.single.queries)} of them), {runs} each; every panel has its own scale."
    parts = [
        "<h1>Cascading Non-Stationary Bandits, reproduced</h1>",
        f"<p class=lead>{_lead(reproduction)}</p>",
        _figure(
            folder / "figure1.svg",
            f"Figure 1. Regret after up to {r.horizon:,} steps; lower is better. Mean over {len(r.queries)} queries with {runs} each; "
            "the bands are one standard error of the mean over queries. Vertical lines are breakpoints; in the shaded epochs "
            "three items are perturbed.",
        ),
        "<h2>Table</h2>",
        f"<div class=wide>{reproduction.table().to_html()}</div>",
        "<p class=note>Mean regret ± one standard error over queries: of the whole run, and of three epochs of it. "
        "Speed is that of all cores together, on this machine. <code>table.csv</code> has all digits.</p>",
        "<h2>What the paper reports</h2>",
        *_paragraphs(_reported()),
        "<h2>What came out</h2>",
        _list(outcome(reproduction)),
        "<h2>Where the paper’s two policies lose</h2>",
        _list(losses(reproduction)),
        "<h2>What differs from the paper</h2>",
        _list(differences(reproduction)),
        "<h2>Single queries</h2>",
        _figure(folder / "figure2.svg", single, wide=True),
        "<h2>Settings</h2>",
        _facts(settings(reproduction)),
        "<h2>Repeat it</h2>",
        f"<pre>{escape(shlex.join(command))}</pre>",
        "<p>The seed determines every number on this page except times: they do not depend on the number of cores or on the "
        "machine. <code>run.toml</code> holds the settings, <code>results.parquet</code> the regret, reward and clicks of every "
        "policy, query and run at every checkpoint.</p>",
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>driftrank: the paper reproduced</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


# -- what it says ------------------------------------------------------------------------------------------------------


def _lead(x: Reproduction) -> str:
    r = x.result
    return (
        f"{len(r.queries)} queries × {r.runs} run{'s' * (r.runs > 1)} × {r.horizon:,} steps of {len(r.labels)} policies, "
        f"simulated in {_duration(x.seconds)}. The experiment is that of section 5 of Li and de Rijke, <i>Cascading "
        "Non-Stationary Bandits: Online Learning to Rank in the Non-Stationary Cascade Model</i>, IJCAI 2019."
    )


def _reported() -> list[str]:
    (first, first_error), (late, late_error) = PRINTED[KLUCB, 0], PRINTED[KLUCB, 8]
    return [
        "On 100 queries of the Yandex click log, CascadeDUCB and CascadeSWUCB have less regret than RankedEXP3, CascadeKLUCB and BatchRank, "
        "whose regret is linear; CascadeSWUCB is better than CascadeDUCB by a small gap.",
        f"Only two numbers are printed: CascadeKLUCB loses {first:.2f} ± {first_error} in the first 10,000 steps and {late:.2f} ± {late_error} in steps "
        "80,000–90,000, although users are the same in both. (The two ± cannot be the same statistic of 1,000 runs, so only the means can be compared.)",
    ]


def outcome(x: Reproduction) -> list[str]:
    """Each claim of the paper beside what was measured."""
    r = x.result
    said = []
    if all(name in r.labels for name in OWN):
        sw, d = OWN
        more, error = x.lead(sw, d)
        verdict = "as in the paper" if more > 2 * error else "not clearly so here" if more > 0 else "not so here"
        said.append(
            f"CascadeSWUCB below CascadeDUCB: {verdict}; CascadeDUCB loses {_pm(more, error)} more ({100 * more / r.regret(sw):+.0f}%)."
        )
        rivals = [name for name in PAPER if name in r.labels and name not in OWN]
        best = min(rivals, key=r.regret, default=None)
        if best is not None:
            ahead = [name for name in OWN if r.regret(name) < r.regret(best)]
            verdict = "as in the paper" if len(ahead) == 2 else f"only {ahead[0]}" if ahead else "neither is"
            more, error = x.lead(d, best)
            said.append(
                f"Both below every baseline of the paper: {verdict}; the best of these, {best}, loses {_pm(more, error)} more than CascadeDUCB."
            )
    if KLUCB in r.labels:
        for epoch in (0, 8):
            mean, error = x.epoch(KLUCB, epoch)
            beside = f", in the paper {PRINTED[KLUCB, epoch][0]:.2f}" if x.exact else ""
            said.append(f"{KLUCB} in steps {x.span(epoch)}: {_pm(mean, error)}{beside}.")
    growth = [f"{name} {_later(x, name):.2f}" for name in x.ranked()]
    said.append(
        "Does regret flatten out? Regret of the last two epochs relative to that of the third and fourth: "
        + ", ".join(growth)
        + ". A policy whose regret is linear over epochs has 1; one that gets worse as its past grows has more. "
        "The appendix calls the regret of CascadeDUCB and CascadeSWUCB sub-linear: with changes that keep coming at the same rate "
        "that is so inside an epoch, not over epochs."
    )
    return [escape(text) for text in said]


def losses(x: Reproduction) -> list[str]:
    """Epochs and queries in which another policy is better than one of the paper's two. Counted, not chosen."""
    r = x.result
    rivals = [name for name in r.labels if name not in OWN and "Oracle" not in name]
    said = []
    for own in (name for name in OWN if name in r.labels):
        worse = []
        for epoch in range(EPOCHS if rivals else 0):
            mine = x.epoch(own, epoch)[0]
            least, best = min((x.epoch(name, epoch)[0], name) for name in rivals)
            if least < mine:
                worse.append(f"{x.span(epoch)}: {mine:,.0f} ({best} {least:,.0f})")
        said.append(
            f"{own} has more regret than some baseline in {len(worse)} of {EPOCHS} epochs{': ' * bool(worse)}{'; '.join(worse)}."
        )
    for own in (name for name in OWN if name in r.labels):
        lost = {name: int((x.totals(name) < x.totals(own)).sum()) for name in rivals}
        some = ", ".join(f"{name} on {n}" for name, n in sorted(lost.items(), key=lambda item: -item[1]) if n)
        said.append(
            f"Over the whole run, of {len(r.queries)} queries {own} is beaten {f'by {some}' if some else 'on none'}."
        )
    said.append(
        "Forgetting has a price wherever nothing changes: an item that is always shown keeps a confidence interval that never closes, "
        "so that items of nearly equal attraction are never told apart. Before the first breakpoint that price buys nothing."
    )
    return [escape(text) for text in said]


def differences(x: Reproduction) -> list[str]:
    """What was done otherwise than in the paper, or is not said there."""
    if x.source.startswith("yandex-like:"):
        first = (
            "The queries are not the paper’s. Its 100 Yandex queries are not published; these are drawn from a distribution fitted to "
            "60 public queries of the same log (normal logits of the sorted attraction probabilities). "
            "--queries FILE.json takes real ones."
        )
    else:
        first = f"The queries are those of {x.source}, which need not be the paper’s: its selection is not published."
    said = [first]
    if not x.exact:
        said.append(
            f"The horizon is {x.result.horizon:,} steps instead of 100,000, in epochs of {x.period:,} instead of 10,000."
        )
    if x.result.runs != 10 or len(x.result.queries) != 100:
        said.append(f"{len(x.result.queries)} queries and {x.result.runs} run(s) each, instead of 100 and 10.")
    said += [
        "Read from the text: the first epoch is a default one (the paper’s numbers say so, its recipe starts with a perturbation); the three perturbed "
        "items are drawn anew in every perturbed epoch; ten epochs have nine breakpoints between them, where the paper speaks of ten.",
        "Only items that were observed count in CascadeSWUCB, as the paper’s text has it; its pseudo-code counts displayed ones.",
        f"{KLUCB} explores with ln t + 3 ln ln t, as it was published; ties are broken at random; items never seen come first.",
        f"{SINGLE} starts from a random list and, having 10 items for 3 positions, also exchanges items with those that are not shown.",
        "Regret is computed from the probabilities, not from realised clicks: the same mean, less noise.",
    ]
    return [escape(text) for text in said]


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


def _later(x: Reproduction, policy: str) -> float:
    """Regret of the last two epochs, relative to that of the third and fourth."""
    early = x.epoch(policy, 2)[0] + x.epoch(policy, 3)[0]
    late = x.epoch(policy, EPOCHS - 2)[0] + x.epoch(policy, EPOCHS - 1)[0]
    return late / early if early else float("nan")


# -- how it looks ------------------------------------------------------------------------------------------------------


def _figure(path: Path, caption: str, wide: bool = False) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(caption)}">'
    return (
        f"<figure><div class='paper{' wide' * wide}'>{image}</div><figcaption>{escape(caption)}</figcaption></figure>"
    )


def _list(items: Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{item}</li>" for item in items) + "\n</ul>"


def _paragraphs(texts: Iterable[str]) -> list[str]:
    return [f"<p>{escape(text)}</p>" for text in texts]


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    return "<dl>\n" + "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts) + "\n</dl>"


def _pm(mean: float, error: float) -> str:
    return f"{mean:,.1f}" + (f" ± {error:,.1f}" if error == error else "")


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


_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #ffffff; --soft: #5c5f66; --line: #d9dce1; --code: #f3f4f6; --ours: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6ea; --paper: #15171b; --soft: #a0a4ad; --line: #353941; --code: #1f2229; --ours: #56b4e9; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
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
