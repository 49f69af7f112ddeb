"""Evaluate kernels at many points and write what they give; run by ``test_pure.py``, compiled and not."""

from __future__ import annotations

import sys

import numpy as np

from driftrank.kernels import distributions, elementary, kl, rng
from driftrank.kernels.compile import specialise


def evaluate(x, p, d, shapes, keys, out):
    """One column per kernel."""
    for i in range(x.shape[0]):
        out[i, 0] = LOG(x[i])  # noqa: F821
        out[i, 1] = EXP(LOG(x[i]) * 0.9)  # noqa: F821
        out[i, 2] = UNIFORM(DERIVE(keys[i], i))  # noqa: F821
        out[i, 3] = BELOW(keys[i], 17)  # noqa: F821
        out[i, 4] = NORMAL(keys[i])  # noqa: F821
        out[i, 5] = GAMMA(keys[i], shapes[i])  # noqa: F821
        out[i, 6] = BETA(keys[i], shapes[i], 1.5)  # noqa: F821
        out[i, 7] = KL(p[i], 0.25)  # noqa: F821
        out[i, 8] = KL_UCB(p[i], d[i])  # noqa: F821
        out[i, 9] = KL_LCB(p[i], d[i])  # noqa: F821
        out[i, 10] = LEVEL(i + 1, 3.0)  # noqa: F821
        out[i, 11] = INNER(keys[i])  # noqa: F821


NAMES = {
    "LOG": elementary.log,
    "EXP": elementary.exp,
    "DERIVE": rng.derive,
    "UNIFORM": rng.uniform,
    "BELOW": rng.below,
    "NORMAL": distributions.normal,
    "INNER": distributions.inner_uniform,
    "GAMMA": distributions.gamma,
    "BETA": distributions.beta,
    "KL": kl.kl,
    "KL_UCB": kl.kl_ucb,
    "KL_LCB": kl.kl_lcb,
    "LEVEL": kl.exploration_level,
}


def main(path: str) -> None:
    n = 3000
    random = np.random.default_rng(0)
    x = np.exp(random.uniform(-700, 700, n))
    p = random.random(n)
    p[:3] = 0, 1, 0.5
    d = np.exp(random.uniform(-30, 4, n))
    shapes = np.exp(random.uniform(-4, 12, n))
    keys = random.integers(2**64, size=n, dtype=np.uint64)
    out = np.empty((n, 12))
    with np.errstate(over="ignore"):  # keys wrap around
        specialise(evaluate, NAMES)(x, p, d, shapes, keys, out)
    np.save(path, out)


if __name__ == "__main__":
    main(sys.argv[1])
