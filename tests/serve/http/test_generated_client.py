"""A client that openapi-python-client generates from the document of a running server."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.serve.running import Running

pytest.importorskip("openapi_python_client")
PACKAGE = "generated_for_driftrank"


@pytest.fixture(scope="module")
def api(http: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The functions of the client by operation, and its types."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_bytes(http.get("/openapi.json").content)
    (folder / "config.yml").write_text("post_hooks: []\n")
    command = [
        sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none",
        "--output-path", PACKAGE, "--config", "config.yml",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # an export is lines of JSON, which it does not know
    assert (done.stdout + done.stderr).count("WARNING") == 1
    sys.path.insert(0, str(folder))
    try:
        modules = {
            path.stem: importlib.import_module(f"{PACKAGE}.api.{path.parent.name}.{path.stem}")
            for path in (folder / PACKAGE / "api").glob("*/[a-z]*.py")
        }
        yield SimpleNamespace(
            **{name: module.sync for name, module in modules.items() if hasattr(module, "sync")},
            models=importlib.import_module(f"{PACKAGE}.models"), root=importlib.import_module(PACKAGE),
        )  # fmt: skip
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


def test_it_ranks_learns_and_looks(api: Any, server: Running, ranker: Callable[..., str]) -> None:
    name, models = ranker().rpartition("/")[2], api.models
    with api.root.Client(base_url=server.url, timeout=httpx.Timeout(60)) as client:
        request = models.RankRequest("shoes", ["a", models.Item("b"), 7, "d"], event_id="generated-1", k=2)
        ranking = api.rank(name, client=client, body=request)
        assert [item.position for item in ranking.items] == [1, 2]
        feedback = models.Feedback("generated-1", clicks=[models.Clicked(position=2)])
        assert api.feedback(name, client=client, body=feedback).outcome == models.FeedbackResultOutcome.COUNTED
        both = api.rank(name, client=client, body=[models.RankRequest("shoes", ["a", "b"]) for _ in range(2)])
        assert len(both) == 2

        event = api.event(name, "generated-1", client=client)
        assert event.candidates == ["a", "b", 7, "d"]
        assert event.outcome == models.EventStateOutcome.COUNTED
        assert abs((event.time - datetime.now(UTC)).total_seconds()) < 600
        state = api.query(name, "shoes", client=client, sort=models.QuerySort.ID, limit=2)
        assert (state.steps, state.items_total, [item.id for item in state.items]) == (1, 4, [7, "a"])
        (busiest,) = api.top_queries(name, client=client, by=models.TopQueriesBy.TRAFFIC)
        assert (busiest.lists, busiest.live.clicks) == (3, 1)
        assert api.changes(name, client=client) == []
        (created,) = api.operations(name, client=client, limit=10)
        assert created.kind == models.OperationLoggedKind.CREATED
        counted = api.warmstart(name, client=client, body=[models.WarmRow("boots", ["a", "b"], clicks=[2])])
        assert counted.counted == 1
        assert api.queries(name, client=client) == ["boots", "shoes"]

        refused = api.rank(name, client=client, body=models.RankRequest("shoes", ["x"], event_id="generated-1"))
        assert isinstance(refused, models.Problem)
        assert (refused.type_, refused.status) == ("urn:driftrank:problem:event-id-taken", 409)
        missing = api.ranker("nobody", client=client)
        assert missing.type_ == "urn:driftrank:problem:no-such-ranker"
