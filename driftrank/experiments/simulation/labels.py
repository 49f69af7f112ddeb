"""The labels of policies in results: their specs, so that a table says which parameters were set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from driftrank.policies.base import Policy
from driftrank.policies.registry import parse_policy
from driftrank.validation import check_known


def labels_of(policies: Sequence[Policy]) -> list[str]:
    """The labels of policies: names with the parameters that differ from the defaults.

    >>> from driftrank.policies.stationary.cascade_klucb import CascadeKLUCB
    >>> labels_of([CascadeKLUCB(), CascadeKLUCB(c=0)])
    ['CascadeKLUCB', 'CascadeKLUCB:c=0']
    """
    labels = [policy.spec for policy in policies]
    twice = [label for label, n in Counter(labels).items() if n > 1]
    if twice:
        raise ValueError(f"policies: {twice[0]} occurs twice")
    return labels


def known_label(policy: str, labels: Sequence[str]) -> str:
    """The label that a label, a name that only one policy has, or another spec of the same policy stands for.

    Results of version 0.1.0 have such names for labels.

    >>> known_label("CascadeSWUCB", ["CascadeSWUCB:window=500", "Random"])
    'CascadeSWUCB:window=500'
    >>> known_label("CascadeKLUCB:c=0,ties=random", ["CascadeKLUCB", "CascadeKLUCB:c=0.0"])
    'CascadeKLUCB:c=0.0'
    """
    if policy not in labels:
        found = [label for label in labels if label.partition(":")[0] == policy]
        if not found and (given := _read(policy)) is not None:
            found = [label for label in labels if _read(label) == given]
        if len(found) == 1:
            return found[0]
    check_known("policy", policy, labels)
    return policy


def _read(spec: str) -> Policy | None:
    try:
        return parse_policy(spec)
    except ValueError:  # a policy of the reader's own, or one with other parameters in this version
        return None
