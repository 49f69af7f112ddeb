"""The ranking service, without HTTP: what the routes call."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import DecodeError

from driftrank.kernels.rng import key_of
from driftrank.serve.answers.experiment import gauges
from driftrank.serve.core import NOT_READY, ServiceCore, unique_id
from driftrank.serve.log.committer import Committer
from driftrank.serve.log.records import decode
from driftrank.serve.log.store.base import Store, StoreDamaged, StoreTooNew
from driftrank.serve.log.store.shared import SharedStore
from driftrank.serve.maintenance import Maintenance
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.requests.compiler import RankerCompiler
from driftrank.serve.requests.feedback import FeedbackRequests
from driftrank.serve.requests.rank import RankRequests
from driftrank.serve.requests.rankers import RankerChanges, explicit
from driftrank.serve.settings.server import ServerSettings
from driftrank.serve.sharing.follower import Follower
from driftrank.serve.sharing.maintenance import SharedMaintenance
from driftrank.serve.state.version import VERSION
from driftrank.wire import ENCODER, RankerSettings

_log = logging.getLogger("driftrank.serve")
#: seconds that a database has to answer when the service stops
_LAST_WAIT = 5.0


class StartReplay(NamedTuple):
    """The replay of the log at the start."""

    records: int
    seconds: float
    checkpoint: int  #: the record up to which snapshots were used


class Service(ServiceCore):
    """Rankers over a store. Create it, ``await start()``, use it, ``await stop()``."""

    def __init__(self, store: Store, settings: ServerSettings, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(store, settings, clock)
        self.draining = False  #: asked to stop: not ready, but requests are answered for some time
        self.stopping = False  #: long answers end
        self.url = ""  #: at which it listens, for people
        self.worker: int | None = None  #: its number, if there are several processes at this address
        self.all_metrics = self._own_metrics  #: returns the metrics of all these processes
        self._compiler = RankerCompiler(self)
        self._changes = changes = RankerChanges(self, self._compiler)
        self._ranking = ranking = RankRequests(self)
        feedback = FeedbackRequests(self)
        # what routes and commands call, each owned by the class of its subject
        self.rank, self.answered, self.count_ignored = ranking.rank, ranking.answered, ranking.count_ignored
        self.feedback, self.activate = feedback.feedback, feedback.activate
        self.put_ranker, self.patch_ranker, self.patched = changes.put_ranker, changes.patch_ranker, changes.patched
        self.delete_ranker, self.reset = changes.delete_ranker, changes.reset
        self.would_discard, self.log_operation = changes.would_discard, changes.log_operation

    async def start(self) -> StartReplay:
        """Replay the log, create the rankers of the settings, start the maintenance."""
        if isinstance(self.store, SharedStore):
            self._follower = Follower(
                self.store, self.state, limit=self.settings.queue, committed=self._committed, followed=self._followed,
                compile_=self._compiler.compile_if_possible, begin_again=self._begin_again,
                poll=self.settings.follow_seconds,
            )  # fmt: skip
            self._committer = self._follower
            shared = SharedMaintenance(
                self.state, self.store, self._follower, self.settings, self.metrics, now=self.now
            )
            shared.url, shared.worker, shared.clock = self.url, self.worker, self._clock
            self.maintenance = shared
            replay = await self._follow()
        else:
            self._committer = Committer(
                self.store, self.state.apply, limit=self.settings.queue, committed=self._committed
            )
            self.maintenance = Maintenance(
                self.state, self.store, self._committer, self.settings, self.metrics, now=self.now
            )
            replay = await self._replay()
        await self._set_rankers({"default": RankerSettings(), **self.settings.rankers})
        await self._compiler.compile_all()
        await self.maintenance.measure_store()
        self._gauges()
        self.maintenance.start()
        self.ready, self.starting, self.doing = True, False, NOT_READY
        return replay

    async def _set_rankers(self, rankers: Mapping[str, RankerSettings]) -> None:
        """Create or change the rankers of the settings: all of them, or none if one of them is refused."""
        changed = {name: settings for name, settings in rankers.items() if self._differs(name, settings)}
        for name, settings in changed.items():
            if name not in self.settings.discard and (lost := self.would_discard(name, settings)):
                raise ValueError(
                    f"ranker {name}: {lost}; start with --discard {name} to begin again, "
                    "or with the settings that it has"
                )
            await self._compiler.compile(settings)
        for name, settings in changed.items():
            if not self._differs(name, settings):  # another service has set it meanwhile
                continue
            new = self._changes.setting_record(name, settings, "settings")
            if self._follower is not None:  # services that start at the same time write it once
                new = new._replace(id=self._id_of(name, settings))
                (settled,) = await self._committer.append([new])
                if not settled.new and name not in self.state.rankers:
                    await self._committer.append([new._replace(id=unique_id("ranker"))])
            else:
                await self._committer.append([new])
            self.log_operation(name, "set", "settings")

    def _differs(self, name: str, settings: RankerSettings) -> bool:
        ranker = self.state.rankers.get(name)
        # a default ranker that is not in the settings may have been changed by a request
        return ranker is None or (settings != RankerSettings() and explicit(settings, ranker) != ranker.settings)

    def _id_of(self, name: str, settings: RankerSettings) -> str:
        """The id of the record of a setting: one for the same settings after the same operation."""
        last = max((entry.number for entry in self.state.operations if entry.ranker == name), default=0)
        return f"ranker/{name}/{last}/{key_of(ENCODER.encode(settings).decode()):x}"

    async def configure(self, settings: ServerSettings) -> None:
        """Change the settings while it runs; rankers only if they have others in the settings than before."""
        before = self.settings
        changed = {name: of for name, of in settings.rankers.items() if before.rankers.get(name) != of}
        await self._set_rankers(changed)
        self.settings = self.maintenance.settings = settings

    def hurry(self) -> None:
        """End long answers, and do not wait for a database that does not answer: it is about to stop."""
        self.stopping = True
        if self._follower is not None:
            self._follower.hurry(_LAST_WAIT)

    async def stop(self) -> None:
        """Write a checkpoint, so that the next start is quick, and close the store."""
        self.hurry()
        self.ready = self.starting = False
        await self.maintenance.stop()
        await self._committer.close()
        self.store.close()

    async def _replay(self) -> StartReplay:
        began = time.perf_counter()
        self.state.restore()
        await self._compiler.compile_all()
        first = self.state.seq
        damage = self.store.verify(first)
        if damage is not None:
            _log.error("the log is damaged: %s", damage)
        self.state.metrics = Metrics()  # counts from before the start are not counted again
        self.state.replaying = True
        records = 0
        self.doing = "the log is being replayed"
        while entries := self.store.read(self.state.seq, 2_000):
            for entry in entries:
                try:
                    record = decode(entry.body)
                except DecodeError as error:
                    raise StoreDamaged(f"record {entry.seq} is unknown to this version ({error})") from None
                self.state.apply(entry.seq, record)
            records += len(entries)
            self.maintenance.folded(len(entries))
            await self.maintenance.evict()
            await asyncio.sleep(0)
        self.state.recount()
        self.state.metrics, self.state.replaying = self.metrics, False
        out = StartReplay(records, time.perf_counter() - began, first)
        self.metrics.add("replayed_records", (), records)
        self.metrics.gauge("replay_seconds", lambda: out.seconds)
        return out

    async def _follow(self) -> StartReplay:
        """Begin with the last checkpoint, and take in what came after it."""
        assert self._follower is not None
        began = time.perf_counter()
        await self._join()
        await self._follower.set_clock(self._clock)
        self.state.restore()
        await self._compiler.compile_all()
        first = self.state.seq
        self.doing = "the log is being replayed"
        records = await self._follower.catch_up()
        self._follower.start()
        out = StartReplay(records, time.perf_counter() - began, first)
        self.metrics.add("replayed_records", (), records)
        self.metrics.gauge("replay_seconds", lambda: out.seconds)
        return out

    async def _begin_again(self) -> None:
        """The log was cut: what was in memory may not be in it."""
        assert self._follower is not None
        self.ready, self.doing = False, "the log was cut: what is left of it is being read"
        try:
            await self._join()
        except StoreTooNew as error:
            self.doing = str(error)
            raise
        self.state.begin_again()
        await self._compiler.compile_all()
        await self._follower.catch_up()
        self.ready, self.doing = True, NOT_READY
        self.metrics.add("begun_again")

    async def _join(self) -> None:
        assert isinstance(self.store, SharedStore)
        await self._committer.run(self.store.join, VERSION)

    def _followed(self, records: int) -> None:
        self.metrics.add("records_followed", (), records)
        self.maintenance.folded(records)

    def _committed(self, records: int, seconds: float) -> None:
        self.metrics.add("records_appended", (), records)
        self.metrics.observe("commit_duration_seconds", (), seconds)
        self.maintenance.folded(records)

    async def _own_metrics(self) -> bytes:
        return self.metrics.render()

    def _gauges(self) -> None:
        state = self.state
        self.metrics.gauge("ready", lambda: self.ready and self.problem is None)
        self.metrics.gauge("state_bytes", lambda: state.queries.nbytes)
        self.metrics.gauge(
            "shared_model_bytes", lambda: {(arm.owner,): arm.shared_bytes for arm in state.every_arm() if arm.shares}
        )
        self.metrics.gauge("resident_queries", lambda: len(state.queries))
        self.metrics.gauge("lists_pending", lambda: {(name,): len(r.waiting) for name, r in state.rankers.items()})
        self.metrics.gauge("store_bytes", lambda: self.maintenance.store_bytes)
        if self._follower is not None:
            follower, maintenance = self._follower, self.maintenance
            self.metrics.gauge("follow_age_seconds", lambda: time.monotonic() - follower.at)
            self.metrics.gauge("last_record", lambda: state.seq)
            self.metrics.gauge("appends_in_doubt", lambda: follower.doubts)
            assert isinstance(maintenance, SharedMaintenance)
            self.metrics.gauge("keeper", lambda: maintenance.keeper)
            self.metrics.gauge("keeper_age_seconds", lambda: maintenance.keeper_age)
        self.metrics.gauge("commit_queue_length", lambda: self._committer.queued)
        for name, read in gauges(state).items():
            self.metrics.gauge(name, read)
