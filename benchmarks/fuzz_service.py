"""Send malformed requests to a server; check that it never fails, leaks, or learns what cannot be replayed.

    python benchmarks/fuzz_service.py [--bodies 100000] [--connections 4] [--seed 0] [--folder DIR]

Valid bodies of every route are generated and then corrupted: values of other types, numbers out of range, NaN, NUL,
half surrogate pairs, endless nesting, duplicate keys, truncated texts, bytes that are not text; on odd paths, with odd
headers. Every answer must be below 500 and, if it is an error, a problem document. Afterwards the server must answer a
valid request, must not have grown, must not have logged an error; killed and started again, its state must be that
of a fold over its log without any snapshot, to the bit. Prints a summary as JSON; the exit code is 1 if anything is
wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.kill import Seen, check_state, export, exports, free_port, log_of  # noqa: E402
from driftrank.serve.access.keys import new_key  # noqa: E402
from driftrank.serve.log.store.sqlite import SQLiteStore  # noqa: E402

#: rankers of the settings, with policies of different needs
RANKERS = {
    "default": "",
    "plain": 'policy = "CascadeUCB1"\nk = 3',
    "described": 'policy = "CascadeLinUCB"\nk = 3',
    "ranked": 'policy = "RankedUCB1"\nk = 4\nholdout = 0.3',
    "safe": 'mode = "safe"\nk = 4',
    "shadow": 'policy = "CascadeSWUCB:window=24h"\nmode = "shadow"\nk = 3',
    "collecting": 'policy = "CascadeDUCB"\nsecond_click = "update"\nwait = 0.3\nk = 3',
    "tested": """policy = "CascadeUCB1"
