"""Kill a server again and again while clients use it; check that nothing is lost and nothing counted twice.

    python benchmarks/kill.py [--rounds 100] [--seconds 1.0] [--lists 0] [--connections 6] [--seed 0] [--folder DIR]

Every round starts ``driftrank serve`` on the same store and ends it with SIGKILL: under load, while it starts, or while
it shuts down after SIGTERM. Clients rank with ids of their own, send feedback, activate deferred rankings, retry all
requests that were not answered, and some that were. They change the settings of a ranker, with what that discards, and
undo it; they read experiments, series, lists and the live page meanwhile. Feedback windows are short, so that many end
by silence; there is little memory and there are many checkpoints, so that queries are written and read back all the
time.

Then the log is compared with what clients saw: all that was acknowledged is in it, once, and nothing that was not sent.
The state of the service, arm by arm, is compared, to the bit, with a fold over the whole log without any snapshot, and
with learners that are driven directly by what clients saw (only order and times are taken from the log). The counts of
arms, of the series and of the policy in the shadow are compared with those of the log. Subjects always had the same arm
and the same pages. Prints a summary as JSON; the exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import logging
import os
import random
import re
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from driftrank.policies.learner.learner import Learner  # noqa: E402
from driftrank.policies.registry import parse_policy  # noqa: E402
from driftrank.serve.log.records import Activated, Clicked, Final, Ranked, RankerSet, Record, decode  # noqa: E402
from driftrank.serve.log.store.base import LogOnly  # noqa: E402
from driftrank.serve.log.store.sqlite import SQLiteStore  # noqa: E402
from driftrank.serve.monitoring.metrics import Metrics  # noqa: E402
from driftrank.serve.state.checkpoint import shared_name  # noqa: E402
from driftrank.serve.state.query import Query  # noqa: E402
from driftrank.serve.state.state import State  # noqa: E402

K = 3
QUERIES = 60
#: name: policy, settings
RANKERS = {
    "patient": ("CascadeUCB1", 'wait = "1h"'),
    "silent": ("CascadeTS", "wait = 0.8"),
    "collecting": ("CascadeDUCB", 'wait = 0.8\nsecond_click = "update"'),
    # its queries are reset and deleted, and items come and go
    "restless": ("CascadeUCB1", "wait = 0.3\nforget_items = 2.0"),
    # its queries learn together, and items come and go
    "sharing": ("PriorRegimeTS:hash_bits=8", "wait = 0.8\nforget_items = 2.0"),
    # by subjects, who get the same pages again; several events on a list
    "testing": ("CascadeUCB1", """wait = 0.8
holdout = 0.2
stable = "1h"
second_click = "update"
values = {purchase = 1.0, dwell = 0.3, hide = 0.0}
arms = {b = {share = 0.3, policy = "CascadeTS"}, c = {share = 0.2, seed = 3}}"""),
    # shows the caller's order through a softmax, and counts what the policy would have earned
    "exploring": ("CascadeUCB1", 'wait = 0.8\nmode = "shadow"\nexplore = 1.0'),
}  # fmt: skip
#: a ranker that clients create, change with what that discards, and undo
CHANGING, POLICIES = "changing", ("CascadeUCB1", "CascadeTS", "CascadeDUCB")
#: rankers whose learners are driven directly, and those whose clicks are collected
STEADY, COLLECTING = ("patient", "silent", "collecting"), ("collecting", "testing")
VALUES = {"purchase": 1.0, "dwell": 0.3, "hide": 0.0}
#: clicked positions, and what each is worth; None: the list was taken back
Reported = tuple[tuple[int, float], ...] | None
ITEMS = [f"item-{n}" for n in range(8)]

SERVER = """
[server]
memory = "250KB"
retention = "forever"
"""


# -- the server ------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Server:
    """``driftrank serve`` on one port and one store, started many times."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.store = folder / "kill.db"
        self.log = folder / "server.log"
        rankers = "".join(
            f'[rankers.{name}]\npolicy = "{policy}"\nk = {K}\nseed = 7\n{settings}\n'
            for name, (policy, settings) in RANKERS.items()
        )
        (folder / "kill.toml").write_text(SERVER + rankers)

    async def start(self, checkpoint_every: int = 100) -> None:
        """With few checkpoints the next start has much to replay; with many, the kill often interrupts one."""
        often = {"DRIFTRANK_CHECKPOINT_EVERY": f"{checkpoint_every}", "DRIFTRANK_CHECKPOINT_SECONDS": "3"}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "driftrank", "serve", "--config", str(self.folder / "kill.toml"), "--port",
                str(self.port), "--store", f"sqlite:///{self.store}", cwd=ROOT, stdout=asyncio.subprocess.PIPE,
                stderr=log, env=os.environ | often,
            )  # fmt: skip

    async def ready(self) -> None:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 120)
        if b"listens" not in line:
            raise SystemExit(f"the server did not start: {self.log.read_text()[-2000:]}")

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), 60)


