r"""Users who stop: how far a list without a click was read.

After an item that is not clicked the user goes on with probability :math:`\gamma`. A list of n items without a click
was left after item j with probability proportional to

.. math:: \prod_{i \le j} (1 - \bar\alpha_i) \; \gamma^{j-1} \; (1 - \gamma \text{ if } j < n \text{ else } 1).

The place is drawn from it, by the randomness of the event, and only what is above counts as observed. :math:`\gamma`
is learnt from expected counts: how often users went on, and how often they stopped.
"""

from __future__ import annotations

from driftrank.kernels import kernel
from driftrank.kernels.observed import observed_prefix
from driftrank.kernels.rng import LEFT_AT, derive, uniform
from driftrank.policies.shared.memo import MEMO, memo_lost

#: how often users went on and stopped, before any list
READING = (18.0, 2.0)
#: the largest sum of these counts, so that the estimate can move
_MOST = 20_000.0
#: index of "first" in FEEDBACK
_FIRST = 0


@kernel
def going_on_of(reading):
    """The probability that a user goes on."""
    return reading[0] / (reading[0] + reading[1])


@kernel
def observed_until_left(p, e, r, clicks):
    """The number of observed positions: that of the clicks, or the place where a list without a click was left."""
    n = r.items.shape[0]
    if p.stops and not memo_lost(r) and not _clicked(clicks, n):
        return _left_at(r, n, uniform(derive(e.key, LEFT_AT)))
    return observed_prefix(clicks, n, p.feedback)


@kernel
def count_reading(p, r, clicks, reading):
    """Count how often the user of a list went on, and stopped: expected values, as the place is not known."""
    n = r.items.shape[0]
    if not p.stops or memo_lost(r):
        return
    if _clicked(clicks, n):
        last = 0
        for i in range(n - 1, -1, -1):
            if clicks[i]:
                last = i
                if p.feedback != _FIRST:
                    break
        reading[0] += last
    else:
        total = 0.0
        on = 0.0
        rest = 1.0
        w = 0.0
        for j in range(n):
            rest, w = _weight(r, j, n, rest)
            total += w
            on += w * j
        if total > 0.0:
            reading[0] += on / total
            reading[1] += (total - w) / total  # the last weight: read to the end
    count = reading[0] + reading[1]
    if count > _MOST:
        reading[0] *= _MOST / count
        reading[1] *= _MOST / count


@kernel
def _clicked(clicks, n):
    for i in range(n):
        if clicks[i]:
            return True
    return False


@kernel
def _weight(r, j, n, rest):
    """The probability of arriving after position ``j``, and the weight of leaving there; ``rest`` is that of arriving
    at it."""
    on = r.memo[MEMO * j + 5]
    rest *= 1.0 - r.memo[MEMO * j + 4]
    return rest * on, rest * (1.0 - on if j < n - 1 else 1.0)


@kernel
def _left_at(r, n, u):
    """The number of positions read, selected by a uniform number."""
    total = 0.0
    rest = 1.0
    for j in range(n):
        rest, w = _weight(r, j, n, rest)
        total += w
    u *= total
    rest = 1.0
    for j in range(n):
        rest, w = _weight(r, j, n, rest)
        if u < w:
            return j + 1
        u -= w
    return n
