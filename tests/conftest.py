"""What tests share.

Compiled kernels go to the user's cache, as always: they are filed under a fingerprint, so old ones are never taken for
new ones, and a second run of the tests need not compile again.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from driftrank.policies.change_detection import ChangeDetection
from driftrank.policies.registry import policies
from driftrank.queries import Queries, load

settings.register_profile("driftrank", deadline=None)  # the first call of a kernel waits for the compiler
settings.load_profile("driftrank")

# a shell has the jobs that it starts in the background ignore Ctrl-C; tests of Ctrl-C must not inherit that
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

YANDEX40 = Path(__file__).parents[2] / "shared" / "data" / "yandex_click_models_40.json"


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


#: files whose tests are about one policy each, named by their parameter ``name``
_OF_ALL_POLICIES = {
    "test_checks.py", "test_dcm.py", "test_feedback.py", "test_identity.py", "test_pbm.py", "test_state_size.py",
}  # fmt: skip
#: files about the policies that detect changes, which share their kernels
_OF_DETECTION = {"test_alarms.py", "test_change_detection.py", "test_detections.py", "test_glr.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that is about one policy runs in one process, and comes first.

    What takes time is compiling, and the pieces of a policy are compiled once per process; the kernels put together
    from them then lie on disk for the tests of whole experiments.
    """
    known = policies()
    by_module = {cls.__module__.rpartition(".")[2]: name for name, cls in known.items()}

    def policy_of(item: pytest.Item) -> str | None:
        if item.path.name in _OF_DETECTION:
            return ChangeDetection.__name__
        name = by_module.get(item.path.stem.removeprefix("test_"))
        if item.path.name in _OF_ALL_POLICIES and isinstance(item, pytest.Function):
            name = getattr(item, "callspec", None) and item.callspec.params.get("name")
        return ChangeDetection.__name__ if name in known and issubclass(known[name], ChangeDetection) else name

    for item in items:
        item.add_marker(pytest.mark.xdist_group(policy_of(item) or str(item.path)))
    items.sort(key=lambda item: policy_of(item) is None)
