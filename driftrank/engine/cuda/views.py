"""Views of one run's numbers in memory where runs are interleaved.

The threads of a warp read neighbouring addresses at once. So runs are stored in tiles of 32: the first number of all
32, then the second of all, and so on. The numbers of a run are a view with the constant stride TILE, which kernels use
like any array.

A base is an address or, on numba's simulator, an object that holds an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.cuda import types
from numba.cuda.core import config

#: interleaved runs
TILE = 32

#: the types of a kernel's arguments
BASE = types.uint64
NUMBER = types.int64


def simulated() -> bool:
    """True if numba's simulator replaces the GPU."""
    return bool(config.ENABLE_CUDASIM)


def _simulated_view(base: Any, start: int, count: int, stride: int) -> Any:
    return base.array[start : start + count * stride : stride][:count]


def _simulated_rows(base: Any, start: int, rows: int, columns: int) -> Any:
    return base.array[start : start + rows * columns].reshape(rows, columns)


def _simulated_near_view(array: Any, start: int, count: int, stride: int) -> Any:
    return array[start : start + count * stride : stride][:count]


def _far(context: Any, builder: Any, number: Any, base: Any, start: Any, size: Any) -> Any:
    """A pointer that is declared to be in global memory, which makes accesses cheaper."""
    address = builder.add(base, builder.mul(start, size))
    pointer = builder.inttoptr(address, context.get_data_type(number).as_pointer(1))
    return builder.addrspacecast(pointer, context.get_data_type(number).as_pointer())


def _near(context: Any, builder: Any, kind: Any, base: Any, start: Any) -> Any:
    """A pointer into a shared array."""
    return builder.gep(context.make_array(kind)(context, builder, base).data, [start])


def _intrinsic(dtype: Any, near: bool = False, rows: bool = False) -> Any:
    from llvmlite import ir
    from numba.cuda import cgutils
    from numba.cuda.extending import intrinsic
    from numba.cuda.np.arrayobj import populate_array

    number = types.float64 if dtype is np.float64 else getattr(types, dtype.__name__)
    made = types.Array(number, 2, "C") if rows else types.Array(number, 1, "A")

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base, start, count, step = arguments
        size = ir.Constant(start.type, np.dtype(dtype).itemsize)
        if near:
            data = _near(context, builder, signature.args[0], base, start)
        else:
            data = _far(context, builder, number, base, start, size)
        width = builder.mul(step, size)
        array = context.make_array(made)(context, builder)
        populate_array(
            array, data=data, shape=cgutils.pack_array(builder, [count, step] if rows else [count]),
            strides=cgutils.pack_array(builder, [width, size] if rows else [width]), itemsize=size, meminfo=None,
        )  # fmt: skip
        return array._getvalue()

    def view(typing_context: Any, base: Any, start: Any, count: Any, step: Any) -> Any:
        return made(base if near else types.uint64, types.int64, types.int64, types.int64), codegen

    return intrinsic(view)


def _view_of(dtype: Any) -> Any:
    """The function ``(base, start, count, stride) -> array`` of a type; the last three count numbers, not bytes."""
    return _simulated_view if simulated() else _intrinsic(dtype)


def _near_view_of(dtype: Any) -> Any:
    """The same for shared memory, given as an array."""
    return _simulated_near_view if simulated() else _intrinsic(dtype, near=True)


float64s = _view_of(np.float64)
int32s = _view_of(np.int32)
int64s = _view_of(np.int64)
int8s = _view_of(np.int8)
uint64s = _view_of(np.uint64)
near_float64s = _near_view_of(np.float64)
near_int32s = _near_view_of(np.int32)
#: ``(base, start, rows, columns) -> array`` of two dimensions, for numbers that all runs share
float64_rows = _simulated_rows if simulated() else _intrinsic(np.float64, rows=True)
