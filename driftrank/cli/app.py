"""The command ``driftrank``: finds its subcommands, and reports errors in one line."""

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
from driftrank.extras import MissingExtra

#: exit codes
WRONG_INPUT, FAILED, STOPPED = 2, 1, 130

_HELP = """Learn from clicks which items to show at the top of a list, and keep up when users change their minds.

\b
driftrank reproduce        the paper's figures and tables, in a few minutes
driftrank simulate         compare policies on simulated users
driftrank fit LOG          learn your own users from a click log
driftrank evaluate LOG     what other lists or policies would have earned
driftrank advise LOG       which policy to use
driftrank serve            rankings that learn from clicks, over HTTP
driftrank demo             the same with simulated users, on a live page
driftrank COMMAND --help   options and examples
"""


class Stopped(Exception):
    """The user stopped a command; the message names the results that are kept."""


def start(arguments: Sequence[str]) -> int:
    """Run a command line in a process of its own."""
    # A small run is mostly imports. This saves 0.2 s of garbage collection, 0.5 s of another one at the end, and 0.3 s
    # if scipy is installed: numba would import it for kernels that call BLAS, and ours do not.
    gc.set_threshold(200_000)
    sys.modules.setdefault("scipy", None)  # type: ignore[arg-type]
    try:
        return run(arguments)
    finally:
        if "duckdb" not in sys.modules:  # DuckDB reports objects that were not collected
            gc.freeze()


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. Wrong input is one line on standard error, never a traceback."""
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
            exec("")  # otherwise an interrupt during an exec() ends the process by a signal
            _report(str(stop) or "stopped")
            return STOPPED
        except BrokenPipeError:  # the reader of standard output has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:
            if debug:
                raise
            if stopping.asked:  # the interrupt led to this error
                _report("stopped")
                return STOPPED
            code, message = _describe(error)
            if not code:
                raise
            _report(f"error: {message}")
            return code


#: a command, or a group of them
Commands = dict[str, "Callable[..., None] | Commands"]


def make_app() -> typer.Typer:
    """Make the command with all its subcommands."""
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
            inner = f"{package}.{name.replace('-', '_')}"
            group = _typer(inspect.cleandoc(sys.modules[inner].__doc__ or ""))
            group.callback(invoke_without_command=True)(_help_of_group)
            _fill(group, command, inner)
            app.add_typer(group, name=name)
        else:
            app.command(name)(_wrapped(command, f"{package}.{name}".replace(".cli.", " ").replace(".", " ")))


def commands(package: str = __package__) -> Commands:
    """The subcommands by name: in every module, the function of the same name; a package is a group of commands."""
    found: Commands = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name != "app" and not module.name.startswith("_"):
            full = f"{package}.{module.name}"
            command = commands(full) if module.ispkg else getattr(importlib.import_module(full), module.name)
            found[module.name.replace("_", "-")] = command
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


def _wrapped(command: Callable[..., None], name: str) -> Callable[..., None]:
    """Report a missing package under the name of the command; pass the message of Ctrl-C to ``run``."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except MissingExtra as error:
            print(f"{name}: {error}", file=sys.stderr)
            raise typer.Exit(WRONG_INPUT) from None
        except KeyboardInterrupt as stop:
            kept = f"; {stop}; the same command with --resume continues" if str(stop) else ""
            raise Stopped(f"stopped{kept}") from None

    return wrapped


def _describe(error: Exception) -> tuple[int, str]:
    """The exit code and a message of one line; 0 for a bug, whose traceback is shown."""
    if hasattr(error, "format_message"):  # raised by the parser of options
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


def _report(message: str) -> None:
    print(f"driftrank: {message}", file=sys.stderr)


def _warn(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Report warnings of driftrank in one line, others with their place."""
    if category.__module__.startswith("driftrank."):
        _report(f"warning: {message}")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))
