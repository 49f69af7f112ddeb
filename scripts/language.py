"""Find wording that CONTRIBUTING.md asks to avoid: docstrings that begin with a question word, and archaic words.

Checks code, templates, pages and examples; prints ``file:line: found, advice`` and exits with 1 if there is any.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = ("driftrank", "client", "benchmarks", "scripts")
PAGES = ("docs", "deploy", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")

QUESTION = re.compile(r"(What|How|Whether|Where|Which|Who)\b")
ADVICE = {
    r"anew": "again, or reset",
    r"lest": "to avoid",
    r"amid": "between",
    r"in peace": "gracefully",
    r"(for )?the while": "meanwhile, or temporarily",
    r"of which": "whose, or two sentences",
    r"(?<!here )(is|are) (no|(?-i:none))(?! (%}|longer|more|fewer|less|better|worse))": "is not, or has no",
    r"told( of)?": "given, or reported",
    r"hears? of": "is notified of",
    r"passed over": "skipped",
    r"nobody knows": "unknown",
    r"goes its own way": "is independent",
    r"in words": "as text",
    r"at hand": "available, or precomputed",
}
WORDS = re.compile(r"\b(" + "|".join(f"(?:{pattern})" for pattern in ADVICE) + r")\b", re.IGNORECASE)


def tracked(suffixes: tuple[str, ...], places: tuple[str, ...]) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *places]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in names if name.endswith(suffixes) and (ROOT / name).exists()]


def questions(path: Path) -> Iterator[tuple[int, str, str]]:
    """Docstrings that begin with a question word."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found = QUESTION.match(ast.get_docstring(node) or "")
            if found:
                yield node.body[0].lineno, found[0], "begin with a verb or the term"


def words(path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        for found in WORDS.finditer(line):
            if path.name == Path(__file__).name:
                continue
            advice = next(text for pattern, text in ADVICE.items() if re.match(pattern, found[0], re.IGNORECASE))
            yield number, found[0], advice


def main() -> int:
    code, pages = tracked((".py",), CODE), tracked((".md", ".py", ".toml", ".yaml", ".yml"), PAGES)
    pages += tracked((".html", ".js"), ("driftrank",))
    faults = [(path, *fault) for path in code for fault in questions(path)]
    faults += [(path, *fault) for path in (*code, *pages) for fault in words(path)]
    for path, line, found, advice in sorted(faults):
        print(f"{path.relative_to(ROOT)}:{line}: {found!r}: {advice}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
