"""Compare the alarms of a policy that detects changes with the true changes.

An alarm is *true* if its item has changed since it was last cleared, by an alarm on the item or by one that reset
everything. Otherwise it is *false*. A breakpoint is *detected* by the first true alarm on an item that changed at it,
before the next breakpoint; the steps from the change to that alarm are the *delay*.
"""

from __future__ import annotations

from driftrank.kernels import kernel

#: numbers stored per run before those of the items
HEAD = 2


@kernel
def watch_size(L):
    """The size of ``watch``, the numbers stored per run: first step of the latest breakpoint, 1 if it was detected; per
    item the step of its change (0: none since it was cleared); per item its attraction when it was last present."""
    return HEAD + 2 * L


@kernel
def note_change(watch, alpha, live, begin):
    """Note that the attraction is ``alpha`` from step ``begin`` on. An item that leaves has not changed, nor has one
    that arrives announced; one that returns unannounced has changed if its attraction differs."""
    L = alpha.shape[0]
    changed = False
    for a in range(L):
        if live.shape[0] == L and live[a] == 0:
            watch[HEAD + a] = 0.0
            if begin == 1:
                watch[HEAD + L + a] = -1.0  # never seen
            continue
        if live.shape[0] == L and live[a] == 2:
            watch[HEAD + a] = 0.0
        elif begin > 1 and alpha[a] != watch[HEAD + L + a] and watch[HEAD + L + a] >= 0.0:
            watch[HEAD + a] = begin
            changed = True
        watch[HEAD + L + a] = alpha[a]
    if changed:
        watch[0] = begin
        watch[1] = 0.0


@kernel
def count_alarms(watch, a, everything, t, totals):
    """Count an alarm on item ``a`` (-1: on no single item) at step t. ``totals`` from place 3 on: alarms, breakpoints
    detected, the sum of their delays, false alarms."""
    L = (watch.shape[0] - HEAD) // 2
    changed_at = watch[HEAD + a] if a >= 0 else 0.0
    if a < 0:
        for b in range(L):
            changed_at = max(changed_at, watch[HEAD + b])
    totals[3] += 1.0
    if changed_at == 0.0:
        totals[6] += 1.0
    elif changed_at == watch[0] and watch[1] == 0.0:
        watch[1] = 1.0
        totals[4] += 1.0
        totals[5] += t - changed_at + 1.0
    if everything:
        for b in range(L):
            watch[HEAD + b] = 0.0
    elif a >= 0:
        watch[HEAD + a] = 0.0
