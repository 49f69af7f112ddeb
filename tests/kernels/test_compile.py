from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from driftrank.kernels import cache as kernel_cache
from driftrank.kernels import compile as compiler
from driftrank.kernels import kernel, pure
from driftrank.kernels.compile import fingerprint, generate, specialise
from driftrank.policies.base import RankingProblem
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.learner import templates
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from tests.quick import others_are_slow

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).parents[2]

SOURCE = """
import collections
import numpy as np
from driftrank.kernels import kernel

SCALE = 2.0
TABLE = np.array([1.0, 2.0])
Pair = collections.namedtuple("Pair", ["left", "right"])

@kernel
def deep(x):
    return x + 1.0

@kernel
def callee(x):
    return deep(x) * SCALE

def make(shift, parts):
    @kernel
    def closed(x):
        return callee(x) + shift + parts[0](x)
    return closed

closed = make(3.0, (deep, callee))

@kernel
def optional(x, more=5.0):
    return x + more

def template(x):
    return closed(x) + TABLE[0] + optional(x) + Pair(x, x).left + x ** 2
"""


def made(source: str = SOURCE):
    namespace: dict = {"__name__": "made"}
    exec(source, namespace)
    return namespace["template"]


def test_the_same_source_has_the_same_fingerprint():
    assert fingerprint(made()) == fingerprint(made())
    assert fingerprint(made()) == fingerprint(made(SOURCE.replace("SCALE", "FACTOR").replace("FACTOR", "SCALE")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x ** 2", "x ** 3"),  # the template itself
        ("deep(x) * SCALE", "deep(x) / SCALE"),  # what it calls
        ("x + 1.0", "x + 1.5"),  # what that calls
        ("SCALE = 2.0", "SCALE = 3.0"),  # a constant, two calls away
        ("[1.0, 2.0]", "[1.0, 2.5]"),  # an array
        ("np.array([1.0, 2.0])", "np.array([1.0, 2.0], np.float32)"),
        ("make(3.0", "make(4.0"),  # a value that is closed over
        ("(deep, callee)", "(callee, deep)"),  # kernels that are closed over
        ("more=5.0", "more=6.0"),  # a default
        ('["left", "right"]', '["left", "right", "middle"]'),
    ],
)
def test_any_change_changes_the_fingerprint(old, new):
    assert old in SOURCE
    assert fingerprint(made(SOURCE.replace(old, new))) != fingerprint(made())


