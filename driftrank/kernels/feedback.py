"""Which of the shown items the user looked at: the one place where that is worked out."""

from __future__ import annotations

from driftrank.kernels.compile import kernel

#: ``first``: up to the first click (cascade model); ``last``: up to the last click (several clicks); ``all``:
#: everything. Without a click everything was looked at.
FEEDBACK = ("first", "last", "all")
_FIRST, _LAST = 0, 1


@kernel
def observed_prefix(clicks, shown, mode):
    """How many of the ``shown`` positions count as observed."""
    if mode == _FIRST:
        for i in range(shown):
            if clicks[i]:
                return i + 1
    elif mode == _LAST:
        for i in range(shown - 1, -1, -1):
            if clicks[i]:
                return i + 1
    return shown
