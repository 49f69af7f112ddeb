"""The memo of a list, by which a query's state and the shared model learn from it without reading each other.

Seven numbers for each position, as they were when the list was made:

* A, B: the item's prior Beta(A, B), from the shared model;
* S, n: the item's clicks and observations in the query, since its last declared change; n is -1 after such a change,
  and then the item teaches the shared model nothing, whose prior it has left;
* mean: its estimated attraction;
* going_on, after_click: the probabilities that the user goes on after an item without a click and after a click, the
  same at all positions, so that notes stay with their items when a list is shown in another order.
"""

from __future__ import annotations

from driftrank.kernels import kernel

#: numbers per position
MEMO = 7


@kernel
def write_memo(r, i, A, B, S, n, mean, going_on, after_click):
    """Write the memo of position ``i``."""
    m = MEMO * i
    r.memo[m] = A
    r.memo[m + 1] = B
    r.memo[m + 2] = S
    r.memo[m + 3] = n
    r.memo[m + 4] = mean
    r.memo[m + 5] = going_on
    r.memo[m + 6] = after_click


@kernel
def going_on_in(r):
    """The probability of going on after an item without a click."""
    return r.memo[5]


@kernel
def after_click_in(r):
    """The probability of going on after a click."""
    return r.memo[6]


@kernel
def memo_lost(r):
    """True if the memo is lost, or the list empty: a prior is never negative."""
    return r.memo.shape[0] == 0 or r.memo[0] < 0.0
