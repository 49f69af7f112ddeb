"""The public check suite: click models of driftrank pass, wrong ones are found."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from driftrank.clickmodels import CM, DBN, DCM, PBM, UBM, ClickModel
from driftrank.clickmodels.checks import CHECKS, check_click_model
from driftrank.kernels import kernel
from tests.quick import others_are_slow

pytestmark = pytest.mark.interpreted

OURS = [CM(), DBN(), DCM(), PBM(), UBM(), DBN(satisfaction=(0.2, 0.9, 0.5)), PBM(examination=(1.0, 0.4))]


@pytest.mark.parametrize("model", others_are_slow(OURS, [OURS[3], OURS[5]]), ids=str)
def test_ours_pass(model: ClickModel) -> None:
    check_click_model(model)


class _Model(PBM):
    abstract: ClassVar[bool] = True


class _Eager(_Model):
    """Users click more than the probabilities say."""

    @staticmethod
    @kernel
    def click(m, alpha, key, items, clicks):
        for k in range(items.shape[0]):
            clicks[k] = 1
        return items.shape[0]


class _Leaky(_Model):
    @staticmethod
    @kernel
    def chance(m, alpha, k, a, b):
        return 2.0 * alpha[a]


class _Blind(_Model):
    """The best list is any."""

    @staticmethod
    @kernel
    def _first(m, alpha, best, work):
        for k in range(best.shape[0]):
            best[k] = k
        return 0.0

    optima = {"any": _first, "clicks": _first}


class _Marginal(_Model):
    @staticmethod
    @kernel
    def marginals(m, alpha, items, out, work):
        for k in range(items.shape[0]):
            out[k] = alpha[items[k]]


class _Lenient(_Model):
    def __post_init__(self) -> None:
        pass


WRONG = [
    (_Eager, "users_click_with_these_probabilities", "0.0000 of the users click"),
    (_Leaky, "probabilities_add_up", "a click vector has the probability -"),
    (_Blind, "best_list_is_best", "another list"),
    (_Marginal, "marginals_agree", "marginals are"),
    (_Lenient, "bad_values_are_refused", "examination=1.5 is accepted"),
]


@pytest.mark.parametrize(("wrong", "check", "message"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_wrong_ones_are_found(wrong: Any, check: str, message: str) -> None:
    with pytest.raises(AssertionError, match=rf"{wrong.__name__}: {check}: .*{message}"):
        CHECKS[check](wrong())


def test_a_parameter_that_is_nothing() -> None:
    """Found by the suite: it ended in a TypeError."""
    with pytest.raises(ValueError, match="examination=None: must be a probability, or a list of them for every rank"):
        UBM(examination=None)  # type: ignore[arg-type]
