"""The reference: every public name by module, the commands, and the HTTP API."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import driftrank
from driftrank.kernels.compile import Kernel, pure
from scripts.docs.markup import NAMED, Docstring, Page

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "reference"


@cache
def module_names() -> list[str]:
    """The public modules: those of ``dir(driftrank)``, packages that state ``__all__``, and those that are cited.

    Pages cite a module by its full name or by one of its names; docstrings cite with ``:mod:``.
    """
    found = {f"driftrank.{name}" for name in driftrank._modules()} | {module for module, _ in cited() if module}
    for source in (ROOT / "driftrank").rglob("*.py"):
        text = source.read_text("utf-8")
        found |= set(re.findall(r":mod:`~?(driftrank(?:\.\w+)+)`", text))
        if source.stem == "__init__" and re.search(r"^__all__", text, re.MULTILINE):
            found.add(".".join(source.parent.relative_to(ROOT).parts))
    return ["driftrank", *sorted(found - {"driftrank"} - INTERNAL)]


#: packages whose ``__all__`` is for other packages of driftrank
INTERNAL = {"driftrank.serve.page.views"}


@cache
def cited() -> set[tuple[str, str]]:
    """The modules and names that README and pages of docs/ cite: ``driftrank.a.b.NAME``, ``dr.a.NAME``, and imports.

    The name is empty where a module is cited; a method has the name of its class before it.
    """
    found = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.py")):
        text = page.read_text("utf-8")
        full = {f"driftrank{name}" for name in re.findall(r"(?<![\w./:-])(?:driftrank|dr)((?:\.[A-Za-z]\w*)+)", text)}
        for module, names in re.findall(r"^from (driftrank[\w.]*) import ([\w, ]+)", text, re.MULTILINE):
            full |= {f"{module}.{name.split(' as ')[0].strip()}" for name in names.split(",")}
        found |= {_split(name) for name in full}
    return found - {("", "")}


def _split(full: str) -> tuple[str, str]:
    """Module and name; both empty for a file such as ``driftrank.toml``."""
    parts = full.split(".")
    count = len(parts)
    while not (ROOT.joinpath(*parts[:count]).is_dir() or ROOT.joinpath(*parts[:count]).with_suffix(".py").exists()):
        count -= 1
    module, name = ".".join(parts[:count]), ".".join(parts[count:])
    return ("", "") if module == "driftrank" and name in ("db", "sock", "toml", "NAME") else (module, name)


def public_names(module: Any) -> dict[str, Any]:
    """The functions, classes and values that a module offers, by name; modules and policies have pages of their own."""
    name = module.__name__
    if name == "driftrank":
        return {key: getattr(driftrank, key) for key in sorted(driftrank._EXPORTS)}
    if hasattr(module, "__all__"):
        return {key: getattr(module, key) for key in module.__all__}
    if "_EXPORTS" in vars(module):
        return {key: getattr(module, key) for key in dir(module)}
    return {
        key: value
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(pure(value), "__module__", None) == name and _is_offered(value)
    }


def _is_offered(value: Any) -> bool:
    """True for classes and functions; a kernel without a docstring is a part of others."""
    return callable(value) and (not isinstance(value, Kernel) or bool(value.py_func.__doc__))


def page_of(module: str) -> str:
    return f"{FOLDER}/{module.removeprefix('driftrank.')}.md"


def targets(catalogue: dict[str, str]) -> dict[str, str]:
    """The place of every public name. ``catalogue`` has the pages of policies, environments and click models."""
    found: dict[str, str] = {}
    for name in module_names():
        module = importlib.import_module(name)
        found[name] = page_of(name)
        for key, value in public_names(module).items():
            target = catalogue.get(key) or f"{page_of(name)}#{name}.{key}"
            defined = f"{getattr(value, '__module__', name)}.{key}"
            for known in (f"{name}.{key}", defined, key):
                found.setdefault(known, target)
    return found | catalogue | {f"driftrank.{name}": path for name, path in catalogue.items()}


def module_page(name: str, known: dict[str, str], entries: dict[str, str]) -> Page:
    """The page of a module: its docstring, and every public name. ``entries`` are names with pages of their own."""
    module = importlib.import_module(name)
    page = Page(page_of(name), known)
    page.add(f"# {name}", page.prose(inspect.cleandoc(module.__doc__ or ""), name))
    if entries:
        page.add("| name | description |\n|---|---|\n" + "\n".join(
            f"| [`{key}`]({page.link(path)}) | {page.inline(Docstring.of(getattr(module, key)).summary)} |"
            for key, path in entries.items()
        ))  # fmt: skip
    for key, value in public_names(module).items():
        if key not in entries:
            add_entry(page, key, value, f"{name}.{key}")
    return page


def add_entry(page: Page, key: str, value: Any, full: str) -> None:
    """Describe a class, function or value."""
    kind = "class" if inspect.isclass(value) else "function" if callable(value) else "value"
    page.add(f"## {key} {{ #{full} .entry }}")
    if kind == "value":
        page.add(f"```python\n{key} = {value!r}\n```")
        return
    page.add(f"```python\n{_signature(key, value, kind)}\n```")
    documented(page, Docstring.of(pure(value)), full)
    if kind == "class":
        fields = list(fields_of(value))
        if fields:
            page.add(
                "**Fields**",
                "\n".join(f"`{name}: {hint}`\n:   {page.inline(text, full)}\n" for name, hint, text in fields),
            )
        for name, member in _members(value):
            of = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            page.add(f"### {name} {{ #{full}.{name} .entry }}")
            shown = name if isinstance(member, property) else _signature(name, of, "function")
            page.add(f"```python\n{shown}\n```")
            documented(page, Docstring.of(of), full)


def documented(page: Page, docstring: Docstring, within: str) -> None:
    """All parts of a docstring, in their order."""
    page.add(page.prose(docstring.text, within))
    for section, text in docstring.sections.items():
        page.add(f"**{section}**")
        if section in NAMED:
            page.add(definitions(page, docstring.entries(section), within))
        else:
            page.add(page.prose(text, within))


def definitions(page: Page, entries: dict[str, str], within: str) -> str:
    """Names with their texts as a definition list."""
    parts = []
    for names, text in entries.items():
        shown = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        parts.append(f"{shown}\n:   {textwrap.indent(page.prose(text, within), '    ').lstrip()}\n")
    return "\n".join(parts)


def _signature(name: str, value: Any, kind: str) -> str:
    try:
        signature = str(inspect.signature(pure(value)))
    except (TypeError, ValueError):
        signature = "(...)"
    signature = re.sub(r"\((?:self|cls)(?:, )?", "(", signature, count=1)
    signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", re.sub(r"<[^<>]*>", "...", signature))
    opening = f"class {name}" if kind == "class" else name
    signature = signature.removesuffix(" -> None") if kind == "class" else signature
    if len(opening + signature) <= 96:
        return opening + signature
    inside, _, after = signature[1:].rpartition(")")
    split = re.split(r", (?=[*\w]+(?::|=|,|$))", inside)
    return f"{opening}(\n" + "".join(f"    {part},\n" for part in split) + f"){after}"


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that have a docstring, in the order of the source."""
    for name, member in vars(cls).items():
        of = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(of) and of.__doc__:
            yield name, member


