"""Alarms: how a policy that detects changes says that it found one.

The latest alarms are part of the state, so that a learner, a simulation and a saved file all know them. A policy merges
:func:`alarm_fields` into its fields, binds the class attributes ``alarmed`` and ``alarm``, and calls
:func:`raise_alarm` in ``update``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.tuples import Field, field, integers

#: how many of the latest alarms a state remembers; no step may raise more
REMEMBERED = 64


@dataclass(frozen=True)
class Alarm:
    """A change that a policy believes in."""

    step: int  #: when it was found
    item: Any  #: on which item; None where on none in particular, or where the item is gone
    everything: bool  #: whether all items were started anew, or only this one


def alarm_fields() -> dict[str, Field]:
    """What the alarms take of a state: 64 floats and 65 integers."""
    return {
        "alarms": integers(1),  # how many there were
        "alarm_step": field(REMEMBERED),
        "alarm_code": integers(REMEMBERED, fill=-2),  # 2 * slot + everything; -2 or -1 without a slot
    }


@kernel
def raise_alarm(s, e, a, everything):
    """A change was found on slot ``a`` (-1: on none in particular), at step ``e.t``."""
    n = s.alarms[0] % REMEMBERED
    s.alarm_step[n] = e.t
    s.alarm_code[n] = 2 * a + everything
    s.alarms[0] += 1


@kernel
def alarmed(p, s):
    """How many alarms there were so far."""
    return s.alarms[0]


@kernel
def alarm(p, s, n):
    """The slot of alarm ``n`` (counted from 0; -1: none in particular), and whether everything was started anew."""
    code = s.alarm_code[n % REMEMBERED]
    return code >> 1, code & 1


@kernel
def never_alarmed(p, s):
    """Of a policy that does not detect changes."""
    return 0


@kernel
def no_alarm(p, s, n):
    return -1, 0


def read_alarms(fields: Mapping[str, Any], slots: list[Any]) -> list[Alarm]:
    """The alarms that a state remembers, oldest first."""
    if "alarms" not in fields:
        return []
    total = int(fields["alarms"][0])
    out = []
    for n in range(max(0, total - REMEMBERED), total):
        code = int(fields["alarm_code"][n % REMEMBERED])
        item = slots[code >> 1] if code >= 0 else None
        out.append(Alarm(int(fields["alarm_step"][n % REMEMBERED]), item, bool(code & 1)))
    return out


def forget_alarms(fields: Mapping[str, Any], slots: Sequence[int]) -> None:
    """The items in these slots are gone: alarms no longer name them."""
    if "alarms" in fields:
        codes = fields["alarm_code"]
        codes[np.isin(codes >> 1, slots)] |= -2
