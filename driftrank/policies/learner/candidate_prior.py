"""The prior of the candidates of a list: from the shared model, or as given; and as kernels get it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.structures import Described
from driftrank.policies.base import Policy
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.learner.described import describe
from driftrank.policies.learner.item_slots import Offer
from driftrank.policies.learner.ranked_items import Item
from driftrank.policies.learner.shared_model import Prior, SharedModel

#: slots and tokens of the candidates, priors by slot, and how often users go on
Candidates = tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.float64], float, float]


def described_offer(query: int, offer: Offer, description: dict[str, Any]) -> Described:
    """The candidates of a query with what the caller says of them."""
    items: Sequence[Item] = range(len(offer.slots))
    if any(isinstance(given, Mapping) for given in description.values()):  # by name
        items = [offer.names[slot] for slot in offer.slots.tolist()]
    return describe(query, items, tokens=offer.tokens, **description)


def model_prior(shared: SharedModel | None, query: int, offer: Offer, description: dict[str, Any]) -> Prior | None:
    """The prior that the shared model gives to candidates; None if there is no model."""
    if shared is None:
        for name, given in description.items():
            if name != "ordered" and given is not None and not (name == "crosses" and not given):
                raise ValueError(f"{name}: must not be given to a learner without a shared model")
        return None
    return shared.prior(described_offer(query, offer, description))


def check_prior(policy: Policy, compiled: CompiledPolicy, offer: Offer, prior: Prior) -> None:
    """Raise unless a prior that the caller gives is one of these candidates."""
    if not compiled.shares:
        raise ValueError(f"prior: {policy.spec} has no shared model")
    if len(prior.counts) != 2 * len(offer.slots):
        raise ValueError(f"prior: of {len(prior.counts) // 2} items, there are {len(offer.slots)} candidates")


def with_prior(compiled: CompiledPolicy, offer: Offer, prior: Prior | None) -> Candidates:
    """The candidates as a kernel gets them."""
    slots = len(offer.token)
    if prior is None:
        flat = compiled.unknown if slots == compiled.problem.L else compiled.flat_prior(slots)
        return offer.slots, offer.token, flat, 0.0, 0.0
    table = filled(2 * slots, 0.5)
    table.reshape(-1, 2)[offer.slots] = prior.counts.reshape(-1, 2)
    return offer.slots, offer.token, table, prior.going_on, prior.after_click


def filled(n: int, value: float) -> NDArray[np.float64]:
    """An array of one value; ``np.full`` takes five times as long for a short one."""
    out = np.empty(n)
    out.fill(value)
    return out
