r"""Expectation maximisation: from what is expected of the hidden part of the data to estimates that explain it better.

Every parameter is a probability, and its M-step is a ratio: expected successes + a over expected trials + b, with the
``prior`` (a, b). A step never lowers the log-likelihood plus :math:`\sum a \ln\theta + (b-a) \ln(1-\theta)`. Steps are
lengthened by SQUAREM (Varadhan and Roland, 2008); a long step that would lower it is not taken. Parameters that no data
tie together, those of different queries where nothing is shared, form blocks, which take steps of their own length and
stop when they are done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels import steps
from driftrank.clickmodels.intervals import EDGE
from driftrank.kernels.compile import specialise
from driftrank.validation import check_choice, check_integer, check_number

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]
Prior = tuple[float, float]


@dataclass(frozen=True)
class Options:
    """How to estimate.

    Parameters
    ----------
    prior
        (a, b): every ratio is (successes + a) / (trials + b). (1, 2) is the smoothing that is usual for click models;
        (0, 0) is maximum likelihood.
    per_query
        Whether every query has its own parameters of ranks and of the whole model. Otherwise all queries share them.
    exact
        DCM and SDBN: whether the likelihood is maximised, by EM over whole lists. Otherwise the closed form is taken,
        which supposes that nobody reads on after the last click: one look at the log, but attraction comes out too
        large where many do.
    level
        Of the confidence intervals.
    max_iterations
        The most passes that EM makes over the data.
    tolerance
        EM is done when two steps raise the log-likelihood by no more than this. One standard error is worth a half.
    """

    prior: Prior = (1.0, 2.0)
    per_query: bool = False
    exact: bool = False
    level: float = 0.95
    max_iterations: int = 2000
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", check_prior(self.prior))
        check_choice("per_query", self.per_query, (True, False))
        check_choice("exact", self.exact, (True, False))
        check_number("level", self.level, 0, 1, open_low=True, open_high=True)
        check_integer("max_iterations", self.max_iterations, 1)
        check_number("tolerance", self.tolerance, 0)


class Expected(NamedTuple):
    """What an E-step finds. Only what belongs to the queries it was asked for counts."""

    successes: Numbers  #: of every parameter
    trials: Numbers
    fit: Numbers  #: (Q,) log-likelihood of every query


@dataclass(frozen=True)
class Blocks:
    """Which parameters and queries belong together."""

    count: int
    of_parameter: Indices
    of_query: Indices


@dataclass(frozen=True)
class Climbed:
    """Where EM got to."""

    theta: Numbers
    expected: Expected  #: at the end
    trace: tuple[float, ...]  #: the penalised log-likelihood from cycle to cycle
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


def prior_mean(prior: Prior) -> float:
    """The estimate where there are no data.

    >>> prior_mean((1, 2)), prior_mean((0, 0))
    (0.5, 0.5)
    """
    return prior[0] / prior[1] if prior[1] > 0 else 0.5


def ratio(successes: NDArray[Any], trials: NDArray[Any], prior: Prior) -> Numbers:
    """(successes + a) / (trials + b), and the prior's mean where there are no trials."""
    below = trials + prior[1]
    return np.where(below > 0, (successes + prior[0]) / np.where(below > 0, below, 1.0), prior_mean(prior))


