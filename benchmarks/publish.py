"""Put the figures of a leaderboard into the documentation.

    driftrank leaderboard && python benchmarks/publish.py out/leaderboard

The page and its figure become docs/explanation/leaderboard.md and docs/images/leaderboard.png. What is between the
marks "leaderboard: begin" and "leaderboard: end" is replaced: in docs/explanation/default-policy.md by the losses of
the default policy, and by tables about the parts "users" and "fair"; in docs/explanation/which-policy.md by a short
table of users.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from driftrank.experiments import Leaderboard
from driftrank.experiments.leaderboards.arena import Arena
from driftrank.experiments.leaderboards.findings import amount, counts, losses, plus_minus
from driftrank.experiments.leaderboards.policies import BY_THEORY, INFORMED, TUNED
from driftrank.reporting.table import Table

#: of the published run; it was fixed, with the suite, in a commit before that run
SEED = 23
NOTE = (
    f"Worlds, horizons, runs, policies and their parameters, and the seed ({SEED}) were fixed in a commit before this "
    "run, which is the first with this seed."
)
ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- leaderboard: begin -->", "<!-- leaderboard: end -->"
#: the users in which-policy.md, with an environment in which nothing changes and one in which they do
SHOWN = {
    "cascade: read to the first click": ("Stationary", "Abrupt"),
    "PBM: overlook low positions": ("PBM-1-K5", "PBM-1-breaks"),
    "UBM: overlook, depending on clicks": ("UBM", "UBM-breaks"),
    "DBN: stop when satisfied or tired": ("DBN", "DBN-breaks"),
    "DCM: stop after some of the clicks": ("DCM", "DCM-breaks"),
}
#: at their defaults, the rivals that the default policy is measured by
RIVALS = ("CascadeTS", "GLRTCascadeKLUCB", "CascadeSWTS")


def lost(arena: Arena, label: str) -> float:
    """The part of the clicks that a policy loses in the second half of a run."""
    regret, reward = (
        arena.result.between(label, arena.result.horizon // 2, measure=measure)[0] for measure in ("regret", "reward")
    )
    return regret / (regret + reward)


def least(board: Leaderboard, specs: Iterable[str], arena: Arena) -> tuple[str, float] | None:
    """Of some policies, the one with the least regret in an environment, by its spec."""
    there = [(label, spec) for label, spec in board.specs.items() if spec in specs and board.ran(label, arena.name)]
    return min(((spec, board.regret(label, arena.name)[0]) for label, spec in there), key=lambda x: x[1], default=None)


def cell(found: tuple[str, float] | None) -> str:
    return f"{amount(found[1])} ({found[0].partition(':')[0]})" if found else "–"


def users_table(board: Leaderboard) -> Table:
    """Users who click several times: the default policy beside its rivals and the best of all."""
    rows = []
    for arena in board.arenas:
        own = board.regret(board.default, arena.name)
        rival = least(board, RIVALS, arena)
        best = board.best(arena.name)
        ratio = f"{own[0] / rival[1]:.2f}" if rival else "–"
        everyone = f"{amount(board.regret(best, arena.name)[0])} ({best})"
        rows.append((arena.name, plus_minus(*own), f"{lost(arena, board.default):.1%}", cell(rival), ratio, everyone))
    names = ("users", board.default, "clicks lost in the second half", "best rival", "ratio", "best of all policies")
    return Table(names, rows, (None, "", "", "", "", ""))


def fair_table(board: Leaderboard) -> Table:
    """Worlds with changes: the default policy beside the best rival, however its parameters were chosen."""
    restarted = [spec for spec in board.specs.values() if spec.startswith("OracleRestart")]
    rows = []
    for arena in board.arenas:
        own, oracle = board.regret(board.default, arena.name), least(board, restarted, arena)
        mark = " ‡" if oracle and own[0] < oracle[1] else ""
        rivals = (cell(least(board, specs, arena)) for specs in (TUNED, BY_THEORY, TUNED.values()))
        rows.append((arena.name.removesuffix("-fair"), f"{plus_minus(*own)}{mark}", *rivals, cell(oracle)))
    names = ("environment", board.default, "best rival, defaults", "theory", "tuned", "knows every change")
    return Table(names, rows, (None, *[""] * 5))


def known_table(board: Leaderboard) -> Table:
    """Users whose parameters some rivals know: the default policy beside the best rival with and without them."""
    rows = []
    for arena in board.arenas:
        own = plus_minus(*board.regret(board.default, arena.name))
        without = [spec for spec in board.specs.values() if spec not in INFORMED and spec != board.default]
        rivals = (cell(least(board, specs, arena)) for specs in (INFORMED, without))
        rows.append((arena.name.removesuffix("-known"), own, *rivals))
    names = ("users", board.default, "best rival that knows the parameters", "best without them")
    return Table(names, rows, (None, "", "", ""))


def short_table(board: Leaderboard) -> Table:
    """By users: the default policy beside the best of all others, in bold if that is significantly better."""
    parts = {name: part for part in board.every_part for name in part.environments}

    def beside(name: str) -> tuple[str, str]:
        part = parts[name]
        others = [label for label in part.contenders if label != part.default and part.ran(label, name)]
        best = min(others, key=lambda label: part.regret(label, name)[0])
        verdict = next(c.verdict for c in part.comparisons if (c.policy, c.environment) == (best, name))
        bold = "**" * (verdict == "better")
        return amount(part.regret(part.default, name)[0]), f"{bold}{amount(part.regret(best, name)[0])}{bold} ({best})"

    rows = [
        (users, *beside(still), *beside(changing))
        for users, (still, changing) in SHOWN.items()
        if {still, changing} <= set(parts)
    ]
    names = ("users", board.default, "best of the others", f"{board.default}, changes", "best of the others, changes")
    return Table(names, rows, (None, "", None, "", None))


def block(board: Leaderboard) -> str:
    """The text between the marks."""
    parts = {part.part: part for part in board.every_part}
    texts = [*(f"- {text}" for text in counts(board)), "", losses(board).to_markdown().rstrip()]
    if "users" in parts:
        texts += ["", users_table(parts["users"]).to_markdown().rstrip()]
    if "others" in parts:
        texts += ["", users_table(parts["others"]).to_markdown().rstrip()]
    if "known" in parts:
        texts += ["", known_table(parts["known"]).to_markdown().rstrip()]
    if "fair" in parts:
        texts += ["", fair_table(parts["fair"]).to_markdown().rstrip()]
    return "\n".join(texts)


def put(path: Path, text: str) -> None:
    """Replace what is between the marks of a page."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path}: the marks {BEGIN} and {END} are missing")
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--root", type=Path, default=ROOT, help="of the repository")
    parser.add_argument("--seed", type=int, default=SEED, help="the seed that was fixed before the run")
    options = parser.parse_args()
    docs = options.root / "docs"
    board = Leaderboard.load(options.folder)
    page = (options.folder / "leaderboard.md").read_text(encoding="utf-8")
    if board.arenas[0].result.seed != options.seed:
        raise SystemExit(f"seed={board.arenas[0].result.seed}: must be {options.seed}, which was fixed before the run")
    page = page.replace("](leaderboard.png)", "](../images/leaderboard.png)")
    page = page.replace("\n\n## ", f"\n\n{NOTE}\n\n## ", 1)
    (docs / "explanation" / "leaderboard.md").write_text(page, encoding="utf-8")
    figure = Image.open(options.folder / "leaderboard.png").convert("RGB")
    figure.quantize(128).save(docs / "images" / "leaderboard.png", optimize=True)  # a quarter of the bytes
    put(docs / "explanation" / "default-policy.md", block(board))
    put(docs / "explanation" / "which-policy.md", short_table(board).to_markdown().rstrip())


if __name__ == "__main__":
    main()
