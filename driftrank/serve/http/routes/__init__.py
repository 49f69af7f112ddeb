"""The HTTP routes of the service: a file for each group, with its ``TAG`` and its part of the table, ``ROUTES``."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from dataclasses import replace

from driftrank.serve.http.operation import LABELS, Operation

#: groups in reading order; others follow
_TAGS = ("rank and learn", "queries", "feeds", "rankers", "transfer", "operations", "Azure Personalizer")


@functools.cache
def table() -> tuple[Operation, ...]:
    """All operations. Starlette tries them in this order, so the most frequent are first."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    return tuple(sorted((replace(entry, tag=m.TAG) for m in modules for entry in m.ROUTES), key=_place))


def _place(operation: Operation) -> tuple[int, int]:
    tag = _TAGS.index(operation.tag) if operation.tag in _TAGS else len(_TAGS)
    return tag, LABELS.index(operation.label)
