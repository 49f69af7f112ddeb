r"""The paper's theorems as functions, and the parameters they recommend.

Symbols are the paper's: L items, K positions, horizon n, :math:`\Upsilon_n` breakpoints, :math:`\epsilon` the width
of the confidence interval, :math:`\gamma` the discount, :math:`\tau` the window, :math:`\Delta_a` the smallest gap of
item a, and :math:`\eta = 4\sqrt{1 - 1/(2\epsilon)}`. Equations that the paper prints in two ways are implemented as
its proofs have them; the docstrings state the differences.

The upper bounds describe how regret *grows*. As numbers they are vacuous at the scale of the paper's own experiments:
with n = 100,000, L = 10, 9 breakpoints and all gaps 0.1 they are 7.9 and 0.5 million, whereas regret cannot exceed
100,000 and is some thousands for these algorithms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from driftrank.validation import check_choice, check_integer, check_number

if TYPE_CHECKING:
    from driftrank.environments import Environment

__all__ = [
    "bias_window",
    "gaps",
    "kl",
    "kveton_ucb1_bound",
    "recommended_discount",
    "recommended_window",
    "smallest_gap",
    "theorem1",
    "theorem2",
    "theorem3",
]

#: one gap per item, NaN or None for an item that is never suboptimal; or one number for all
Gaps = float | Iterable[float | None]


def recommended_discount(n: int, n_breakpoints: int = 1) -> float:
    r"""The discount for which the bound of theorem 1 grows slowest (section 4.1).

    .. math:: \gamma = 1 - \frac14 \sqrt{\Upsilon_n/n}

    The paper's experiments assume one breakpoint. Never below 1/2, which theorem 1 requires.

    >>> round(recommended_discount(100_000), 9), round(recommended_discount(100_000, n_breakpoints=9), 9)
    (0.999209431, 0.997628292)
    """
    check_integer("n", n, 1)
    check_integer("n_breakpoints", n_breakpoints, 1)
    return max(0.5, 1.0 - 0.25 * math.sqrt(n_breakpoints / n))


def recommended_window(n: int, n_breakpoints: int = 1) -> float:
    r"""The window for which the bound of theorem 2 grows slowest (section 4.1).

    .. math:: \tau = 2 \sqrt{n \ln(n)/\Upsilon_n}

    Policies round it up to whole steps.

    >>> round(recommended_window(100_000), 2), round(recommended_window(100_000, n_breakpoints=9), 2)
    (2145.97, 715.32)
    """
    check_integer("n", n, 1)
    check_integer("n_breakpoints", n_breakpoints, 1)
    return 2.0 * math.sqrt(n * math.log(n) / n_breakpoints)


def bias_window(discount: float, epsilon: float) -> float:
    r"""The steps after a breakpoint in which discounted estimates may be biased.

    .. math:: B(\gamma) = \frac{\ln((1-\gamma)\epsilon)}{\ln\gamma}

    From then on the bias is at most half the confidence interval. Garivier and Moulines have a further factor
    :math:`\ln N_t(\gamma)` inside the logarithm; the paper's form, implemented here, is on the safe side once that is
    above 1.

    >>> round(bias_window(recommended_discount(100_000, 9), epsilon=0.6), 2)
    2760.54
    """
    check_number("discount", discount, 0.5, 1, open_low=True, open_high=True)
    check_number("epsilon", epsilon, 0, 1, open_low=True)
    return math.log((1.0 - discount) * epsilon) / math.log(discount)


def theorem1(
    n: int,
    L: int,
    n_breakpoints: int,
    gaps: Gaps,
    epsilon: float,
    discount: float | None = None,
    form: str = "corrected",
) -> float:
    r"""The upper bound on the n-step regret of CascadeDUCB.

    .. math::

        R(n) &\le L \Upsilon_n B(\gamma) + \sum_a C(\gamma, a) \lceil n(1-\gamma) \rceil \ln\frac{1}{1-\gamma} \\
        C(\gamma, a) &= \frac{4}{(1-1/e) \ln(1+\eta)} + \frac{32\epsilon}{\Delta_a \gamma^{1/(1-\gamma)}}

    It is :math:`O(\sqrt{n \Upsilon_n} \ln n)` with the recommended discount.

    Parameters
    ----------
    n, L, n_breakpoints
        Horizon, items, and :math:`\Upsilon_n`.
    gaps
        :math:`\Delta_a` of each of the L items (see :func:`gaps`), or one number for all. An item that is never
        suboptimal (NaN or None) has no gap term; a gap of 0 makes the bound infinite.
    epsilon
        In (1/2, 1). At the 1/2 of the paper's experiments :math:`\eta = 0` and there is no bound.
    discount
        :math:`\gamma` in (1/2, 1); by default the recommended one.
    form
        ``"corrected"``: as above. ``"printed"``: the first term of C as the theorem prints it, with
        :math:`\ln(1+\eta)` as a factor; the appendix and Garivier and Moulines (2011) divide by it. ``"appendix"``:
        corrected, with the :math:`2L/(1-\gamma)` that the theorem leaves out, and :math:`B(\gamma)` rounded up.

    Notes
    -----
    The gap term divides by :math:`\gamma^{1/(1-\gamma)}` as in the theorem; the last display of the appendix
    multiplies by it, but the lemma it quotes divides. The bound is vacuous (above n) at the scale of the paper's
    experiments.

    Examples
    --------
    >>> round(theorem1(100_000, L=10, n_breakpoints=9, gaps=0.1, epsilon=0.6))
    7859106
    """
    check_choice("form", form, ("corrected", "printed", "appendix"))
    inverse_gaps = _inverse_gaps(n, L, n_breakpoints, gaps)
    log_eta = _log_one_plus_eta(epsilon)
    gamma = recommended_discount(n, max(1, n_breakpoints)) if discount is None else discount
    bias = bias_window(gamma, epsilon)
    outside = 4.0 / (1.0 - 1.0 / math.e) * (log_eta if form == "printed" else 1.0 / log_eta)
    inside = 32.0 * epsilon / math.pow(gamma, 1.0 / (1.0 - gamma))
    constants = L * outside + inside * inverse_gaps
    extra = 0.0
    if form == "appendix":
        bias = math.ceil(bias)
        extra = 2.0 * L / (1.0 - gamma)
    return L * n_breakpoints * bias + extra + constants * math.ceil(n * (1.0 - gamma)) * math.log(1.0 / (1.0 - gamma))


def theorem2(
    n: int,
    L: int,
    n_breakpoints: int,
    gaps: Gaps,
    epsilon: float,
    window: float | None = None,
) -> float:
    r"""The upper bound on the n-step regret of CascadeSWUCB.

    .. math::

        R(n) &\le L \Upsilon_n \tau + \frac{L \ln^2\tau}{\ln(1+\eta)} + \sum_a C(\tau, a) \frac{n \ln\tau}{\tau} \\
        C(\tau, a) &= \frac{2}{\ln\tau} \left\lceil \frac{\ln\tau}{\ln(1+\eta)} \right\rceil
                      + \frac{8\epsilon}{\Delta_a} \frac{\lceil n/\tau \rceil}{n/\tau}

    It is :math:`O(\sqrt{n \Upsilon_n \ln n})` with the recommended window.

    Parameters
    ----------
    n, L, n_breakpoints, gaps, epsilon
        As in :func:`theorem1`.
    window
        :math:`\tau`, at least 2 steps; by default the recommended one, not rounded.

    Notes
    -----
    The limit of C stated with the theorem needs :math:`n/\tau \to \infty` instead of the printed 0, and the outline
    of the proof drops a few factors; this is the theorem's own line. The bound is vacuous (above n) at the
    scale of the paper's experiments.

    Examples
    --------
    >>> round(theorem2(100_000, L=10, n_breakpoints=9, gaps=0.1, epsilon=0.6))
    526084
    >>> round(theorem2(100_000, L=10, n_breakpoints=9, gaps=0.1, epsilon=0.6, window=716))
    526191
    """
    check_integer("n", n, 2)
    inverse_gaps = _inverse_gaps(n, L, n_breakpoints, gaps)
    log_eta = _log_one_plus_eta(epsilon)
    tau = recommended_window(n, max(1, n_breakpoints)) if window is None else window
    check_number("window", tau, 2)
    log_tau = math.log(tau)
    outside = 2.0 * math.ceil(log_tau / log_eta) * n / tau
    inside = 8.0 * epsilon * math.ceil(n / tau) * log_tau
    return L * n_breakpoints * tau + L * log_tau**2 / log_eta + L * outside + inside * inverse_gaps


def theorem3(n: int, L: int, K: int, p: float, delta: float) -> float:
    r"""The lower bound on the n-step regret of any policy on the problem :math:`B_L`
    (``driftrank.environments.LowerBound``).

    .. math:: R(n) \ge L \Delta (1-p)^{K-1} \sqrt{\frac{2n}{3 D_{KL}(p-\Delta \| p)}}

    Parameters
    ----------
    n
        Horizon.
    L, K
        Items, an even number, and positions, K = L/2.
    p, delta
        Attraction of the optimal items, and its difference to that of the others, :math:`\Delta \in (0, p]`.

    Notes
    -----
    Asymptotic: read it as a limit of :math:`R(n)/\sqrt n`; the paper prints a limit of R(n), but both sides
    grow. The factor L comes from summing an argument about one item, for two breakpoints: it describes how regret
    scales and is not a tight constant.

    Examples
    --------
    >>> round(theorem3(100_000, L=10, K=5, p=0.2, delta=0.1), 2)
    552.13
    """
    check_integer("n", n, 1)
    check_integer("L", L, 2)
    if L % 2:
        raise ValueError(f"L={L!r}: must be even, since half of the items are optimal")
    check_integer("K", K, 1)
    if 2 * K != L:
        raise ValueError(f"K={K!r}: must be half of L, {L // 2}")
    check_number("p", p, 0, 1, open_low=True)
    check_number("delta", delta, 0, p, open_low=True)
    return L * delta * (1.0 - p) ** (K - 1) * math.sqrt(2.0 * n / (3.0 * kl(p - delta, p)))


def kveton_ucb1_bound(n: int, L: int, gaps: Gaps) -> float:
    r"""The upper bound on the n-step regret of CascadeUCB1 without changes (Kveton et al., 2015, theorem 2).

    .. math:: R(n) \le \sum_{a: \Delta_a > 0} \frac{12}{\Delta_a} \ln n + \frac{\pi^2}{3} L

    The sum is over the suboptimal items: give NaN or None as the gap of the K optimal ones.

    >>> round(kveton_ucb1_bound(100_000, L=3, gaps=[None, None, 0.1]), 1)
    1391.4
    """
    return 12.0 * math.log(n) * _inverse_gaps(n, L, 0, gaps) + math.pi**2 / 3.0 * L


def kl(p: float, q: float) -> float:
    r"""The Kullback-Leibler divergence of Bernoulli distributions, :math:`p\ln\frac pq + (1-p)\ln\frac{1-p}{1-q}`,
    with 0 ln 0 = 0.

    >>> round(kl(0.1, 0.2), 6)
    0.03669
    """
    check_number("p", p, 0, 1)
    check_number("q", q, 0, 1)
    total = 0.0
    for mine, other in ((p, q), (1.0 - p, 1.0 - q)):
        if mine > 0.0:
            if other == 0.0:
                return math.inf
            total += mine * math.log(mine / other)
    return max(0.0, total)


def gaps(
    environment: Environment, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0
) -> NDArray[np.float64]:
    r"""The smallest gap :math:`\Delta_a` of every item of a query: :math:`\alpha_t` of the K-th best item less
    :math:`\alpha_t(a)`, over the steps up to the horizon at which a is not among the K best.

    NaN for an item that is always among them. Among equally attractive items those with the smaller index count as
    better, so an item that ties with the K-th best has a gap of 0. (The appendix's definition: the one in the text is
    not positive when a is itself optimal.)

    >>> from driftrank.environments import Stationary
    >>> gaps(Stationary([[0.5, 0.1, 0.4, 0.3]], k=2), horizon=100).round(3).tolist()
    [nan, 0.3, nan, 0.1]
    """
    _, attraction, _ = environment.stretches(horizon, query, run, seed)
    order = np.argsort(-attraction, axis=1, kind="stable")
    last = np.take_along_axis(attraction, order[:, environment.k - 1 : environment.k], axis=1)
    gap = last - attraction
    np.put_along_axis(gap, order[:, : environment.k], np.inf, axis=1)
    smallest: NDArray[np.float64] = gap.min(axis=0)
    smallest[np.isinf(smallest)] = np.nan
    return smallest


def smallest_gap(environment: Environment, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0) -> float:
    r"""The smallest :math:`\Delta_a` of any item; infinite if every item is always among the K best.

    >>> from driftrank.environments import LowerBound
    >>> round(smallest_gap(LowerBound(L=4, p=0.2, delta=0.1, period=100), horizon=300), 3)
    0.1
    """
    every = gaps(environment, horizon, query, run, seed)
    return float(np.min(every, where=~np.isnan(every), initial=np.inf))


def _log_one_plus_eta(epsilon: float) -> float:
    """ln(1 + eta), eta = 4 sqrt(1 - 1/(2 epsilon))."""
    check_number("epsilon", epsilon, 0.5, 1, open_low=True, open_high=True)
    return math.log1p(4.0 * math.sqrt(1.0 - 1.0 / (2.0 * epsilon)))


def _inverse_gaps(n: int, L: int, n_breakpoints: int, gaps: Gaps) -> float:
    """The sum of 1/Delta_a over the items that have a gap."""
    check_integer("n", n, 1)
    check_integer("L", L, 1)
    check_integer("n_breakpoints", n_breakpoints, 0, n - 1)
    values = [gaps] * L if isinstance(gaps, (int, float)) else list(gaps)
    if len(values) != L:
        raise ValueError(f"gaps has {len(values)} values: must be one number, or one for each of the L={L} items")
    total = 0.0
    for a, gap in enumerate(values):
        if gap is None or gap != gap:
            continue
        check_number(f"gaps[{a}]", gap, 0, 1)
        total += 1.0 / gap if gap > 0 else math.inf
    return total
