"""Checkpoints: the state without queries and models, from which a start goes on instead of folding the whole log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from msgspec import UNSET, Raw, Struct, UnsetType, field, msgpack

from driftrank.serve.log.store.base import Snapshot
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.changes import Change
from driftrank.serve.state.experiment import Experiment
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.series import SavedSeries, Series
from driftrank.serve.state.stable_lists import StableLists
from driftrank.serve.state.traffic import QueryTraffic, Traffic
from driftrank.serve.state.waiting import WaitingImpressions
from driftrank.wire import OperationKind, RankerSettings

#: names of snapshots
CHECKPOINT = "checkpoint"
COUNTS = "counts"


class DoneOperation(Struct, frozen=True, omit_defaults=True):
    """An operation on a ranker: a change of its settings, or of what it has learnt."""

    number: int  #: its record
    time: float
    ranker: str
    kind: OperationKind
    by: str
    query: str | None = None
    before: RankerSettings | None = None
    after: RankerSettings | None = None
    discarded: int | None = None
    undoes: int | None = None
    created: int = 0  #: the record that created the ranker


class _SavedArm(Struct):
    since: int
    queries: int
    impressions: int
    steps: int
    clicks: int
    value: float
    shared: int
    sizes: list[tuple[int, int]]


class _SavedRanker(Struct):
    """The names in the stored bytes are a promise."""

    created: int = field(name="born")
    settings: RankerSettings
    since: int
    queries: int
    impressions: int = field(name="lists")
    steps: int
    clicks: int
    waiting: bytes = field(name="pending")
    collected: dict[int, tuple[list[int], int | None]]
    deferred: dict[int, int]
    chosen: bool = True
    shared: int | UnsetType = UNSET  #: the record of the snapshot of the shared model, if it has learnt anything
    withdrawn: dict[str, float] | UnsetType = UNSET
    sizes: list[tuple[int, int]] | UnsetType = UNSET
    traffic: dict[str, QueryTraffic] | UnsetType = UNSET
    changes: list[Change] | UnsetType = UNSET
    value: float | UnsetType = UNSET  #: of clicks, if it is another number
    values: dict[int, dict[int, float]] | UnsetType = UNSET
    arms: dict[str, _SavedArm] | UnsetType = UNSET
    experiment: Experiment | UnsetType = UNSET
    stable: bytes | UnsetType = UNSET
    history: list[tuple[int, int, float]] | UnsetType = UNSET
    series: SavedSeries | UnsetType = UNSET


class SavedCheckpoint(Struct):
    """All that is saved in a checkpoint."""

    clock: float
    rankers: dict[str, _SavedRanker]
    outdated: list[str]
    operations: list[DoneOperation] | UnsetType = UNSET


class Checkpoint(NamedTuple):
    """The state without its queries and shared models, which have snapshots of their own."""

    clock: float
    rankers: dict[str, Ranker]
    outdated: set[str]
    operations: list[DoneOperation]

    def copy(self, seq: int) -> CheckpointCopy:
        """The contents as they are now, after a record."""
        return CheckpointCopy(seq, self._to_bytes(), {name: r.waiting.copy() for name, r in self.rankers.items()})

    def _to_bytes(self) -> bytes:
        """All but the waiting impressions."""
        rankers = {
            name: _SavedRanker(
                r.created, r.settings, r.since, r.queries, r.impressions, r.steps, r.clicks, b"",
                r.collected, r.deferred, r.chosen, r.shared_seq or UNSET, r.withdrawn or UNSET,
                r.sizes or UNSET, r.traffic.queries or UNSET, r.changes or UNSET,
                r.value if r.value != r.clicks else UNSET, r.values or UNSET,
                {arm: _saved_arm(its) for arm, its in r.arms.items()} or UNSET,
                UNSET if r.experiment.is_new(r.created) else r.experiment,
                r.stable_lists.to_bytes() if len(r.stable_lists) else UNSET,
                r.history if len(r.history) > 1 else UNSET,
                r.series.saved() if r.series.nbytes else UNSET,
            )
            for name, r in self.rankers.items()
        }  # fmt: skip
        return msgpack.encode(SavedCheckpoint(self.clock, rankers, sorted(self.outdated), self.operations or UNSET))

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        saved = msgpack.decode(body, type=SavedCheckpoint)
        rankers = {name: _ranker(name, its) for name, its in saved.rankers.items()}
        return cls(saved.clock, rankers, {*saved.outdated}, saved.operations or [])


class CheckpointCopy(NamedTuple):
    """A checkpoint to be packed beside the event loop: of a million waiting impressions this takes 0.1 s."""

    seq: int
    rest: bytes  #: without the waiting impressions
    waiting: dict[str, WaitingImpressions]  #: by ranker

    def snapshot(self) -> Snapshot:
        saved = msgpack.decode(self.rest, type=dict[str, Raw])
        rankers = msgpack.decode(saved["rankers"], type=dict[str, dict[str, Raw]])
        for name, waiting in self.waiting.items():
            rankers[name]["pending"] = Raw(msgpack.encode(waiting.to_bytes()))
        saved["rankers"] = Raw(msgpack.encode(rankers))
        return Snapshot(CHECKPOINT, self.seq, msgpack.encode(saved))


def _ranker(name: str, saved: _SavedRanker) -> Ranker:
    out = Ranker(name, saved.settings, saved.created, chosen=saved.chosen)
    out.since = saved.since
    out.queries, out.impressions, out.steps, out.clicks = saved.queries, saved.impressions, saved.steps, saved.clicks
    out.waiting = WaitingImpressions.from_bytes(saved.waiting)
    out.collected, out.deferred = saved.collected, saved.deferred
    out.shared_seq = saved.shared or 0
    out.withdrawn, out.sizes = saved.withdrawn or {}, saved.sizes or []
    out.history = saved.history or [(saved.since, saved.settings.k, out.item_retention)]
    out.traffic, out.changes = Traffic(saved.traffic or {}), saved.changes or []
    out.value = float(saved.clicks) if saved.value is UNSET else saved.value
    out.values = saved.values or {}
    for arm, its in (saved.arms or {}).items():
        _restore_arm(out.arms[arm], its)
    if saved.experiment is not UNSET:
        out.experiment = saved.experiment
    if saved.stable is not UNSET:
        out.stable_lists = StableLists.from_bytes(saved.stable)
    if saved.series is not UNSET:
        out.series = Series.restored(saved.series)
    return out


def _saved_arm(arm: Arm) -> _SavedArm:
    return _SavedArm(
        arm.since, arm.queries, arm.impressions, arm.steps, arm.clicks, arm.value, arm.shared_seq, arm.sizes
    )


def _restore_arm(arm: Arm, saved: _SavedArm) -> None:
    arm.since, arm.sizes, arm.shared_seq = saved.since, saved.sizes, saved.shared
    arm.queries, arm.impressions, arm.steps = saved.queries, saved.impressions, saved.steps
    arm.clicks, arm.value = saved.clicks, saved.value


def shared_name(ranker: str) -> str:
    """The name of the snapshot of a ranker's shared model."""
    return f"shared/{ranker}"


class Counts(NamedTuple):
    """The counts of all rankers after a record.

    Written with every snapshot of queries: a query that is ahead of the last checkpoint does not tell how it came about
    (it may have been deleted and created again), so a replay could not count up to there.
    """

    seq: int
    of: dict[
        str, list[int | float]
    ]  #: by owner: queries, impressions, steps, clicks, and value if it is another number

    @classmethod
    def from_bytes(cls, seq: int, body: bytes) -> Self:
        return cls(seq, msgpack.decode(body, type=dict[str, list[int | float]]))

    def restore(self, arms: Iterable[Arm]) -> None:
        for arm in arms:
            if arm.owner in self.of:
                counts = self.of[arm.owner]
                arm.queries, arm.impressions, arm.steps, arm.clicks = map(int, counts[:4])
                arm.value = float(counts[-1]) if len(counts) > 4 else float(arm.clicks)


def counts_of(arms: Iterable[Arm]) -> bytes:
    return msgpack.encode(
        {
            a.owner: [a.queries, a.impressions, a.steps, a.clicks, *([a.value] if a.value != a.clicks else [])]
            for a in arms
        }
    )
