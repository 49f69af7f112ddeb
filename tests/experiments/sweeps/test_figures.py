"""What figures show is told by the data of their axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftrank.environments import Abrupt, Environment
from driftrank.experiments import Sweep, sweep
from driftrank.experiments.sweeps.figures import figures, plot_comparison, plot_environments, plot_map, plot_parameter
from driftrank.queries import yandex_like
from driftrank.theory import recommended_discount, recommended_window

HOW: dict[str, Any] = {"horizon": 1000, "runs": 2, "progress": False}
WINDOWS = "CascadeSWUCB:window=geom(10,1000,5)"
DISCOUNTS = "CascadeDUCB:discount=1-geom(0.001,0.1,5)"
THEORY = math.ceil(recommended_window(1000))


def environment(period: int = 250) -> Environment:
    return Abrupt(yandex_like(5, seed=1), k=3, period=period)


@pytest.fixture(scope="module")
def pair() -> Sweep:
    return sweep([WINDOWS, DISCOUNTS, "CascadeTS"], environment(), **HOW)


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def axes() -> Axes:
    return Figure().add_subplot()


def marks(ax: Axes, gid: str) -> list[tuple[float, float]]:
    """Where something is marked."""
    found = [line for line in ax.lines if line.get_gid() == gid]
    return [(float(x), float(y)) for line in found for x, y in zip(*line.get_data(), strict=True)]


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    assert found is not None
    return [text.get_text() for text in found.get_texts()]


def test_curve(pair: Sweep) -> None:
    ax = plot_parameter(pair, "window", axes())
    line = next(line for line in ax.lines if line.get_label() == "CascadeSWUCB")
    found = pair.regret("CascadeSWUCB")
    assert line.get_xdata().tolist() == [10, 32, 100, 316, 1000]
    assert line.get_ydata().tolist() == found.mean.tolist()
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx((found.mean - found.error).min())
    assert band[:, 1].max() == pytest.approx((found.mean + found.error).max())
    assert ax.get_xscale() == "log"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("window", "regret after 1,000 steps")
    assert legend(ax) == ["CascadeSWUCB", "CascadeTS", "best setting", "recommended by theory"]
    best = pair.best("CascadeSWUCB")
    assert marks(ax, "best") == [(best.parameters["window"], best.regret)]
    assert marks(ax, "reference") == [(THEORY, best.reference)]
    assert [text.get_text() for text in ax.texts] == [str(THEORY)]
    level = next(line for line in ax.lines if line.get_label() == "CascadeTS")
    assert set(level.get_ydata()) == {pair.regret("CascadeTS").mean[0]}


def test_discounts_are_drawn_by_their_distance_from_one(pair: Sweep) -> None:
    ax = plot_parameter(pair, "discount", axes())
    line = next(line for line in ax.lines if line.get_label() == "CascadeDUCB")
    assert sorted(line.get_xdata()) == pytest.approx([0.001, 10**-2.5, 0.01, 10**-1.5, 0.1], rel=1e-5)
    assert ax.get_xscale() == "log"
    left, right = ax.get_xlim()
    assert left > right  # so that discounts grow to the right
    assert ax.xaxis.get_major_formatter()(0.01, 0) == "0.99"
    assert marks(ax, "reference")[0][0] == pytest.approx(1 - recommended_discount(1000))


def test_policies_that_share_a_parameter_share_the_axes() -> None:
    found = sweep([WINDOWS, "CascadeSWTS:window=geom(20,200,3)"], environment(), **HOW)
    ax = found.plot("window", ax=axes())
    lines = {line.get_label(): list(line.get_xdata()) for line in ax.lines}
    assert lines["CascadeSWUCB"] == [10, 32, 100, 316, 1000]
    assert lines["CascadeSWTS"] == [20, 63, 200]
    assert len(marks(ax, "best")) == len(marks(ax, "reference")) == 2
    assert set(found.figures()) == {"sweep-window", "sweep-comparison"}


def test_words_are_dots_beside_each_other() -> None:
    specs = ["CascadeSWUCB:ties={random;index}", "CascadeDUCB:ties={random;index}"]
    found = sweep(specs, environment(), **HOW)
    ax = plot_parameter(found, "ties", axes())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["random", "index"]
    assert "default" in legend(ax)
    places = [x for x, _ in marks(ax, "reference")]
    assert len(set(places)) == 2
    assert places == pytest.approx([0, 0], abs=0.1)  # at the word "random"


def test_a_value_that_is_not_known_is_a_line() -> None:
    """The thresholds of GLRT are what theory says, but they have no place on the axis."""
    found = sweep("GLRTCascadeKLUCB:delta=geom(0.001,0.1,3)", environment(), **HOW)
    ax = plot_parameter(found, "delta", axes())
    assert found.best().recommended == {"delta": "auto"}
    assert {y for _, y in marks(ax, "reference")} == {found.best().reference}


def test_map_of_two_parameters() -> None:
    found = sweep("CascadeSWUCB:window=geom(10,1000,5),epsilon=lin(0.1,0.9,3)", environment(), **HOW)
    figure = Figure()
    ax = plot_map(found, "CascadeSWUCB", "window", "epsilon", figure.add_subplot())
    mesh = ax.collections[0]
    shown = np.asarray(mesh.get_array()).reshape(3, 5)
    means = found.regret("CascadeSWUCB").mean.reshape(5, 3).T  # the last grid runs fastest
    assert shown.tolist() == means.tolist()
    best = found.best()
    assert marks(ax, "best") == [(best.parameters["window"], best.parameters["epsilon"])]
    assert marks(ax, "reference") == [(THEORY, 0.5)]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("window", "epsilon")
    assert figure.axes[1].get_ylabel() == "regret after 1,000 steps"
    assert list(figures(found)) == ["sweep-CascadeSWUCB-window-epsilon"]


def test_map_of_three_parameters_shows_the_least_over_the_third() -> None:
    spec = "CascadeSWUCB:window={20;200},epsilon={0.1;0.5},ties={random;index}"
    found = sweep(spec, environment(), **HOW)
    assert list(figures(found)) == [
        "sweep-CascadeSWUCB-window-epsilon", "sweep-CascadeSWUCB-window-ties", "sweep-CascadeSWUCB-epsilon-ties",
    ]  # fmt: skip
    ax = found.plot("window", "ties", ax=axes())
    shown = np.asarray(ax.collections[0].get_array()).reshape(2, 2)
    means = found.regret("CascadeSWUCB").mean.reshape(2, 2, 2)
    assert shown.tolist() == means.min(axis=1).T.tolist()
    alone = found.plot("window", policy="CascadeSWUCB", ax=axes())
    line = next(line for line in alone.lines if line.get_label() == "CascadeSWUCB")
    assert line.get_ydata().tolist() == means.min(axis=(1, 2)).tolist()
    with pytest.raises(ValueError, match="is not swept alone"):
        found.plot("window")


def test_comparison(pair: Sweep) -> None:
    figure = Figure()
    ax = plot_comparison(pair, figure.add_subplot())
    shown = np.asarray(ax.collections[0].get_array()).reshape(5, 5)
    windows, discounts = pair.regret("CascadeSWUCB").mean, pair.regret("CascadeDUCB").mean
    assert shown == pytest.approx(windows[None, :] / discounts[::-1, None])  # discounts grow upwards
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("CascadeSWUCB: window", "CascadeDUCB: discount")
    (x, y), = marks(ax, "best")  # fmt: skip
    assert x == pair.best("CascadeSWUCB").parameters["window"]
    assert y == pytest.approx(1 - pair.best("CascadeDUCB").parameters["discount"])
    assert marks(ax, "reference") == [(THEORY, pytest.approx(1 - recommended_discount(1000)))]
    unclear = [c for c in ax.collections if c.get_gid() == "unclear"]
    dotted = sum(len(c.get_offsets()) for c in unclear)
    count = 0
    for window in pair.family("CascadeSWUCB").points:
        for discount in pair.family("CascadeDUCB").points:
            mean, error = pair.difference(window.spec, discount.spec)
            count += abs(mean) <= 2 * error
    assert dotted == count
    assert list(figures(pair)) == ["sweep-window", "sweep-discount", "sweep-comparison"]


def test_dropped_settings_are_marked() -> None:
    specs = ["CascadeSWUCB:window=geom(5,1000,12),epsilon={0.1;0.5}", "CascadeDUCB:discount=1-geom(0.001,0.5,12)"]
    env = Abrupt(yandex_like(30, seed=1), k=3, period=250)
    found = sweep(specs, env, halving=True, **HOW)
    dropped = {policy: int((~found.regret(policy).complete).sum()) for policy in found.policies}
    assert min(dropped.values()) > 0
    for ax, policy in ((found.plot(ax=axes()), "CascadeSWUCB"), (found.plot("discount", ax=axes()), "CascadeDUCB")):
        dots = [c for c in ax.collections if c.get_gid() == "dropped"]
        assert sum(len(c.get_offsets()) for c in dots) == dropped[policy]
        assert "dropped early: fewer runs" in legend(ax)


def test_many_environments_are_panels_under_one_legend() -> None:
    periods = [100, 200, 400, 800, 1000]
    found = sweep([WINDOWS, DISCOUNTS], [environment(period) for period in periods], **HOW)
    drawn = figures(found)
    assert set(drawn) == {
        "sweep-window", "sweep-discount", "sweep-comparison", "sweep-CascadeSWUCB-window-by-period",
        "sweep-CascadeDUCB-discount-by-period",
    }  # fmt: skip
    figure = drawn["sweep-window"]
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.axison]
    assert titles == [f"Abrupt:period={period}" for period in periods]
    assert len(figure.legends) == 1
    for ax, name in zip(figure.axes, found.environments, strict=False):
        best = found.best("CascadeSWUCB", name)
        assert marks(ax, "best") == [(best.parameters["window"], best.regret)]
    # one figure tells how the best window moves
    ax = plot_environments(found, "CascadeSWUCB", axes())
    expected = [found.best("CascadeSWUCB", name).parameters["window"] for name in found.environments]
    assert marks(ax, "best") == [(window, period) for window, period in zip(expected, periods, strict=True)]
    assert marks(ax, "reference") == [(THEORY, period) for period in periods]
    shown = np.asarray(ax.collections[0].get_array()).reshape(5, 5)
    assert shown.min(axis=1).tolist() == [1.0] * 5


def test_what_cannot_be_drawn(pair: Sweep) -> None:
    with pytest.raises(ValueError, match="must be one, or two"):
        pair.plot("window", "discount", "k")
    with pytest.raises(ValueError, match="unknown swept parameter of CascadeSWUCB 'discount'"):
        pair.plot("window", "discount")
    with pytest.raises(ValueError, match="must differ in one parameter each"):
        plot_environments(pair, "CascadeSWUCB", axes())
    three = sweep(["CascadeSWUCB:window={10;20},epsilon={0.1;0.2}"], environment(), **HOW | {"horizon": 20})
    with pytest.raises(ValueError, match="two policies that sweep one parameter each"):
        plot_comparison(three, axes())


def test_axes_of_its_own(pair: Sweep) -> None:
    assert pair.plot().get_xlabel() == "window"
    assert pair.plot(policy="CascadeDUCB").get_xlabel() == "discount"
