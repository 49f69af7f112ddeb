"""Data of learning to rank in the LETOR format: queries with documents, their features and grades.

A line is a document, ``GRADE qid:QUERY FEATURE:VALUE ... # comment``, as in MSLR-WEB, Yahoo and Istella. Features count
from 1, those that are missing are 0; the lines of a query are contiguous.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.files import written_text
from driftrank.validation import check_integer

Numbers = NDArray[np.float64]

_FORM = "must be GRADE qid:QUERY FEATURE:VALUE ..., with features from 1 and a grade of at least 0"


@dataclass(frozen=True, eq=False)
class LetorData:
    """Queries with documents. The documents of query q are ``begins[q] .. begins[q + 1] - 1``."""

    names: tuple[str, ...]  #: of the queries
    begins: NDArray[np.int64]
    grades: NDArray[np.int64]  #: by document, from 0
    features: Numbers  #: (documents, features)

    def __repr__(self) -> str:
        return f"<{len(self)} queries, {len(self.grades)} documents, {self.features.shape[1]} features>"

    def __len__(self) -> int:
        return len(self.names)

    def documents(self, q: int) -> list[int]:
        """The documents of the q-th query."""
        check_integer("q", q, 0, len(self) - 1)
        return list(range(self.begins[q], self.begins[q + 1]))

    @cached_property
    def query(self) -> NDArray[np.int64]:
        """The query of every document."""
        return np.repeat(np.arange(len(self)), np.diff(self.begins))

    @cached_property
    def digest(self) -> str:
        """A digest of the content."""
        parts = (self.begins, self.grades, self.features)
        return hashlib.blake2b(b"".join(a.tobytes() for a in parts), digest_size=8).hexdigest()

    def with_at_least(self, documents: int) -> LetorData:
        """Only the queries with so many documents."""
        kept = np.flatnonzero(np.diff(self.begins) >= documents)
        rows = np.isin(self.query, kept)
        begins = np.concatenate([[0], np.cumsum(np.diff(self.begins)[kept])])
        return LetorData(tuple(self.names[q] for q in kept), begins, self.grades[rows], self.features[rows])

    def normalised(self) -> LetorData:
        """Every feature scaled to [0, 1] within each query, as is usual; 0 if it is constant there."""
        scaled = np.zeros(self.features.shape)
        for q in range(len(self)):
            x = self.features[self.begins[q] : self.begins[q + 1]]
            low, high = x.min(axis=0), x.max(axis=0)
            varies = high > low
            # halves: the difference of two large numbers may be too large
            scaled[self.begins[q] : self.begins[q + 1], varies] = (x / 2 - low / 2)[:, varies] / (high / 2 - low / 2)[
                varies
            ]
        return LetorData(self.names, self.begins, self.grades, scaled)

    def ndcg(self, scores: Any, k: int = 10) -> float:
        """The mean nDCG@k of the documents in the order of their scores; gains are 2^grade - 1.

        Equal scores count in the order of the file. Queries without a relevant document are left out.

        >>> data = LetorData(("a",), np.array([0, 3]), np.array([0, 2, 1]), np.zeros((3, 1)))
        >>> round(data.ndcg([1.0, 2.0, 3.0]), 4)  # gains 1, 3, 0 instead of 3, 1, 0
        0.7967
        """
        check_integer("k", k, 1)
        values = np.asarray(scores, np.float64)
        if values.shape != self.grades.shape:
            raise ValueError(f"scores: must be {len(self.grades)} numbers, one per document, not {values.shape}")
        found = []
        for q in range(len(self)):
            own = slice(self.begins[q], self.begins[q + 1])
            gains = np.exp2(self.grades[own].astype(np.float64)) - 1
            best = _dcg(np.sort(gains)[::-1], k)
            if best > 0:
                found.append(_dcg(gains[np.argsort(-values[own], kind="stable")], k) / best)
        return float(np.mean(found)) if found else float("nan")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a file in the format, without compression."""
        lines = []
        for n, (grade, x) in enumerate(zip(self.grades.tolist(), self.features.tolist(), strict=True)):
            values = " ".join(f"{i}:{value!r}" for i, value in enumerate(x, 1))
            lines.append(f"{grade} qid:{self.names[self.query[n]]} {values}\n")
        written_text(Path(path), "".join(lines))