class Gone(Exception):
    """The connection ended before the answer came."""


class Connection:
    """A minimal HTTP client that notices at once when the server is gone."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            data = b"" if body is None else json.dumps(body).encode()
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            head += "Prefer: handling=strict\r\n"
            writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            await writer.drain()
            # not wait_for(), which before Python 3.12 may miss that the client is cancelled
            async with asyncio.timeout(60):
                head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            found = re.search(rb"(?i)content-length: (\d+)", head)
            answer = await reader.readexactly(int(found[1])) if found else b""
        except (OSError, EOFError) as error:
            self.close()
            raise Gone from error
        return status, json.loads(answer) if answer and b"json" in head else None

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


# -- the clients -----------------------------------------------------------------------------------------------------


class Seen:
    """The requests and answers of all clients."""

    def __init__(self) -> None:
        self.rankings: dict[tuple[str, str], list[str]] = {}  #: acknowledged, by ranker and event id
        self.requests: dict[tuple[str, str], dict[str, Any]] = {}  #: to rank, answered or not
        self.deferred: set[tuple[str, str]] = set()
        self.activated: set[tuple[str, str]] = set()  #: acknowledged
        self.sent: dict[tuple[str, str], set[Reported]] = {}  #: feedback, acknowledged or not
        self.acknowledged: list[tuple[tuple[str, str], Reported, str]] = []  #: feedback, with its outcome
        self.arms: dict[str, str] = {}  #: by subject
        self.pages: dict[tuple[str, str], dict[int, list[str]]] = {}  #: by subject and query; by offset
        self.changes: set[float] = set()  #: acknowledged changes of settings, by holdout, which each has of its own
        self.warm: Counter[str] = Counter()  #: rows counted, by batch
        self.statuses: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.retried = 0
        self.wrong: list[str] = []

    def fails(self, what: str) -> None:
        if len(self.wrong) < 50:
            self.wrong.append(what)


class Client:
    """One connection that ranks and clicks, and reconnects whenever the server is gone."""

    def __init__(self, number: int, port: int, seen: Seen, seed: int) -> None:
        self._number = number
        self._seen = seen
        self._random = random.Random(f"{seed}/{number}")
        self._connection = Connection(port)
        self._made = 0
        self._recent: deque[tuple[str, str]] = deque(maxlen=300)
        self._unanswered: deque[tuple[str, Any]] = deque(maxlen=100)

    async def use(self) -> None:
        actions = [(self._rank, 30), (self._feedback, 40), (self._retry, 8), (self._activate, 10), (self._reset, 3),
                   (self._warm, 1), (self._change, 1), (self._read, 4)]  # fmt: skip
        try:
            while True:
                (action,) = self._random.choices([a for a, _ in actions], [w for _, w in actions])
                try:
                    await action()
                except Gone:
                    await asyncio.sleep(0.02)
        finally:
            self._connection.close()

    async def _call(self, path: str, body: Any = None, *, method: str = "POST") -> tuple[int, Any]:
        status, answer = await self._connection.call(method, path, body)
        self._seen.statuses[status] += 1
        if status == 503:  # not ready yet
            await asyncio.sleep(0.01)
        elif status not in (200, 204, 404, 409):
            self._seen.fails(f"{path}: status {status}: {answer}")
        return status, answer

    async def _rank(self) -> None:
        ranker = self._random.choice([*RANKERS, CHANGING])
        bodies = []
        for _ in range(self._random.choice([1, 1, 1, 4])):
            self._made += 1
            body: dict[str, Any] = {
                "query": f"q{self._random.randrange(QUERIES)}", "items": ITEMS,
                "event_id": f"{self._number}-{self._made}",
            }  # fmt: skip
            if ranker in ("restless", "sharing"):
                body["items"] = self._random.sample([*ITEMS, *(f"new-{n}" for n in range(30))], 6)
            if ranker == "testing":
                body["subject"] = f"user-{self._random.randrange(40)}"
                pages = self._seen.pages.get((body["subject"], body["query"]), {})
                if pages and self._random.random() < 0.5:
                    body["offset"] = min(max(pages) + K, len(ITEMS) - 2)
            if self._random.random() < 0.2:
                body["defer"] = True
                self._seen.deferred.add((ranker, body["event_id"]))
            self._seen.requests[ranker, body["event_id"]] = body
            bodies.append(body)
        await self._send_ranks(ranker, bodies)

    async def _send_ranks(self, ranker: str, bodies: list[dict[str, Any]]) -> None:
        try:
            status, answers = await self._call(f"/v1/rankers/{ranker}/rank", bodies)
        except Gone:
            self._unanswered.append((f"rank/{ranker}", bodies))
            raise
        if status != 200:
            self._unanswered.append((f"rank/{ranker}", bodies))
            return
        for body, answer in zip(bodies, answers, strict=True):
            at = ranker, answer["event_id"]
            shown = [item["id"] for item in answer["items"]]
            if answer["event_id"] != body["event_id"] or len(shown) != min(K, len(ITEMS) - body.get("offset", 0)):
                self._seen.fails(f"{at}: answered {answer}")
            if ranker == "testing":
                self._check_subject(body, answer["arm"], shown)
            if self._seen.rankings.setdefault(at, shown) != shown:
                self._seen.fails(f"{at}: was {self._seen.rankings[at]}, retried {shown}")
            self._recent.append(at)

    def _check_subject(self, body: dict[str, Any], arm: str, shown: list[str]) -> None:
        subject, offset, seen = body["subject"], body.get("offset", 0), self._seen
        if seen.arms.setdefault(subject, arm) != arm:
            seen.fails(f"{subject}: was in arm {seen.arms[subject]}, is in {arm}")
        pages = seen.pages.setdefault((subject, body["query"]), {})
        if pages.setdefault(offset, shown) != shown:
            seen.fails(f"{subject}, {body['query']}: page at {offset} was {pages[offset]}, is {shown}")
        if {*shown} & {item for above, page in pages.items() if above + K <= offset for item in page}:
            seen.fails(f"{subject}, {body['query']}: pages overlap: {pages}")

    async def _feedback(self) -> None:
        if not self._recent:
            return
        ranker = self._random.choice(self._recent)[0]
        recent = [*self._recent][-self._random.choice([20, 20, 300]) :]  # most clicks come soon
        bodies = []
        for at in {self._random.choice(recent) for _ in range(self._random.choice([1, 2, 4]))}:
            if at[0] == ranker:
                above = self._seen.requests[at].get("offset", 0)
                places = range(above + 1, above + len(self._seen.rankings[at]) + 1)
                clicks = [place for place in places if self._random.random() < 0.3]
                body: dict[str, Any] = {"event_id": at[1], "clicks": clicks}
                if self._random.random() < 0.05:
                    body |= {"shown": 0, "clicks": []}
                elif clicks and ranker == "testing":
                    body |= self._random.choice([{}, {"value": 0.6}, *({"kind": kind} for kind in VALUES)])
                bodies.append(body)
        if bodies:
            await self._send_feedback(ranker, bodies)

    async def _send_feedback(self, ranker: str, bodies: list[dict[str, Any]]) -> None:
        for body in bodies:
            self._seen.sent.setdefault((ranker, body["event_id"]), set()).add(self._reported(ranker, body))
        try:
            status, answers = await self._call(f"/v1/rankers/{ranker}/feedback", bodies)
        except Gone:
            self._unanswered.append((f"feedback/{ranker}", bodies))
            raise
        if status != 200:
            self._unanswered.append((f"feedback/{ranker}", bodies))
            return
        for body, answer in zip(bodies, answers, strict=True):
            at = ranker, body["event_id"]
            self._seen.outcomes[answer["outcome"]] += 1
            self._seen.acknowledged.append((at, self._reported(ranker, body), answer["outcome"]))
            if self._random.random() < 0.05:
                self._unanswered.append((f"feedback/{ranker}", [body]))  # again, though it was answered

    def _reported(self, ranker: str, body: dict[str, Any]) -> Reported:
        """The feedback as its record has it: positions are those on the page."""
        above = self._seen.requests[ranker, body["event_id"]].get("offset", 0)
        worth = VALUES[body["kind"]] if "kind" in body else body.get("value", 1.0)
        return None if body.get("shown") == 0 else tuple((click - above, worth) for click in body["clicks"])

    async def _retry(self) -> None:
        """Send an unanswered request again, or else a rank request that was answered."""
        if self._unanswered:
            what, bodies = self._unanswered.popleft()
            self._seen.retried += len(bodies)
            kind, _, ranker = what.partition("/")
            await (self._send_ranks if kind == "rank" else self._send_feedback)(ranker, bodies)
        elif self._recent:
            ranker, event = self._random.choice(self._recent)
            self._seen.retried += 1
            await self._send_ranks(ranker, [self._seen.requests[ranker, event]])

    async def _activate(self) -> None:
        waiting = [at for at in self._recent if at in self._seen.deferred and at not in self._seen.activated]
        if waiting:
            at = self._random.choice(waiting)
            status, answer = await self._call(f"/v1/rankers/{at[0]}/events/{at[1]}/activate")
            if status == 200 and answer["outcome"] in ("activated", "duplicate"):
                self._seen.activated.add(at)
            elif status not in (409, 503):  # 409: it was taken back
                self._seen.fails(f"{at}: was acknowledged, activated: {status} {answer}")

    async def _reset(self) -> None:
        path = f"/v1/rankers/restless/queries/q{self._random.randrange(QUERIES)}"
        if self._random.random() < 0.5:
            await self._call(path, method="DELETE")
        else:
            await self._call(f"{path}/reset")

    async def _warm(self) -> None:
        self._made += 1
        batch = f"{self._number}-{self._made if self._random.random() < 0.7 else self._random.randrange(self._made)}"
        rows = [{"query": f"q{n}", "ranking": ITEMS[:K], "clicks": [n % K + 1]} for n in range(5)]
        status, answer = await self._call(f"/v1/rankers/restless/warmstart?batch={batch}", rows)
        if status == 200:
            self._seen.warm[batch] += answer["counted"]
            if self._seen.warm[batch] > len(rows):
                self._seen.fails(f"warmstart {batch}: counted {self._seen.warm[batch]} of {len(rows)} rows")

    async def _change(self) -> None:
        """Create, replace or change settings, or undo the latest change."""
        path, way = f"/v1/rankers/{CHANGING}", self._random.choice(["PUT", "PATCH", "PATCH", "undo"])
        if way == "undo":
            status, operations = await self._call(f"{path}/operations?limit=3", method="GET")
            if status == 200:
                await self._call(f"{path}/operations/{self._random.choice(operations)['number']}/undo")
            return
        self._made += 1
        holdout = 0.01 * (self._number + 1) + 1e-7 * self._made
        settings: dict[str, Any] = {"policy": self._random.choice(POLICIES), "holdout": holdout}
        if way == "PUT":
            settings |= {"k": K, "seed": 7, "wait": 0.8}
        discard = self._random.choice(["", "?discard=true"])
        status, answer = await self._call(path + discard, settings, method=way)
        if status == 200:
            self._seen.changes.add(holdout)
            if answer["settings"]["policy"] != settings["policy"] and answer["settings"]["holdout"] == holdout:
                self._seen.fails(f"{way} {settings}: answered {answer}")

    async def _read(self) -> None:
        """Read what no other action does; it must not fail, and must not change anything."""
        ranker, query = self._random.choice([*RANKERS, CHANGING]), f"q{self._random.randrange(QUERIES)}"
        own = f"/v1/rankers/{ranker}"
        paths = [
            f"{own}/experiment", f"{own}/shadow", f"{own}/series?step=minute", f"{own}/lists/{query}", "/v1/overview",
            f"{own}/changes", f"{own}/top-queries", f"{own}/queries/{query}", "/", f"/ranker/{ranker}",
            f"/v1/rankers/testing/queries/{query}?arm={self._random.choice('bc')}", f"{own}/operations",
            *(f"/v1/rankers/{ranker}/events/{event}" for ranker, event in [*self._recent][-1:]),
        ]  # fmt: skip
        await self._call(self._random.choice(paths), method="GET")


async def rounds(server: Server, seen: Seen, options: argparse.Namespace) -> Counter[str]:
    """Start and kill the server; the clients never stop."""
    chance = random.Random(options.seed)
    clients = [
        asyncio.create_task(Client(n, server.port, seen, options.seed).use()) for n in range(options.connections)
    ]
    ways: Counter[str] = Counter()
    try:
        for n in range(options.rounds):
            (way,) = chance.choices(["under load", "while starting", "while stopping"], [70, 15, 15])
            ways[way] += 1
            began = time.monotonic()
            await server.start(chance.choice([30, 300, 10_000]))
            if way == "while starting" and n:
                await asyncio.sleep(chance.uniform(0.2, 1.2) * options.start)
            else:
                await server.ready()
                options.start = time.monotonic() - began
                await asyncio.sleep(chance.uniform(0.02, options.seconds))
                while len(seen.rankings) < options.lists * (n + 1) / options.rounds and not seen.wrong:
                    await asyncio.sleep(0.02)
                if way == "while stopping":
                    server.process.terminate()
                    await asyncio.sleep(chance.uniform(0, 0.3))
            await server.kill()
            if any(client.done() for client in clients):
                break
    finally:
        for client in clients:
            client.cancel()
        ended = await asyncio.gather(*clients, return_exceptions=True)
    for error in ended:
        if not isinstance(error, asyncio.CancelledError):
            raise error  # type: ignore[misc]
    return ways


class Ended(NamedTuple):
    """The service after all rounds."""

    infos: dict[str, Any]  #: of rankers, by name
    states: dict[tuple[str, str], bytes]  #: of queries, by arm and query
    experiment: dict[str, Any]
    series: dict[str, Any]  #: of the same ranker
    shadow: dict[str, Any]


async def final_state(server: Server) -> Ended:
    """Start it once more, let the feedback windows end, and return what it has."""
    await server.start()
    await server.ready()
    connection = Connection(server.port)
    until = time.monotonic() + 60
    while True:
        _, found = await connection.call("GET", "/v1/rankers")
        infos = {info["name"]: info for info in found}
        if not any(info["pending"] for name, info in infos.items() if name != "patient"):
            break
        if time.monotonic() > until:
            raise SystemExit(f"feedback windows do not end: {infos}")
        await asyncio.sleep(0.1)
    asked = [f"/v1/rankers/{path}" for path in ("testing/experiment", "testing/series?step=hour", "exploring/shadow")]
    answers = [(await connection.call("GET", path))[1] for path in asked]
    connection.close()
    states = await exports(server.port, infos)
    code = await server.stop()
    if code != 0:
        raise SystemExit(f"SIGTERM: exit code {code}")
    return Ended(infos, states, *answers)


async def exports(port: int, infos: dict[str, Any], key: str = "") -> dict[tuple[str, str], bytes]:
    """The states of the queries of all arms of rankers."""
    return {
        (f"{name}@{arm}" if arm else name, query): base64.b64decode(state)
        for name, info in infos.items()
        for arm in ("", *info["settings"].get("arms", {}))
        for query, state in (await export(port, name, key, arm)).items()
    }


async def export(port: int, ranker: str, key: str = "", arm: str = "") -> dict[str, str]:
    """The states of all queries of an arm, in base64."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"GET /v1/rankers/{ranker}/export?arm={arm} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
    )
    writer.write(head.encode())
    head, _, body = (await reader.read(-1)).decode().partition("\r\n\r\n")
    writer.close()
    if " 200 " not in head.partition("\r\n")[0]:
        raise SystemExit(f"export of {ranker}: {head} {body}")
    lines = [json.loads(line) for line in body.split("\n") if line.startswith("{")]  # not the lengths of chunks
    return {line["query"]: line["state"] for line in lines}


