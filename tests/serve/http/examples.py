"""The examples of the OpenAPI document: every request sent to a server as it stands there, and its answer.

``python -m tests.serve.http.examples`` writes the answers to driftrank/serve/http/examples.json.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from driftrank.serve.http import openapi
from tests.serve.running import Running

FILE = Path(openapi.__file__).with_name("examples.json")
#: values that differ from run to run
_VOLATILE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


def visits(http: httpx.Client, liked: str, numbers: range) -> None:
    """Users who like one item."""
    users = random.Random(numbers.start)
    for n in numbers:
        event, items = f"visit-{n}", ["a", "b", "c", "d", "e"]
        shown = http.post(
            "/v1/rankers/default/rank", json={"query": "running shoes", "items": items, "event_id": event}
        )
        ids = [item["id"] for item in shown.json()["items"]]
        clicks = [item for item in ids if users.random() < (0.8 if item == liked else 0.02)]
        http.post("/v1/rankers/default/feedback", json={"event_id": event, "clicks": clicks[:1]}).raise_for_status()


def answers(http: httpx.Client) -> dict[str, Any]:
    """The answers by operation id, after some traffic: from top to bottom, but resets and deletions come last."""
    http.patch("/v1/rankers/default", json={"holdout": 0.1}).raise_for_status()
    visits(http, "b", range(150))
    visits(http, "d", range(150, 240))
    out: dict[str, Any] = {}
    paths = http.get("/openapi.json").json()["paths"]
    operations = [(method, path, described) for path, of in paths.items() for method, described in of.items()]
    for method, path, described in sorted(operations, key=lambda it: _place(*it[:2])):
        for parameter in described.get("parameters", []):
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", str(parameter["example"]))
        body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
        if path.endswith("/import"):  # its body is the answer of export
            body = http.get(path.replace("/import", "/export")).json()
        if path.endswith("/undo"):  # it needs the number of an operation
            http.patch("/v1/rankers/default", json={"holdout": 0.05}).raise_for_status()
            number = http.get("/v1/rankers/default/operations").json()[0]["number"]
            path = path.replace("/1/", f"/{number}/")
        answer = http.request(method, path, json=body)
        assert answer.is_success, (path, answer.text)
        assert str(answer.status_code) in described["responses"], path
        if answer.headers.get("content-type") == "application/json":
            found = json.loads(_VOLATILE.sub("2026-01-31T12:00:00.250000Z", answer.text))
            _STEADY.get(described["operationId"], lambda _: None)(found)
            out[described["operationId"]] = _short(found)
    return out


def _place(method: str, path: str) -> tuple[bool, bool, bool]:
    removes = method == "delete" or path.endswith("/reset")
    return removes, removes and "{query}" not in path, removes and method == "delete"


def _short(value: Any) -> Any:
    """Not more than three of the entries of a feed, and four digits."""
    if isinstance(value, list):
        return [_short(entry) for entry in value[:3]] if value and isinstance(value[0], dict) else value
    if isinstance(value, dict):
        return {name: _short(entry) for name, entry in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def _steady_overview(found: dict[str, Any]) -> None:
    """Replace what was measured, in place."""
    measured = {"requests": 500, "store_bytes": 5_000_000, "memory_bytes": 200_000_000, "state_bytes": 20_000}
    found["service"] |= measured | {"rank_p50": 0.0004, "rank_p99": 0.0021}
    found["service"]["recent"] |= {"seconds": 300.0, "rank_p50": 0.0004, "rank_p99": 0.0021}


def _steady_experiment(found: dict[str, Any]) -> None:
    """Move the only day to the one of the other times, in place."""
    (day,) = found["days"]
    day["day"] = "2026-01-31"


def _steady_series(found: dict[str, Any]) -> None:
    """Join all periods into one, whenever they were, in place."""
    found["times"], found["changes"] = [1_769_860_800], [sum(found["changes"])]
    for arm in found["arms"]:
        for name, column in arm.items():
            if name in ("mean", "low", "high"):
                arm[name] = column[-1:]
            elif name != "arm":
                arm[name] = [sum(column)]
    delays = found["delays"]
    clicks = sum(delays["clicks"])
    delays["clicks"], delays["cut"] = [clicks] + [0] * len(delays["bounds"]), [0.0] * len(delays["bounds"])


#: by operation: take out of an answer what differs from run to run
_STEADY: dict[str, Callable[[dict[str, Any]], None]] = {
    "experiment": _steady_experiment,
    "overview": _steady_overview,
    "series": _steady_series,
}


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Running(Path(folder)) as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        FILE.write_text(json.dumps(answers(http), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
