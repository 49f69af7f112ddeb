"""Evaluate targets on a log."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from driftrank.evaluation.base import OBJECTIVES, Estimator, known_estimators
from driftrank.evaluation.checks import check_log
from driftrank.evaluation.estimate import INTERVALS, How
from driftrank.evaluation.estimators.cascade_dr import CascadeDR
from driftrank.evaluation.online import REPLAYS
from driftrank.evaluation.result import Evaluation
from driftrank.evaluation.rows import LogRows
from driftrank.evaluation.sequences import PLANNED
from driftrank.evaluation.session import LOGGED, Session
from driftrank.evaluation.slope import AUTO, CANDIDATES
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
    planned: int = PLANNED,
    since: Any = None,
    half_life: Any = None,
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
        A log, or what :func:`driftrank.logs.open_log` opens. Of a service's log, lists of the holdout without
        propensities, pages after the first and lists with pinned items are left out
        (:meth:`driftrank.logs.log.Log.evaluable`).
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
        ``"auto"`` chooses between "dr", clipped forms of it and the click model
        (:func:`driftrank.evaluation.slope.slope`), for comparisons of estimators: there is no interval and no grade.
    interval
        ``"normal"``: for one look. ``"always-valid"``: for a number that is looked at while it grows.
        ``"empirical-bernstein"``: for one look, without an assumption about sizes, and wider; for the objective "any"
        and estimators by prefix, otherwise the one before.
    clip
        Of the estimator "dr": leave out corrections with a larger weight, for comparisons of estimators. The click
        model stands in for them; its error is unknown, so there is no interval and no grade.
    level
        Coverage of the intervals.
    planned
        The number of lists at which always-valid intervals are narrowest. Choose it before the first look, and give
        the same at every look: intervals that are tuned to the present number do not hold at all looks together.
    since
        Only lists from this time on, or of the last time, such as ``"7d"``.
    half_life
        The time after which a list counts half, such as ``"7d"``, instead of all lists counting as much: follows users
        who change all the time. With the interval "normal".
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
    check_known("estimator", estimator, (*known_estimators(), AUTO))
    check_number("level", level, 0.5, 1, open_high=True)
    candidates = _candidates(estimator, objective, clip)
    check_integer("planned", planned, 1)
    check_integer("windows", windows, 1)
    check_integer("changes", changes, 0)
    whole = log if isinstance(log, Log) else open_log(log)
    opened = whole.evaluable()
    kind = propensities or opened.propensities or "conditional"
    check_choice("propensities", kind, tuple(PROPENSITIES))
    if since is not None:
        last = whole.span()[1]
        try:
            begin = _since(opened, since)
            whole, opened = whole.between(begin), opened.between(begin)
        except ValueError as error:  # it is called start there
            raise ValueError(f"since{str(error).removeprefix('start').removeprefix('since')}") from None
        if whole.span()[1] is None and last is not None:
            raise ValueError(f"since={since!r}: must be at most the last time of {whole.source}, {last}")
    wanted = [targets] if isinstance(targets, (str, os.PathLike, Policy, Mapping)) else list(targets)
    chosen = [read_target(given, opened, value_of) for given in wanted]
    _check_names(chosen, against)
    decay = None if half_life is None else _half_life(opened, half_life, interval, candidates, chosen)
    how = How(level, interval, objective, decay is not None, planned)
    with workers(device, address) as cluster:
        apart = whole.set_apart()
        if apart and not opened.count():
            raise ValueError(f"{opened.source}: has no list to evaluate, only {', '.join(apart)}")
        positions = common_length(opened, k, cluster)
        drifts = drift(opened, top=changes) if changes else []
        with LogRows(opened, positions, objective, drifts, windows, kind, cluster, decay) as rows:
            session = Session(rows, check_log(rows, apart), how, candidates, seed, changes)
            return session.evaluation(chosen, against, replay)


def _since(log: Log, since: Any) -> Any:
    """The time from which on lists count."""
    if not (isinstance(since, str) and is_duration(since)):
        return since
    last = log.span()[1]
    if last is None:
        raise ValueError(f"{log.source}: is empty")
    return last - timedelta(seconds=_seconds(log, "since", since))


def _half_life(
    log: Log, half_life: Any, interval: str, candidates: Sequence[Estimator], targets: Sequence[Target]
) -> float:
    """The half-life in seconds."""
    if interval != "normal":
        raise ValueError(f"interval={interval!r}: must be 'normal' if there is a half_life")
    if len(candidates) > 1 or candidates[0].clipped:
        raise ValueError(f"half_life={half_life!r}: must not be given with clip or estimator='auto'")
    if any(target.value_of == "online" for target in targets):
        raise ValueError(f"half_life={half_life!r}: must not be given with value_of='online'")
    return _seconds(log, "half_life", half_life)


def _seconds(log: Log, name: str, duration: Any) -> float:
    """A duration; in logs whose times are numbers, a number."""
    if is_duration(duration) and log.types["time"] != "TIMESTAMP":
        first, last = log.span()
        raise ValueError(
            f"{name}={duration!r}: must be a number, as the times of {log.source} ({first} to {last}), whose unit is"
            " not known"
        )
    return seconds(name, duration)


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


def _candidates(name: str, objective: str, clip: float | None) -> Sequence[Estimator]:
    """The estimator, or those to choose from."""
    if name == AUTO:
        if objective != "any":
            raise ValueError(f"estimator={name!r}: must not be given with objective={objective!r}")
        if clip is not None:
            raise ValueError(f"clip={clip!r}: must not be given with estimator={name!r}")
        return CANDIDATES
    usable = _usable(name, objective)
    found = known_estimators()[usable]
    if clip is None:
        return (found,)
    if not isinstance(found, CascadeDR):
        raise ValueError(f"clip={clip!r}: must not be given with estimator={usable!r}; 'dr' can be clipped")
    check_number("clip", clip, 1)
    return (CascadeDR(clip),)


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
