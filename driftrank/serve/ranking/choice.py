"""Rankings: the checked request, the choice of items, the response."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from msgspec import structs

from driftrank.kernels.rng import key_of
from driftrank.policies.base import Policy
from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.ranked_items import RankedItems
from driftrank.policies.learner.shared_model import Prior, SharedModel
from driftrank.serve.log.description import pack_description
from driftrank.serve.log.records import WHY, Ranked
from driftrank.serve.ranking.explore import draw_ranks
from driftrank.serve.ranking.items import check_even, check_query, given_items, used_by
from driftrank.serve.settings.ranker import policy_of
from driftrank.serve.settings.server import ServerSettings
from driftrank.serve.state.arms import Arm, Assignment
from driftrank.serve.state.query import PreparedLearner, Query, add_items
from driftrank.serve.state.ranker import Ranker
from driftrank.validation import check_integer
from driftrank.wire import ENCODER, Item, ItemId, RankedItem, RankerSettings, RankRequest, RankResponse, in_order

if TYPE_CHECKING:
    from driftrank.serve.ranking.paging import Page


class CheckedRequest:
    """A rank request, checked: candidates, what the ranker's policy uses of them, pinned positions, the baseline.

    A policy with a shared model takes candidates in the order of the baseline.
    """

    features: list[list[float]] | None  # vectors, for a policy with features of its own
    description: dict[str, Any]  # of the items, for the shared model
    notes: Sequence[str]  # on what is not used
    __slots__ = (
        "asked", "baseline", "description", "draw", "features", "items", "k", "notes", "offset", "ordered", "pinned",
    )  # fmt: skip

    def __init__(self, limits: ServerSettings, settings: RankerSettings, policy: Policy, request: RankRequest) -> None:
        check_query(request.query, limits)
        if len(request.items) > limits.max_items:
            raise ValueError(f"items: {len(request.items)}, at most {limits.max_items} are allowed")
        wanted = request.items
        if request.excluded:
            out = set(request.excluded)
            wanted = [item for item in wanted if (item.id if isinstance(item, Item) else item) not in out]
        given = given_items("items", wanted, limits)
        items = given.ids
        if not items:
            raise ValueError("items: must have at least one that is not excluded")
        if request.k is not None and not 1 <= request.k <= settings.k:
            raise ValueError(f"k={request.k}: must be from 1 to the ranker's {settings.k}")
        if request.draw is not None:
            check_integer("draw", request.draw, 0, 2**64 - 1)
        self.draw = request.draw
        self.offset = request.offset
        if self.offset:
            _check_page(settings, request, len(items))
        #: the same if the request is repeated
        self.asked = digest(request.query, items, request.k, *((self.offset,) if self.offset else ()))
        self.k = min(request.k or settings.k, len(items) - self.offset)
        self.items = items
        self.baseline = items
        self.ordered = not request.items_unordered or bool(given.scores)
        if request.baseline is not None:
            if request.items_unordered:
                raise ValueError("items_unordered: must not be true with a baseline, which is an order")
            known = dict.fromkeys(items)
            first = [item for item in dict.fromkeys(request.baseline) if item in known]
            rest = known.keys() - set(first)
            self.baseline = [*first, *(item for item in items if item in rest)]
        elif given.scores:
            self.baseline = in_order(wanted)
        # new items begin where the baseline has them
        if (settings.mode == "safe" or policy.shares) and self.baseline is not items:
            self.items = self.baseline
            if given.features or given.scores:
                at = {item: n for n, item in enumerate(items)}
                given = given.at([at[item] for item in self.items])
        self.features, self.description, self.notes = None, {}, ()
        if given.features or given.scores or request.context is not None:
            self.features, self.description, self.notes = used_by(policy, given, request.context, limits)
        self.pinned: dict[int, ItemId] = {}
        if request.pinned:
            # "7" is the item "7" rather than 7
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
    """The items of a ranking."""

    shown: list[ItemId]
    why: str
    score: list[float | None]
    propensity: list[float] | None = None
    memo: bytes | None = None  #: the policy's notes for its update
    places: list[int] = []  #: in the caller's order, for the shared model
    described: bytes | None = None  #: scores, features and context, for the shared model


def make_impression(
    ranker: Ranker, assigned: Assignment, name: str, query: Query | None, request: CheckedRequest, event_id: str,
    now: float, *, defer: bool, page: Page | None = None,
) -> tuple[Ranked, PreparedLearner | None]:  # fmt: skip
    """Rank the candidates of a request for the query ``name``: the record of the impression, and its learner if that is
    not the query's own, which stays as it is until the record is in the log. ``page``: of a list that is to be stable.
    """
    if request.features:
        check_even(request.features)
    arm = assigned.arm
    prepared = _prepare(arm, name, query, request)
    learner = prepared.learner
    offered = _offered(query, request, shares=arm.shares)
    offered_by = query.offered_by(request.asked, now) if query else 0
    known = offered_by or (offered is not None and not arm.shares)
    if page is None:
        key = learner.key_at(key_of(event_id) if request.draw is None else request.draw)
        chosen = choose(arm, learner, request, assigned.name, now, key)
        baseline, instead = _alternatives(arm, learner, request, assigned.name, chosen, now, key)
    else:
        key = learner.key_at(page.draw if request.draw is None else request.draw) if page.key is None else page.key
        chosen = page.choose(arm, learner, request, assigned.name, now, key)
        baseline, instead = page.alternatives or _alternatives(arm, learner, request, assigned.name, chosen, now, key)
    ranked = Ranked(
        ranker.name, name, event_id, now, learner.steps + 1, chosen.shown, chosen.why, key, chosen.score, assigned.name,
        offered, request.features if offered is not None else None, chosen.propensity, chosen.memo,
        defer, arm.since, query.since if query else 0, chosen.places, chosen.described, request.asked,
        None if known else request.items, offered_by, assigned.share, assigned.subject, baseline=baseline,
        instead=instead,
    )  # fmt: skip
    if page is not None:
        ranked = page.marked(ranked)
    return ranked, None if query is not None and learner is query.learner else prepared


def _prepare(arm: Arm, name: str, query: Query | None, request: CheckedRequest) -> PreparedLearner:
    """A learner that has all candidates: the query's own if it has them, else a new one or a copy."""
    if query is None:
        return PreparedLearner(arm.new_learner(name, request.items, request.features), None, 0)
    learner = query.learner
    if learner.open:  # it takes any candidates
        return PreparedLearner(learner, query, query.version)
    new = query.missing(request.items)
    if new or request.features:
        learner = learner.copy()
        add_items(learner, new, request.items, request.features)
    return PreparedLearner(learner, query, query.version)


