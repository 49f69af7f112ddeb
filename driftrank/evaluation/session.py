"""The targets of one evaluation: their sums, estimates and differences."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from driftrank.evaluation.base import Estimator, known_estimators
from driftrank.evaluation.checks import LogChecks, Refusal
from driftrank.evaluation.estimate import (
    Estimate,
    How,
    Model,
    estimate,
    interval,
    running_values,
    window_values,
)
from driftrank.evaluation.labels import ShownLists, bounds, fit_variance, rarely_seen
from driftrank.evaluation.matching import FixedTarget
from driftrank.evaluation.needs import Exploration, best_exploration
from driftrank.evaluation.online import replay
from driftrank.evaluation.result import Difference, Evaluation, TargetResult
from driftrank.evaluation.rows import LogRows
from driftrank.evaluation.shadow import Shadow, best_now, frozen
from driftrank.evaluation.slope import AUTO, slope
from driftrank.evaluation.sums import Sums
from driftrank.evaluation.targets import VALUES, Rankings, Target

#: the target that every log has: what was shown
LOGGED = "logged"

#: the share of lists in which the target's may be impossible
_UNDEFINED = 0.05

_CONDITIONAL = (
    "The propensities are those of items given the items above: the probability of an item at its position, whatever"
    " stands above it, is not known."
)

#: used instead, if users do not read from the top
_FALLBACK = "self-normalised"


class Session:
    """The common parts of the targets of one evaluation.

    Parameters
    ----------
    candidates
        The estimator of the values; or several, to choose one by :func:`driftrank.evaluation.slope.slope`.
    searched
        The number of queries, the most frequent, in which changes were looked for.
    """

    def __init__(
        self, rows: LogRows, checks: LogChecks, how: How, candidates: Sequence[Estimator], seed: int, searched: int = 0
    ) -> None:
        self.rows, self.checks, self.how, self.candidates, self.seed = rows, checks, how, candidates, seed
        self.searched = searched
        every = known_estimators() | {each.name: each for each in candidates}
        self.estimators = {
            name: each
            for name, each in every.items()
            if how.objective in each.objectives and (rows.weighs or not each.weighs) and rows.places >= each.places
        }

    def evaluation(self, targets: Sequence[Target], against: str | None, replay: str) -> Evaluation:
        rows = self.rows
        searched = min(self.searched, len(rows.queries))
        found = {target.name: self.measure(target) for target in targets if target.value_of != "online"}
        results = {
            target.name: found[target.name].result(against, found)
            if target.name in found
            else self.online(target, replay)
            for target in targets
        }
        return Evaluation(
            rows.log.source, rows.lists, len(rows.queries), rows.k, self.how.objective,
            *rows.logged[:2], rows.changes, self.checks, results, self.how.level, searched,
            float(np.sort(rows.lists_of)[len(rows.queries) - searched :].sum() / rows.lists),
        )  # fmt: skip

    def measure(self, target: Target) -> _Measured:
        rows = self.rows
        if target.policy is not None and target.value_of == "shadow":
            shadow = Shadow(rows, target.policy, self.seed)
            sums = Sums.of(shadow.batches(), self.estimators, rows.cells, len(rows.queries))
            shown = shadow.shown_lists()
            fixed = rows.fixed_target([shadow.final])
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

    def __init__(self, session: Session, target: Target, sums: Sums, shown: ShownLists, fixed: FixedTarget) -> None:
        self.session, self.target, self.sums = session, target, sums
        self.fixed = fixed  #: the target, or of a learner in the shadow the lists that it would show last
        labels, last = session.rows.labels, session.rows.last
        self.models = []
        for own in (shown, shown.only(last[shown.segment])):
            if not len(own.lists):  # after the last change of all
                self.models.append(Model(0.0, 1.0, (0.0, 1.0)))
                continue
            rare = rarely_seen(labels, own).any(axis=1)
            share = float(own.lists[rare].sum() / own.lists.sum())
            self.models.append(Model(fit_variance(labels, own), share, bounds(labels, own)))

    def estimate(self, each: Estimator, now: bool = False) -> Estimate:
        session = self.session
        possible = self._possible()
        if possible is not None:
            return Estimate(each.key, each.assumes, lists=session.rows.lists, refused=(possible,))
        if each.name not in session.estimators:  # without propensities, or for another objective
            refused = session.checks.refusals(each.assumes)
            if session.how.objective not in each.objectives:
                refused.append(Refusal("objective", "This estimator counts one click of a list, or none."))
            if each.places and session.rows.weighs and session.rows.kind == "conditional":
                refused.append(Refusal("conditional-propensities", _CONDITIONAL))
            return Estimate(each.key, each.assumes, lists=session.rows.lists, refused=tuple(refused))
        return estimate(self.sums.scope(now), each, session.checks, session.how, self.models[now], self._worst())

    def headline(self, now: bool = False) -> Estimate:
        """The estimate of the chosen estimator, or of whole lists if users do not read from the top."""
        candidates = self.session.candidates
        found = self.estimate(candidates[0], now)
        if [refusal.code for refusal in found.refused if refusal.code == "not-top-down"]:
            return self.estimate(known_estimators()[_FALLBACK], now)
        if len(candidates) == 1:
            return found
        if found.value is None:
            return dataclasses.replace(found, estimator=AUTO)
        tried = [(each.name, self.estimate(each, now)) for each in candidates]
        usable = [(name, own, own.value, own.error) for name, own in tried if own.value is not None and own.error]
        name, best, *_ = usable[slope([(value, error) for *_, value, error in usable])]
        return dataclasses.replace(
            best, estimator=AUTO, chosen=name, low=None, high=None, interval=None, grade=None, replicates=None
        )

    def _possible(self) -> Refusal | None:
        """The reason to refuse everything, if the target's lists were often not possible."""
        share = self.sums.undefined / max(self.sums.rows, 1)
        if share <= _UNDEFINED:
            return None
        text = f"In {share:.1%} of the lists an item of the target was no candidate; at most {_UNDEFINED:.0%} may be."
        return Refusal("candidates", text)

    def _never_shown(self) -> list[str]:
        """The items of the target that the log tells nothing of, for up to three queries."""
        unseen, names = self.fixed.items[0] == -1, self.fixed.names[0]
        codes = np.flatnonzero(unseen.any(axis=1)).tolist()
        if not codes:
            return []
        named = []
        for code in codes[:3]:
            items = [str(item) for item, missing in zip(names[code], unseen[code], strict=False) if missing]
            named.append(f"{', '.join(items)} for {self.session.rows.queries[code]!r}")
        return [f"Never shown: {'; '.join(named)}{'; ...' if len(codes) > 3 else ''}."]

    def _overlap_since(self, refused: Estimate) -> list[str]:
        """The first time from which on there is an answer, if only the weights of earlier lists are in the way."""
        codes = {refusal.code for refusal in refused.refused}
        if not {"no-overlap"} <= codes <= {"no-overlap", "few"}:
            return []
        session, scope, model = self.session, self.sums.scope(False), self.models[False]
        used = known_estimators()[refused.estimator]
        for window in range(1, session.rows.cells.windows):
            later = scope.since(window)
            if not later.lists:
                break
            if estimate(later, used, session.checks, session.how, model).value is not None:
                time = session.rows.begin_of(window)
                learnt = self.target.value_of in VALUES  # from these lists alone, so that it shows others
                again = ". What it learns from these alone may have an answer" if learnt else ""
                return [
                    f"Of the lists from {time} on ({later.lists / scope.lists:.0%}) the weights are as they should be:"
                    f" --since '{time}' leaves the others out{again}."
                ]
        return []

    def _worst(self) -> list[str]:
        """The queries whose weights are most off, if several."""
        lists, weights = self.sums.by_query
        order = np.argsort(-np.abs(weights - lists), kind="stable")[:3]
        return [repr(self.session.rows.queries[code]) for code in order if lists[code]]

    def result(self, against: str | None, found: Mapping[str, _Measured]) -> TargetResult:
        session, whole = self.session, self.headline()
        now = self.headline(now=True) if session.rows.changes else whole
        scope, how = self.sums.scope(False), session.how
        given = whole.value is not None
        notes = []
        if whole.left_to_model is not None:
            notes.append(f"Weights are clipped: {whole.left_to_model:.0%} of the weight is left to the click model.")
        if whole.chosen is not None:
            notes.append(f"Chosen: {whole.chosen}. It may hide a bias, so there is no interval.")
        if whole.estimator == _FALLBACK != session.candidates[0].key:
            notes.append(session.checks["not-top-down"].text)
        missing = round(session.rows.logged.lists - scope.lists)
        if missing:
            notes.append(
                f"{missing:,} lists are left out: the target has no list for them, its items were no candidates, or"
                " there are no propensities."
            )
        if not given:
            notes += self._never_shown()
            notes += self._overlap_since(whole)
        exploring: Exploration | None = None
        if not given and session.how.objective == "any":
            exploring = best_exploration(session.rows, self.fixed)
        other = None if against is None or against == self.target.name else against
        kinds = self.target.value_of, LOGGED if other is None or other == LOGGED else found[other].target.value_of
        if kinds[0] != kinds[1] and {*kinds} <= {*VALUES}:
            notes.append(
                f"The difference mixes kinds of values: {kinds[0]} here, {kinds[1]} of {other}. A part of it is between"
                " the kinds, not between the targets."
            )
        ladder = {
            key: self.estimate(each)
            for key, each in known_estimators().items()
            if session.rows.places or not each.places  # marginal propensities are rare
        }
        used = known_estimators()[whole.estimator] if whole.low is not None else None
        return TargetResult(
            self.target.name, self.target.value_of, whole, now, ladder,
            None if other is None else self._difference(whole, other, found, now=False),
            None if other is None else self._difference(now, other, found, now=True),
            None if used is None else window_values(scope, used, how),
            None if used is None or how.decays else running_values(scope, used, how),
            exploring, tuple(notes),
        )  # fmt: skip

    def _difference(self, own: Estimate, against: str, found: Mapping[str, _Measured], now: bool) -> Difference | None:
        now = now and bool(self.session.rows.changes)
        mine = own.replicates
        other = self.sums.scope(now).rewards() if against == LOGGED else found[against].headline(now).replicates
        if mine is None or other is None:
            return None
        paired = mine.minus(other)
        kind = "normal" if self.session.how.interval == "normal" else "always-valid"
        low, high = interval(paired, own.lists, kind, self.session.how)
        return Difference(against, paired.value, low, high)
