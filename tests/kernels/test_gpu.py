"""Kernels compiled for GPUs, which needs none: what they are made into, and where it is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrank.kernels import cache as kernel_cache
from driftrank.kernels import kernel
from driftrank.kernels.elementary import exp, log

pytest.importorskip("numba_cuda")

from numba.cuda import cgutils, dispatcher
from numba.cuda.cudadrv import nvrtc, nvvm

from driftrank.engine.cuda.views import BASE, float64s
from driftrank.kernels import gpu

H200 = (9, 0)
#: of GPUs that a toolkit serves; 7.0 only those before CUDA 13
CAPABILITIES = [
    pytest.param(cc, marks=pytest.mark.skipif(cc not in nvrtc.get_supported_ccs(), reason="the toolkit is too new"))
    for cc in ((7, 0), (7, 5), (8, 6), H200)
]


@kernel
def product_and_sum(x, y, z):
    return x * y + z


@kernel
def roots(x, y, z):
    return np.sqrt(x) / y + np.floor(z) + np.ceil(y)


@kernel
def logarithm(x, y, z):
    return log(x) * exp(y)


TABLE = np.array([0.5, 0.25, 0.125, 7.0])


@kernel
def from_a_table(x, y, z):
    return TABLE[int(x)] + y


def template(numbers):
    """Replace the first of three numbers by the result of a kernel."""
    x = float64s(numbers, 0, 3, 1)
    x[0] = FUNCTION(x[0], x[1], x[2])  # noqa: F821


def ptx(function: Any, capability: tuple[int, int] = H200) -> str:
    return gpu.ptx_of(template, {"FUNCTION": function}, [BASE], capability, 64)


def instructions(text: str) -> set[str]:
    """Those on floating-point numbers."""
    found = re.findall(r"^\s+(?:@!?%p\d+ )?([a-z][\w.]*\.f(?:16|32|64)[\w.]*)\s", text, re.MULTILINE)
    return {name for name in found if name.split(".")[0] not in ("ld", "st", "mov")}


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
def test_every_operation_is_rounded(capability: tuple[int, int]) -> None:
    """A compiler may fuse a product and a sum unless each has a rounding mode."""
    assert instructions(ptx(product_and_sum, capability)) == {"mul.rn.f64", "add.rn.f64"}
    assert ".target sm_{}{}".format(*capability) in ptx(product_and_sum, capability)


def test_roots_and_divisions_are_exact() -> None:
    found = instructions(ptx(roots))
    assert {"sqrt.rn.f64", "div.rn.f64", "cvt.rmi.f64.f64", "cvt.rpi.f64.f64"} <= found
    assert all("approx" not in name and "ftz" not in name and "f32" not in name for name in found)


def test_logarithms_are_our_own() -> None:
    text = ptx(logarithm)
    assert "call" not in text
    assert all(".rn." in name for name in instructions(text) if name.split(".")[0] in ("add", "sub", "mul", "div"))
    assert not re.search(r"\b(fma|mad)\.[\w.]*f64|approx|\.ftz|\.f32", text)


def test_tables_are_not_in_constant_memory() -> None:
    text = ptx(from_a_table)
    assert "ld.global.nc.f64" in text
    assert ".const" not in text


def test_the_entry_has_the_name_of_the_template() -> None:
    text = ptx(product_and_sum)
    assert re.findall(r"\.entry (\w+)\(", text) == ["template"]
    assert re.search(r"\.maxntid 64\b", text)
    assert ".common" not in text  # what numba would keep for exceptions


def test_another_form_for_gpus() -> None:
    def plain(x, y, z):
        return x - y

    def other(x, y, z):
        return x / y

    assert instructions(ptx(kernel(plain))) == {"sub.rn.f64"}
    assert instructions(ptx(kernel(plain, on_gpu=other))) == {"div.rn.f64"}


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
def test_machine_code(capability: tuple[int, int]) -> None:
    code = gpu.assembled(ptx(roots, capability), capability)
    assert code.startswith(b"\x7fELF")
    assert b"template" in code


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kernel_cache, "kernel_directory", lambda: tmp_path)
    return tmp_path


def test_machine_code_is_kept_and_found_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(function: Any, capability: tuple[int, int] = H200, block: int = 64) -> Path:
        key = template, {"FUNCTION": function}, [BASE], capability, block
        path = gpu.cubin_file(*key)
        assert gpu.machine_code(*key) == path.read_bytes()
        return path

    path = compiled(roots)
    assert list(cache.iterdir()) == [path]
    assert path.read_bytes().startswith(b"\x7fELF")
    others = {compiled(logarithm), compiled(roots, capability=(8, 6)), compiled(roots, block=128)}
    assert len({path, *others}) == 4
    assert set(cache.iterdir()) == {path, *others}

    def broken(*arguments: Any) -> str:
        raise AssertionError("compiled again")

    monkeypatch.setattr(gpu, "ptx_of", broken)
    assert compiled(roots) == path
    with pytest.raises(AssertionError, match="compiled again"):
        compiled(product_and_sum)
    assert set(cache.iterdir()) == {path, *others}  # nothing half done is left


def test_changes_of_machine_code_change_its_file() -> None:
    def plain(x, y, z):
        return x - y

    def other(x, y, z):
        return x / y

    def another(x, y, z):
        return x * y

    forms = [kernel(plain), kernel(other), kernel(plain, on_gpu=other), kernel(plain, on_gpu=another)]
    files = {gpu.cubin_file(template, {"FUNCTION": form}, [BASE], H200, 64) for form in forms}
    assert len(files) == 4
    assert gpu.cubin_file(template, {"FUNCTION": kernel(plain)}, [BASE], H200, 64) in files


def test_numba_is_left_as_it_was() -> None:
    def state() -> tuple[Any, ...]:
        return dispatcher.get_current_device, nvvm.ADDRSPACE_CONSTANT, cgutils.pointer_add

    before = state()
    ptx(product_and_sum)
    assert state() == before

    @kernel
    def wrong(x, y, z):
        return x.no_such_attribute

    with pytest.raises(Exception, match="no_such_attribute"):
        ptx(wrong)
    assert state() == before
    with gpu._compiling_for(H200):
        assert all(now is not then for now, then in zip(state(), before, strict=True))
