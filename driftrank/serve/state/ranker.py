"""A ranker: its settings, its counts over all queries, its shared model, and impressions that wait for feedback."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from msgspec import structs

from driftrank.policies.base import Policy
from driftrank.policies.learner.learner import Learner, keeps_learning
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.parameters import seconds
from driftrank.serve.settings import policy_of
from driftrank.serve.state.changes import Change
from driftrank.serve.state.query import new_learner
from driftrank.serve.state.traffic import Traffic
from driftrank.serve.state.waiting import WaitingImpressions
from driftrank.wire import ItemId, RankerSettings

#: settings whose change begins a new generation, except for k if the state of the policy does not depend on it
_RESTART = ("policy", "k", "seed", "horizon")
#: event ids taken back before they came that are remembered at most
_MOST_WITHDRAWN = 100_000


class Ranker:
    """Changed only by folding records."""

    policy: Policy

    def __init__(self, name: str, settings: RankerSettings, created: int, *, chosen: bool) -> None:
        self.name = name
        self.created = created  #: the record that created it; impressions before it belong to a deleted ranker
        self.since = created  #: the first record of its generation; nothing learnt before it counts
        self.queries = self.impressions = self.steps = self.clicks = 0
        #: records that opened a feedback window
        self.waiting = WaitingImpressions()
        #: by such a record: the clicks collected so far, and the number of items shown
        self.collected: dict[int, tuple[list[int], int | None]] = {}
        #: event ids that were taken back before they came, oldest first, and when
        self.withdrawn: dict[str, float] = {}
        #: from the record of an activation to that of its impression
        self.deferred: dict[int, int] = {}
        #: of this generation: the records that changed k, and k
        self.sizes: list[tuple[int, int]] = []
        #: of this generation: the records that changed k or the retention of items, and these; with the first
        self.history: list[tuple[int, int, float]] = []
        self.learns_shared = True  #: False: a copy, for folding records of a single query
        self.traffic = Traffic()  #: of this generation, by query
        self.changes: list[Change] = []  #: of this generation: the latest that were detected, oldest first
        self._shared: SharedModel | None = None
        self.shared_seq = 0  #: the last record from which the shared model learnt; 0: none
        self.shared_stored = 0  #: the same, of its snapshot
        self.set(settings, created, chosen=chosen)

    def set(self, settings: RankerSettings, seq: int, *, chosen: bool) -> None:
        """Change the settings, by record ``seq``."""
        self.settings = settings
        self.chosen = chosen  #: the policy was named, not a default
        self.policy = policy_of(settings)
        self.shares = self.policy.shares  #: the policy has a shared model
        if self._shared is not None and self._shared.policy != self.policy:
            self._empty_shared()
        self.spec = self.policy.spec
        self.feedback_window = seconds("wait", settings.wait)
        self.item_retention = seconds("forget_items", settings.forget_items)
        if not self.history or self.history[-1][1:] != (settings.k, self.item_retention):
            self.history.append((seq, settings.k, self.item_retention))

    def for_query(self) -> Ranker:
        """A copy without impressions, which learns for single queries only."""
        out = copy.copy(self)
        out.waiting, out.collected, out.withdrawn, out.deferred = WaitingImpressions(), {}, {}, {}
        out.learns_shared, out._shared = False, None
        out.traffic, out.changes = Traffic(), []
        return out

    def go_back(self, seq: int, of: Ranker) -> None:
        """Take the settings that ``of`` had before record ``seq``, as far as the state of a query depends on them."""
        for since, k, retention in reversed(of.history):
            if since < seq or since == of.history[0][0]:
                if k != self.settings.k:
                    self.settings = structs.replace(self.settings, k=k)
                self.item_retention = retention
                break
        self.sizes = [change for change in of.sizes if change[0] < seq]

    def costs(self, settings: RankerSettings) -> list[str]:
        """The changed settings with which it has to begin again. k alone does not count, unless the policy's state is
        another one with more positions.
        """
        changed = [name for name in _RESTART if getattr(self.settings, name) != getattr(settings, name)]
        if changed == ["k"]:
            k, after = self.settings.k, settings.k
            return [] if after < k or keeps_learning(self.policy, k, after, settings.horizon) else changed
        return changed

    def is_set(self, settings: RankerSettings, chosen: bool) -> bool:
        """True if these settings would change nothing."""
        return (self.settings, self.chosen) == (settings, chosen)

    @property
    def has_learnt(self) -> bool:
        """True if there is something to lose."""
        return bool(self.steps or self.shared_seq)

    @property
    def shared(self) -> SharedModel | None:
        """The model of all queries, made when first used; None if the policy has none."""
        if self._shared is None and self.shares and self.learns_shared:
            self._shared = SharedModel(self.policy)
        return self._shared

    def restore_shared(self, model: SharedModel | None, seq: int) -> None:
        """Set the shared model to its snapshot of record ``seq``; None: it begins again with nothing."""
        self._shared = model
        self.shared_seq = self.shared_stored = seq

    def _empty_shared(self) -> None:
        self.restore_shared(None, 0)

    @property
    def shared_bytes(self) -> int:
        """The memory of the shared model."""
        return 0 if self._shared is None else self._shared.nbytes

    def new_learner(self, query: str, items: Sequence[ItemId], features: list[list[float]] | None = None) -> Learner:
        """A learner for a new query; with a shared model it has no items yet, as none was observed."""
        settings = self.settings
        if self.shares:
            items = ()
        return new_learner(self.policy, settings.k, items, features, settings.seed, settings.horizon, query)

    def count_step(self, clicks: Sequence[int]) -> None:
        """Count an impression that was learnt from."""
        self.steps += 1
        self.clicks += len(clicks)

    def withdraw(self, event_id: str, time: float) -> None:
        """Remember an event id that is taken back, until an impression that comes within the window has ended."""
        self.withdrawn.pop(event_id, None)
        self.withdrawn[event_id] = time
        while self.withdrawn:
            first = next(iter(self.withdrawn))
            if len(self.withdrawn) <= _MOST_WITHDRAWN and self.withdrawn[first] > time - 2 * self.feedback_window:
                return
            del self.withdrawn[first]

    def has_withdrawn(self, event_id: str, time: float) -> bool:
        """True if an impression that came at this time was taken back before."""
        since = self.withdrawn.get(event_id)
        return since is not None and time < since + self.feedback_window

    def close_window(self, opened_by: int) -> bool:
        """End the feedback window of an impression; True if it was open."""
        self.collected.pop(opened_by, None)
        self.deferred.pop(opened_by, None)
        return self.waiting.remove(opened_by)

    def restart(self, seq: int) -> None:
        """Begin a new generation, which has learnt nothing."""
        self.since = seq
        self.sizes = []
        self.history = [(seq, self.settings.k, self.item_retention)]
        self.traffic, self.changes = Traffic(), []
        self._empty_shared()
        self.queries = self.impressions = self.steps = self.clicks = 0
