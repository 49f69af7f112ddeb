"""The same log, the same state: live, after a crash, from any checkpoint, and from the log alone."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from driftrank.serve.fold import Fold
from driftrank.serve.metrics import Metrics
from driftrank.wire import RankerSettings, RankRequest, WarmRow
from tests.serve.house import House, differences, state_of

QUERIES = ("shoes", "a/b", "ä")
ITEMS = ("a", "b", "7", 7, "c", -1)
POLICIES = ("CascadeUCB1", "CascadeDUCB:half_life=5m", "BubbleRank:horizon=1000", "RankedEXP3", "CascadeSoftmax")
WAIT = 100


class Expected:
    """What the model knows of a list."""

    def __init__(
        self, query: str, shown: list[Any], arm: str, life: tuple[int, int], deferred: bool, now: float
    ) -> None:
        self.query, self.shown, self.arm, self.life = query, shown, arm, life
        self.active = not deferred
        self.began = now
        self.waits = self.active  #: for clicks
        self.how: str | None = None  #: it ended
        self.clicks: list[int] = []
        self.looked: int | None = None
        self.collected: tuple[set[int], list[Any]] | None = None
        self.sent: set[Any] = set()


class Life(RuleBasedStateMachine):
    """A service, what is done with it, and a plain model of what should have come of that."""

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
        self.house = House(Path(self.folder.name), tiny=tiny, ranker=self.how)
        self.events: dict[str, Expected] = {}
        self.generation = 0
        self.lives = dict.fromkeys(QUERIES, 0)
        self.there: dict[str, list[int]] = {}  #: query to steps and clicks
        self.steps = self.clicks = self.lists = 0
        self.batches: set[tuple[str, int]] = set()
        self.saved: dict[str, tuple[bytes, int, int]] = {}
        self.saved_as: Any = None

    def teardown(self):
        if hasattr(self, "house"):
            self.same_as_the_log()
            self.house.crash()
            self.folder.cleanup()

    # -- what users do -----------------------------------------------------------------------------------------------

    @rule(
        query=st.sampled_from(QUERIES),
        items=st.lists(st.sampled_from(ITEMS), min_size=1, max_size=6, unique=True),
        event=st.integers(0, 30),
        defer=st.booleans(),
        k=st.sampled_from([None, 1, 2]),
    )
    def rank(self, query, items, event, defer, k):
        name = f"e:{event}"
        before = self.events.get(name)
        if k is not None and k > self.how["k"]:
            k = None
        if before is not None and before.query != query:
            with self.house.refused(409, "used for another query"):
                self.house.rank(query, items, name)
            return
        answer = self.house.rank(query, items, name, defer=defer and event % 3 == 0, k=k)
        shown = [item.id for item in answer.items]
        if before is not None:
            assert (before.query, before.shown) == (query, shown)
            return
        assert len(shown) == min(self.how["k"] if k is None else k, len(items))
        assert set(shown) <= set(items)
        self.lists += 1
        self.there.setdefault(query, [0, 0])
        (arm,) = {ranked.arm for _, ranked in self.house.log()[-1:]}
        life = (self.generation, self.lives[query])
        self.events[name] = Expected(query, shown, arm, life, defer and event % 3 == 0, self.house.clock.now)

    @rule(
        event=st.integers(0, 32),
        clicks=st.sets(st.integers(1, 3), max_size=2),
        looked=st.sampled_from([None, None, 1, 2, 3]),
    )
    def feedback(self, event, clicks, looked):
        name = f"e:{event}"
        expected = self.events.get(name)
        if expected is not None:
            n = len(expected.shown)
            clicks = {click for click in clicks if click <= n}
            looked = None if looked is None or looked > n or (clicks and looked < max(clicks)) else looked
        positions = sorted(clicks)
        result = self.house.feedback(name, positions, shown=looked)
        if expected is None:
            assert result.outcome == "orphan"
            return
        if looked == len(expected.shown):
            looked = None
        assert result.outcome == self._expected(expected, positions, looked), result

    def _expected(self, e, clicks, looked):
        if not e.active:
            return "inactive"
        if e.how is not None:
            if e.how != "feedback":
                return "late"
            return "duplicate" if (e.clicks, e.looked) == (clicks, looked) else "refused"
        if self.house.clock.now >= e.began + WAIT:
            return "late"
        if self.how.get("second_click") == "update" or e.collected is not None:
            again = (tuple(clicks), looked) in e.sent
            e.sent.add((tuple(clicks), looked))
            if e.waits:
                e.collected = e.collected or (set(), [])
                e.collected[0].update(clicks)
                e.collected[1].append(looked)
            if e.arm != "holdout" and not self._alive(e):
                return "forgotten"
            return "duplicate" if again else "collected"
        counts = e.waits
        self._finish(e, "feedback", clicks, looked)
        if e.arm == "holdout":
            return "holdout"
        return "counted" if counts and self._alive(e) else "forgotten"

    def _alive(self, e):
        return e.life == (self.generation, self.lives[e.query]) and e.query in self.there

    def _finish(self, e, how, clicks, looked):
        if e.waits and how != "dropped" and e.arm != "holdout" and self._alive(e):
            self.steps += 1
            self.clicks += len(clicks)
            self.there[e.query][0] += 1
            self.there[e.query][1] += len(clicks)
        e.how, e.clicks, e.looked, e.waits = how, clicks, looked, False

    @rule(event=st.integers(0, 30).map(lambda n: n // 3 * 3))
    def activate(self, event):
        expected = self.events.get(f"e:{event}")
        if expected is None:
            with self.house.refused(404):
                self.house.activate(f"e:{event}")
            return
        outcome = self.house.activate(f"e:{event}").outcome
        assert outcome == ("duplicate" if expected.active else "activated")
        if not expected.active:
            expected.active = expected.waits = True
            expected.began = self.house.clock.now

    @rule(seconds=st.sampled_from([-50, 1, 10, WAIT // 2, WAIT, 3 * WAIT]))
    def time_passes(self, seconds):
        if seconds < 0:  # the clock is set back: the service's time stands still
            self.house.clock.now = max(self.house.fold.clock, self.house.clock.now + seconds)
            return
        self.house.pass_(seconds)
        for e in self.events.values():
            if e.waits and self.house.clock.now >= e.began + WAIT:
                if e.collected is not None:
                    looked = None if None in e.collected[1] else max(e.collected[1])
                    self._finish(e, "feedback", sorted(e.collected[0]), looked)
                else:
                    self._finish(e, "silence" if self.how.get("silence") != "drop" else "dropped", [], None)

    # -- what admins do ----------------------------------------------------------------------------------------------

    def _anew(self):
        self.generation += 1
        self.there.clear()
        self.batches.clear()
        self.steps = self.clicks = self.lists = 0

    @rule()
    def reset_ranker(self):
        self.house.reset()
        self._anew()

    @rule(query=st.sampled_from(QUERIES), gone=st.booleans())
    def reset_query(self, query, gone):
        if query not in self.there:
            with self.house.refused(404, "knows nothing of it"):
                self.house.reset(query, gone=gone)
            return
        self.house.reset(query, gone=gone)
        self.lives[query] += 1
        self.there[query] = [0, 0]
        if gone:
            del self.there[query]

    @rule(
        change=st.sampled_from(
            [{"policy": p} for p in POLICIES]
            + [
                {"k": 2},
                {"k": 3},
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
        self.house.put(**self.how)
        if any(before.get(name, 0) != self.how.get(name, 0) for name in ("policy", "k", "seed")):
            self._anew()

    @rule()
    def delete_ranker(self):
        self.house.delete("default")
        with self.house.refused(404, "there is none of this name"):
            self.house.rank("x", ["a"])
        self.house.put(**self.how)
        self._anew()
        self.events.clear()  # another ranker of the same name knows nothing of them

    @rule(
        batch=st.sampled_from("xyz"),
        query=st.sampled_from(QUERIES),
        ranking=st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4, unique=True),
        click=st.integers(0, 4),
        n=st.integers(1, 3),
    )
    def warmstart(self, batch, query, ranking, click, n):
        clicks = [click] if 1 <= click <= len(ranking) else []
        counted = self.house.warmstart([WarmRow(query, ranking, clicks, time=1.0)] * n, batch)
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
            query: (state, *self.there[query], self.house.query(query).lists)
            for query, state in self.house.export().items()
        }
        assert self.saved.keys() == self.there.keys()
        self.saved_as = (self.how["policy"], self.how["k"])

    @precondition(lambda self: getattr(self, "saved", None))
    @rule(data=st.data())
    def import_(self, data):
        query = data.draw(st.sampled_from(sorted(self.saved)))
        state, steps, clicks, lists = self.saved[query]
        if self.saved_as != (self.how["policy"], self.how["k"]):
            with self.house.refused(422, "this ranker has"):
                self.house.import_({query: state})
            return
        before = self.house.query(query).lists if query in self.there else 0
        self.house.import_({query: state})
        self.lists += lists - before
        self.steps += steps - self.there.get(query, [0, 0])[0]
        self.clicks += clicks - self.there.get(query, [0, 0])[1]
        self.lives[query] += 1
        self.there[query] = [steps, clicks]

    # -- what machines do ---------------------------------------------------------------------------------------------

    @rule()
    def checkpoint(self):
        self.house.checkpoint()

    @rule()
    def write_out(self):
        self.house.write_out()

    @rule()
    def clean_up(self):
        self.house.clean_up()
        assert len(self.house.store.snapshot_names("q/")) <= len(self.there)

    @rule()
    def crash(self):
        before = self.house.state()
        self.house.recover()
        assert not differences(before, self.house.state())

    @rule()
    def restart(self):
        before = self.house.state()
        assert self.house.restart().records == 0
        assert not differences(before, self.house.state())

    @rule()
    def same_as_the_log(self):
        assert not differences(self.house.state(), self.house.folded_anew())

    # -- what is always so --------------------------------------------------------------------------------------------

    @invariant()
    def counts(self):
        if not hasattr(self, "house"):
            return
        info = self.house.info()
        assert info.queries == len(self.there)
        assert (info.lists, info.steps, info.clicks) == (self.lists, self.steps, self.clicks)
        assert info.pending == sum(e.waits for e in self.events.values())
        assert self.house.fold.nbytes == sum(query.nbytes for query in self.house.fold.queries.values())
        assert not self.house.fold.ready

    @invariant()
    def queries(self):
        if not hasattr(self, "house"):
            return
        assert self.house.names() == sorted(self.there)
        for query, (steps, clicks) in self.there.items():
            state = self.house.query(query)
            assert (state.steps, state.clicks) == (steps, clicks)


Life.TestCase.settings = settings(
    max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLife = Life.TestCase


def _lived(folder: Path) -> House:
    """A house in which all kinds of things happened, a list of them for every record."""
    house = House(folder, ranker={"wait": WAIT, "forget_items": 2 * WAIT})
    for n in range(4):
        house.rank("shoes", ["a", "b", "c", n], f"e:{n}")
    house.feedback("e:0", [1])
    house.rank("hats", ["x", "y"], "h:1", defer=True)
    house.activate("h:1")
    house.pass_(50)
    house.rank("shoes", ["b", "d"], "e:5")
    house.reset("hats")
    house.warmstart([WarmRow("boots", ["a", "b"], [1])] * 2, "log")
    kept = house.export()
    house.pass_(60)
    house.feedback("e:5", ["d"])
    house.reset("boots", gone=True)
    house.put(policy="CascadeUCB1", k=3, wait=WAIT, forget_items=2 * WAIT, second_click="update")
    house.rank("boots", ["a", "c"], "b:1")
    house.feedback("b:1", [1])
    house.import_({"shoes": kept["shoes"]})
    house.feedback("b:1", [2])
    house.pass_(500)
    house.rank("shoes", ["z"], "e:6")
    house.rank("other", [1, 2, 3, 4], "o:1")
    house.reset()
    house.rank("other", [1, 2, 3, 4], "o:2")
    return house


def test_from_every_checkpoint_the_same_state(tmp_path):
    """A checkpoint after n records, and snapshots of queries from then or from later, as a crash leaves them."""
    with _lived(tmp_path) as house:
        store, log = house.store, house.log()
        whole = house.folded_anew()
        assert not differences(whole, house.state())
        assert len(log) >= 29
        for n, (seq, _) in enumerate(log, 1):
            for later in {n, n + 1, n + 2, n + 5, n + 9, len(log)}:
                names = store.snapshot_names("", limit=10_000)
                store.put_snapshots([], names)
                fold = Fold(store, Metrics())
                for at, record in log[:n]:
                    fold.apply(at, record)
                checkpoint = fold.checkpoint()
                store.put_snapshots(fold.snapshots(list(fold.dirty)))  # what may have been written out before
                for at, record in log[n:later]:
                    fold.apply(at, record)
                written = fold.snapshots(list(fold.dirty))
                store.put_snapshots([*written, checkpoint])
                fold = Fold(store, Metrics())
                fold.restore()
                assert fold.seq == seq
                for at, record in log[n:]:
                    fold.apply(at, record)
                fold.recount()
                names = {"default": sorted(whole["default"]["of queries"])}
                assert not differences(whole, state_of(fold, names)), (n, later)


def test_a_list_twice_at_the_same_time(tmp_path):
    """Two calls with one event id and other items, before either is in the log."""
    with House(tmp_path) as house:

        async def both() -> Any:
            requests = [RankRequest("q", items, event_id="e") for items in (["a", "b"], ["c", "d"])]
            calls = [house.service.rank("default", [request]) for request in requests]
            return await asyncio.gather(*calls)

        one, other = house.run(both())
        assert one == other
        assert {item.id for item in one[0].items} == {"a", "b"}
        assert not differences(house.state(), house.folded_anew())
        one, other = house.run(
            house.service.rank("default", [RankRequest("p", i, event_id="f") for i in (["a"], ["b"])])
        )
        assert one == other
        assert not differences(house.state(), house.folded_anew())


def test_first_lists_of_a_query_at_the_same_time(tmp_path):
    with House(tmp_path) as house:

        async def many() -> None:
            requests = [RankRequest("q", ["a", n], event_id=f"e{n}") for n in range(10)]
            await asyncio.gather(*[house.service.rank("default", [request]) for request in requests])

        house.run(many())
        assert house.info().queries == 1
        assert house.info().lists == 10
        assert not differences(house.state(), house.folded_anew())


def test_a_ranker_that_changes_while_its_first_list_is_made(tmp_path):
    with House(tmp_path) as house:

        async def both() -> None:
            put = house.service.put_ranker("default", RankerSettings(policy="CascadeUCB1", k=2, seed=5))
            await asyncio.gather(house.service.rank("default", [RankRequest("q", list("abcd"))]), put)
            await asyncio.gather(put_back(), house.service.rank("default", [RankRequest("p", list("abcd"))]))

        async def put_back() -> None:
            await house.service.put_ranker("default", RankerSettings(policy="CascadeUCB1", k=3, seed=6))

        house.run(both())
        house.rank("q", list("abcd"))
        assert not differences(house.state(), house.folded_anew())
        house.recover()
        assert not differences(house.state(), house.folded_anew())


def test_an_import_while_the_ranker_becomes_another(tmp_path):
    with House(tmp_path) as house:
        house.rank("q", list("abcd"))
        state = house.export()["q"]

        async def both() -> None:
            put = house.service.put_ranker("default", RankerSettings(policy="CascadeDUCB", k=2))
            await asyncio.gather(put, house.transfer.import_("default", [("p", state)]))

        house.run(both())
        house.rank("p", list("abcd"))
        assert {type(query.learner.policy).__name__ for query in house.fold.queries.values()} == {"CascadeDUCB"}
        assert not differences(house.state(), house.folded_anew())


@pytest.mark.parametrize(("one", "other"), [("BatchRank", "RankedEXP3"), ("CascadeSoftmax", "BubbleRank")])
@pytest.mark.parametrize("what", ["set", "reset", "gone", "deleted", "import"])
def test_a_list_made_before_and_written_after(tmp_path, one, other, what):
    """What a policy noted of a list is for itself as it was then: another would take a number for a slot it has not."""
    how = {"horizon": 1000, "wait": 100}
    with House(tmp_path, one, ranker=how) as house:
        for n in range(40):  # a learner with many slots
            house.rank("q", list(range(n, n + 4)), f"e:{n}")
            house.feedback(f"e:{n}", [1])
        items = list(range(40))
        state = house.export()["q"]

        async def both() -> Any:
            settings = RankerSettings(policy=other, k=3, **how)
            service = house.service
            before = {
                "set": lambda: [service._set("default", settings)],
                "reset": lambda: [service.reset("default", "q")],
                "gone": lambda: [service.reset("default", "q", gone=True)],
                "deleted": lambda: [service.delete_ranker("default"), service._set("default", settings)],
                "import": lambda: [house.transfer.import_("default", [("q", state)])],
            }[what]()
            ranked = service.rank("default", [RankRequest("q", items, event_id="between")])
            return (await asyncio.gather(*before, ranked))[-1]

        (answer,) = house.run(both())
        assert len(answer.items) == 3
        house.rank("q", [1, 2], "after")
        assert house.outcome("between", [1]) == ("orphan" if what == "deleted" else "forgotten")
        assert house.outcome("after", [1]) == "counted"
        house.pass_(200)
        assert house.info().pending == 0
        assert not differences(house.state(), house.folded_anew())
        house.recover()
        assert not differences(house.state(), house.folded_anew())