k = 3
holdout = 0.2
stable = "1h"
second_click = "update"
values = {buy = 1.0, dwell = 0.3}
arms = {b = {share = 0.3, policy = "CascadeTS"}, c = {share = 0.2}}""",
    "explored": 'policy = "CascadeUCB1"\nmode = "shadow"\nexplore = 1.0\nk = 3',
}
#: rankers that requests create and delete
MADE = ["made-0", "made-1"]
POLICIES = ["CascadeUCB1", "CascadeDUCB:gamma=0.9", "CascadeSWUCB:window=100", "CascadeLinUCB", "RankedUCB1"]
#: inserted into JSON as they are: no encoder would write them
RAW = [
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "9" * 400, "-" + "9" * 25, "1" + "0" * 5000, "0.1e",
    "-0", "-0.0", "01", '"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\ud83d\\ude00"', '"\x01"', '"\\x"', "tru",
    "[" * 50_000, "[" * 2000 + "]" * 2000, '{"a":' * 5000 + "1" + "}" * 5000, "'a'", "undefined", "",
]  # fmt: skip
VALUES = [
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 0.5, -0.5,
    1e308, -1e308, 1e-320, 1e101, "", "a", "1", "0", "é", "𝄞", "\ufeff", "\u202e", "a\nb", "a/b", "%00", "null",
    "x" * 255, "x" * 256, "x" * 257, "x" * 600, "x" * 30_000, [], {}, [[]], [None], [{}], {"": ""}, {"id": "a"},
    {"id": None}, {"id": 1.5}, {"id": "a", "features": [1]}, {"a": 1, "b": 0}, [1, 2, 3], ["a", "a"], [True], [1.5],
    ["a", 1, "1"], list(range(1001)), list(range(20_000)), ["x" * 256] * 3, "24h", "1e9d", "-1h", "sha256:" + "0" * 64,
]  # fmt: skip
#: of the live page
PAGES = [
    "/", "/sign-in", "/sign-out", "/ranker/{ranker}?window={query}&by={query}", "/ranker/{ranker}/query?query={query}",
    "/event?id={event}", "/find?id={event}", "/ranker/{ranker}/settings", "/page/{query}", "/try",
    "/try/change",
]  # fmt: skip
HEADERS = [
    "X-Request-Id: " + "a" * 1000, "X-Request-Id: \x7f\xe9", "Accept: nothing/at-all", "Content-Encoding: gzip",
    "Accept-Encoding: br;q=x", "Range: bytes=0-5", "If-None-Match: *", "Expect: 100-continue", "Host: \xff",
    "Cookie: " + "a=b;" * 500, "Upgrade: websocket\r\nConnection: Upgrade", "X-Forwarded-For: \x01", "Origin: null",
    "Transfer-Encoding: x", "Content-Length: 5", "X-HTTP-Method-Override: DELETE",
    "Upgrade: h2c\r\nConnection: Upgrade", "Authorization: Basic eDp5", "X-API-Key: \xff",
]  # fmt: skip

#: what the HTTP server says of an answer that the service aborted
_NO_END = "ASGI callable returned without completing response"


class Malformed:
    """Requests that are nearly valid."""

    #: rankers and event ids of rank requests
    events: ClassVar[list[tuple[str, str]]] = [("default", "e0")]

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.states: list[str] = []  # lines of exports

    def request(self) -> tuple[bytes, bytes]:
        """A line with method and path, and a body."""
        chance = self.random
        make = chance.choices(
            [self.rank, self.feedback, self.settings, self.warmstart, self.states_of, self.personalizer,
             self.reward, self.pathless],
            [30, 25, 8, 8, 6, 10, 4, 9],
        )[0]  # fmt: skip
        method, path, body = make()
        if chance.random() < 0.03:
            methods = ["GET", "PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "POST", "QUERY"]
            if path.rpartition("/")[2] not in RANKERS:  # keep the rankers of the settings
                methods.append("DELETE")
            method = chance.choice(methods)
        text = b"" if body is None else self.written(body)
        return f"{method} {path}".encode("latin-1", "replace"), text

    # -- valid requests ----------------------------------------------------------------------------------------

    def ranker(self) -> str:
        odd = ["nobody", "%00", "..", "a%2Fb", "x" * 300, "%ff%fe", "default%20", "Default", "%F0%9F%98%80", "a;b", "*"]
        return self.random.choice(odd) if self.random.random() < 0.04 else self.random.choice([*RANKERS, *MADE])

    def arm(self, mark: str) -> str:
        """A parameter that names an arm, after ``mark``; mostly none."""
        names = ["b", "c", "b", "", "live", "holdout", "%00", "%ff", "x" * 300, "b&arm=c", "@"]
        return f"{mark}arm={self.random.choice(names)}" if self.random.random() < 0.3 else ""

    def event(self) -> tuple[str, str]:
        """A ranker and an event id, perhaps of one of its rankings."""
        chance = self.random
        if chance.random() < 0.7:
            return chance.choice(self.events)
        made = chance.choice([f"e{chance.randrange(10_000)}", f"s:{chance.randrange(100)}", "s:9999999999999999999"])
        self.events.append((self.ranker(), made))
        del self.events[:-200]
        return self.events[-1]

    def query(self) -> str:
        return self.random.choice(
            ["", "q", "a/b", "a\nb", "a/reset", "reset", "é", "x" * 512, *(f"q{n}" for n in range(40))]
        )

    def items(self) -> list[Any]:
        chance = self.random
        some: list[Any] = chance.sample([*"abcdefghij", *range(10)], chance.randrange(1, 12))
        if chance.random() < 0.3:
            width = chance.choice([1, 2, 2, 2, 3])
            return [{"id": item, "features": [chance.uniform(-1, 1) for _ in range(width)]} for item in some]
        if chance.random() < 0.4:
            return [{"id": item, "features": self.named(), "score": chance.uniform(-1, 1)} for item in some]
        return some

    def named(self) -> Any:
        chance = self.random
        values: list[Any] = ["x", "", "y" * 300, 1, -1e90, 1e200, True, None, ["a", "b"], [], [1], {"z": "w"}, {"": {}}]
        some = {chance.choice("abcdef"): chance.choice(values) for _ in range(chance.randrange(5))}
        return chance.choice([some, some, [some, {"n": chance.random()}], None])

    def rank(self) -> tuple[str, str, Any]:
        chance = self.random
        ranker, event = self.event()
        body: dict[str, Any] = {"query": self.query(), "items": self.items()}
        if chance.random() < 0.7:
            body["event_id"] = event
        if chance.random() < 0.3:
            body["k"] = chance.randrange(1, 4)
        for name, make in (
            ("excluded", lambda: chance.sample("abcdefghij", 2)),
            ("pinned", lambda: {chance.choice("abcdefghij"): chance.randrange(0, 4)}),
            ("baseline", lambda: chance.sample("abcdefghij", 5)),
            ("defer", lambda: chance.random() < 0.5),
            ("context", self.named),
            ("draw", lambda: chance.choice([0, 1, 2**64 - 1, 2**64])),
            ("subject", lambda: chance.choice(["", "u1", "u2", "x" * 300])),
            ("offset", lambda: chance.choice([0, 1, 3, 100, -1])),
        ):
            if chance.random() < 0.2:
                body[name] = make()
        several = chance.random() < 0.2
        two = [body, {**body, "query": self.query()}]
        return "POST", f"/v1/rankers/{ranker}/rank", two if several else body

    def feedback(self) -> tuple[str, str, Any]:
        chance = self.random
        click: list[Callable[[], Any]] = [
            lambda: chance.randrange(1, 4), lambda: chance.choice("abcdefghij"),
            lambda: {"id": chance.choice([*"abc", *range(5)])}, lambda: {"position": chance.randrange(0, 5)},
            lambda: {"id": "a", "value": chance.choice([0.5, 3])}, lambda: {"position": 1, "kind": "buy"},
        ]  # fmt: skip
        ranker, event = self.event()
        body: dict[str, Any] = {"event_id": event}
        if chance.random() < 0.9:
            body["clicks"] = [chance.choice(click)() for _ in range(chance.randrange(3))]
        if chance.random() < 0.2:
            body["shown"] = chance.randrange(0, 5)
        if chance.random() < 0.2:
            body["value"] = chance.choice([0, 0.3, 1.0, 2, -1])
        if chance.random() < 0.1:
            body["kind"] = chance.choice(["buy", "dwell", ""])
        if chance.random() < 0.2:
            body["time"] = chance.choice([1.7e9, "2026-01-01T00:00:00Z", 0])
        several = chance.random() < 0.2
        return "POST", f"/v1/rankers/{ranker}/feedback", [body] * chance.randrange(4) if several else body

    def settings(self) -> tuple[str, str, Any]:
        chance = self.random
        body: dict[str, Any] = {}
        ways: dict[str, list[Any]] = {
            "policy": [*POLICIES, *POLICIES, None, "", "CascadeUCB1:", "Nobody", "CascadeSWUCB:window=1e18",
                       "CascadeSWUCB:window=99999999999", "CascadeDUCB:gamma=nan", "CascadeUCB1:a=1,a=2",
                       "CascadeSWUCB:window=100d", "__import__('os')", "CascadeDUCB:half_life=0s", "OracleRestart"],
            "k": [1, 2, 3, 10, 1000, 1001, 0],
            "mode": ["live", "shadow", "safe"],
            "holdout": [0.0, 0.5, 1.0],
            "wait": [0.01, 1, "1h", 0, "30d", 1e300],
            "silence": ["no_click", "drop"],
            "second_click": ["refuse", "update"],
            "forget_items": ["7d", "1h", 1e300, 0.02],
            "seed": [0, 1, 2**64 - 1, 2**64],
            "horizon": [None, 1, 1000, 2**53, 2**60],
            "context": [[], ["device"], ["a", "a"]],
            "keys": [[], ["sha256:" + "1" * 64], ["no"]],
            "arms": [{}, {"b": {"share": 0.5}}, {"b": {"share": 0.3, "policy": "CascadeUCB1"}, "c": {"share": 0.3}},
                     {"live": {"share": 0.1}}, {"b": {"share": 2}}, {"b": {}}, []],
            "values": [{}, {"buy": 1.0, "dwell": 0.3}, {"buy": 2}, {"": 0}],
            "stable": [0, 1, "30m", "60d", -1],
            "planned": [20_000, 0],
            "explore": [0, 1.0, 0.5, 1e300, -1],
        }  # fmt: skip
        for name, choices in ways.items():
            if chance.random() < 0.2:
                body[name] = chance.choice(choices)
        if chance.random() < 0.5:
            body["policy"] = chance.choice(POLICIES)
        name = chance.choice(MADE) if chance.random() < 0.95 else chance.choice(["..", "%00", "x" * 65, "-a", "é"])
        if chance.random() < 0.1:
            return "POST", f"/v1/rankers/{name}/operations/{chance.choice(['', 'x', -1, *range(300)])}/undo", None
        discard = chance.choice(["", "?discard=true", "?discard=true", "?discard=maybe"])
        return chance.choice(["PUT", "PUT", "PATCH", "DELETE"]), f"/v1/rankers/{name}{discard}", body

    def warmstart(self) -> tuple[str, str, Any]:
        chance = self.random
        rows = []
        for _ in range(chance.randrange(4)):
            rows.append({"query": self.query(), "ranking": self.items(), "clicks": [chance.randrange(0, 4)]})
            if chance.random() < 0.3:
                rows[-1]["time"] = chance.choice([0, -1, 1.7e9, 1e300, "yesterday", None])
        batches = ["", "?batch=b1", f"?batch=b{chance.randrange(1000)}", "?batch=" + "x" * 300, "?batch=%00",
                   "?batch=a&batch=b", "?batch=%ff"]  # fmt: skip
        batch = chance.choice(batches)
        return "POST", f"/v1/rankers/{self.ranker()}/warmstart{batch}{self.arm('&' if batch else '?')}", rows

    def states_of(self) -> tuple[str, str, Any]:
        chance = self.random
        lines = [
            chance.choice(self.states or ['{"query": "q", "state": "AAAA"}']) for _ in range(chance.randrange(1, 3))
        ]
        if chance.random() < 0.7:
            line = json.loads(lines[0])
            state = list(line["state"])
            for _ in range(chance.choice([1, 1, 3])):
                state[chance.randrange(len(state))] = chance.choice("ABCDwxyz0189+/")
            line["state"] = "".join(state)[: None if chance.random() < 0.8 else chance.randrange(len(state))]
            lines[0] = json.dumps(line)
        ranker = chance.choice(["plain", "plain", "described", "ranked", "tested", *MADE])
        return "POST", f"/v1/rankers/{ranker}/import{self.arm('?')}", "\n".join(lines).encode()

    def personalizer(self) -> tuple[str, str, Any]:
        chance = self.random
        feature: list[Any] = [{"a": 1}, {"b": {"c": "d"}}, {}, {"device": "mobile"}, {"x": [1, 2]}]
        actions = [{"id": item, "features": chance.sample(feature, 2)} for item in chance.sample("abcdefghij", 4)]
        body: dict[str, Any] = {"actions": actions, "contextFeatures": chance.sample(feature, 2)}
        if chance.random() < 0.5:
            body["eventId"] = self.event()[1]
        if chance.random() < 0.3:
            body["excludedActions"] = chance.sample("abcdefghij", chance.randrange(1, 9))
        if chance.random() < 0.3:
            body["deferActivation"] = True
        return "POST", "/personalizer/v1.0/rank", body

    def reward(self) -> tuple[str, str, Any]:
        what = self.random.choice(["reward", "activate"])
        return "POST", f"/personalizer/v1.0/events/{self.event()[1]}/{what}", {"value": self.random.uniform(-1, 2)}

    def pathless(self) -> tuple[str, str, Any]:
        """Requests without a body."""
        chance = self.random
        ranker, event, query = (
            self.ranker(),
            self.event(),
            chance.choice(["q", "q1", "a/b", "%00", "", "%ff", "x" * 600]),
        )
        return *chance.choice([
            ("GET", "/v1/rankers"), ("GET", f"/v1/rankers/{ranker}"), ("GET", f"/v1/rankers/{ranker}/queries"),
            ("GET", f"/v1/rankers/{ranker}/queries?limit={chance.choice(['0', '-1', '1e3', '9' * 5000, '²', ''])}"),
            ("GET", f"/v1/rankers/{ranker}/queries?after=%ff%00&limit=5&limit=x"),
            ("GET", f"/v1/rankers/{ranker}/events/{query}"), ("GET", f"/v1/rankers/{ranker}/changes?before={query}"),
            ("GET", f"/v1/rankers/{ranker}/top-queries?by={chance.choice(['traffic', 'change', 'loss', '', '%00'])}"),
            ("GET", f"/v1/rankers/{ranker}/queries/{query}?limit=3&sort={chance.choice(['id', 'score', '%ff'])}"),
            ("GET", f"/v1/rankers/{ranker}/series?step={chance.choice(['minute', 'hour', 'day', ''])}&since={query}"),
            ("GET", f"/v1/rankers/{ranker}/lists/{query}?limit={chance.choice([1, 0, -1])}"), ("GET", "/v1/overview"),
            ("GET", f"/v1/rankers/{ranker}/experiment"), ("GET", f"/v1/rankers/{ranker}/shadow"),
            ("GET", f"/v1/rankers/{ranker}/export{self.arm('?')}"),
            ("GET", f"/v1/rankers/{ranker}/queries/{query}{self.arm('?')}"),
            (chance.choice(["GET", "POST"]), chance.choice(PAGES).format(ranker=ranker, query=query, event=event)),
            ("GET", f"/v1/rankers/{ranker}/operations"), ("GET", "/v1/operations?before=1&limit=1000"),
            ("GET", f"/v1/rankers/{ranker}/queries/{query}"), ("DELETE", f"/v1/rankers/{ranker}/queries/{query}"),
            ("POST", f"/v1/rankers/{ranker}/queries/{query}/reset"),
            ("POST", f"/v1/rankers/{ranker}/events/{event}/activate"), ("POST", f"/v1/events/{event}/activate"),
            ("POST", "/v1/events//activate"), ("POST", f"/v1/events/{'x' * 300}/activate"), ("GET", "/metrics"),
            ("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/nothing"), ("GET", "//"), ("GET", "/%"),
            ("GET", "/v1/../x"), ("GET", "/v1/rankers/"), ("GET", "*"), ("GET", "/readyz?x=%"),
            ("POST", f"/v1/rankers/{chance.choice(MADE)}/reset"),
        ]), None  # fmt: skip

    # -- corrupted bodies --------------------------------------------------------------------------------------

    def written(self, body: Any) -> bytes:
        chance = self.random
        if isinstance(body, bytes):
            text = body
        else:
            for _ in range(chance.choice([0, 0, 0, 1, 1, 2, 4])):
                body = self.corrupted(body)
            self._left = 1_100_000
            text = self.json(body).encode("utf-8", "surrogatepass")
        if chance.random() < 0.08:
            text = self.cut(text)
        return text[:1_100_000]

    def corrupted(self, body: Any) -> Any:
        """Change one value somewhere in it."""
        chance = self.random
        if isinstance(body, dict) and body and chance.random() < 0.85:
            name = chance.choice([*body])
            how = chance.random()
            if how < 0.15:
                return {k: v for k, v in body.items() if k != name}
            if how < 0.25:
                return {**body, chance.choice(["", "x", name + "_", "\0"]): chance.choice(VALUES)}
            return {**body, name: self.corrupted(body[name])}
        if isinstance(body, list) and body and chance.random() < 0.8:
            at = chance.randrange(len(body))
            how = chance.random()
            if how < 0.1:
                return body[:at] + body[at + 1 :]
            if how < 0.2:
                return (body * chance.choice([2, 50, 300]))[:2000]
            return [*body[:at], self.corrupted(body[at]), *body[at + 1 :]]
        return chance.choice(VALUES) if chance.random() < 0.8 else _Raw(chance.choice(RAW))

    def json(self, value: Any) -> str:
        """JSON that may have duplicate keys, or is not JSON at all; not much longer than the limit of bodies."""
        if isinstance(value, dict):
            pairs = [f"{json.dumps(name)}: {self.json(its)}" for name, its in value.items()]
            if pairs and self.random.random() < 0.03:
                pairs.append(self.random.choice(pairs))
            return "{" + ", ".join(pairs) + "}"
        if isinstance(value, list):
            return "[" + ", ".join([self.json(its) for its in value if self._left > 0]) + "]"
        written = value.text if isinstance(value, _Raw) else json.dumps(value, ensure_ascii=self.random.random() < 0.5)
        self._left -= len(written) + 2
        return written

    def cut(self, text: bytes) -> bytes:
        chance = self.random
        at = chance.randrange(len(text) + 1)
        return chance.choice([
            text[:at], text[at:], text + text, text + b"\0", b"\xef\xbb\xbf" + text,
            text[:at] + b"\xff\xfe" + text[at:], text.decode("utf-8", "replace").encode("utf-16"), b"", b" ",
            b"\n" * 1000 + text, b"null", b"[]", b"{}", b"\x80\x04", b"a=1&b=2", b"<xml/>", b" " * 1_000_001,
            text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :], b"[" + b"1," * 400_000 + b"1]",
        ])  # fmt: skip

    def headers(self) -> list[str]:
        chance = self.random
        kinds = ["application/json", "text/plain", "application/xml", "multipart/form-data; boundary=x", "\xff", "",
                 "application/x-www-form-urlencoded", "application/json; charset=utf-16"]  # fmt: skip
        out = [f"Content-Type: {chance.choice(kinds) if chance.random() < 0.1 else kinds[0]}"]
        if chance.random() < 0.05:
            out.append(chance.choice(HEADERS))
        return out


class _Raw:
    def __init__(self, text: str) -> None:
        self.text = text


# -- sending ---------------------------------------------------------------------------------------------------------


class Sender:
    """One connection, opened again whenever the server closes it."""

    def __init__(self, port: int, key: str, seed: str, seen: Seen) -> None:
        self._port, self._key, self._seen = port, key, seen
        self.malformed = Malformed(seed)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self) -> None:
        line, body = self.malformed.request()
        chance = self.malformed.random
        headers = [*self.malformed.headers(), "Host: localhost"]
        if chance.random() < 0.98:
            headers.append(f"Authorization: Bearer {self._key}")
        chunked = chance.random() < 0.1
        headers.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}")
        data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked and body else b"0\r\n\r\n" if chunked else body
        message = line + b" HTTP/1.1\r\n" + "\r\n".join(headers).encode("latin-1") + b"\r\n\r\n" + data
        shown = f"{line[:200].decode('latin-1')} {headers[:2]} {body[:300]!r}"
        try:
            head, answer = await asyncio.wait_for(self._answer(message, line), 60)
        except TimeoutError:
            self.close()
            self._seen.fails(f"no answer: {shown}")
            return
        except (OSError, EOFError):  # the server may close connections that are not HTTP
            self.close()
            self._seen.statuses[0] += 1
            return
        status = int(head.split(b" ", 2)[1])
        self._seen.statuses[status] += 1
        self._check(status, head, answer, shown)
        if re.search(rb"(?i)\r\nconnection: close", head) or status in (101, 400, 413):
            self.close()

    async def _answer(self, message: bytes, line: bytes) -> tuple[bytes, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 100"):
            head = await reader.readuntil(b"\r\n\r\n")
        status = head.split(b" ", 2)[1]
        if line.startswith(b"HEAD") or status in (b"204", b"304"):
            return head, b""
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if length:
            return head, await reader.readexactly(int(length[1]))
        body = b""
        while size := int(await reader.readline() or b"0", 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
        return head, body

    def _check(self, status: int, head: bytes, body: bytes, shown: str) -> None:
        if status >= 500:
            self._seen.fails(f"{status} {body[:300]!r}: {shown}")
        elif status >= 400 and b"\r\ncontent-type: text/" in head and not shown.partition(" [")[0].count("/v1/"):
            pass  # an error of the live page is a page
        elif status >= 400 and body and b"Invalid HTTP request" not in body:
            try:
                problem = json.loads(body)
                # the status of a single feedback depends on its outcome; Personalizer's errors have their own form
                mine = b"problem+json" in head
                good = problem["status"] == status if mine else "outcome" in problem or "message" in problem["error"]
            except (ValueError, KeyError, TypeError):
                good = False
            if not good:
                self._seen.fails(f"{status} is not a problem document {head!r} {body[:200]!r}: {shown}")
        elif status == 200 and body and b"application/json" in head:
            json.loads(body)  # Python accepts NaN, the next line does not
            if re.search(rb"\bNaN\b|\bInfinity\b", body):
                self._seen.fails(f"an answer that is not JSON: {body[:300]!r}: {shown}")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def memory_of(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


class Server:
    """``driftrank serve`` with an admin key, so that rankers may have keys."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.store = folder / "fuzz.db"
        self.log = folder / "server.log"
        self.key, hashed = new_key()
        rankers = "".join(f"[rankers.{name}]\n{settings}\n" for name, settings in RANKERS.items())
        server = f'[server]\nmemory = "1MB"\ncheckpoint_every = 2000\nretention = "forever"\nadmin_key = "{hashed}"\n'
        (folder / "fuzz.toml").write_text(server + rankers)

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "driftrank", "serve", "--config", str(self.folder / "fuzz.toml"), "--port",
                str(self.port), "--store", f"sqlite:///{self.store}", cwd=ROOT, stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 120)
        if b"listens" not in line:
            raise SystemExit(f"the server did not start: {self.log.read_text()[-3000:]}")

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nAuthorization: Bearer {self.key}\r\n"
        head += f"Content-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        top, _, answer = (await asyncio.wait_for(reader.read(-1), 60)).partition(b"\r\n\r\n")
        writer.close()
        return int(top.split(b" ", 2)[1]), json.loads(answer) if answer else None


