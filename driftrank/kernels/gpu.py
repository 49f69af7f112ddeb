"""Compile kernels for NVIDIA GPUs; no GPU is needed for that.

The kernels are the same as on the CPU. Multiplications and additions are not fused, so that every operation is rounded
as on a CPU and the numbers are equal to the last bit.

This module needs numba-cuda; it is imported only to compile for a GPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import driftrank.kernels.numpy_compat  # noqa: F401 - before numba.cuda

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

from driftrank.kernels.cache import cache_file, is_cached, write_entry
from driftrank.kernels.compile import fingerprint

#: opt: highest level; fma: not fused, see above
_OPTIONS = {"opt": 3, "fma": 0}
#: threads that a multiprocessor should hold at a time, which limits the registers of each
_THREADS = 512


def device_function(function: Callable[..., Any]) -> Any:
    """The form of a kernel that numba-cuda inlines into others."""
    return cuda.jit(device=True, forceinline=True, lto=False)(function)


def machine_code(
    template: Any, bindings: Mapping[str, Any], arguments: Sequence[Type], capability: tuple[int, int], block: int
) -> bytes:
    """Compile ``template`` with its global names bound to ``bindings``, or read it from the cache.

    The code is for GPUs of a compute capability and for blocks of ``block`` threads. The kernel in it has the name of
    the template.
    """
    path = cubin_file(template, bindings, arguments, capability, block)
    if is_cached(path):
        with suppress(FileNotFoundError):  # another process has just removed it
            return path.read_bytes()
    code = assembled(ptx_of(template, bindings, arguments, capability, block), capability)
    write_entry(path, code)
    return code


def cubin_file(
    template: Any, bindings: Mapping[str, Any], arguments: Sequence[Type], capability: tuple[int, int], block: int
) -> Path:
    """The cache file of the machine code, which need not exist."""
    toolkit = (numba_cuda.__version__, runtime.get_version())  # a driver may reject the code of a newer toolkit
    key = f"{toolkit} {_OPTIONS} {_THREADS} {block} {capability} {tuple(map(str, arguments))}"
    return cache_file(f"gpu_{template.__name__}", fingerprint(template, bindings, key), ".cubin")


def ptx_of(
    template: Any, bindings: Mapping[str, Any], arguments: Sequence[Type], capability: tuple[int, int], block: int
) -> str:
    """The kernel in PTX, the assembly language of GPUs."""
    function = FunctionType(template.__code__, {**template.__globals__, **bindings}, template.__name__)
    with _compiling_for(capability):
        made = compile_cuda(function, types.void, tuple(arguments), nvvm_options=_OPTIONS, cc=capability)
    library, name = made.library, made.fndesc.llvm_func_name
    entry = library.get_function(name)
    kernel_fixup(entry, False)
    nvvm.set_launch_bounds(entry, (block, _THREADS // block))
    # numba's names hold those of all types, and are as long as the code
    text = str(library.get_asm_str(cc=capability)).replace(name, template.__name__)
    return re.sub(r"^\.common .*NumbaEnv.*$\n", "", text, flags=re.MULTILINE)


def assembled(ptx: str, capability: tuple[int, int]) -> bytes:
    """Machine code from PTX."""
    program = Program(ptx, "ptx", ProgramOptions(arch="sm_{}{}".format(*capability)))
    return bytes(program.compile("cubin").code)


@contextmanager
def _compiling_for(capability: tuple[int, int]) -> Iterator[None]:
    """Replace three functions of numba-cuda, which has no options for them, while we compile.

    It takes the capability from the present GPU, and there may be none. It puts tables into constant memory, where 32
    threads that read 32 addresses wait for each other. And it converts addresses to integers, which hides the kind of
    memory from the compiler.
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
    """A pointer ``offset`` bytes further."""
    offset = cgutils.intp_t(offset) if isinstance(offset, int) else offset
    byte = ir.IntType(8).as_pointer(pointer.type.addrspace)
    return builder.bitcast(builder.gep(builder.bitcast(pointer, byte), [offset]), return_type or pointer.type)


def _offer(ufunc: np.ufunc, function: Any) -> None:
    """Let kernels call a function of NumPy that numba-cuda supports only by its name in ``math``."""

    def implementation(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return get_unary_impl_for_fn_and_ty(function, signature.args[0])(context, builder, signature, arguments)

    ufunc_db().setdefault(ufunc, {"d->d": implementation})


_offer(np.sqrt, math.sqrt)
_offer(np.ceil, math.ceil)
_offer(np.floor, math.floor)
