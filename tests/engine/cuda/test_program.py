"""Policies and environments prepared for a GPU: compiled code, places of the state, shared kernels."""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pytest

from driftrank.engine import Task, Unit
from driftrank.environments import Abrupt, Churn, Drift, LinearFeatures, Replay
from driftrank.environments.base import Environment
from driftrank.policies.registry import parse_policy, policies
from driftrank.queries import Queries

pytest.importorskip("numba_cuda")

from numba.cuda.cudadrv import nvrtc

from driftrank.engine.cuda.compiling import Job
from driftrank.engine.cuda.groups import FEW, capacity_for, grouped
from driftrank.engine.cuda.program import BLOCK, NEAR
from driftrank.kernels import gpu

LEVELS = {"q": [0.7, 0.5, 0.45, 0.3, 0.2, 0.2, 0.1, 0.05, 0.02, 0.0]}
H200 = (9, 0)
PARTS = ("simulate", "unroll")
OLDEST = min(cc for cc in nvrtc.get_supported_ccs() if cc >= (7, 0))

WORLDS: dict[str, Environment] = {
    "Abrupt": Abrupt(LEVELS, k=3),
    "Churn": Churn(LEVELS, k=3, absent=2),
    "Drift": Drift(LEVELS, k=3, shape="walk"),
    "LinearFeatures": LinearFeatures(L=10, K=3),
    "Replay": Replay(Queries(Queries.of(LEVELS).attraction, changes={"q": ((20, (0.5,) * 10),)}), k=3),
}


def jobs(specs: list[str], world: Environment = WORLDS["Abrupt"], horizon: int = 1000) -> list[Job]:
    task = Task(tuple(map(parse_policy, specs)), world, horizon, 0, (horizon,))
    units = [Unit(p, query, (0,)) for p in range(len(specs)) for query in world.names]
    return [Job.of(task, group) for group in grouped(task, units)]


def job(spec: str, world: str = "Abrupt") -> Job:
    (made,) = jobs([spec], WORLDS[world])
    return made


@functools.cache
def policy_ptx(spec: str, world: str = "Abrupt", capability: tuple[int, int] = H200) -> str:
    return gpu.ptx_of(*job(spec, world).simulate, capability, BLOCK)


def check_arithmetic(text: str) -> None:
    """Every operation is rounded separately, in double precision, as on a CPU; there are no calls."""
    assert not re.search(r"\b(fma|mad)\.[\w.]*f\d\d", text)
    assert not re.search(r"\b(add|sub|mul|div|sqrt|rcp)\.f64", text)  # free to be fused
    assert not re.search(r"approx|\.ftz|\.f32|\.full", text)
    assert "call" not in text


EXAMPLES = ["CascadeDUCB", "CascadeSWUCB", "CascadeKLUCB", "CascadeTS", "GLRTCascadeKLUCB"]


@pytest.mark.slow
@pytest.mark.parametrize("spec", EXAMPLES)
def test_policies(spec: str) -> None:
    text = policy_ptx(spec)
    check_arithmetic(text)
    assert ".rn.f64" in text
    assert ".const" not in text
    assert text.count("ld.shared.f64") > 10  # the hot part of the state
    assert "ld.global.f64" in text


@pytest.mark.parametrize("spec", ["CascadeDUCB", pytest.param("GLRTCascadeKLUCB", marks=pytest.mark.slow)])
def test_machine_code(spec: str) -> None:
    assert gpu.assembled(policy_ptx(spec), H200).startswith(b"\x7fELF")


@pytest.mark.slow
def test_the_oldest_gpus() -> None:
    text = policy_ptx("CascadeDUCB", capability=OLDEST)
    check_arithmetic(text)
    assert ".target sm_{}{}".format(*OLDEST) in text
    assert gpu.assembled(text, OLDEST).startswith(b"\x7fELF")


@pytest.mark.slow
def test_items_that_come_and_go() -> None:
    check_arithmetic(policy_ptx("CascadeDUCB", "Churn"))


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_environments(world: str) -> None:
    text = gpu.ptx_of(*job("Random", world).unroll, H200, BLOCK)
    check_arithmetic(text)
    assert gpu.assembled(text, H200).startswith(b"\x7fELF")


# -- without compiling -------------------------------------------------------------------------------------------------


def test_shared_kernels() -> None:
    windows = ["CascadeSWUCB:window=10", "CascadeSWUCB:window=999", "CascadeSWUCB:epsilon=1.5"]
    assert [made.policies for made in jobs(windows)] == [(0, 1, 2)]
    assert [made.policies for made in jobs([*windows, "CascadeDUCB"])] == [(0, 1, 2), (3,)]
    two = Abrupt({"q": LEVELS["q"], "r": LEVELS["q"][1:]}, k=3)
    assert [made.program.capacity for made in jobs(["CascadeDUCB"], two)] == [10, 9]


