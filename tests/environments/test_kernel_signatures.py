from __future__ import annotations

import inspect

import pytest

from driftrank.environments.base import KernelSignatures
from driftrank.environments.registry import environments
from driftrank.kernels import pure


@pytest.mark.parametrize("name", [name for name, cls in environments().items() if not cls.traffic])
@pytest.mark.parametrize("kind", ["world", "live"])
def test_kernels_have_the_documented_signatures(name, kind):
    expected = inspect.signature(getattr(KernelSignatures, kind)).parameters
    assert list(inspect.signature(pure(getattr(environments()[name], kind))).parameters) == list(expected)
