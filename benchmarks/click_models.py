"""Are click models recovered from the clicks of their users, and distinguished from each other?

For every real query of a file of fitted click models, and every click model, lists of all its items in random order are
shown to users of that model. All models are then fitted to three quarters of the lists and evaluated on the rest.
Prints, by the model of the users:

- the mean absolute error of its estimates of attraction, how many of them the 95% intervals hold, and how many those of
  estimates without a prior do (a prior keeps examination and continuation away from 1, where the real ones are);
- in how many queries it predicts the other quarter best, and in how many it is best or coincides with the best: the
  mean difference between the two, list by list, is less than two of its standard errors (DBN with continuation 1 is
  SDBN; the cascade model is a special case of most).

DCM and SDBN are fitted by maximum likelihood (``exact``); the error of their closed forms is printed beside.

    python benchmarks/click_models.py models.json [--lists 200000] [--queries 40]
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from typing import Any

import numpy as np

from driftrank.clickmodels import SDBN, ClickModel, click_models, models_file
from driftrank.clickmodels.fitting.counts import ListCounts, Pairs, PositionCounts
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.kernels import rng
from driftrank.kernels.compile import specialise

MODELS = click_models()


def click_lists(m, alpha, key, items, clicks, mask):  # type: ignore[no-untyped-def]
    """The clicks of users on each of many lists."""
    for n in range(items.shape[0]):
        CLICK(m, alpha, DERIVE(key, n), items[n], clicks)  # noqa: F821
        mask[n] = 0
        for k in range(items.shape[1]):
            mask[n] |= np.int64(clicks[k]) << k


def generate(model: ClickModel, alpha: Any, lists: int, name: str) -> tuple[Any, Any]:
    """Lists in random order, and the masks of their clicks."""
    key = rng.run_key(0, name, 0)
    L = len(alpha)
    items = np.random.default_rng(key).permuted(np.tile(np.arange(L, dtype=np.uint32), (lists, 1)), axis=1)
    mask = np.zeros(lists, np.int64)
    step = specialise(click_lists, {"CLICK": type(model).click, "DERIVE": rng.derive})
    step(model.row(L, L), alpha, np.uint64(key), items, np.zeros(L, np.int8), mask)
    return items, mask


def list_counts(items: Any, mask: Any) -> ListCounts:
    """One query. Lists of ten items hardly ever occur twice, so each is a row."""
    L = items.shape[1]
    pairs = Pairs(np.array(["q"]), np.zeros(L, np.int32), np.arange(L))
    return ListCounts(pairs, items.astype(np.int32), mask, np.ones(len(mask), np.int64))


def position_counts(counts: ListCounts) -> PositionCounts:
    """The same log counted by item, rank and previous click."""
    n, K = counts.slots.shape
    size = len(counts.pairs) * K * (K + 1)
    sums = np.zeros((4, size), np.int64)
    previous = np.zeros(n, np.int64)
    for k in range(K):
        cell = (counts.slots[:, k].astype(np.int64) * K + k) * (K + 1) + previous
        below = counts.mask >> k
        for total, what in zip(sums, (None, below & 1, (counts.mask == 0) | (below > 0), below == 1), strict=True):
            total += np.bincount(cell, what, size).astype(np.int64)
        previous = np.where(below & 1, k + 1, previous)
    cell = np.flatnonzero(sums[0])
    pair, rank, before = cell // (K + 1) // K, cell // (K + 1) % K + 1, cell % (K + 1)
    columns = pair.astype(np.int32), rank.astype(np.int16), before.astype(np.int16)
    return PositionCounts(counts.pairs, *columns, *sums[:, cell])


def users_of(path: str, cls: type[ClickModel]) -> dict[str, tuple[Any, ClickModel]]:
    """Attraction and model of every query of the file. It has no SDBN: that is its DBN without the continuation."""
    queries = models_file.read(path, "DBN" if cls is SDBN else cls.__name__)
    return {
        name: (query.attraction, cls(**{part: getattr(query.model, part) for part in cls.shape}))
        for name, query in queries.items()
    }


def held(fit: Fit, truth: Any) -> Any:
    return np.mean((fit.low["attraction"] <= truth) & (truth <= fit.high["attraction"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--lists", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--model", action="append", choices=sorted(MODELS), help="only users of this model")
    options = parser.parse_args()
    print(f"{options.queries} queries at most, {options.lists:,} lists each", flush=True)
    print("users   error   held  no prior  closed   best  or coincides  seconds  best models")
    for name in options.model or MODELS:
        cls = MODELS[name]
        start = time.perf_counter()
        errors, inside, plain, closed, best, alike = [], [], [], [], [], []
        chosen: dict[str, int] = {}
        for query, (alpha, model) in islice(users_of(options.file, cls).items(), options.queries):
            items, mask = generate(model, alpha, options.lists, f"{name} {query}")
            cut = options.lists * 3 // 4
            seen, unseen = list_counts(items[:cut], mask[:cut]), list_counts(items[cut:], mask[cut:])
            positions = position_counts(seen)
            counts = {"lists": seen, "positions": positions, "ratios": positions}
            fits = {other: MODELS[other].fit(counts[MODELS[other].counts_for(True)], prior=(1, 2)) for other in MODELS}
            value = {other: fit.evaluate(unseen).by_list for other, fit in fits.items()}
            errors.append(np.abs(fits[name].attraction - alpha).mean())
            inside.append(held(fits[name], alpha))
            plain.append(held(cls.fit(counts[cls.counts_for(exact=True)], prior=(0, 0)), alpha))
            if cls.exact_statistics:
                closed.append(np.abs(cls.fit(counts["positions"], prior=(1, 2)).attraction - alpha).mean())
            winner = max(value, key=lambda other: value[other].sum())
            chosen[winner] = chosen.get(winner, 0) + 1
            difference = value[winner] - value[name]
            best.append(winner == name)
            alike.append(winner == name or difference.mean() < 2 * difference.std() / np.sqrt(len(difference)))
        beside = f"{np.mean(closed):7.4f}" if closed else " " * 7
        row = f"{name:5} {np.mean(errors):7.4f} {np.mean(inside):6.1%} {np.mean(plain):9.1%} {beside}"
        row += f" {np.mean(best):6.1%} {np.mean(alike):13.1%}"
        winners = ", ".join(f"{other} {times}" for other, times in sorted(chosen.items()))
        print(f"{row} {time.perf_counter() - start:8.0f}  {winners}", flush=True)


if __name__ == "__main__":
    main()
