"""A ranker: its settings, its counts over all queries, and its impressions that wait for feedback."""

from __future__ import annotations

from collections.abc import Sequence

from driftrank.policies.base import Policy
from driftrank.policies.learner.learner import Learner
from driftrank.policies.parameters import seconds
from driftrank.serve.settings import policy_of
from driftrank.serve.state.query import new_learner
from driftrank.serve.state.waiting import WaitingImpressions
from driftrank.wire import ItemId, RankerSettings


class Ranker:
    """Changed only by folding records."""

    def __init__(self, name: str, settings: RankerSettings, created: int, *, chosen: bool) -> None:
        self.name = name
        self.created = created  #: the record that created it; impressions before it belong to a deleted ranker
        self.since = created  #: the first record of its generation; nothing learnt before it counts
        self.queries = self.impressions = self.steps = self.clicks = 0
        #: records that opened a feedback window
        self.waiting = WaitingImpressions()
        #: by such a record: the clicks collected so far, and the number of items shown
        self.collected: dict[int, tuple[list[int], int | None]] = {}
        #: from the record of an activation to that of its impression
        self.deferred: dict[int, int] = {}
        self.set(settings, chosen=chosen)

    def set(self, settings: RankerSettings, *, chosen: bool) -> None:
        self.settings = settings
        self.chosen = chosen  #: the policy was named, not a default
        self.policy: Policy = policy_of(settings)
        self.spec = self.policy.spec
        self.feedback_window = seconds("wait", settings.wait)
        self.item_retention = seconds("forget_items", settings.forget_items)

    def new_learner(self, query: str, items: Sequence[ItemId], features: list[list[float]] | None = None) -> Learner:
        settings = self.settings
        return new_learner(self.policy, settings.k, items, features, settings.seed, settings.horizon, query)

    def count_step(self, clicks: Sequence[int]) -> None:
        """Count an impression that was learnt from."""
        self.steps += 1
        self.clicks += len(clicks)

    def close_window(self, opened_by: int) -> bool:
        """End the feedback window of an impression; True if it was open."""
        self.collected.pop(opened_by, None)
        self.deferred.pop(opened_by, None)
        return self.waiting.remove(opened_by)

    def restart(self, seq: int) -> None:
        """Begin a new generation, which has learnt nothing."""
        self.since = seq
        self.queries = self.impressions = self.steps = self.clicks = 0
