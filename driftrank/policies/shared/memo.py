"""The memo of a list, by which a query's state and the shared model learn from it without reading each other.

Six numbers for each position, as they were when the list was made:

* A, B: the item's prior Beta(A, B), from the shared model;
* S, n: the item's clicks and observations in the query, since its last declared change; n is -1 after such a change,
  and then the item teaches the shared model nothing, whose prior it has left;
* mean: its estimated attraction;
* at the first position the probability that the user goes on after an item without a click, at the second that after
  a click.
"""

from __future__ import annotations

from driftrank.kernels import kernel

#: numbers per position
MEMO = 6


@kernel
def write_memo(r, i, A, B, S, n, mean):
    """Write the memo of position ``i``."""
    m = MEMO * i
    r.memo[m] = A
    r.memo[m + 1] = B
    r.memo[m + 2] = S
    r.memo[m + 3] = n
    r.memo[m + 4] = mean
    r.memo[m + 5] = 0.0


@kernel
def write_reading(r, going_on, after_click):
    """Write how the user reads on."""
    r.memo[5] = going_on
    if r.items.shape[0] > 1:
        r.memo[MEMO + 5] = after_click


@kernel
def going_on_in(r):
    """The probability of going on after an item without a click."""
    return r.memo[5]


@kernel
def after_click_in(r):
    """The probability of going on after a click; of no use in a list of one item."""
    return r.memo[MEMO + 5] if r.items.shape[0] > 1 else 0.0


@kernel
def memo_lost(r):
    """True if the memo is lost, or the list empty: a prior is never negative."""
    return r.memo.shape[0] == 0 or r.memo[0] < 0.0