def climb(
    expect: Callable[[Numbers, Indices], Expected],
    theta: Numbers,
    fixed: NDArray[np.bool_],
    blocks: Blocks,
    options: Options,
) -> Climbed:
    """Take steps from ``theta`` until none of them leads further.

    A block is done when a cycle, of two steps and a long one, raises its log-likelihood by no more than the tolerance
    and a step moves no parameter by more than 0.001, or by next to nothing. ``fixed`` parameters stay.
    """
    walk = _Walk(expect, fixed, blocks, options.prior)
    stride, leap, largest_move = (specialise(t, {}) for t in (steps.stride, steps.leap, steps.largest_move))
    of, count = blocks.of_parameter, blocks.count
    every = np.ones(count, bool)
    at = np.where(fixed, theta, np.clip(theta, EDGE, 1 - EDGE))
    once, value = walk.step(at, every)
    trace = [float(value.sum())]
    longest = np.ones(count)
    live = every
    while walk.count < options.max_iterations and live.any():
        twice, value_once = walk.step(once, live)
        square_r, square_v = np.zeros(count), np.zeros(count)
        stride(at, once, twice, of, live, square_r, square_v)
        length = np.clip(np.sqrt(square_r / np.maximum(square_v, 1e-300)), 1.0, longest)
        far = np.where(live[of], at, once)  # those that are done have stayed where their last step took them
        leap(at, once, twice, fixed, of, live, length, EDGE, far)
        after, value_far = walk.step(far, live)
        worse = live & ~(value_far >= value_once)
        longest = np.where(live & ~worse & (length >= longest), longest * 4, longest)
        longest = np.where(worse, np.maximum(longest / 4, 1), longest)
        if worse.any():  # these go two plain steps instead
            back = worse[of]
            far[back] = twice[back]
            after_two, value_two = walk.step(far, worse)
            after[back] = after_two[back]
            value_far[worse] = value_two[worse]
        gain = np.where(live, value_far - value, 0.0)
        at, once, value = far, after, np.where(live, value_far, value)
        trace.append(float(value.sum()))
        moved = np.zeros(count)
        largest_move(at, once, of, live, moved)
        done = (moved <= 1e-12) | ((moved <= 1e-3) & (gain <= options.tolerance + 1e-13 * np.abs(value)))
        live = live & ~done
    return Climbed(once, walk.expected(once, every), tuple(trace), walk.count, not live.any())


class _Walk:
    """EM steps of some blocks, and how many passes over the data they took."""

    def __init__(
        self,
        expect: Callable[[Numbers, Indices], Expected],
        fixed: NDArray[np.bool_],
        blocks: Blocks,
        prior: Prior,
    ) -> None:
        self.expect, self.fixed, self.blocks, self.prior = expect, fixed, blocks, prior
        self.maximise = specialise(steps.maximise, {})
        self.count = 0

    def expected(self, theta: Numbers, live: NDArray[np.bool_]) -> Expected:
        return self.expect(theta, np.flatnonzero(live[self.blocks.of_query]))

    def step(self, theta: Numbers, live: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """Where one step takes the live blocks, and what ``theta`` is worth to each."""
        self.count += 1
        blocks = self.blocks
        found = self.expected(theta, live)
        value = np.bincount(blocks.of_query, found.fit, blocks.count).astype(np.float64)
        out = theta.copy()
        self.maximise(
            theta, found.successes, found.trials, self.fixed, blocks.of_parameter, live, *self.prior, EDGE, value, out
        )
        return out, value


def blocks_of(pair_query: NDArray[Any], queries: int, per_item: int, per_group: int, per_query: bool) -> Blocks:
    """The blocks of a vector that holds the parameters of all pairs, pair by pair, then those of all groups."""
    of_query = np.arange(queries) if per_query else np.zeros(queries, np.int64)
    count = queries if per_query else 1
    of_items = np.repeat(of_query[pair_query], per_item)
    return Blocks(count, np.concatenate([of_items, np.repeat(np.arange(count), per_group)]), of_query)


#: how many rows make a part of the work that is worth a thread of its own
_PART = 200_000


def in_parts(queries: Indices, rows: Indices) -> list[Indices]:
    """Queries divided into parts of about as many rows; the division does not depend on the machine."""
    size = np.cumsum(rows[queries])
    if not len(size):
        return []
    parts = min(64, max(1, int(size[-1]) // _PART))
    cuts = np.searchsorted(size, size[-1] * np.arange(1, parts) / parts)
    return [part for part in np.split(queries, np.unique(cuts)) if len(part)]


def run_parts(work: Callable[[int], None], parts: Sequence[Any]) -> None:
    """Do every part, on all cores where there are several."""
    if len(parts) < 2:
        for n in range(len(parts)):
            work(n)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, range(len(parts))))
