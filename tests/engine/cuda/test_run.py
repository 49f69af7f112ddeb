"""The engine on numba's simulator of a GPU, compared with the CPU to the last bit, both interpreted."""

from __future__ import annotations

from typing import Any

import pytest

from driftrank.clickmodels.registry import click_models
from driftrank.environments.registry import environments
from driftrank.policies.registry import policies
from tests.engine.cuda.cases import check_the_same, run_cases, the

pytest.importorskip("numba_cuda")
pytestmark = pytest.mark.slow  # a minute

#: the policies of this package: other tests may define more
OURS = [name for name, cls in policies().items() if cls.__module__.startswith("driftrank.")]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """The results of all cases."""
    return run_cases()


def test_every_policy(found: dict[str, Any]) -> None:
    result = the(found, "every_policy")
    check_the_same(result)
    assert len(result["ticks"]) == len(OURS)
    assert len(result["batches"]) > 30
    assert [[1, 16], [17, 40]] in result["launches"]  # in several pieces


def test_alarms_and_new_starts(found: dict[str, Any]) -> None:
    result = the(found, "alarms")
    check_the_same(result)
    assert min(result["alarms"]) > 0


@pytest.mark.parametrize(
    "name", [n for n, c in environments().items() if c.__module__.startswith("driftrank.") and not c.traffic]
)
def test_every_environment(found: dict[str, Any], name: str) -> None:
    worlds = {world: r for world, r in the(found, "every_environment").items() if world.split(",")[0] == name}
    assert worlds
    for result in worlds.values():
        check_the_same(result)


@pytest.mark.parametrize("name", [n for n, c in click_models().items() if c.__module__.startswith("driftrank.")])
def test_every_click_model(found: dict[str, Any], name: str) -> None:
    check_the_same(the(found, "every_click_model")[name])


def test_a_grid_is_one_launch(found: dict[str, Any]) -> None:
    result = the(found, "a_grid")
    check_the_same(result)
    assert len(set(result["regret"])) > 4  # the parameters matter
    assert result["batches"] == [4 * 4, 3 * 4]


def test_queries_with_different_numbers_of_items(found: dict[str, Any]) -> None:
    result = the(found, "several_sizes")
    check_the_same(result)
    assert sorted(result["batches"]) == [2] * 8 + [4] * 4  # for each policy, one of two queries and two of one


def test_queries_with_many_numbers_of_items_share_a_kernel(found: dict[str, Any]) -> None:
    worlds = the(found, "many_sizes")
    assert len(worlds) == 5
    for result in worlds.values():
        check_the_same(result)
        assert result["batches"] == [6] * 6  # for each policy, two runs of three queries


def test_every_policy_with_two_numbers_of_items(found: dict[str, Any]) -> None:
    result = the(found, "every_policy_many_sizes")
    check_the_same(result)
    assert len(result["ticks"]) == len(OURS)
    assert all(size % 2 == 0 for size in result["batches"])  # both queries in every batch


def test_checkpoints_are_copied_before_memory_is_full(found: dict[str, Any]) -> None:
    result = the(found, "more_checkpoints_than_memory")
    check_the_same(result)
    assert result["launches"][0] == [[t, min(t + 2, 40)] for t in range(1, 41, 3)]


def test_changes_come_by_and_by(found: dict[str, Any]) -> None:
    result = the(found, "more_segments_than_memory")
    check_the_same(result["together"])
    assert [first for first, _ in result["together"]["launches"][0]] == list(range(1, 41, 4))
    check_the_same(result["apart"])
    assert len(result["apart"]["launches"][0]) > 2


def test_slow_launches_get_shorter(found: dict[str, Any]) -> None:
    result = the(found, "steps_by_and_by")
    check_the_same(result)
    lengths = [last - first + 1 for first, last in result["launches"][0]]
    assert lengths[:3] == [16, 2, 1]
    assert sum(lengths) == 40


@pytest.mark.parametrize("lanes", ["32", "8", "1"])
def test_runs_in_several_warps(found: dict[str, Any], lanes: str) -> None:
    check_the_same(the(found, "more_than_a_tile")[lanes])


def test_threads_of_a_block_do_not_meet_in_shared_memory(found: dict[str, Any]) -> None:
    check_the_same(the(found, "in_blocks"))


def test_units_that_do_not_fit_are_split(found: dict[str, Any]) -> None:
    result = the(found, "little_memory")
    check_the_same(result)
    assert result["batches"] == [32, 8]


def test_less_memory_than_was_promised(found: dict[str, Any]) -> None:
    result = the(found, "out_of_memory_for_a_while")
    check_the_same(result)
    assert result["batches"] == [1, 1, 3, 5]  # ten did not fit, nor five, nor two


def test_runs_wait_for_memory(found: dict[str, Any]) -> None:
    result = the(found, "memory_for_one_batch")
    check_the_same(result["one run"])
    assert result["one run"]["batches"] == [1, 1, 1, 1]
    check_the_same(result["a tile"])
    assert result["a tile"]["batches"] == [32, 32, 16]  # whole ones: what is finished has left the memory


def test_a_run_that_never_fits(found: dict[str, Any]) -> None:
    result = the(found, "never_enough_memory")
    assert result["message"].startswith("on the GPU: ")
    assert result["message"].endswith(" bytes for one run of CascadeSWUCB, and 12,345 are free")
    assert result["delivered"] == 0


def test_other_errors_are_not_hidden(found: dict[str, Any]) -> None:
    assert the(found, "another_error")["message"] == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_finished_units_are_delivered_when_interrupted(found: dict[str, Any]) -> None:
    result = the(found, "interrupted")
    assert result["stopped"]
    assert result["delivered"] == [["q", run] for run in range(6)]
    assert result["different"] == []


@pytest.mark.parametrize("case", ["odd runs", "one step"])
def test_remaining_runs_of_a_simulation(found: dict[str, Any], case: str) -> None:
    check_the_same(the(found, "odd_runs_and_one_step")[case])


def test_nothing_to_do(found: dict[str, Any]) -> None:
    assert the(found, "nothing_to_do") == {}


def test_one_thread_two_threads_and_a_gpu(found: dict[str, Any]) -> None:
    """The same numbers everywhere."""
    result = the(found, "threads_and_gpu")
    assert len(result) == 6
    for spec, same in result.items():
        assert len(same) == 2 * 2 * 3, spec
        assert all(same), spec


def test_simulate(found: dict[str, Any]) -> None:
    result = the(found, "by_simulate")
    assert result["device"] == "cuda"
    assert result["same"]
