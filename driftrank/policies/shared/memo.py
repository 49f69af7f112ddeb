"""The memo of a list, by which a query's state and the shared model learn from it without reading each other.

Six numbers for each position, as they were when the list was made:

* A, B: the item's prior Beta(A, B), from the shared model;
* S, n: the item's clicks and observations in the query, since its last declared change; n is -1 after such a change,
  and then the item teaches the shared model nothing, whose prior it has left;
* mean: its estimated attraction;
* going_on: the probability that the user goes on after an item.
"""

from __future__ import annotations

from driftrank.kernels import kernel

#: numbers per position
MEMO = 6


@kernel
def write_memo(r, i, A, B, S, n, mean, going_on):
    """Write the memo of position ``i``."""
    m = MEMO * i
    r.memo[m] = A
    r.memo[m + 1] = B
    r.memo[m + 2] = S
    r.memo[m + 3] = n
    r.memo[m + 4] = mean
    r.memo[m + 5] = going_on


@kernel
def memo_lost(r):
    """True if the memo is lost, or the list empty: a prior is never negative."""
    return r.memo.shape[0] == 0 or r.memo[0] < 0.0
