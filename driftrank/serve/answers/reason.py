"""Why an item stands where it does, in one sentence with the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import UNSET

from driftrank.clickmodels.fitting.intervals import wilson
from driftrank.policies.estimates import Belief
from driftrank.wire import ItemState, RankedItem

_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def intervals(beliefs: Sequence[Belief]) -> list[tuple[float | None, float | None]]:
    """The ends of the interval of 95% of each estimate, from its observations and those that its prior is worth; None
    if the estimate is not a share of clicks, or there is nothing behind it.

    >>> intervals([Belief(0.2, None, 340.0, 0.2), Belief(None, None, 0.0, 0.5)])
    [(0.16094, 0.245764), (None, None)]
    """
    estimates = [math.nan if its.estimate is None else its.estimate for its in beliefs]
    n = np.array([(its.samples or 0.0) + (its.strength or 0.0) for its in beliefs])
    p = np.array(estimates)
    low, high = wilson(p * n, n)
    known = (p >= 0.0) & (p <= 1.0) & (n > 0.0) & np.isfinite(n)
    ends = zip(np.round(low, 6).tolist(), np.round(high, 6).tolist(), known.tolist(), strict=True)
    return [(low, high) if known else (None, None) for low, high, known in ends]


def reason(item: ItemState, place: int, of: int) -> str:
    """``place`` from 1 among the ``of`` items of the query, by their scores, or by estimates if chance does the rest.

    >>> from driftrank.serve.times import moment
    >>> item = ItemState("a", 0.2, None, 340.0, 0.2, moment(0.0), None, prior=0.1, strength=20.0, low=0.16, high=0.25)
    >>> reason(item, 3, 12)
    '3rd of 12 by its estimate 0.2 (0.16 to 0.25, from 340 observations, and a prior of 0.1 worth 20 more)'
    """
    where = f"{ordinal(place)} of {of}"
    if item.estimate is None:
        if item.score is not None:
            return f"{where} by its score {item.score:.3g}: it was not observed yet"
        return f"{where}: it was not observed yet, so there is no estimate"
    about = [] if item.low is None or item.high is None else [f"{item.low:.2g} to {item.high:.2g}"]
    if item.samples:
        about.append(f"from {_number(item.samples)} observation{'s' if item.samples != 1 else ''}")
    else:
        about.append("not observed yet")
    behind = ", ".join(about)
    if item.prior is not None and item.samples:
        behind += f", and a prior of {item.prior:.2g} worth {_number(item.strength or 0.0)} more"
    estimate = f"estimate {item.estimate:.3g} ({behind})"
    out = f"{where} by its {estimate}"
    if item.bonus is not None and item.score is not None:
        out = f"{where} by its score {item.score:.3g}: {estimate} and {item.bonus:.2g} for what is uncertain"
    if item.last_change_time is not None:
        out += f"; its users changed at {item.last_change_time:%Y-%m-%dT%H:%M:%S}Z"
    return out


def placed(item: RankedItem, note: Sequence[float] | None) -> str:
    """Why an item is where it is in a list that was served. ``note``: what the memo of the list has of it.

    >>> placed(RankedItem("a", 1, 0.25, "learnt"), [2.0, 18.0, 60.0, 340.0, 0.2, 0.9, 0.5])
    'by its score 0.25: estimate 0.2 (from 340 observations, and a prior of 0.1 worth 20 more)'
    >>> placed(RankedItem("a", 2, 0.41, "explore"), None)
    'to learn more about it, by its score 0.41'
    >>> placed(RankedItem("a", 3, None, "pinned"), None)
    'placed here by the caller'
    """
    if item.why in ("pinned", "baseline"):
        return "placed here by the caller" if item.why == "pinned" else "where your own order has it"
    out = "to learn more about it" if item.why == "explore" else ""
    if item.score is not None:
        out += f"{', ' if out else ''}by its score {item.score:.3g}"
    if note is not None and note[0] >= 0:
        a, b, _, n, mean = note[:5]
        prior = f"a prior of {a / (a + b):.2g} worth {_number(a + b)}"
        if n < 0:
            behind = "its users have changed, so the prior does not count"
        elif n:
            behind = f"from {_number(n)} observation{'s' if n != 1 else ''}, and {prior} more"
        else:
            behind = f"not observed yet, {prior}"
        out += f"{': ' if out else ''}estimate {mean:.3g} ({behind})"
    if item.propensity is not UNSET:
        out += f"{'; ' if out else ''}it had a probability of {item.propensity:.3g} given the items above"
    return out or "chosen by the policy"


def _number(n: float) -> str:
    return f"{n:.0f}" if n >= 10 else f"{n:.2g}"


def ordinal(n: int) -> str:
    """
    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '113th']
    """
    return f"{n}{'th' if 10 < n % 100 < 14 else _ENDINGS.get(n % 10, 'th')}"
