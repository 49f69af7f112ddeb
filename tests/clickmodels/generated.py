"""Counts of generated logs, whose parameters are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftrank.clickmodels import ClickModel
from driftrank.clickmodels.fitting.counts import ListCounts, Pairs, PositionCounts
from driftrank.kernels import rng
from driftrank.kernels.compile import specialise


def click_lists(m, alpha, key, items, clicks, mask):
    """The clicks of users on each of many lists."""
    for n in range(items.shape[0]):
        CLICK(m, alpha, DERIVE(key, n), items[n], clicks)  # noqa: F821
        mask[n] = 0
        for k in range(items.shape[1]):
            mask[n] |= np.int64(clicks[k]) << k


def clicks_on(model: ClickModel, alpha: Any, items: Any, key: int) -> Any:
    """The masks of clicks, one user per list."""
    mask = np.zeros(len(items), np.int64)
    step = specialise(click_lists, {"CLICK": type(model).click, "DERIVE": rng.derive})
    row = model.row(len(alpha), items.shape[1])
    step(row, np.array(alpha), np.uint64(key), items.astype(np.uint32), np.zeros(items.shape[1], np.int8), mask)
    return mask


def list_counts(sessions: list[tuple[Any, Any]], L: int) -> ListCounts:
    """From (items, masks) of every query; items are numbers below L."""
    Q = len(sessions)
    pairs = Pairs(np.arange(Q), np.repeat(np.arange(Q, dtype=np.int32), L), np.tile(np.arange(L), Q))
    rows = np.concatenate([np.column_stack([items + q * L, mask]) for q, (items, mask) in enumerate(sessions)])
    lists = np.ones(len(rows), np.int64)
    if len(sessions[0][0].T) < 8:  # longer ones hardly ever occur twice
        rows, lists = np.unique(rows, axis=0, return_counts=True)
    return ListCounts(pairs, rows[:, :-1].astype(np.int32), rows[:, -1], lists)


def position_counts(counts: ListCounts) -> PositionCounts:
    """The same log counted by position, in a plain loop over its positions."""
    n, K = counts.slots.shape
    rows = []
    previous = np.zeros(n, np.int64)
    for k in range(K):
        there = counts.slots[:, k] >= 0
        clicked, below = (counts.mask >> k) & 1, counts.mask >> k
        examined = (counts.mask == 0) | (below > 0)
        key = (counts.slots[:, k].astype(np.int64) * 64 + k + 1) * 64 + previous
        weights = [np.ones(n), clicked, examined, below == 1]
        rows.append(np.column_stack([key, *(w * counts.lists for w in weights)]).astype(np.int64)[there])
        previous = np.where(clicked, k + 1, previous)
    table = np.concatenate(rows)
    key, of = np.unique(table[:, 0], return_inverse=True)
    sums = [np.bincount(of, column, len(key)).astype(np.int64) for column in table[:, 1:].T]
    pair, rank, before = (key // 4096).astype(np.int32), (key // 64 % 64).astype(np.int16), (key % 64).astype(np.int16)
    return PositionCounts(counts.pairs, pair, rank, before, *sums)


@dataclass
class World:
    """Queries with users of one model, and their clicks on lists of random items in random order."""

    cls: type[ClickModel]
    queries: int
    L: int
    K: int
    lists: int
    seed: int = 0
    one_model: bool = False
    attraction: Any = field(init=False)
    models: list[ClickModel] = field(init=False)
    counts: ListCounts = field(init=False)

    def __post_init__(self) -> None:
        draw = np.random.default_rng(self.seed)
        self.attraction = draw.uniform(0.05, 0.6, (self.queries, self.L))
        self.models = [self._model(draw) for _ in range(self.queries)]
        if self.one_model:
            assert "item" not in self.cls.shape.values()
            self.models = self.models[:1] * self.queries
        self.counts = self.generate(self.lists, self.seed)

    def generate(self, lists: int, seed: int) -> ListCounts:
        draw = np.random.default_rng([seed, 1])
        sessions = []
        for q, (alpha, model) in enumerate(zip(self.attraction, self.models, strict=True)):
            items = draw.permuted(np.tile(np.arange(self.L), (lists, 1)), axis=1)[:, : self.K]
            sessions.append((items, clicks_on(model, alpha, items, 1000 * seed + q)))
        return list_counts(sessions, self.L)

    def _model(self, draw: Any) -> ClickModel:
        K = self.K
        size = {"one": (), "item": (self.L,), "rank": (K,), "previous": (K, K)}
        low, high = (0.5, 0.95) if self.cls.__name__ in ("PBM", "UBM", "DBN") else (0.15, 0.85)
        values = {name: draw.uniform(low, high, size[kind]) for name, kind in self.cls.shape.items()}
        if "satisfaction" in values:
            values["satisfaction"] = draw.uniform(0.2, 0.8, self.L)
        if "examination" in values:  # the first rank is always read
            values["examination"][(0, -1) if self.cls.__name__ == "UBM" else 0] = 1.0
        return self.cls(**{name: value.tolist() for name, value in values.items()})

    def fitted_to(self, exact: bool = True) -> Any:
        return self.counts if self.cls.counts_for(exact) == "lists" else position_counts(self.counts)

    def truth(self, name: str) -> Any:
        """A parameter in the form of a fit per query."""
        if name == "attraction":
            return self.attraction.ravel()
        values = np.array([getattr(model, name) for model in self.models])
        return values.ravel() if self.cls.shape[name] == "item" else values
