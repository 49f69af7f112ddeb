"""The observed positions of a list: the only place where they are determined."""

from __future__ import annotations

from driftrank.kernels.compile import kernel

#: ``first``: up to the first click (cascade model); ``last``: up to the last click (several clicks); ``all``: every
#: position. Without a click every position was observed.
FEEDBACK = ("first", "last", "all")
_FIRST, _LAST = 0, 1


@kernel
def observed_prefix(clicks, shown, mode):
    """The number of observed positions among the ``shown`` ones."""
    if mode == _FIRST:
        for i in range(shown):
            if clicks[i]:
                return i + 1
    elif mode == _LAST:
        for i in range(shown - 1, -1, -1):
            if clicks[i]:
                return i + 1
    return shown