# -- the checks -------------------------------------------------------------------------------------------------------


def _recorded(record: Clicked | Final) -> tuple[tuple[int, float], ...]:
    return tuple(record.values) or tuple((click, 1.0) for click in record.clicks)


def log_of(store: SQLiteStore) -> list[tuple[int, Record]]:
    out: list[tuple[int, Record]] = []
    while entries := store.read(out[-1][0] if out else 0):
        out += [(entry.seq, decode(entry.body)) for entry in entries]
    return out


def check_log(log: list[tuple[int, Record]], seen: Seen) -> dict[str, Any]:
    """Check that all that was acknowledged is in the log, once, and nothing that was not sent."""
    ranked: dict[tuple[str, str], Ranked] = {}
    finals: dict[tuple[str, str], Final] = {}
    clicked: dict[tuple[str, str], set[Reported]] = {}
    activated: set[tuple[str, str]] = set()
    changes: set[float] = set()
    for seq, record in log:
        if isinstance(record, Ranked | Final | Activated):
            at = record.ranker, record.event_id
            if at in (ranked if isinstance(record, Ranked) else finals if isinstance(record, Final) else activated):
                seen.fails(f"{at}: twice in the log, at {seq}")
        if isinstance(record, Ranked):
            ranked[at] = record
        elif isinstance(record, Activated):
            activated.add(at)
        elif isinstance(record, Final):
            finals[at] = record
            collected = at[0] in COLLECTING
            sent, recorded = seen.sent.get(at, set()), _recorded(record)
            if record.how == "feedback" and not collected and recorded not in sent:
                seen.fails(f"{at}: clicks {recorded} in the log, sent were {sent}")
            if collected and not {*recorded} <= {click for clicks in sent for click in clicks or ()}:
                seen.fails(f"{at}: clicks {recorded} in the log, sent were {sent}")
        elif isinstance(record, Clicked):
            clicked.setdefault((record.ranker, record.event_id), set()).add(_recorded(record))
        elif isinstance(record, RankerSet) and record.ranker == CHANGING:
            if record.settings.holdout in changes and not record.undoes:
                seen.fails(f"settings with holdout {record.settings.holdout}: twice in the log, at {seq}")
            changes.add(record.settings.holdout)
    if lost := seen.changes - changes:
        seen.fails(f"settings with holdouts {lost} were acknowledged, but are not in the log")
    for at, shown in seen.rankings.items():
        if at not in ranked or ranked[at].shown != shown:
            seen.fails(f"{at}: acknowledged {shown}, in the log {ranked.get(at)}")
    for at in seen.activated:
        if at in seen.deferred and at not in activated:
            seen.fails(f"{at}: its activation was acknowledged, but is not in the log")
    for at, clicks, outcome in seen.acknowledged:
        final = finals.get(at)
        if outcome in ("counted", "forgotten", "holdout") or (outcome == "duplicate" and at[0] not in COLLECTING):
            if final is None or final.how != "feedback" or _recorded(final) != clicks:
                seen.fails(f"{at}: {clicks} was acknowledged as {outcome}, in the log is {final}")
        elif outcome == "withdrawn":
            if final is None or final.how != "withdrawn" or clicks is not None:
                seen.fails(f"{at}: {clicks} was acknowledged as {outcome}, in the log is {final}")
        elif outcome in ("collected", "duplicate"):
            # after the end, all the collected clicks together are a duplicate, too
            sent_so = clicks in clicked.get(at, ()) or (
                outcome == "duplicate" and final is not None and _recorded(final) == clicks
            )
            worth = {} if final is None else dict(_recorded(final))
            if not sent_so or any(worth.get(click, -1.0) < value for click, value in clicks or ()):
                seen.fails(f"{at}: {clicks} was acknowledged as {outcome}, in the log is {final}")
        elif outcome == "refused":
            after = None if final is None or final.how == "withdrawn" else _recorded(final)
            # events of different values may add up to clicks
            if final is None or final.how not in ("feedback", "withdrawn") or (after == clicks and not final.values):
                seen.fails(f"{at}: {clicks} was refused, in the log is {final}")
        elif outcome == "inactive":
            if at not in seen.deferred:
                seen.fails(f"{at}: is called inactive, but was not deferred")
        elif outcome == "orphan":
            seen.fails(f"{at}: was acknowledged, but is unknown to feedback")
    return {
        "lists": len(ranked),
        "finals": Counter(final.how for final in finals.values()),
        "activated": len(activated),
        "changes": len(changes),
    }


