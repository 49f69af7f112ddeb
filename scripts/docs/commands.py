"""The ``driftrank`` commands of a page: found, checked against the command line itself, and made small to be tried."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from driftrank.reflection import Registry

#: ends a command of a shell
_ENDS = set("|&;<>()")
_INLINE = re.compile(r"`(driftrank [a-z][^`]*)`")
_CODE = re.compile(r"^    ([^\n]*)$|^```(?:sh|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: options that make a command small; ``None`` is a flag, and those that read or name files stay as they are
SMALL: dict[str, dict[str, str | None]] = {
    "simulate": {"--horizon": "300", "--runs": "1", "--queries": "yandex-like:1", "--quiet": None},
    "sweep": {"--horizon": "300", "--runs": "1", "--queries": "yandex-like:1", "--quiet": None},
    "log generate": {"--lists": "2000", "--quiet": None},
    "log convert": {"--quiet": None},
    "fit": {"--quiet": None, "--overwrite": None},
    "evaluate": {},
    "advise": {"--budget": "5s"},
    "environments": {},
    "policies": {},
}
#: exit codes beside 0 that are answers: 3, the log does not allow a better one
CODES = {"evaluate": (0, 3), "advise": (0, 3)}
#: makes the log that pages speak of, of users who change, shown shuffled lists
A_LOG = "log generate log.parquet --lists 4000 --queries yandex-like:3 --env Abrupt:period=600 --quiet"
#: commands that make the files that pages begin with
BEFORE = (A_LOG, A_LOG.replace("log.parquet", "yandex.txt.gz"), "fit log.parquet --model all --quiet")


class Command(NamedTuple):
    """A command, and the line where it stands."""

    words: tuple[str, ...]  #: without ``driftrank``
    line: int
    whole: bool  #: False inside a sentence, where arguments may be left out


def commands(text: str) -> list[Command]:
    """The commands of a page of Markdown, in blocks of code and in sentences."""
    found = []
    joined = text.replace("\\\n", "  ")  # places stay as they are
    for block in _CODE.finditer(joined):
        code = next(part for part in block.groups() if part is not None)
        for line in code.splitlines():
            found += [Command(words, _line(text, block.start()), True) for words in _shell(line)]
    for inline in _INLINE.finditer(joined):
        given = next(_shell(" ".join(inline[1].split())), ())
        if given and "..." not in given:
            found.append(Command(given, _line(text, inline.start()), False))
    return found


def _line(text: str, place: int) -> int:
    return text[:place].count("\n") + 1


def _shell(line: str) -> Iterator[tuple[str, ...]]:
    """The commands of a line that are driftrank's."""
    if "driftrank " not in f"{line} ":
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.commenters, lexer.whitespace_split = "#", True
    try:
        words = [*lexer]
    except ValueError:  # a quotation that goes on: not a command of ours
        return
    starts = [n for n, word in enumerate(words) if word == "driftrank" and _begins(words[:n])]
    for start in starts:
        rest = words[start + 1 :]
        end = next((n for n, word in enumerate(rest) if set(word) <= _ENDS), len(rest))
        if end < len(rest) and rest[end] in (">", ">&", "<") and rest[end - 1 : end] in (["1"], ["2"]):
            end -= 1  # the number of a redirected stream
        if end:
            yield tuple(rest[:end])


def _begins(before: list[str]) -> bool:
    """True if what stands before is nothing, variables, or the end of another command."""
    variables = [re.fullmatch(r"\w+=.*", word) is not None for word in before]
    return not before or all(variables) or set(before[-1]) <= _ENDS


@cache
def _root() -> Any:
    import typer.main

    from driftrank.cli.app import make_app

    return typer.main.get_command(make_app())


def resolve(words: tuple[str, ...]) -> tuple[Any, str, list[str]]:
    """The command that words begin with, its name, and what follows."""
    command, names, rest = _root(), [], [*words]
    while rest and rest[0] in getattr(command, "commands", {}):
        names.append(rest.pop(0))
        command = command.commands[names[-1]]
    return command, " ".join(names), rest


def problem(words: tuple[str, ...], *, whole: bool = True, own: bool = False) -> str | None:
    """Why the command line would refuse a command; None if it would take it. Files need not exist.

    ``whole=False`` allows that arguments are left out, ``own=True`` names of a policy, environment or click model that
    the page itself defines.
    """
    command, name, rest = resolve(words)
    if not name or (hasattr(command, "commands") and rest and not rest[0].startswith("-")):
        return None if rest and rest[0].startswith("-") and not name else f"no such command: {' '.join(words)}"
    context = command.context_class(command, info_name=name)
    try:
        options, more, _ = command.make_parser(context).parse_args(args=[*rest])
        if more:
            return f"{name}: unexpected {' '.join(more)}"
        for parameter in command.params:
            given = options.get(parameter.name)
            if given is None or not isinstance(given, str | list | tuple):
                if parameter.required and whole and given is None:
                    return f"{name}: lacks {parameter.human_readable_name}"
                continue
            parameter.type_cast_value(context, given)
        _check_names(options, own or "imports" in options)
    except Exception as error:  # those of the parser have no base class that is public
        return f"{name}: {error.format_message() if hasattr(error, 'format_message') else error}"
    return None


def _check_names(options: dict[str, Any], own: bool) -> None:
    """ValueError unless policies, environments, click models and their parameters are known."""
    from driftrank.clickmodels.registry import registry as click_models
    from driftrank.environments.registry import registry as environments
    from driftrank.experiments.simulation.settings import FILES
    from driftrank.experiments.sweeps.grid import parse_template
    from driftrank.policies.registry import registry as policies

    known: dict[str, Registry[Any]] = {"policy": policies, "env": environments, "click_model": click_models}
    for option, registry in known.items():
        given = options.get(option) or []
        for spec in [given] if isinstance(given, str) else given:
            name = spec.partition(":")[0]
            if own and name.lower() not in {each.lower() for each in registry.all()}:
                continue
            if option == "env" and spec in _parts():
                continue
            template = parse_template(spec, registry)
            cls = registry.get(template.name)
            fields = {f.name for f in dataclasses.fields(cls) if f.init} | {*getattr(cls, "renamed", {})}
            fields |= {*FILES} if option == "env" else set()
            if unknown := {key for key, _ in template.pairs} - fields:
                raise ValueError(f"{spec}: no parameter {', '.join(sorted(unknown))}")


def _parts() -> set[str]:
    """Names that ``driftrank leaderboard --env`` takes beside environments."""
    from driftrank.experiments.leaderboards.suite import PARTS

    return {*PARTS, *(entry.name for part in PARTS.values() for entry in part.entries)}


def small(words: tuple[str, ...]) -> list[str] | None:
    """The same command with little to do; None if there is no such thing."""
    _, name, rest = resolve(words)
    if name not in SMALL or {"--device", "--address"} & {*rest}:
        return None
    kept = [re.sub(r"(geom|lin)\(([^,]+),([^,]+),\d+\)", r"\1(\2,\3,2)", word) for word in rest]
    added: list[str] = []
    for option, value in SMALL[name].items():
        if option != "--queries" or ("--queries" not in rest and _takes_queries(rest)):
            added += [option] if value is None else [option, value]
    return [*name.split(), *kept, *added]


def _takes_queries(words: list[str]) -> bool:
    """True unless an environment has queries of its own."""
    from driftrank.environments.registry import environments, takes_queries

    names = [words[n + 1].partition(":")[0] for n, word in enumerate(words) if word == "--env"]
    return all(takes_queries(name) for name in names if name in environments())
