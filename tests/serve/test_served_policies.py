"""Every policy of the registry can be served, and continues after a restart."""

from __future__ import annotations

import random

import pytest

from driftrank.policies.registry import policies
from tests.serve.harness import Harness, differences

SERVED = [name for name, cls in policies().items() if cls.__module__.startswith("driftrank.") and not cls.oracle]
pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


@pytest.mark.parametrize("name", SERVED)
def test_served(tmp_path, name):
    """Items come and go, rankings vary in length and exceed the horizon; some get no feedback."""
    with Harness(tmp_path, name, ranker={"horizon": 20, "wait": 100, "forget_items": 100}) as harness:
        chance = random.Random(2)
        items = list(range(6))
        for n in range(40):
            offered = chance.sample(items, chance.randint(1, 6)) if n % 3 == 0 else items
            shown = harness.shown("q", [str(item) for item in offered], f"e:{n}", k=chance.choice([None, 1, 2]))
            if n % 4:
                assert harness.outcome(f"e:{n}", shown[: n % 3], shown=len(shown)) in ("counted", "refused")
            if n % 10 == 9:
                harness.advance(60)
                items = [*items[1:], items[-1] + 1]
        harness.advance(100)
        before = harness.dump()
        assert harness.info().steps == 40
        state = harness.query("q")
        assert all(item.estimate is None or -1e9 < item.estimate < 1e9 for item in state.items)
        assert not differences(before, harness.dump_of_log())
        harness.restart()
        assert not differences(before, harness.dump())
        one = harness.rank("q", ["1", "7", "9"], "next")
        harness.recover()
        assert harness.rank("q", ["1", "7", "9"], "next") == one
        assert harness.outcome("next", [1]) == "counted"


def test_there_are_many():
    assert len(SERVED) >= 40
