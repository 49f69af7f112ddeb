"""The labels of policies in results: their specs, so that a table says which parameters were set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from driftrank.policies.base import Policy
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
    """The label that a label, or a name that only one policy has, stands for.

    Results of version 0.1.0 have such names for labels.

    >>> known_label("CascadeSWUCB", ["CascadeSWUCB:window=500", "Random"])
    'CascadeSWUCB:window=500'
    """
    if policy not in labels:
        named = [label for label in labels if label.partition(":")[0] == policy]
        if len(named) == 1:
            return named[0]
    check_known("policy", policy, labels)
    return policy
