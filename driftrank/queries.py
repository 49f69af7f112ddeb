"""Queries: items with their default attraction, and the click models of their users."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels import CM, models_file
from driftrank.clickmodels.base import ClickModel, check_attraction
from driftrank.clickmodels.models_file import Changes, QueryModel
from driftrank.clickmodels.registry import parse_click_model
from driftrank.validation import check_integer


@dataclass(frozen=True, eq=False)
class Queries:
    """Named queries with the attraction probability of each of their items."""

    attraction: Mapping[str, NDArray[np.float64]]
    #: click models by query, all of one kind and objective; a query need not have one
    models: Mapping[str, ClickModel] = field(default_factory=dict)
    #: item ids by query; a query without them has numbered items
    items: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    #: changes by query: the step before each, and the attraction of every item after it
    changes: Mapping[str, Changes] = field(default_factory=dict)
    #: a digest of further content that these stand for
    origin: str = ""

    @classmethod
    def of(cls, values: Any) -> Queries:
        """From a mapping of names to probabilities, a list of lists, or one list."""
        if isinstance(values, Queries):
            return values
        if isinstance(values, Mapping):
            named = {str(name): alpha for name, alpha in values.items()}
            if len(named) < len(values):
                raise ValueError("queries: two names are the same as text")
        else:
            if not isinstance(values, Iterable):
                raise ValueError(
                    f"queries={values!r}: must be a list of probabilities, a list of such lists, or a mapping to them"
                )
            if isinstance(values, str):
                raise ValueError(
                    f"queries={values!r}: must be probabilities; driftrank.queries.yandex_like(5) draws some, "
                    "driftrank.queries.load reads a file, and driftrank.queries.parse_queries takes such text"
                )
            rows = list(values)
            if rows and not isinstance(rows[0], (Sequence, np.ndarray)):
                rows = [rows]
            named = {str(n): alpha for n, alpha in enumerate(rows)}
        if not named:
            raise ValueError("queries: must hold at least one query")
        return cls({name: check_attraction(alpha, f"query {name!r}: attraction") for name, alpha in named.items()})

    @classmethod
    def from_models(cls, queries: Mapping[str, QueryModel]) -> Queries:
        """From the queries of a models file."""
        return cls(
            {name: query.attraction for name, query in queries.items()},
            {name: query.model for name, query in queries.items() if query.model != CM()},
            {name: query.items for name, query in queries.items() if query.items is not None},
            {name: query.changes for name, query in queries.items() if query.changes},
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Queries) and (self.origin, self._content()) == (other.origin, other._content())

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[tuple[Any, ...], ...]:
        return tuple(
            (name, alpha.tobytes(), self.models.get(name), self.items.get(name), self.changes.get(name))
            for name, alpha in self.attraction.items()
        )

    def __repr__(self) -> str:
        names = list(self)
        shown = names if len(names) <= 3 else [*names[:2], "...", names[-1]]
        return f"<Queries: {len(names)}, {', '.join(shown)}>"

    def __len__(self) -> int:
        return len(self.attraction)

    def __iter__(self) -> Iterator[str]:
        return iter(self.attraction)

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self.attraction[name]

    def first(self, n: int) -> Queries:
        """The first n queries."""
        check_integer("n", n, 1, len(self))
        return self.only(list(self)[:n])

    def only(self, names: Iterable[str]) -> Queries:
        """The queries with these names."""
        kept = list(names)
        return Queries(
            {name: self.attraction[name] for name in kept},
            {name: self.models[name] for name in kept if name in self.models},
            {name: self.items[name] for name in kept if name in self.items},
            {name: self.changes[name] for name in kept if name in self.changes},
        )

    def clicking(self, model: ClickModel) -> Queries:
        """The same queries, all with this click model.

        >>> from driftrank.clickmodels import PBM
        >>> yandex_like(2).clicking(PBM()).models["yandex-like-0-1"].objective
        'clicks'
        """
        return replace(self, models=dict.fromkeys(self, model))


def yandex_like(n: int, seed: int = 0, items: int = 10) -> Queries:
    """Queries drawn from the distribution of real web-search queries, 10 items each.

    The logits of the attraction of the items, sorted from most to least attractive, are normal with the mean and
    covariance found in 60 queries of the Yandex relevance-prediction log; then the items are shuffled. More ``items``
    than 10 have a longer tail: the others are those of further such queries, without their best five.

    >>> len(yandex_like(3, seed=1)["yandex-like-1-0"]), len(yandex_like(3, items=25)["yandex-like-0-0-25"])
    (10, 25)
    """
    check_integer("n", n, 1)
    check_integer("seed", seed, 0)
    check_integer("items", items, 1)
    rng = np.random.default_rng([seed, 20190812])
    root = np.linalg.cholesky(np.array(_covariance()))
    queries = {}
    for i in range(n):
        logits = np.array(_MEAN) + root @ rng.standard_normal(len(_MEAN))
        while len(logits) < items:
            logits = np.append(logits, (np.array(_MEAN) + root @ rng.standard_normal(len(_MEAN)))[5:])
        # rounded as the real ones are, so that the last bits of exp and of a matrix product do not matter
        attraction = rng.permutation(1.0 / (1.0 + np.exp(-logits[:items]))).round(8)
        queries[f"yandex-like-{seed}-{i}" + (f"-{items}" if items != len(_MEAN) else "")] = attraction
    return Queries.of(queries)


def load(path: str | os.PathLike[str], model: str = "") -> Queries:
    """Read queries from a models file (:mod:`driftrank.clickmodels.models_file` has its format).

    Parameters
    ----------
    model
        The click model to read, such as ``"DBN"``; with parameters that replace the file's,
        ``"DBN:objective=clicks"``. By default ``"CM"``, or the only one in the file.
    """
    return Queries.from_models(models_file.read(path, model))


def parse_queries(spec: str, seed: int = 0, click_model: str = "") -> Queries:
    """Queries from ``yandex-like:N``, ``yandex-like:NxITEMS`` or the path of a JSON file, with an optional click model.

    >>> parse_queries("yandex-like:1", click_model="DBN:continuation=0.8").models["yandex-like-0-0"].continuation
    0.8
    """
    kind, _, rest = spec.partition(":")
    if kind == "yandex-like":
        sizes = rest.split("x")
        if len(sizes) > 2 or not all(size.isdecimal() and int(size) > 0 for size in sizes):
            raise ValueError(f"queries={spec!r}: must be yandex-like:N or yandex-like:NxITEMS, each at least 1")
        found = yandex_like(int(sizes[0]), seed, *map(int, sizes[1:]))
        return found.clicking(parse_click_model(click_model)) if click_model else found
    if not Path(spec).exists():
        raise ValueError(f"queries={spec!r}: must be yandex-like:N or the path of a JSON file; there is no such file")
    return load(spec, click_model)


# mean and covariance of the sorted logits (upper triangle, row by row)
_MEAN = (-0.2359, -1.531, -1.9685, -2.3746, -2.7726, -3.1189, -3.4069, -3.6955, -4.0436, -4.4217)
_COVARIANCE = (
    (0.9666, 0.3645, 0.3066, 0.2217, 0.1882, 0.1886, 0.186, 0.1609, 0.2251, 0.229),
    (0.632, 0.4897, 0.4892, 0.4904, 0.458, 0.4607, 0.4503, 0.4329, 0.3575),
    (0.5014, 0.4702, 0.4499, 0.4343, 0.4328, 0.4237, 0.4118, 0.4068),
    (0.5647, 0.5356, 0.5089, 0.5136, 0.5204, 0.4917, 0.439),
    (0.6137, 0.5841, 0.5715, 0.571, 0.5318, 0.4506),
    (0.6277, 0.6131, 0.5912, 0.5632, 0.4919),
    (0.6879, 0.6573, 0.6019, 0.5352),
    (0.7045, 0.6346, 0.5653),
    (0.6746, 0.6059),
    (0.6781,),
)


def _covariance() -> list[list[float]]:
    size = len(_MEAN)
    return [[_COVARIANCE[min(i, j)][abs(i - j)] for j in range(size)] for i in range(size)]