def check_counts(log: list[tuple[int, Record]], ended: Ended, seen: Seen) -> int:
    """Check counts of lists that have ended with a count of the log; the number of such lists."""
    ranked: dict[tuple[str, str], Ranked] = {}
    arms: dict[str, Counter[str]] = defaultdict(Counter)
    shadow, activated = 0, set()
    for _, record in log:
        if isinstance(record, Ranked):
            ranked[record.ranker, record.event_id] = record
            if record.ranker == "testing" and not record.offset:
                arms[record.arm]["made"] += 1
        elif isinstance(record, Activated):
            activated.add((record.ranker, record.event_id))
        elif isinstance(record, Final):
            at = record.ranker, record.event_id
            seen_by_user = not ranked[at].defer or at in activated
            kept = record.how in ("feedback", "silence")
            if record.ranker == "testing" and not ranked[at].offset and seen_by_user:
                its = arms[ranked[at].arm]
                its["lists" if kept else "lost"] += 1
                if kept:
                    its["clicks"] += len(record.clicks)
                    its["value"] += sum(worth for _, worth in _recorded(record))  # type: ignore[assignment]
            shadow += record.ranker == "exploring" and kept and ranked[at].instead is not None
    for arm in ended.experiment["arms"]:
        its = arms[arm["arm"]]
        for what in ("lists", "clicks", "lost", "value"):
            if abs(arm[what] - its[what]) > 1e-6:
                seen.fails(f"arm {arm['arm']}: {what} {arm[what]}, in the log {its[what]}")
    for arm in ended.series["arms"]:
        made, its = sum(arm["lists"]), arms[arm["arm"]]
        if made != its["made"] or sum(arm["clicks"]) != its["clicks"]:
            seen.fails(f"series of arm {arm['arm']}: {made} lists, {sum(arm['clicks'])} clicks, in the log {its}")
    if ended.shadow.get("lists", 0) != shadow:
        seen.fails(f"the policy in the shadow: {ended.shadow}, in the log {shadow} lists")
    if {arm["arm"] for arm in ended.experiment["arms"]} != arms.keys():
        seen.fails(f"arms {ended.experiment['arms']}, in the log {[*arms]}")
    return shadow + sum(its["lists"] for its in arms.values())


