"""EXP3: the bandit for adversarial rewards, as kernels for one row of arms.

Row ``i`` of the state holds, per arm a, the cumulated estimate ``gain`` G(a) and the ``weight`` exp(rate (G(a) - top)),
where ``top`` is a reference that moves with the largest gain. So a step needs one exponential, for the arm that was
pulled, and nothing ever overflows.

* loss form: p(a) ~ exp(eta G(a)), and a pull of b without reward gives G(b) -= 1/p(b); eta = sqrt(2 ln L / (n L)).
* Auer's form: p(a) = (1-g) w(a)/W + g/L, w(a) = exp(g G(a) / L), and a reward for b gives G(b) += 1/p(b);
  g = min(1, sqrt(L ln L / ((e-1) n))).

Where the rate changes with every step ("anytime") the weights are worked out when they are needed.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.rng import derive, uniform
from driftrank.kernels.tuples import Field, field, integers

#: how the weights are estimated
FORMS = ("loss", "auer")
_LOSS, _AUER = 0, 1
_E_MINUS_1 = 1.718281828459045

#: outside these bounds the weights are worked out anew from a new top
_SMALLEST, _LARGEST = 1e-100, 1e100


def exp3_fields() -> dict[str, Field]:
    """The state of K rows of L arms. A slot that never held an item has gain -inf."""
    return {
        "gain": field("K", "L", fill=-np.inf),
        "weight": field("K", "L"),
        "top": field("K"),
        "latest": integers("K", fill=-1),  # the arm last learnt of: a guess at the next one, nothing more
    }


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
def _add(total, rest, w):
    """Add a number, and what rounding loses to ``rest``. The sum does not depend on the order of the arms then; it must
    not, because EXP3 magnifies the smallest difference: a loss is divided by a probability that depends on all losses
    before."""
    new = total + w
    part = new - total
    return new, rest + ((total - (new - part)) + (w - part))


@kernel
def exp3_draw(p, s, c, i, key, q):
    """An arm among the candidates, and the probability that it had. ``q`` is the rate."""
    n = c.items.shape[0]
    flat = p.form == _AUER and uniform(key) < q  # explore uniformly
    b, own, total = np.int64(-1), 0.0, 0.0
    if not p.anytime:
        b, own, total = _race(p, s, c, i, key, flat)
    if total < 1e-200:  # also where these candidates are so much worse than the others that their weights have vanished
        b, own, total = _race_anew(p, s, c, i, key, flat, _exponent(p, q))
    probability = own / total
    if p.form == _AUER:
        probability = (1.0 - q) * probability + q / n
    return b, probability


@kernel
def _race(p, s, c, i, key, flat):
    """The arm with the smallest -ln(1-u)/w wins, which happens with probability w/W, in whatever order the arms are
    visited. As -ln(1-u) >= u, the logarithm is needed for few of them, the fewer the sooner the winner is met. Returns
    also its weight and W."""
    row = np.uintp(i * p.L)
    n = c.items.shape[0]
    b = np.int64(-1)
    own = 0.0
    speed = 0.0  # the winner's weight in the race, and
    best = 1.0  # its time multiplied with that
    total = 0.0
    rest = 0.0
    first = np.int64(s.latest[i]) if n == p.L else np.int64(-1)
    if first >= 0 and s.weight[row + np.uintp(first)] == 0.0:
        first = np.int64(-1)
    if first >= 0:
        b = first
        own = s.weight[row + np.uintp(b)]
        speed = 1.0 if flat else own
        best = -log(1.0 - uniform(derive(key, c.token[b])))
    for j in range(n):
        a = c.items[j]
        w = s.weight[row + a]
        total, rest = _add(total, rest, w)
        v = 1.0 if flat else w
        u = uniform(derive(key, c.token[a]))
        if u * speed < best * v and a != first:
            time = -log(1.0 - u)
            if time * speed < best * v:
                best = time
                speed = v
                b = np.int64(a)
                own = w
    return b, own, total + rest


@kernel
def _race_anew(p, s, c, i, key, flat, k):
    """The same with weights worked out from the gains."""
    row = np.uintp(i * p.L)
    n = c.items.shape[0]
    top = -np.inf
    for j in range(n):
        top = max(top, s.gain[row + c.items[j]])
    b = np.int64(-1)
    own = 0.0
    speed = 0.0
    best = 1.0
    total = 0.0
    rest = 0.0
    for j in range(n):
        a = c.items[j]
        w = exp(k * (s.gain[row + a] - top))
        total, rest = _add(total, rest, w)
        v = 1.0 if flat else w
        u = uniform(derive(key, c.token[a]))
        if u * speed < best * v:
            time = -log(1.0 - u)
            if time * speed < best * v:
                best = time
                speed = v
                b = np.int64(a)
                own = w
    return b, own, total + rest


@kernel
def exp3_probability(p, s, i, b, q):
    """The probability of arm ``b`` among all arms of the row."""
    row = i * p.L
    k = _exponent(p, q)
    top = _largest(p, s, i)
    total = 0.0
    rest = 0.0
    for a in range(p.L):
        total, rest = _add(total, rest, exp(k * (s.gain[row + a] - top)))
    # an arm known only from a list that somebody else made must not get a loss beyond all bounds
    probability = max(exp(k * (s.gain[row + b] - top)) / (total + rest), 1e-9)
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
    rest = 0.0
    for j in range(n):
        out[j] = exp(k * (s.gain[row + c.items[j]] - top))
        total, rest = _add(total, rest, out[j])
    for j in range(n):
        out[j] /= total + rest
        if p.form == _AUER:
            out[j] = (1.0 - q) * out[j] + q / n


@kernel
def exp3_learn(p, s, i, b, reward, probability, q):
    """Arm ``b``, drawn with that probability, earned ``reward`` in [0, 1]."""
    s.latest[i] = b
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
        rest = 0.0
        arms = 0
        for x in range(p.L):
            if s.gain[row + x] > -np.inf:
                total, rest = _add(total, rest, exp(k * (s.gain[row + x] - top)))
                arms += 1
        s.gain[row + a] = top + log((total + rest) / arms) / k
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
