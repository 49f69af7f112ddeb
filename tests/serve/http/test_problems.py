from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from driftrank import wire
from driftrank.serve import problems
from driftrank.serve.problems import TITLES, TYPE, Refused, document, refused


def test_a_problem_document() -> None:
    status, headers, body = document(Refused(429, "Too busy", "try later", {"Retry-After": "1"}), "/v1/rankers")
    assert status == 429
    assert dict(headers) == {
        b"content-type": b"application/problem+json",
        b"content-length": str(len(body)).encode(),
        b"retry-after": b"1",
    }
    assert msgspec.json.decode(body, type=wire.Problem) == wire.Problem(
        "Too busy", 429, "try later", "urn:driftrank:problem:too-busy"
    )


@pytest.mark.parametrize(
    ("status", "path", "answered", "code"),
    [
        (422, "rank", 400, "InvalidRankRequest"),
        (400, "events/e/reward", 400, "InvalidRewardRequest"),
        (409, "events/e/activate", 409, "InvalidEventIdToActivate"),
        (400, "other", 400, "BadRequest"),
        (404, "rank", 404, "ResourceNotFound"),
        (500, "rank", 500, "InternalServerError"),
        (429, "rank", 429, "429"),
    ],
)
def test_in_the_form_of_personalizer(status: int, path: str, answered: int, code: str) -> None:
    found, _, body = document(refused(status, "why"), f"/personalizer/v1.0/{path}")
    assert found == answered
    assert json.loads(body) == {"error": {"code": code, "message": "why"}}


def test_titles() -> None:
    assert refused(404, "x").title == "Not found"
    assert refused(499, "x").title == "Error"


def test_headers_that_http_cannot_represent() -> None:
    _, headers, _ = document(Refused(400, "x", "y", {"X-Odd": "☃"}), "/")
    assert (b"x-odd", b"?") in headers


def test_details_that_json_cannot_represent() -> None:
    for path in ("/", "/personalizer/v1.0/rank"):
        assert b"half \\\\ud800 of it" in document(Refused(400, "x", "half \ud800 of it"), path)[2]


def test_every_title_is_in_the_table() -> None:
    """And each begins with a capital letter, has no other but names and no full stop."""
    serve = Path(problems.__file__).parents[1]
    code = "\n".join(file.read_text("utf-8") for file in serve.rglob("*.py"))
    used = {(title, int(status)) for status, title in re.findall(r'Refused\(\s*(\d+), "([^"]+)"', code)}
    used |= {(refused(status, "").title, status) for status in map(int, re.findall(r"\brefused\((\d+), f?\"", code))}
    used |= {(refused(int(status), "").title, int(status)) for status in re.findall(r"\.end\([^)]*?\b(4\d\d)\b", code)}
    assert used == set(TITLES.items())
    assert all(re.fullmatch(r"[A-Z][a-z]*( ([a-z]+|JSON))*", title) for title in TITLES)


def test_the_types_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "operate.md").read_text("utf-8")
    lines = re.findall(r"^\| (`.*`) \| (\d+) \|", page.partition("\n## Problems\n")[2], re.MULTILINE)
    rows = [(kind, status) for kinds, status in lines for kind in re.findall("`([a-z-]+)`", kinds)]
    assert {(TYPE + kind, int(status)) for kind, status in rows} == {
        (Refused(status, title, "").type, status) for title, status in TITLES.items()
    }