@pytest.mark.parametrize("variable", ["NUMBA_OPT", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE", "NUMBA_BOUNDSCHECK"])
def test_settings_of_numba_that_change_machine_code_change_the_fingerprint(variable):
    code = """
from driftrank.kernels.compile import fingerprint
from driftrank.policies.learner.templates import update_step
print(fingerprint(update_step))
"""
    assert python(code, **{variable: "0"}) != python(code, **{variable: "1"})


def test_fingerprint_depends_on_every_binding():
    @kernel
    def f(x):
        return x + 1.0

    @kernel
    def g(x):
        return x - 1.0

    def template(x):
        return FIRST(x) + SECOND(x) + THIRD(x)  # noqa: F821

    found = {
        fingerprint(template, {"FIRST": a, "SECOND": b, "THIRD": c}) for a in (f, g) for b in (f, g) for c in (f, g)
    }
    assert len(found) == 8


def test_functions_of_modules_count():
    def template(x):
        return outer.inner.f(x)  # noqa: F821

    def within(f):
        outer, inner = ModuleType("outer"), ModuleType("inner")
        outer.inner, inner.f, inner.outer = inner, f, outer  # they refer to each other: the search must end
        return fingerprint(template, {"outer": outer})

    assert within(lambda x: x + 1) == within(lambda x: x + 1)
    assert within(lambda x: x + 1) != within(lambda x: x + 2)


def test_a_kernel_that_calls_itself_has_a_fingerprint():
    def template(x):
        return template(x - 1) if x > 0 else 0

    assert fingerprint(template, {"template": template}) == fingerprint(template, {"template": template})


def swucb():
    return CompiledPolicy.of(CascadeSWUCB(window=100), RankingProblem(10, 3)).bindings


def python(code: str, *arguments: object, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_finds_the_same_fingerprint(hash_seed):
    code = """
from driftrank.kernels.compile import fingerprint
from driftrank.policies.learner import templates
from driftrank.policies.base import RankingProblem
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.learner.compiled_policy import CompiledPolicy
print(fingerprint(templates.update_step, CompiledPolicy.of(CascadeSWUCB(window=100), RankingProblem(10, 3)).bindings))
"""
    assert python(code, PYTHONHASHSEED=hash_seed) == fingerprint(templates.update_step, swucb())


RUN = """
import json, sys
sys.path.insert(0, sys.argv[1])
import importlib
module = importlib.import_module(sys.argv[2])
from driftrank.kernels.compile import specialise
function = specialise(module.template, {})
result = function(2.0)
hits, misses = function.stats.cache_hits, function.stats.cache_misses
print(json.dumps([result, sum(hits.values()), sum(misses.values()), str(function.stats.cache_path)]))
"""


def run(folder, module, cache):
    return json.loads(python(RUN, folder, module, DRIFTRANK_CACHE_DIR=str(cache)))


# numba cannot take a tuple of kernels out of a closure
RUNNABLE = SOURCE.replace("parts[0](x)", "1.0").replace("(deep, callee)", "0")


def test_machine_code_is_found_again_by_another_process(tmp_path):
    cache = tmp_path / "cache"
    (tmp_path / "one.py").write_text(RUNNABLE)
    expected = (2 + 1) * 2 + 3 + 1 + 1 + (2 + 5) + 2 + 2**2  # closed, TABLE, optional, Pair, x ** 2
    *first, where = run(tmp_path, "one", cache)
    assert first == [expected, 0, 1]
    assert Path(where).is_relative_to(cache)
    assert run(tmp_path, "one", cache)[:3] == [expected, 1, 0]
    (tmp_path / "one.py").write_text(RUNNABLE.replace("x + 1.0", "x + 1.5"))
    assert run(tmp_path, "one", cache)[:3] == [expected + 0.5 * 2, 0, 1]  # never when something changed
    (tmp_path / "one.py").rename(tmp_path / "two.py")
    assert run(tmp_path, "two", cache)[:3] == [expected + 0.5 * 2, 0, 1]  # nor does it look for a module that is gone


def test_a_kernel_that_another_process_compiles_is_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_cache, "kernel_directory", lambda: tmp_path)
    monkeypatch.setattr(compiler, "_specialised", {})
    kernel = specialise(lambda x: x + 1, {})
    (path,) = tmp_path.glob("*.py")
    specialise(lambda x: x + 2, {})(1)  # the compiler is imported
    results = []
    waiting = threading.Thread(target=lambda: results.append(kernel(1)))
    with kernel_cache.held(path):  # as the other process does
        waiting.start()
        waiting.join(1.0)
        assert waiting.is_alive()
    waiting.join()
    assert results == [2]


def test_a_kernel_whose_file_cannot_be_locked_is_compiled(tmp_path):
    with kernel_cache.held(tmp_path / "missing.py"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("suffix", others_are_slow([".py", ".nbi", ".nbc"], [".nbi"]))
def test_files_that_vanish_are_compiled_again(tmp_path, suffix):
    cache = tmp_path / "cache"
    (tmp_path / "one.py").write_text(RUNNABLE)
    assert run(tmp_path, "one", cache)[:3] == [24, 0, 1]
    (file,) = (cache / "kernels").rglob(f"*{suffix}")
    file.unlink()
    result, hits, misses, _ = run(tmp_path, "one", cache)
    assert (result, hits + misses) == (24, 1)
    assert misses == 1 or suffix == ".py"  # which it is written again as it was
    assert run(tmp_path, "one", cache)[:3] == [24, 1, 0]


def test_a_source_file_that_vanishes_while_numba_takes_it(monkeypatch, tmp_path):
    def template(x):
        return x + 41.0

    real, calls = compiler._source_file, []

    def vanishing(name, digest):
        path = real(name, digest)
        calls.append(path)
        if len(calls) == 1:
            path.unlink()
        return path

    monkeypatch.setattr(kernel_cache, "kernel_directory", lambda: tmp_path)
    monkeypatch.setattr(compiler, "_source_file", vanishing)
    assert specialise(template, {})(1.0) == 42.0
    assert len(calls) == 2


def test_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "one.py").write_text(RUNNABLE)
    (tmp_path / "file").write_text("not a directory")
    result, hits, misses, where = run(tmp_path, "one", tmp_path / "file" / "cache")
    assert (result, hits, misses) == (24, 0, 1)
    assert "driftrank-kernels-" in where
    assert not Path(where).exists()  # gone with the process


def test_a_source_file_is_written_once(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_cache, "kernel_directory", lambda: tmp_path)
    path = compiler._source_file("step", "abc")
    before = path.stat().st_mtime_ns
    assert compiler._source_file("step", "abc") == path
    assert path.stat().st_mtime_ns == before
    assert [file.name for file in tmp_path.iterdir()] == ["step_abc.py"]


def test_pure_is_the_function_itself():
    def f(x):
        return x

    assert pure(kernel(f)) is f
    assert pure(f) is f


def add_up(x, out):
    out[0] = SUM(x[0], x[1])  # noqa: F821


def test_generated_kernels():
    total = generate("total", "a, b", "a + SHIFT * b", {"SHIFT": 10.0})
    assert pure(total)(1.0, 2.0) == 21.0
    out = np.empty(1)
    specialise(add_up, {"SUM": total})(np.array([1.0, 2.0]), out)
    assert out[0] == 21.0
    other = generate("total", "a, b", "a + SHIFT * b", {"SHIFT": 11.0})
    assert fingerprint(add_up, {"SUM": total}) != fingerprint(add_up, {"SUM": other})


def test_division_by_zero_is_infinite_as_in_numpy():
    def divide(x, out):
        out[0] = x[0] / x[1]

    out = np.empty(1)
    specialise(divide, {})(np.array([1.0, 0.0]), out)
    assert out[0] == np.inf


def test_a_kernel_is_plain_python_to_python():
    """It is called without waiting for the compiler, as silent as compiled code, and looks like the function it is."""

    @kernel
    def wrapped(x, n):
        """Times a number."""
        return np.uint64(x) * np.uint64(n)

    def template(x, n, out):
        out[0] = TIMES(x, n)  # noqa: F821

    most = np.uint64(2**64 - 1)
    by_python = wrapped(most, 3)
    assert wrapped.__doc__ == "Times a number."
    assert not wrapped._compiled.signatures  # nothing was compiled for that
    out = np.zeros(1, np.uint64)
    specialise(template, {"TIMES": wrapped})(most, np.uint64(3), out)
    assert by_python == out[0] == 2**64 - 3
