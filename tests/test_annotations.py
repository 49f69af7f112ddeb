"""Every function but kernels and templates says its types.

mypy is told to put up with functions without types in the rooms that hold kernels, since numba finds out the types of
those. This test is the other half of that bargain.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def lenient() -> list[Path]:
    """The files in which mypy lets functions without types pass."""
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]["overrides"]
    modules = [m for o in overrides if o.get("disallow_untyped_defs") is False for m in o["module"]]
    rooms = [ROOT / m.removesuffix(".*").replace(".", "/") for m in modules]
    files = [room.with_suffix(".py") for room in rooms if not room.is_dir()]
    return sorted([*files, *(path for room in rooms for path in room.rglob("*.py"))])


def untyped(tree: ast.AST) -> Iterator[str]:
    """Functions that lack the type of an argument or of the result, and are not given to ``kernel``."""
    given = {name for node in ast.walk(tree) for name in _given_to_kernel(node)}
    methods = {id(f) for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for f in c.body}
    for f in ast.walk(tree):
        if not isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        marks = {ast.unparse(d).split("(")[0].split(".")[-1] for d in f.decorator_list}
        if "kernel" in marks or f.name in given:
            continue
        arguments = [*f.args.posonlyargs, *f.args.args]
        if id(f) in methods and "staticmethod" not in marks:
            arguments = arguments[1:]
        arguments += [*f.args.kwonlyargs, *filter(None, (f.args.vararg, f.args.kwarg))]
        silent = f.name == "__init__" and arguments  # mypy knows what it returns
        if (f.returns is None and not silent) or any(a.annotation is None for a in arguments):
            yield f"{f.name}, line {f.lineno}"


def _given_to_kernel(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "kernel":
        forms = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "on_gpu")]
        yield from (form.id for form in forms if isinstance(form, ast.Name))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f(x): ...", ["f, line 1"]),
        ("def f(x: int): ...", ["f, line 1"]),
        ("def f(x: int, *, y) -> int: ...", ["f, line 1"]),
        ("class C:\n def m(self) -> int: ...\n @staticmethod\n def s(x) -> int: ...", ["s, line 4"]),
        ("@kernel\ndef f(x): ...\ndef g(x): ...\nk = kernel(g)", []),
        ("def f(x): ...\ndef g(x): ...\nk = kernel(f, on_gpu=g)", []),
    ],
)
def test_finds_what_lacks_types(code: str, found: list[str]) -> None:
    assert list(untyped(ast.parse(code))) == found


@pytest.mark.parametrize("path", lenient(), ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_say_their_types(path: Path) -> None:
    text = path.read_text("utf-8")
    if "\n# mypy: ignore-errors\n" in text:
        assert path.name == "templates.py", "only templates may do without types"
        return
    assert not list(untyped(ast.parse(text)))