def _offered(query: Query | None, request: CheckedRequest, *, shares: bool) -> list[ItemId] | None:
    """The candidates that the record must name; None if they are all items of the query."""
    items = request.items
    if shares:
        offered = set(items)
        if query is None or query.seen.keys() <= offered:
            return None
        return [item for item in query.seen if item in offered]
    if query and not request.features and len(query.seen) == len(items) and not query.missing(items):
        return None
    return items


def degraded_response(
    limits: ServerSettings, settings: RankerSettings, request: RankRequest, why: Literal["starting", "store"]
) -> RankResponse:
    """The baseline with pinned items, for a ranker that cannot rank at the moment."""
    checked = CheckedRequest(limits, settings, policy_of(settings), request)
    chosen = _with_pinned(_baseline(checked), checked)
    items = [
        RankedItem(item, n, None, WHY[w])  # type: ignore[arg-type]
        for n, (item, w) in enumerate(zip(*chosen[:2], strict=True), checked.offset + 1)
    ]
    return RankResponse("", items, "baseline", 0, degraded=why)


def _baseline(request: CheckedRequest) -> Chosen:
    pinned = set(request.pinned.values())
    free = request.k - len(pinned)
    items = [item for item in request.baseline if item not in pinned] if pinned else request.baseline
    return Chosen(items[request.offset : request.offset + free], "b" * free, [None] * free)


def shows_baseline(arm: Arm, name: str) -> bool:
    """True if the arm of this name shows the baseline."""
    return name == "holdout" or arm.settings.mode == "shadow"


def choose(arm: Arm, learner: Learner, request: CheckedRequest, name: str, now: float, key: int) -> Chosen:
    """Pinned items at their positions, the others by the policy or the baseline."""
    pinned = set(request.pinned.values())
    free = request.k - len(pinned)
    chosen = choose_free(arm, learner, request, name, pinned, free, now, key) if free else Chosen([], "", [])
    if shows_baseline(arm, name) and name != "holdout" and not pinned:  # a holdout teaches nobody
        chosen = adopted(arm, learner, request, chosen, now, key)
    return _with_pinned(chosen, request)


