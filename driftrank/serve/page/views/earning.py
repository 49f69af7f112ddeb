"""Do the arms of a ranker earn more than the baseline? The answer, for a glance."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from driftrank.serve.answers.experiment import compared
from driftrank.serve.state.experiment import Experiment, Pair
from driftrank.serve.state.ranker import Ranker
from driftrank.wire import Comparison


class Earning(NamedTuple):
    """An arm of a ranker compared with the baseline."""

    kind: str  #: a class: good, bad, warn, none
    text: str  #: in a few words
    over: str = "your own order"  #: what it is compared with
    gain: float | None = None  #: relative to the baseline
    low: float | None = None  #: of its interval, which holds at all times
    high: float | None = None
    since: datetime | None = None  #: certain since then
    lists: int = 0  #: behind it
    needed: int | None = None  #: lists until the interval is narrow
    arm: str = ""  #: its name


def earning(ranker: Ranker) -> Earning:
    """The ranker's own arm, or its first one."""
    if found := earnings(ranker):
        return found[0]
    if ranker.settings.mode == "shadow":
        return Earning("none", "shadow: your own order is shown")
    return Earning("none", "no baseline: set holdout to compare")


def earnings(ranker: Ranker) -> list[Earning]:
    """All arms that are compared, the ranker's own first."""
    sums = ranker.experiment
    pairs = [pair for pair in sums.pairs if pair.lists and not pair.until]
    return [_of_pair(sums, pair) for pair in sorted(pairs, key=lambda pair: pair.arm != ranker.settings.mode)]


def _of_pair(sums: Experiment, pair: Pair) -> Earning:
    found = compared(sums, pair)
    over = "your own order" if pair.baseline == "holdout" else f"the arm {pair.baseline}"
    base = sums.arms.get(pair.baseline)  # None: it has no lists yet
    if found.clicks is None or base is None or not base.clicks:
        text = "feedback is lost unevenly: no comparison" if found.refused == "lost-feedback" else "too early to say"
        return Earning("none", text, over, lists=found.lists, arm=pair.arm)
    level = base.clicks / base.lists
    gain, low, high = (x / level for x in (found.clicks.difference, found.clicks.low, found.clicks.high))
    kind, text = _verdict(found)
    return Earning(kind, text, over, gain, low, high, found.certain_since, found.lists, found.needed, pair.arm)


def _verdict(found: Comparison) -> tuple[str, str]:
    assert found.clicks is not None
    if found.clicks.low > 0:
        return "good", "earns more"
    if found.clicks.high < 0:
        return "bad", "earns less"
    return "warn", "not certain yet"
