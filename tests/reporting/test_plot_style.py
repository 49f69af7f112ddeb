from __future__ import annotations

import numpy as np
import pytest

from driftrank.engine import MEASURES
from driftrank.experiments import Result
from driftrank.experiments.simulation.figure import regret_figure
from driftrank.policies.registry import default_policy, policies
from driftrank.reporting.plot_style import styles


def made_up(labels: list[str]) -> Result:
    """A result in which the first policy is the best and the last the worst."""
    values = np.zeros((len(MEASURES), len(labels), 2, 1, 3))
    values[0] = np.arange(len(labels))[:, None, None, None] + np.arange(3.0)
    zeros = [0] * len(labels)
    return Result(labels, labels, ["x", "y"], 3, 1, 0, np.array([1, 2, 3]), [2], "cpu", "Abrupt", values, [0.0], zeros)


@pytest.mark.parametrize("n", [1, 32, 33, 49, 300])
def test_every_line_has_its_own_style(n: int) -> None:
    """More policies than colours and line styles once ended in an IndexError."""
    labels = [*policies(), *(f"CascadeSWUCB:window={w}" for w in range(n))][:n]
    found = styles(labels)
    assert list(found) == labels
    distinct = {(s["color"], s["linestyle"], s.get("marker")) for s in found.values()}
    assert len(distinct) == min(n, 7 * 32)


def test_known_policies_look_the_same_everywhere() -> None:
    known = [default_policy().spec, "CascadeSWUCB", "CascadeDUCB", "CascadeKLUCB", "RankedEXP3", "BatchRank"]
    alone = {label: styles([label])[label] for label in known}
    everywhere = styles(list(policies()))
    assert alone == {label: everywhere[label] for label in known}


@pytest.mark.parametrize("n", [4, 8, 9, len(policies())])
def test_legend_is_complete_and_hides_no_line(n: int) -> None:
    labels = list(policies())[:n]
    figure = regret_figure(made_up(labels))
    figure.draw_without_rendering()
    (ax,) = figure.axes
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [*reversed(labels), "breakpoint"]
    box, inside = legend.get_window_extent(), ax.get_window_extent()
    assert (box.x0 >= inside.x1) == (n > 8)
    assert figure.bbox.contains(box.x1, box.y0)
    assert figure.bbox.contains(box.x0, box.y1)
    heights = [text.get_window_extent() for text in legend.get_texts()]
    assert not any(a.overlaps(b) for i, a in enumerate(heights) for b in heights[:i])
