"""Compile kernels and cache their machine code on disk.

Numba's own disk cache depends only on the file that a function is defined in, and misses a function that refers to
other compiled functions through a closure. Here the outermost kernels (a whole simulation, one step of a learner) are
*templates*: ordinary functions whose global names are bound to the kernels of one policy. The machine code is stored
under a fingerprint of everything that determines it: any process finds it again, and none after a change.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.target_extension import current_target

from driftrank.kernels.cache import cache_file, held, is_cached, is_stored, write_entry
from driftrank.kernels.inlining import into_callers

# error_model="numpy": a division needs no test for zero. _nrt=False: arrays are borrowed, never counted (a reference
# count that the compiler fails to remove costs more than the rest of a step), and kernels cannot allocate.
# forceinline: the many small kernels of a step become one piece of code (measured: 134 -> 95 ns a step).
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}
_INNER: dict[str, Any] = {**OPTIONS, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

#: settings of numba that change machine code. Those of the processor are part of numba's own key.
_SETTINGS = (
    "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "EXTEND_VARIABLE_LIFETIMES",
    "DISABLE_INTEL_SVML",
)  # fmt: skip

#: by fingerprint, the kernels of this process: many simulations of one policy read the disk once
_specialised: dict[str, Any] = {}


class Kernel:
    """A function that is inlined into the kernels that call it, and runs as plain Python when Python calls it.

    The many small kernels of a policy are never called from Python. Python and C wrappers of each would take a third of
    the time to compile a policy, so they are not made.

    A few have a second form for GPUs, ``on_gpu``, with the same results to the last bit but without branches: threads
    that diverge wait for each other.
    """

    def __init__(self, function: Callable[..., Any], on_gpu: Callable[..., Any] | None = None) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.on_gpu = on_gpu or function
        self._compiled: Any = numba.njit(**_INNER, **into_callers())(function)

    def __call__(self, *arguments: Any) -> Any:
        with np.errstate(all="ignore"):  # as silent as compiled: keys wrap around, x/0 is infinite
            return self.py_func(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """The type for numba, when it compiles for the CPU or for a GPU."""
        if current_target() == "cuda":
            return self._compiled_for_gpu._numba_type_
        return self._compiled._numba_type_

    @functools.cached_property
    def _compiled_for_gpu(self) -> Any:
        from driftrank.kernels.gpu import device_function

        return device_function(self.on_gpu)


def kernel(function: Callable[..., Any], on_gpu: Callable[..., Any] | None = None) -> Any:
    """Mark a function as a kernel: compiled when first used, and inlined into the kernels that call it."""
    return Kernel(function, on_gpu)


def check_kernels(owner: Any, kernels: Mapping[str, Any]) -> None:
    """Refuse what lacks a kernel, or has a plain function instead, which numba reports as a missing type."""
    missing = [name for name, function in kernels.items() if function is None]
    if missing:
        raise TypeError(f"{type(owner).__name__} lacks the kernel{'s' * (len(missing) > 1)} {', '.join(missing)}")
    plain = [name for name, function in kernels.items() if isinstance(function, FunctionType)]
    if plain:
        raise TypeError(f"{type(owner).__name__}.{plain[0]}: must be marked @kernel, of driftrank.kernels")


def pure(function: Any) -> Any:
    """The plain Python function of a kernel: the same numbers, without compiling."""
    return getattr(function, "py_func", function)


def generate(name: str, arguments: str, expression: str, names: Mapping[str, Any]) -> Any:
    """A kernel of one expression, for tuples whose length depends on the policy."""
    namespace = dict(names)
    source = f"def {name}({arguments}):\n    return {expression}\n"
    exec(compile(source, f"<driftrank {name}>", "exec"), namespace)
    return kernel(namespace[name])


def bind(template: Any, bindings: Mapping[str, Any]) -> Any:
    """A kernel from a template, its global names bound to ``bindings``: for templates that call it."""
    return kernel(FunctionType(template.__code__, {**template.__globals__, **bindings}, template.__name__))


def specialise(template: Any, bindings: Mapping[str, Any]) -> Any:
    """Compile ``template`` with its global names bound to ``bindings``, or load it from the cache."""
    digest = fingerprint(template, bindings)
    if digest not in _specialised:
        path = _source_file(template.__name__, digest)
        code = template.__code__.replace(co_filename=str(path))
        function = FunctionType(code, {**template.__globals__, **bindings}, template.__name__)
        try:
            compiled: Any = numba.njit(cache=True, **OPTIONS)(function)
        except (OSError, RuntimeError):
            if path.exists():
                raise
            _source_file(template.__name__, digest)  # another process has just removed it
            compiled = numba.njit(cache=True, **OPTIONS)(function)
        if hasattr(compiled, "compile"):  # else plain Python
            compiled.compile = _one_at_a_time(compiled.compile, path)
        _specialised[digest] = compiled
    return _specialised[digest]


def _one_at_a_time(compile_or_load: Callable[..., Any], path: Path) -> Callable[..., Any]:
    """A dispatcher's ``compile`` while the entry is held: of several processes one compiles, the others load."""

    def run(signature: Any) -> Any:
        with held(path), _without_garbage_collection():
            return compile_or_load(signature)

    return run


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """The compiler makes millions of objects, few of them garbage: to look for these takes 8% of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def is_compiled(template: Any, bindings: Mapping[str, Any]) -> bool:
    """True if :func:`specialise` need not compile: the kernel is in this process, or in the cache."""
    if getattr(numba.config, "DISABLE_JIT", False):
        return True
    digest = fingerprint(template, bindings)
    if digest in _specialised and _specialised[digest].signatures:
        return True
    return is_stored(template.__name__, digest)


def fingerprint(function: FunctionType, bindings: Mapping[str, Any] | None = None, more: str = "") -> str:
    """A digest of a function's code, of every function and constant that it refers to, and of numba's settings."""
    digest = hashlib.blake2b(digest_size=16)
    settings = [getattr(numba.config, name, None) for name in _SETTINGS]
    digest.update(f"{numba.__version__} {sys.version_info[:2]} {OPTIONS} {settings} {more}".encode())
    seen: dict[int, int] = {}
    for part in _parts(function, bindings or {}, seen):
        digest.update(part)
        digest.update(b"\0")
    return digest.hexdigest()


def _source_file(name: str, digest: str) -> Path:
    """The file that numba takes for the kernel's source; written once, as its time stamp may be part of the key."""
    path = cache_file(name, digest, ".py")
    if not is_cached(path):
        write_entry(path, f"# {name}: the machine code is in __pycache__, under this file's name\n".encode())
    return path


