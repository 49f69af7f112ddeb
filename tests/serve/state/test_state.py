"""The same log gives the same state: live, after a crash, from any checkpoint, and from the log alone."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.state.state import State
from driftrank.wire import ArmSettings, Feedback, FeedbackResult, Item, RankerSettings, RankRequest, WarmRow
from tests.serve.harness import Harness, differences, dump

QUERIES = ("shoes", "a/b", "ä")
ITEMS = ("a", "b", "7", 7, "c", -1)
POLICIES = (
    "CascadeUCB1",
    "CascadeDUCB:half_life=5m",
    "BubbleRank:horizon=1000",
    "RankedEXP3",
    "CascadeSoftmax",
    "PriorRegimeTS:hash_bits=6",
)
WAIT = 100


class Expected:
    """An impression in the model."""

    def __init__(
        self, query: str, shown: list[Any], arm: str, generation: tuple[int, int], deferred: bool, now: float
    ) -> None:
        self.query, self.shown, self.arm, self.generation = query, shown, arm, generation
        self.active = not deferred
        self.began = now
        self.waits = self.active  #: for feedback
        self.how: str | None = None  #: how it ended
        self.clicks: list[int] = []
        self.observed: int | None = None
        self.collected: tuple[set[int], list[Any]] | None = None
        self.sent: set[Any] = set()


class Traffic(RuleBasedStateMachine):
    """A service, the requests to it, and a plain model of its state."""

    @initialize(
        tiny=st.booleans(),
        policy=st.sampled_from(POLICIES),
        how=st.sampled_from(
            [{}, {"second_click": "update"}, {"silence": "drop"}, {"holdout": 0.5}, {"mode": "shadow"}]
        ),
    )
    def begin(self, tiny, policy, how):
        self.folder = tempfile.TemporaryDirectory()
        self.how = {"policy": policy, "k": 3, "wait": WAIT, "forget_items": 2 * WAIT} | how
        self.harness = Harness(Path(self.folder.name), tiny=tiny, ranker=self.how)
        self.impressions: dict[str, Expected] = {}
        self.generation = 0
        self.query_generations = dict.fromkeys(QUERIES, 0)
        self.there: dict[str, list[int]] = {}  #: query to steps and clicks
        self.steps = self.clicks = self.served = 0
        self.asked: dict[str, Any] = {}
        self.batches: set[tuple[str, int]] = set()
        self.saved: dict[str, tuple[bytes, int, int]] = {}
        self.saved_as: Any = None

    def teardown(self):
        if hasattr(self, "harness"):
            self.equals_the_log()
            self.harness.crash()
            self.folder.cleanup()

    # -- users -----------------------------------------------------------------------------------------------------

    @rule(
        query=st.sampled_from(QUERIES),
        items=st.lists(st.sampled_from(ITEMS), min_size=1, max_size=6, unique=True),
        event=st.integers(0, 30),
        defer=st.booleans(),
        k=st.sampled_from([None, 1, 2]),
    )
    def rank(self, query, items, event, defer, k):
        name = f"e:{event}"
        before = self.impressions.get(name)
        if k is not None and k > self.how["k"]:
            k = None
        asked = query, frozenset(items), k
        if before is not None and self.asked[name] != asked:
            with self.harness.refused(409, "used for another query"):
                self.harness.rank(query, items, name, k=k)
            return
        self.asked[name] = asked
        answer = self.harness.rank(query, items, name, defer=defer and event % 3 == 0, k=k)
        shown = [item.id for item in answer.items]
        if before is not None:
            assert (before.query, before.shown) == (query, shown)
            return
        assert len(shown) == min(self.how["k"] if k is None else k, len(items))
        assert set(shown) <= set(items)
        self.served += 1
        self.there.setdefault(query, [0, 0])
        (arm,) = {ranked.arm for _, ranked in self.harness.log()[-1:]}
        generation = (self.generation, self.query_generations[query])
        self.impressions[name] = Expected(
            query, shown, arm, generation, defer and event % 3 == 0, self.harness.service.now()
        )

    @rule(
        event=st.integers(0, 32),
        clicks=st.sets(st.integers(1, 3), max_size=2),
        observed=st.sampled_from([None, None, 1, 2, 3]),
    )
    def feedback(self, event, clicks, observed):
        name = f"e:{event}"
        expected = self.impressions.get(name)
        if expected is not None:
            n = len(expected.shown)
            clicks = {click for click in clicks if click <= n}
            observed = None if observed is None or observed > n or (clicks and observed < max(clicks)) else observed
        positions = sorted(clicks)
        result = self.harness.feedback(name, positions, shown=observed)
        if expected is None:
            assert result.outcome == "orphan"
            return
        if observed == len(expected.shown):
            observed = None
        assert result.outcome == self._expected(expected, positions, observed), result

    def _expected(self, e, clicks, observed):
        if not e.active:
            return "inactive"
        if e.how is not None:
            if e.how != "feedback":
                return "late"
            return "duplicate" if (e.clicks, e.observed) == (clicks, observed) else "refused"
        if self.harness.clock.now >= e.began + WAIT:
            return "late"
        if self.how.get("second_click") == "update" or e.collected is not None:
            again = (tuple(clicks), observed) in e.sent
            e.sent.add((tuple(clicks), observed))
            if e.waits:
                e.collected = e.collected or (set(), [])
                e.collected[0].update(clicks)
                e.collected[1].append(observed)
            if e.arm != "holdout" and not self._current(e):
                return "forgotten"
            return "duplicate" if again else "collected"
        counts = e.waits
        self._finish(e, "feedback", clicks, observed)
        if e.arm == "holdout":
            return "holdout"
        return "counted" if counts and self._current(e) else "forgotten"

    def _current(self, e):
        return e.generation == (self.generation, self.query_generations[e.query]) and e.query in self.there

    def _finish(self, e, how, clicks, observed):
        if e.waits and how != "dropped" and e.arm != "holdout" and self._current(e):
            self.steps += 1
            self.clicks += len(clicks)
            self.there[e.query][0] += 1
            self.there[e.query][1] += len(clicks)
        e.how, e.clicks, e.observed, e.waits = how, clicks, observed, False

    @rule(event=st.integers(0, 30).map(lambda n: n // 3 * 3))
    def activate(self, event):
        expected = self.impressions.get(f"e:{event}")
        if expected is None:
            with self.harness.refused(404):
                self.harness.activate(f"e:{event}")
            return
        outcome = self.harness.activate(f"e:{event}").outcome
        assert outcome == ("duplicate" if expected.active else "activated")
        if not expected.active:
            expected.active = expected.waits = True
            expected.began = self.harness.service.now()

    @rule(seconds=st.sampled_from([-50, 1, 10, WAIT // 2, WAIT, 3 * WAIT]))
    def time_passes(self, seconds):
        if seconds < 0:  # the clock is set back: the service's time stands still
            self.harness.clock.now = max(self.harness.state.clock, self.harness.clock.now + seconds)
            return
        self.harness.advance(seconds)
        now = self.harness.service.now()  # not the clock, which may be behind the last time that was given out
        for e in self.impressions.values():
            if e.waits and now >= e.began + WAIT:
                if e.collected is not None:
                    observed = None if None in e.collected[1] else max(e.collected[1])
                    self._finish(e, "feedback", sorted(e.collected[0]), observed)
                else:
                    self._finish(e, "silence" if self.how.get("silence") != "drop" else "dropped", [], None)

    # -- administrators --------------------------------------------------------------------------------------------

    def _restart(self):
        self.generation += 1
        self.there.clear()
        self.batches.clear()
        self.steps = self.clicks = self.served = 0

    @rule()
    def reset_ranker(self):
        self.harness.reset()
        self._restart()

    @rule(query=st.sampled_from(QUERIES), gone=st.booleans())
    def reset_query(self, query, gone):
        if query not in self.there:
            with self.harness.refused(404, "has no such query"):
                self.harness.reset(query, gone=gone)
            return
        self.harness.reset(query, gone=gone)
        self.query_generations[query] += 1
        self.there[query] = [0, 0]
        if gone:
            del self.there[query]

    @rule(
        change=st.sampled_from(
            [{"policy": p} for p in POLICIES]
            + [
                {"seed": 1},
                {"second_click": "update"},
                {"second_click": "refuse"},
                {"silence": "drop"},
                {"silence": "no_click"},
            ]
        )
    )
    def put_ranker(self, change):
        before, self.how = self.how, self.how | change
        self.harness.put(**self.how)
        if any(before.get(name, 0) != self.how.get(name, 0) for name in ("policy", "seed")):
            self._restart()

    @rule()
    def delete_ranker(self):
        self.harness.delete("default")
        with self.harness.refused(404, "no such ranker"):
            self.harness.rank("x", ["a"])
        self.harness.put(**self.how)
        self._restart()
        self.impressions.clear()  # they do not belong to another ranker of the same name

    @rule(
        batch=st.sampled_from("xyz"),
        query=st.sampled_from(QUERIES),
        ranking=st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4, unique=True),
        click=st.integers(0, 4),
        n=st.integers(1, 3),
    )
    def warmstart(self, batch, query, ranking, click, n):
        clicks = [click] if 1 <= click <= len(ranking) else []
        counted = self.harness.warmstart([WarmRow(query, ranking, clicks, time=1.0)] * n, batch)
        new = [i for i in range(n) if (batch, i) not in self.batches]
        self.batches |= {(batch, i) for i in new}
        assert (counted.counted, counted.duplicates) == (len(new), n - len(new))
        for _ in new:
            self.steps += 1
            clicked = len([c for c in clicks if c <= self.how["k"]])
            self.clicks += clicked
            its = self.there.setdefault(query, [0, 0])
            its[0] += 1
            its[1] += clicked

    @rule()
    def save(self):
        self.saved = {
            query: (state, *self.there[query], self.harness.query(query).lists)
            for query, state in self.harness.export().items()
        }
        assert self.saved.keys() == self.there.keys()
        self.saved_as = (self.how["policy"], self.how["k"])

    @precondition(lambda self: getattr(self, "saved", None))
    @rule(data=st.data())
    def import_(self, data):
        query = data.draw(st.sampled_from(sorted(self.saved)))
        state, steps, clicks, lists = self.saved[query]
        if self.saved_as != (self.how["policy"], self.how["k"]):
            with self.harness.refused(422, "this ranker has"):
                self.harness.import_({query: state})
            return
        before = self.harness.query(query).lists if query in self.there else 0
        self.harness.import_({query: state})
        self.served += lists - before
        self.steps += steps - self.there.get(query, [0, 0])[0]
        self.clicks += clicks - self.there.get(query, [0, 0])[1]
        self.query_generations[query] += 1
        self.there[query] = [steps, clicks]

    # -- maintenance -----------------------------------------------------------------------------------------------

    @rule()
    def checkpoint(self):
        self.harness.checkpoint()

    @rule()
    def evict(self):
        self.harness.evict()

    @rule()
    def drop_outdated(self):
        self.harness.drop_outdated()
        assert len(self.harness.store.snapshot_names("q/")) <= len(self.there)

    @rule()
    def crash(self):
        before = self.harness.dump()
        self.harness.recover()
        assert not differences(before, self.harness.dump())

    @rule()
    def restart(self):
        before = self.harness.dump()
        assert self.harness.restart().records == 0
        assert not differences(before, self.harness.dump())

    @rule()
    def equals_the_log(self):
        assert not differences(self.harness.dump(), self.harness.dump_of_log())

    # -- invariants ------------------------------------------------------------------------------------------------

    @invariant()
    def counts(self):
        if not hasattr(self, "harness"):
            return
        info = self.harness.info()
        assert info.queries == len(self.there)
        assert (info.lists, info.steps, info.clicks) == (self.served, self.steps, self.clicks)
        assert info.pending == sum(e.waits for e in self.impressions.values())
        assert self.harness.state.queries.nbytes == sum(query.nbytes for query in self.harness.state.queries.values())

    @invariant()
    def queries(self):
        if not hasattr(self, "harness"):
            return
        assert self.harness.names() == sorted(self.there)
        for query, (steps, clicks) in self.there.items():
            state = self.harness.query(query)
            assert (state.steps, state.clicks) == (steps, clicks)


Traffic.TestCase.settings = settings(
    max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTraffic = Traffic.TestCase


def _busy(folder: Path, policy: str = "CascadeUCB1", *, reset: bool = True) -> Harness:
    """A service whose log has records of all kinds."""
    harness = Harness(folder, policy, ranker={"wait": WAIT, "forget_items": 2 * WAIT})
    for n in range(4):
        harness.rank("shoes", ["a", "b", "c", n], f"e:{n}")
    harness.feedback("e:0", [1])
    harness.rank("hats", ["x", "y"], "h:1", defer=True)
    harness.activate("h:1")
    harness.advance(50)
    harness.rank("shoes", ["b", "d"], "e:5")
    harness.reset("hats")
    harness.warmstart([WarmRow("boots", ["a", "b"], [1])] * 2, "log")
    kept = harness.export()
    harness.advance(60)
    harness.feedback("e:5", ["d"])
    harness.reset("boots", gone=True)
    harness.put(policy=policy, k=3, wait=WAIT, forget_items=2 * WAIT, second_click="update")
    harness.rank("boots", ["a", "c"], "b:1")
    harness.feedback("b:1", [1])
    harness.import_({"shoes": kept["shoes"]})
    harness.feedback("b:1", [2])
    harness.advance(500)
    harness.rank("shoes", ["z"], "e:6")
    harness.rank("other", [1, 2, 3, 4], "o:1")
    if not reset:
        harness.feedback("o:1", [2])
        return harness
    harness.reset()
    harness.rank("other", [1, 2, 3, 4], "o:2")
    return harness


@pytest.mark.parametrize("policy", ["CascadeUCB1", "PriorRegimeTS:hash_bits=6"])
@pytest.mark.parametrize("reset", [True, False])
def test_from_every_checkpoint_the_same_state(tmp_path, policy, reset):
    """A checkpoint after n records, and snapshots of queries from then or later, as a crash leaves them."""
    with _busy(tmp_path, policy, reset=reset) as harness:
        store, log = harness.store, harness.log()
        whole = harness.dump_of_log()
        assert not differences(whole, harness.dump())
        assert len(log) >= 28
        for n, (seq, _) in enumerate(log, 1):
            for later in {n, n + 1, n + 2, n + 5, n + 9, len(log)}:
                names = store.snapshot_names("", limit=10_000)
                store.put_snapshots([], names)
                state = State(store, Metrics())
                for at, record in log[:n]:
                    state.apply(at, record)
                checkpoint = [copy.snapshot() for copy in (state.checkpoint(), *state.changed_models())]
                store.put_snapshots(state.snapshots(list(state.queries.dirty)))  # evicted before
                for at, record in log[n:later]:
                    state.apply(at, record)
                written = state.snapshots(list(state.queries.dirty))
                store.put_snapshots([*written, *checkpoint])
                state = State(store, Metrics())
                state.restore()
                assert state.seq == seq
                for at, record in log[n:]:
                    state.apply(at, record)
                state.recount()
                names = {"default": sorted(whole["default"]["of queries"])}
                assert not differences(whole, dump(state, names)), (n, later)


def test_an_impression_requested_twice_at_the_same_time(tmp_path):
    """Two calls with one event id and items in another order, before either is in the log."""
    with Harness(tmp_path) as harness:

        async def both() -> Any:
            requests = [RankRequest("q", items, event_id="e") for items in (["a", "b"], ["b", "a"])]
            calls = [harness.service.rank("default", [request]) for request in requests]
            return await asyncio.gather(*calls)

        one, other = harness.run(both())
        assert one == other
        assert {item.id for item in one[0].items} == {"a", "b"}
        assert not differences(harness.dump(), harness.dump_of_log())
        one, other = harness.run(
            harness.service.rank("default", [RankRequest("p", i, event_id="f") for i in (["a", "b"], ["b", "a"])])
        )
        assert one == other
        assert not differences(harness.dump(), harness.dump_of_log())


def test_first_impressions_of_a_query_at_the_same_time(tmp_path):
    with Harness(tmp_path) as harness:

        async def many() -> None:
            requests = [RankRequest("q", ["a", n], event_id=f"e{n}") for n in range(10)]
            await asyncio.gather(*[harness.service.rank("default", [request]) for request in requests])

        harness.run(many())
        assert harness.info().queries == 1
        assert harness.info().lists == 10
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_ranker_that_changes_during_its_first_impression(tmp_path):
    with Harness(tmp_path) as harness:

        async def both() -> None:
            put = harness.service.put_ranker("default", RankerSettings(policy="CascadeUCB1", k=2, seed=5), discard=True)
            await asyncio.gather(harness.service.rank("default", [RankRequest("q", list("abcd"))]), put)
            await asyncio.gather(put_back(), harness.service.rank("default", [RankRequest("p", list("abcd"))]))

        async def put_back() -> None:
            await harness.service.put_ranker("default", RankerSettings(policy="CascadeUCB1", k=3, seed=6), discard=True)

        harness.run(both())
        harness.rank("q", list("abcd"))
        assert not differences(harness.dump(), harness.dump_of_log())
        harness.recover()
        assert not differences(harness.dump(), harness.dump_of_log())


def test_an_import_while_the_policy_changes(tmp_path):
    with Harness(tmp_path) as harness:
        harness.rank("q", list("abcd"))
        state = harness.export()["q"]

        async def both() -> None:
            put = harness.service.put_ranker("default", RankerSettings(policy="CascadeDUCB", k=2), discard=True)
            await asyncio.gather(put, harness.transfer.import_("default", [("p", state)]))

        harness.run(both())
        harness.rank("p", list("abcd"))
        assert {type(query.learner.policy).__name__ for query in harness.state.queries.values()} == {"CascadeDUCB"}
        assert not differences(harness.dump(), harness.dump_of_log())


@pytest.mark.parametrize(("one", "other"), [("BatchRank", "RankedEXP3"), ("CascadeSoftmax", "BubbleRank")])
@pytest.mark.parametrize("what", ["set", "reset", "gone", "deleted", "import"])
def test_an_impression_ranked_before_a_reset_and_recorded_after(tmp_path, one, other, what):
    """The memo of an impression is for the policy that ranked it: another could take it for a slot that it has not."""
    how = {"horizon": 1000, "wait": 100}
    with Harness(tmp_path, one, ranker=how) as harness:
        for n in range(40):  # a learner with many slots
            harness.rank("q", list(range(n, n + 4)), f"e:{n}")
            harness.feedback(f"e:{n}", [1])
        items = list(range(40))
        state = harness.export()["q"]

        async def both() -> Any:
            settings = RankerSettings(policy=other, k=3, **how)
            service = harness.service

            def put() -> Any:
                return service.append([service._changes.setting_record("default", settings, "")])

            before = {
                "set": lambda: [put()],
                "reset": lambda: [service.reset("default", "q")],
                "gone": lambda: [service.reset("default", "q", gone=True)],
                "deleted": lambda: [service.delete_ranker("default"), put()],
                "import": lambda: [harness.transfer.import_("default", [("q", state)])],
            }[what]()
            ranked = service.rank("default", [RankRequest("q", items, event_id="between")])
            return (await asyncio.gather(*before, ranked))[-1]

        (answer,) = harness.run(both())
        assert len(answer.items) == 3
        harness.rank("q", [1, 2], "after")
        assert harness.outcome("between", [1]) == ("orphan" if what == "deleted" else "forgotten")
        assert harness.outcome("after", [1]) == "counted"
        harness.advance(200)
        assert harness.info().pending == 0
        assert not differences(harness.dump(), harness.dump_of_log())
        harness.recover()
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_deleted_ranker_leaves_memory_at_once(tmp_path):
    """Nothing of it waits for the garbage collector, which looks at old objects rarely."""
    with Harness(tmp_path) as harness:
        harness.put("made", arms={"b": ArmSettings(share=0.5)})
        harness.rank("q", list("abc"), "e", ranker="made")
        made = weakref.ref(harness.state.rankers["made"])
        gc.collect()
        gc.disable()
        try:
            harness.delete("made")
            harness.commit()
            assert made() is None
        finally:
            gc.enable()


# -- outcomes: decided when a record is folded, in the order of the log ------------------------------------------------


def test_feedback_before_a_reset_in_one_commit_is_counted(tmp_path):
    with Harness(tmp_path) as harness:
        harness.rank("q", list("abc"), "e")
        harness.rank("q", list("abc"), "f")

        async def all_at_once() -> Any:
            service = harness.service
            feedbacks = [service.feedback("default", [Feedback(event, [1])]) for event in "ef"]
            return await asyncio.gather(feedbacks[0], service.reset("default", "q"), feedbacks[1])

        (before,), _, (after,) = harness.run(all_at_once())
        assert (before.outcome, after.outcome) == ("counted", "forgotten")
        assert harness.service.metrics.count("feedback", ("default", "counted")) == 1
        assert harness.service.metrics.count("feedback", ("default", "forgotten")) == 1


@pytest.mark.parametrize(
    ("collected", "clicks", "outcome"), [([1], [1], "duplicate"), ([1], [2], "refused"), (None, [1], "late")]
)
def test_clicks_recorded_after_the_end_of_their_window(tmp_path, collected, clicks, outcome):
    """They are checked before the end is recorded, but follow it in the log."""
    with Harness(tmp_path, ranker={"wait": 100, "second_click": "update"}) as harness:
        harness.rank("q", list("abc"), "e")
        if collected is not None:
            harness.feedback("e", collected)

        async def both() -> Any:
            harness.clock.now += 100
            ends = asyncio.ensure_future(harness.service.maintenance.end_feedback_windows())
            await asyncio.sleep(0)  # the end is queued
            harness.service._now = harness.clock.now = harness.clock.now - 50  # as if it had been checked before
            (result,) = await harness.service.feedback("default", [Feedback("e", clicks)])
            await ends
            return result

        assert harness.run(both()).outcome == outcome
        assert harness.info().steps == 1


def test_feedback_that_the_learner_rejects_is_counted_and_explained(tmp_path):
    """First impressions with features of different lengths, ranked before either was recorded."""
    with Harness(tmp_path, "CascadeLinTS", ranker={"k": 1}) as harness:

        async def both() -> None:
            rows = {"e": [1.0, 0.0], "f": [1.0]}
            requests = [RankRequest("q", [Item(event, row)], event_id=event) for event, row in rows.items()]
            await asyncio.gather(*[harness.service.rank("default", [request]) for request in requests])

        harness.run(both())
        assert harness.feedback("e", [1]) == FeedbackResult("e", "counted", 1)
        rejected = harness.feedback("f", [1])
        assert (rejected.outcome, rejected.clicks) == ("counted", 1)
        assert rejected.detail.startswith("not learnt: features")
        assert harness.info().steps == 1
