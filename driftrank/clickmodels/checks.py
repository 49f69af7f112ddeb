"""The contract of click models, as functions that can be run on a model of your own.

Run all of it at once, ``check_click_model(MyModel())``, or let pytest show every check as a test::

    import pytest
    from driftrank.clickmodels.checks import CHECKS
    from mine import MyModel

    @pytest.mark.parametrize("check", CHECKS)
    def test_contract(check):
        CHECKS[check](MyModel())

A failed check raises ``AssertionError`` with model, check and reason. Fitting is not part of it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ITEM, ONE, ClickModel
from driftrank.clickmodels.templates import click_many
from driftrank.contracts import checks_in, require
from driftrank.kernels.compile import specialise
from driftrank.kernels.rng import derive

#: positions of lists, and items unless the model has parameters for another number of them
K, L = 3, 5
#: users that are simulated
USERS = 20_000


def check_click_model(model: ClickModel) -> None:
    """Run every check.

    >>> from driftrank.clickmodels import CM
    >>> check_click_model(CM())
    """
    for check in CHECKS.values():
        check(model)


def check_probabilities_add_up(model: ClickModel) -> None:
    """The probabilities of all click vectors of a list are at least 0 and sum to 1."""
    for alpha, ranking in _cases(model):
        chances = [model.probability(alpha, ranking, clicks) for clicks in _vectors(len(ranking))]
        require(min(chances) >= -1e-12, f"{ranking}: a click vector has the probability {min(chances):g}")
        require(math.isclose(sum(chances), 1.0, abs_tol=1e-9), f"{ranking}: the probabilities sum to {sum(chances):g}")


def check_marginals_agree(model: ClickModel) -> None:
    """The marginal probability of a click at each position follows from the probabilities of click vectors."""
    for alpha, ranking in _cases(model):
        vectors = _vectors(len(ranking))
        chances = np.array([model.probability(alpha, ranking, clicks) for clicks in vectors])
        expected, found = chances @ np.array(vectors), model.click_probabilities(alpha, ranking)
        same = bool(np.allclose(expected, found, atol=1e-9))
        require(same, f"{ranking}: marginals are {found}, chance and after give {expected.tolist()}")


def check_values_agree(model: ClickModel) -> None:
    """``any`` is the probability of a click, ``clicks`` the expected number of clicks; others are between 0 and K."""
    for objective in model.objectives:
        own = dataclasses.replace(model, objective=objective)
        for alpha, ranking in _cases(own):
            value, none = own.reward(alpha, ranking), own.probability(alpha, ranking, [0] * len(ranking))
            require(0 <= value <= len(ranking) + 1e-12, f"{objective} of {ranking} is {value:g}")
            if objective == "any":
                require(math.isclose(value, 1 - none, abs_tol=1e-9), f"any of {ranking} is {value:g}, not {1 - none:g}")
            if objective == "clicks":
                total = sum(own.click_probabilities(alpha, ranking))
                require(math.isclose(value, total, abs_tol=1e-9), f"clicks of {ranking} is {value:g}, not {total:g}")


def check_users_click_with_these_probabilities(model: ClickModel) -> None:
    """The frequency of every click vector of simulated users matches its probability."""
    alpha, ranking = next(_cases(model))
    masks = _masks(model, alpha, ranking, USERS)
    for clicks in _vectors(len(ranking)):
        chance = model.probability(alpha, ranking, clicks)
        often = float(np.mean(masks == _mask(clicks)))
        near = abs(often - chance) <= 5 * math.sqrt(chance / USERS) + 1e-9
        require(near, f"{ranking}: {often:.4f} of the users click {list(clicks)}, the probability is {chance:.4f}")


def check_compiled_as_in_python(model: ClickModel) -> None:
    """The compiled kernel simulates the users of the Python function."""
    alpha, ranking = next(_cases(model))
    masks = _masks(model, alpha, ranking, 100)
    for user, mask in enumerate(masks.tolist()):
        clicks = model.simulate(alpha, ranking, int(derive(np.uint64(99), user)))
        require(_mask(clicks) == mask, f"user {user} clicks {clicks} in Python, not so when compiled")


def check_best_list_is_best(model: ClickModel) -> None:
    """No list is worth more than the best one, for any objective."""
    for objective in model.objectives:
        own = dataclasses.replace(model, objective=objective)
        for alpha, ranking in _cases(own):
            k = len(ranking)
            best = own.best(alpha, k)
            require(len(set(best)) == k, f"{objective}: the best list is {best}")
            most = max(own.reward(alpha, other) for other in itertools.permutations(range(len(alpha)), k))
            found = own.reward(alpha, best)
            require(found >= most - 1e-9, f"{objective}: {best} is worth {found:g}, another list {most:g}")


def check_parameters_round_trip(model: ClickModel) -> None:
    """A model from its parameters as in a models file, a copy and a pickled copy are equal to it."""
    again = type(model).from_dict({"attraction": [0.5], **model.to_dict()}, objective=model.objective)
    require(again == model and hash(again) == hash(model), f"read from a models file it is {again!r}")
    try:
        packed = pickle.dumps(model)
    except (pickle.PicklingError, AttributeError):
        return  # a class that processes cannot import
    require(pickle.loads(packed) == model, "a pickled copy is not equal to it")


def check_bad_values_are_refused(model: ClickModel) -> None:
    """An invalid value of a parameter raises a ``ValueError`` that names it."""
    for name in (*model.shape, "objective"):
        for value in (1.5, -0.1, math.nan, "nonsense", None):
            changed: dict[str, Any] = {name: value}
            try:
                dataclasses.replace(model, **changed)
            except ValueError as error:
                require(name in str(error), f"{name}={value!r} is refused without naming {name}: {error}")
            except TypeError as error:
                raise AssertionError(f"{name}={value!r} raises {error!r}, not a ValueError") from error
            else:
                raise AssertionError(f"{name}={value!r} is accepted")


def _masks(model: ClickModel, alpha: list[float], ranking: list[int], users: int) -> NDArray[np.int64]:
    masks, items = np.zeros(users, np.int64), np.array(ranking, np.uint32)
    compiled = specialise(click_many, {"CLICK": type(model).click, "DERIVE": derive})
    row, clicks = model.row(len(alpha), len(ranking)), np.zeros(len(ranking), np.int8)
    compiled(row, np.array(alpha), np.uint64(99), items, clicks, masks)
    return masks


def _mask(clicks: Any) -> int:
    return sum(int(clicked) << i for i, clicked in enumerate(clicks))


def _vectors(k: int) -> list[tuple[int, ...]]:
    return list(itertools.product((0, 1), repeat=k))


def _cases(model: ClickModel) -> Iterator[tuple[list[float], list[int]]]:
    """Attractions, certain and impossible ones among them, and lists."""
    given = {name: getattr(model, name) for name in model.shape}
    tuples = {name: value for name, value in given.items() if isinstance(value, tuple)}
    items = next((len(value) for name, value in tuples.items() if model.shape[name] == ITEM), L)
    ranks = [len(value) for name, value in tuples.items() if model.shape[name] not in (ONE, ITEM)]
    k = min([K, items, *ranks])
    generator = np.random.default_rng(0)
    for n in range(6):
        alpha = generator.uniform(0.05, 0.95, items)
        if n == 4:
            alpha[0], alpha[-1] = 0.0, 1.0
        yield alpha.tolist(), generator.permutation(items)[:k].tolist()


#: every check, by name
CHECKS: dict[str, Callable[[ClickModel], None]] = checks_in(
    globals(), "check_click_model", lambda model: type(model).__name__
)
