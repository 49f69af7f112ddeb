"""The lists that callers ask a service for: those of single queries, one after another, or of Traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from driftrank.engine.users import Users
from driftrank.environments.base import Environment
from driftrank.environments.traffic.traffic import Traffic
from driftrank.kernels.rng import key_of
from driftrank.wire import Item, ItemId


@dataclass(frozen=True)
class AskedList:
    """A list to ask for, and the user who will see it. Items have slots, as in a simulation."""

    row: int  #: of the result: the query, or 0 in Traffic
    t: int  #: of the result: the list of the query, or of all, from 1
    query: str
    number: int  #: the list of its query, from 1, which is the draw of the query's randomness
    items: list[ItemId | Item]  #: in the caller's order
    ordered: bool  #: the order means something
    slots: Mapping[ItemId, int]
    names: Sequence[int]  #: by slot: the number of the item in results
    optimal: float
    references: tuple[list[int], ...]  #: the lists to compare with, as slots: best, the caller's, random
    #: the value of a list of slots, and the positions that the user clicks
    meet: Callable[[Sequence[int]], tuple[float, list[int]]]


def lists_of_query(environment: Environment, row: int, steps: int, seed: int) -> Iterator[AskedList]:
    """The lists of one query. Each must meet its user before the next is taken."""
    query = environment.names[row]
    users = Users(environment, query, 0, seed)
    L = len(environment.queries[query])
    features = environment.features(query)
    ids = list(range(L))
    slots: dict[ItemId, int] = {a: a for a in ids}
    chance = np.random.default_rng([seed, key_of(query)])
    for t in range(1, steps + 1):
        users.go_to(t)
        for a in users.announced:  # an item that is replaced gets a new id
            ids[a] += L
            slots[ids[a]] = a
        present = users.present
        items: list[ItemId | Item] = [
            ids[a] if features is None else Item(ids[a], features[a].tolist()) for a in present
        ]
        references = (users.best, present[: users.k], chance.permutation(present)[: users.k].tolist())
        yield AskedList(row, t, query, t, items, True, slots, range(L), users.optimal, references, users.meet)


def lists_of_traffic(environment: Traffic, steps: int, seed: int, *, features: bool = False) -> Iterator[AskedList]:
    """The lists of all queries of Traffic, in their order, with the features of items if they are wanted."""
    run = environment.run(0, seed)
    counts = np.zeros(environment.n_queries, np.int64)
    chance = np.random.default_rng([seed, key_of(environment.names[0])])
    for i in range(1, steps + 1):
        run.go_to(i)
        asked, slots = run.asked, run.call()[0].tolist()
        counts[asked.query] += 1
        ids = [environment.item_id(token) for token in asked.items.tolist()]
        rows = run.features if features and environment.d else None
        yield AskedList(
            row=0, t=i, query=environment.query_name(asked.query), number=int(counts[asked.query]),
            items=[ids[a] if rows is None else Item(ids[a], rows[a].tolist()) for a in slots],
            ordered=environment.caller != "none", slots={item: a for a, item in enumerate(ids)},
            names=asked.items.tolist(), optimal=asked.optimal,
            references=(asked.best, slots[: asked.k], chance.permutation(len(ids))[: asked.k].tolist()),
            meet=asked.meet,
        )  # fmt: skip