def check_state(
    store: SQLiteStore, log: list[tuple[int, Record]], infos: dict[str, Any], states: dict[tuple[str, str], bytes],
    seen: Seen,
) -> int:  # fmt: skip
    """Check that the state of the service is what the log alone gives, to the bit; the number of queries compared."""
    logging.getLogger("driftrank").setLevel(logging.ERROR)  # the server has logged what was not learnt
    state = State(LogOnly(store), Metrics())
    for seq, record in log:
        state.apply(seq, record)
    folded = {at: state.queries[at].to_bytes() for at in state.queries if at[0].partition("@")[0] in infos}
    for at in folded.keys() | states.keys():
        if folded.get(at) != states.get(at):
            both = [None if x is None else described(x) for x in (folded.get(at), states.get(at))]
            seen.fails(f"{at}: the log gives {both[0]}, the service has {both[1]}")
    for name, info in infos.items():
        r = state.rankers.get(name)
        if r is None:
            seen.fails(f"ranker {name}: is not in the log")
            continue
        arms = [*r.every_arm()]
        counts = {
            what: sum(getattr(arm, name) for arm in arms)
            for what, name in (("queries", "queries"), ("lists", "impressions"), ("steps", "steps"), ("clicks",) * 2)
        }
        counts["pending"] = len(r.waiting)
        for what, count in counts.items():
            if count != info[what]:
                seen.fails(f"ranker {name}: {what} {info[what]}, the log gives {count}")
        for arm in arms:
            if arm.shared_seq:
                stored, own = store.get_snapshot(shared_name(arm.owner)), arm.shared  # written when it was stopped
                if stored is None or own is None or (stored.seq, stored.body) != (arm.shared_seq, own.to_bytes()):
                    seen.fails(f"ranker {arm.owner}: the log gives another shared model")
    return len(folded)


