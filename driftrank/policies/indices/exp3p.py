"""EXP3.P: a bandit for adversarial rewards whose regret is small with high probability, as kernels.

The probability of arm i is p(i) = (1-g) exp(eta G(i)) / sum_j exp(eta G(j)) + g/J, and a reward x in [0, 1] of arm b
gives G(i) += (x 1{i=b} + beta) / p(i) for every arm i. For J arms and n pulls (Bubeck and Cesa-Bianchi, 2012,
chapter 3): beta = sqrt(ln J / (n J)), eta = 0.95 beta, g = min(1, 1.05 sqrt(J ln J / n)).
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import exp, log


@kernel
def exp3p_rates(J, n):
    """beta, eta and g."""
    log_J = log(np.float64(J))
    beta = np.sqrt(log_J / (n * J))
    return beta, 0.95 * beta, min(1.0, 1.05 * np.sqrt(J * log_J / n))


@kernel
def _top_and_sum(gain, J, eta):
    top = gain[0]
    for i in range(J):
        top = max(top, gain[i])
    total = 0.0
    for i in range(J):
        total += exp(eta * (gain[i] - top))
    return top, total


@kernel
def exp3p_draw(gain, J, n, u):
    """The arm that a uniform number u in [0, 1) selects."""
    _, eta, g = exp3p_rates(J, n)
    top, total = _top_and_sum(gain, J, eta)
    passed = 0.0
    for i in range(J):
        passed += (1.0 - g) * (exp(eta * (gain[i] - top)) / total) + g / J
        if u < passed:
            return i
    return J - 1


@kernel
def exp3p_learn(gain, J, n, b, reward):
    """Learn that arm ``b`` earned ``reward`` in [0, 1]."""
    beta, eta, g = exp3p_rates(J, n)
    top, total = _top_and_sum(gain, J, eta)
    for i in range(J):
        p = (1.0 - g) * (exp(eta * (gain[i] - top)) / total) + g / J
        gain[i] += (beta + (reward if i == b else 0.0)) / p
