"""Real queries: their click models are recovered from the clicks of their users, and told apart.

The whole of it, on forty queries and 200,000 lists each, is ``benchmarks/click_models.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrank.clickmodels import CM, DCM, SDBN, ClickModel, click_models
from driftrank.clickmodels.fitting.counts import ListCounts
from tests.clickmodels.generated import clicks_on, list_counts, position_counts
from tests.quick import others_are_slow

MODELS = click_models()
QUERIES, LISTS, TRAINING = 6, 20_000, 15_000


def real(path: Path, cls: type[ClickModel]) -> tuple[Any, list[ClickModel]]:
    """Attraction and model of every query; the file has no SDBN, which is its DBN without the continuation."""
    entries = list(json.loads(path.read_text("utf-8"))["queries"].values())[:QUERIES]
    values = [entry["DBN" if cls is SDBN else cls.__name__] for entry in entries]
    return np.array([v["attraction"] for v in values]), [cls(**{n: v[n] for n in cls.shape}) for v in values]


def generate(attraction: Any, models: list[ClickModel], seed: int) -> tuple[ListCounts, ListCounts]:
    draw = np.random.default_rng(seed)
    sessions = []
    for q, (alpha, model) in enumerate(zip(attraction, models, strict=True)):
        items = draw.permuted(np.tile(np.arange(10), (LISTS, 1)), axis=1)
        sessions.append((items, clicks_on(model, alpha, items, 100 * seed + q)))
    first = [(items[:TRAINING], mask[:TRAINING]) for items, mask in sessions]
    second = [(items[TRAINING:], mask[TRAINING:]) for items, mask in sessions]
    return list_counts(first, 10), list_counts(second, 10)


@pytest.mark.parametrize("name", others_are_slow(MODELS, ("CM",)))
def test_the_model_of_the_users_is_recovered_and_chosen(yandex40_file: Path, name: str) -> None:
    seed = list(MODELS).index(name)
    cls = MODELS[name]
    attraction, models = real(yandex40_file, cls)
    seen, unseen = generate(attraction, models, seed)
    counts: dict[bool, Any] = {True: seen, False: position_counts(seen)}
    fits = {n: m.fit(counts[m.counts_for(exact=True) == "lists"], per_query=True) for n, m in MODELS.items()}
    assert all(fit.converged for fit in fits.values())
    assert np.abs(fits[name].attraction - attraction.ravel()).mean() < 0.01
    value = {n: fit.evaluate(unseen).by_list for n, fit in fits.items()}
    query = unseen.slots[:, 0] // 10
    found = 0
    for q in range(QUERIES):
        # the best model may be another that coincides with it: then they differ by no more than chance
        winner = max(value, key=lambda n: (value[n] * unseen.lists)[query == q].sum())
        difference = np.repeat((value[winner] - value[name])[query == q], unseen.lists[query == q])
        found += bool(difference.mean() <= 2 * difference.std() / np.sqrt(len(difference)))
    assert found >= 5


@pytest.mark.slow
def test_the_closed_form_is_biased(yandex40_file: Path) -> None:
    """The closed forms of DCM and SDBN have larger errors than maximum likelihood: many read on after their last click.
    Where nobody does, as in the cascade model, both are the same."""
    for cls in (DCM, SDBN):
        attraction, models = real(yandex40_file, cls)
        seen, _ = generate(attraction, models, 50)
        truth = attraction.ravel()
        closed, exact = (cls.fit(counts, per_query=True).attraction for counts in (position_counts(seen), seen))
        assert (closed - truth).mean() > 0.015
        assert abs((exact - truth).mean()) < 0.002
    attraction, models = real(yandex40_file, CM)
    seen, _ = generate(attraction, models, 51)
    closed, exact = (DCM.fit(counts).attraction for counts in (position_counts(seen), seen))
    assert closed == pytest.approx(exact, abs=2e-3)
