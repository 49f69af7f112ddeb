"""The command ``driftrank``: finds its subcommands, and says in one line what went wrong."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import pkgutil
import sys
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
        gc.freeze()


def run(arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit code. A bad value is one line on standard error, never a traceback."""
    debug = "--debug" in arguments or bool(os.environ.get("DRIFTRANK_DEBUG"))
    with Stopping() as stopping:
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


def make_app() -> typer.Typer:
    """The command with all its subcommands."""
    names = {"help_option_names": ["-h", "--help"]}
    app = typer.Typer(help=_HELP, pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=names)
    app.callback(invoke_without_command=True)(_driftrank)
    for name, command in commands().items():
        app.command(name)(_stoppable(command))
    return app


def commands() -> dict[str, Callable[..., None]]:
    """The subcommands, by name: functions that are called like the module they stand in."""
    found = {}
    for module in pkgutil.iter_modules([os.path.dirname(__file__)]):
        if module.name != "app" and not module.name.startswith("_"):
            function = getattr(importlib.import_module(f"driftrank.cli.{module.name}"), module.name)
            found[module.name.replace("_", "-")] = function
    return dict(sorted(found.items()))


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
