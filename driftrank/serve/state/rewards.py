"""Rewards: what events on a list are worth, and the clicks as which they are learnt from.

Policies learn from clicks, yes or no. An event of value v is a click with probability v, so that its expectation is v
and every policy estimates the value of an item as it estimates its attraction. The draw belongs to the event id and the
position, so that the same event sent again is the same click, and the largest of several values counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from driftrank.kernels.rng import key_of
from driftrank.serve.log.records import Clicked, Final
from driftrank.validation import check_number

Values = Sequence[tuple[int, float]]


class Reported(NamedTuple):
    """The content of a feedback, as it is learnt from."""

    clicks: list[int]  #: positions, ascending: those that are learnt from
    shown: int | None  #: items shown, from the top; None: all, 0: the list is taken back
    values: list[tuple[int, float]]  #: positions and values, ascending; empty if every click is worth 1

    @property
    def value(self) -> float | None:
        """The sum of the values, if there are other ones than those of clicks."""
        return math.fsum(value for _, value in self.values) if self.values else None

    def is_final(self, final: Final) -> bool:
        """True if the impression ended with this."""
        return (final.clicks, final.shown, final.values) == (self.clicks, self.shown, self.values)


def value_of(kinds: Mapping[str, float], value: float | None, kind: str | None) -> float | None:
    """The value that is given, by itself or as a kind of event; None if neither is."""
    if kind is not None:
        if value is not None:
            raise ValueError(f"value={value!r}, kind={kind!r}: must not be given together")
        if kind not in kinds:
            known = (
                f"one of {', '.join(map(repr, kinds))}" if kinds else "left out: the ranker's settings have no values"
            )
            raise ValueError(f"kind={kind!r}: must be {known}")
        return kinds[kind]
    if value is not None:
        check_number("value", value, 0, 1)
        return float(value)
    return None


def is_click(ranker: str, event_id: str, position: int, value: float) -> bool:
    """True if an event on a position is a click: with the probability of its value, always the same for an event.

    >>> [is_click("default", "e1", 1, value) for value in (0.0, 0.1, 0.9, 1.0)]
    [False, False, True, True]
    """
    # rewards of Personalizer, which are at the top, were drawn so before there were others
    place = f"/{position}" if position > 1 else ""
    return (key_of(f"reward/{ranker}/{event_id}{place}") >> 11) * 2.0**-53 < value


def settled(ranker: str, event_id: str, values: Mapping[int, float], shown: int | None) -> Reported:
    """The clicks that events on positions are learnt from as."""
    in_order = sorted(values.items())
    clicks = [position for position, value in in_order if is_click(ranker, event_id, position, value)]
    return Reported(clicks, shown, in_order)


def collect(
    collected: dict[int, dict[int, float]], opened_by: int, clicks: Sequence[int], record: Clicked
) -> float | None:
    """Add the values of a record to those of its impression; their sum, if there are others than those of clicks.

    ``clicks`` are those collected before; without values each is worth 1.
    """
    if not record.values and opened_by not in collected:
        return None
    values = collected.setdefault(opened_by, dict.fromkeys(clicks, 1.0))
    for position, value in record.values or [(click, 1.0) for click in record.clicks]:
        values[position] = max(value, values.get(position, 0.0))
    return math.fsum(values.values())
