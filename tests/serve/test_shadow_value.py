"""The value of a policy in the shadow: sums against a plain version, the truth in its interval, records, the route."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import msgpack

from driftrank.serve.answers.shadow import shadow_of
from driftrank.serve.log.records import Final, Ranked
from driftrank.serve.ranking.explore import draw_ranks
from driftrank.serve.state.experiment import Experiment
from driftrank.wire import WarmRow
from tests.serve.harness import Harness

ORDER = "abcde"
LIKED = {"a": 0.1, "b": 0.3, "c": 0.4, "d": 0.2, "e": 0.05}


def drawn(users: random.Random, n: int, wanted: str, temperature: float) -> tuple[Ranked, Final]:
    """A list around the order of the caller, and a user of the cascade model."""
    ranks, chances = draw_ranks(len(ORDER), len(wanted), temperature, users.getrandbits(64))
    shown = [ORDER[rank] for rank in ranks]
    clicks = [place for place, item in enumerate(shown, 1) if users.random() < LIKED[item]][:1]
    instead = [] if shown == list(wanted) else list(wanted)
    ranked = Ranked("r", "q", f"e{n}", 1.0, 1, shown, "b", 0, arm="shadow", propensity=chances, instead=instead)
    return ranked, ended(n, clicks)


def ended(n: int, clicks: list[int]) -> Final:
    return Final("r", f"e{n}", 1.0, "feedback", clicks)


def value(wanted: str) -> float:
    return 1 - float(np.prod([1 - LIKED[item] for item in wanted]))


def folded(rows: list[tuple[Ranked, Final]]) -> Experiment:
    sums = Experiment()
    for ranked, final in rows:
        sums.count(1, ranked, final)
    return sums


def test_equals_the_plain_version():
    users = random.Random(5)
    rows = [drawn(users, n, "cba", 1.0) for n in range(400)]
    sums = folded(rows).shadow
    assert sums is not None
    clicked, at_risk = np.zeros(3), np.zeros(3)
    psi, stopped = [], []
    for ranked, final in rows:
        h = (clicked + 0.5) / (at_risk + 2)
        assert ranked.propensity is not None
        same = np.array(ranked.shown) == np.array(list("cba"))
        W = np.cumprod(same / np.array(ranked.propensity))
        f = final.clicks[0] if final.clicks else 4
        c = np.arange(1, 4) == f
        read = np.arange(1, 4) <= f
        rest = np.append(np.cumprod((1 - h)[::-1])[::-1][1:], 1)
        psi.append(1 - np.prod(1 - h) + (read * W * (c - h) * rest).sum())
        stopped.append(W[min(f, 3) - 1])
        at_risk += read * W
        clicked += c * W
    assert sums.lists == 400
    assert sums.value(1000).difference == pytest.approx(np.mean(psi), rel=1e-9)
    assert sum(sums.rewards) == sum(bool(final.clicks) for _, final in rows)
    assert sums.effective == pytest.approx(sum(stopped) ** 2 / np.square(stopped).sum(), rel=1e-9)
    assert sums.largest == pytest.approx(max(stopped))
    assert msgpack.decode(msgpack.encode(sums), type=type(sums)) == sums


def test_the_truth_is_in_the_interval():
    """Means of many runs are right for good and bad lists, and intervals that may be looked at any time hold."""
    for wanted in ("cbd", "eda"):
        errors, missed = [], 0
        for run in range(20):
            users = random.Random(run)
            sums = folded([drawn(users, n, wanted, 2.0) for n in range(1000)]).shadow
            assert sums is not None
            found, half, _ = sums.value(1000)
            errors.append(found - value(wanted))
            if not sums.few:
                missed += abs(found - value(wanted)) > half
                assert abs(sums.gain(1000).difference) < 1
        assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(20)
        assert missed <= 1


def test_rare_clicks_are_too_few():
    """Lists that suffice do not if one in a hundred has a click."""
    rows = [drawn(random.Random(n), n, "abc", 0.3) for n in range(400)]
    rare = [(ranked, final if n % 100 == 0 else ended(n, [])) for n, (ranked, final) in enumerate(rows)]
    often, seldom = folded(rows).shadow, folded(rare).shadow
    assert often is not None
    assert seldom is not None
    assert seldom.effective > 100
    assert (often.few, seldom.few) == (False, True)


# -- the service ---------------------------------------------------------------------------------------------------


def taught(folder: Path, **settings: Any) -> Harness:
    folder.mkdir()
    harness = Harness(folder, ranker=settings)
    harness.warmstart([WarmRow("q", [item], [1] if item in "de" else []) for item in "abcdeedd"])
    return harness


def records(harness: Harness) -> list[Ranked]:
    return [record for _, record in harness.log() if isinstance(record, Ranked)]


def test_records_have_what_the_policy_would_have_shown(tmp_path: Path):
    """The same as a live ranker shows for the same event; without exploration nothing is recorded."""
    with (
        taught(tmp_path / "shadow", mode="shadow", explore=1.0) as shadow,
        taught(tmp_path / "live") as live,
        taught(tmp_path / "plain", mode="shadow") as plain,
    ):
        for n in range(20):
            pinned = {"b": 2} if n % 3 == 0 else None
            for each in (shadow, live, plain):
                each.rank("q", ORDER, f"e{n}", pinned=pinned)
        for own, there, none in zip(records(shadow), records(live), records(plain), strict=True):
            assert own.policy_list == there.shown
            assert own.baseline_list == none.shown
            assert none.instead is None


def test_the_answer(tmp_path: Path):
    """Folded, so the same after a restart; refused until there is enough; begins again with another policy."""
    likes = {"a": 0.3, "b": 0.5, "c": 0.1, "d": 0.05, "e": 0.05}
    settings = {"policy": "CascadeTS", "k": 2, "mode": "shadow", "explore": 1.5}
    with Harness(tmp_path, ranker=settings) as harness:
        warm = [WarmRow("q", [item], [1] if n < 40 * like else []) for item, like in likes.items() for n in range(40)]
        harness.warmstart(warm)

        def answer() -> Any:
            return shadow_of(harness.state.rankers["default"])

        assert answer().refused == "few"
        users = random.Random(1)
        for n in range(700):
            ranking = harness.rank("q", ORDER, f"e{n}")
            clicked = [str(item.id) for item in ranking.items if users.random() < likes[str(item.id)]]
            harness.feedback(f"e{n}", clicked[:1])
            if n == 10:
                assert (answer().refused, answer().lists, answer().value) == ("few", 11, None)
        found = answer()
        assert found.refused is None
        assert found.lists == 700
        assert found.low < 1 - 0.5 * 0.7 < found.high
        assert found.gain.difference == pytest.approx(found.value - found.shown)
        assert found.gain.low < 1 - 0.5 * 0.7 - found.shown < found.gain.high
        harness.recover()
        assert answer() == found
        harness.put(**settings | {"policy": "CascadeUCB1"})
        assert answer().lists == 0


@pytest.mark.parametrize(
    ("settings", "code"),
    [({"mode": "live", "explore": 1.0}, "not-shadow"), ({"mode": "shadow"}, "no-propensities")],
)
def test_refused(tmp_path: Path, settings: dict[str, Any], code: str):
    with Harness(tmp_path, ranker=settings) as harness:
        harness.rank("q", ORDER, "e1")
        harness.feedback("e1", ["a"])
        found = shadow_of(harness.state.rankers["default"])
        assert (found.refused, found.lists, found.value) == (code, 0, None)