def _dcg(gains: Numbers, k: int) -> float:
    top = gains[:k]
    return float((top / np.log2(np.arange(2, len(top) + 2))).sum())


def read(path: str | os.PathLike[str], *, queries: int | None = None, normalise: bool = True) -> LetorData:
    """Read a file, gzipped or not, line by line.

    Parameters
    ----------
    queries
        Only so many, the first ones; the rest of the file is not read.
    normalise
        Scale every feature to [0, 1] within each query.
    """
    if queries is not None:
        check_integer("queries", queries, 1)
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path={path!r}: must be the path of a file in the LETOR format")
    name = os.fspath(path)
    names: list[str] = []
    begins, grades = [0], []
    rows: list[tuple[NDArray[np.int64], Numbers]] = []
    seen: set[str] = set()
    for number, grade, query, index, value in _documents(name):
        if not names or query != names[-1]:
            if query in seen:
                raise ValueError(f"{name}: line {number}: query {query} again; must have the lines of a query together")
            if len(names) == queries:
                break
            if names:
                begins.append(len(rows))
            seen.add(query)
            names.append(query)
        grades.append(grade)
        rows.append((index, value))
    if not rows:
        raise ValueError(f"{name}: has no documents; {_FORM}")
    begins.append(len(rows))
    features = np.zeros((len(rows), max(int(index.max(initial=1)) for index, _ in rows)))
    for row, (index, value) in zip(features, rows, strict=True):
        row[index - 1] = value
    data = LetorData(tuple(names), np.array(begins, np.int64), np.array(grades, np.int64), features)
    return data.normalised() if normalise else data


def _documents(name: str) -> Iterator[tuple[int, int, str, NDArray[np.int64], Numbers]]:
    """Line number, grade, query, and numbers and values of the features, of every document."""
    try:
        with open(name, "rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with gzip.open(name, "rt", encoding="utf-8") if zipped else open(name, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                text = line.partition("#")[0].split()
                if text:
                    yield number, *_parsed(name, number, text)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or ("not text" if isinstance(error, UnicodeDecodeError) else error)
        raise ValueError(f"{name}: cannot be read ({reason})") from None


def _parsed(name: str, number: int, text: list[str]) -> tuple[int, str, NDArray[np.int64], Numbers]:
    try:
        grade = float(text[0])
        prefix, colon, query = text[1].partition(":")
        pairs = np.array(" ".join(text[2:]).replace(":", " ").split(), np.float64)
        index = pairs[0::2].astype(np.int64)
        good = (
            prefix == "qid"
            and colon
            and query
            and grade >= 0
            and grade == int(grade)
            and len(pairs) == 2 * len(text[2:])
        )
        if not good or index.min(initial=1) < 1 or not np.isfinite(pairs).all():
            raise ValueError
    except (ValueError, IndexError, OverflowError):
        raise ValueError(f"{name}: line {number}: {' '.join(text)[:60]!r}; {_FORM}") from None
    return int(grade), query, index, pairs[1::2]


def generate(queries: int = 30, documents: int = 15, features: int = 6, seed: int = 0) -> LetorData:
    """Made-up data: grades from 0 to 4 by a linear function of some features, and noise.

    >>> generate(queries=2, documents=3)
    <2 queries, 6 documents, 6 features>
    """
    for what, value in (("queries", queries), ("documents", documents), ("features", features)):
        check_integer(what, value, 1)
    check_integer("seed", seed, 0)
    rng = np.random.default_rng([seed, 20180713])
    n = queries * documents
    weights = rng.normal(size=features) * (np.arange(features) < max(1, features // 2))  # the same for all sizes
    x = rng.random((n, features)).round(6)
    score = x @ weights
    score = (score - score.mean()) / score.std() + rng.normal(size=n) * 0.5
    # as in MSLR-WEB, most documents have a low grade
    grades = np.searchsorted([-0.2, 0.6, 1.3, 1.9], score)
    return LetorData(tuple(map(str, range(1, queries + 1))), np.arange(queries + 1) * documents, grades, x)
