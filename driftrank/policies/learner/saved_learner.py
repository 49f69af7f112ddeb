"""A learner as it is saved: a header that describes it, and the two rows of its state."""

from __future__ import annotations

from typing import Any, NamedTuple

from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.learner import serialization
from driftrank.policies.learner.features import one_hot
from driftrank.policies.learner.item_slots import ItemSlots
from driftrank.validation import check_integer


class SavedLearner(NamedTuple):
    """All of a learner but the rows of its state."""

    policy: Policy
    problem: RankingProblem
    slots: ItemSlots
    steps: int  #: updates so far
    where: dict[str, Any]  #: seed, query and run
    described: bool  #: items have features
    sparse: bool  #: there may be fewer items than positions

    def header(self) -> dict[str, Any]:
        """The header; ValueError if an item is not a string or a number."""
        for item in self.slots.slot_of:
            if not isinstance(item, (str, int, float)):
                raise ValueError(f"items: {item!r} cannot be saved; use strings or numbers")
        return {
            "format": serialization.FORMAT,
            "policy": self.policy.spec,
            "version": self.policy.version,
            "slots": self.slots.names,
            "live": list(self.slots.slot_of.values()),
            "free": self.slots.free,
            "k": self.problem.K,
            "horizon": self.problem.horizon,
            "room": self.problem.steps,
            "steps": self.steps,
            "where": self.where,
            "features": self.problem.features if self.described else None,
            "sparse": self.sparse,
        }

    @classmethod
    def of(cls, header: dict[str, Any]) -> SavedLearner:
        """The learner of a header; an inconsistent one raises LookupError, TypeError or ValueError."""
        serialization.check_format(header)
        policy = serialization.policy_of(header["policy"], header["version"])
        slots, live, free = header["slots"], header["live"], header["free"]
        if (
            policy.oracle
            or len({slots[slot] for slot in live}) < len(live)
            or sorted(live + free) != list(range(len(slots)))
        ):
            raise ValueError("items and slots are inconsistent")
        check_integer("steps", header["steps"], 0)
        if header["room"] is not None:
            check_integer("room", header["room"], 1)
        described = header["features"] is not None
        width = 0
        if policy.contextual:
            width = header["features"] if described else len(one_hot(len(slots)))
        problem = RankingProblem(len(slots), header["k"], header["horizon"], header["room"], width)
        known = ItemSlots(slots, live, free)
        return cls(policy, problem, known, header["steps"], header["where"], described, header.get("sparse", False))
