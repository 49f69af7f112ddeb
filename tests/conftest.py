"""Fixtures, and how the tests are run.

Kernels are compiled, and go to the user's cache as always: they are filed under a fingerprint, so a second run of the
tests need not compile again. Tests marked ``interpreted``, unless also marked ``compiled``, and the examples of
policies run with ``NUMBA_DISABLE_JIT=1``, which makes kernels plain Python; ``make test-all`` also runs the tests of
policies, service and clients that way, to count kernels in coverage. ``tests/policies/test_compiled.py`` shows that
both give the same bits.
"""

from __future__ import annotations

import atexit
import functools
import gc
import inspect
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from numba.core.dispatcher import Dispatcher

from driftrank.engine import compiling
from driftrank.policies.registry import policies
from driftrank.queries import Queries, load
from tests.postgres import Cluster, binaries
from tests.quick import KINDS

HERE = Path(__file__).parent
settings.register_profile("driftrank", deadline=None)  # the first call of a kernel waits for the compiler
settings.load_profile("driftrank")

# a shell makes its background jobs ignore Ctrl-C; tests of Ctrl-C must not inherit that
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until tests are collected: they and their modules are not garbage
compiling.WORTH_PROCESSES = 4  # tests keep all cores busy as it is

#: tests of all policies: ``make test`` runs them on one of every kind
_OF_ALL = ("engine", "policies/contract", "policies/learner", "policies/test_skeletons.py", "serve")

YANDEX40 = HERE.parents[1] / "shared" / "data" / "yandex_click_models_40.json"


@pytest.fixture(scope="session")
def yandex40_file() -> Path:
    """Click models of forty real queries. They are third-party data, kept beside the repository and not in it."""
    if not YANDEX40.exists():
        pytest.skip("needs ../shared/data/yandex_click_models_40.json beside the repository")
    return YANDEX40


@pytest.fixture(scope="session")
def yandex40(yandex40_file: Path) -> Queries:
    """The same in the cascade model."""
    return load(yandex40_file)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A PostgreSQL server; each test uses a schema of its own."""
    if binaries() is None:
        pytest.skip("needs initdb of PostgreSQL")
    with Cluster() as cluster:
        yield cluster


def _untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without coverage's tracing: the compiler is Python, and traced it takes twice as long."""

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        trace = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*arguments, **options)
        finally:
            sys.settrace(trace)

    return run


Dispatcher.compile = _untraced(Dispatcher.compile)


def _simulates(item: pytest.Item) -> bool:
    """True if a test, or a function of its file that it calls, runs the simulator: thousands of steps."""
    if isinstance(item, pytest.DoctestItem):
        return any("simulate" in example.source for example in item.dtest.examples)
    function = getattr(item, "function", None)
    if function is None:
        return False
    own = inspect.unwrap(function)
    called = [own, *(own.__globals__.get(name) for name in own.__code__.co_names)]
    return any(
        inspect.isfunction(f) and f.__module__ == own.__module__ and "simulate" in f.__code__.co_names for f in called
    )


def pytest_collection_finish() -> None:
    """Spare the garbage collector thousands of tests and modules, which stay to the end."""
    gc.collect()
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # extensions otherwise report objects as leaked


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests by policy: its kernels are then compiled in one process. Mark those that simulate."""
    known = policies()
    policy_of = {}
    for item in items:
        if _simulates(item) and not item.get_closest_marker("interpreted"):
            item.add_marker(pytest.mark.compiled)
        elif isinstance(item, pytest.DoctestItem) and item.path.is_relative_to(HERE.parent / "driftrank" / "policies"):
            item.add_marker(pytest.mark.interpreted)
        name = item.callspec.params.get("name") if hasattr(item, "callspec") else None
        policy_of[item] = name if isinstance(name, str) and name in known else None
        if policy_of[item] not in (None, *KINDS) and any(item.path.is_relative_to(HERE / part) for part in _OF_ALL):
            item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.xdist_group(policy_of[item] or str(item.path)))
    # the compiler takes longest on tests of single policies; their kernels then lie on disk for the others
    items.sort(key=lambda item: policy_of[item] is None)
