"""Checks of a ranker's settings, and the policy they select."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.comparing.bubble_rank import BubbleRank
from driftrank.policies.parameters import seconds
from driftrank.policies.registry import default_policy, parse_policy
from driftrank.serve.keys import is_hash
from driftrank.validation import check_choice, check_integer, check_number
from driftrank.wire import RankerSettings

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: the most positions of a ranking
LONGEST_LIST = 1000
#: BubbleRank needs a horizon. By default it plans for this many rankings; of two neighbours one must then win 222 times
#: in a row before they are swapped.
SAFE_HORIZON = 1_000_000


def check_name(name: str) -> None:
    """Raise unless a ranker can have this name."""
    if not NAME.fullmatch(name):
        raise ValueError(
            f"ranker={name!r}: must be up to 64 letters, digits, dots, dashes or underscores, a letter or digit first"
        )


def check_ranker(name: str, settings: RankerSettings) -> None:
    """Raise unless a ranker of this name can have these settings; ValueError names the wrong parameter."""
    check_name(name)
    for parameter, check in CHECKS.items():
        check(parameter, getattr(settings, parameter))
    wait, kept = seconds("wait", settings.wait), seconds("forget_items", settings.forget_items)
    if kept < wait:
        raise ValueError(
            f"forget_items={settings.forget_items!r}: must be no shorter than wait={settings.wait!r}, "
            "as rankings need their items until the feedback window ends"
        )
    policy = policy_of(settings)
    # a missing horizon, for example, shows when the policy is applied to a problem
    L = settings.k + 1
    policy.fields(
        policy.parameters(RankingProblem(L, settings.k, settings.horizon, settings.horizon, int(policy.contextual)))
    )


def policy_of(settings: RankerSettings) -> Policy:
    """The policy of a ranker.

    >>> policy_of(RankerSettings(policy="CascadeSWUCB:window=24h")).spec
    'CascadeSWUCB:window=24h'
    """
    policy = default_policy() if settings.policy is None else parse_policy(settings.policy)
    if policy.oracle:
        raise ValueError(f"policy={settings.policy!r}: must not be an oracle, which only a simulation can run")
    if settings.mode != "safe":
        return policy
    if settings.policy is None:
        policy = BubbleRank()
    if not isinstance(policy, BubbleRank):
        raise ValueError(f"policy={settings.policy!r}: in mode 'safe' must be BubbleRank, or left out")
    policy = policy.replace(initial="given")  # safe: it stays near the baseline
    if policy.delta == "auto" and policy.horizon is None and settings.horizon is None:
        policy = policy.replace(horizon=SAFE_HORIZON)
    return policy


def _policy(name: str, value: Any) -> None:
    if value is not None:
        parse_policy(value)


def _keys(name: str, value: Any) -> None:
    for key in value:
        if not is_hash(key):  # it may be a secret: not in the message
            raise ValueError(f"{name}: must be hashes of keys, 'sha256:...', as printed by driftrank key")


def _context(name: str, value: Any) -> None:
    if len(set(value)) < len(value) or "" in value:
        raise ValueError(f"{name}={value!r}: must be names of features, each once")


#: the check of each parameter by itself
CHECKS: dict[str, Callable[[str, Any], object]] = {
    "policy": _policy,
    "k": lambda name, value: check_integer(name, value, 1, LONGEST_LIST),
    "mode": lambda name, value: check_choice(name, value, ("live", "shadow", "safe")),
    "holdout": lambda name, value: check_number(name, value, 0, 1, open_high=True),
    "wait": seconds,
    "silence": lambda name, value: check_choice(name, value, ("no_click", "drop")),
    "second_click": lambda name, value: check_choice(name, value, ("refuse", "update")),
    "forget_items": seconds,
    "seed": lambda name, value: check_integer(name, value, 0, 2**64 - 1),
    "horizon": lambda name, value: check_integer(name, 1 if value is None else value, 1, 2**53),
    "context": _context,
    "keys": _keys,
}