def _parts(function: FunctionType, bindings: Mapping[str, Any], seen: dict[int, int]) -> Iterable[bytes]:
    if id(function) in seen:
        yield f"number {seen[id(function)]}".encode()  # its number matters: f, g, f is not f, g, g
        return
    seen[id(function)] = len(seen)
    names = {**function.__globals__, **bindings}
    yield str(function.__module__).encode()  # numba imports it when it loads the machine code
    for code in _codes(function.__code__):
        yield code.co_code
        yield from _value("constants", tuple(c for c in code.co_consts if not isinstance(c, CodeType)), (), seen)
        yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
        for name in code.co_names:
            if name in names:
                yield from _value(name, names[name], code.co_names, seen)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield from _value(name, cell.cell_contents, (), seen)
    yield from _value("defaults", (function.__defaults__, function.__kwdefaults__), (), seen)


def _codes(code: CodeType) -> Iterable[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _value(name: str, value: Any, attributes: Sequence[str], seen: dict[int, int]) -> Iterable[bytes]:
    yield name.encode()
    inner = pure(value)
    if isinstance(inner, FunctionType):
        yield from _parts(inner, {}, seen)
        if isinstance(value, Kernel) and value.on_gpu is not inner:
            yield from _parts(pure(value.on_gpu), {}, seen)
    elif isinstance(value, ModuleType):
        yield value.__name__.encode()
        if not value.__name__.startswith(("numpy", "math", "numba")):
            for attribute in attributes:
                if hasattr(value, attribute):
                    others = [other for other in attributes if other != attribute]
                    yield from _value(attribute, getattr(value, attribute), others, seen)
    elif isinstance(value, np.ndarray):
        yield repr((value.dtype.str, value.shape)).encode() + value.tobytes()
    elif isinstance(value, type):
        yield repr((value.__name__, getattr(value, "_fields", ()))).encode()
    elif isinstance(value, tuple):  # may hold kernels, whose repr has an address
        yield f"{type(value).__name__} of {len(value)}".encode()
        for part in value:
            yield from _value("", part, (), seen)
    elif isinstance(value, frozenset):  # the order of strings in a set differs between processes
        yield repr(sorted(map(repr, value))).encode()
    else:
        yield repr(value).encode()