def sizes(*numbers: int) -> Environment:
    return Abrupt({f"{L} items": np.linspace(0.9, 0.1, L).tolist() for L in numbers}, k=3)


@pytest.mark.parametrize(("L", "capacity"), [(1, 1), (2, 2), (3, 4), (16, 16), (17, 32), (1000, 1024)])
def test_capacity(L: int, capacity: int) -> None:
    assert capacity_for(L) == capacity


def test_many_numbers_of_items_share_kernels() -> None:
    few = jobs(["CascadeSWUCB"], sizes(*range(9, 9 + FEW)))
    assert [(made.program.varies, made.program.capacity) for made in few] == [(False, L) for L in range(9, 9 + FEW)]
    many = jobs(["CascadeSWUCB", "CascadeDUCB"], sizes(*range(10, 34)))
    assert [(made.program.varies, made.program.capacity) for made in many] == [
        (True, 16), (True, 32), (False, 33), (True, 16), (True, 32), (False, 33)
    ]  # fmt: skip
    assert [len(made.queries) for made in many[:3]] == [7, 16, 1]
    assert "L" not in many[0].program.fixed
    assert many[2].program.fixed["L"] == 33


def test_a_kernel_for_many_numbers_of_items_does_not_depend_on_which() -> None:
    for spec in ("CascadeSWUCB", "GLRTCascadeKLUCB"):
        (one,) = jobs([spec], sizes(9, 10, 11, 12, 13))
        (other,) = jobs([spec], sizes(16, 15, 14, 12, 9, 10))
        assert one.program.begin == other.program.begin
        keys = [gpu.cubin_file(*getattr(made, part), H200, BLOCK) for made in (one, other) for part in PARTS]
        assert keys[:2] == keys[2:]


@pytest.mark.slow
def test_a_kernel_for_many_numbers_of_items_compiles() -> None:
    world = Churn(sizes(9, 10, 11, 12, 13).queries, k=3, absent=2)
    (made,) = jobs(["CascadeSWUCB"], world)
    for part in PARTS:
        text = gpu.ptx_of(*getattr(made, part), H200, BLOCK)
        check_arithmetic(text)
        assert gpu.assembled(text, H200).startswith(b"\x7fELF")


def test_parameters_that_are_compiled_in() -> None:
    """Parameters that its policies share and that do not depend on the horizon are compiled in; others are read."""
    (apart,) = jobs(["CascadeSWUCB:window=10,ties=index", "CascadeSWUCB:window=20,ties=random"])
    assert not {"window", "ties"} & apart.program.fixed.keys()
    (alike,) = jobs(["CascadeSWUCB:window=10,ties=index", "CascadeSWUCB:window=20,ties=index"])
    assert alike.program.fixed["ties"] == 1
    assert (alike.program.fixed["L"], alike.program.fixed["K"]) == (10, 3)
    short, long = (jobs(["CascadeSWUCB", "GLRTCascadeKLUCB"], horizon=n) for n in (40, 4000))
    assert [a.program.fixed for a in short] == [b.program.fixed for b in long]


@pytest.mark.parametrize("name", [name for name, cls in policies().items() if cls.__module__.startswith("driftrank.")])
def test_places_of_the_state(name: str) -> None:
    """Fields are adjacent, and have the same values as on a CPU."""
    program = job(name).program
    (on_cpu,) = program.programs
    features = np.arange(100.0).reshape(10, 10) if on_cpu.policy.contextual else None
    rows = on_cpu.layout.empty()
    views = on_cpu.layout.views(*rows)
    if features is not None:
        views["features"][:] = features
    floats, ints = program.fresh(on_cpu, features)
    assert (len(floats), len(ints)) == (len(rows[0]), len(rows[1]))
    taken = {False: np.zeros(len(floats), int), True: np.zeros(len(ints), int)}
    for field, f in on_cpu.layout.fields:
        begin = program.begin[field]
        place = slice(begin, begin + math.prod(f.shape(program.capacity, program.K)))
        assert (ints if f.integer else floats)[place].tolist() == views[field].ravel().tolist(), field
        taken[f.integer][place] += 1
    assert (taken[False] == 1).all()
    assert (taken[True] == 1).all()
    assert 8 * (program.near[False] + program.near_alpha) + 4 * program.near[True] <= NEAR
