"""A look at the service."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from driftrank.serve.page.broadcast import Round
from driftrank.serve.page.sandbox import Sandbox
from driftrank.serve.service import Service
from driftrank.serve.times import moment


class Looking(NamedTuple):
    """The service, the page that is looked at, and the access."""

    service: Service
    params: dict[str, str]
    rankers: frozenset[str] | None  #: that are visible; None: all, and the service itself
    sandbox: Sandbox | None
    round: Round  #: what other pages of the same round have computed

    @property
    def names(self) -> list[str]:
        """The visible rankers."""
        return [name for name in self.service.ranker_names() if self.rankers is None or name in self.rankers]

    @property
    def now(self) -> datetime:
        return moment(self.service.now())
