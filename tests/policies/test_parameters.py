from __future__ import annotations

import math

import pytest

from driftrank.policies.parameters import is_duration, seconds


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("90s", 90),
        ("15m", 900),
        ("24h", 86_400),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("0.5h", 1_800),
        (30, 30),
        (0.25, 0.25),
    ],
)
def test_seconds(written, expected):
    assert seconds("half_life", written) == expected


@pytest.mark.parametrize(
    "written",
    [
        "",
        "7",
        "d",
        "7 d",
        "-7d",
        "7D",
        "1e3s",
        ".5h",
        "7days",
        "0s",
        "0.0h",
        "inf",
        0,
        -1,
        math.nan,
        math.inf,
        None,
        True,
    ],
)
def test_bad_durations(written):
    with pytest.raises(ValueError, match="half_life"):
        seconds("half_life", written)


def test_durations():
    assert [w for w in ("24h", "auto", "24", 24, None, "1.5w", "h") if is_duration(w)] == ["24h", "1.5w"]
