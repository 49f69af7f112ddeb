"""Random operations on a store, compared with a dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from driftrank.serve.log.store.base import LogEntry, Snapshot
from tests.serve.log.store.benches import SQLiteBench

IDS = st.text("abä\0\U0001f600", max_size=2)


class AsADictionary(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.bench = SQLiteBench(Path(self.folder.name))
        self.store = self.bench.open()
        self.log: dict[str, LogEntry] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.last = 0

    @rule(ids=st.lists(IDS, max_size=6))
    def append(self, ids):
        bodies = [b'{"n":%d}' % n for n, _ in enumerate(ids)]
        known = dict.fromkeys(self.log)
        for id, body, (seq, new) in zip(
            ids, bodies, self.store.append(list(zip(ids, bodies, strict=True))), strict=True
        ):
            assert new == (id not in known)
            if new:
                known[id] = None
                assert seq > self.last
                self.last = seq
                self.log[id] = LogEntry(seq, id, body)
            assert self.log[id].seq == seq

    @rule(names=st.lists(IDS, max_size=3), gone=st.lists(IDS, max_size=2), body=st.binary(max_size=4))
    def put(self, names, gone, body):
        self.store.put_snapshots([Snapshot(name, self.last, body) for name in names], gone)
        for name in gone:
            self.snapshots.pop(name, None)
        self.snapshots |= {name: Snapshot(name, self.last, body) for name in names}

    @rule(share=st.floats(0, 1), limit=st.integers(1, 5))
    def forget(self, share, limit):
        before = round(share * (self.last + 1))
        old = sorted(entry for entry in self.log.values() if entry.seq < before)[:limit]
        assert self.store.forget(before, limit) == len(old)
        for entry in old:
            del self.log[entry.id]

    @rule(share=st.floats(0, 1))
    def damage(self, share):
        if not self.log:
            return
        entries = sorted(self.log.values())
        first = entries[int(share * (len(entries) - 1))]
        self.store.close()
        self.bench.spoil(first.seq)
        self.store = self.bench.open()
        cut = self.store.verify(0)
        after = [entry for entry in entries if entry.seq >= first.seq]
        assert (cut.seq, cut.entries) == (first.seq, len(after))
        for entry in after:
            del self.log[entry.id]

    @rule()
    def open_again(self):
        self.store.close()
        self.store = self.bench.open()

    @invariant()
    def is_the_same(self):
        assert self.store.last == self.last
        assert self.store.read(0) == sorted(self.log.values())
        assert self.store.find(list(self.log)) == self.log
        assert self.store.snapshot_names("") == sorted(name for name in self.snapshots if name)
        for name, snapshot in self.snapshots.items():
            assert self.store.get_snapshot(name) == snapshot

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


TestAsADictionary = AsADictionary.TestCase
TestAsADictionary.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
