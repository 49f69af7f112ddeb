"""Checks of a ranker's settings, and the policy they select."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, structs

from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.comparing.bubble_rank import BubbleRank
from driftrank.policies.parameters import seconds
from driftrank.policies.registry import default_policy, parse_policy
from driftrank.serve.access.keys import is_hash
from driftrank.validation import check_choice, check_integer, check_number
from driftrank.wire import ArmSettings, RankerSettings

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: the most positions of a ranking
LONGEST_LIST = 1000
#: temperatures of ``explore`` other than 0: below, other lists are shown too seldom to learn from; above, the order is
#: nearly lost
COLDEST, HOTTEST = 0.1, 10.0
#: names of a ranker's own arms, by mode, and of the one that gets the baseline
OWN_MODES = ("live", "shadow", "safe")
OWN_ARMS = (*OWN_MODES, "holdout")
#: rankings of an experiment that are planned by default
PLANNED = 20_000
#: arms that a ranker may have besides its own, and kinds of events
_MOST_ARMS, _MOST_KINDS = 8, 100
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
        if (value := getattr(settings, parameter)) is not UNSET:
            check(parameter, value)
    wait, kept = seconds("wait", settings.wait), seconds("forget_items", settings.forget_items)
    if kept < wait:
        raise ValueError(
            f"forget_items={settings.forget_items!r}: must be no shorter than wait={settings.wait!r}, "
            "as rankings need their items until the feedback window ends"
        )
    _check_policy(settings)
    for arm in arms_of(settings):
        try:
            _check_policy(settings_of_arm(settings, arm))
        except ValueError as error:
            raise ValueError(f"arms.{arm}: {error}") from None
    total = settings.holdout + sum(arm.share for arm in arms_of(settings).values())
    if total > 1 + 1e-9:
        raise ValueError(f"arms: the shares and holdout have the sum {total:g}: must be at most 1")


def notes(settings: RankerSettings) -> list[str]:
    """Consequences of settings that are easily overlooked.

    >>> notes(RankerSettings(values={"dwell": 0.3}))
    ["values: the first event of a ranking is its end, and others are refused; second_click='update' collects them"]
    """
    if not settings.values or settings.second_click == "update":
        return []
    return [
        "values: the first event of a ranking is its end, and others are refused; second_click='update' collects them"
    ]


def _check_policy(settings: RankerSettings) -> None:
    policy = policy_of(settings)
    if settings.explore and policy.own_lists:
        raise ValueError(
            f"explore={settings.explore:g}: must be 0 with {policy.spec}, which learns by its own lists only"
        )
    # a missing horizon, for example, shows when the policy is applied to a problem
    L = settings.k + 1
    policy.fields(
        policy.parameters(RankingProblem(L, settings.k, settings.horizon, settings.horizon, int(policy.contextual)))
    )


def arms_of(settings: RankerSettings) -> dict[str, ArmSettings]:
    """The arms of a ranker besides its own, by name."""
    return settings.arms or {}


def settings_of_arm(settings: RankerSettings, name: str) -> RankerSettings:
    """The settings with which an arm ranks: the ranker's, but for those that are its own.

    >>> both = RankerSettings(policy="CascadeUCB1", arms={"b": ArmSettings(share=0.5, policy="CascadeTS")})
    >>> settings_of_arm(both, "b").policy
    'CascadeTS'
    """
    arm = arms_of(settings)[name]
    own = {key: value for key in ("policy", "mode", "seed", "horizon") if (value := getattr(arm, key)) is not None}
    if arm.mode == "safe" and arm.policy is None:  # safe mode has a policy of its own
        own["policy"] = "BubbleRank"
    return structs.replace(settings, arms=UNSET, **own)


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


def _arms(name: str, value: dict[str, ArmSettings]) -> None:
    if len(value) > _MOST_ARMS:
        raise ValueError(f"{name}: {len(value)} arms: must be at most {_MOST_ARMS}")
    for arm, settings in value.items():
        if not NAME.fullmatch(arm) or arm in OWN_ARMS:
            raise ValueError(
                f"{name}.{arm}: must be up to 64 letters, digits, dots, dashes or underscores, a letter or digit "
                f"first, and none of {', '.join(OWN_ARMS)}"
            )
        check_number(f"{name}.{arm}.share", settings.share, 0, 1)
        for parameter in ("policy", "mode", "seed", "horizon"):
            if getattr(settings, parameter) is not None:
                CHECKS[parameter](f"{name}.{arm}.{parameter}", getattr(settings, parameter))


def _values(name: str, value: dict[str, float]) -> None:
    if len(value) > _MOST_KINDS:
        raise ValueError(f"{name}: {len(value)} kinds of events: must be at most {_MOST_KINDS}")
    for kind, worth in value.items():
        check_number(f"{name}.{kind}", worth, 0, 1)


def _explore(name: str, value: Any) -> None:
    if value != 0:
        check_number(f"{name} (0 or a temperature)", value, COLDEST, HOTTEST)


def _stable(name: str, value: Any) -> None:
    if value != 0:
        seconds(name, value)


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
    "arms": _arms,
    "values": _values,
    "stable": _stable,
    "explore": _explore,
    "planned": lambda name, value: check_integer(name, value, 100, 10**12),
}
