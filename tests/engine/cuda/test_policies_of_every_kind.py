"""Some policies on numba's simulator of a GPU; test_run.py has all of them, and all other cases."""

from __future__ import annotations

import pytest

from tests.engine.cuda.cases import check_the_same, run_cases, the

pytest.importorskip("numba_cuda")


def test_policies_of_every_kind() -> None:
    result = the(run_cases("policies_of_every_kind"), "policies_of_every_kind")
    check_the_same(result)
    assert len(result["ticks"]) == 10
    assert [[1, 16], [17, 40]] in result["launches"]  # in several pieces