def described(body: bytes) -> str:
    query = Query.from_bytes(body)
    return f"a query with seq {query.seq}, {query.impressions} impressions, {query.steps} steps, {query.clicks} clicks"


def check_learners(log: list[tuple[int, Record]], states: dict[tuple[str, str], bytes], seen: Seen) -> int:
    """Check the learners of the service against others, driven by what clients saw; the number of steps compared."""
    learners: dict[tuple[str, str], Learner] = {}
    shown: dict[tuple[str, str], list[Any]] = {}
    clicks: Counter[tuple[str, str]] = Counter()
    steps = 0
    for _, record in log:
        if not isinstance(record, Ranked | Final) or record.ranker not in STEADY:
            continue
        at = record.ranker, record.event_id
        if isinstance(record, Ranked):
            # from the log only if the answer was lost
            shown[at] = seen.rankings.get(at, record.shown)  # type: ignore[arg-type]
            where = record.ranker, seen.requests[at]["query"]
            if where not in learners:
                policy = parse_policy(RANKERS[record.ranker][0])
                learners[where] = policy.start(ITEMS, K, seed=7, query=where[1], slots=len(ITEMS))
        elif record.how != "withdrawn":
            where = record.ranker, seen.requests[at]["query"]
            vector = [int(n + 1 in record.clicks) for n in range(K)]
            learners[where].update(shown[at], vector, now=record.time)
            clicks[where] += len(record.clicks)
            steps += 1
    for where, learner in learners.items():
        query = Query.from_bytes(states[where])
        if (query.steps, query.clicks) != (learner.steps, clicks[where]):
            seen.fails(
                f"{where}: the service has {query.steps} steps and {query.clicks} clicks, clients saw "
                f"{learner.steps} and {clicks[where]}"
            )
        elif query.learner.to_bytes() != learner.to_bytes():
            seen.fails(f"{where}: has not learnt from what clients saw")
    return steps


