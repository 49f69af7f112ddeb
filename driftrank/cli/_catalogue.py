"""Tables of policies, environments and click models, and the page of each."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shutil
import sys
import textwrap
import typing
from collections.abc import Mapping
from typing import Any

import typer

from driftrank.validation import check_known

#: classes by name, under the title of their group
Groups = Mapping[str, Mapping[str, type]]


def show(
    command: str, kind: str, groups: Groups, extra: str, name: str | None, json: bool, hidden: tuple[str, ...] = ()
) -> None:
    """Print the table, or the page of ``name``. ``extra`` is the class attribute that has a column of its own."""
    known = dict(sorted(item for group in groups.values() for item in group.items()))
    if name is not None:
        check_known(kind, name, known)
        known = {name: known[name]}
    if json:
        from driftrank.cli._output import show_json

        show_json({name: _facts(cls, extra, hidden) for name, cls in known.items()})
    elif name is not None:
        typer.echo(page(name, known[name], hidden))
    else:
        typer.echo(catalogue(groups, extra, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
        typer.echo(f"\ndriftrank {command} NAME describes one in full.")


def catalogue(groups: Groups, extra: str, width: int | None) -> str:
    """A table of all classes, with a heading for every group; one line per class if ``width`` is None."""
    head = ("name", extra, "description")
    rows = {
        title: [(name, _shown(getattr(cls, extra)) or "-", brief(cls)) for name, cls in group.items()]
        for title, group in groups.items()
    }
    cells = [head, *(row for group in rows.values() for row in group)]
    first, second = (max(len(row[column]) for row in cells) for column in (0, 1))

    def line(name: str, value: str, description: str) -> str:
        start = f"  {name:{first}}  {value:{second}}  "
        if width is None:
            return start + description
        return textwrap.fill(
            description, max(width, len(start) + 20), initial_indent=start, subsequent_indent=" " * len(start)
        )

    lines = [line(*head)]
    for title, group in rows.items():
        lines += ["", typer.style(title, bold=True)] if title else [""]
        lines += [line(*row) for row in group]
    return "\n".join(lines)


def page(name: str, cls: type, hidden: tuple[str, ...] = ()) -> str:
    """The docstring of a class, and the defaults of its parameters."""
    lines = [name, "=" * len(name), "", inspect.cleandoc(cls.__doc__ or ""), "", "Defaults", "--------"]
    lines += [f"{key} = {_shown(default)}  ({hint})" for key, default, hint in parameters(cls, hidden)]
    return "\n".join(lines)


def parameters(cls: type, hidden: tuple[str, ...] = ()) -> list[tuple[str, Any, str]]:
    """Name, default and type of every parameter."""
    hints = typing.get_type_hints(cls)
    return [
        (f.name, f.default, re.sub(r"\b[a-z_]+\.", "", getattr(hints[f.name], "__name__", str(hints[f.name]))))
        for f in dataclasses.fields(cls)
        if f.init and f.name not in hidden
    ]


def summary(cls: type) -> str:
    """The first paragraph of the docstring, without markup."""
    text = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0]
    return re.sub(r":\w+:`~?([^`]*)`", r"\1", " ".join(text.split()))


def brief(cls: type) -> str:
    """The first clause of the summary, without sources."""
    return re.split(r"[.:;](?:\s|$)", re.sub(r" \([^()]*\)", "", summary(cls)), maxsplit=1)[0]


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(getattr(value, "spec", value))


def _facts(cls: type, extra: str, hidden: tuple[str, ...]) -> dict[str, Any]:
    plain = (str, int, float, bool, type(None), list, tuple)
    return {
        "summary": summary(cls),
        extra: getattr(cls, extra),
        "parameters": {key: d if isinstance(d, plain) else _shown(d) for key, d, _ in parameters(cls, hidden)},
    }
