"""Advice from a click log."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.evaluation.checks import LogChecks, Refusal, check_log
from driftrank.evaluation.estimate import few
from driftrank.evaluation.evaluating import common_length, evaluate
from driftrank.evaluation.rows import LogRows
from driftrank.evaluation.sequences import CLICKS
from driftrank.experiments.advice.advice import (
    REFUSED,
    STAY,
    UNCLEAR,
    USE,
    Advice,
    CandidateResult,
    CrossCheck,
    Gain,
    Loser,
    ModelResult,
    Series,
    Variety,
)
from driftrank.experiments.advice.bootstrap import Errors, repeat
from driftrank.experiments.advice.candidates import ORDER, Candidate
from driftrank.experiments.advice.candidates import candidates as all_candidates
from driftrank.experiments.advice.choosing import choose, crossed, gain_of, halves, weighted
from driftrank.experiments.advice.effort import Effort, effort
from driftrank.experiments.advice.experiment import Experiment, next_experiment
from driftrank.experiments.advice.measuring import WINDOWS, Values, measure
from driftrank.experiments.advice.worlds import (
    LOOKS,
    ModelCheck,
    World,
    best_lists,
    changes_in,
    compared,
    first_clicks,
    hardly_known,
    read_tables,
)
from driftrank.fitting.fit import models_of
from driftrank.logs.changes import QueryDrift
from driftrank.logs.generations import Floats, Generations, QueryTable
from driftrank.logs.log import Log, open_log
from driftrank.policies.registry import PolicyLike
from driftrank.progress import Progress, chosen_progress
from driftrank.validation import check_integer

#: runs of every policy in a world
_RUNS = 4
#: share of lists with hardly known items above which no number is given, as in evaluations
_UNKNOWN = 0.05
#: parts of the work, in percent: reading and checks, click models, candidates, repetitions
_READING, _MODELS, _CANDIDATES, _REPETITIONS = 5, 15, 10, 70
_BAR = "advise"
#: queries whose lists are described
_NAMED = 10


def advise(
    log: Log | str | os.PathLike[str],
    *,
    k: int | None = None,
    candidates: Iterable[PolicyLike] | None = None,
    models: str | Iterable[str] = "all",
    budget: float | str = "5m",
    top: int = 100,
    items: int = 20,
    seed: int = 0,
    progress: bool | Progress | None = False,
) -> Advice:
    """Advise on a policy from a click log: which one, how much it would gain, how sure that is, what to try next.

    Click models are fitted to the log between the changes that are found in it. In a simulation by every model that is
    plausible, candidates run for as many lists as the log has, from nothing. The gain over what was shown is measured
    on other queries than the choice was made on; its error comes from logs that are drawn from the fit, with which
    everything is done again. Nothing is measured with users: the best grade is C.

    There is no number (``gain`` is None) if every visitor saw the same list, or if no model passes its checks.

    Parameters
    ----------
    log
        A log, or what :func:`driftrank.logs.open_log` opens. It needs no propensities. Of a service's log, the
        same lists are left out as in evaluations (:meth:`driftrank.logs.log.Log.evaluable`).
    k
        Positions; by default the most common length of a list.
    candidates
        Policies beside the default policy, what was shown, and the present order; by default one of each kind.
    models
        Click models to consider, ``"CM,DBN"`` or ``"all"``.
    budget
        The time to take on two cores, about, in seconds or as ``"5m"``: it decides how many queries are used, and how
        many logs are drawn. It is a rule, not a clock: the same log and seed give the same advice.
    top, items
        Number of queries at most, the most frequent, and of items of each, the most often shown.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import driftrank as dr
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> tea = dr.queries.Queries.of({"tea": [0.3, 0.2, 0.1, 0.1]})
    >>> _ = dr.logs.generate(path, dr.environments.Stationary(tea, k=2), 500, length=2, order="sorted")
    >>> advice = dr.advise(path)
    >>> advice.gain, advice.refused[0].code
    (None, 'fixed-logging')
    """
    check_integer("top", top, 1)
    check_integer("items", items, 2)
    check_integer("seed", seed, 0, 2**62)
    whole = log if isinstance(log, Log) else open_log(log)
    if whole.has_positions():
        raise ValueError(f"{whole.source}: must have lists, not rows with a position")
    opened = whole.evaluable()
    work = effort(budget)
    considered = models_of(models)
    chosen = all_candidates(candidates)
    positions = common_length(opened, k)
    with chosen_progress(progress, {_BAR: 100}, "%") as bar:
        bar.note("reading the log, looking for changes")
        tables = read_tables(opened, top, positions, work.lists)
        drifts = changes_in(tables, items)
        kind = opened.propensities or "conditional"
        with LogRows(opened, positions, "any", drifts, WINDOWS, kind) as rows:
            parts, checks = _Parts(bar), check_log(rows, whole.set_apart())
            study = _Study(rows, checks, tables, drifts, positions, chosen, work, items, seed, parts)
            parts.done(_READING)
            found = study.advice(considered)
            parts.done(100 - parts.percent)
        bar.note("")
    return found


class _Parts:
    """The progress of the whole, in percent."""

    def __init__(self, bar: Progress) -> None:
        self.bar, self.percent = bar, 0.0

    def done(self, percent: float) -> None:
        before, self.percent = self.percent, self.percent + percent
        self.bar.advance(_BAR, round(self.percent) - round(before), counted=False)

    def note(self, text: str) -> None:
        self.bar.note(text)


@dataclass(frozen=True, eq=False)
class _Study:
    """A log, and what is done with it."""

    rows: LogRows
    checks: LogChecks
    tables: Sequence[QueryTable]
    drifts: Sequence[QueryDrift]
    k: int
    chosen: Sequence[Candidate]
    effort: Effort
    items: int
    seed: int
    parts: _Parts

    @property
    def lists(self) -> Floats:
        """By query."""
        return np.array([float(len(table)) for table in self.tables])

    @property
    def logged(self) -> float:
        """The share of lists with a click."""
        return float(np.concatenate([first_clicks(table, self.k) <= self.k for table in self.tables]).mean())

    def advice(self, models: Sequence[Any]) -> Advice:
        refused = [
            _with_items(Refusal(c.code, c.text), self.tables)
            for c in self.checks.checks
            if c.code == "fixed-logging" and c.passed is False
        ]
        clicks = float(self.lists.sum()) * min(self.logged, 1 - self.logged)
        if clicks < CLICKS:
            refused.append(few(float(self.lists.sum()), math.inf, 0.0, clicks))
        if refused:
            return self._refused(refused, (), None, self.chosen[2].name)
        self.parts.note("fitting click models")
        generations = Generations.of(self.tables, self.drifts)
        worlds, checks = compared(models, generations, self.k, lambda: self.parts.done(_MODELS / len(models)))
        usable = [worlds[check.model] for check in checks if check.usable]
        best = worlds[checks[0].model] if not usable else usable[0]
        reasons = [*self._not_top_down(), *([] if usable else _misfits(checks)), *_unseen(best)]
        self.parts.note("simulating the candidates")
        plausible = usable if usable and not reasons else [best]
        values = [measure(world, self.chosen, _RUNS, self.seed) for world in plausible]
        self.parts.done(_CANDIDATES)
        by_query = [own.by_query for own in values]
        trial = choose(by_query, self.lists, self.chosen)
        if reasons:
            return self._refused(reasons, [ModelResult(check) for check in checks], best, self.chosen[trial].name)
        return self._measured(plausible, values, checks, trial)

    def _measured(
        self, worlds: Sequence[World], values: Sequence[Values], checks: Sequence[ModelCheck], trial: int
    ) -> Advice:
        lists, side = self.lists, halves([table.query for table in self.tables])
        repetitions = self.effort.repetitions(int(lists.sum()))
        self.parts.note(f"drawing {repetitions * len(worlds)} logs from the fit")
        step = _REPETITIONS / (repetitions * len(worlds))
        errors = [
            repeat(
                world, own, self.chosen, side, repetitions=repetitions, items=self.items, seed=self.seed,
                done=lambda: self.parts.done(step),
            )
            for world, own in zip(worlds, values, strict=True)
        ]  # fmt: skip
        by_query = [own.by_query for own in values]
        picked = crossed(by_query, lists, self.chosen, side)
        ends = [Gain(*error.interval(gain_of(own, lists, picked))) for own, error in zip(by_query, errors, strict=True)]
        worst = min(range(len(worlds)), key=lambda m: ends[m].value)
        gain = Gain(ends[worst].value, min(end.low for end in ends), max(end.high for end in ends))
        verdict = USE if gain.low > 0 else UNCLEAR if gain.value > 0 else STAY
        results = self._candidates(worlds, values, errors)
        losers = self._losers(values[worst], errors[worst], trial)
        name = self.chosen[trial].name
        cross_check = self._cross_check(self.chosen[trial])
        notes = _Notes(self, gain, trial, worst, [world.model for world in worlds], ends, picked, losers, cross_check)
        gains = {world.model: end for world, end in zip(worlds, ends, strict=True)}
        return self._advice(
            verdict=verdict, policy=name if verdict == USE else None, trial=name, gain=gain, grade="C",
            model=worlds[worst].model, against=notes.against(), next=self._next(worlds[worst], gain),
            losers=losers, candidates=results, models=tuple(ModelResult(c, gains.get(c.model)) for c in checks),
            cross_check=cross_check, repetitions=repetitions, series=self._series(values[worst], trial),
        )  # fmt: skip

    def _refused(
        self, refused: Sequence[Refusal], models: Sequence[ModelResult], world: World | None, trial: str
    ) -> Advice:
        """Without a number; the candidate that did best by a model that does not hold is what to try first."""
        return self._advice(
            verdict=REFUSED, trial=trial, grade=None if world is None else "D", refused=tuple(refused),
            models=tuple(models), next=self._next(world, None), model=None if world is None else world.model,
        )  # fmt: skip

    def _advice(self, **found: Any) -> Advice:
        rows = self.rows
        used = int(self.lists.sum())
        unknown: dict[str, Any] = {
            "policy": None, "gain": None, "refused": (), "against": (), "losers": (), "candidates": (),
            "cross_check": None, "repetitions": 0,
        }  # fmt: skip
        return Advice(
            **unknown | found, source=rows.log.source, checks=self.checks, k=self.k, lists=rows.lists, used=used,
            queries=len(rows.queries), used_queries=len(self.tables), logged=self.logged, span=rows.log.span(),
            changes=sum(len(drift.changes) for drift in self.drifts), seed=self.seed, budget=self.effort.budget,
            shown=tuple(_variety(table, self.k) for table in self.tables[:_NAMED]),
        )  # fmt: skip

    def _not_top_down(self) -> list[Refusal]:
        check = self.checks["not-top-down"]
        return [Refusal(check.code, check.text)] if check.passed is False else []

    def _candidates(
        self, worlds: Sequence[World], values: Sequence[Values], errors: Sequence[Errors]
    ) -> tuple[CandidateResult, ...]:
        out = []
        for c, candidate in enumerate(self.chosen):
            ends = [
                Gain(*error.candidate(c, weighted(own.gains[c], self.lists)[0]))
                for own, error in zip(values, errors, strict=True)
            ]
            m = min(range(len(ends)), key=lambda n: ends[n].value)
            gain = Gain(ends[m].value, min(end.low for end in ends), max(end.high for end in ends))
            value = weighted(values[m].by_query[0], self.lists)[0] + gain.value
            out.append(CandidateResult(candidate.name, value, gain, worlds[m].model))
        return tuple(out)

    def _losers(self, values: Values, errors: Errors, c: int) -> tuple[Loser, ...]:
        gains = values.gains[c] - errors.by_query[:, c].mean(axis=0)
        clear = gains + 2 * errors.by_query[:, c].std(axis=0, ddof=1) < 0
        order = [int(q) for q in np.argsort(gains, kind="stable") if clear[q]]
        return tuple(Loser(str(self.tables[q].query), float(gains[q]), len(self.tables[q])) for q in order)

    def _cross_check(self, candidate: Candidate) -> CrossCheck | None:
        """The policy in the shadow of the log, if propensities allow and there is time."""
        if candidate.policy is None or self.checks.refusals("A1") or not self.effort.shadow(self.rows.lists):
            return None
        self.parts.note("checking by propensities")
        found = evaluate(self.rows.log, candidate.policy, k=self.k, changes=0, seed=self.seed)
        [target] = found.targets.values()
        return None if target.difference is None else CrossCheck(target.whole, target.difference)

    def _next(self, world: World | None, gain: Gain | None) -> Experiment:
        shown = self.logged
        best: Mapping[Any, Sequence[Any]] = {}
        if world is not None:
            best = {
                query.query: [query.items[code] for code in best_lists(world, q)[-1]]
                for q, query in enumerate(world.queries)
            }
        wanted = shown if gain is None else min(max(shown + gain.value, 0.0), 1.0)
        return next_experiment(self.rows, best, shown, wanted)

    def _series(self, values: Values, c: int) -> Series:
        share = self.lists / self.lists.sum()
        logged, changed = np.zeros((len(self.tables), WINDOWS)), np.zeros((len(self.tables), WINDOWS))
        for q, (table, drift) in enumerate(zip(self.tables, self.drifts, strict=True)):
            window = np.minimum(np.arange(len(table)) * WINDOWS // len(table), WINDOWS - 1)
            earned = first_clicks(table, self.k) <= self.k
            logged[q] = np.bincount(window, earned, WINDOWS) / np.bincount(window, minlength=WINDOWS)
            for change in drift.changes:
                changed[q, window[change.after - 1]] = 1
        return Series(share @ logged, share @ values.by_window[c], share @ values.best, changed.mean(axis=0))


@dataclass(frozen=True, eq=False)
class _Notes:
    """Reasons to doubt an advice."""

    study: _Study
    gain: Gain
    trial: int
    worst: int
    models: Sequence[str]
    ends: Sequence[Gain]
    picked: NDArray[np.int64]
    losers: Sequence[Loser]
    cross_check: CrossCheck | None

    def against(self) -> tuple[str, ...]:
        study, out = self.study, []
        for m, name in enumerate(self.models):
            if m != self.worst:
                out.append(f"{name} fits nearly as well and says {self.ends[m].value:+.4f}.")
        others = sorted({study.chosen[c].name for c in self.picked.tolist()} - {study.chosen[self.trial].name})
        if others:
            out.append(f"On one half of the queries {' and '.join(others)} would be chosen.")
        if self.losers:
            out.append(f"{len(self.losers)} of {len(study.tables)} queries would lose.")
        if self.cross_check is not None and self.cross_check.difference.high < self.gain.low:
            shadow = self.cross_check.difference
            out.append(
                f"By propensities its lists beside the log would have earned {shadow.low:+.4f} to {shadow.high:+.4f}."
            )
        if len(study.tables) < 30:
            out.append(f"It rests on {len(study.tables)} {'queries' if len(study.tables) > 1 else 'query'} only.")
        share = float(study.lists.sum()) / study.rows.lists
        if share < 0.9:
            out.append(f"It rests on the most frequent queries, with {share:.0%} of the lists.")
        if self.study.chosen[self.trial].name == ORDER:
            out.append("A fixed order does not follow users who change.")
        return tuple(out)


def _variety(table: QueryTable, k: int) -> Variety:
    different = len(np.unique(table.slots[:, :k], axis=0))
    return Variety(str(table.query), len(table), different, len(table.items))


def _with_items(refusal: Refusal, tables: Sequence[QueryTable]) -> Refusal:
    table = tables[0]
    text = (
        f"{refusal.text} What is missing: lists that vary at the same time. For {table.query!r} only"
        f" {len(table.items)} items were shown."
    )
    return Refusal(refusal.code, text)


def _misfits(checks: Sequence[ModelCheck]) -> list[Refusal]:
    """Why no plausible model can be used, by the best one."""
    best = checks[0]
    if not best.calibrated:
        text = f"The best click model, {best.model}, is off by {best.off:+.4f} clicks per list on the logged lists."
        return [Refusal("uncalibrated", text)]
    text = f"The best click model, {best.model}, does not have first clicks at the positions where users click."
    return [Refusal("model-misfit", text)]


def _unseen(world: World) -> list[Refusal]:
    share = hardly_known(world)
    if share <= _UNKNOWN:
        return []
    lists = sum(map(len, world.generations.tables))
    text = (
        f"For {share:.0%} of the lists the best list has an item that was seen fewer than {LOOKS} times between"
        " changes: what it would earn is a guess."
    )
    return [Refusal("unseen-items", text, 2 * lists)]
