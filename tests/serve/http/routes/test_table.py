"""The route table as a whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from driftrank.serve.http import routes
from driftrank.serve.http.operation import LABELS, Need
from driftrank.serve.http.routes import table


def test_every_file_is_in_the_table() -> None:
    files = {path.stem for path in Path(routes.__file__).parent.glob("*.py")} - {"__init__"}
    assert {operation.handler.__module__.rpartition(".")[2] for operation in table()} == files


def test_operations_are_unique() -> None:
    assert Counter((operation.method, operation.path) for operation in table()).most_common(1)[0][1] == 1


def test_the_most_frequent_operations_come_first() -> None:
    assert [operation.path.rpartition("/")[2] for operation in table()[:2]] == ["rank", "feedback"]
    assert {operation.label for operation in table()} == set(LABELS)


def test_only_health_checks_need_no_key() -> None:
    assert {operation.path for operation in table() if operation.need is Need.NOTHING} == {"/healthz", "/readyz"}


def test_documented_operations_have_a_description() -> None:
    assert all(operation.handler.__doc__ for operation in table() if operation.documented)
    assert {operation.path for operation in table() if not operation.documented} == {"/docs", "/openapi.json"}
