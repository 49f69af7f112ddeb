"""The command ``driftrank``: finds its subcommands, and says in one line what went wrong."""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import os
import pkgutil
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

import driftrank
from driftrank.cli._stopping import Stopping

#: exit codes
WRONG_INPUT, FAILED, STOPPED = 2, 1, 130

_HELP = """Learn from clicks which items to show at the top of a list, and keep up when users change their minds.

\b
driftrank reproduce            the figures and tables of the paper, in a few minutes
driftrank leaderboard          every policy in every environment, on one page
driftrank simulate             policies against an environment of your choice
driftrank sweep                policies with many values of their parameters
driftrank fit                  click models of your own log, to simulate your own users
driftrank serve                lists that learn from clicks, over HTTP
driftrank simulate --help      how to choose
"""


class Stopped(Exception):
    """The user stopped a command; says what was kept."""


def start(arguments: Sequence[str]) -> int:
    """Run a command line in a process that is there for nothing else."""
    # A small run is mostly imports. It is spared 0.2 s of collecting garbage, 0.5 s of collecting it once more at the
    # end, and 0.3 s where scipy is installed: numba would load it for kernels that call BLAS, and ours do not.
    gc.set_threshold(200_000)
    sys.modules.setdefault("scipy", None)  # type: ignore[arg-type]
    try:
        return run(arguments)
    finally:
        if "duckdb" not in sys.modules:  # which reports what was not collected
            gc.freeze()


def run(arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit code. A bad value is one line on standard error, never a traceback."""
    debug = "--debug" in arguments or bool(os.environ.get("DRIFTRANK_DEBUG"))
    with Stopping() as stopping, warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            code = make_app()([a for a in arguments if a != "--debug"], prog_name="driftrank", standalone_mode=False)
            sys.stdout.flush()
            if code == STOPPED:  # before the command began
                raise Stopped("stopped")
            return code if isinstance(code, int) else 0
        except (Stopped, KeyboardInterrupt) as stop:
            exec("")  # else an interrupt that came while Python was in exec() ends the process by a signal
            _say(str(stop) or "stopped")
            return STOPPED
        except BrokenPipeError:  # whoever read our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:
            if debug:
                raise
            if stopping.asked:  # an error that the interrupt led to
                _say("stopped")
                return STOPPED
            code, message = _explained(error)
            if not code:
                raise
            _say(f"error: {message}")
            return code


#: a command, or a group of them
Commands = dict[str, "Callable[..., None] | Commands"]


def make_app() -> typer.Typer:
    """The command with all its subcommands."""
    app = _typer(_HELP)
    app.callback(invoke_without_command=True)(_driftrank)
    _fill(app, commands(), __package__)
    return app


def _typer(text: str) -> typer.Typer:
    names = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(help=text, pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=names)


def _fill(app: typer.Typer, found: Commands, package: str) -> None:
    for name, command in found.items():
        if isinstance(command, dict):
            its = f"{package}.{name.replace('-', '_')}"
            group = _typer(inspect.cleandoc(sys.modules[its].__doc__ or ""))
            group.callback(invoke_without_command=True)(_help_of_group)
            _fill(group, command, its)
            app.add_typer(group, name=name)
        else:
            app.command(name)(_stoppable(command))


def commands(package: str = __package__) -> Commands:
    """The subcommands, by name: functions called like the module they stand in; packages are groups of them."""
    found: Commands = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name != "app" and not module.name.startswith("_"):
            full = f"{package}.{module.name}"
            its = commands(full) if module.ispkg else getattr(importlib.import_module(full), module.name)
            found[module.name.replace("_", "-")] = its
    return dict(sorted(found.items()))


def _help_of_group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _driftrank(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"driftrank {driftrank.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _stoppable(command: Callable[..., None]) -> Callable[..., None]:
    """Ctrl-C in a command reaches ``run`` with what it has to say."""

    @functools.wraps(command)
    def stoppable(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt as stop:
            kept = f"; {stop}; the same command with --resume goes on" if str(stop) else ""
            raise Stopped(f"stopped{kept}") from None

    return stoppable


def _explained(error: Exception) -> tuple[int, str]:
    """Exit code and one line; 0 where it is a bug of ours, of which the traceback tells more."""
    if hasattr(error, "format_message"):  # of the library that reads the options
        return WRONG_INPUT, _line(error.format_message())
    if isinstance(error, ValueError):
        return WRONG_INPUT, _line(str(error))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return FAILED, _line(f"{where}{error.strerror or error}")
    if isinstance(error, MemoryError):
        return FAILED, _line(f"not enough memory {error}")
    if isinstance(error, ImportError):
        return FAILED, _line(str(error))
    return 0, ""


def _line(message: str) -> str:
    return " ".join(message.split())


def _say(message: str) -> None:
    print(f"driftrank: {message}", file=sys.stderr)


def _warn(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Warnings for users are one line; others say where they come from."""
    if category.__module__.startswith("driftrank."):
        _say(f"warning: {message}")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))
