"""Faults of nodes, of their database and of the network between them, under load; see ``nodes.py faults``."""

from __future__ import annotations

import itertools
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx

from driftrank.client import Client, ServiceError
from driftrank.serve.log.records import Clicked, Final, Ranked, decode
from driftrank.serve.log.store.postgres import PostgresStore
from tests.postgres import Cluster
from tests.serve.running import OUTSIDE, Running

#: the service waits for the disk, as in production
DURABLE = "fsync=on"
#: the cheapest policy: what is measured is everything else
POLICY = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1"}
#: lists end soon, by the keeper, with the clicks collected
BRIEF = {"DRIFTRANK_RANKERS__DEFAULT__WAIT": "2s", "DRIFTRANK_RANKERS__DEFAULT__SECOND_CLICK": "update"}
_WRONG_CLOCK = "import time\nright = time.time\ntime.time = lambda: right() + {seconds}\n"


def faults() -> list[dict[str, Any]]:
    """Let faults happen, each with a database, a synchronous standby and two nodes of its own."""
    out = []
    for what, fault in FAULTS.items():
        with ExitStack() as stack:
            scene = Scene(stack, **SCENES.get(what, {}))
            out.append({"what": what} | fault(scene))
            print(json.dumps(out[-1]), file=sys.stderr, flush=True)
    return out


def fault_table(rows: list[dict[str, Any]]) -> str:
    """As the page has it."""
    lines = [
        "| what | acknowledged | lost | twice | without answers | slowest call |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['what']} | {row['acknowledged']:,} | {row['lost']:,} | {row['twice']:,} "
        f"| {row['seconds without answers']:.1f} s | {row['slowest']:.1f} s |"
        for row in rows
    ]
    return "\n".join(lines)


def faults_lost(rows: list[dict[str, Any]]) -> list[str]:
    """Rows with something lost, counted twice or of a wrong time; that for contrast is expected to lose."""
    wrong = ("lost", "twice", "records with a wrong time")
    return [str(row) for row in rows if row["what"] != CONTRAST and any(row.get(what) for what in wrong)]


class Scene:
    """Two nodes on a database with a synchronous standby. The second reaches it through a proxy."""

    def __init__(
        self, stack: ExitStack, *, clocks: tuple[float, float] = (0.0, 0.0), synchronous: bool = True, **settings: str
    ) -> None:
        name = "standby" if synchronous else ""
        self.primary = stack.enter_context(Cluster(DURABLE, f"synchronous_standby_names={name}"))
        self.standby = stack.enter_context(Cluster(DURABLE, primary=self.primary))
        self.url = self.primary.url(None, self.standby)
        self.proxy = stack.enter_context(Proxy(self.primary.port))
        through = self.url.replace(f":{self.primary.port},", f":{self.proxy.port},")
        self.nodes = []
        for url, seconds in zip((self.url, through), clocks, strict=True):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            variables = POLICY | settings
            if seconds:
                (folder / "sitecustomize.py").write_text(_WRONG_CLOCK.format(seconds=seconds))
                variables |= {"PYTHONPATH": f"{folder}:{OUTSIDE['PYTHONPATH']}"}
            self.nodes.append(stack.enter_context(Running(folder, "--store", url, **variables)))

    @property
    def keeper(self) -> Running:
        texts = [httpx.get(f"{node.url}/metrics").text for node in self.nodes]
        return next(node for node, text in zip(self.nodes, texts, strict=True) if "driftrank_keeper 1.0" in text)

    def records(self) -> Iterator[Any]:
        with PostgresStore(self.url) as store:
            at = 0
            while entries := store.read(at):
                at = entries[-1].seq
                yield from (decode(entry.body) for entry in entries)


