from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from driftrank.kernels.compile import pure, specialise
from driftrank.kernels.elementary import cosine, exp, log


def each(x, out):
    for i in range(x.shape[0]):
        out[i] = FUNCTION(x[i])  # noqa: F821 - bound below


def compiled(function):
    loop = specialise(each, {"FUNCTION": function})

    def apply(*x):
        values = np.array(x, dtype=np.float64).ravel()
        out = np.empty(len(values))
        loop(values, out)
        return out

    return apply


@pytest.fixture(scope="module")
def ln():
    return compiled(log)


@pytest.fixture(scope="module")
def e_to():
    return compiled(exp)


@pytest.fixture(scope="module")
def cos_of_turns():
    return compiled(cosine)


def errors(x, y, exact):
    """The distance of each y from the true value, in units in the last place."""
    with localcontext(prec=40):
        return max(
            float(abs(Decimal(float(b)) - exact(Decimal(float(a)))) / Decimal(float(np.spacing(abs(b)))))
            for a, b in zip(x, y, strict=True)
        )


def numbers_for_log():
    rng = np.random.default_rng(1)
    anywhere = np.exp(rng.uniform(-708, 709, 1500))
    near_one = 1.0 + rng.uniform(-0.5, 1, 1500)
    nearer = 1.0 + rng.choice([-1, 1], 500) * np.exp(rng.uniform(-36, -3, 500))
    folds = np.outer([0.5**0.5, 2**0.5, 0.25, 4.0, 1e-300, 1e300], 1 + np.arange(-3, 4) * 2.3e-16).ravel()
    integers = np.arange(2.0, 500)  # what policies take logarithms of most: steps
    return np.concatenate([anywhere, near_one, nearer[nearer != 1.0], folds, integers])


def test_log_is_within_one_and_a_half_units(ln):
    x = numbers_for_log()
    assert errors(x, ln(x), lambda v: v.ln()) < 1.5


def test_exp_is_within_one_and_a_half_units(e_to):
    rng = np.random.default_rng(2)
    x = np.concatenate(
        [
            rng.uniform(-708, 709.78, 2000),
            rng.uniform(-1, 1, 1500),
            rng.choice([-1, 1], 500) * np.exp(rng.uniform(-40, 0, 500)),
            (np.arange(-1000, 1000, 7) + 0.5) * math.log(2),  # where the argument is folded
            [-708.0, 709.4, 709.5, 709.7, 709.78],
        ]
    )
    assert errors(x, e_to(x), lambda v: v.exp()) < 1.5


def test_log_at_the_edges(ln):
    tiny = 2.2250738585072014e-308  # the smallest normal number
    assert ln(0.0, 5e-324, tiny / 2).tolist() == [-math.inf] * 3
    assert ln(tiny) == pytest.approx(math.log(tiny), rel=1e-15)
    assert ln(1.0) == 0.0
    assert ln(math.inf) == math.inf
    assert np.isnan(ln(math.nan)).all()
    assert ln(1.7976931348623157e308) == pytest.approx(math.log(1.7976931348623157e308), rel=1e-15)
    assert ln(math.e) == pytest.approx(1.0, abs=3e-16)


@pytest.mark.compiled  # Python has no floor of NaN
def test_exp_at_the_edges(e_to):
    assert e_to(0.0, -0.0).tolist() == [1.0, 1.0]
    assert e_to(-math.inf, -1e300, -709.0).tolist() == [0.0] * 3
    assert e_to(math.inf, 1e300, 709.79).tolist() == [math.inf] * 3
    assert np.isnan(e_to(math.nan)).all()
    assert np.isfinite(e_to(709.78)).all()
    assert (e_to(-708.0) > 0).all()


def test_both_are_monotone(ln, e_to):
    """In steps that are large against their error, also across the folds of the argument."""
    x = np.sort(numbers_for_log())
    x = x[np.append(True, np.diff(x) > 8 * np.spacing(x[1:]))]
    assert (np.diff(ln(x)) >= 0).all()
    assert (np.diff(e_to(np.linspace(-708, 709.7, 5001))) > 0).all()


def test_one_undoes_the_other(ln, e_to):
    x = np.linspace(-700, 700, 2001)
    assert ln(e_to(x)) == pytest.approx(x, abs=1e-15, rel=3e-16)


def test_values_that_must_not_change(ln, e_to):
    """To the last bit: saved states and published results depend on them."""
    assert [v.hex() for v in ln(2.0, 3.0, 100_000.0, 0.3, 1e-10).tolist()] == [
        "0x1.62e42fefa39efp-1",
        "0x1.193ea7aad030ap+0",
        "0x1.7069e2aa2aa5bp+3",
        "-0x1.34378fcbda721p+0",
        "-0x1.7069e2aa2aa5bp+4",
    ]
    assert [v.hex() for v in e_to(1.0, -1.0, 0.1, -20.5, 300.0).tolist()] == [
        "0x1.5bf0a8b14576ap+1",
        "0x1.78b56362cef38p-2",
        "0x1.1aec7b35a00d4p+0",
        "0x1.57a3afeed00acp-30",
        "0x1.c05c0a7166b4ap+432",
    ]


def test_cosine(cos_of_turns):
    x = np.concatenate([np.linspace(-1, 1, 4001), np.arange(-16, 17) / 16 + 1e-9])
    assert cos_of_turns(x) == pytest.approx([math.cos(2 * math.pi * v) for v in x], abs=2e-15)
    # far from 0 as well: whole turns do not count
    near = np.linspace(0, 1, 513)
    assert cos_of_turns(near + 2.0**30).tolist() == cos_of_turns(near).tolist()
    assert np.abs(cos_of_turns(np.linspace(-3, 3, 10_001))).max() <= 1.0
    assert cos_of_turns(x).tolist() == [pure(cosine)(float(v)) for v in x]  # nothing is contracted or reordered


def test_cosine_at_known_angles(cos_of_turns):
    assert cos_of_turns(0.0, 0.25, 0.5, 0.75, 1.0, -0.25).tolist() == [1.0, 0.0, -1.0, 0.0, 1.0, 0.0]
    assert cos_of_turns(1 / 6, 1 / 3, 1 / 8) == pytest.approx([0.5, -0.5, 0.5**0.5], abs=2e-16)
    assert [v.hex() for v in cos_of_turns(0.1, 0.2, 0.9, 7.3).tolist()] == [
        "0x1.9e3779b97f4a8p-1",
        "0x1.3c6ef372fe94ep-2",
        "0x1.9e3779b97f4a8p-1",
        "-0x1.3c6ef372fe93cp-2",
    ]
