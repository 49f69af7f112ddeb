"""Show what a registry knows: all of it as a table, or one thing in full."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from typing import Any

from driftrank.experiments.table import Table
from driftrank.validation import check_known


def catalogue(known: dict[str, type], extra: str) -> Table:
    """Name, what it is, and a class attribute called ``extra``; parameters are on the page of each."""
    rows = [(name, summary(cls), _shown(getattr(cls, extra)) or "-") for name, cls in known.items()]
    return Table(("name", "what it is", extra), rows, (None,) * 3)


def page(kind: str, name: str, known: dict[str, type], hidden: tuple[str, ...] = ()) -> str:
    """Everything there is to say about one of them."""
    check_known(kind, name, known)
    cls = known[name]
    lines = [name, "=" * len(name), "", inspect.cleandoc(cls.__doc__ or ""), "", "Defaults", "--------"]
    lines += [f"{key} = {_shown(default)}  ({hint})" for key, default, hint in parameters(cls, hidden)]
    return "\n".join(lines)


def parameters(cls: type, hidden: tuple[str, ...] = ()) -> list[tuple[str, Any, str]]:
    """Name, default and type of every parameter."""
    hints = typing.get_type_hints(cls)
    return [
        (f.name, f.default, getattr(hints[f.name], "__name__", str(hints[f.name])).replace("typing.", ""))
        for f in dataclasses.fields(cls)
        if f.init and f.name not in hidden
    ]


def summary(cls: type) -> str:
    """The first paragraph of the docstring, without markup."""
    text = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0]
    return re.sub(r":\w+:`~?([^`]*)`", r"\1", " ".join(text.split()))


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(getattr(value, "spec", value))


def show(
    kind: str, known: dict[str, Any], extra: str, name: str | None, json: bool, hidden: tuple[str, ...] = ()
) -> None:
    """Print the table, or the page of ``name``."""
    from driftrank.cli._output import show_json, show_table

    if json:
        if name is not None:
            check_known(kind, name, known)
        show_json({n: _facts(c, extra, hidden) for n, c in known.items() if name in (None, n)})
    elif name is None:
        show_table(catalogue(known, extra))
    else:
        print(page(kind, name, known, hidden))


def _facts(cls: type, extra: str, hidden: tuple[str, ...]) -> dict[str, Any]:
    plain = (str, int, float, bool, type(None), list, tuple)
    return {
        "summary": summary(cls),
        extra: getattr(cls, extra),
        "parameters": {key: d if isinstance(d, plain) else _shown(d) for key, d, _ in parameters(cls, hidden)},
    }
