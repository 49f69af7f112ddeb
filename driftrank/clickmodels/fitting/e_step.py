r"""The E-step of users who read from the top: after the last click they left, or read on without another click.

A model of this kind defines the probability to read on after an item, clicked or not. No click follows the last one,
at position l, with probability :math:`1 - c + c\, b_{l+1}`, where c is the probability to read on after it and
:math:`b_k = (1 - \alpha_k)(1 - d_k + d_k\, b_{k+1})` that of no click from position k on if k is read, with d the
probability to read on after an item that was not clicked. All positions above the last click have been read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log


class HiddenKernels(NamedTuple):
    """Kernels of a model in which users leave unobserved, for fitting.

    ``x`` are the parameters of the item at position ``k`` (from 0), its attraction first; ``g`` those of the model.
    Estimates are ratios of expected successes (``x_num``, ``g_num``) to expected trials (``x_den``, ``g_den``).
    """

    #: (x, g, k) -> the probabilities to read on after the item without a click and with one
    go_on: Any
    #: (x, g, k, on, off, x_num, x_den, g_num, g_den): count a click, after which the user read on with probability
    #: ``on`` and left with probability ``off``; both are 0 at the end of the list
    clicked: Any
    #: (x, g, k, read, on, off, x_num, x_den, g_num, g_den): count an item without a click, which was read with
    #: probability ``read`` = ``on`` + ``off``; at the end of the list these two are 0
    skipped: Any


@kernel
def list_length(slots):
    """The number of items of a list; the entries after them are negative."""
    n = 0
    while n < slots.shape[0] and slots[n] >= 0:
        n += 1
    return n


@kernel
def count_read(x, g, k, read, on, off, x_num, x_den, g_num, g_den):
    """Count an item without a click if users only leave after clicks: one trial of its attraction."""
    x_den[0] += read


def expectation(hidden: HiddenKernels) -> Any:
    """The E-step of one list: (slots, mask, x, g, back, num, den, g_num, g_den) -> its log-likelihood.

    Fills in the expected successes and trials of the parameters of every position, and of the model. ``back`` is a
    buffer of one number more than positions.
    """
    go_on, clicked, skipped = hidden

    @kernel
    def expect(slots, mask, x, g, back, num, den, g_num, g_den):
        n = list_length(slots)
        for k in range(n):
            for j in range(x.shape[1]):
                num[k, j] = 0.0
                den[k, j] = 0.0
        for j in range(g.shape[0]):
            g_num[j] = 0.0
            g_den[j] = 0.0
        last = n
        while last > 0 and (mask >> (last - 1)) & 1 == 0:
            last -= 1
        back[n] = 1.0
        for k in range(n - 1, last - 1, -1):
            own = x[slots[k]]
            on, _ = go_on(own, g, k)
            back[k] = (1.0 - own[0]) * (1.0 - on + on * back[k + 1])
        total = 0.0
        chance = back[0] if last == 0 else 1.0
        read = 1.0
        for k in range(n):
            own = x[slots[k]]
            unclicked_on, clicked_on = go_on(own, g, k)
            if k < last - 1:  # certainly read on
                if (mask >> k) & 1:
                    chance *= own[0] * clicked_on
                    clicked(own, g, k, 1.0, 0.0, num[k], den[k], g_num, g_den)
                else:
                    chance *= (1.0 - own[0]) * unclicked_on
                    skipped(own, g, k, 1.0, 1.0, 0.0, num[k], den[k], g_num, g_den)
                if chance < 1e-200:
                    total += log(chance)
                    chance = 1.0
            elif k == last - 1:
                chance *= own[0]
                if k == n - 1:  # reading on is not observable
                    clicked(own, g, k, 0.0, 0.0, num[k], den[k], g_num, g_den)
                else:
                    ends = 1.0 - clicked_on + clicked_on * back[k + 1]
                    chance *= ends
                    read = clicked_on * back[k + 1] / ends
                    clicked(own, g, k, read, 1.0 - read, num[k], den[k], g_num, g_den)
            elif k == n - 1:
                skipped(own, g, k, read, 0.0, 0.0, num[k], den[k], g_num, g_den)
            else:
                on = read * (unclicked_on * back[k + 1] / (1.0 - unclicked_on + unclicked_on * back[k + 1]))
                skipped(own, g, k, read, on, read - on, num[k], den[k], g_num, g_den)
                read = on
        return total + log(chance)

    return expect
