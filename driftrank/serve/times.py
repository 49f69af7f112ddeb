"""Times of answers: ISO 8601, UTC. Records and the state have seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime

_LAST = 253_402_300_799.0  # the end of the year 9999


def moment(seconds: float) -> datetime:
    """The time of a record, to the microsecond; the nearest that a date can be.

    >>> moment(1_700_000_000.25).isoformat()
    '2023-11-14T22:13:20.250000+00:00'
    """
    return datetime.fromtimestamp(min(max(0.0, seconds), _LAST), UTC)
