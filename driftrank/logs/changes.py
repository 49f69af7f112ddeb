"""Changes in a click log: when the attraction of the items of a query changed, and from what to what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.fitting.em import learnt_prior
from driftrank.clickmodels.fitting.intervals import wilson
from driftrank.logs.change_test import ItemChange, Labels, changes_of, estimated
from driftrank.logs.examination import Examination, examination_of
from driftrank.logs.query_lists import QueryLists, frequent_queries, lists_of
from driftrank.validation import check_integer, check_number

if TYPE_CHECKING:
    from driftrank.logs.log import Log

#: the part of the probability of a false change that is left to the intervals of examination
_FOR_EXAMINATION = 0.5


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
    #: changes of clicks that came with a change of the items' ranks and may be due to that; not among ``changes``
    confounded: tuple[Change, ...] = ()


def drift(
    log: Log,
    *,
    queries: Iterable[Any] | None = None,
    top: int = 100,
    items: int = 10,
    delta: float = 0.01,
    prior: tuple[float, float] | None = None,
) -> list[QueryDrift]:
    """Find the changes of a log's queries, apart from changes of the order in which their items were shown.

    The labels of an item are its clicks in the lists in which nothing above it was clicked, in the order of time. They
    are tested against a constant attraction times the probability that their ranks are read
    (:mod:`driftrank.logs.change_test`). That probability is estimated from items that were shown at several ranks
    within a short time (:mod:`driftrank.logs.examination`), and a change is reported only if no value within its
    confidence interval explains the labels without one. What such a value does explain is *confounded*: the shown
    order changed with the clicks, and the log cannot tell why. In a log in which every item keeps its rank until the
    ranker changes, all such changes are confounded.

    The bound on false changes holds for the click models CM, DCM, SDBN, PBM and UBM with the same examination under all
    queries, and independent lists; for DBN and CCM approximately.

    Changes of several items of a query that may have happened at the same time are merged. The attraction of an item is
    estimated from all labels between two of its own changes.

    Parameters
    ----------
    queries, top
        The queries; or how many, the most frequent.
    items
        Number of items per query, the most often shown.
    delta
        Bound on the probability of finding a change in a query that does not change.
    prior
        Clicks and views that are added to the counts; None: two views with the click rate of the query.

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
    if not hasattr(log, "relation"):
        raise ValueError(f"log={log!r}: must be a log; driftrank.logs.open_log opens a file, and reads a table")
    check_integer("top", top, 1)
    check_integer("items", items, 1)
    check_number("delta", delta, 0, 1, open_low=True, open_high=True)
    chosen = list(queries) if queries is not None else frequent_queries(log, top)
    return find_changes(lambda: lists_of(log, chosen), items=items, delta=delta, prior=prior)


def find_changes(
    queries: Callable[[], Iterable[QueryLists]],
    *,
    items: int = 10,
    delta: float = 0.01,
    prior: tuple[float, float] | None = None,
) -> list[QueryDrift]:
    """The changes of queries whose lists ``queries`` gives, twice; see :func:`drift`."""
    examination = examination_of(queries(), items, 1 - delta * _FOR_EXAMINATION)
    level = delta * (1 - _FOR_EXAMINATION)
    return [_query_drift(lists, items, examination, level, prior) for lists in queries()]


def _query_drift(
    lists: QueryLists, most: int, examination: Examination, delta: float, prior: tuple[float, float] | None
) -> QueryDrift:
    names, codes = lists.most_shown(most)
    seen = lists.read() & (lists.position <= len(examination.estimate))
    added = learnt_prior(float(lists.clicked.sum()), float(len(lists.clicked))) if prior is None else prior
    streams = []
    found: list[tuple[int, ItemChange]] = []
    for a, code in enumerate(codes):
        here = seen & (lists.item == code)
        labels, steps = Labels(lists.clicked[here], lists.position[here] - 1), lists.list_of[here]
        streams.append((labels, steps))
        found += [(a, _in_lists(change, steps)) for change in changes_of(labels, examination, delta / len(codes))]
    moments = _moments([pair for pair in found if pair[1].certain])
    at = [moment for moment, _ in moments]
    attraction, low, high = (np.zeros((len(at) + 1, len(codes))) for _ in range(3))
    for a, (labels, steps) in enumerate(streams):
        own = [n for n, (_, changed) in enumerate(moments) if a in changed]
        for first, end in zip([0, *(n + 1 for n in own)], [*(n + 1 for n in own), len(at) + 1], strict=True):
            begin = at[first - 1] if first else 0
            here = (steps > begin) & (steps <= (at[end - 1] if end <= len(at) else lists.count))
            part = Labels(labels.clicked[here], labels.rank[here])
            alpha, read = estimated(part, examination.estimate, added)
            attraction[first:end, a] = alpha
            low[first:end, a], high[first:end, a] = wilson(alpha * (read + added[1]), read + added[1])

    def described(moments: list[tuple[int, set[int]]]) -> tuple[Change, ...]:
        return tuple(Change(m, lists.time[m - 1], tuple(names[a] for a in sorted(changed))) for m, changed in moments)

    confounded = described(_moments([pair for pair in found if not pair[1].certain]))
    return QueryDrift(lists.query, tuple(names), lists.count, described(moments), attraction, low, high, confounded)


def _in_lists(change: ItemChange, steps: NDArray[np.int64]) -> ItemChange:
    """A change in numbers of lists; ``steps`` are those of the item's labels."""
    # the item may not have been shown for a while: the change was anywhere before its next list
    high = max(int(steps[change.high - 1]), int(steps[min(change.high, len(steps) - 1)]) - 1)
    return replace(change, after=int(steps[change.after - 1]), low=int(steps[change.low - 1]), high=high)


def _moments(found: Sequence[tuple[int, ItemChange]]) -> list[tuple[int, set[int]]]:
    """Breakpoints of the query, each with the items that changed: changes with overlapping ranges are merged."""
    groups: list[list[tuple[int, ItemChange]]] = []
    for item, change in sorted(found, key=lambda f: f[1].high):
        group = groups[-1] if groups else []
        if group and change.low <= min(f.high for _, f in group) and item not in {a for a, _ in group}:
            group.append((item, change))
        else:
            groups.append([(item, change)])
    moments: dict[int, set[int]] = {}
    for group in groups:
        low, high = max(f.low for _, f in group), min(f.high for _, f in group)
        surest = max((f for _, f in group), key=lambda f: f.ratio).after
        moments.setdefault(min(max(surest, low), high), set()).update(a for a, _ in group)
    return sorted(moments.items())