def fields_of(cls: type) -> Iterator[tuple[str, str, str]]:
    """Fields whose meaning stands in a comment ``#:`` beside them, or above."""
    try:
        lines = textwrap.dedent(inspect.getsource(cls)).splitlines()
    except (OSError, TypeError):
        return
    above: list[str] = []
    for line in lines:
        found = re.match(r"    (\w+): ([^#=]+?)(?: = .*?)?(?:\s+#: (.*))?$", line)
        if comment := re.match(r"    #: (.*)", line):
            above.append(comment[1])
        elif found and (found[3] or above) and not found[1].startswith("_") and "ClassVar" not in found[2]:
            yield found[1], found[2].strip(), found[3] or " ".join(above)
            above = []
        else:
            above = []


# -- commands and routes -----------------------------------------------------------------------------------------------


def command_page() -> Page:
    """Every command of ``driftrank`` with its options."""
    import typer.main

    from driftrank.cli.app import make_app

    page = Page(f"{FOLDER}/commands.md")
    page.add("# Commands", "`driftrank COMMAND --help` prints the same.")
    _add_command(page, typer.main.get_command(make_app()), "driftrank")
    return page


def _add_command(page: Page, command: Any, words: str) -> None:
    children = getattr(command, "commands", None)
    if children is None:
        page.add(f"## {words} {{ #{words.replace(' ', '-')} }}")
        text, _, examples = inspect.cleandoc(command.help or "").partition("\b")
        page.add(_plain(text))
        if examples.strip():
            page.add(f"```sh\n{examples.strip()}\n```")
        rows = [row for parameter in command.params if (row := _option(parameter))]
        if rows:
            page.add("| option | meaning |\n|---|---|\n" + "\n".join(rows))
        return
    for name, child in sorted(children.items()):
        if not child.hidden:
            _add_command(page, child, f"{words} {name}")


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").strip()


def _option(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    names = (
        ", ".join(f"`{name}`" for name in parameter.opts)
        if is_option
        else f"`{parameter.metavar or parameter.name.upper()}`"
    )
    return f"| {names} | {_plain(getattr(parameter, 'help', '') or '').replace('|', chr(92) + '|')} |"


def http_page() -> Page:
    """Every operation of the HTTP API, from the document that the service offers."""
    from driftrank.serve.http.limits import Limits
    from driftrank.serve.http.openapi import document
    from driftrank.serve.http.routes import table
    from driftrank.serve.settings.server import ServerSettings

    found = document(table(), Limits.of(ServerSettings()), keys=True)
    page = Page(f"{FOLDER}/http.md")
    page.add(
        "# HTTP API", "A running service has the same at `/docs`, with schemas, and as a document at `/openapi.json`."
    )
    by_tag: dict[str, list[tuple[str, str, Any]]] = {}
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            if isinstance(operation, dict) and "responses" in operation:
                by_tag.setdefault((operation.get("tags") or ["other"])[0], []).append((method, path, operation))
    for tag, operations in by_tag.items():
        page.add(f"## {tag.capitalize()}")
        for method, path, operation in operations:
            page.add(f"### `{method.upper()} {path}` {{ #{operation.get('operationId', method + path)} }}")
            summary, text = (_plain(operation.get(key, "")) for key in ("summary", "description"))
            page.add(f"**{summary}**", text if text.rstrip(".") != summary else "")
    return page
