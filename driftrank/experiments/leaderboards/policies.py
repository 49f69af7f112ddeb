"""The policies of a leaderboard: those of each part, all of it data, or those that were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from driftrank.clickmodels.dcm import YANDEX
from driftrank.experiments.leaderboards.suite import CHANGES, position_bias
from driftrank.policies.base import Policy
from driftrank.policies.registry import PolicyLike, as_policies, default_policy, parse_policy
from driftrank.policies.registry import policies as known_policies

#: rivals with the freedom that CascadeRegimeTS takes: in the cascade model the order of a list costs nothing
ANY_ORDER = ("CascadeTS:order=increasing", "GLRTCascadeKLUCB:order=increasing")
#: a rival that learns from every click
EVERY_CLICK = ("CascadeTS:feedback=last",)
#: rivals who know how users read: the examination of PBM-1-K5, the probabilities to leave after a click of DCM
_READING = position_bias(1.0, 5).partition(":")[2].replace("[1;", "[1.0;")
_LEAVING = f"stop_after_click=[{';'.join(map(str, YANDEX[:5]))}]"
INFORMED = (
    *(f"{name}:{_READING}" for name in ("PBMUCB", "PBMPIE", "PBMDPIE", "PBMSWPIE", "PBMSWUCB", "PBMDUCB")),
    *(f"{name}:{_LEAVING}" for name in ("DCMKLUCB", "DCMUCB", "DCMSWKLUCB", "GLRTDCMKLUCB")),
)
#: policies for items with features, and what they are measured by
BY_FEATURES = ("PDGD", "DBGD", "CascadeLinUCB", "CascadeLinTS", "CascadeTS", *EVERY_CLICK, "Random")
#: references that know the truth, shown separately. One that shows the best list at every step has no regret.
RESTARTED = ("OracleRestart", "OracleRestart:base=CascadeTS(order=increasing,a0=0.5,b0=0.5)")
ORACLES = (*RESTARTED, "StaticOracle")

#: the best rivals, by the best of 32 settings each on development worlds: `python benchmarks/fair.py tune --queries 16`
TUNED = {
    "CascadeTS": "CascadeTS:a0=0.05,b0=4.0",
    "CascadeSWUCB": "CascadeSWUCB:order=increasing,window=1000,epsilon=0.01",
    "CascadeDUCB": "CascadeDUCB:order=increasing,discount=0.998,epsilon=0.003",
    "CascadeSWTS": "CascadeSWTS:order=increasing,window=2000,a0=0.5,b0=0.5",
    "CascadeSWKLUCB": "CascadeSWKLUCB:order=increasing,window=4000",
    "GLRTCascadeKLUCB": "GLRTCascadeKLUCB:order=increasing,explore=0.02,delta=0.05",
}
#: those whose parameters theory derives from the number of changes
BY_THEORY = tuple(f"{name}:n_breakpoints={CHANGES}" for name in TUNED if name != "CascadeTS")


def usual(part: str) -> list[str]:
    """The policies of a part: all that can run there with default parameters, and what is fair beside them.

    >>> usual("fair")[:3]
    ['PriorRegimeTS', 'CascadeRegimeTS', 'CascadeTS']
    """
    first = default_policy().spec
    if part == "fair":
        same = f"OracleRestart:base={first}(vigilance=0.0)"
        return [first, "CascadeRegimeTS", *TUNED, *BY_THEORY, *TUNED.values(), *ORACLES, same]
    if part == "known":
        uninformed = [spec.partition(":")[0] for spec in INFORMED]
        return [first, "CascadeTS", *EVERY_CLICK, "GLRTCascadeKLUCB", *uninformed, *INFORMED]
    if part == "features":
        return [first, *BY_FEATURES, "StaticOracle"]
    known = known_policies()
    once = [name for name, p in known.items() if not p.oracle and p.click_model == "CM"]
    if part in ("users", "others"):
        several = [name for name, p in known.items() if not p.oracle and p.click_model != "CM"]
        return [*once, *several, *EVERY_CLICK, *ANY_ORDER, *ORACLES]
    return [*once, *(() if part == "traffic" else ANY_ORDER), *ORACLES]


def chosen_policies(
    given: PolicyLike | Iterable[PolicyLike], parts: Iterable[str], begun: Sequence[str] = ()
) -> dict[str, list[Policy]]:
    """By part: those given and the default policy, or the usual ones. The usual ones of all parts stand for no choice.

    A leaderboard that was ``begun`` with those given, perhaps by a version with another default, is continued with
    these.
    """
    chosen = as_policies(given)
    by_part = {part: [parse_policy(spec) for spec in usual(part)] for part in parts}
    if not chosen or {p.spec for p in chosen} == {p.spec for p in together(by_part)}:
        return by_part
    first = default_policy()
    if first not in chosen and [p.spec for p in chosen] != list(begun):
        chosen = [first, *chosen]
    return dict.fromkeys(by_part, chosen)


def together(by_part: dict[str, list[Policy]]) -> list[Policy]:
    """The policies of all parts, each once; one that was given twice stays twice."""
    found: list[Policy] = []
    for policies in by_part.values():
        found += policies if not found else [policy for policy in policies if policy not in found]
    return found
