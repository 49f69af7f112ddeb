"""Lists: what is asked for, what is chosen, what is answered."""

from __future__ import annotations

import re
from math import isfinite
from typing import NamedTuple

from msgspec import structs

from driftrank.kernels.rng import key_of
from driftrank.policies.learner import Learner
from driftrank.serve.config import ServerSettings
from driftrank.serve.fold import Ranker
from driftrank.serve.items import check_query, ids_and_features
from driftrank.serve.records import WHY, Ranked
from driftrank.wire import Item, ItemId, RankedItem, RankerSettings, RankRequest, RankResponse

_DRAW = re.compile(r"[^\n]*:(\d{1,19})")


class Ask:
    """A rank request, checked: candidates, features, positions taken, the baseline."""

    __slots__ = ("baseline", "features", "items", "k", "pinned")

    def __init__(self, limits: ServerSettings, settings: RankerSettings, request: RankRequest) -> None:
        check_query(request.query, limits)
        if len(request.items) > limits.max_items:
            raise ValueError(f"items: {len(request.items)}, at most {limits.max_items} are allowed")
        wanted = request.items
        if request.excluded:
            out = set(request.excluded)
            wanted = [item for item in wanted if (item.id if isinstance(item, Item) else item) not in out]
        items, rows = ids_and_features("items", wanted, limits)
        if not items:
            raise ValueError("items: there is none to show")
        self.features = rows or None
        if request.k is not None and not 1 <= request.k <= settings.k:
            raise ValueError(f"k={request.k}: must be from 1 to the ranker's {settings.k}")
        self.k = min(request.k or settings.k, len(items))
        self.items = items
        self.baseline = items
        if request.baseline is not None:
            known = dict.fromkeys(items)
            first = [item for item in dict.fromkeys(request.baseline) if item in known]
            rest = known.keys() - set(first)
            self.baseline = [*first, *(item for item in items if item in rest)]
        if settings.mode == "safe" and self.baseline is not items:  # new items begin where the baseline has them
            if self.features is not None:
                by = dict(zip(items, self.features, strict=True))
                self.features = [by[item] for item in self.baseline]
            self.items = self.baseline
        self.pinned: dict[int, ItemId] = {}
        if request.pinned:
            # of 7 and "7" it means the text
            named = {str(item): item for item in sorted(items, key=lambda item: isinstance(item, str))}
            for name, position in request.pinned.items():
                if name not in named:
                    raise ValueError(f"pinned: {name!r} is not among the items, or is excluded")
                if not 1 <= position <= self.k:
                    raise ValueError(f"pinned: {name!r} at position {position}: must be from 1 to {self.k}")
                if position in self.pinned:
                    raise ValueError(f"pinned: two items at position {position}")
                self.pinned[position] = named[name]


class Chosen(NamedTuple):
    """A list, and what there is to say of it."""

    shown: list[ItemId]
    why: str
    score: list[float | None]
    propensity: list[float] | None = None
    memo: bytes | None = None  #: what the policy must be told again when it learns


def choose(learner: Learner, ask: Ask, arm: str, now: float, key: int) -> Chosen:
    """The list: pinned items in their places, the others by the policy or the baseline."""
    taken = set(ask.pinned.values())
    free = ask.k - len(taken)
    candidates = [item for item in ask.items if item not in taken] if taken else ask.items
    if arm in ("shadow", "holdout"):
        chosen = Chosen([item for item in ask.baseline if item not in taken][:free], "b" * free, [None] * free)
    elif free:
        chosen = _ranked(learner, candidates, free, now, key)
    else:
        chosen = Chosen([], "", [])
    if not taken:
        return chosen
    rest = iter(zip(chosen.shown, chosen.why, chosen.score, strict=True))
    merged: list[tuple[ItemId, str, float | None]] = [
        (ask.pinned[position], "p", None) if position in ask.pinned else next(rest) for position in range(1, ask.k + 1)
    ]
    # it is no longer the list that the policy made, so what it would have to be told does not fit
    return Chosen([m[0] for m in merged], "".join(m[1] for m in merged), [m[2] for m in merged])


def _ranked(learner: Learner, candidates: list[ItemId], k: int, now: float, key: int) -> Chosen:
    ranking = learner.rank(candidates, k=k, now=now, key=key)
    best = set(learner.greedy(candidates, k, seen=True))
    return Chosen(
        list(ranking),  # type: ignore[arg-type]
        "".join(["l" if item in best else "e" for item in ranking]),
        [x if isfinite(x) else None for x in ranking.scores.tolist()],
        None if ranking.propensities is None else ranking.propensities.tolist(),
        ranking.memo.astype("<f8").tobytes() if learner.policy.memo else None,
    )


def response(ranker: Ranker, ranked: Ranked) -> RankResponse:
    """What is answered."""
    items = [
        RankedItem(item, n + 1, score, WHY[why])  # type: ignore[arg-type]
        for n, (item, score, why) in enumerate(zip(ranked.shown, ranked.score, ranked.why, strict=True))
    ]
    if ranked.propensity is not None:
        items = [
            structs.replace(item, propensity=propensity)
            for item, propensity in zip(items, ranked.propensity, strict=True)
        ]
    return RankResponse(ranked.event, items, ranker.spec, ranked.step)


def draw(event_id: str) -> int:
    """Which draw of its query's randomness a list takes.

    The n of an id that ends in ``:n``, so that a simulation can be repeated; of other ids a hash.

    >>> draw("morning:42"), draw("42") == draw("42"), draw("42") == draw("43")
    (42, True, False)
    """
    found = _DRAW.fullmatch(event_id)
    return int(found[1]) if found else key_of(event_id)
