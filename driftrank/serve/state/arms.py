"""Arms: what learns in a ranker, and which of them a ranking is assigned to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from driftrank.kernels.rng import key_of
from driftrank.policies.base import Policy
from driftrank.policies.learner.learner import Learner, keeps_learning
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.parameters import seconds
from driftrank.serve.settings.ranker import arms_of, policy_of
from driftrank.serve.state.query import new_learner
from driftrank.wire import ItemId, RankerSettings

#: settings whose change begins a new generation, except for k if the state of the policy does not depend on it
_RESTART = ("policy", "k", "seed", "horizon")
#: shares below this are rounding errors
_NOTHING = 1e-9


class Arm:
    """A policy with its settings, its shared model, and its counts over all its queries. Changed only by folding
    records.
    """

    policy: Policy

    def __init__(self, ranker: str, label: str, settings: RankerSettings, since: int) -> None:
        self.ranker_name = ranker
        self.label = label  #: its name in the ranker's settings; empty: the ranker's own
        #: of its queries, in tables and names of snapshots; names of rankers have no @
        self.owner = f"{ranker}@{label}" if label else ranker
        self.since = since  #: the first record of its generation; nothing learnt before it counts
        self.gone = False  #: deleted: its queries must not come back
        self.queries = self.impressions = self.steps = self.clicks = 0
        self.value = 0.0  #: of the clicks
        #: of this generation: the records that changed k, and k
        self.sizes: list[tuple[int, int]] = []
        self.learns_shared = True  #: False: a copy, for folding records of a single query
        self._shared: SharedModel | None = None
        self.shared_seq = 0  #: the last record from which the shared model learnt; 0: none
        self.shared_stored = 0  #: the same, of its snapshot
        self.configure(settings)

    def configure(self, settings: RankerSettings) -> None:
        self.settings = settings
        self.policy = policy_of(settings)
        self.shares = self.policy.shares  #: the policy has a shared model
        if self._shared is not None and self._shared.policy != self.policy:
            self._empty_shared()
        self.spec = self.policy.spec
        self.explore = settings.explore or 0.0  #: the temperature with which lists are shown; 0: as ranked
        self.item_retention = seconds("forget_items", settings.forget_items)

    def costs(self, settings: RankerSettings) -> list[str]:
        """The changed settings with which it has to begin again. k counts only alone, and only if the policy's state is
        another one with more positions.
        """
        changed = [name for name in _RESTART if getattr(self.settings, name) != getattr(settings, name)]
        if changed == ["k"]:
            k, after = self.settings.k, settings.k
            return [] if after < k or keeps_learning(self.policy, k, after, settings.horizon) else changed
        if "k" in changed:
            changed.remove("k")
        return changed

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

    def count_step(self, clicks: Sequence[int], value: float) -> None:
        """Count an impression that was learnt from."""
        self.steps += 1
        self.clicks += len(clicks)
        self.value += value

    def restart(self, seq: int) -> None:
        """Begin a new generation, which has learnt nothing."""
        self.since = seq
        self.sizes = []
        self._empty_shared()
        self.queries = self.impressions = self.steps = self.clicks = 0
        self.value = 0.0


class Assignment(NamedTuple):
    """The arm of a ranking."""

    arm: Arm  #: that ranks, if it is not the holdout, and learns
    name: str  #: live, shadow, safe, holdout or the name of an arm
    share: float  #: its probability; 0: there is one arm only
    subject: int  #: a hash of the subject; 0: none was given


class Split:
    """The shares of rankings by arm. What is not given to the holdout and to arms is the ranker's own.

    The holdout has a coin of its own, so that arms that are added later do not change who is in it.

    >>> from driftrank.wire import ArmSettings
    >>> split = Split(RankerSettings(holdout=0.2, arms={"b": ArmSettings(share=0.3)}))
    >>> split.shares
    {'holdout': 0.2, 'live': 0.5, 'b': 0.3}
    >>> split.assign("shop", "u1"), split.assign("shop", "u1"), split.assign("shop", "u2")
    ('holdout', 'holdout', 'live')
    """

    def __init__(self, settings: RankerSettings) -> None:
        arms = {name: arm.share for name, arm in sorted(arms_of(settings).items()) if arm.share > 0}
        rest = 1.0 - settings.holdout - math.fsum(arms.values())
        own = {settings.mode: rest} if rest > _NOTHING else {}
        self._holdout = settings.holdout
        self._arms = arms | own  # the ranker's own last: it takes what is left
        self.shares = ({"holdout": settings.holdout} if settings.holdout else {}) | own | arms

    def __bool__(self) -> bool:
        """True if there is a choice, or it is not the ranker's own arm."""
        return len(self.shares) > 1 or "holdout" in self.shares or not self.shares.keys() & {"live", "shadow", "safe"}

    @property
    def baseline(self) -> str:
        """The arm with which the others are compared."""
        return next(iter(self.shares))

    def assign(self, ranker: str, unit: str) -> str:
        """The arm of a subject or an event."""
        if self._holdout and _uniform(f"holdout/{ranker}/{unit}") < self._holdout:
            return "holdout"
        at = _uniform(f"arm/{ranker}/{unit}") * (1.0 - self._holdout)
        for name, share in self._arms.items():
            at -= share
            if at < 0:
                return name
        return next(reversed(self._arms))  # shares are rounded


def _uniform(text: str) -> float:
    return (key_of(text) >> 11) * 2.0**-53


def subject_hash(ranker: str, seed: int, subject: str) -> int:
    """The only trace of a subject: never 0, another one for other rankers and seeds."""
    return key_of(f"subject/{ranker}/{seed}/{subject}") or 1
