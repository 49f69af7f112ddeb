"""Alarms: the changes that a policy has detected.

The latest alarms are part of the state, so that learners, simulations and saved files have them. A policy merges
:func:`alarm_fields` into its fields, sets its static methods ``alarmed`` and ``alarm`` to those below, and calls
:func:`raise_alarm` in ``update``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field, field, integers

#: the number of latest alarms that a state keeps; no step may raise more
REMEMBERED = 64


@dataclass(frozen=True)
class Alarm:
    """A change detected by a policy."""

    step: int  #: the step of its detection
    item: Any  #: the item that changed; None for no particular one, or if the item was removed
    everything: bool  #: True if all items were reset, False if only this one


def alarm_fields() -> dict[str, Field]:
    """The fields of alarms: 64 floats and 65 integers."""
    return {
        "alarms": integers(1),  # their number so far
        "alarm_step": field(REMEMBERED),
        "alarm_code": integers(REMEMBERED, fill=-2),  # 2 * slot + everything; -2 or -1 without a slot
    }


@kernel
def raise_alarm(s, e, a, everything):
    """Record a change of slot ``a`` (-1: no particular one) at step ``e.t``."""
    n = s.alarms[0] % REMEMBERED
    s.alarm_step[n] = e.t
    s.alarm_code[n] = 2 * a + everything
    s.alarms[0] += 1


@kernel
def alarmed(p, s):
    """The number of alarms so far."""
    return s.alarms[0]


@kernel
def alarm(p, s, n):
    """The slot of alarm ``n`` (from 0; -1: no particular one), and 1 if all items were reset, else 0."""
    code = s.alarm_code[n % REMEMBERED]
    return code >> 1, code & 1


def read_alarms(fields: Mapping[str, Any], slots: list[Any]) -> list[Alarm]:
    """The alarms in a state, oldest first."""
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
    """Remove the items of these slots from the alarms."""
    if "alarms" in fields:
        codes = fields["alarm_code"]
        codes[np.isin(codes >> 1, slots)] |= -2
