"""Replay: the lists of a ranker teach another policy, offline.

The lists are those that were shown, with their clicks: the other policy learns from them as from an old click log (a
warm start), in the order in which they ended. That tells what it learns from these lists. It is not an estimate of
how it would have done: it would have shown other lists, whose clicks are unknown.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from driftrank.files import written, written_text
from driftrank.policies.base import Policy
from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.serve.log.ended_lists import EndedList, EndedLists, chosen_ranker
from driftrank.serve.log.store.base import open_reader
from driftrank.serve.state.query import Query, click_positions, new_learner, recorded_description
from driftrank.validation import check_integer
from driftrank.wire import ItemId


class BestItem(NamedTuple):
    """The belief of a learner about an item."""

    item: ItemId
    estimate: float
    samples: float


class StoreReplay:
    """Learners of a policy for the queries of a ranker, and its shared model if it has one."""

    def __init__(self, policy: Policy, k: int) -> None:
        if policy.oracle:
            raise ValueError(f"policy={policy.spec}: must not be an oracle, which only a simulation can run")
        self.policy, self.k = policy, k
        self._queries: dict[str, Query] = {}
        self.shared = SharedModel(policy) if policy.shares else None
        self.lists = self.clicks = 0  #: learnt from
        self.notes: list[str] = []  #: on lists that are left out
        self.left_out: Counter[str] = Counter()  #: reasons, and the number of lists

    @property
    def learners(self) -> dict[str, Learner]:
        """By query, those with the most lists first."""
        busiest = sorted(self._queries.items(), key=lambda entry: -entry[1].steps)
        return {name: query.learner for name, query in busiest}

    def learn(self, ended: EndedList) -> None:
        """Learn from a list, unless it is of the holdout, which teaches nobody."""
        ranked = ended.ranked
        if ranked.arm == "holdout":
            self.left_out["of the holdout"] += 1
            return
        items = ended.items[: self.k]
        clicks = [click for click in ended.final.clicks if click <= self.k]
        try:
            self._learn(ended, items, clicks)
        except ValueError as error:
            self.left_out[f"not accepted by the policy ({error})"] += 1
        else:
            self.lists += 1
            self.clicks += len(clicks)

    def _learn(self, ended: EndedList, items: list[ItemId], clicks: list[int]) -> None:
        ranked = ended.ranked
        query = self._queries.get(ranked.query)
        if query is None:
            # features are of the candidates
            candidates = ranked.items if ranked.features is not None and ranked.items is not None else items
            start = () if self.shared is not None else candidates
            learner = new_learner(self.policy, self.k, start, ranked.features, 0, None, ranked.query)
            query = Query(learner, ended.seq)
            query.seen = dict.fromkeys(start, ended.final.time)
        ranking: Sequence[ItemId] = items
        now = ended.final.time  # as in the service
        if self.shared is not None:
            prior = self.shared.prior(recorded_description(ranked, len(items)))
            adopted = query.learner.adopt(items, now=now, key=ranked.key, prior=prior)
            self.shared.learn(adopted, click_positions(clicks, len(items)))
            ranking = adopted  # type: ignore[assignment]
        query.learn(ranking, clicks, now, items=ranked.items, features=ranked.features)
        self._queries[ranked.query] = query

    def best(self, name: str, n: int) -> list[BestItem]:
        """The items of a query with the largest estimates."""
        query = self._queries[name]
        prior = None
        if self.shared is not None:
            prior = query.learner.prior(query.learner.items, shared=self.shared, ordered=False)
        beliefs = query.learner.beliefs(query.learner.items, now=query.now, prior=prior)
        found = [
            BestItem(item, b.estimate, b.samples)  # type: ignore[arg-type]
            for item, b in beliefs.items()
            if b.estimate is not None and isfinite(b.estimate) and b.samples
        ]
        return sorted(found, key=lambda estimate: estimate.estimate, reverse=True)[:n]

    def to_dict(self, top: int, items: int = 3) -> dict[str, Any]:
        """A summary: counts, and the best items of the queries with the most lists."""
        busiest = [
            {
                "query": name,
                "lists": learner.steps,
                "clicks": self._queries[name].clicks,
                "items": [estimate._asdict() for estimate in self.best(name, items)],
            }
            for name, learner in list(self.learners.items())[:top]
        ]
        return {
            "policy": self.policy.spec, "k": self.k, "lists": self.lists, "clicks": self.clicks,
            "queries": len(self._queries), "notes": self.notes, "busiest": busiest,
        }  # fmt: skip

    def save(self, folder: Path) -> None:
        """Write ``queries.json``, the learners it names, which ``driftrank.load`` reads, and the bytes of the shared
        model, ``shared.bin``.
        """
        names = {}
        for n, (name, learner) in enumerate(self.learners.items()):
            names[name] = f"{n:06d}.npz"
            learner.save(folder / names[name])
        if self.shared is not None:
            with written(folder / "shared.bin") as temporary:
                temporary.write_bytes(self.shared.to_bytes())
        written_text(folder / "queries.json", json.dumps(names, indent=1, ensure_ascii=False) + "\n")


def replay_store(url: str, policy: Policy, ranker: str | None = None, k: int | None = None) -> StoreReplay:
    """Let another policy learn from the lists of a ranker that are in a store. Only reads the store.

    ``k`` is the number of positions; None: of the longest list.
    """
    with closing(open_reader(url)) as log:
        name = chosen_ranker(log, ranker)
        if k is None:
            k = max((len(ended.items) for ended in EndedLists(log, name)), default=1)
        check_integer("k", k, 1)
        out = StoreReplay(policy, k)
        found = EndedLists(log, name)
        for ended in found:
            out.learn(ended)
        out.notes = [f"left out, {why}: {count:,}" for why, count in out.left_out.items()] + found.notes()
    return out