class Proxy:
    """Forwards connections to a port. While it is not open it forwards nothing, not even that they are closed."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.open = threading.Event()
        self.open.set()
        self._near: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._forward, args=(self._listener.accept()[0],), daemon=True).start()

    def cut(self) -> None:
        """End all connections, in the middle of whatever they carry."""
        for near in self._near:
            with suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)
        self._near.clear()

    def _forward(self, near: socket.socket) -> None:
        self._near.append(near)
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._to)) as far:
            other = {near: far, far: near}
            while True:
                for source in select.select([near, far], [], [])[0]:
                    data = source.recv(65536)
                    self.open.wait()
                    if not data:
                        return
                    other[source].sendall(data)


# -- load --------------------------------------------------------------------------------------------------------------


class Load:
    """Four threads use the nodes, note what was acknowledged and when."""

    def __init__(self, scene: Scene, use: Callable[[Load, int, int], None], seconds: float) -> None:
        self._scene, self._use = scene, use
        self.acknowledged: list[tuple[str, str, int]] = []  #: kind, event and position
        self.times: list[float] = []
        self.slowest = 0.0
        self._seconds = seconds
        self.both = Client([node.url for node in scene.nodes], timeout=2, deadline=20, retries=20)
        self.each = [Client(node.url, timeout=2, deadline=3, retries=0) for node in scene.nodes]

    def run(self, fault: Callable[[], None]) -> dict[str, Any]:
        threads = [threading.Thread(target=self._thread, args=(n,)) for n in range(4)]
        self.times.append(time.monotonic())
        self._end = self.times[0] + self._seconds
        for thread in threads:
            thread.start()
        time.sleep(self._seconds / 3)
        fault()
        for thread in threads:
            thread.join()
        self.times.sort()
        return self._result()

    def done(self, kind: str, event: str, position: int = 0) -> None:
        self.acknowledged.append((kind, event, position))
        self.times.append(time.monotonic())

    def _thread(self, thread: int) -> None:
        for number in itertools.count(1):
            began = time.monotonic()
            if began > self._end:
                return
            try:
                self._use(self, thread, number)
            except ServiceError:
                time.sleep(0.02)
            self.slowest = max(self.slowest, time.monotonic() - began)

    def _result(self) -> dict[str, Any]:
        end = time.monotonic() + 30  # lists without feedback are ended by the keeper
        while True:
            lists, ends, clicks = self._in_log()
            open_ = [e for kind, e, _ in self.acknowledged if kind == "waits" and e not in ends]
            if not open_ or time.monotonic() > end:
                break
            time.sleep(0.5)
        there = {"list": lists, "end": ends}
        lost = [
            it for it in self.acknowledged
            if (it[2] not in clicks[it[1]] if it[0] == "click" else it[1] not in there.get(it[0], lists))
        ]  # fmt: skip
        out = {
            "acknowledged": len(self.acknowledged),
            "lost": len(lost) + len(open_),
            "twice": sum(n > 1 for n in ends.values()),
            "seconds without answers": round(max(b - a for a, b in itertools.pairwise(self.times)), 2),
            "slowest": round(self.slowest, 2),
        }
        return out

    def _in_log(self) -> tuple[set[str], Counter[str], dict[str, set[int]]]:
        """Lists, their ends, and the clicks that count: those before the end."""
        lists: set[str] = set()
        ends: Counter[str] = Counter()
        clicks: defaultdict[str, set[int]] = defaultdict(set)
        for record in self._scene.records():
            if isinstance(record, Ranked):
                lists.add(record.event_id)
            elif isinstance(record, Final):
                ends[record.event_id] += 1
            elif isinstance(record, Clicked) and record.event_id not in ends:
                clicks[record.event_id].update(record.clicks)
        return lists, ends, clicks


def _clicks(load: Load, thread: int, number: int) -> None:
    """A list and its click, wherever the client sends them."""
    event = f"{thread}/{number}"
    answer = load.both.rank(f"query {number % 50}", list("abcdefgh"), event_id=event)
    load.done("list", event)
    result = load.both.feedback(answer.event_id, [answer.items[0].id], wait=True)
    if result.outcome in ("counted", "duplicate", "collected"):
        load.done("end" if result.outcome != "collected" else "waits", event)


def _silence(load: Load, thread: int, number: int) -> None:
    """A list that the keeper has to end."""
    event = f"{thread}/{number}"
    load.both.rank(f"query {number % 50}", list("abcdefgh"), event_id=event)
    load.done("waits", event)


def _across(load: Load, thread: int, number: int) -> None:
    """A deferred list: made by one node, activated by the other, clicked at both, ended by the keeper."""
    event, first = f"{thread}/{number}", number % 2

    def at(node: int, call: Callable[[Client], Any]) -> Any:
        try:
            return call(load.each[(first + node) % 2])
        except ServiceError:  # that one has gone
            return call(load.each[(first + node + 1) % 2])

    answer = at(0, lambda client: client.rank(f"query {number % 50}", list("abcdefgh"), event_id=event, defer=True))
    load.done("list", event)
    at(1, lambda client: client.activate(event))
    load.done("waits", event)
    for position in (1, 2):
        item = answer.items[position - 1].id
        result = at(position, lambda client, item=item: client.feedback(event, [item], wait=True))
        if result.outcome in ("collected", "duplicate"):
            load.done("click", event, position)


# -- faults ------------------------------------------------------------------------------------------------------------


def _for_a_while(begin: Callable[[], None], end: Callable[[], None], seconds: float) -> Callable[[], None]:
    def fault() -> None:
        begin()
        time.sleep(seconds)
        end()

    return fault


def _database_killed(scene: Scene) -> None:
    scene.primary.kill()
    scene.primary.start()


def _database_restarted(scene: Scene) -> None:
    scene.primary.stop()
    scene.primary.start()


def _failover(scene: Scene) -> None:
    scene.primary.kill()
    scene.standby.promote()


def _hung(scene: Scene, seconds: float) -> Callable[[], None]:
    stop, go = signal.SIGSTOP, signal.SIGCONT
    return _for_a_while(lambda: scene.primary.signal(stop), lambda: scene.primary.signal(go), seconds)


def _failover_of_hung(scene: Scene) -> None:
    scene.primary.signal(signal.SIGSTOP)
    time.sleep(2)
    scene.standby.promote()
    scene.primary.kill()


def _hung_keeper(scene: Scene, seconds: float) -> Callable[[], None]:
    process = scene.keeper._process
    stop, go = signal.SIGSTOP, signal.SIGCONT
    return _for_a_while(lambda: process.send_signal(stop), lambda: process.send_signal(go), seconds)


def _cut_off(scene: Scene, seconds: float) -> Callable[[], None]:
    return _for_a_while(scene.proxy.open.clear, scene.proxy.open.set, seconds)


def _backend_killed(scene: Scene) -> None:
    """One process of the database with SIGKILL: it ends all others, and recovers."""
    ((pid,),) = scene.primary.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'driftrank' LIMIT 1")
    os.kill(pid, signal.SIGKILL)


def _cut_at_random(scene: Scene) -> None:
    chance, end = random.Random(1), time.monotonic() + 5
    while time.monotonic() < end:
        time.sleep(chance.expovariate(20))
        scene.proxy.cut()


def _failover_to_one_behind(scene: Scene) -> None:
    """The standby takes over without the last second, in which it had no connection to the primary."""
    scene.standby.run("ALTER SYSTEM SET primary_conninfo = ''")
    scene.standby.run("SELECT pg_reload_conf()")
    time.sleep(1)
    scene.primary.kill()
    scene.standby.promote()


def _skew(scene: Scene) -> dict[str, Any]:
    began = time.time()
    out = Load(scene, _silence, 8).run(lambda: None)
    wrong = [record for record in scene.records() if not began - 60 < record.time < time.time() + 5]
    return out | {"records with a wrong time": len(wrong)}


#: loses what it is expected to lose
CONTRAST = "failover to an asynchronous standby that is 1 s behind, for contrast"
#: what happens, and the load meanwhile
FAULTS: dict[str, Callable[[Scene], dict[str, Any]]] = {
    "a node killed": lambda scene: Load(scene, _clicks, 8).run(scene.nodes[1].kill),
    "database killed": lambda scene: Load(scene, _clicks, 8).run(lambda: _database_killed(scene)),
    "one process of the database killed": lambda scene: Load(scene, _clicks, 12).run(lambda: _backend_killed(scene)),
    "database restarted": lambda scene: Load(scene, _clicks, 8).run(lambda: _database_restarted(scene)),
    "failover to a synchronous standby": lambda scene: Load(scene, _clicks, 8).run(lambda: _failover(scene)),
    "database hangs for 5 s": lambda scene: Load(scene, _clicks, 12).run(_hung(scene, 5)),
    "database hangs, its standby takes over": lambda scene: Load(scene, _clicks, 12).run(
        lambda: _failover_of_hung(scene)
    ),
    "a node cut off from the database for 14 s": lambda scene: Load(scene, _clicks, 24).run(_cut_off(scene, 14)),
    "connections of a node cut 20 times a second for 5 s": lambda scene: Load(scene, _clicks, 12).run(
        lambda: _cut_at_random(scene)
    ),
    CONTRAST: lambda scene: Load(scene, _clicks, 8).run(lambda: _failover_to_one_behind(scene)),
    "keeper hangs for 14 s": lambda scene: Load(scene, _silence, 24).run(_hung_keeper(scene, 14)),
    "clocks an hour ahead and behind": _skew,
    "activated and clicked at both nodes": lambda scene: Load(scene, _across, 8).run(lambda: None),
    "the same, keeper killed": lambda scene: Load(scene, _across, 12).run(scene.keeper.kill),
}
#: how the nodes are set up, if not by default
SCENES: dict[str, dict[str, Any]] = {
    CONTRAST: {"synchronous": False},
    "keeper hangs for 14 s": BRIEF,
    "clocks an hour ahead and behind": BRIEF | {"clocks": (3600.0, -3600.0)},
    "activated and clicked at both nodes": BRIEF,
    "the same, keeper killed": BRIEF,
}
