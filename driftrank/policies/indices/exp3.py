"""EXP3: the bandit for adversarial rewards, as kernels for one row of arms.

Row ``i`` of the state holds, per arm a, the cumulated estimate ``gain`` G(a) and the ``weight`` exp(rate (G(a) - top)),
where ``top`` is a reference that moves with the largest gain. So a step needs one exponential, for the arm that was
pulled, and nothing ever overflows.

* loss form: p(a) ~ exp(eta G(a)), and a pull of b without reward gives G(b) -= 1/p(b); eta = sqrt(2 ln L / (n L)).
* Auer's form: p(a) = (1-g) w(a)/W + g/L, w(a) = exp(g G(a) / L), and a reward for b gives G(b) += 1/p(b);
  g = min(1, sqrt(L ln L / ((e-1) n))).
* sharing form, Exp3.S: as Auer's, but after every pull each arm also gets e a / L of the total weight, so that every
  arm can recover. The weights themselves are the state; there are no gains.

If the rate changes with every step ("anytime"), the weights are computed when they are needed.

EXP3 magnifies the smallest difference: a loss is divided by a probability that depends on all earlier losses. So sums
must not depend on the numbers of slots: arms are visited in an ``order`` of their own, by token at the start, later
arms appended.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.layout import Field, field, integers
from driftrank.kernels.rng import derive, uniform
from driftrank.policies.item_order import order_by_token, stand_last

#: the estimators of the weights
FORMS = ("loss", "auer")
_LOSS, _AUER = 0, 1
#: the index of the sharing form, which has a policy of its own
SHARING = 2
_E_MINUS_1 = 1.718281828459045

#: outside these bounds the weights are computed again from a new top
_SMALLEST, _LARGEST = 1e-100, 1e100


def exp3_fields() -> dict[str, Field]:
    """The state of K rows of L arms. A slot that never held an item has gain -inf."""
    return {
        "gain": field("K", "L", fill=-np.inf),
        "weight": field("K", "L"),
        "top": field("K"),
        "order": integers("L", fill=-1),
    }


def sharing_fields() -> dict[str, Field]:
    """The state of K rows of L arms in the sharing form."""
    return exp3_fields() | {"gain": field(0), "top": field(0)}


@kernel
def loss_rate(log_L, L, n):
    """eta of the loss form for n steps."""
    return np.sqrt(2.0 * log_L / (n * L))


@kernel
def anytime_rate(log_L, L, t):
    """eta of the loss form at step t for an unknown horizon."""
    return np.sqrt(log_L / (t * L))


@kernel
def auer_rate(log_L, L, n):
    """g of Auer's form for n steps."""
    return min(1.0, np.sqrt(L * log_L / (_E_MINUS_1 * n)))


@kernel
def exp3_rate(p, t):
    """eta or g, depending on the form, at step t."""
    if not p.anytime:
        return p.rate
    if p.form == _LOSS:
        return anytime_rate(p.log_L, p.L, np.float64(t))
    return auer_rate(p.log_L, p.L, np.float64(t))


@kernel
def _exponent(p, q):
    """The factor of a gain in the exponent."""
    return q if p.form == _LOSS else q / p.L


@kernel
def _weight(p, s, j, k, top):
    """The weight of arm ``j`` of the whole state, ``top`` being the largest gain."""
    return s.weight[j] if p.form == SHARING else exp(k * (s.gain[j] - top))


@kernel
def exp3_start(p, s, c):
    """Start with equal arms."""
    for j in range(s.gain.shape[0]):
        s.gain[j] = 0.0
    for j in range(s.weight.shape[0]):
        s.weight[j] = 1.0
    for i in range(s.top.shape[0]):
        s.top[i] = 0.0
    order_by_token(s.order, c)


@kernel
def exp3_draw(p, s, c, i, key, q):
    """Draw an arm among the candidates; returns it and its probability. ``q`` is the rate."""
    n = c.items.shape[0]
    share = q if p.form != _LOSS else 0.0  # of uniform exploration
    if n == p.L and not p.anytime:
        b, own, total = _walk(p, s, i, uniform(key), share)
    else:
        b, own, total = _race(p, s, c, i, key, share, _exponent(p, q))
    return b, (1.0 - share) * (own / total) + share / n


@kernel
def _walk(p, s, i, u, share):
    """Walk along the arms until the share ``u`` of the weights is reached; returns arm, weight and sum."""
    row = np.uintp(i * p.L)
    total = 0.0
    for j in range(p.L):
        total += s.weight[row + np.uint32(s.order[j])]
    if u < share:
        b = np.uint32(s.order[np.int64(u / share * p.L)])
        return b, s.weight[row + b], total
    left = (u - share) / (1.0 - share) * total
    passed = 0.0
    b = np.uint32(s.order[0])
    for j in range(p.L):
        a = np.uint32(s.order[j])
        w = s.weight[row + a]
        if w > 0.0:
            b = a
            passed += w
            if passed > left:
                break
    return b, s.weight[row + b], total


