"""The published leaderboard, read from its page: what every policy lost, and against the default one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "leaderboard.md"
#: the end of the label of an oracle
ORACLE = " (oracle)"
SIGNS = {"▼": "better", "▲": "worse", "≈": "same"}


@dataclass(frozen=True)
class Verdict:
    """A policy against another in one environment."""

    environment: str
    ratio: float  #: of regret
    mark: str  #: better, worse, same


@dataclass
class Part:
    """A group of environments that are compared by themselves."""

    title: str
    default: str
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)  #: by policy, against the default one

    def of(self, name: str) -> list[Verdict]:
        """The verdicts on a policy with its default parameters; the default policy is compared with the best other."""
        if name == self.default:
            return [self._of_default(environment) for environment in self.environments]
        return next(
            (found for label, found in self.verdicts.items() if name in label.removesuffix(ORACLE).split(" = ")), []
        )

    @property
    def environments(self) -> list[str]:
        return list(dict.fromkeys(v.environment for found in self.verdicts.values() for v in found))

    def best(self, environment: str, count: int) -> list[tuple[str, float]]:
        """The policies with the least regret in an environment, with the ratio to that of the default one."""
        rows = [(label, verdict.ratio) for label, verdict in self._against(environment)]
        return sorted([*rows, (self.default, 1.0)], key=lambda row: row[1])[:count]

    def _against(self, environment: str) -> list[tuple[str, Verdict]]:
        """The verdicts in an environment, oracles left out."""
        rows = ((label, v) for label, found in self.verdicts.items() for v in found)
        return [(label, v) for label, v in rows if v.environment == environment and not label.endswith(ORACLE)]

    def _of_default(self, environment: str) -> Verdict:
        against = [verdict for _, verdict in self._against(environment)]
        marks = {v.mark for v in against}
        mark = "worse" if "better" in marks else "better" if marks == {"worse"} else "same"
        return Verdict(environment, 1 / min(v.ratio for v in against), mark)


@cache
def parts() -> tuple[Part, ...]:
    """The parts of the published leaderboard."""
    text = PAGE.read_text("utf-8")
    default = re.search(r"^## Where (\w+) loses", text, re.MULTILINE)
    assert default is not None
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title = section.splitlines()[0]
        against = section.partition(f"### {title}: against {default[1]}")[2]
        if not against:
            continue
        part = Part(title, default[1])
        for label, cells in _rows(against):
            verdicts = [
                Verdict(name, float(seen[2].replace(",", "")), SIGNS[seen[1]])
                for name, cell in cells.items()
                if (seen := re.match(r"([▼▲≈])\??\s*([\d.,]+)", cell))
            ]
            part.verdicts[label] = verdicts
        found.append(part)
    return tuple(found)


def _rows(text: str) -> list[tuple[str, dict[str, str]]]:
    """The rows of the first table whose first column is ``policy``, without the columns of totals."""
    lines = iter(text.splitlines())
    head = next((line for line in lines if line.startswith("| policy |")), "")
    names = _cells(head)
    next(lines, None)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        label, *cells = _cells(line)
        by_name = dict(zip(names[1:], cells, strict=True))
        kept = {name: cell for name, cell in by_name.items() if not re.match("ratio to|ns a|better /", name)}
        rows.append((label.strip("*"), kept))
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
