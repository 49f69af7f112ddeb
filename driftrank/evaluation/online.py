"""The online value of a learner by replay: it runs by itself on the log, and pays for its own exploration.

*Label replay* assumes users of the cascade model: a label of an item, clicked or not, is a draw of its attraction
wherever it stood. Every label is used once, near its time.

*List replay* (Li et al., 2011) assumes nothing about users: a logged list counts if the learner would have shown it.
Lists must have been drawn independently of the past. Few are accepted, so the learner sees a world that changes as many
times faster: policies that forget come out in the wrong order, and it is refused when the log has changes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.evaluation.checks import LogChecks, Refusal
from driftrank.evaluation.estimate import ENOUGH, Estimate, How, few
from driftrank.evaluation.rows import LogRows
from driftrank.evaluation.sequences import CLICKS
from driftrank.evaluation.shadow import Learners, LoggedList, in_order
from driftrank.evaluation.special import normal_quantile
from driftrank.kernels.rng import derive, run_key, uniform
from driftrank.policies.base import Policy

REPLAYS = ("labels", "lists")

#: labels are used within so many lists of their query
_NEAR = 500
#: the share of lists that may lack a label
_DRY = 0.01
_MOST_PACE = 32
#: below this share of accepted lists, a world that changes would change much faster for the learner
_ACCEPTED = 1 / 3


@dataclass(frozen=True)
class Replayed:
    """A replay of a learner."""

    estimate: Estimate
    note: str


def replay(rows: LogRows, policy: Policy, checks: LogChecks, how: How, kind: str = "labels", seed: int = 0) -> Replayed:
    """The online value of a learner, by ``"labels"`` or by ``"lists"``; the objective must be "any"."""
    if how.objective != "any":
        raise ValueError(f"objective={how.objective!r}: must be 'any' for online values")
    run = by_labels if kind == "labels" else by_lists
    return run(rows, policy, checks, how, seed)


# -- labels --------------------------------------------------------------------------------------------------------


def by_labels(rows: LogRows, policy: Policy, checks: LogChecks, how: How, seed: int = 0) -> Replayed:
    """Replay by labels: one simulated list for every ``pace`` logged ones, the smallest for which labels suffice."""
    about: dict[str, Any] = {"estimator": "label-replay", "assumes": "A3"}
    refused = tuple(checks.refusals("A3"))
    if refused:
        return Replayed(Estimate(**about, grade="D", refused=refused), "")
    queues = _Queues(rows)
    for pace in range(1, _MOST_PACE + 1):
        rewards = _simulated(rows, policy, queues.copy(), pace, seed)
        if rewards is not None:
            estimate = Estimate(**about, value=float(rewards.mean()), grade="C", lists=len(rewards))
            faster = f"; users change {pace} times as fast for it" if pace > 1 and rows.changes else ""
            note = f"one list for every {pace} logged ones{faster}. One run: its error is not known."
            return Replayed(estimate, note)
    text = f"Labels of the items that the policy shows run out, even at one list for every {_MOST_PACE} logged ones."
    return Replayed(Estimate(**about, refused=(Refusal("few", text),)), "")


class _Queues:
    """The labels of the items of each query in the order of time; each is used once."""

    def __init__(self, rows: LogRows | None = None) -> None:
        self._when: dict[tuple[int, Any], NDArray[np.int64]] = {}  #: number of the list within its query
        self._clicked: dict[tuple[int, Any], NDArray[np.bool_]] = {}
        self._next: defaultdict[tuple[int, Any], int] = defaultdict(int)
        if rows is None:
            return
        seen: defaultdict[int, int] = defaultdict(int)
        labels: defaultdict[tuple[int, Any], list[tuple[int, bool]]] = defaultdict(list)
        for shown in in_order(rows):
            for position, item in enumerate(shown.items[: shown.first], 1):
                labels[shown.code, item].append((seen[shown.code], position == shown.first))
            seen[shown.code] += 1
        for key, found in labels.items():
            self._when[key] = np.array([when for when, _ in found])
            self._clicked[key] = np.array([clicked for _, clicked in found])

    def copy(self) -> _Queues:
        """The same labels, none of them used."""
        other = _Queues()
        other._when, other._clicked = self._when, self._clicked
        return other

    def take(self, code: int, item: Any, t: int) -> bool | None:
        """The next label near list ``t`` of the query; None if there is none."""
        key = code, item
        when = self._when.get(key)
        if when is None:
            return None
        at = max(self._next[key], int(np.searchsorted(when, t - _NEAR)))
        if at >= len(when) or when[at] > t + _NEAR:
            return None
        self._next[key] = at + 1
        return bool(self._clicked[key][at])


def _simulated(rows: LogRows, policy: Policy, queues: _Queues, pace: int, seed: int) -> NDArray[np.float64] | None:
    """The rewards of the simulated lists; None if too many lack labels."""
    learners = Learners(rows, policy, seed)
    seen: defaultdict[int, int] = defaultdict(int)
    rewards: list[float] = []
    dry, most = 0, _DRY * rows.lists / pace + 1
    for logged in in_order(rows):
        t = seen[logged.code]
        seen[logged.code] += 1
        if t % pace:
            continue
        ranking = list(learners.rank(logged))[: len(logged.items)]
        clicks = _clicks(queues, logged.code, ranking, t)
        if clicks is None:
            dry += 1
            if dry > most:
                return None
            continue
        rewards.append(float(bool(clicks)))
        learners.learn(_as_shown(logged, ranking, clicks))
    return np.array(rewards) if rewards else None


def _clicks(queues: _Queues, code: int, ranking: list[Any], t: int) -> list[int] | None:
    """Clicks of a user of the cascade model on a list; None if a label is missing."""
    for position, item in enumerate(ranking, 1):
        label = queues.take(code, item, t)
        if label is None:
            return None
        if label:
            return [position]
    return []


def _as_shown(logged: LoggedList, items: list[Any], clicks: list[int]) -> LoggedList:
    return LoggedList(
        logged.code, logged.segment, logged.now, logged.window, logged.bucket, logged.moment, items, clicks, None,
        logged.candidates, logged.baseline,
    )  # fmt: skip


# -- lists ---------------------------------------------------------------------------------------------------------


def by_lists(rows: LogRows, policy: Policy, checks: LogChecks, how: How, seed: int = 0) -> Replayed:
    """Replay by lists: those that the learner would have shown, thinned to equal chances of acceptance."""
    about: dict[str, Any] = {"estimator": "list-replay", "assumes": "A0"}
    refused = checks.refusals("A0")
    if refused:
        return Replayed(Estimate(**about, refused=tuple(refused)), "")
    smallest = _smallest(rows)
    learners, key = Learners(rows, policy, seed), run_key(seed, "driftrank.evaluation.list-replay", 0)
    rewards: list[float] = []
    for number, logged in enumerate(in_order(rows)):
        ranking = list(learners.rank(logged))[: len(logged.items)]
        if ranking != logged.items or not logged.propensities:
            continue
        p = math.prod(logged.propensities)
        if uniform(derive(np.uint64(key), number)) * p < smallest[logged.code]:
            rewards.append(float(bool(logged.clicks)))
            learners.learn(logged)
    m, share = len(rewards), len(rewards) / rows.lists
    about |= {"lists": m, "effective": float(m)}
    if rows.changes and share < _ACCEPTED:
        text = (
            f"Users change, and {share:.1%} of the lists are accepted: for the policy they would change"
            f" {1 / max(share, 1e-9):.0f} times as fast, which reverses the order of policies that forget."
        )
        refused.append(Refusal("replay-under-change", text))
    if m < ENOUGH:
        needs = math.ceil(rows.lists * ENOUGH / m) if m else None
        refused.append(Refusal("few", f"Only {m} lists are those of the policy; {ENOUGH} are needed.", needs))
    mean = float(np.mean(rewards)) if rewards else 0.0
    if m >= ENOUGH and m * min(mean, 1 - mean) < CLICKS:
        refused.append(few(rows.lists, float(m), 0.0, m * min(mean, 1 - mean)))
    if refused:
        return Replayed(Estimate(**about, refused=tuple(refused)), "")
    error = math.sqrt(mean * (1 - mean) / m)
    half = normal_quantile(how.level) * error
    about |= {"value": mean, "low": max(mean - half, 0.0), "high": min(mean + half, 1.0), "error": error}
    return Replayed(Estimate(**about, interval="normal", grade="B"), f"{share:.1%} of the lists were accepted.")


def _smallest(rows: LogRows) -> dict[int, float]:
    """By query, the smallest probability of a list."""
    product = " * ".join(f"coalesce(propensities[{k}], 1)" for k in range(1, rows.k + 1))
    return dict(rows.connection.execute(f"SELECT code, min({product}) FROM ({rows.rows()}) GROUP BY code").fetchall())