@kernel
def _race(p, s, c, i, key, share, k):
    """The same among some of the arms, in any order, with weights computed from the gains.

    Each arm has a time -ln(1-u)/w; that of a is the shortest with probability w(a)/W.
    """
    row = np.uintp(i * p.L)
    n = c.items.shape[0]
    flat = uniform(key) < share
    top = _largest_among(p, s, c, row)
    b = c.items[0]
    own = 0.0
    shortest = np.inf
    total = 0.0
    rest = 0.0
    for j in range(n):
        a = c.items[j]
        w = _weight(p, s, row + a, k, top)
        total, rest = _add(total, rest, w)
        speed = 1.0 if flat else w
        if speed > 0.0:
            time = -log(1.0 - uniform(derive(key, c.token[a]))) / speed
            if time < shortest:
                shortest = time
                b = a
                own = w
    return b, own, total + rest


@kernel
def _add(total, rest, w):
    """Add a number to ``total`` and its rounding error to ``rest``, so that their order makes no difference."""
    new = total + w
    part = new - total
    return new, rest + ((total - (new - part)) + (w - part))


@kernel
def exp3_probability(p, s, i, b, q):
    """The probability of arm ``b`` among all arms of the row."""
    row = i * p.L
    k = _exponent(p, q)
    top = _largest(p, s, i)
    total = 0.0
    for j in range(p.L):
        total += _weight(p, s, row + s.order[j], k, top)
    # the loss of an arm that was shown by another policy must stay bounded
    probability = max(_weight(p, s, row + b, k, top) / total, 1e-9)
    if p.form != _LOSS:
        probability = (1.0 - q) * probability + q / p.L
    return probability


@kernel
def exp3_probabilities(p, s, c, i, q, out):
    """The probability of every candidate."""
    row = i * p.L
    n = c.items.shape[0]
    k = _exponent(p, q)
    top = _largest_among(p, s, c, row)
    total = 0.0
    rest = 0.0
    for j in range(n):
        out[j] = _weight(p, s, row + c.items[j], k, top)
        total, rest = _add(total, rest, out[j])
    for j in range(n):
        out[j] /= total + rest
        if p.form != _LOSS:
            out[j] = (1.0 - q) * out[j] + q / n


@kernel
def exp3_learn(p, s, i, b, reward, probability, q):
    """Learn that arm ``b``, drawn with that probability, earned ``reward`` in [0, 1]."""
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
def exp3_share(p, s, i, b, reward, probability, q, part):
    """``exp3_learn`` of the sharing form, in which every arm gets ``part`` of the total weight."""
    row = i * p.L
    total = 0.0
    for j in range(p.L):
        total += s.weight[row + s.order[j]]
    if reward != 0.0:
        s.weight[row + b] *= exp(q * reward / (probability * p.L))
    # only shares matter: large weights are scaled to a total of about 1
    scale = 1.0 / total if total > _LARGEST else 1.0
    for j in range(row, row + p.L):
        s.weight[j] = (s.weight[j] + part * total) * scale


@kernel
def exp3_restart(p, s):
    """Make all arms equal again."""
    for i in range(p.K):
        s.top[i] = 0.0
        for j in range(p.L):
            a = i * p.L + s.order[j]
            s.gain[a] = 0.0
            s.weight[a] = 1.0


@kernel
def exp3_enter(p, s, a, q):
    """Add the new arm ``a`` to all rows, with the mean weight of the others."""
    stand_last(s.order, a)
    for i in range(p.K):
        if p.form == SHARING:
            s.weight[i * p.L + a] = 0.0
            s.weight[i * p.L + a] = _mean_weight(p, s, i)
        else:
            s.gain[i * p.L + a] = -np.inf
            s.gain[i * p.L + a] = _mean_gain(p, s, i, _exponent(p, q))
            _renew(p, s, i, q)


@kernel
def _mean_weight(p, s, i):
    """The mean of the positive weights."""
    total = 0.0
    arms = 0
    for j in range(p.L):
        a = s.order[j]
        if a >= 0 and s.weight[i * p.L + a] > 0.0:
            total += s.weight[i * p.L + a]
            arms += 1
    return total / arms if arms > 0 else 1.0


@kernel
def _mean_gain(p, s, i, k):
    """The gain whose weight is the mean of all."""
    row = i * p.L
    top = _largest(p, s, i)
    if top == -np.inf:
        return 0.0  # no arms
    if k == 0.0:
        return top
    total = 0.0
    arms = 0
    for j in range(p.L):
        a = s.order[j]
        if a >= 0 and s.gain[row + a] > -np.inf:
            total += exp(k * (s.gain[row + a] - top))
            arms += 1
    return top + log(total / arms) / k


@kernel
def _largest(p, s, i):
    top = -np.inf
    if p.form != SHARING:
        for a in range(p.L):
            top = max(top, s.gain[i * p.L + a])
    return top


@kernel
def _largest_among(p, s, c, row):
    top = -np.inf
    if p.form != SHARING:
        for j in range(c.items.shape[0]):
            top = max(top, s.gain[row + c.items[j]])
    return top


@kernel
def _renew(p, s, i, q):
    """Compute all weights of a row from its gains."""
    row = i * p.L
    k = _exponent(p, q)
    top = _largest(p, s, i)
    s.top[i] = top
    for a in range(p.L):
        difference = s.gain[row + a] - top
        s.weight[row + a] = exp(k * difference) if difference > -np.inf else 0.0
