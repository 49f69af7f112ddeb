"""Charts: text alternatives, gaps, axes, and nothing that a strict policy would block."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from driftrank.serve.page.charts import Line, Marker, bars, chart, interval, sparkline

NASTY = "<b>'\"&"


def drawn(text: str) -> ET.Element:
    """The chart, which must be well formed and have a label."""
    root = ET.fromstring(f"<div>{text}</div>".replace("<br>", "<br/>"))
    svg = root.find(".//svg")
    assert svg is not None
    assert (svg.get("role"), bool(svg.get("aria-label"))) == ("img", True)
    assert not re.search(r"style=|<style|<script| on\w+=", text)
    return root


def test_a_line_has_gaps_where_nothing_is_known() -> None:
    line = Line(NASTY, [(0, 1.0), (10, 3.0), (20, None), (30, 2.0), (40, 2.0)], "c1", [(0, 0.5, 1.5), (40, 1.0, 3.9)])
    markers = [Marker(10, NASTY, "found"), Marker(99, "later", "made")]
    root = drawn(chart([line], label=NASTY, ticks=("then", "now"), begin=0, end=40, markers=markers))
    path = root.find(".//path")
    assert path is not None
    assert path.get("d") == "M0 180.0L250 60.0M750 120.0L1000 120.0", "of 1000 by 240, from 0 to 4"
    assert [span.text for span in root.findall(".//div[@class='y-axis']/span")] == ["4", "2", "0"]
    assert len(root.findall(".//polygon")) == 1
    assert [line.get("x1") for line in root.findall(".//line") if "marker" in line.get("class", "")] == ["250"]
    assert [li.text for li in root.findall(".//li")] == [NASTY]


def test_a_chart_can_be_read_as_a_table() -> None:
    line = Line(NASTY, [(0, 1.0), (600, 3.0), (900, None)], "c1", [(600, 2.5, 3.5)])
    thin = Line("raw", [(300, 7.0)], "c1 thin")
    root = drawn(chart([line, thin], label="x", ticks=(), begin=0, end=1200))
    rows = [["".join(cell.itertext()) for cell in row] for row in root.findall(".//tr")]
    assert rows[0] == ["Until, UTC", NASTY, "raw"]
    assert rows[1] == ["00:01:40", "1", "–"]
    assert rows[6] == ["00:10:00", "3 (2.5 to 3.5)", "7"]
    assert rows[-1] == ["00:20:00", "–", "7"]
    assert [li.text for li in root.findall(".//li")] == [NASTY], "thin lines are those of a thick one"


def test_the_axis_contains_zero_if_a_gain_may_be_none() -> None:
    line = Line("gain", [(0, 0.1), (1, 0.02)], "c1", [(0, -0.08, 0.3), (1, 0.0, 0.04)])
    root = drawn(chart([line], label="x", ticks=(), begin=0, end=1, low=None))
    assert root.find(".//line[@class='zero']") is not None
    top, _, bottom = (float(span.text or "") for span in root.findall(".//div[@class='y-axis']/span"))
    assert top >= 0.3
    assert bottom <= -0.08


@pytest.mark.parametrize("values", [[], [None], [0.5], [None, 0.5]])
def test_too_little_for_a_line_is_a_dash(values: list[float | None]) -> None:
    assert "–" in sparkline(values, "x")


@pytest.mark.parametrize("values", [[0.0, 0.0], [0.5, 0.5, None], [1e-9, 1e9], [3, 1, 2]])
def test_a_small_line_stays_inside(values: list[float | None]) -> None:
    path = drawn(sparkline(values, NASTY)).find(".//path")
    assert path is not None
    for x, y in re.findall(r"([\d.]+) ([\d.]+)", path.get("d", "")):
        assert 0 <= float(x) <= 100
        assert 0 <= float(y) <= 30


def test_an_interval_is_cut_at_the_scale() -> None:
    root = drawn(interval(-0.5, 0.25, 2.0, (0, 1), NASTY, mark=0.75))
    ends = {it.get("class"): (it.get("x1"), it.get("x2")) for it in root.findall(".//line")}
    assert (ends["range"], ends["dot"], ends["mark"]) == (("0.0", "100.0"), ("25.0", "25.0"), ("75.0", "75.0"))


def test_columns_have_names_and_values() -> None:
    root = drawn(bars([0, 50, 100.0], ["1", "2", NASTY], "x", "%"))
    assert [rect.get("height") for rect in root.findall(".//rect")] == ["0.0", "29.0", "58.0"]
    assert "".join(root.findall(".//span")[2].itertext()) == f"{NASTY}100%"
    drawn(bars([], [], "nothing"))
