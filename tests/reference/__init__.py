"""Plain NumPy versions of the policies, straight from the formulas, with no thought of speed.

A class here is the plain version of the policy of the same name:
``__init__(L, K, horizon=None, **parameters)``, ``rank(t, key) -> items``, ``update(t, ranking, clicks)``.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil


def references() -> dict[str, type]:
    """Every plain version, by the policy's name."""
    found = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for name, value in vars(module).items():
            mine = isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
            if mine and hasattr(value, "rank") and hasattr(value, "update"):
                found[name] = value
    return found


def reference_of(policy):
    """What makes the plain version of a policy: ``(L, K, horizon) -> object``."""
    cls = references()[type(policy).__name__]
    parameters = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy)}
    own = parameters.pop("horizon", None)  # what a policy is given itself comes before what it is told
    return lambda L, K, horizon=None: cls(L, K, own or horizon, **parameters)
