"""Pages about the service: every command on them is run, against a server, and prints what the page says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.session import ROOT, Session, blocks, check, is_session
from tests.quick import others_are_slow

PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if is_session(page)]
QUICK = [page for page in PAGES if page.stem in ("operate", "serve-first-ranking")]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pages are in a hurry, so what they need is compiled before: it is kept on disk."""
    with Session(tmp_path_factory.mktemp("compiled")) as session:
        session.shell("""driftrank serve
            curl -s http://127.0.0.1:8080/v1/rankers/default/rank --json '{"query": "", "items": ["a"], "event_id":"e"}'
            curl -s http://127.0.0.1:8080/v1/rankers/default/feedback --json '{"event_id": "e"}'
            curl -s http://127.0.0.1:8080/v1/rankers/default/queries/\n""")


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("page", others_are_slow(PAGES, QUICK), ids=lambda page: page.stem)
def test_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        session.run(page)


def test_there_are_such_pages() -> None:
    assert {"serve-first-ranking", "delayed-clicks", "shadow-then-live", "move-from-personalizer", "operate"} <= {
        page.stem for page in PAGES
    }


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="compares ours with curl, and there is none")
def test_our_curl_is_like_curl(tmp_path: Path) -> None:
    printed = []
    for name, curl in (("theirs", shutil.which("curl")), ("ours", str(Path(__file__).with_name("curl.py")))):
        (tmp_path / name).mkdir()
        with Session(tmp_path / name, curl=curl) as session:
            session.shell("driftrank serve\n")
            rank = """curl -s http://127.0.0.1:8080/v1/rankers/default/rank \\
                --json '{"query": "q", "items": ["a", "b"], "event_id": "e"}'\n"""
            printed.append(
                [
                    session.shell(rank),
                    session.shell("curl -s -X DELETE http://127.0.0.1:8080/v1/rankers/none -w '%{http_code}\\n'"),
                    session.shell("curl -s -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:8080/healthz"),
                    session.shell("curl -s -i -H 'X-Request-Id: r' http://127.0.0.1:8080/healthz | grep -v ^date"),
                    session.shell("echo '[]' > x; curl -s --json @x http://127.0.0.1:8080/v1/rankers/default/rank"),
                ]
            )
    assert printed[0] == printed[1]


# -- the machinery itself ----------------------------------------------------------------------------------------------


def test_blocks_know_their_lines() -> None:
    assert blocks("a\n```sh\nls\n```\n\n```json\n{}\n```\n") == [("sh", "ls\n", 3), ("json", "{}\n", 7)]


@pytest.mark.parametrize(
    ("kind", "wanted", "got"),
    [
        ("json", '{"a": 1, "b": [1, 2]}', '{"b":[1,2],"a":1}'),
        ("json", '{"a": "...", "b": 0.25}', '{"a": {"x": 1}, "b": 0.2512}'),
        ("json", '[1, "..."]', "[1, 2, 3]"),
        ("text", "a\n...\nd", "a\nb\nc\nd\n"),
        ("text", "a (b) 1.5", "a (b) 1.5\n"),
    ],
)
def test_output_that_is_as_the_page_says(kind: str, wanted: str, got: str) -> None:
    check(kind, wanted, got)


@pytest.mark.parametrize(
    ("kind", "wanted", "got"),
    [
        ("json", '{"a": 1}', '{"a": 2}'),
        ("json", '{"a": 1}', '{"a": 1, "b": 2}'),
        ("json", '{"a": 1}', '{"a": true}'),
        ("json", '{"a": 0.25}', '{"a": 0.26}'),
        ("json", '{"a": 0.25}', '{"a": null}'),
        ("json", "[1, 2]", "[1]"),
        ("json", '{"a": [{"b": "x"}]}', '{"a": [{"b": "y"}]}'),
        ("text", "a", "ab"),
        ("text", "1.5", "125"),
    ],
)
def test_output_that_is_not(kind: str, wanted: str, got: str) -> None:
    with pytest.raises(AssertionError, match="output was"):
        check(kind, wanted, got)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("```sh\nfalse\n```\n", "line 2: exit code 1"),
        ("x\n\n```sh\necho a\n```\n```text\nb\n```\n", "line 7: the output was"),
        ("```python\nx = 1 / 0\n```\n", "ZeroDivisionError"),
        ("```json\n{}\n```\n", "nothing was run"),
        ("```toml\na = 1\n```\n", "the first line"),
        ("```perl\n1\n```\n", "perl: cannot be run"),
    ],
)
def test_a_page_that_does_something_else_fails(page: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(page)
    with Session(tmp_path) as session, pytest.raises(AssertionError, match=told):
        session.run(file)


def test_a_session_remembers(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        session.shell("export A=1; B=2; echo c > file")
        assert session.shell('echo "$A ${B-none}"; cat file') == "1 none\nc\n"
        session.python("x = 2")
        assert session.python("print(x + 1)") == "3\n"
        assert session.python("print('http://127.0.0.1:8080')") == "http://127.0.0.1:8080\n"
        assert str(session.port) in session.shell("echo $DRIFTRANK_PORT")
