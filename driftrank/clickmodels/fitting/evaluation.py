"""Evaluation of a fitted click model: likelihood by query, perplexity by rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ITEM, PREVIOUS, RANK
from driftrank.clickmodels.fitting import templates
from driftrank.clickmodels.fitting.counts import ListCounts
from driftrank.clickmodels.fitting.sorted_lists import SortedLists
from driftrank.kernels.compile import specialise

if TYPE_CHECKING:
    from driftrank.clickmodels.fitting.fit import Fit

#: lower bound of probabilities: a model may rule out events of a log, such as a second click
FLOOR = 1e-6

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores of a click model on the clicks of a log."""

    log_likelihood: Numbers  #: (Q,) of all lists of each query
    by_list: Numbers  #: (n,) of one list of each row of the counts, for paired comparisons of models
    lists: NDArray[np.int64]  #: (Q,) number of lists of each query
    perplexity: Numbers  #: (K,) by rank, of the marginal P(click)
    conditional_perplexity: Numbers  #: (K,) by rank, of P(click) given the clicks above

    def __repr__(self) -> str:
        scores = f"log-likelihood {self.mean_log_likelihood:.5f} of a list, perplexity {self.mean_perplexity:.4f}"
        return f"<Evaluation: {int(self.lists.sum()):,} lists, {scores}>"

    @property
    def mean_log_likelihood(self) -> float:
        """Of a list."""
        return float(self.log_likelihood.sum() / max(self.lists.sum(), 1))

    @property
    def mean_perplexity(self) -> float:
        """Over ranks."""
        return float(np.mean(self.perplexity))

    @property
    def mean_conditional_perplexity(self) -> float:
        """Over ranks."""
        return float(np.mean(self.conditional_perplexity))


def evaluate(fit: Fit, counts: ListCounts) -> Evaluation:
    """Evaluate a fit of the same pairs (:meth:`Fit.onto`) on these lists, in one pass."""
    cls = fit.model
    lists = SortedLists(counts)
    starts = fit.pairs.starts
    queries = len(fit.pairs.queries)
    widest = int(np.diff(starts).max(initial=0))
    kinds = list(cls.shape.items())
    of_items = [fit.parameters[name] for name, kind in kinds if kind == ITEM]
    groups = [{n: fit.parameters[n][g].tolist() for n, kind in kinds if kind != ITEM} for g in range(_groups(fit))]
    blank: dict[str, Any] = {name: 0.5 for name, kind in kinds if kind == ITEM}
    head = np.array([cls(**blank, **group).row(0, fit.k) for group in groups])
    after_items = sum(fit.k if kind == RANK else fit.k**2 for _, kind in kinds if kind in (RANK, PREVIOUS))
    model = cls(**blank, **groups[0])
    group = np.arange(queries) if fit.options.per_query else np.zeros(queries, np.int64)
    shown, missed, given = np.zeros(fit.k), np.zeros(fit.k), np.zeros(fit.k)
    by_list = np.zeros(len(lists.mask))
    bindings = {
        "CHANCE": cls.chance, "AFTER": cls.after, "MARGINALS": cls.marginals, "FIRST": cls.first, "FLOOR": FLOOR,
    }  # fmt: skip
    specialise(templates.evaluation_pass, bindings)(
        starts, lists.query, lists.slots, lists.mask, lists.lists, fit.attraction, group, head,
        head.shape[1] - after_items, np.array(of_items).reshape(len(of_items), len(fit.pairs)),
        np.zeros(head.shape[1] + len(of_items) * widest), np.zeros(model.work_size(widest, fit.k)),
        np.zeros(fit.k, np.uint32), np.zeros(fit.k), by_list, shown, missed, given,
    )  # fmt: skip
    count = np.bincount(lists.query, lists.lists, queries).astype(np.int64)
    by_query = np.bincount(lists.query, by_list * lists.lists, queries).astype(np.float64)
    as_counted = np.zeros(len(by_list))
    as_counted[lists.order] = by_list
    seen = np.flatnonzero(shown)
    perplexity, conditional = (np.exp(total[seen] / shown[seen]) for total in (missed, given))
    return Evaluation(by_query, as_counted, count, perplexity, conditional)


def _groups(fit: Fit) -> int:
    return len(fit.pairs.queries) if fit.options.per_query else 1
