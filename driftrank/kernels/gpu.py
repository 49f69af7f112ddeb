"""Compile kernels for NVIDIA GPUs, with or without one at hand.

The kernels are those of the processor; only a GPU's compiler reads them. Multiplications and additions are not fused,
so that every operation is rounded as it is on a processor, and the numbers are the same to the last bit.

This module needs numba-cuda, and nothing imports it before something is to be compiled for a GPU.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import driftrank.kernels.old_names  # noqa: F401 - before numba.cuda

# isort: split
import numba_cuda
import numpy as np
from cuda.core import Program, ProgramOptions
from llvmlite import ir
from numba import cuda
from numba.core.types import Type
from numba.cuda import cgutils, dispatcher, types
from numba.cuda.compiler import compile_cuda, kernel_fixup
from numba.cuda.cudadrv import nvvm
from numba.cuda.cudadrv.runtime import runtime
from numba.cuda.mathimpl import get_unary_impl_for_fn_and_ty
from numba.cuda.ufuncs import ufunc_db

from driftrank.kernels.compile import cache_file, fingerprint

#: opt: as fast as can be; fma: see above
_OPTIONS = {"opt": 3, "fma": 0}
#: threads that a multiprocessor should hold at a time: their registers must be few enough for that
_THREADS = 512


def device_function(function: Callable[..., Any]) -> Any:
    """What a kernel is when it is called on a GPU."""
    return cuda.jit(device=True, forceinline=True, lto=False)(function)


def compiled(
    template: Any, bindings: Mapping[str, Any], arguments: Sequence[Type], capability: tuple[int, int], block: int
) -> Path:
    """The file that holds the machine code of ``template``, its global names bound to ``bindings``, for GPUs of a
    compute capability and blocks of so many threads; it is compiled if it is not there. The kernel in it is called by
    the name of the template."""
    path = cubin_file(template, bindings, arguments, capability, block)
    if not path.exists():
        code = assembled(ptx_of(template, bindings, arguments, capability, block), capability)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(code)
        os.replace(file.name, path)
    return path


def cubin_file(
    template: Any, bindings: Mapping[str, Any], arguments: Sequence[Type], capability: tuple[int, int], block: int
) -> Path:
    """Where the machine code is, or will be."""
    toolkit = (numba_cuda.__version__, runtime.get_version())  # a driver may not take what a newer one made
    key = f"{toolkit} {_OPTIONS} {_THREADS} {block} {capability} {tuple(map(str, arguments))}"
    return cache_file(f"gpu_{template.__name__}", fingerprint(template, bindings, key), ".cubin")


def ptx_of(
    template: Any, bindings: Mapping[str, Any], arguments: Sequence[Type], capability: tuple[int, int], block: int
) -> str:
    """The kernel in the GPUs' assembly language."""
    function = FunctionType(template.__code__, {**template.__globals__, **bindings}, template.__name__)
    with _compiling_for(capability):
        made = compile_cuda(function, types.void, tuple(arguments), nvvm_options=_OPTIONS, cc=capability)
    library, name = made.library, made.fndesc.llvm_func_name
    entry = library.get_function(name)
    kernel_fixup(entry, False)
    nvvm.set_launch_bounds(entry, (block, _THREADS // block))
    # names of kernels hold those of all types, and are as long as the code
    text = str(library.get_asm_str(cc=capability)).replace(name, template.__name__)
    return re.sub(r"^\.common .*NumbaEnv.*$\n", "", text, flags=re.MULTILINE)


def assembled(ptx: str, capability: tuple[int, int]) -> bytes:
    """Machine code."""
    program = Program(ptx, "ptx", ProgramOptions(arch="sm_{}{}".format(*capability)))
    return bytes(program.compile("cubin").code)


@contextmanager
def _compiling_for(capability: tuple[int, int]) -> Iterator[None]:
    """What numba-cuda does otherwise than is good for us, and has no option for, while we compile.

    It asks the GPU at hand what to compile for, and there may be none. It puts tables into constant memory, where 32
    threads that look at 32 places wait for each other. And it makes integers of addresses, which hides from the
    compiler what kind of memory they are in.
    """
    kept = dispatcher.get_current_device, nvvm.ADDRSPACE_CONSTANT, cgutils.pointer_add
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    nvvm.ADDRSPACE_CONSTANT = nvvm.ADDRSPACE_GLOBAL
    cgutils.pointer_add = _pointer_add
    try:
        yield
    finally:
        dispatcher.get_current_device, nvvm.ADDRSPACE_CONSTANT, cgutils.pointer_add = kept


def _pointer_add(builder: Any, pointer: Any, offset: Any, return_type: Any = None) -> Any:
    """A pointer so many bytes further."""
    offset = cgutils.intp_t(offset) if isinstance(offset, int) else offset
    byte = ir.IntType(8).as_pointer(pointer.type.addrspace)
    return builder.bitcast(builder.gep(builder.bitcast(pointer, byte), [offset]), return_type or pointer.type)


def _offer(ufunc: np.ufunc, function: Any) -> None:
    """Let kernels call a function of NumPy that numba-cuda only knows by the name it has in ``math``."""

    def implementation(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return get_unary_impl_for_fn_and_ty(function, signature.args[0])(context, builder, signature, arguments)

    ufunc_db().setdefault(ufunc, {"d->d": implementation})


_offer(np.sqrt, math.sqrt)
_offer(np.ceil, math.ceil)
_offer(np.floor, math.floor)