def check_server_log(path: Path, seen: Seen) -> list[float]:
    """Check that nothing failed; the seconds of each replay."""
    replays = []
    for line in path.read_text().splitlines():
        found = re.search(r"records replayed in ([\d.]+) s", line)
        if found:
            replays.append(float(found[1]))
        if "Traceback" in line or ('"level": "error"' in line and '"status": 503' not in line):
            seen.fails(f"the server's log: {line[:1000]}")
    return replays


# -- the command -----------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> dict[str, Any]:
    folder = Path(options.folder or tempfile.mkdtemp(prefix="driftrank-kill-"))
    server, seen = Server(folder), Seen()
    began = time.monotonic()

    async def rounds_and_state() -> tuple[Counter[str], Ended]:
        try:
            return await rounds(server, seen, options), await final_state(server)
        finally:
            if server.process.returncode is None:
                await server.kill()

    ways, ended = asyncio.run(rounds_and_state())
    took = time.monotonic() - began
    with SQLiteStore(server.store) as store:
        if store.damage or store.verify(0):
            seen.fails(f"the store is damaged: {store.damage}")
        log = log_of(store)
        found = check_log(log, seen)
        queries = check_state(store, log, ended.infos, ended.states, seen)
        size = store.size()
    counted = check_counts(log, ended, seen)
    steps = check_learners(log, ended.states, seen)
    replays = check_server_log(server.log, seen)
    summary = {
        "rounds": options.rounds,
        "killed": dict(ways),
        "seconds": round(took, 1),
        "answers": dict(sorted(seen.statuses.items())),
        "lists_acknowledged": len(seen.rankings),
        "feedback_acknowledged": dict(seen.outcomes.most_common()),
        "tried_again": seen.retried,
        "records": len(log),
        "lists": found["lists"],
        "activated": found["activated"],
        "finalised": dict(found["finals"]),
        "changes_of_settings": found["changes"],
        "subjects": len(seen.arms),
        "ends_counted_again": counted,
        "queries_compared": queries,
        "steps_compared": steps,
        "starts": len(replays),
        "replay_seconds": {"median": sorted(replays)[len(replays) // 2], "longest": max(replays)},
        "store_bytes": size,
        "wrong": seen.wrong,
    }
    if not options.folder:
        shutil.rmtree(folder)
    return summary


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.0, help="the longest time from ready to the kill")
    parser.add_argument("--lists", type=int, default=0, help="so many lists at least, however slow the machine")
    parser.add_argument("--connections", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="for the store and the server's log, which are then kept")
    options = parser.parse_args(arguments)
    options.start = 1.0  # seconds that a start takes; measured as it goes
    summary = run(options)
    print(json.dumps(summary, indent=2))
    return 1 if summary["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
