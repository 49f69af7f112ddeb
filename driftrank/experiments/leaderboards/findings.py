"""The findings of a leaderboard in text, all computed from its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from driftrank.experiments.leaderboards.arena import LEVEL
from driftrank.experiments.leaderboards.result import ROUNDING, Leaderboard
from driftrank.experiments.leaderboards.significance import holm
from driftrank.experiments.leaderboards.suite import PARTS
from driftrank.reporting.table import Table

#: the policy that forgetting is compared with
NEVER_FORGETS = "CascadeTS"
#: detection has failed if a policy detects a smaller share of the breakpoints
HALF = 0.5
#: a loss is large if regret is so many times that of another policy, and so many clicks in 1,000 lists are lost to it
LARGE, CLICKS = 1.25, 1.0
#: more false alarms per run than that, in a stationary environment, are too many
TOLERATED = 1.0


def forgetting(x: Leaderboard) -> list[str]:
    """Environments in which policies that forget have more regret than one that never does."""
    base = next((label for label, spec in x.specs.items() if spec == NEVER_FORGETS), None)
    passive = x.ranked("passive")
    if base is None or not passive:
        return [f"Needs {NEVER_FORGETS} and at least one policy that forgets."]
    pairs = [(label, name) for name in x.environments for label in passive if x.ran(label, name) and x.ran(base, name)]
    tested = [x.paired(label, base, name) for label, name in pairs]
    sure = [p <= LEVEL for p in holm([p for *_, p in tested])]
    found, pays = [], []
    for name in x.environments:
        there = [
            (x.regret(label, name)[0], label, difference > 0)
            for (label, where), (difference, *_), certain in zip(pairs, tested, sure, strict=True)
            if where == name and certain
        ]
        mean, error = x.regret(base, name)
        worse = sorted((regret, label) for regret, label, more in there if more)
        better = sorted((regret, label) for regret, label, more in there if not more)
        if worse:
            count = f"{len(worse)} of {len(passive)}"
            extremes = dict.fromkeys((worse[0], worse[-1]))  # one, if there is one
            named = " to ".join(f"{_times(regret / mean)} as much ({label})" for regret, label in extremes)
            found.append(f"{name}: {count} lose more than {base} ({plus_minus(mean, error)}), {named}.")
        if better:
            pays.append(f"{name} ({better[0][1]} {_times(better[0][0] / mean)})")
    found = found or [f"No policy that forgets loses significantly more than {base} in any environment."]
    none = f"None loses significantly less than {base} in any environment."
    return [*found, f"The best of them lose less than {base} in: {', '.join(pays)}." if pays else none]


def detection(x: Leaderboard) -> list[str]:
    """Environments in which detection fails."""
    if not x.found_changes:
        return ["No policy raised an alarm."]
    found, good = [], []
    quiet = {arena.name for arena in x.arenas if arena.kind == "stationary"}
    for label in dict.fromkeys(d.policy for d in x.found_changes):
        own = [d for d in x.found_changes if d.policy == label]
        missed = [f"{d.environment} ({d.share:.0%})" for d in own if d.share < HALF]
        many = [d for d in own if d.environment in quiet and d.false_alarms > TOLERATED]
        loud = [f"{d.false_alarms:,.1f} in {d.environment}" for d in many]
        parts = []
        if missed:
            total = sum(d.changes > 0 for d in own)
            where = f"{len(missed)} of {total} environments: {', '.join(missed)}"
            parts.append(f"detects fewer than half of the breakpoints in {where}")
        if loud:
            parts.append(f"raises alarms in stationary environments, per run {', '.join(loud)}")
        if parts:
            found.append(f"{label} {'; '.join(parts)}.")
        else:
            good.append(label)
    if good:
        limits = f"at least {HALF:.0%} of the breakpoints everywhere, and at most {TOLERATED:g} false alarm per run"
        found.append(f"{', '.join(good)}: {limits} in stationary environments.")
    return found


def beaten(x: Leaderboard) -> list[str]:
    """Environments in which the default policy is beaten, and by which policies."""
    found = []
    for name in x.environments:
        there = [c for c in x.comparisons if c.environment == name and x.groups[c.policy] != "oracle"]
        better = sorted((c for c in there if c.verdict == "better"), key=lambda c: c.ratio)
        if better:
            found.append(f"{name}: by {', '.join(f'{c.policy} ({_less(c.ratio)})' for c in better)}.")
    if not found:
        return [f"No policy is significantly better than {x.default} in any environment."]
    left = len(x.environments) - len(found)
    return (
        [*found, f"In the other {left} of {len(x.environments)} no policy is significantly better."] if left else found
    )


def counts(x: Leaderboard) -> list[str]:
    """For every part, the number of environments in which the default policy loses."""
    found = []
    for part in x.every_part:
        own = lost_in(part)
        beaten_in, more = sum(loss.better > 0 for loss in own), sum(not loss.better for loss in own)
        text = f"{title(part)}: beaten in {beaten_in} of {len(part.environments)}"
        found.append(f"{text}, and in {more} a large loss that is not significant." if more else f"{text}.")
    return found


@dataclass(frozen=True)
class Loss:
    """An environment in which the default policy loses significantly, or much."""

    environment: str
    regret: tuple[float, float]  #: of the default policy, with its standard error
    least: str  #: the other policy with the least regret
    least_regret: tuple[float, float]
    clicks: float  #: lost to it in 1,000 lists
    better: int  #: policies that have significantly less regret
    confirmed: bool  #: by the permutation test, for one of them


def lost_in(part: Leaderboard) -> list[Loss]:
    """The environments of a part in which a policy has significantly less regret than the default one, or in which the
    loss is large: 1.25 times the regret of another policy, and a click in 1,000 lists."""
    found = []
    for arena in part.arenas:
        name = arena.name
        others = [label for label in part.contenders if label != part.default and part.ran(label, name)]
        if not others or not part.ran(part.default, name):
            continue
        least = min(others, key=lambda label: part.regret(label, name)[0])
        own, its = part.regret(part.default, name), part.regret(least, name)
        clicks = 1000 * (own[0] - its[0]) / arena.result.horizon
        there = [c for c in part.comparisons if c.environment == name and part.groups[c.policy] != "oracle"]
        better = [c for c in there if c.verdict == "better"]
        if better or (clicks >= CLICKS and own[0] >= LARGE * its[0]):
            sure = any(c.confirmed for c in better)
            found.append(Loss(name, own, least, its, clicks, len(better), sure))
    return found


def losses(x: Leaderboard) -> Table:
    """The environments in which the default policy loses significantly or much, the most clicks first."""
    found = sorted((loss for part in x.every_part for loss in lost_in(part)), key=lambda loss: -loss.clicks)
    rows = [
        (loss.environment, plus_minus(*loss.regret), f"{plus_minus(*loss.least_regret)} ({loss.least})",
         f"{loss.regret[0] / loss.least_regret[0]:.2f}" if loss.least_regret[0] > ROUNDING else "–",
         f"{loss.clicks:,.1f}", f"{loss.better}{'' if loss.confirmed else '?'}" if loss.better else "no")
        for loss in found
    ]  # fmt: skip
    names = ("environment", x.default, "least of the others", "ratio", "clicks in 1,000 lists", "significant")
    return Table(names, rows, (None, "", None, "", "", ""))


def suspicious(x: Leaderboard) -> list[str]:
    """Environments in which a policy has less regret than every oracle."""
    found = []
    for part in x.every_part:
        for name in part.environments:
            ran = [label for label in part.ranked() if part.ran(label, name)]
            oracles = [label for label in ran if part.groups[label] == "oracle"]
            if not oracles:
                continue
            best = min(oracles, key=lambda label: part.regret(label, name)[0])
            least = part.regret(best, name)[0]
            below = [p for p in part.contenders if part.ran(p, name) and part.regret(p, name)[0] < least]
            if below:
                below.sort(key=lambda label: part.regret(label, name)[0])
                first = f"{below[0]} ({amount(part.regret(below[0], name)[0])})"
                more = f" and {len(below) - 1} more" if len(below) > 1 else ""
                found.append(f"{name}: {first}{more}; {best} {amount(least)}.")
    return found


def advice(x: Leaderboard) -> Table:
    """For every kind of users in every part, the policy with the least regret beside the default one."""
    rows = []
    for part in x.every_part:
        kinds: dict[str, list[str]] = {}
        for arena in part.arenas:
            kinds.setdefault(arena.users.partition(":")[0], []).append(arena.name)
        for users, names in kinds.items():
            scores = {p: part.score(p, names) for p in part.contenders if all(part.ran(p, name) for name in names)}
            known = {p: score for p, score in scores.items() if not math.isnan(score)}
            if not known:
                continue
            best = min(known, key=lambda p: known[p])
            verdicts = [c.verdict for c in part.comparisons if c.policy == best and c.environment in names]
            beside = f"{verdicts.count('better')} / {verdicts.count('worse')}" if verdicts else "–"
            what = f"{title(part)}, {users}" if users else title(part)
            rows.append((what, len(names), best, known[best], scores.get(part.default, math.nan), beside))
    ratio = "ratio to best"
    columns = ("environments", "number", "least regret", ratio, f"the same of {x.default}", "better / worse than it")
    return Table(columns, rows, (None, "d", None, ".2f", ".2f", ""))


def title(x: Leaderboard) -> str:
    """The title of a part."""
    return PARTS[x.part].title if x.part in PARTS else "Environments"


def price(x: Leaderboard) -> list[str]:
    """Losses elsewhere of the policies that beat the default policy somewhere."""
    found = []
    for label in x.ranked("active", "passive", "stationary"):
        own = [c for c in x.comparisons if c.policy == label]
        better, worse = ([c for c in own if c.verdict == verdict] for verdict in ("better", "worse"))
        if not better:
            continue
        text = f"{label}, better in {len(better)} of {len(own)}: "
        if worse:
            most = max(worse, key=lambda c: c.ratio)
            text += f"worse in {len(worse)}, at most {_times(most.ratio)} as much regret ({most.environment}); "
        else:
            text += "worse in none; "
        overall = x.scores[label] / x.scores[x.default]
        found.append(f"{text}in the geometric mean over all {_times(overall)} that of {x.default}.")
    return found


def plus_minus(mean: float, error: float) -> str:
    """A number as the page shows it, with its standard error."""
    shown = amount(mean)
    return shown if math.isnan(error) else f"{shown} ± {amount(error, mean)}"


def amount(value: float, like: float | None = None) -> str:
    """Three digits or all before the point, as many places as ``like`` has."""
    places = 0 if abs(value if like is None else like) >= 100 else 1
    return f"{value:,.{places}f}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times" if ratio < 10 else f"{ratio:,.0f} times"


def _less(ratio: float) -> str:
    return f"{100 * (1 - ratio):.0f}% less"
