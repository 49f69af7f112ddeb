"""Learn from clicks which items to show at the top of a list, and keep up when users change their minds.

>>> import driftrank as dr
>>> learner = dr.default_policy().start(items=["a", "b", "c", "d"], k=3, seed=0)
>>> ranking = learner.rank()
>>> learner.update(ranking, clicks=[0, 1, 0])

Everything is imported on first use: the modules of this package (``dr.environments``), the functions ``simulate``,
``sweep``, ``evaluate``, ``advise``, ``load`` and ``default_policy``, and every policy by its name (``dr.CascadeDUCB``).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftrank._names import *  # noqa: F403 - modules and policies, written by scripts/names.py
    from driftrank.evaluation.evaluating import evaluate as evaluate
    from driftrank.experiments.advice.advise import advise as advise
    from driftrank.experiments.simulation.simulate import simulate as simulate
    from driftrank.experiments.sweeps.sweep import sweep as sweep
    from driftrank.policies.base import Policy as Policy
    from driftrank.policies.learner.learner import Learner as Learner
    from driftrank.policies.learner.learner import load as load
    from driftrank.policies.learner.shared_model import SharedModel as SharedModel
    from driftrank.policies.registry import default_policy as default_policy

__version__ = "0.1.0"

#: names that this package exports, and their modules
_EXPORTS = {
    "Learner": "driftrank.policies.learner.learner",
    "Policy": "driftrank.policies.base",
    "SharedModel": "driftrank.policies.learner.shared_model",
    "advise": "driftrank.experiments.advice.advise",
    "default_policy": "driftrank.policies.registry",
    "evaluate": "driftrank.evaluation.evaluating",
    "load": "driftrank.policies.learner.learner",
    "simulate": "driftrank.experiments",
    "sweep": "driftrank.experiments",
}


def _imported(name: str) -> Any:
    """The value of a name, imported now."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
    elif name in _modules():
        return importlib.import_module(f"{__name__}.{name}")
    elif name in (policies := _policies()):
        value = policies[name]
    else:
        from driftrank.validation import nearest

        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{nearest(name, __dir__())}")
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # otherwise any name would pass
    __getattr__ = _imported


def __dir__() -> list[str]:
    return sorted({"__version__", *_EXPORTS, *_modules(), *_policies()})


def _modules() -> set[str]:
    import pkgutil

    return {module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")}  # noqa: F405


def _policies() -> dict[str, Any]:
    """The policies of this package; the registry also has those of other packages."""
    from driftrank.policies.registry import policies

    return {name: policy for name, policy in policies().items() if policy.__module__.startswith(f"{__name__}.")}
