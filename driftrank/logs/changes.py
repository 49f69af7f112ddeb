"""Changes in a click log: when the attraction of the items of a query changed, and from what to what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.fitting.intervals import wilson
from driftrank.logs.query_lists import QueryLists, frequent_queries, lists_of
from driftrank.policies.detecting.detectors import GLR
from driftrank.policies.detecting.detectors.glr import threshold_of
from driftrank.validation import check_integer, check_number

if TYPE_CHECKING:
    from driftrank.logs.log import Log

#: splits with a log-likelihood within this of the best are candidates for the true one
_NATS = 7.0


@dataclass(frozen=True)
class Change:
    """A breakpoint of a query."""

    after: int  #: number of the last list before it
    time: Any  #: time of that list
    items: tuple[Any, ...]  #: the items that changed


@dataclass(frozen=True, eq=False)
class QueryDrift:
    """The changes of a query."""

    query: Any
    items: tuple[Any, ...]
    lists: int
    changes: tuple[Change, ...]
    attraction: NDArray[np.float64]  #: (changes + 1, items)
    low: NDArray[np.float64]  #: lower end of the 95% confidence interval
    high: NDArray[np.float64]


def drift(
    log: Log,
    *,
    queries: Iterable[Any] | None = None,
    top: int = 100,
    items: int = 10,
    delta: float = 0.01,
    prior: tuple[float, float] = (1, 2),
) -> list[QueryDrift]:
    """Find the changes of a log's queries, by the likelihood-ratio test that the policies use (:class:`GLR`).

    The labels of an item, clicked or not in the lists in which it was read, are tested in the order of time. Read are
    the items down to the first click, or all without a click, as in the models CM, DCM and SDBN. A change is placed at
    the largest likelihood; changes of several items of a query that may have happened at the same time are merged. The
    attraction of an item is estimated from all labels between two of its own changes.

    Parameters
    ----------
    queries, top
        The queries; or how many, the most frequent.
    items
        Number of items per query, the most often shown.
    delta
        Bound on the probability of finding a change in a query that does not change.
    prior
        Clicks and views that are added to the counts.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from driftrank.environments import Replay
    >>> from driftrank.logs import open_log
    >>> from driftrank.logs.generation import generate
    >>> from driftrank.queries import Queries
    >>> truth = Queries({"q": np.array([0.5, 0.1])}, changes={"q": ((1000, (0.1, 0.1)),)})
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> _ = generate(path, Replay(truth, k=2), 2000)
    >>> found = drift(open_log(path))[0]
    >>> len(found.changes), abs(found.changes[0].after - 1000) < 20, found.changes[0].items
    (1, True, (1000,))
    """
    check_integer("top", top, 1)
    check_integer("items", items, 1)
    check_number("delta", delta, 0, 1, open_low=True, open_high=True)
    chosen = list(queries) if queries is not None else frequent_queries(log, top)
    return [_query_drift(lists, items, delta, prior) for lists in lists_of(log, chosen)]


def _query_drift(lists: QueryLists, most: int, delta: float, prior: tuple[float, float]) -> QueryDrift:
    names, codes = lists.most_shown(most)
    seen = lists.read()
    streams = []
    found: list[_ItemChange] = []
    for a, code in enumerate(codes):
        here = seen & (lists.item == code)
        labels, steps = lists.clicked[here].astype(np.int8), lists.list_of[here]
        streams.append((labels, steps))
        found += [_ItemChange(a, *change) for change in _changes(labels, steps, delta / len(codes))]
    moments = _moments(found)
    at = [moment for moment, _ in moments]
    attraction, low, high = (np.zeros((len(at) + 1, len(codes))) for _ in range(3))
    for a, (labels, steps) in enumerate(streams):
        own = [n for n, (_, changed) in enumerate(moments) if a in changed]
        for first, end in zip([0, *(n + 1 for n in own)], [*(n + 1 for n in own), len(at) + 1], strict=True):
            begin = at[first - 1] if first else 0
            here = labels[(steps > begin) & (steps <= (at[end - 1] if end <= len(at) else lists.count))]
            clicks, shown = here.sum() + prior[0], len(here) + prior[1]
            attraction[first:end, a] = clicks / shown if shown else 0.0
            low[first:end, a], high[first:end, a] = wilson(clicks, shown)
    changes = [Change(moment, lists.time[moment - 1], tuple(names[a] for a in changed)) for moment, changed in moments]
    return QueryDrift(lists.query, tuple(names), lists.count, tuple(changes), attraction, low, high)


@dataclass(frozen=True)
class _ItemChange:
    """A change of an item: the last list before it, the range ``low .. high`` of likely ones, log-likelihood ratio."""

    item: int
    after: int
    low: int
    high: int
    ratio: float


def _changes(labels: NDArray[np.int8], steps: NDArray[np.int64], delta: float) -> list[tuple[int, int, int, float]]:
    """The changes of the labels of one item; ``steps`` are the numbers of their lists."""
    level = float(np.log(3 / delta))
    cuts = [0]
    for alarm in GLR(delta=delta).run(labels):
        cuts.append(cuts[-1] + _split(labels[cuts[-1] : alarm])[0])
    cuts.append(len(labels))
    while True:  # again with all labels between the neighbouring changes; drop changes that the test then does not find
        splits = []
        for n in range(1, len(cuts) - 1):
            begin, end = cuts[n - 1], cuts[n + 1]
            at, first, last, ratio = _split(labels[begin:end])
            cuts[n] = begin + at
            splits.append((begin + first, begin + last, ratio, ratio - threshold_of(end - begin, level, 0)))
        weakest = min(range(len(splits)), key=lambda n: splits[n][3], default=-1)
        if weakest < 0 or splits[weakest][3] > 0:
            break
        del cuts[weakest + 1]
    found = []
    for cut, (first, last, ratio, _) in zip(cuts[1:-1], splits, strict=True):
        # the item may not have been shown for a while: the change was anywhere before its next list
        high = max(int(steps[last - 1]), int(steps[min(last, len(steps) - 1)]) - 1)
        found.append((int(steps[cut - 1]), int(steps[first - 1]), high, ratio))
    return found


def _split(labels: NDArray[np.int8]) -> tuple[int, int, int, float]:
    """The best split of labels in two, the first and last that are about as good, and the log-likelihood ratio."""
    n = len(labels)
    before = np.arange(1, n)
    ones = np.cumsum(labels)[:-1].astype(float)
    total = float(labels.sum())
    ratio = _log_likelihood(ones, before) + _log_likelihood(total - ones, n - before)
    good = np.flatnonzero(ratio >= ratio.max() - _NATS) + 1
    whole = float(_log_likelihood(np.array([total]), np.array([n]))[0])
    return int(ratio.argmax()) + 1, int(good[0]), int(good[-1]), float(ratio.max()) - whole


def _log_likelihood(ones: NDArray[np.float64], n: NDArray[np.int64]) -> NDArray[np.float64]:
    """The log-likelihood of labels at their own mean."""
    result = np.zeros(len(n))
    for part in (ones, n - ones):
        some = part > 0
        result[some] += part[some] * np.log(part[some] / n[some])
    return result


def _moments(found: Sequence[_ItemChange]) -> list[tuple[int, set[int]]]:
    """Breakpoints of the query, each with the items that changed: changes with overlapping ranges are merged."""
    groups: list[list[_ItemChange]] = []
    for change in sorted(found, key=lambda f: f.high):
        if groups and change.low <= min(f.high for f in groups[-1]) and change.item not in {f.item for f in groups[-1]}:
            groups[-1].append(change)
        else:
            groups.append([change])
    moments: dict[int, set[int]] = {}
    for group in groups:
        low, high = max(f.low for f in group), min(f.high for f in group)
        surest = max(group, key=lambda f: f.ratio).after
        moments.setdefault(min(max(surest, low), high), set()).update(f.item for f in group)
    return sorted(moments.items())
