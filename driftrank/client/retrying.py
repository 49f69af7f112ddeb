"""The rules of retries: when to try again, and after which wait. Nothing here waits or sends."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ..validation import check_integer, check_number
from .calls import Call
from .connection import NOT_SENT
from .errors import LATER, ServiceUnreachable, error_of

#: seconds before the second attempt; doubled before each further one
FIRST_WAIT = 0.05

#: seconds for calls that may take long
LONG = 300.0

#: seconds between two attempts, whatever the service asks for
LONGEST_WAIT = 300.0


@dataclass(frozen=True)
class Rules:
    """Time limits of a call."""

    timeout: float = 2.0  #: seconds for one attempt
    retries: int = 3  #: attempts after the first
    deadline: float = 10.0  #: seconds for all attempts of a call and the waits between them

    def __post_init__(self) -> None:
        check_number("timeout", self.timeout, 0.0, open_low=True)
        check_integer("retries", self.retries, 0)
        check_number("deadline", self.deadline, 0.0, open_low=True)

    @property
    def prompt(self) -> Rules:
        """An answer within ``timeout``, retries included."""
        return Rules(self.timeout, self.retries, min(self.timeout, self.deadline))

    @property
    def once(self) -> Rules:
        """One attempt."""
        return Rules(self.timeout, 0, self.timeout)


class Attempts:
    """The attempts of one call."""

    def __init__(self, call: Call[Any], rules: Rules) -> None:
        self._call = call
        self._rules = rules
        self._single = LONG if call.long else rules.timeout
        self._end = time.monotonic() + (LONG if call.long else rules.deadline)
        self._done = 0
        self._uncertain = False  # an attempt without an answer may have reached the service

    @property
    def repeated(self) -> bool:
        """True if this is not the first attempt."""
        return self._done > 0

    def timeout(self) -> float:
        """Seconds for the next attempt."""
        return max(0.001, min(self._single, self._end - time.monotonic()))

    def answered(self, status: int, headers: Mapping[str, str], body: bytes) -> float | None:
        """Seconds to wait before another attempt; None if this answer is final."""
        if status not in LATER:
            return None
        error = error_of(status, body)
        assert isinstance(error, ServiceUnreachable)
        error.retry_after = retry_after(headers.get("retry-after"))
        self._uncertain |= status in (502, 504)  # of a proxy
        return self._wait(error)

    def failed(self, error: Exception) -> float:
        """Seconds to wait before another attempt, after one without an answer."""
        self._uncertain |= not isinstance(error, NOT_SENT)
        reason = str(error) or type(error).__name__
        return self._wait(ServiceUnreachable(0, f"no answer to {self._call.method} {self._call.path}", reason))

    def _wait(self, error: ServiceUnreachable) -> float:
        wait = max(backoff(self._done), error.retry_after or 0.0)
        self._done += 1
        if self._done > self._rules.retries or time.monotonic() + wait >= self._end:
            error.uncertain = self._uncertain
            raise error
        return wait


def backoff(failures: int, longest: float = 5.0) -> float:
    """Seconds to wait after consecutive failures; random, so that clients do not return at the same moment."""
    return float(min(longest, FIRST_WAIT * 2.0 ** min(failures, 30)) * random.uniform(0.5, 1.0))


def retry_after(header: str | None) -> float | None:
    """The seconds in a Retry-After header: a number, or a date.

    >>> retry_after("3"), retry_after("soon"), retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    (3.0, None, 0.0)
    """
    if header is None:
        return None
    try:
        if header.strip().isdecimal():
            return min(float(header), LONGEST_WAIT)
        at = parsedate_to_datetime(header)
        return min(max(0.0, (at - datetime.now(UTC if at.tzinfo else None)).total_seconds()), LONGEST_WAIT)
    except (ValueError, OverflowError):
        return None
