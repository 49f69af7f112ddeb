"""Fit click models to a log, and compare their predictions of later clicks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftrank.clickmodels import ClickModel, models_file
from driftrank.clickmodels.fitting.counts import ListCounts
from driftrank.clickmodels.fitting.evaluation import Evaluation
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.clickmodels.fitting.identified import NotIdentified
from driftrank.clickmodels.registry import click_model, click_models
from driftrank.logs.changes import QueryDrift
from driftrank.logs.count.aggregation_sql import COLUMNS
from driftrank.logs.count.by_file import workers
from driftrank.logs.count.statistics import Statistics, aggregate, merge
from driftrank.logs.log import Log
from driftrank.logs.replay import fitted_queries
from driftrank.progress import Progress, chosen_progress
from driftrank.reporting.table import Table
from driftrank.validation import check_number

#: kinds of statistics, by increasing detail
KINDS = tuple(COLUMNS)
#: the share of a log, at its end, that models are compared on
HOLDOUT = 0.2
#: smaller differences of log-likelihoods do not count: EM stops that close to its end, and tables show no more digits
_ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class FittedModels:
    """Several click models fitted to one log."""

    fits: dict[str, Fit]  #: by model, from the whole log
    lists: int  #: in the log; 0 if there are only statistics of positions
    held_out: int  #: lists at the end that models were compared on
    evaluations: dict[str, Evaluation]  #: by model, on the end of the log when fitted to the lists before
    seconds: dict[str, float]  #: by model, spent on fitting
    counting: float  #: seconds spent on counting
    statistics: dict[str, Statistics]  #: by kind
    sample: ListCounts | None = field(default=None, repr=False)  #: lists, for figures
    left_out: dict[str, str] = field(default_factory=dict)  #: of all models, those that cannot be fitted, and why

    def __repr__(self) -> str:
        compared = f", compared on {self.held_out:,}" if self.held_out else ""
        return f"<{', '.join(self.fits)} fitted to {self.lists:,} lists{compared}>\n{self.table()}"

    @property
    def best(self) -> str | None:
        """The model with the best log-likelihood of the held-out lists; closed forms that are not maximum likelihood
        count only if there is nothing else."""
        scores = {name: e.mean_log_likelihood for name, e in self.evaluations.items()}
        return max(scores, key=lambda name: (self.fits[name].exact, scores[name])) if scores else None

    def behind(self, name: str) -> tuple[float, float]:
        """The mean log-likelihood of a held-out list that a model lacks to the best, and its standard error.

        The error is that of the differences of single lists (paired), given both fits; lists are taken as independent.
        """
        best = self.best
        assert best is not None
        assert self.sample is not None
        difference = self.evaluations[best].by_list - self.evaluations[name].by_list
        n, lists = self.sample.lists, int(self.sample.lists.sum())
        mean = float((n * difference).sum() / lists)
        variance = float((n * (difference - mean) ** 2).sum()) / max(lists - 1, 1)
        return mean, float(np.sqrt(variance / lists))

    @property
    def ties(self) -> list[str]:
        """Models that are not behind the best by more than two standard errors."""
        found = []
        for name in self.ranked() if self.best else ():
            if name != self.best and self.fits[name].exact:
                mean, error = self.behind(name)
                if mean <= 2 * error + _ROUNDING:
                    found.append(name)
        return found

    def table(self) -> Table:
        """The comparison, from best to worst."""
        rows = []
        for name in self.ranked():
            fit, found = self.fits[name], self.evaluations.get(name)
            how = f"EM, {fit.iterations} steps" if fit.iterations else "closed form" + ", biased" * (not fit.exact)
            scores = (
                (
                    found.mean_log_likelihood,
                    *self.behind(name),
                    found.mean_perplexity,
                    found.mean_conditional_perplexity,
                )
                if found
                else (float("nan"),) * 5
            )
            done = how if fit.converged else f"{how}, not converged"
            rows.append((name, *scores, done, self.seconds[name]))
        columns = (
            "model", "log-likelihood", "behind", "s.e.", "perplexity", "given clicks above", "fitted by", "seconds",
        )  # fmt: skip
        return Table(columns, rows, (None, ".5f", ".5f", ".5f", ".4f", ".4f", None, ".1f"))

    def summary(self) -> dict[str, Any]:
        """The comparison, for JSON."""
        models = {}
        for name in self.ranked():
            found = self.evaluations.get(name)
            behind, error = self.behind(name) if found else (None, None)
            models[name] = {
                "log_likelihood": found.mean_log_likelihood if found else None,
                "behind": behind,
                "standard_error": error,
                "exact": self.fits[name].exact,
                "perplexity": found.mean_perplexity if found else None,
                "perplexity_by_rank": [float(p) for p in found.perplexity] if found else None,
                "conditional_perplexity": found.mean_conditional_perplexity if found else None,
                "iterations": self.fits[name].iterations,
                "converged": self.fits[name].converged,
                "seconds": round(self.seconds[name], 3),
            }
        about = {"lists": self.lists, "held_out": self.held_out, "best": self.best, "ties": self.ties, "models": models}
        return about | ({"left_out": self.left_out} if self.left_out else {})

    def ranked(self) -> list[str]:
        """Models from best to worst; in the given order if they were not compared."""
        if not self.evaluations:
            return list(self.fits)
        return sorted(self.fits, key=lambda name: -self.evaluations[name].mean_log_likelihood)


def models_of(names: str | Iterable[str]) -> list[type[ClickModel]]:
    """Click models by their names, ``"CM,DBN"`` or ``"all"``."""
    parts = names.split(",") if isinstance(names, str) else list(names)
    wanted = [part.strip() for part in parts if part.strip()]
    if wanted == ["all"]:
        wanted = [name for name, cls in click_models().items() if cls.statistics]
    if not wanted:
        raise ValueError(f"model={names!r}: must be names of click models, {', '.join(click_models())}, or all")
    found = {click_model(name).__name__: click_model(name) for name in wanted}
    return list(found.values())


def finest(models: Iterable[type[ClickModel]], exact: bool = False) -> str:
    """The kind of statistics that suffices for all of these models."""
    return max((cls.counts_for(exact) for cls in models), key=KINDS.index)


def fit_log(
    log: Log,
    models: str | Iterable[str],
    *,
    holdout: float = HOLDOUT,
    device: str = "cpu",
    address: str | None = None,
    progress: bool | Progress | None = False,
    **options: Any,
) -> FittedModels:
    """Fit click models to a log, and compare them on the end of it.

    The beginning and the end of the log are counted separately: models are fitted to the beginning and evaluated on the
    end, and then fitted to the sum of both.

    Parameters
    ----------
    models
        Names, ``"CM,DBN"`` or ``"all"``.
    holdout
        The share of the lists, the latest, to compare the models on; 0: no comparison.
    device, address
        Where to count: ``"cpu"``, or ``"cluster"`` (:class:`~driftrank.engine.cluster.cluster.Cluster`), file by file.
    options
        Of :meth:`~driftrank.clickmodels.ClickModel.fit`: ``prior``, ``per_query``, ``exact``, ... If ``exact`` is None,
        all models are fitted by maximum likelihood if they are compared; otherwise DCM and SDBN by their closed forms.
    """
    _check_log_is_open(log)
    chosen = models_of(models)
    check_number("holdout", holdout, 0, 1, open_high=True)
    if log.has_positions():  # lists, on which models are compared, are not known
        holdout = 0
        chosen = [cls for cls in chosen if not _all(models) or not cls.needs_lists]
        for cls in chosen:
            cls.check_log(log)
    if options.get("exact") is None:
        options["exact"] = bool(holdout) and len(chosen) > 1
    kinds = {cls.counts_for(bool(options.get("exact"))) for cls in chosen}
    with (
        chosen_progress(progress, {"counting": 1, **{cls.__name__: 1 for cls in chosen}}) as bar,
        workers(device, address) as cluster,
    ):
        begin = time.perf_counter()
        where: dict[str, Any] = {"device": device, "cluster": cluster}
        parts = _split(log, holdout) if holdout else (log,)
        # other statistics follow from those of lists, which the evaluation on the end needs anyway
        how = (finest(chosen, bool(options.get("exact"))), "lists")
        counted = [aggregate(part, kind, **where) for part, kind in zip(parts, how, strict=False)]
        sample = _lists(counted[1]) if holdout else None
        by_kind = {kind: [part.to(kind) for part in counted] for kind in kinds}
        counting = time.perf_counter() - begin
        bar.advance("counting", 1, counted=False)
        return _fitted(chosen, by_kind, sample, log.count(), counting, bar, options, _all(models))


def fit_statistics(
    statistics: Sequence[Statistics],
    models: str | Iterable[str],
    *,
    progress: bool | Progress | None = False,
    **options: Any,
) -> FittedModels:
    """Fit click models to statistics that were counted elsewhere.

    Statistics do not tell early from late lists, so models are compared on the lists they are fitted to, and only if
    there are statistics of lists.
    """
    chosen = models_of(models)
    by_kind: dict[str, list[Statistics]] = {}
    for part in statistics:
        by_kind.setdefault(part.kind, []).append(part)
    merged = {kind: merge(parts) for kind, parts in by_kind.items()}
    if options.get("exact") is None:
        options["exact"] = "lists" in merged and len(chosen) > 1
    counted = {}
    for cls in chosen:
        kind = cls.counts_for(bool(options.get("exact")))
        enough = [merged[k] for k in KINDS[KINDS.index(kind) :] if k in merged]
        if not enough:
            raise ValueError(
                f"model={cls.__name__}: is fitted to statistics of {kind}; given are those of {', '.join(by_kind)}"
            )
        counted[kind] = [enough[0].to(kind)]
    sample = _lists(merged["lists"]) if "lists" in merged else None
    lists = int(sample.lists.sum()) if sample is not None else 0
    with chosen_progress(progress, {cls.__name__: 1 for cls in chosen}) as bar:
        return _fitted(chosen, counted, sample, lists, 0.0, bar, options, _all(models))


def _fitted(
    chosen: Sequence[type[ClickModel]],
    counted: dict[str, list[Statistics]],
    sample: ListCounts | None,
    lists: int,
    counting: float,
    bar: Progress,
    options: dict[str, Any],
    some: bool,
) -> FittedModels:
    """``some``: models that cannot be fitted are left out, unless it is all of them."""
    earlier = {kind: parts[0].counts() for kind, parts in counted.items()}
    merged = {kind: merge(parts) for kind, parts in counted.items()}
    whole = {k: merged[k].counts() if len(parts) > 1 else earlier[k] for k, parts in counted.items()}
    fits, evaluations, seconds = {}, {}, {}
    left_out: dict[str, NotIdentified] = {}
    for cls in chosen:
        name = cls.__name__
        kind = cls.counts_for(bool(options.get("exact")))
        begin = time.perf_counter()
        try:
            fit = cls.fit(whole[kind], **options)
            taken = time.perf_counter() - begin
            apart = (
                cls.fit(earlier[kind], **options) if sample is not None and earlier[kind] is not whole[kind] else fit
            )
        except NotIdentified as error:
            if not some:
                raise
            left_out[name] = error
            continue
        fits[name], seconds[name] = fit, taken
        if sample is not None:
            evaluations[name] = apart.evaluate(sample)
        bar.advance(name, 1, counted=False)
    held_out = int(sample.lists.sum()) if sample is not None and any(len(p) > 1 for p in counted.values()) else 0
    if not fits:
        raise next(iter(left_out.values()))
    reasons = {name: str(error).removeprefix("log: ") for name, error in left_out.items()}
    return FittedModels(fits, lists, held_out, evaluations, seconds, counting, merged, sample, reasons)


def _all(models: str | Iterable[str]) -> bool:
    return isinstance(models, str) and models.strip() == "all"


def _check_log_is_open(log: Any) -> None:
    if not isinstance(log, Log):
        raise ValueError(f"log={log!r}: must be a log; driftrank.logs.open_log opens a file, and reads a table")


def _split(log: Log, holdout: float) -> tuple[Log, Log]:
    try:
        return log.split(1 - holdout)
    except ValueError as error:
        raise ValueError(f"{error}; holdout=0 skips the comparison") from None


def _lists(statistics: Statistics) -> ListCounts:
    counts = statistics.counts()
    assert isinstance(counts, ListCounts)
    return counts


def check_target(path: str | os.PathLike[str], models: Sequence[str], changes: bool = False) -> None:
    """Check that writing these models to a file loses no others, and no changes unless new ones are written."""
    if not os.path.exists(path):
        return
    try:
        held = models_file.models_in(path)
    except ValueError:
        raise ValueError(
            f"out={os.fspath(path)!r}: must be a new file or a models file; --overwrite replaces it"
        ) from None
    if not changes and models_file.has_changes(path):
        raise ValueError(
            f"out={os.fspath(path)!r}: must be a new file, or one without changes; this one has those that drift=True "
            "found, which would be lost; --overwrite replaces it"
        )
    lost = [name for name in held if name not in models]
    if lost:
        raise ValueError(
            f"out={os.fspath(path)!r}: must be a new file, or one without other models; this one has "
            f"{', '.join(lost)}, which would be lost; --overwrite replaces it"
        )


def write_models(
    path: str | os.PathLike[str],
    fitted: FittedModels,
    *,
    top: int | None = None,
    items: int | None = None,
    intervals: bool = False,
    drifts: Sequence[QueryDrift] = (),
    overwrite: bool = False,
) -> int:
    """Write a models file, for ``--queries``; returns the number of queries.

    A file that has other models is not replaced unless ``overwrite`` is True.

    Parameters
    ----------
    top
        Number of queries, those with most views; by default all.
    items
        Number of items per query, the most often shown; by default all.
    intervals
        Add the ends of the confidence intervals, as ``"low"`` and ``"high"``.
    drifts
        Changes found in the log (:func:`~driftrank.logs.replay.fitted_queries`).
    """
    fits = fitted.fits
    if not overwrite:
        check_target(path, list(fits), bool(drifts))
    chosen = next(iter(fits.values())).most_shown(top, items)
    queries = fitted_queries(fits, chosen, drifts, intervals=intervals)
    models_file.write(path, queries)
    return len(queries)
