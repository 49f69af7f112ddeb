"""Off-policy evaluation: the value of other lists and policies, from a log of lists whose probabilities are known.

Everything is imported on first use; :mod:`driftrank.evaluation.sequences` needs nothing but NumPy.

>>> import driftrank as dr
>>> dr.evaluation.known_estimators()["dr"].assumes
'A1'
"""

from __future__ import annotations

import importlib
from typing import Any

#: names that this package exports, and their modules
_EXPORTS = {
    "Batch": "base",
    "Estimator": "base",
    "Evaluation": "result",
    "MeanEstimator": "base",
    "Sequence": "streaming",
    "Sums": "sums",
    "check_estimator": "contract",
    "known_estimators": "base",
    "evaluate": "evaluating",
    "mixture_propensities": "planning",
    "needed": "needs",
    "softmax_propensities": "planning",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_EXPORTS)