async def attack(server: Server, seen: Seen, options: argparse.Namespace) -> dict[str, int]:
    left = options.bodies
    memory: dict[str, int] = {}

    async def one(sender: Sender) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            done = options.bodies - left
            if done == options.bodies // 2:
                memory["half-way"] = memory_of(server.process.pid)
            if memory_of(server.process.pid) > memory["start"] + 1e9:
                seen.fails("the server takes a gigabyte more than at the start")
                left = 0
            await sender.send()
            if done % 200 == 0:
                exported = await export(server.port, sender.malformed.random.choice([*RANKERS]), server.key)
                sender.malformed.states = [
                    json.dumps({"query": query, "state": state}) for query, state in [*exported.items()][:10]
                ]
            if server.process.returncode is not None:
                seen.fails(f"the server ended with {server.process.returncode}")
                return

    memory["start"] = memory_of(server.process.pid)
    senders = [Sender(server.port, server.key, f"{options.seed}/{n}", seen) for n in range(options.connections)]
    await asyncio.gather(*map(one, senders))
    for sender in senders:
        sender.close()
    memory["end"] = memory_of(server.process.pid)
    return memory


async def afterwards(server: Server, seen: Seen) -> tuple[dict[str, Any], dict[tuple[str, str], bytes]]:
    """Send a valid request, kill the server, start it again, and return its rankers and the states of all queries."""
    status, answer = await server.ask("POST", "/v1/rankers/default/rank", {"query": "good", "items": ["a", "b"]})
    if status != 200 or len(answer["items"]) != 2:
        seen.fails(f"a valid request: {status} {answer}")
    status, answer = await server.ask("GET", "/readyz")
    if status != 200:
        seen.fails(f"not ready: {answer}")
    _, found = await server.ask("GET", "/v1/rankers")
    for info in found:  # no feedback window may end meanwhile
        long = {**info["settings"], "wait": "1h", "forget_items": "100d"}
        status, answer = await server.ask("PUT", f"/v1/rankers/{info['name']}", long)
        if status != 200:
            seen.fails(f"{info['name']} rejects its own settings: {answer}")
    server.process.kill()
    await server.process.wait()
    (server.folder / "fuzz.toml").write_text(re.sub(r"\[rankers(.|\n)*", "", (server.folder / "fuzz.toml").read_text()))
    await server.start()
    _, found = await server.ask("GET", "/v1/rankers")
    infos = {info["name"]: info for info in found}
    states = await exports(server.port, infos, server.key)
    server.process.terminate()
    code = await asyncio.wait_for(server.process.wait(), 60)
    if code != 0:
        seen.fails(f"SIGTERM: exit code {code}")
    return infos, states


