"""A query of a ranker: its learner, and when and where its items were last offered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getsizeof
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct, msgpack
from numpy.typing import NDArray

from driftrank.kernels.structures import Described
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.learner.described import describe
from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.ranked_items import RankedItems, described_at
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.serve.log.description import pack_description, unpack_description
from driftrank.serve.log.records import Ranked, Warm
from driftrank.serve.state.changes import FoundChange
from driftrank.wire import ItemId

_FORMAT = 1
#: bytes of the Python objects around a learner, about; of an item whose state is a query's, besides the tables
_AROUND, _PER_ITEM, _PER_OBSERVED = 1500, 150, 24
#: the most items of a query whose descriptions are kept
_MOST_DESCRIBED = 20
#: steps between two notes of estimates, for at most so many items: what they were before a change
_NOTE_EVERY, _MOST_NOTED = 64, 50
#: seconds after which candidates are recorded again though they are the same: the log forgets old records
_OFFER_AGAIN = 86_400.0
#: bytes that a shared model may take even if the memory for queries is smaller
_MOST_MODEL = 2**26


class _Saved(Struct, array_like=True):
    format: int
    since: int
    seq: int
    impressions: int
    clicks: int
    now: float
    all_seen: float
    sweep: float
    seen: list[float]  # in the order of the learner's items
    learner: bytes


class _SavedWithPlaces(_Saved, array_like=True):
    places: list[int] = []  # in the same order


class _SavedWithDescriptions(_SavedWithPlaces, array_like=True):
    described: list[tuple[int, bytes]] = []  # of the items with these numbers in that order


class Offered(NamedTuple):
    """The last record that has the candidates of an impression."""

    asked: int  #: the digest of its request
    seq: int
    time: float


class _SavedWithChanges(_SavedWithDescriptions, array_like=True):
    change_times: list[float] = []
    estimates: list[tuple[int, float]] = []  # by the number of the item, as above
    offered: Offered | None = None


class SavedQueryState(_SavedWithChanges, array_like=True):
    """All that is saved of a query; shorter ones lack what it has at its end."""

    value: float = -1.0  # negative: that of its clicks


class _OnlyKnown(SavedQueryState, array_like=True, forbid_unknown_fields=True):
    """Without what a later version may have added."""


class Query:
    """The state of one query. Changed only by folding records."""

    __slots__ = (
        "all_seen", "change_times", "clicks", "described", "estimates", "impressions", "learner", "nbytes", "now",
        "offered", "places", "resized", "seen", "seq", "since", "sweep", "used", "value", "version",
    )  # fmt: skip

    def __init__(self, learner: Learner, since: int) -> None:
        self.learner = learner
        self.since = since  #: the first record of its generation
        self.seq = since  #: the last record folded into it
        self.resized = since  #: no change of k up to this record is left to be applied
        self.version = 0  #: incremented by every change
        self.impressions = 0
        self.clicks = 0
        self.value = 0.0  #: the sum of the values of these clicks
        self.now = 0.0  #: the time of the last update
        self.seen: dict[ItemId, float] = {}  #: when an item was last offered; the items of the learner
        self.places: dict[ItemId, int] = {}  #: where the caller had it when it was last shown, if there is an order
        #: scores, features and context of the items that were shown last, oldest first, to explain their priors
        self.described: dict[ItemId, bytes] = {}
        self.change_times: list[float] = []  #: of the learner's latest alarms, oldest first
        #: smoothed estimates of the items that were shown of late: after a change, what they were before
        self.estimates: dict[ItemId, float] = {}
        self.offered: Offered | None = None
        self.all_seen = 0.0  #: when all of them were
        self.sweep = 0.0  #: when to forget vanished items next
        self.used = 0  #: a number that grows with every use, of the table that holds it
        self.measure()

    @property
    def steps(self) -> int:
        return self.learner.steps

    def measure(self) -> None:
        """Update its size in memory."""
        tables = _PER_ITEM * len(self.seen)
        if self.learner.open:
            tables = getsizeof(self.seen) + getsizeof(self.places) + _PER_OBSERVED * len(self.seen)
            tables += getsizeof(self.described) + sum(map(getsizeof, self.described.values()))
        if self.estimates:
            tables += getsizeof(self.estimates) + _PER_OBSERVED * len(self.estimates)
        self.nbytes = self.learner.nbytes + _AROUND + tables

    def fit(self, policy: Policy, k: int) -> None:
        """Make it a query of a ranker with these; raises ``ValueError`` if it cannot be."""
        learner = self.learner
        if learner.policy != policy:
            raise ValueError(f"of {learner.policy.spec}, this ranker has {policy.spec}")
        if learner.k < k:
            self.learner = learner.resized(k)
            self.measure()

    def resize(self, changes: Sequence[tuple[int, int]]) -> None:
        """Apply changes of k, each with its record: those that it has not seen."""
        for seq, k in changes:
            if seq > self.resized and self.learner.k < k:
                self.learner = self.learner.resized(k)
                self.version += 1
        self.resized = changes[-1][0]
        self.measure()

    def last_offered(self, item: ItemId) -> float:
        return max(self.seen.get(item, 0.0), self.all_seen)

    def offered_by(self, asked: int, now: float) -> int:
        """The record that has the candidates of this request already; 0: there is none, or it is old."""
        offered = self.offered
        return offered.seq if offered and offered.asked == asked and now < offered.time + _OFFER_AGAIN else 0

    def missing(self, items: Iterable[ItemId]) -> list[ItemId]:
        """The items that the learner does not have."""
        return [item for item in items if item not in self.seen]

    def check(self) -> None:
        """Raise ``ValueError`` if it has descriptions that its policy could not have made."""
        most = getattr(self.learner.policy, "dense", 0)
        for packed in self.described.values():
            x = unpack_description(packed, describe("", [0]))
            if len(x.dense) > most:
                raise ValueError(f"a description with {len(x.dense)} features, at most {most} are allowed")
        if len(self.change_times) > len(self.learner.alarms) or len(self.estimates) > _MOST_NOTED:
            raise ValueError("more times of changes than changes, or more notes of estimates than are kept")

    # -- folding ---------------------------------------------------------------------------------------------------

    def offer(self, seq: int, record: Ranked, retention: float, prepared: Learner | None = None) -> None:
        """Add new candidates of an impression, and forget items that were not offered for ``retention`` seconds.

        ``prepared`` is a copy of the learner that has the candidates already.
        """
        if prepared is not None:
            self.learner = prepared
        if record.items is None:
            self.all_seen = record.time
        else:
            items = record.items
            if self.learner.open:  # items get a state when they are observed
                items = [item for item in items if item in self.seen]
            elif prepared is None:
                add_items(self.learner, self.missing(items), items, record.features)
            for item in items:
                self.seen[item] = record.time
            if not self.learner.open:
                self.measure()
        self.impressions += 1
        if not record.offered_by and record.asked:
            self.offered = Offered(record.asked, seq, record.time)
        if record.time >= self.sweep:
            self.sweep = record.time + retention / 4
            self._forget_items(record.time - retention)

    def learn(
        self, ranking: Sequence[ItemId], clicks: Sequence[int], now: float, *, items: Sequence[ItemId] | None = None,
        features: list[list[float]] | None = None, value: float | None = None,
    ) -> list[FoundChange]:  # fmt: skip
        """Update the learner with the clicked positions of a ranking. ``items`` have these ``features``; ``value`` is
        that of the clicks if they are not worth 1 each.

        Returns the changes that it detected.
        """
        learner = self.learner
        alarms = learner.alarm_count
        now = max(self.now, now)  # an imported state may come from a clock ahead of ours
        new = self.missing(ranking)
        if learner.open:
            pass  # the learner adds what was observed
        elif new:  # vanished since
            add_items(learner, new, items, features)
            self.seen |= dict.fromkeys(new, now)
            self.measure()
        elif features is not None and items is not None:
            add_items(learner, [], items, features)
        learner.update(ranking, click_positions(clicks, len(ranking)), now=now)
        if learner.open:
            self._observe(ranking, now, added=any(item in learner for item in new))
        self.now = now
        self.clicks += len(clicks)
        self.value += len(clicks) if value is None else value
        if not learner.steps & 255:
            self.measure()  # windows grow
        found = learner.alarm_count - alarms
        changes = self._changed(found, now) if found else []
        if not learner.steps % _NOTE_EVERY and learner.detects:
            self._note_estimates(ranking)
        return changes

    def _changed(self, n: int, now: float) -> list[FoundChange]:
        """Note the times of the last ``n`` alarms."""
        alarms = self.learner.alarms
        self.change_times = [*self.change_times, *[now] * n][-len(alarms) :]
        out = []
        for alarm in alarms[-n:]:
            item = alarm.item
            after = self.learner.beliefs([item], now=now)[item].estimate if item in self.learner else None
            out.append(FoundChange(alarm.step, item, alarm.everything, self.estimates.pop(item, None), after))
        if any(alarm.everything for alarm in alarms[-n:]):
            self.estimates.clear()
        return out

    def _note_estimates(self, ranking: Sequence[ItemId]) -> None:
        """Move the noted estimates a quarter of the way to those of now, so that they are some hundred steps old."""
        shown, before = dict.fromkeys(ranking), self.estimates
        items = [item for item in before if item not in shown] + [item for item in shown if item in self.seen]
        beliefs = self.learner.beliefs(items[-_MOST_NOTED:], now=self.now) if items else {}
        self.estimates = {}
        for item in items[-_MOST_NOTED:]:
            estimate = beliefs[item].estimate
            if estimate is not None:
                noted = before.get(item, estimate)
                self.estimates[item] = noted + (estimate - noted) / 4
        self.measure()

    def _observe(self, ranking: Sequence[ItemId], now: float, *, added: bool) -> None:
        """Note the items of a learner that adds and drops them by itself, and where the caller had them."""
        if added:
            items: list[ItemId] = self.learner.items  # type: ignore[assignment]
            self.seen = {item: self.seen.get(item, now) for item in items}
            self.places = {item: place for item, place in self.places.items() if item in self.seen}
            self.described = {item: packed for item, packed in self.described.items() if item in self.seen}
            self.estimates = {item: x for item, x in self.estimates.items() if item in self.seen}
        places = getattr(ranking, "places", None)
        if places is not None:
            for item, place in zip(ranking, places.astype(int).tolist(), strict=True):
                if item in self.seen:
                    self.places[item] = place
        described = getattr(ranking, "described", None)
        if described is not None:
            self._describe(ranking, described)
        if added:
            self.measure()

    def _describe(self, ranking: Sequence[ItemId], described: Described) -> None:
        """Note what was known of the items shown."""
        known = len(described.score) or len(described.dense) or len(described.begin)
        if not known and not self.described:
            return
        for n, item in enumerate(ranking):
            self.described.pop(item, None)
            packed = pack_description(described_at(described, np.array([n]))) if item in self.seen else None
            if packed is not None:
                self.described[item] = packed
        for item in list(self.described)[:-_MOST_DESCRIBED]:
            del self.described[item]

    def _forget_items(self, before: float) -> None:
        if self.all_seen >= before:
            return
        vanished = [item for item, seen in self.seen.items() if seen < before]
        if vanished:
            self.learner.remove_items(vanished)
            for item in vanished:
                del self.seen[item]
                self.places.pop(item, None)
                self.described.pop(item, None)
                self.estimates.pop(item, None)
            self.measure()

    # -- saving ----------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        learner = self.learner
        items: list[ItemId] = learner.items  # type: ignore[assignment]
        saved = (
            _FORMAT, self.since, self.seq, self.impressions, self.clicks, self.now, self.all_seen, self.sweep,
            [self.seen[item] for item in items], learner.to_bytes(),
        )  # fmt: skip
        places = [self.places.get(item, 0) for item in items]
        number = {item: n for n, item in enumerate(items)} if self.described or self.estimates else {}
        described = [(number[item], packed) for item, packed in self.described.items()]
        estimates = [(number[item], x) for item, x in self.estimates.items()]
        changes = self.change_times, estimates, self.offered
        if self.value != self.clicks:
            return msgpack.encode(SavedQueryState(*saved, places, described, *changes, self.value))
        if any(changes):
            return msgpack.encode(_SavedWithChanges(*saved, places, described, *changes))
        if described:
            return msgpack.encode(_SavedWithDescriptions(*saved, places, described))
        return msgpack.encode(_SavedWithPlaces(*saved, places) if self.places else _Saved(*saved))

    @classmethod
    def from_bytes(cls, body: bytes, *, only_known: bool = False) -> Query:
        """Raises ``ValueError`` if it is not a saved query, or with ``only_known`` if a later version added to it."""
        saved = msgpack.decode(body, type=_OnlyKnown if only_known else SavedQueryState)
        if saved.format != _FORMAT:
            raise ValueError(f"a query in format {saved.format}, this version reads {_FORMAT}")
        out = cls(Learner.from_bytes(saved.learner), saved.since)
        out.seq, out.impressions, out.clicks = saved.seq, saved.impressions, saved.clicks
        out.value = saved.value if saved.value >= 0 else float(saved.clicks)
        out.now, out.all_seen, out.sweep, out.resized = saved.now, saved.all_seen, saved.sweep, saved.seq
        items: list[ItemId] = out.learner.items  # type: ignore[assignment]
        out.seen = dict(zip(items, saved.seen, strict=True))
        if saved.places:
            out.places = {item: place for item, place in zip(items, saved.places, strict=True) if place}
        out.described = {items[n]: packed for n, packed in saved.described if 0 <= n < len(items)}
        out.estimates = {items[n]: x for n, x in saved.estimates if 0 <= n < len(items)}
        out.change_times, out.offered = saved.change_times, saved.offered
        out.measure()
        return out


def served_list(record: Ranked | Warm, policy: Policy, n: int | None = None) -> Sequence[ItemId]:
    """The first ``n`` items of an impression, or of a row of an old log, as learners and the shared model get them."""
    every = record.shown if isinstance(record, Ranked) else record.ranking
    shown = every[:n]
    if record.memo is None and isinstance(record, Warm):
        return shown
    n, width = len(shown), policy.memo
    if record.memo is None:
        return RankedItems(shown, np.zeros(n), np.full(n * width, -1.0), record.key)  # type: ignore[return-value]
    memo = np.frombuffer(record.memo, "<f8")[: n * width].copy()
    described = recorded_description(record, n) if policy.shares else None
    return RankedItems(shown, np.zeros(n), memo, record.key, described=described)  # type: ignore[return-value]


def recorded_description(record: Ranked | Warm, n: int) -> Described:
    """The description of the first ``n`` items of a record, for the shared model."""
    if isinstance(record, Ranked):
        every, places = record.shown, record.places
    else:
        every, places = record.ranking, list(range(1, len(record.ranking) + 1))
    described = describe(record.query, every, ordered=False, places=np.array(places, float) if places else None)
    if record.described is not None:
        described = unpack_description(record.described, described)
    return described_at(described, np.arange(n)) if n < len(every) else described


def click_positions(clicks: Sequence[int], n: int) -> NDArray[np.int8] | int | None:
    """The clicks on a ranking of ``n`` items, as learners accept them: as a vector, if there are several."""
    if len(clicks) <= 1:
        return clicks[0] if clicks else None
    vector = np.zeros(n, np.int8)
    for position in clicks:
        vector[position - 1] = 1
    return vector


class PreparedLearner(NamedTuple):
    """The learner that ranked an impression. Travels with its record, in memory only, so that folding need not repeat
    the work; used only if it is still current then.
    """

    learner: Learner
    query: Query | None  #: that it was copied from; None for a new query
    version: int  #: of that query


def new_learner(
    policy: Policy,
    k: int,
    items: Sequence[ItemId],
    features: list[list[float]] | None,
    seed: int,
    horizon: int | None,
    query: str,
) -> Learner:
    """A learner for a new query."""
    described = None if features is None or not policy.contextual else np.asarray(features, float)
    return policy.start(items, k, features=described, seed=seed, horizon=horizon, query=query, slots=max(k, len(items)))


def warm_up(policy: Policy, k: int, horizon: int | None, max_bytes: int) -> int:
    """Compile all that a query needs, and return its size in memory.

    If it exceeds ``max_bytes``, or the shared model does, nothing is compiled.
    """
    problem = RankingProblem(max(k, 2), k, horizon, horizon, int(policy.contextual))
    compiled = CompiledPolicy.cached(policy, problem)
    for layout, most in ((compiled.layout, max_bytes), (compiled.shared_layout, max(max_bytes, _MOST_MODEL))):
        floats, ints = layout.sizes
        if (size := 8 * floats + 4 * ints) > most:
            return size
    rows = [[0.0], [1.0]] if policy.contextual else None
    learner = new_learner(policy, k, () if policy.shares else ["a", "b"], rows, 0, horizon, "")
    shared = SharedModel(policy) if policy.shares else None
    prior = None if shared is None else learner.prior(["a", "b"], shared=shared)
    ranking = learner.rank(["a", "b"], now=0.0, prior=prior)
    learner.update(ranking, None, now=0.0)
    if shared is not None:
        shared.learn(ranking)
    learner.greedy(["a", "b"], 1)
    learner.beliefs(now=0.0)
    learner.add_items(["c"], features=None if rows is None else np.asarray(rows[:1]))
    learner.remove_items(["c"])
    return Query(learner, 0).nbytes


def add_items(
    learner: Learner, new: Sequence[ItemId], items: Sequence[ItemId] | None, features: list[list[float]] | None
) -> None:
    """Add the new ones of ``items``, and describe all those that have features."""
    described: dict[ItemId, Any] = {}
    if features is not None and items is not None and learner.policy.contextual:
        described = dict(zip(items, features, strict=True))
    if new:
        rows = np.asarray([described[item] for item in new], float) if described else None
        learner.add_items(new, features=rows)
    added, there = set(new), set(learner.items)
    known = [item for item in described if item in there and item not in added]  # others have vanished since
    if known:
        learner.describe(known, np.asarray([described[item] for item in known], float))
