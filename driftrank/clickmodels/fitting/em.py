r"""Expectation maximisation with lengthened steps.

Every parameter is a probability, and its M-step is a ratio: expected successes + a over expected trials + b, with the
``prior`` (a, b). A step never lowers the log-likelihood plus :math:`\sum a \ln\theta + (b-a) \ln(1-\theta)`. Steps are
lengthened by SQUAREM (Varadhan and Roland, 2008); a long step that would lower it is not taken. Independent
parameters, those of different queries if nothing is shared, form blocks, which take steps of their own length and stop
when they have converged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.fitting import templates
from driftrank.clickmodels.fitting.intervals import EDGE
from driftrank.kernels.compile import specialise
from driftrank.validation import check_choice, check_integer, check_number

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]
Prior = tuple[float, float]


#: the usual smoothing: one success in two trials
USUAL = (1.0, 2.0)


@dataclass(frozen=True)
class FitOptions:
    """Options of an estimation.

    Parameters
    ----------
    prior
        (a, b): every ratio is (successes + a) / (trials + b). (1, 2) is the usual smoothing of click models, and makes
        attraction too high if clicks are rare; (0, 0) is maximum likelihood. None: (1, 2), but (2 r, 2) for attraction,
        with the click rate r of all items shown.
    per_query
        Every query has its own parameters of ranks and of the whole model. Otherwise all queries share them.
    exact
        DCM and SDBN: maximise the likelihood, by EM over whole lists. Otherwise the closed form is used, which assumes
        that nobody reads on after the last click: one pass over the log, but attraction is overestimated if many do.
    level
        Level of the confidence intervals.
    max_iterations
        Maximum number of passes over the data in EM.
    tolerance
        EM has converged when two steps raise the log-likelihood by at most this. One standard error changes it by 1/2.
    """

    prior: Prior | None = None
    per_query: bool = False
    exact: bool = False
    level: float = 0.95
    max_iterations: int = 2000
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if self.prior is not None:
            object.__setattr__(self, "prior", check_prior(self.prior))
        check_choice("per_query", self.per_query, (True, False))
        check_choice("exact", self.exact, (True, False))
        check_number("level", self.level, 0, 1, open_low=True, open_high=True)
        check_integer("max_iterations", self.max_iterations, 1)
        check_number("tolerance", self.tolerance, 0)

    @property
    def others(self) -> Prior:
        """The prior of parameters other than attraction."""
        return USUAL if self.prior is None else self.prior

    def attraction(self, clicks: float, views: float) -> Prior:
        """The prior of attraction, given the clicks on all items of the log and their views."""
        return learnt_prior(clicks, views) if self.prior is None else self.prior


class Expected(NamedTuple):
    """The result of an E-step; valid for the queries that were asked for."""

    successes: Numbers  #: of every parameter
    trials: Numbers
    fit: Numbers  #: (Q,) log-likelihood of every query


@dataclass(frozen=True)
class Blocks:
    """The blocks: groups of parameters and queries that depend on each other."""

    count: int
    of_parameter: Indices
    of_query: Indices


@dataclass(frozen=True)
class EMResult:
    """The result of EM."""

    theta: Numbers
    expected: Expected  #: at the end
    trace: tuple[float, ...]  #: the penalised log-likelihood of every cycle
    iterations: int  #: E-steps
    converged: bool


def check_prior(prior: Any) -> Prior:
    """The prior (a, b): every ratio is (successes + a) / (trials + b)."""
    try:
        a, b = prior
        check_number("prior[0]", a, 0)
        check_number("prior[1]", b, 0)
    except (TypeError, ValueError):
        raise ValueError(f"prior={prior!r}: must be (a, b) with 0 <= a <= b, successes and trials to add") from None
    if a > b:
        raise ValueError(f"prior={prior!r}: must be (a, b) with 0 <= a <= b, successes and trials to add")
    return float(a), float(b)


def learnt_prior(clicks: float, views: float) -> Prior:
    """The prior of attraction that is worth two views with the click rate of the log.

    >>> learnt_prior(4, 1000), learnt_prior(0, 0)
    ((0.008, 2.0), (1.0, 2.0))
    """
    return (2.0 * clicks / views, 2.0) if views > 0 else USUAL


def prior_mean(prior: Prior) -> float:
    """The estimate if there are no data.

    >>> prior_mean((1, 2)), prior_mean((0, 0))
    (0.5, 0.5)
    """
    return prior[0] / prior[1] if prior[1] > 0 else 0.5


def ratio(successes: NDArray[Any], trials: NDArray[Any], prior: Prior) -> Numbers:
    """(successes + a) / (trials + b); the prior's mean if there are no trials."""
    below = trials + prior[1]
    return np.where(below > 0, (successes + prior[0]) / np.where(below > 0, below, 1.0), prior_mean(prior))


