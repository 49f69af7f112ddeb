"""PiecewiseRandom: changes at random steps, by random amounts."""

from __future__ import annotations

from typing import ClassVar

from driftrank.environments.base import QueryEnvironment
from driftrank.environments.reflect import reflected
from driftrank.environments.start import START, first_level
from driftrank.kernels import kernel
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.rng import below, derive, uniform
from driftrank.validation import check_choice, check_integer, check_number


class PiecewiseRandom(QueryEnvironment):
    """At random steps, every item may become more or less attractive (after Besson et al., 2022).

    At a breakpoint each item changes with the given ``probability``, up or down by a uniform number between
    ``smallest`` and ``largest``, reflected at the edges of [0, 1]. At least one item changes.

    Parameters
    ----------
    n_breakpoints, horizon
        Number of breakpoints in every ``horizon`` steps, for runs of any length.
    spacing
        Fewest steps between two breakpoints, and before the first.
    times
        ``"uniform"``: exactly ``n_breakpoints``, at uniform random steps; ``"geometric"``: after segments of random
        length with mean ``horizon / n_breakpoints``.
    probability, smallest, largest
        Probability that an item changes, and the smallest and largest change.
    start
        ``"query"``: every run starts with the query's default attraction; ``"uniform"``: with levels below 1/2 drawn in
        every run. Levels of real queries are mostly close to 0, so the first changes tend to raise them.

    Notes
    -----
    The attraction at step t costs O(L) per breakpoint before t.

    >>> env = PiecewiseRandom([[0.5, 0.4, 0.3, 0.2, 0.1, 0.05]], k=2)
    >>> len(env.breakpoints(100_000)), len(env.breakpoints(200_000))
    (6, 12)
    """

    kind: ClassVar[str] = "abrupt"
    choices = {"times": ("uniform", "geometric"), "start": START}

    n_breakpoints: int = 6
    horizon: int = 100_000
    spacing: int = 1000
    times: str = "uniform"
    probability: float = 0.5
    smallest: float = 0.05
    largest: float = 0.3
    start: str = "query"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("n_breakpoints", self.n_breakpoints, 1)
        check_integer("spacing", self.spacing, 1)
        check_integer("horizon", self.horizon, 1)
        if self.n_breakpoints * self.spacing >= self.horizon:
            raise ValueError(
                f"horizon={self.horizon!r}: must be more than the {self.n_breakpoints * self.spacing} steps that "
                f"n_breakpoints={self.n_breakpoints} with spacing={self.spacing} take"
            )
        check_choice("times", self.times, self.choices["times"])
        check_choice("start", self.start, START)
        check_number("probability", self.probability, 0, 1)
        check_number("largest", self.largest, 0, 1, open_low=True)
        check_number("smallest", self.smallest, 0, self.largest)

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = first_level(p, base, key, a)
        n = 0
        step = 0
        left = 1.0
        while True:
            draw = derive(key, n)
            minus = log(1.0 - uniform(derive(draw, 0)))  # the negative of an exponential number
            if p.times == 1:
                # a geometric number of steps on top of the spacing, so that the mean is horizon / n_breakpoints
                quit_ = p.n_breakpoints / (p.horizon - p.n_breakpoints * (p.spacing - 1))
                step += p.spacing + int(minus / log(1.0 - quit_))
            else:
                # sorted uniform numbers one by one: the part beyond the next is left * U^(1/number of those left)
                i = n % p.n_breakpoints
                left = exp(minus / (p.n_breakpoints - i)) * (1.0 if i == 0 else left)
                free = p.horizon - p.n_breakpoints * p.spacing
                step = n // p.n_breakpoints * p.horizon + (i + 1) * p.spacing + int(free * (1.0 - left))
            if step >= t:
                break
            _change(p, draw, alpha)
            n += 1
        for a in range(base.shape[0]):
            alpha[a] = reflected(alpha[a])
        return step + 1


@kernel
def _change(p, key, alpha):
    """A breakpoint, without reflection: sums reflected once at the end or step by step have the same distribution."""
    L = alpha.shape[0]
    changed = False
    for a in range(L):
        if uniform(derive(derive(key, a + 1), 0)) < p.probability:
            alpha[a] += _amount(p, derive(key, a + 1))
            changed = True
    if not changed:
        a = below(derive(key, L + 1), L)
        alpha[a] += _amount(p, derive(key, a + 1))


@kernel
def _amount(p, key):
    size = p.smallest + (p.largest - p.smallest) * uniform(derive(key, 1))
    return size if uniform(derive(key, 2)) < 0.5 else -size
