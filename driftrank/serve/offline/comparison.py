"""The experiment of a ranker from the store of a service: the same sums, folded without any learner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from driftrank.serve.answers.experiment import experiment_of
from driftrank.serve.log.ended_lists import chosen_ranker
from driftrank.serve.log.records import Activated, Final, Ranked, RankerSet, Record, decode
from driftrank.serve.log.store.base import LogReader, open_reader
from driftrank.serve.state.checkpoint import CHECKPOINT, Checkpoint
from driftrank.serve.state.experiment import Experiment
from driftrank.serve.state.held_queries import HeldQueries
from driftrank.serve.state.impressions import Impression, Impressions
from driftrank.serve.state.loading import EmptyStore
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state import UNCOUNTED, State
from driftrank.wire import ExperimentState

_CHUNK = 10_000


def stored_experiment(url: str, ranker: str | None = None, since: float | None = None) -> ExperimentState:
    """The experiment of a ranker, as the service that writes the store answers. Only reads.

    ``since``: lists that were shown from this time on. Records before it may have been removed; the settings are then
    those of the last checkpoint.
    """
    with closing(open_reader(url)) as log:
        return experiment_of(_folded(log, chosen_ranker(log, ranker), since))


def _folded(log: LogReader, name: str, since: float | None) -> Ranker:
    snapshot = log.get_snapshot(CHECKPOINT)
    saved = None if snapshot is None else Checkpoint.from_bytes(snapshot.body).rankers.get(name)
    state = State(EmptyStore(), UNCOUNTED, HeldQueries)
    state.replaying = True
    state.impressions = Impressions(EmptyStore(), kept=2**62, kept_bytes=2**62)
    after = begin = 0  # records up to ``after`` are in the checkpoint
    if snapshot is not None and saved is not None and since is None:
        after = state.seq = snapshot.seq
        state.rankers[name] = saved
        begin = state.oldest - 1
    begun = since is None
    for seq, record in _records(log, begin, name):
        if seq <= after:
            _remember(state, seq, record)
            continue
        if name not in state.rankers and saved is not None and not isinstance(record, RankerSet):
            state.rankers[name] = Ranker(name, saved.settings, min(saved.created, seq), chosen=saved.chosen)
        if not begun and since is not None and record.time >= since:
            begun = True
            _begin(state, name, seq)
        _learn_nothing(state, name)
        state.apply(seq, record)
        if isinstance(record, Final):
            state.impressions.end(name, record.event_id)
    if name not in state.rankers:
        raise ValueError(f"ranker={name!r}: must be a ranker of the store; it is deleted, or its records are removed")
    if not begun:
        _begin(state, name, state.seq + 1)
    return state.rankers[name]


def _records(log: LogReader, after: int, name: str) -> Iterator[tuple[int, Record]]:
    while entries := log.read(after, _CHUNK):
        for entry in entries:
            after = entry.seq
            record = decode(entry.body)
            if record.ranker == name:
                yield entry.seq, record


def _remember(state: State, seq: int, record: Record) -> None:
    """Keep an impression that is in the checkpoint, for its end."""
    if isinstance(record, Ranked):
        state.impressions.add(Impression(seq, record))
    elif isinstance(record, Activated):
        impression = state.impressions.cached(record.ranker, 0, record.event_id)
        if impression is not None:
            impression.opened_by, impression.opened_at = seq, record.time
    elif isinstance(record, Final):
        state.impressions.end(record.ranker, record.event_id)


def _begin(state: State, name: str, seq: int) -> None:
    """Begin the experiment with this record."""
    ranker = state.rankers.get(name)
    if ranker is not None:
        ranker.experiment = Experiment()
        ranker.experiment.begin(ranker.split, ranker.planned, seq)


def _learn_nothing(state: State, name: str) -> None:
    ranker = state.rankers.get(name)
    for arm in ranker.every_arm() if ranker is not None else ():
        arm.learns_shared = False
