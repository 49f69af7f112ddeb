"""Evaluate targets on a log."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from driftrank.evaluation.base import OBJECTIVES, Estimator, known_estimators
from driftrank.evaluation.checks import LogChecks, Refusal, check_log
from driftrank.evaluation.estimate import (
    ENOUGH,
    INTERVALS,
    Estimate,
    How,
    Model,
    estimate,
    interval,
    running_values,
    window_values,
)
from driftrank.evaluation.estimators.cascade_dr import CascadeDR
from driftrank.evaluation.labels import ShownLists, bounds, fit_variance, rarely_seen
from driftrank.evaluation.matching import FixedTarget
from driftrank.evaluation.needs import Exploration, best_exploration
from driftrank.evaluation.online import REPLAYS, replay
from driftrank.evaluation.result import Difference, Evaluation, TargetResult
from driftrank.evaluation.rows import LogRows
from driftrank.evaluation.shadow import Shadow, best_now, frozen
from driftrank.evaluation.sums import Replicates, Sums
from driftrank.evaluation.targets import Rankings, Target, read_target
from driftrank.logs.changes import drift
from driftrank.logs.count.by_file import workers
from driftrank.logs.count.scan import Scan
from driftrank.logs.log import Log, open_log
from driftrank.logs.schema import PROPENSITIES
from driftrank.policies.base import Policy
from driftrank.policies.parameters import is_duration, seconds
from driftrank.validation import check_choice, check_integer, check_known, check_number

if TYPE_CHECKING:
    from driftrank.engine.cluster.cluster import Cluster

#: the target that every log has: what was shown
LOGGED = "logged"

#: used instead, if users do not read from the top
_FALLBACK = "self-normalised"

Given = str | os.PathLike[str] | Policy | Rankings


def evaluate(
    log: Log | str | os.PathLike[str],
    targets: Given | Sequence[Given],
    *,
    against: str | None = LOGGED,
    k: int | None = None,
    value_of: str = "shadow",
    objective: str = "any",
    estimator: str = "dr",
    interval: str = "normal",
    clip: float | None = None,
    level: float = 0.95,
    since: Any = None,
    windows: int = 20,
    changes: int = 100,
    propensities: str | None = None,
    replay: str = "labels",
    seed: int = 0,
    device: str = "cpu",
    address: str | None = None,
) -> Evaluation:
    """Estimate what other lists or policies would have earned, from a log with propensities.

    A value is given only if the checks of its assumptions pass. Otherwise it is None, with reasons.

    Parameters
    ----------
    log
        A log, or what :func:`driftrank.logs.open_log` opens. Lists of a service's holdout have no propensities, and are
        left out.
    targets
        Policies, as objects or specs; mappings from queries to rankings, or files of them (columns ``query`` and
        ``ranking``); ``"best-now"``, the most attractive items of each query since its last change.
    against
        ``"logged"`` or a target: differences are paired, list by list. None: no differences.
    k
        Positions to evaluate; by default the most common length of a list.
    value_of
        Of a policy: ``"shadow"``, the lists that it would have shown beside the log; ``"frozen"``, the lists that it
        prefers after the log (learnt from one half of the users, measured on the other); ``"online"``, by a replay in
        which it runs by itself and explores.
    objective
        ``"any"``: a click or none; ``"clicks"``: the number of clicks.
    estimator
        See :func:`driftrank.evaluation.known_estimators`; ``"dr"`` is doubly robust. All are in ``ladder``.
    interval
        ``"normal"``: for one look. ``"always-valid"``: for a number that is looked at while it grows.
        ``"empirical-bernstein"``: the same without an assumption about sizes, and wider; for the objective "any" and
        estimators by prefix, otherwise the one before.
    clip
        Of the estimator "dr": leave out corrections with a larger weight, for comparisons of estimators. The click
        model stands in for them; its error is unknown, so there is no interval and no grade.
    level
        Coverage of the intervals.
    since
        Only lists from this time on, or of the last time, such as ``"7d"``.
    windows
        Windows of equal time for the series.
    changes
        Number of queries, the most frequent, in which changes are looked for; 0: none.
    propensities
        Kind of the propensities in the log: ``"conditional"`` on the items above, ``"marginal"``, or ``"list"``: one
        number, of the whole list. By default that which is written in the log, or else conditional.
    replay
        For online values: ``"labels"`` (assumes the cascade model) or ``"lists"`` (assumes a log of random lists), see
        :mod:`driftrank.evaluation.online`.
    device, address
        Where to count: ``"cpu"``, or ``"cluster"`` (:class:`~driftrank.engine.cluster.cluster.Cluster`), file by file.
        Learners run in this process, since they need the lists in the order of time, and changes are looked for here.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import driftrank as dr
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> tea = dr.queries.Queries.of({"tea": [0.3, 0.2, 0.1, 0.1]})
    >>> _ = dr.logs.generate(path, dr.environments.Stationary(tea, k=2), 4000, length=2)
    >>> target = dr.evaluate(path, {"tea": [1000, 1001]})["rankings"]
    >>> target.grade, target.low < 1 - 0.7 * 0.8 < target.high
    ('B', True)
    """
    check_choice("objective", objective, OBJECTIVES)
    check_choice("interval", interval, INTERVALS)
    check_choice("replay", replay, REPLAYS)
    check_known("estimator", estimator, known_estimators())
    check_number("level", level, 0.5, 1, open_high=True)
    chosen_estimator = _estimator(estimator, objective, clip)
    check_integer("windows", windows, 1)
    check_integer("changes", changes, 0)
    opened = (log if isinstance(log, Log) else open_log(log)).without_holdout()
    kind = propensities or opened.propensities or "conditional"
    check_choice("propensities", kind, tuple(PROPENSITIES))
    if since is not None:
        try:
            opened = opened.between(_since(opened, since))
        except ValueError as error:  # it is called start there
            raise ValueError(f"since{str(error).removeprefix('start').removeprefix('since')}") from None
    wanted = [targets] if isinstance(targets, (str, os.PathLike, Policy, Mapping)) else list(targets)
    chosen = [read_target(given, opened, value_of) for given in wanted]
    _check_names(chosen, against)
    how = How(level, interval, objective)
    with workers(device, address) as cluster:
        positions = common_length(opened, k, cluster)
        drifts = drift(opened, top=changes) if changes else []
        with LogRows(opened, positions, objective, drifts, windows, kind, cluster) as rows:
            session = _Session(rows, check_log(rows), how, chosen_estimator, seed)
            return session.evaluation(chosen, against, replay)


class _Session:
    """The common parts of the targets of one evaluation."""

    def __init__(self, rows: LogRows, checks: LogChecks, how: How, estimator: Estimator, seed: int) -> None:
        self.rows, self.checks, self.how, self.estimator, self.seed = rows, checks, how, estimator, seed
        self.estimators = {
            key: estimator if key == estimator.key else each
            for key, each in known_estimators().items()
            if how.objective in each.objectives and (rows.weighs or not each.weighs)
        }

    def evaluation(self, targets: Sequence[Target], against: str | None, replay: str) -> Evaluation:
        rows = self.rows
        found = {target.name: self.measure(target) for target in targets if target.value_of != "online"}
        results = {
            target.name: found[target.name].result(against, found)
            if target.name in found
            else self.online(target, replay)
            for target in targets
        }
        return Evaluation(
            rows.log.source, rows.lists, len(rows.queries), rows.k, self.how.objective,
            *rows.logged(), rows.changes, self.checks, results, self.how.level,
        )  # fmt: skip

    def measure(self, target: Target) -> _Measured:
        rows = self.rows
        fixed: FixedTarget | None = None
        if target.policy is not None and target.value_of == "shadow":
            shadow = Shadow(rows, target.policy, self.seed)
            sums = Sums.of(shadow.batches(), self.estimators, rows.cells, len(rows.queries))
            shown = shadow.shown_lists()
        else:
            fixed = rows.fixed_target(self._lists(target))
            shown = rows.shown_lists(fixed)
            if not len(shown.lists):
                raise ValueError(f"{target.name}: has no ranking for any query of {rows.log.source}")
            sums = rows.sums(fixed, self.estimators)
        return _Measured(self, target, sums, shown, fixed)

    def online(self, target: Target, kind: str) -> TargetResult:
        """The result of a replay."""
        assert target.policy is not None
        done = replay(self.rows, target.policy, self.checks, self.how, kind, self.seed)
        notes = (done.note,) if done.note else ()
        return TargetResult(target.name, "online", done.estimate, done.estimate, notes=notes)

    def _lists(self, target: Target) -> Sequence[Rankings]:
        if target.rankings is not None:
            return [target.rankings]
        if target.policy is None:
            return best_now(self.rows)
        return frozen(self.rows, target.policy, self.seed)


class _Measured:
    """The sums of one target."""

    def __init__(
        self, session: _Session, target: Target, sums: Sums, shown: ShownLists, fixed: FixedTarget | None
    ) -> None:
        self.session, self.target, self.sums, self.fixed = session, target, sums, fixed
        labels, last = session.rows.labels, session.rows.last
        self.models = []
        for own in (shown, shown.only(last[shown.segment])):
            if not len(own.lists):  # after the last change of all
                self.models.append(Model(0.0, 1.0, (0.0, 1.0)))
                continue
            rare = rarely_seen(labels, own).any(axis=1)
            share = float(own.lists[rare].sum() / own.lists.sum())
            self.models.append(Model(fit_variance(labels, own), share, bounds(labels, own)))

    def estimate(self, key: str, now: bool = False) -> Estimate:
        session = self.session
        if key not in session.estimators:  # without propensities, or for another objective
            each = known_estimators()[key]
            refused = session.checks.refusals(each.assumes)
            if session.how.objective not in each.objectives:
                refused.append(Refusal("objective", "This estimator counts one click of a list, or none."))
            return Estimate(key, each.assumes, lists=session.rows.lists, refused=tuple(refused))
        return estimate(
            self.sums.scope(now), session.estimators[key], session.checks, session.how, self.models[now], self._worst()
        )

    def headline(self, now: bool = False) -> Estimate:
        """The estimate of the chosen estimator, or of whole lists if users do not read from the top."""
        found = self.estimate(self.session.estimator.key, now)
        if [refusal.code for refusal in found.refused if refusal.code == "not-top-down"]:
            return self.estimate(_FALLBACK, now)
        return found

    def _worst(self) -> list[str]:
        """The queries whose weights are most off, if several."""
        lists, weights = self.sums.by_query
        order = np.argsort(-np.abs(weights - lists), kind="stable")[:3]
        return [repr(self.session.rows.queries[code]) for code in order if lists[code]]

    def result(self, against: str | None, found: Mapping[str, _Measured]) -> TargetResult:
        session, whole = self.session, self.headline()
        now = self.headline(now=True) if session.rows.changes else whole
        used = known_estimators()[whole.estimator]
        scope, level = self.sums.scope(False), session.how.level
        given = whole.value is not None
        notes = []
        if whole.left_to_model is not None:
            notes.append(f"Weights are clipped: {whole.left_to_model:.0%} of the weight is left to the click model.")
        if whole.estimator != session.estimator.key:
            notes.append(session.checks["not-top-down"].text)
        missing = round(session.rows.lists - scope.lists)
        if missing:
            notes.append(f"{missing:,} lists are left out: the target has no list for them, or they no propensities.")
        exploring: Exploration | None = None
        if not given and self.fixed is not None and session.how.objective == "any":
            exploring = best_exploration(session.rows, self.fixed)
        other = None if against is None or against == self.target.name else against
        return TargetResult(
            self.target.name, self.target.value_of, whole, now, {key: self.estimate(key) for key in known_estimators()},
            None if other is None else self._difference(whole, other, found, now=False),
            None if other is None else self._difference(now, other, found, now=True),
            window_values(scope, used, level) if whole.low is not None else None,
            running_values(scope, used, level) if whole.low is not None else None,
            exploring, tuple(notes),
        )  # fmt: skip

    def _trusted(self, own: Estimate) -> Replicates | None:
        """The values without one bucket each, if there are enough lists for an interval from them."""
        return own.replicates if own.interval == self.session.how.interval or own.effective >= ENOUGH else None

    def _difference(self, own: Estimate, against: str, found: Mapping[str, _Measured], now: bool) -> Difference | None:
        now = now and bool(self.session.rows.changes)
        mine = self._trusted(own)
        other = self.sums.scope(now).rewards() if against == LOGGED else self._trusted(found[against].headline(now))
        if mine is None or other is None:
            return None
        paired = mine.minus(other)
        kind = "normal" if self.session.how.interval == "normal" else "always-valid"
        low, high = interval(paired, own.lists, kind, self.session.how.level)
        return Difference(against, paired.value, low, high)


def _since(log: Log, since: Any) -> Any:
    """The time from which on lists count."""
    if not (isinstance(since, str) and is_duration(since)):
        return since
    last = log.span()[1]
    if last is None:
        raise ValueError(f"{log.source}: is empty")
    if not isinstance(last, datetime):
        raise ValueError(f"since={since!r}: must be a number, as the times of {log.source}")
    return last - timedelta(seconds=seconds("since", since))


def common_length(log: Log, k: int | None = None, cluster: Cluster | None = None) -> int:
    """The number of positions: ``k`` if it is given, else the most common length of a list."""
    if k is not None:
        check_integer("k", k, 1)
        return k
    lengths = "SELECT len(ranking) AS length FROM log_rows WHERE len(ranking) > 0"
    with Scan(log, cluster) as scan, scan.grouped(lengths, ("length",), {"lists": "count(*)"}) as groups:
        order = "ORDER BY lists DESC, length DESC LIMIT 1"
        found = scan.connection.execute(f"SELECT length FROM {groups} {order}").fetchone()
    if found is None:
        raise ValueError(f"{log.source}: has no list with items")
    return int(found[0])


def _estimator(name: str, objective: str, clip: float | None) -> Estimator:
    usable = _usable(name, objective)
    found = known_estimators()[usable]
    if clip is None:
        return found
    if not isinstance(found, CascadeDR):
        raise ValueError(f"clip={clip!r}: must not be given with estimator={usable!r}; 'dr' can be clipped")
    check_number("clip", clip, 1)
    return CascadeDR(clip)


def _usable(estimator: str, objective: str) -> str:
    """The estimator for an objective: the default has no form for the number of clicks."""
    if objective in known_estimators()[estimator].objectives:
        return estimator
    if estimator == "dr":
        return "prefix"
    known = [key for key, each in known_estimators().items() if objective in each.objectives]
    raise ValueError(f"estimator={estimator!r}: must be one of {', '.join(known)} for objective={objective!r}")


def _check_names(targets: Sequence[Target], against: str | None) -> None:
    names = [target.name for target in targets]
    if not names:
        raise ValueError("targets=[]: must be at least one")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"targets: {name} occurs twice")
    if against is not None and against != LOGGED:
        check_known("target", against, [target.name for target in targets if target.value_of != "online"])
