"""Compile kernels, and keep the machine code on disk from one process to the next.

Numba's own disk cache looks only at the file a function stands in, and never finds again a function that
refers to other compiled functions through a closure. Here the outermost kernels (a whole simulation, one step
of a learner) are *templates*: ordinary functions whose global names are bound to the kernels of one policy. The
machine code is filed under a fingerprint of everything that goes into it, so it is found again by any process and
never found when something changed.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.target_extension import current_target

# error_model="numpy": a division needs no test for zero. _nrt=False: arrays are borrowed, never counted (a reference
# count that the compiler fails to remove costs more than the rest of a step), and kernels cannot allocate.
# forceinline: the many small kernels of a step become one piece of code (measured: 134 -> 95 ns a step).
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}
_INNER: dict[str, Any] = {**OPTIONS, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

#: what this process has specialised: many simulations of one policy fetch its kernel from the disk once
_made: dict[Path, Any] = {}


class Kernel:
    """A function that is compiled into those that call it, and is plain Python when Python calls it.

    The many small kernels of a policy are never called from Python. Doors for Python and C into each of them would take
    a third of the time it takes to compile a policy, so they have none.

    A few have another form for GPUs, ``on_gpu``, that does the same, to the last bit, without branches: threads that go
    different ways wait for each other.
    """

    def __init__(self, function: Callable[..., Any], on_gpu: Callable[..., Any] | None = None) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.on_gpu = on_gpu or function
        self._compiled: Any = numba.njit(**_INNER)(function)

    def __call__(self, *arguments: Any) -> Any:
        with np.errstate(all="ignore"):  # as silent as compiled: keys wrap around, x/0 is infinite
            return self.py_func(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes it for, when it compiles for this machine's processor or for a GPU."""
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


def pure(function: Any) -> Any:
    """The plain Python function behind a kernel: the same numbers, without waiting for the compiler."""
    return getattr(function, "py_func", function)


def generate(name: str, arguments: str, expression: str, names: Mapping[str, Any]) -> Any:
    """A kernel of one expression, for tuples whose length only the policy knows."""
    namespace = dict(names)
    source = f"def {name}({arguments}):\n    return {expression}\n"
    exec(compile(source, f"<driftrank {name}>", "exec"), namespace)
    return kernel(namespace[name])


def bind(template: Any, bindings: Mapping[str, Any]) -> Any:
    """A kernel made of a template, its global names bound to ``bindings``: for templates that call it."""
    return kernel(FunctionType(template.__code__, {**template.__globals__, **bindings}, template.__name__))


def specialise(template: Any, bindings: Mapping[str, Any]) -> Any:
    """Compile ``template`` with its global names bound to ``bindings``, or fetch what was made of it before."""
    path = _source_file(template.__name__, fingerprint(template, bindings))
    if path not in _made:
        code = template.__code__.replace(co_filename=str(path))
        function = FunctionType(code, {**template.__globals__, **bindings}, template.__name__)
        _made[path] = numba.njit(cache=True, **OPTIONS)(function)
    return _made[path]


def fingerprint(function: FunctionType, bindings: Mapping[str, Any] | None = None, more: str = "") -> str:
    """A digest of a function's code and of every function and constant that it refers to."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{numba.__version__} {sys.version_info[:2]} {OPTIONS} {more}".encode())
    seen: dict[int, int] = {}
    for part in _parts(function, bindings or {}, seen):
        digest.update(part)
        digest.update(b"\0")
    return digest.hexdigest()


def cache_directory() -> Path:
    """Where compiled kernels are kept: ``$DRIFTRANK_CACHE_DIR``, or driftrank's corner of the user's cache."""
    chosen = os.environ.get("DRIFTRANK_CACHE_DIR")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(home) if home else Path.home() / ".cache") / "driftrank"
    except RuntimeError:  # no home directory
        return Path(tempfile.gettempdir()) / "driftrank-cache"


@functools.cache
def _usable_cache_directory() -> Path:
    """The cache directory, or a temporary one where that cannot be written."""
    directory = cache_directory() / "kernels"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory):
            pass
    except OSError:
        directory = Path(tempfile.mkdtemp(prefix="driftrank-kernels-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def cache_file(name: str, digest: str, suffix: str) -> Path:
    """Where something compiled is kept."""
    return _usable_cache_directory() / f"{name}_{digest}{suffix}"


def _source_file(name: str, digest: str) -> Path:
    """A file that numba takes for the kernel's source; its time stamp is part of the key, so it is written once."""
    path = cache_file(name, digest, ".py")
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(f"# {name}: the machine code is in __pycache__, under this file's name\n")
        os.replace(file.name, path)
    return path


def _parts(function: FunctionType, bindings: Mapping[str, Any], seen: dict[int, int]) -> Iterable[bytes]:
    if id(function) in seen:
        yield f"number {seen[id(function)]}".encode()  # which one matters: f, g, f is not f, g, g
        return
    seen[id(function)] = len(seen)
    names = {**function.__globals__, **bindings}
    yield str(function.__module__).encode()  # numba imports it when it finds the machine code
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
    elif isinstance(value, tuple):  # may hold kernels, whose repr is an address
        yield f"{type(value).__name__} of {len(value)}".encode()
        for part in value:
            yield from _value("", part, (), seen)
    elif isinstance(value, frozenset):  # strings in a set come in another order in every process
        yield repr(sorted(map(repr, value))).encode()
    else:
        yield repr(value).encode()
