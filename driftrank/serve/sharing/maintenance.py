"""Maintenance of a service that shares its log: one of the services, the keeper, does what is done for all.

The keeper has a lease. All that it does is settled by ids, or never goes back: two keepers at once do no harm, and
neither does a time without one.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import monotonic

from driftrank.serve.log.committer import NewRecord
from driftrank.serve.log.entries import owner_of
from driftrank.serve.log.records import ChangeFound, Imported, Ranked, Record, Reset, Warm, change_id, decode
from driftrank.serve.log.store.base import Snapshot, StoreError
from driftrank.serve.log.store.shared import SharedStore, process_of
from driftrank.serve.maintenance import Maintenance
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.settings.server import ServerSettings
from driftrank.serve.sharing.follower import Follower
from driftrank.serve.state.changes import Change
from driftrank.serve.state.checkpoint import CHECKPOINT
from driftrank.serve.state.queries import QueryKey, snapshot_name
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state import State

#: the lease of the keeper, in seconds, and how often it is prolonged
_LEASE, _RENEW = 10.0, 3.0
_KEEPER = "keeper"
#: seconds between searches for changes of users to be recorded
_SOON = 0.5
#: queries covered at once
_SLICE = 64


class SharedMaintenance(Maintenance):
    """The background tasks of a service that shares its log."""

    def __init__(
        self, state: State, store: SharedStore, follower: Follower, settings: ServerSettings, metrics: Metrics,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        super().__init__(state, store, follower, settings, metrics, now)
        self._shared, self._follower = store, follower
        self.url = ""  #: at which the service listens
        self.worker: int | None = None  #: its number, if there are several processes at this address
        self.clock: Callable[[], float] = now
        self._incarnation = os.urandom(4).hex()  # two services whose names are the same never share a lease
        self._keeper_until = 0.0
        self._kept = monotonic()  # when there was a keeper, as far as is known
        self._recording = asyncio.Lock()
        self._to_cover = 0  # entries up to here are old enough to be covered

    @property
    def keeper(self) -> bool:
        """True if this service has the lease."""
        return monotonic() < self._keeper_until

    @property
    def keeper_age(self) -> float:
        """Seconds since there was a keeper, here or elsewhere."""
        return 0.0 if self.keeper else monotonic() - self._kept

    @property
    def node(self) -> str:
        """The name of this service: of the settings, or the machine and its port, or the path of its socket."""
        port = self.url.rpartition(":")[2] or self.settings.port  # not the address: it may be 0.0.0.0 on every machine
        name = self.settings.node or f"{socket.gethostname()}:{port}"
        return name if self.worker is None else f"{name}/{self.worker}"

    @property
    def process(self) -> str:
        return process_of(self.node, self._incarnation)

    def _work(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return (
            self._keep_lease, self._end_feedback_windows, self._evict_when_full, self._take_checkpoints,
            self._record_changes, self._measure_lag, self._measure_store,
        )  # fmt: skip

    async def stop(self) -> None:
        await super().stop()
        with suppress(StoreError):
            await self._committer.run(self._shared.leave, self.process)

    # -- the lease -------------------------------------------------------------------------------------------------

    async def _keep_lease(self) -> None:
        await self.renew_lease()
        await asyncio.sleep(_RENEW)

    async def renew_lease(self) -> None:
        """Become the keeper, or stay it, if no other service is; say that this one is there."""
        began = monotonic()
        if await self._committer.run(self._shared.lease, _KEEPER, self.process, _LEASE):
            self._keeper_until = began + _LEASE
        else:
            self._keeper_until = 0.0
        if await self._committer.run(self._shared.held, _KEEPER):
            self._kept = monotonic()
        await self._committer.run(self._shared.announce, self.process, self.url, self._state.seq)
        await self._follower.set_clock(self.clock)

    async def end_feedback_windows(self) -> bool:
        return await super().end_feedback_windows() if self.keeper else False

    # -- snapshots -------------------------------------------------------------------------------------------------

    async def checkpoint(self, *, hurry: bool = False) -> None:
        """Write the queries that this service has changed; the keeper also writes the state of the rankers."""
        if not self.keeper:
            self._new = 0
            await self.snapshot(await self.dirty())
        else:
            await super().checkpoint(hurry=hurry)
        for arm in list(self._state.every_arm()):
            arm.queries = await self._committer.run(self._shared.count, snapshot_name(arm.owner, ""))

    async def _record_changes(self) -> None:
        await self.record_changes()
        await asyncio.sleep(_SOON)

    async def record_changes(self) -> None:
        """Write the changes that this service has found in queries that it holds; another may have done so."""
        async with self._recording:
            while found := self._state.found:
                self._state.found = []
                rankers = self._state.rankers
                try:
                    records = [_found(rankers[name], it, self._now()) for name, it in found if name in rankers]
                    for at in range(0, len(records), _SLICE):
                        await self._committer.append(records[at : at + _SLICE], urgent=True)
                except BaseException:
                    self._state.found = found + self._state.found
                    raise

    async def write_queries(self, owner: str) -> None:
        await super().write_queries(owner)
        await self.cover(self._state.seq)  # those that other services hold

    async def _drop_outdated(self) -> None:
        if self.keeper:
            await super()._drop_outdated()

    async def _forget_old(self) -> None:
        if self.keeper:
            until, self._to_cover = self._to_cover, self._state.seq
            await self.cover(until)
            stored = await self._committer.read(self._store.get_snapshot, CHECKPOINT)
            # else the state from which another service would begin needs what only that one knows
            if stored is not None and stored.seq == self._checkpoint_at:
                await super()._forget_old()

    async def cover(self, until: int) -> None:
        """Write the queries with records up to ``until`` that no snapshot covers: whoever held them has gone."""
        done: set[QueryKey] = set()
        while (bare := await self._committer.run(self._shared.cover, until)) is not None:
            keys = [key for entry in bare.values() for key in self._changed_by(decode(entry.body))]
            if bare and done.issuperset(keys):  # outdated snapshots, which are dropped first
                return
            done.update(keys)
            for at in range(0, len(keys), _SLICE):
                await self._cover(keys[at : at + _SLICE])

    def _changed_by(self, record: Record) -> list[QueryKey]:
        """The queries that a record changes: of its arm, or of all."""
        if isinstance(record, Ranked | Warm | Imported):
            return [(owner_of(record), record.query)]
        assert isinstance(record, Reset)
        ranker = self._state.rankers.get(record.ranker)
        owners = [arm.owner for arm in ranker.every_arm()] if ranker else [record.ranker]
        return [(owner, record.query or "") for owner in owners]

    async def _cover(self, keys: list[QueryKey]) -> None:
        await self._follower.hold(keys)
        await self.record_changes()
        queries, snapshots = self._state.queries, []
        owners = {arm.owner for arm in self._state.every_arm()}
        for key in keys:
            if key in queries:
                snapshots.append(Snapshot(snapshot_name(*key), self._state.seq, queries[key].to_bytes()))
            elif queries.holds(key) or key[0] not in owners:  # it does not exist
                snapshots.append(Snapshot(snapshot_name(*key), self._state.seq, b""))
        await self._committer.put_snapshots(snapshots)

    async def _covered(self) -> int:
        return int(await self._committer.run(self._shared.covered)) + 1


def _found(ranker: Ranker, change: Change, now: float) -> NewRecord:
    of = change.step, change.item, change.everything, change.before, change.after
    record = ChangeFound(ranker.name, change.query, now, change.number, change.time, *of)
    return NewRecord(change_id(ranker.name, ranker.created, change.number), record)