def run_em(
    expect: Callable[[Numbers, Indices], Expected],
    theta: Numbers,
    fixed: NDArray[np.bool_],
    blocks: Blocks,
    priors: tuple[Numbers, Numbers],
    options: FitOptions,
) -> EMResult:
    """Take EM steps from ``theta`` until all blocks have converged; ``priors`` are a and b of every parameter.

    A block has converged when a cycle, of two steps and a long one, raises its log-likelihood by at most the tolerance
    and a step moves no parameter by more than 0.001, or when a step moves none by more than 1e-12. ``fixed`` parameters
    stay.
    """
    steps = _EMSteps(expect, fixed, blocks, priors)
    stride, leap, largest_move = (specialise(t, {}) for t in (templates.stride, templates.leap, templates.largest_move))
    of, count = blocks.of_parameter, blocks.count
    every = np.ones(count, bool)
    at = np.where(fixed, theta, np.clip(theta, EDGE, 1 - EDGE))
    once, value = steps.take(at, every)
    trace = [float(value.sum())]
    longest = np.ones(count)
    live = every
    while steps.count < options.max_iterations and live.any():
        twice, value_once = steps.take(once, live)
        square_r, square_v = np.zeros(count), np.zeros(count)
        stride(at, once, twice, of, live, square_r, square_v)
        length = np.clip(np.sqrt(square_r / np.maximum(square_v, 1e-300)), 1.0, longest)
        far = np.where(live[of], at, once)  # converged blocks stay
        leap(at, once, twice, fixed, of, live, length, EDGE, far)
        after, value_far = steps.take(far, live)
        worse = live & ~(value_far >= value_once)
        longest = np.where(live & ~worse & (length >= longest), longest * 4, longest)
        longest = np.where(worse, np.maximum(longest / 4, 1), longest)
        if worse.any():  # these take two plain steps instead
            back = worse[of]
            far[back] = twice[back]
            after_two, value_two = steps.take(far, worse)
            after[back] = after_two[back]
            value_far[worse] = value_two[worse]
        gain = np.where(live, value_far - value, 0.0)
        at, once, value = far, after, np.where(live, value_far, value)
        trace.append(float(value.sum()))
        moved = np.zeros(count)
        largest_move(at, once, of, live, moved)
        done = (moved <= 1e-12) | ((moved <= 1e-3) & (gain <= options.tolerance + 1e-13 * np.abs(value)))
        live = live & ~done
    return EMResult(once, steps.expected(once, every), tuple(trace), steps.count, not live.any())


class _EMSteps:
    """EM steps of some blocks, and the number of passes over the data."""

    def __init__(
        self,
        expect: Callable[[Numbers, Indices], Expected],
        fixed: NDArray[np.bool_],
        blocks: Blocks,
        priors: tuple[Numbers, Numbers],
    ) -> None:
        self.expect, self.fixed, self.blocks, self.priors = expect, fixed, blocks, priors
        self.maximise = specialise(templates.maximise, {})
        self.count = 0

    def expected(self, theta: Numbers, live: NDArray[np.bool_]) -> Expected:
        return self.expect(theta, np.flatnonzero(live[self.blocks.of_query]))

    def take(self, theta: Numbers, live: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """One step of the live blocks, and the objective of each at ``theta``."""
        self.count += 1
        blocks = self.blocks
        found = self.expected(theta, live)
        value = np.bincount(blocks.of_query, found.fit, blocks.count).astype(np.float64)
        out = theta.copy()
        self.maximise(
            theta, found.successes, found.trials, self.fixed, blocks.of_parameter, live, *self.priors, EDGE, value, out
        )
        return out, value


def blocks_of(pair_query: NDArray[Any], queries: int, per_item: int, per_group: int, per_query: bool) -> Blocks:
    """The blocks of a vector that holds the parameters of all pairs, pair by pair, then those of all groups."""
    of_query = np.arange(queries) if per_query else np.zeros(queries, np.int64)
    count = queries if per_query else 1
    of_items = np.repeat(of_query[pair_query], per_item)
    return Blocks(count, np.concatenate([of_items, np.repeat(np.arange(count), per_group)]), of_query)


#: rows per part of the work; fewer are not worth a thread
_PART = 200_000


def in_parts(queries: Indices, rows: Indices) -> list[Indices]:
    """Divide queries into parts of about as many rows; the division does not depend on the machine."""
    size = np.cumsum(rows[queries])
    if not len(size):
        return []
    parts = min(64, max(1, int(size[-1]) // _PART))
    cuts = np.searchsorted(size, size[-1] * np.arange(1, parts) / parts)
    return [part for part in np.split(queries, np.unique(cuts)) if len(part)]


def run_parts(work: Callable[[int], None], parts: Sequence[Any]) -> None:
    """Run ``work(n)`` for every part, on all cores if there are several parts."""
    if len(parts) < 2:
        for n in range(len(parts)):
            work(n)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, range(len(parts))))
