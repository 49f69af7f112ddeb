"""What tests share.

Compiled kernels go to the user's cache, as always: they are filed under a fingerprint, so old ones are never taken for
new ones, and a second run of the tests need not compile again.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from driftrank.queries import Queries, load

settings.register_profile("driftrank", deadline=None)  # the first call of a kernel waits for the compiler
settings.load_profile("driftrank")

YANDEX40 = Path(__file__).parents[2] / "shared" / "data" / "yandex_click_models_40.json"


@pytest.fixture(scope="session")
def yandex40() -> Queries:
    """Forty real queries. They are third-party data, kept beside the repository and not in it."""
    if not YANDEX40.exists():
        pytest.skip("needs ../shared/data/yandex_click_models_40.json beside the repository")
    return load(YANDEX40)
