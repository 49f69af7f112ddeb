r"""Users who stop: how far a list was read.

After an item that is not clicked the user goes on with probability :math:`\gamma`, after a click with probability
:math:`\gamma_c`. A list of n items whose last click is at position l (0: none) was left after item j with probability
proportional to

.. math:: \gamma_c^{[l > 0]} \prod_{l < i \le j} (1 - \bar\alpha_i) \; \gamma^{j-l-1} \;
    (1 - \gamma \text{ if } j < n \text{ else } 1) \quad (j > l), \qquad 1 - \gamma_c \quad (j = l > 0),

and 1 for j = l = n. The place is drawn from it, by the randomness of the event, and what is above counts as observed.
With ``feedback="first"`` a list with a click counts up to that click. The probabilities are learnt from expected
counts: how often users went on, and how often they stopped.
"""

from __future__ import annotations

from driftrank.kernels import kernel
from driftrank.kernels.observed import observed_prefix
from driftrank.kernels.rng import LEFT_AT, derive, uniform
from driftrank.policies.shared.memo import MEMO, after_click_in, going_on_in, memo_lost

#: before any list, how often users went on and stopped after an item without a click, then after a click. A second
#: click proves at once that users go on, and none is weak evidence that they do not: the estimate begins low.
READING = (18.0, 2.0, 0.5, 9.5)
#: the largest sum of two of these counts, so that the estimates can move
_MOST = 20_000.0
#: index of "first" and "last" in FEEDBACK
_FIRST, _LAST = 0, 1


@kernel
def going_on_of(reading):
    """The probability that a user goes on after an item without a click."""
    return reading[0] / (reading[0] + reading[1])


@kernel
def after_click_of(reading):
    """The probability that a user goes on after a click."""
    return reading[2] / (reading[2] + reading[3])


@kernel
def observed_until_left(p, e, r, clicks):
    """The number of observed positions: as far as the list was read, or as ``feedback`` says."""
    n = r.items.shape[0]
    last = _last_click(clicks, n)
    if not p.stops or memo_lost(r) or (last >= 0 and p.feedback != _LAST):
        return observed_prefix(clicks, n, p.feedback)
    return _left_at(r, last, n, uniform(derive(e.key, LEFT_AT)))


@kernel
def count_reading(p, r, clicks, reading):
    """Count how often the user of a list went on, and stopped: expected values where the place is not known."""
    n = r.items.shape[0]
    if not p.stops or memo_lost(r):
        return
    last = _last_click(clicks, n)
    for i in range(last):
        if not clicks[i]:
            reading[0] += 1.0
        elif p.feedback == _FIRST:
            break
        else:
            reading[2] += 1.0
    if last < 0 or p.feedback == _LAST:
        _count_rest(r, last, n, reading)
    _cap(reading, 0)
    _cap(reading, 2)


@kernel
def _count_rest(r, last, n, reading):
    """Count what followed after the last click, or in a list without one."""
    total = 0.0
    on = 0.0
    left_click = 0.0
    rest = 1.0
    w = 0.0
    for j in range(max(last, 0), n):
        rest, w = _weight(r, j, last, n, rest)
        total += w
        if j == last:
            left_click = w
        else:
            on += w * (j - last - 1)
    if total <= 0.0:
        return
    reading[0] += on / total
    if last == n - 1:
        return
    reading[1] += (total - w - left_click) / total  # the last weight: read to the end
    if last >= 0:
        reading[2] += (total - left_click) / total
        reading[3] += left_click / total


@kernel
def _cap(reading, first):
    count = reading[first] + reading[first + 1]
    if count > _MOST:
        reading[first] *= _MOST / count
        reading[first + 1] *= _MOST / count


@kernel
def _last_click(clicks, n):
    """The position of the last click, from 0; -1 without one."""
    for i in range(n - 1, -1, -1):
        if clicks[i]:
            return i
    return -1


@kernel
def _weight(r, j, last, n, rest):
    """The probability of arriving after position ``j``, and the weight of leaving there; ``rest`` is that of arriving
    at it."""
    if j == last:
        on = after_click_in(r)
    else:
        on = going_on_in(r)
        rest *= 1.0 - r.memo[MEMO * j + 4]
    return rest * on, rest * (1.0 - on if j < n - 1 else 1.0)


@kernel
def _left_at(r, last, n, u):
    """The number of positions read, selected by a uniform number."""
    total = 0.0
    rest = 1.0
    for j in range(max(last, 0), n):
        rest, w = _weight(r, j, last, n, rest)
        total += w
    u *= total
    rest = 1.0
    for j in range(max(last, 0), n):
        rest, w = _weight(r, j, last, n, rest)
        if u < w:
            return j + 1
        u -= w
    return n