def choose_free(
    arm: Arm, learner: Learner, request: CheckedRequest, name: str, taken: Collection[ItemId], k: int, now: float,
    key: int, above: int = 0,
) -> Chosen:  # fmt: skip
    """The next ``k`` items by the policy or the baseline, of those that are not taken; ``above`` is the number of
    places above them.
    """
    rest = request.baseline if shows_baseline(arm, name) else request.items
    if taken:
        rest = [item for item in rest if item not in taken]
    chosen = _next(arm, learner, request, name, rest, k, now, key)
    temperature = 0.0 if name == "holdout" else arm.explore
    if not temperature:
        return chosen
    ranks, propensity = draw_ranks(len(rest), k, temperature, key, above)
    if ranks == list(range(k)):
        return chosen._replace(propensity=propensity)
    shown, why, score = list(chosen.shown), chosen.why, list(chosen.score)
    while len(shown) <= max(ranks):  # a policy may rank no more than k at once
        there = set(shown)
        left = [item for item in rest if item not in there]
        more = _next(arm, learner, request, name, left, min(k, len(left)), now, key)
        shown, why, score = shown + more.shown, why + more.why, score + more.score
    drawn = Chosen(
        [shown[rank] for rank in ranks],
        "".join([why[rank] if rank == place else "e" for place, rank in enumerate(ranks)]),
        [score[rank] for rank in ranks],
        propensity,
    )
    # no longer the policy's own ranking, so its memo does not fit
    return drawn if shows_baseline(arm, name) else adopted(arm, learner, request, drawn, now, key)


def _next(
    arm: Arm, learner: Learner, request: CheckedRequest, name: str, rest: list[ItemId], k: int, now: float, key: int
) -> Chosen:
    """The first ``k`` of ``rest``, by the policy or as they are."""
    if shows_baseline(arm, name):
        return Chosen(rest[:k], "b" * k, [None] * k)
    return _ranked_by_policy(arm, learner, request, rest, k, now, key)


def _alternatives(
    arm: Arm, learner: Learner, request: CheckedRequest, name: str, chosen: Chosen, now: float, key: int
) -> tuple[list[ItemId] | None, list[ItemId] | None]:
    """The baseline's list if another may be shown, and the list that the own arm would show: for the holdout, and for a
    shadow that explores.
    """
    if request.offset:  # pages after the first are not compared
        return None, None
    if name == "holdout":
        other = choose(arm, learner, request, arm.settings.mode, now, key).shown
        return None, [] if other == chosen.shown else other
    if shows_baseline(arm, name) and not arm.explore:
        return None, None
    other = _with_pinned(_baseline(request), request).shown
    instead = None
    if shows_baseline(arm, name):
        own = _policy_list(arm, learner, request, now, key)
        instead = [] if own == chosen.shown else own
    return [] if other == chosen.shown else other, instead


def _policy_list(arm: Arm, learner: Learner, request: CheckedRequest, now: float, key: int) -> list[ItemId]:
    """The list that the policy would show, with pinned items."""
    pinned = set(request.pinned.values())
    rest = [item for item in request.items if item not in pinned] if pinned else request.items
    free = request.k - len(pinned)
    own = _ranked_by_policy(arm, learner, request, rest, free, now, key) if free else Chosen([], "", [])
    return _with_pinned(own, request).shown


def adopted(arm: Arm, learner: Learner, request: CheckedRequest, chosen: Chosen, now: float, key: int) -> Chosen:
    """A list that the policy did not make, with what a policy with a shared model needs to learn from it."""
    if arm.shared is None:
        return chosen
    prior = _prior(arm.shared, learner, request, chosen.shown)
    ranking = learner.adopt(chosen.shown, now=now, key=key, prior=prior)
    described = _described(ranking, request)
    return chosen._replace(memo=memo_of(ranking), places=_places(ranking, request), described=described)


def _ranked_by_policy(
    arm: Arm, learner: Learner, request: CheckedRequest, candidates: list[ItemId], k: int, now: float, key: int
) -> Chosen:
    if arm.shared is not None:
        return _ranked_with_prior(arm.shared, learner, request, candidates, k, now, key)
    return _ranked(learner, candidates, k, now, key)


def _with_pinned(chosen: Chosen, request: CheckedRequest) -> Chosen:
    if not request.pinned:
        return chosen
    propensity: Sequence[float | None] = chosen.propensity or [None] * len(chosen.shown)
    rest = iter(zip(chosen.shown, chosen.why, chosen.score, propensity, strict=True))
    merged: list[tuple[ItemId, str, float | None, float | None]] = [
        (request.pinned[position], "p", None, 1.0) if position in request.pinned else next(rest)
        for position in range(1, request.k + 1)
    ]
    known = [m[3] for m in merged if m[3] is not None]
    # no longer the policy's own ranking, so its memo does not fit
    return Chosen(
        [m[0] for m in merged], "".join(m[1] for m in merged), [m[2] for m in merged],
        known if chosen.propensity is not None else None,
    )  # fmt: skip


