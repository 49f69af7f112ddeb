"""LearningToRank: documents with features and grades, from a file in the LETOR format."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from driftrank import letor
from driftrank.clickmodels import SDBN, ClickModel
from driftrank.clickmodels.base import ITEM, PREVIOUS, RANK, check_attraction
from driftrank.environments.base import Environment
from driftrank.kernels import kernel
from driftrank.kernels.rng import below, derive
from driftrank.letor import LetorData
from driftrank.queries import Queries
from driftrank.validation import check_choice, check_integer

#: the one name under which results know the stream of all queries
STREAM = "letor"

#: by behaviour and number of grades: the probabilities to click a document of each grade, and to leave after the click
BEHAVIOURS: Mapping[str, Mapping[int, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "perfect": {3: ((0, 0.5, 1), (0, 0, 0)), 5: ((0, 0.2, 0.4, 0.8, 1), (0, 0, 0, 0, 0))},
    "navigational": {
        3: ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        5: ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    },
    "informational": {
        3: ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        5: ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    },
}


@cache
def optimum_of_some(optimum: Any, ones: int, of_items: int) -> Any:
    """The kernel ``optimum`` for many items, if only few have an attraction: the others are left out.

    ``ones`` is the number of parameters of the click model that begin its row m, ``of_items`` that of parameters by
    item, which follow.
    """

    @kernel
    def best_of_some(m, alpha, best, work):
        L = alpha.shape[0]
        K = best.shape[0]
        n = 0
        for a in range(L):
            n += alpha[a] > 0.0
        n = max(n, K)
        size = ones + of_items * n + m.shape[0] - ones - of_items * L
        if 2 * n + size + n * (K + 2) + 4 * K + 4 > work.shape[0]:
            return optimum(m, alpha, best, work)
        slots = work[:n]
        some = work[n : 2 * n]
        own = work[2 * n : 2 * n + size]
        j = 0
        for a in range(L):
            if alpha[a] > 0.0:
                slots[j] = a
                j += 1
        a = 0
        while j < n:  # too few: items without attraction, which change no value
            if alpha[a] == 0.0:
                slots[j] = a
                j += 1
            a += 1
        for i in range(ones):
            own[i] = m[i]
        for j in range(n):
            some[j] = alpha[np.int64(slots[j])]
            for i in range(of_items):
                own[ones + i * n + j] = m[ones + i * L + np.int64(slots[j])]
        for i in range(size - ones - of_items * n):
            own[ones + of_items * n + i] = m[ones + of_items * L + i]
        value = optimum(own, some, best, work[2 * n + size :])
        for k in range(K):
            best[k] = np.int32(slots[best[k]])
        return value

    return best_of_some


class LearningToRank(Environment):
    """Documents with features and grades, of many queries, and simulated clicks: semi-synthetic learning to rank.

    A step is a list for one query, which is drawn at random; its documents are the candidates. All queries are one run
    of one learner, whose items are the documents of all of them: what a policy with features learns from one query
    holds for the others. Attraction is a function of the grade and never changes.

    Parameters
    ----------
    data
        A file in the LETOR format, or what :func:`driftrank.letor.read` returns. None: made-up data
        (:func:`driftrank.letor.generate`).
    K
        Positions. Queries with fewer documents are left out.
    n_queries
        Of a file, only so many queries, the first ones; None: all. A step costs time in proportion to the number of all
        documents, and the states of contextual policies have all their features.
    behaviour
        Probabilities by grade: ``"perfect"``, ``"navigational"`` or ``"informational"``, as in the literature (Hofmann,
        Schuth, Whiteson and de Rijke, 2013; Oosterhuis and de Rijke, 2018), for 3 or 5 grades. Users are those of
        :class:`~driftrank.clickmodels.SDBN`: they leave after a click with the second probability. The value of a list
        is the probability that they do (``"sat"``); with perfect users, who never leave, the number of clicks.
    attraction_by_grade
        Instead, the probability to be attracted by a document, by grade.
    satisfaction
        Instead, the probability to be satisfied by a clicked document, by grade. Other click models than SDBN have it
        if they have this parameter (DBN).
    normalise
        Scale the features of a file to [0, 1] within each query.

    >>> env = LearningToRank(K=3)
    >>> env.features().shape, len(env.present(1))
    ((450, 6), 15)
    """

    kind: ClassVar[str] = "stationary"
    churns: ClassVar[bool] = True

    data: LetorData | str | None = None
    K: int = 10
    n_queries: int | None = None
    behaviour: str = "navigational"
    attraction_by_grade: tuple[float, ...] = ()
    satisfaction: tuple[float, ...] = ()
    normalise: bool = True

    def __post_init__(self) -> None:
        check_integer("K", self.K, 1)
        check_choice("behaviour", self.behaviour, tuple(BEHAVIOURS))
        data = self.data
        if isinstance(data, str):
            data = letor.read(data, queries=self.n_queries, normalise=self.normalise)
        whole = letor.generate() if data is None else data
        if not isinstance(whole, LetorData):
            raise ValueError(f"data={data!r}: must be a file in the LETOR format, or what driftrank.letor.read returns")
        kept = whole.with_at_least(self.K)
        if not len(kept):
            longest = int(np.diff(whole.begins).max())
            raise ValueError(f"K={self.K!r}: must be at most {longest}, the documents of the longest query")
        alpha, satisfied = self._by_grade(int(kept.grades.max(initial=0)))
        object.__setattr__(self, "letor", kept)
        object.__setattr__(self, "queries", Queries({STREAM: alpha[kept.grades]}, origin=kept.digest))
        object.__setattr__(self, "k", self.K)
        object.__setattr__(self, "_given", np.column_stack([alpha[kept.grades], kept.query.astype(np.float64)]))
        object.__setattr__(self, "_users", self._model(satisfied[kept.grades]))
        self.users().row(len(kept.grades), self.K)

    letor: ClassVar[LetorData]  #: the queries with at least K documents

    def _by_grade(self, highest: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Attraction and satisfaction by grade."""
        grades = 3 if highest < 3 else 5
        usual = BEHAVIOURS[self.behaviour][grades]
        given = (self.attraction_by_grade, self.satisfaction)
        tables = []
        for name, table, other in zip(("attraction_by_grade", "satisfaction"), given, usual, strict=True):
            values = check_attraction(table or other, name)
            if len(values) <= highest:
                raise ValueError(f"{name}: must have {highest + 1} probabilities, for the grades 0 to {highest}")
            tables.append(values)
        return tables[0], tables[1]

    def _model(self, satisfied: NDArray[np.float64]) -> ClickModel:
        """The click model with the documents' satisfaction."""
        users = self.click_model or SDBN(satisfaction=0.5, objective="sat" if satisfied.any() else "clicks")
        if users.shape.get("satisfaction") == ITEM:
            of_documents: dict[str, Any] = {"satisfaction": tuple(satisfied.tolist())}
            return dataclasses.replace(users, **of_documents)
        if self.satisfaction:
            raise ValueError(f"satisfaction={self.satisfaction!r}: {type(users).__name__} has no such parameter")
        return users

    def parameters(self) -> dict[str, float]:
        return {"k": self.k, "n_queries": len(self.letor)}

    def users(self, query: str | int = 0) -> ClickModel:
        model: ClickModel = vars(self)["_users"]
        return model

    def optimum(self) -> Any:
        users = self.users()
        of_items: dict[str, Any] = {name: 0.5 for name, kind in users.shape.items() if kind == ITEM}
        of_ranks = {RANK: self.k, PREVIOUS: self.k**2}
        ranks = sum(of_ranks.get(kind, 0) for kind in users.shape.values())
        ones = len(dataclasses.replace(users, **of_items).row(0, self.k)) - ranks
        return optimum_of_some(users.kernels().optimum, ones, len(of_items))

    def features(self, query: str | int = 0) -> NDArray[np.float64]:
        return self.letor.features

    def given(self, query: str | int = 0) -> NDArray[np.float64]:
        rows: NDArray[np.float64] = vars(self)["_given"]
        return rows

    def breakpoints(self, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0) -> list[int]:
        """None: queries change from step to step, but their documents do not."""
        check_integer("horizon", horizon, 1)
        return []

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        """``base``: per document its attraction and its query."""
        q = below(derive(key, t), p.n_queries)
        for a in range(base.shape[0]):
            alpha[a] = base[a, 0] if base[a, 1] == q else 0.0
        return t + 1

    @staticmethod
    @kernel
    def live(p, base, key, t, there):
        q = below(derive(key, t), p.n_queries)
        for a in range(base.shape[0]):
            there[a] = 1 if base[a, 1] == q else 0
