"""The difference of a ranker's own arm and the holdout after their shared prefix."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrank.evaluation.sequences import BUCKETS, mixture_width
from driftrank.kernels.rng import key_of
from driftrank.serve.answers.experiment import compared
from driftrank.serve.log.records import Final, Ranked, decode, encode
from driftrank.serve.state.after_prefix import shared_prefix
from driftrank.serve.state.experiment import Experiment, Pair, Sums
from driftrank.wire import WarmRow
from tests.reference import sequences as plain
from tests.serve.harness import Harness

BASELINE = ["a", "b", "c"]
SHARES = {"live": 0.5, "holdout": 0.2, "b": 0.3}


def impression(n: int, arm: str, shown: list[str], other: list[str] | None, share: float) -> Ranked:
    given: dict[str, Any] = {"instead" if arm == "holdout" else "baseline": [] if other == shown else other}
    why = "l" * len(shown)
    return Ranked("r", "q", f"e{n}", 1.0, 1, list(shown), why, 0, arm=arm, share=share, **given)  # type: ignore[arg-type]


def ended(n: int, clicks: list[int]) -> Final:
    return Final("r", f"e{n}", 1.0, "feedback", clicks)


def test_equals_the_plain_version():
    """With three arms, several clicks, lists that differ at any place or not at all, and some that are unknown."""
    users, pair = random.Random(3), Pair("live", "holdout", 2000, 0)
    sums = Experiment(pairs=[pair, Pair("b", "holdout", 2000, 0)], arms={arm: Sums() for arm in SHARES})
    below, above, differ, arms, shares, bucket = [], [], [], [], [], []
    for n in range(1500):
        (arm,) = users.choices(list(SHARES), SHARES.values())
        (policy,) = users.choices(["abc", "abd", "acb", "dab", None], [3, 3, 2, 1, 1])
        other = None if policy is None else BASELINE if arm != "holdout" else list(policy)
        shown = BASELINE if arm == "holdout" or policy is None else list(policy)
        clicks = [at for at in (1, 2, 3) if users.random() < (0.3 if arm == "holdout" else 0.4)]
        same = 0 if policy is None else {"abc": 3, "abd": 2, "acb": 1, "dab": 0}[policy]
        sums.count(1, impression(n, arm, shown, other, SHARES[arm]), ended(n, clicks))
        below.append(sum(click > same for click in clicks))
        above.append(sum(click <= same for click in clicks))
        differ.append(same < 3)
        arms.append(list(SHARES).index(arm))
        shares.append(SHARES[arm])
        bucket.append(key_of(f"bucket/e{n}") % BUCKETS)
    psi = plain.below_terms(below, above, differ, arms, shares, 0, 1)
    half = plain.jackknife(psi, bucket) * np.sqrt(1500) * mixture_width(1500, 2000)
    found = compared(sums, pair).after_prefix
    assert found is not None
    assert found.clicks is not None
    assert found.clicks.difference == pytest.approx(psi.mean(), rel=1e-9)
    assert (found.clicks.low, found.clicks.high) == pytest.approx((psi.mean() - half, psi.mean() + half), rel=1e-9)
    assert found.differing == pytest.approx(np.mean([d for d, arm in zip(differ, arms, strict=True) if arm < 2]))
    assert compared(sums, pair).best_known == found.clicks
    assert compared(sums, sums.pairs[1]).after_prefix is None  # only the ranker's own arm has one


def halves(likes: dict[str, float], n: int, choice: bool = False) -> Experiment:
    """Lists ab and ac in equal shares. ``choice``: clicks are on a, and depend on the second item."""
    users, sums = random.Random(1), Experiment(pairs=[Pair("live", "holdout", 20_000, 0)])
    for i in range(n):
        live = users.random() < 0.5
        shown, other = (["a", "b"], ["a", "c"]) if live else (["a", "c"], ["a", "b"])
        clicks = [at for at, item in enumerate(shown, 1) if users.random() < likes[item]][:1]
        if choice:
            clicks = [1] if users.random() < likes[shown[1]] else []
        ranked = impression(i, "live" if live else "holdout", shown, other, 0.5)
        sums.count(1, ranked, ended(i, clicks))
    return sums


def test_variances():
    """In halves, lists ab and ac of a cascade: a term has the variance .95, after the shared prefix .31."""
    (pair,) = halves({"a": 0.5, "b": 0.3, "c": 0.1}, 20_000).pairs
    after = pair.after_prefix(pair.after.below) if pair.after else None
    assert after is not None
    assert pair.estimate(pair.clicks).sd ** 2 == pytest.approx(0.95, rel=0.2)  # from 200 buckets
    assert after.sd**2 == pytest.approx(0.31, rel=0.2)
    assert after.difference == pytest.approx(0.1, abs=4 * (0.31 / 20_000) ** 0.5)


def test_users_who_do_not_read_from_the_top_are_refused():
    sums = halves({"a": 0.0, "b": 0.2, "c": 0.5}, 4000, choice=True)
    found = compared(sums, sums.pairs[0])
    assert found.after_prefix is not None
    assert (found.after_prefix.refused, found.after_prefix.clicks) == ("not-top-down", None)
    assert found.best_known == found.clicks is not None


def test_few():
    sums = halves({"a": 0.5, "b": 0.3, "c": 0.1}, 150)
    assert compared(sums, sums.pairs[0]).refused == "few"
    assert compared(sums, sums.pairs[0]).best_known is None


# -- records -------------------------------------------------------------------------------------------------------


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with Harness(tmp_path, ranker={"holdout": 0.3, "explore": 0.5}) as harness:
        yield harness


def last(harness: Harness) -> Ranked:
    return next(record for _, record in harness.log()[::-1] if isinstance(record, Ranked))


def test_what_the_other_would_have_shown(harness: Harness, tmp_path: Path):
    """For the same event, a service with another share of the holdout shows what this one has recorded."""
    (tmp_path / "other").mkdir()
    with Harness(tmp_path / "other", ranker={"holdout": 0.95, "explore": 0.5}) as other:
        arms = set()
        for each in (harness, other):
            each.warmstart([WarmRow("q", [item], [1] if item in "ed" else []) for item in "abcdeedd"])
        for n in range(60):
            pinned = {"d": 2} if n % 3 == 0 else None
            for each in (harness, other):
                each.rank("q", "abcde", f"e{n}", pinned=pinned)
            one, two = last(harness), last(other)
            arms.add((one.arm, two.arm))
            if one.arm == "live" and two.arm == "holdout":
                assert one.shown == two.policy_list
                assert one.baseline_list == two.shown
                assert shared_prefix(one) == shared_prefix(two)
        assert ("live", "holdout") in arms


def test_a_list_shown_again_keeps_what_it_is_compared_with(tmp_path: Path):
    with Harness(tmp_path, ranker={"holdout": 0.5, "stable": 600}) as harness:
        for n in range(20):
            harness.rank("q", "abcde", f"e{n}", subject=f"s{n}")
            first = last(harness)
            harness.feedback(f"e{n}", ["e"] if "e" in first.shown else [])
            harness.rank("q", "edcba", f"again{n}", subject=f"s{n}")
            assert (last(harness).shown, last(harness).repeats > 0) == (first.shown, True)
            assert (last(harness).baseline, last(harness).instead) == (first.baseline, first.instead)
            harness.rank("q", "abcde", f"page{n}", subject=f"s{n}", offset=3)
            assert (last(harness).baseline, last(harness).instead) == (None, None)


def test_records_of_earlier_versions():
    old = decode(
        b'{"kind":"ranked","ranker":"r","query":"q","event":"e","time":1.0,"step":1,"shown":["a","b"],"why":"ll","key":1}'
    )
    assert isinstance(old, Ranked)
    assert (old.baseline_list, old.policy_list, shared_prefix(old)) == (None, None, 0)
    held = decode(encode(old).replace(b'"key":1', b'"key":1,"arm":"holdout"'))
    assert isinstance(held, Ranked)
    assert (held.baseline_list, held.policy_list, shared_prefix(held)) == (["a", "b"], None, 0)
