"""EXP3: the bandit for adversarial rewards, as kernels for one row of arms.

Row ``i`` of the state holds, per arm a, the cumulated estimate ``gain`` G(a) and the ``weight`` exp(rate (G(a) - top)), where ``top`` is a reference that moves
with the largest gain. So a step needs one exponential, for the arm that was pulled, and nothing ever overflows.

* loss form: p(a) ~ exp(eta G(a)), and a pull of b without reward gives G(b) -= 1/p(b); eta = sqrt(2 ln L / (n L)).
* Auer's form: p(a) = (1-g) w(a)/W + g/L, and a reward for b gives G(b) += 1/p(b), w(a) = exp(g G(a) / L); g = min(1, sqrt(L ln L / ((e-1) n))).

Where the rate changes with every step ("anytime") the weights are worked out when they are needed.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.rng import derive, uniform
from driftrank.kernels.tuples import Field, field

#: how the weights are estimated
FORMS = ("loss", "auer")
_LOSS, _AUER = 0, 1
_E_MINUS_1 = 1.718281828459045

#: outside these bounds the weights are worked out anew from a new top
_SMALLEST, _LARGEST = 1e-100, 1e100


def exp3_fields() -> dict[str, Field]:
    """The state of K rows of L arms. A slot that never held an item has gain -inf."""
    return {"gain": field("K", "L", fill=-np.inf), "weight": field("K", "L"), "top": field("K")}


@kernel
def loss_rate(log_L, L, n):
    """eta of the loss form for n steps."""
    return np.sqrt(2.0 * log_L / (n * L))


@kernel
def anytime_rate(log_L, L, t):
    """eta of the loss form at step t where nobody knows how many will follow."""
    return np.sqrt(log_L / (t * L))


@kernel
def auer_rate(log_L, L, n):
    """g of Auer's form for n steps."""
    return min(1.0, np.sqrt(L * log_L / (_E_MINUS_1 * n)))


@kernel
def exp3_rate(p, t):
    """eta or g, whichever the form has, at step t."""
    if not p.anytime:
        return p.rate
    if p.form == _LOSS:
        return anytime_rate(p.log_L, p.L, np.float64(t))
    return auer_rate(p.log_L, p.L, np.float64(t))


@kernel
def _exponent(p, q):
    """What a gain is multiplied with."""
    return q if p.form == _LOSS else q / p.L


@kernel
def exp3_start(p, s):
    """All arms alike."""
    for j in range(s.gain.shape[0]):
        s.gain[j] = 0.0
        s.weight[j] = 1.0
    for i in range(s.top.shape[0]):
        s.top[i] = 0.0


@kernel
def exp3_draw(p, s, c, i, key, q):
    """An arm among the candidates, and the probability that it had. ``q`` is the rate."""
    row = np.uintp(i * p.L)
    n = c.items.shape[0]
    k = _exponent(p, q)
    flat = p.form == _AUER and uniform(key) < q  # explore uniformly
    anew = p.anytime != 0
    while True:
        top = 0.0
        if anew:
            top = -np.inf
            for j in range(n):
                top = max(top, s.gain[row + c.items[j]])
        # A race: the arm with the smallest -ln(1-u)/w wins, which happens with probability w/W, in whatever order the arms are
        # visited. As -ln(1-u) >= u, the logarithm is needed for few of them.
        b = c.items[0]
        best = np.inf
        total = 0.0
        own = 0.0
        for j in range(n):
            a = c.items[j]
            w = exp(k * (s.gain[row + a] - top)) if anew else s.weight[row + a]
            total += w
            u = uniform(derive(key, c.token[a]))
            v = 1.0 if flat else w
            if u < best * v:
                time = -log(1.0 - u) / v
                if time < best:
                    best = time
                    b = a
                    own = w
        if anew or total > 1e-200:
            break
        anew = True  # these candidates are so much worse than the others that their weights have vanished
    probability = own / total
    if p.form == _AUER:
        probability = (1.0 - q) * probability + q / n
    return b, probability


@kernel
def exp3_probability(p, s, i, b, q):
    """The probability of arm ``b`` among all arms of the row."""
    row = i * p.L
    k = _exponent(p, q)
    top = _largest(p, s, i)
    total = 0.0
    for a in range(p.L):
        total += exp(k * (s.gain[row + a] - top))
    # an arm known only from a list that somebody else made must not get a loss beyond all bounds
    probability = max(exp(k * (s.gain[row + b] - top)) / total, 1e-9)
    if p.form == _AUER:
        probability = (1.0 - q) * probability + q / p.L
    return probability


@kernel
def exp3_probabilities(p, s, c, i, q, out):
    """The probability of every candidate."""
    row = i * p.L
    n = c.items.shape[0]
    k = _exponent(p, q)
    top = -np.inf
    for j in range(n):
        top = max(top, s.gain[row + c.items[j]])
    total = 0.0
    for j in range(n):
        out[j] = exp(k * (s.gain[row + c.items[j]] - top))
        total += out[j]
    for j in range(n):
        out[j] /= total
        if p.form == _AUER:
            out[j] = (1.0 - q) * out[j] + q / n


@kernel
def exp3_learn(p, s, i, b, reward, probability, q):
    """Arm ``b``, drawn with that probability, earned ``reward`` in [0, 1]."""
    estimate = (reward - 1.0) / probability if p.form == _LOSS else reward / probability
    if estimate == 0.0:
        return
    j = i * p.L + b
    s.gain[j] += estimate
    if not p.anytime:
        s.weight[j] = exp(_exponent(p, q) * (s.gain[j] - s.top[i]))
        if s.weight[j] < _SMALLEST or s.weight[j] > _LARGEST:
            _renew(p, s, i, q)


@kernel
def exp3_enter(p, s, i, a, q):
    """Arm ``a`` is new: it enters with the mean weight of the others."""
    row = i * p.L
    k = _exponent(p, q)
    s.gain[row + a] = -np.inf
    top = _largest(p, s, i)
    if top == -np.inf or k == 0.0:
        s.gain[row + a] = 0.0 if top == -np.inf else top
    else:
        total = 0.0
        arms = 0
        for x in range(p.L):
            if s.gain[row + x] > -np.inf:
                total += exp(k * (s.gain[row + x] - top))
                arms += 1
        s.gain[row + a] = top + log(total / arms) / k
    _renew(p, s, i, q)


@kernel
def _largest(p, s, i):
    top = -np.inf
    for a in range(p.L):
        top = max(top, s.gain[i * p.L + a])
    return top


@kernel
def _renew(p, s, i, q):
    """Work out all weights of a row from its gains."""
    row = i * p.L
    k = _exponent(p, q)
    top = _largest(p, s, i)
    s.top[i] = top
    for a in range(p.L):
        difference = s.gain[row + a] - top
        s.weight[row + a] = exp(k * difference) if difference > -np.inf else 0.0
