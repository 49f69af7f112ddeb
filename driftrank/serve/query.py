"""A query of a ranker: its learner, and when its items were last offered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, msgpack

from driftrank.policies.base import Policy, Problem
from driftrank.policies.learner import Learner, RankedItems
from driftrank.policies.program import Program
from driftrank.serve.records import Ranked
from driftrank.wire import ItemId

_FORMAT = 1
#: bytes of the Python objects around a learner, about
_AROUND, _PER_ITEM = 1500, 150


class _Saved(Struct, array_like=True):
    format: int
    since: int
    seq: int
    lists: int
    clicks: int
    now: float
    all_seen: float
    sweep: float
    seen: list[float]  # in the order of the learner's items
    learner: bytes


class Query:
    """What is known of one query. Changed only by folding records."""

    __slots__ = ("all_seen", "clicks", "learner", "lists", "nbytes", "now", "seen", "seq", "since", "sweep", "version")

    def __init__(self, learner: Learner, since: int) -> None:
        self.learner = learner
        self.since = since  #: the record that began it
        self.seq = since  #: the last record it has in it
        self.version = 0  #: grows with every change
        self.lists = 0
        self.clicks = 0
        self.now = 0.0  #: the time of the last thing learnt
        self.seen: dict[ItemId, float] = {}  #: when an item was last offered
        self.all_seen = 0.0  #: when all of them were
        self.sweep = 0.0  #: when to look for vanished items next
        self.measure()

    @property
    def steps(self) -> int:
        return self.learner.steps

    def measure(self) -> None:
        """Work out its size in memory."""
        self.nbytes = self.learner.nbytes + _AROUND + _PER_ITEM * len(self.seen)

    def fits(self, policy: Policy, k: int) -> bool:
        """Whether it can be a query of a ranker with these."""
        return self.learner.policy == policy and self.learner.k == k

    def last_offered(self, item: ItemId) -> float:
        return max(self.seen.get(item, 0.0), self.all_seen)

    def missing(self, items: Iterable[ItemId]) -> list[ItemId]:
        """Those that the learner does not know yet."""
        return [item for item in items if item not in self.seen]

    # -- folding ---------------------------------------------------------------------------------------------------

    def offered(self, record: Ranked, keep: float, ready: Learner | None = None) -> None:
        """A list was made of these candidates. New ones begin, those not offered for ``keep`` seconds are forgotten.

        ``ready`` is a learner that has all this done already.
        """
        if ready is not None:
            self.learner = ready
        if record.items is None:
            self.all_seen = record.time
        else:
            if ready is None:
                extend(self.learner, self.missing(record.items), record.items, record.features)
            for item in record.items:
                self.seen[item] = record.time
            self.measure()
        self.lists += 1
        if record.time >= self.sweep:
            self.sweep = record.time + keep / 4
            self._forget(record.time - keep)

    def learn(
        self, shown: Sequence[ItemId], clicks: Sequence[int], now: float, *, like: Ranked | None = None,
        features: list[list[float]] | None = None,
    ) -> None:  # fmt: skip
        """What came of a list; ``like`` is how it was made, where we made it. ``features``: of one from elsewhere."""
        learner = self.learner
        now = max(self.now, now)  # of a state that came from elsewhere, the clock may have been ahead of ours
        new = self.missing(shown)
        items, features = (shown, features) if like is None else (like.items, like.features)
        if new:  # vanished since
            extend(learner, new, items, features)
            self.seen |= dict.fromkeys(new, now)
            self.measure()
        elif features is not None and items is not None:
            extend(learner, [], items, features)
        n = len(shown)
        vector = np.zeros(n, np.int8)
        for position in clicks:
            vector[position - 1] = 1
        if like is None:
            learner.update(list(shown), vector, now=now)
        else:
            width = learner.policy.memo
            memo = np.full(n * width, -1.0) if like.memo is None else np.frombuffer(like.memo, "<f8")[: n * width]
            learner.update(RankedItems(shown, np.zeros(n), memo, like.key), vector, now=now)
        self.now = now
        self.clicks += len(clicks)
        if not learner.steps & 255:
            self.measure()  # windows grow

    def _forget(self, before: float) -> None:
        if self.all_seen >= before:
            return
        gone = [item for item, seen in self.seen.items() if seen < before]
        if gone:
            self.learner.remove_items(gone)
            for item in gone:
                del self.seen[item]
            self.measure()

    # -- saving ----------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        learner = self.learner
        seen = [self.seen[item] for item in learner.items]  # type: ignore[index]
        return msgpack.encode(
            _Saved(
                _FORMAT, self.since, self.seq, self.lists, self.clicks, self.now, self.all_seen, self.sweep, seen,
                learner.to_bytes(),
            )
        )  # fmt: skip

    @classmethod
    def from_bytes(cls, body: bytes) -> Query:
        """Raises ``ValueError`` where it is no such thing."""
        saved = msgpack.decode(body, type=_Saved)
        if saved.format != _FORMAT:
            raise ValueError(f"a query in format {saved.format}, this version reads {_FORMAT}")
        out = cls(Learner.from_bytes(saved.learner), saved.since)
        out.seq, out.lists, out.clicks = saved.seq, saved.lists, saved.clicks
        out.now, out.all_seen, out.sweep = saved.now, saved.all_seen, saved.sweep
        out.seen = dict(zip(out.learner.items, saved.seen, strict=True))  # type: ignore[arg-type]
        out.measure()
        return out


def begin(
    policy: Policy,
    k: int,
    items: Sequence[ItemId],
    features: list[list[float]] | None,
    seed: int,
    horizon: int | None,
    query: str,
) -> Learner:
    """A learner for a query that nobody asked before."""
    described = None if features is None or not policy.contextual else np.asarray(features, float)
    return policy.start(  # type: ignore[no-any-return]
        items, k, features=described, seed=seed, horizon=horizon, query=query, slots=max(k, len(items))
    )


def rehearse(policy: Policy, k: int, horizon: int | None, most: int) -> int:
    """Have all that a query does compiled, which takes a while the first time. Gives the size of a query in memory.

    Where that would be more than ``most`` bytes, no more is done than to say so.
    """
    problem = Problem(max(k, 2), k, horizon, horizon, int(policy.contextual))
    floats, ints = Program.shared(policy, problem).layout.sizes
    if (size := 8 * floats + 4 * ints) > most:
        return size
    rows = [[0.0], [1.0]] if policy.contextual else None
    learner = begin(policy, k, ["a", "b"], rows, 0, horizon, "")
    learner.update(learner.rank(["a", "b"], now=0.0), None, now=0.0)
    learner.greedy(["a", "b"], 1)
    learner.beliefs(now=0.0)
    learner.add_items(["c"], features=None if rows is None else np.asarray(rows[:1]))
    learner.remove_items(["c"])
    return Query(learner, 0).nbytes


def extend(
    learner: Learner, new: Sequence[ItemId], items: Sequence[ItemId] | None, features: list[list[float]] | None
) -> None:
    """Add new items, and describe those for which there are features."""
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