def run(options: argparse.Namespace) -> dict[str, Any]:
    folder = Path(options.folder or tempfile.mkdtemp(prefix="driftrank-fuzz-"))
    server, seen = Server(folder), Seen()
    began = time.monotonic()

    async def attack_and_state() -> tuple[dict[str, int], dict[str, Any], dict[tuple[str, str], bytes]]:
        await server.start()
        try:
            return await attack(server, seen, options), *await afterwards(server, seen)
        finally:
            if server.process.returncode is None:
                server.process.kill()
                await server.process.wait()

    memory, infos, states = asyncio.run(attack_and_state())
    took = time.monotonic() - began
    if memory["end"] > 1.1 * memory.get("half-way", memory["start"]) + 30e6:
        seen.fails(f"memory grew: {memory}")
    aborted = 0
    for line in server.log.read_text().splitlines():
        aborted += " was aborted: " in line  # an export of what was reset or deleted meanwhile must have no end
        if _NO_END in line and aborted:
            aborted -= 1
        elif "Traceback" in line or '"level": "error"' in line:
            seen.fails(f"the server's log: {line[:2000]}")
    with SQLiteStore(server.store) as store:
        log = log_of(store)
        queries = check_state(store, log, infos, states, seen)
    kinds = Counter(type(record).__name__ for _, record in log)
    summary = {
        "bodies": options.bodies, "seconds": round(took, 1), "answers": dict(sorted(seen.statuses.items())),
        "memory_mb": {when: round(size / 1e6) for when, size in memory.items()}, "records": dict(kinds),
        "queries_compared": queries, "wrong": seen.wrong,
    }  # fmt: skip
    if not options.folder:
        shutil.rmtree(folder)
    return summary


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bodies", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="for the store and the server's log, which are then kept")
    summary = run(parser.parse_args(arguments))
    print(json.dumps(summary, indent=2))
    return 1 if summary["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