def _ranked(learner: Learner, candidates: list[ItemId], k: int, now: float, key: int) -> Chosen:
    ranking = learner.rank(candidates, k=k, now=now, key=key)
    best = set(learner.greedy(candidates, k, seen=True))
    return Chosen(
        list(ranking),  # type: ignore[arg-type]
        "".join(["l" if item in best else "e" for item in ranking]),
        [x if isfinite(x) else None for x in ranking.scores.tolist()],
        None if ranking.propensities is None else ranking.propensities.tolist(),
        memo_of(ranking) if learner.policy.memo else None,
    )


def _ranked_with_prior(
    shared: SharedModel, learner: Learner, request: CheckedRequest, candidates: list[ItemId], k: int, now: float,
    key: int,
) -> Chosen:  # fmt: skip
    ranking = learner.rank(candidates, k=k, now=now, key=key, prior=_prior(shared, learner, request, candidates))
    explored = [False] * len(ranking) if ranking.explored is None else ranking.explored.tolist()
    return Chosen(
        list(ranking),  # type: ignore[arg-type]
        "".join(["e" if new else "l" if item in learner else "o" for item, new in zip(ranking, explored, strict=True)]),
        ranking.scores.tolist(),
        None if ranking.propensities is None else ranking.propensities.tolist(),
        memo_of(ranking),
        _places(ranking, request),
        _described(ranking, request),
    )


def _prior(shared: SharedModel, learner: Learner, request: CheckedRequest, candidates: list[ItemId]) -> Prior:
    """The prior of candidates, whose places and scores are those in the request."""
    prior = learner.prior(request.items, shared=shared, ordered=request.ordered, **request.description)
    if candidates is request.items:
        return prior
    at = {item: n for n, item in enumerate(request.items)}
    return prior.at(np.array([at[item] for item in candidates]))


def memo_of(ranking: RankedItems) -> bytes:
    """The policy's notes, as records contain them."""
    return ranking.memo.astype("<f8", copy=False).tobytes()


def _places(ranking: RankedItems, request: CheckedRequest) -> list[int]:
    places = ranking.places
    return [] if not request.ordered or places is None else places.astype(int).tolist()


def _described(ranking: RankedItems, request: CheckedRequest) -> bytes | None:
    x = ranking.described if request.description else None
    return None if x is None else pack_description(x)


def response(ranker: Ranker, ranked: Ranked, notes: Sequence[str] = ()) -> RankResponse:
    items = ranked_items(ranked)
    if not ranker.arms:
        return RankResponse(ranked.event_id, items, ranker.spec, ranked.step, list(notes))
    arm = ranker.arm(ranked.arm) or ranker
    return RankResponse(ranked.event_id, items, arm.spec, ranked.step, list(notes), arm=ranked.arm)


def ranked_items(ranked: Ranked) -> list[RankedItem]:
    """The items of a ranking, as in its answer."""
    items = [
        RankedItem(item, n, score, WHY[why])  # type: ignore[arg-type]
        for n, (item, score, why) in enumerate(
            zip(ranked.shown, ranked.score, ranked.why, strict=True), ranked.offset + 1
        )
    ]
    if ranked.propensity is not None:
        items = [
            structs.replace(item, propensity=propensity)
            for item, propensity in zip(items, ranked.propensity, strict=True)
        ]
    return items


def _check_page(settings: RankerSettings, request: RankRequest, n: int) -> None:
    """Raise unless a page after the first can be requested."""
    check_integer("offset", request.offset, 0)
    if request.subject is None or not settings.stable:
        raise ValueError(
            f"offset={request.offset}: must have a subject, and the ranker the setting stable: otherwise nothing tells "
            "what was on the pages before"
        )
    if request.pinned:
        raise ValueError(f"pinned: must not be given with an offset, here {request.offset}")
    if request.offset >= n:
        raise ValueError(f"offset={request.offset}: must be less than the number of candidates, {n}")


def digest(query: str, items: list[ItemId], k: int | None, *more: int) -> int:
    """A digest of what an event id was used for: the query, the candidates in any order, and k."""
    try:
        in_order: list[ItemId] = sorted(items)
    except TypeError:  # strings and integers
        in_order = sorted(items, key=lambda item: (isinstance(item, str), item))
    return key_of(ENCODER.encode((query, k, in_order, *more)).decode())
