"""Checks of descriptions of policies: their specs and parameters. They apply to oracles, too."""

from __future__ import annotations

import dataclasses
import math
import typing
from typing import Any

from driftrank.contracts import require
from driftrank.policies.base import Policy
from driftrank.policies.contract.steps import start
from driftrank.policies.registry import parse_policy


def check_spec_round_trips(policy: Policy) -> None:
    """The policy parsed from its spec is the same policy; so is a copy."""
    again = parse_policy(policy.spec)
    require(again == policy, f"{policy.spec!r} is parsed as {again!r}")
    require(policy.replace() == policy and hash(policy.replace()) == hash(policy), "a copy is not equal to it")
    require(type(policy)() == parse_policy(type(policy).__name__), "the name alone does not mean the defaults")


def check_bad_values_are_refused(policy: Policy) -> None:
    """An invalid value of a parameter raises a ``ValueError`` that names it."""
    for name, kinds in parameters_of(policy).items():
        bad: list[Any] = ["nonsense", [], object()]
        if {int, float} & set(kinds):
            bad += [math.nan, -math.inf]
        if type(None) not in kinds:
            bad.append(None)
        for value in bad:
            try:
                policy.replace(**{name: value})
            except ValueError as error:
                require(name in str(error), f"{name}={value!r} is refused without naming {name}: {error}")
            except Exception as error:
                raise AssertionError(f"{name}={value!r} raises {error!r}, not a ValueError") from error
            else:
                raise AssertionError(f"{name}={value!r} is accepted")


def check_oracle_does_not_learn(policy: Policy) -> None:
    """An oracle cannot be started as a learner."""
    if policy.oracle:
        try:
            start(policy)
        except ValueError:
            return
        raise AssertionError("it can be started although it is an oracle")


def parameters_of(policy: Policy) -> dict[str, tuple[Any, ...]]:
    """The parameters of a policy, with their types."""
    hints = typing.get_type_hints(type(policy))
    fields = dataclasses.fields(policy)
    return {f.name: typing.get_args(hints[f.name]) or (hints[f.name],) for f in fields if f.init}
