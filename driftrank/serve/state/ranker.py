"""A ranker: its settings, its arms, and impressions that wait for feedback."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from msgspec import structs

from driftrank.policies.parameters import seconds
from driftrank.serve.settings.ranker import OWN_ARMS, PLANNED, arms_of, settings_of_arm
from driftrank.serve.state.arms import Arm, Assignment, Split, subject_hash
from driftrank.serve.state.changes import Change
from driftrank.serve.state.experiment import Experiment
from driftrank.serve.state.series import Series
from driftrank.serve.state.stable_lists import StableLists
from driftrank.serve.state.traffic import Traffic
from driftrank.serve.state.waiting import WaitingImpressions
from driftrank.wire import RankerSettings

#: event ids taken back before they came that are remembered at most
_MOST_WITHDRAWN = 100_000


class Ranker(Arm):
    """Changed only by folding records. It is its own first arm, and the only one unless its settings have others."""

    def __init__(self, name: str, settings: RankerSettings, created: int, *, chosen: bool) -> None:
        self.name = name
        self.created = created  #: the record that created it; impressions before it belong to a deleted ranker
        self.arms: dict[str, Arm] = {}  #: besides its own
        #: records that opened a feedback window
        self.waiting = WaitingImpressions()
        #: by such a record: the clicks collected so far, and the number of items shown
        self.collected: dict[int, tuple[list[int], int | None]] = {}
        #: by such a record: the values of positions so far, if values were given
        self.values: dict[int, dict[int, float]] = {}
        #: event ids that were taken back before they came, oldest first, and when
        self.withdrawn: dict[str, float] = {}
        #: from the record of an activation to that of its impression
        self.deferred: dict[int, int] = {}
        self.traffic = Traffic()  #: of this generation, by query, of all arms
        self.changes: list[Change] = []  #: of this generation: the latest that arms detected, oldest first
        #: the records that changed k or the retention of items, and these; with the first that arms need
        self.history: list[tuple[int, int, float]] = []
        self.experiment = Experiment()
        self.series = Series()  #: also of earlier generations
        self.stable_lists = StableLists()
        super().__init__(name, "", settings, created)
        self.set(settings, chosen=chosen, seq=created)

    def set(self, settings: RankerSettings, *, chosen: bool, seq: int) -> None:
        """Change the settings. Arms that are new begin with nothing; those that are not in the settings are gone."""
        self.configure(settings)
        self.chosen = chosen  #: the policy was named, not a default
        self.feedback_window = seconds("wait", settings.wait)
        self.stable = seconds("stable", settings.stable) if settings.stable else 0.0
        arms = arms_of(settings)
        for name in [name for name in self.arms if name not in arms]:
            self.arms.pop(name).gone = True
        for name in arms:
            own = settings_of_arm(settings, name)
            if name in self.arms:
                self.arms[name].configure(own)
            else:
                self.arms[name] = Arm(self.name, name, own, seq)
        self.split = Split(settings)
        self.planned = settings.planned or PLANNED
        self.experiment.begin(self.split, self.planned, seq)
        if not self.history or self.history[-1][1:] != (settings.k, self.item_retention):
            first = min(arm.since for arm in self.every_arm())
            while len(self.history) > 1 and self.history[1][0] < first:
                del self.history[0]
            self.history.append((seq, settings.k, self.item_retention))

    def every_arm(self) -> Iterator[Arm]:
        """Its own, then the others."""
        yield self
        yield from self.arms.values()

    def arm(self, name: str) -> Arm | None:
        """The arm that learns from impressions of this name; None if it is gone."""
        return self if not name or name in OWN_ARMS else self.arms.get(name)

    def assign(self, event_id: str, subject: str | None) -> Assignment:
        """The arm of a new impression, by its subject if there is one."""
        hashed = 0 if subject is None else subject_hash(self.name, self.settings.seed, subject)
        if not self.split:
            return Assignment(self, self.settings.mode, 0.0, hashed)
        name = self.split.assign(self.name, f"{hashed:016x}" if hashed else event_id)
        arm = self.arm(name)
        assert arm is not None, "shares are of arms that exist"
        return Assignment(arm, name, self.split.shares[name], hashed)

    def discarded_by(self, settings: RankerSettings) -> list[tuple[Arm, str]]:
        """The arms that would lose what they have learnt with these settings, and why."""
        out = []
        for name, arm in [("", self), *self.arms.items()]:
            where = f"arms.{name}" if name else ""
            if not arm.has_learnt:
                continue
            if name and name not in arms_of(settings):
                out.append((arm, f"{where} would be removed: this"))
                continue
            after = settings_of_arm(settings, name) if name else settings
            changed = [f"{s}={getattr(after, s)!r} instead of {getattr(arm.settings, s)!r}" for s in arm.costs(after)]
            if changed:
                out.append((arm, f"{where}: {', '.join(changed)}" if name else ", ".join(changed)))
        return out

    def for_query(self) -> Ranker:
        """A copy without impressions, whose arms learn for single queries only."""
        out = copy.copy(self)
        out.waiting, out.collected, out.values, out.withdrawn, out.deferred = WaitingImpressions(), {}, {}, {}, {}
        out.traffic, out.changes, out.stable_lists = Traffic(), [], StableLists()
        out.experiment, out.series = Experiment(), Series()
        out.arms = {name: copy.copy(arm) for name, arm in self.arms.items()}
        for arm in out.every_arm():
            arm.learns_shared, arm._shared = False, None
        return out

    def go_back(self, seq: int, of: Ranker) -> None:
        """Take the settings that ``of`` had before record ``seq``, as far as the state of a query depends on them."""
        _, k, retention = next((it for it in reversed(of.history) if it[0] < seq), of.history[0])
        for arm, its in zip(self.every_arm(), of.every_arm(), strict=True):
            if k != arm.settings.k:
                arm.settings = structs.replace(arm.settings, k=k)
            arm.item_retention = retention
            arm.sizes = [change for change in its.sizes if change[0] < seq]

    def is_set(self, settings: RankerSettings, chosen: bool) -> bool:
        """True if these settings would change nothing."""
        return (self.settings, self.chosen) == (settings, chosen)

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
        self.values.pop(opened_by, None)
        self.deferred.pop(opened_by, None)
        return self.waiting.remove(opened_by)

    def restart(self, seq: int) -> None:
        super().restart(seq)
        self.traffic, self.changes = Traffic(), []
