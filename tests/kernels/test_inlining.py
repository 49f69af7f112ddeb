"""Kernels that are only inlined have no machine code of their own."""

import numba
import numpy as np
import pytest

from driftrank.kernels import compile as compiling
from driftrank.kernels import inlining
from driftrank.kernels.compile import OPTIONS, kernel

pytestmark = pytest.mark.compiled


@kernel
def _third(x):
    return x / 3.0


@kernel
def _twice_a_third(x):
    return _third(x) + _third(x)


@numba.njit(**OPTIONS)
def _sum(values):
    total = 0.0
    for value in values:
        total += _twice_a_third(value)
    return total


def test_callers_inline_them():
    values = np.array([1.0, 0.1, 7.3])
    assert _sum(values) == _sum.py_func(values)
    assert "_third" not in "\n".join(
        line for line in _sum.inspect_llvm(_sum.signatures[0]).splitlines() if " call " in line
    )
    for inner in (_third, _twice_a_third):
        (compiled,) = inner._compiled.overloads.values()
        assert type(compiled.library) is inlining._Library
        assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name) == 0


def test_another_numba_compiles_them_as_usual(monkeypatch):
    monkeypatch.setattr(inlining, "_NEEDED", ("_not_there",))
    inlining.into_callers.cache_clear()
    try:
        assert inlining.into_callers() == {}
        assert compiling.kernel(lambda x: x)(3) == 3
    finally:
        inlining.into_callers.cache_clear()
