"""Classes from elsewhere: the modules of installed packages, and files of your own.

A package names its modules in the entry point group ``driftrank.plugins``; their policies, environments and click
models are then known everywhere, on the command line and in the service too::

    [project.entry-points."driftrank.plugins"]
    mine = "my_package.my_policies"
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

GROUP = "driftrank.plugins"

#: the files imported so far
_files: dict[Path, ModuleType] = {}


class PluginWarning(UserWarning):
    """An installed package names a module that cannot be imported."""


@functools.cache
def import_plugins() -> None:
    """Import the modules that installed packages name, once per process."""
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            message = f"plugin {entry.name}={entry.value}: cannot be imported ({error!r})"
            warnings.warn(message, PluginWarning, stacklevel=2)


def import_file(path: str | os.PathLike[str]) -> ModuleType:
    """Import a Python file as the module of its name; it may import its neighbours. A second call does nothing."""
    file = Path(path).absolute()
    if file in _files:
        return _files[file]
    if file.suffix != ".py" or not file.is_file():
        raise ValueError(f"import={os.fspath(path)!r}: must be the path of a Python file, FILE.py")
    name = file.stem
    if not name.isidentifier():
        raise ValueError(f"import={os.fspath(path)!r}: the name of the file must be that of a module")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise ValueError(f"{file}: cannot be imported ({error!r})") from error
    if Path(module.__file__ or "").absolute() != file:
        raise ValueError(f"import={os.fspath(path)!r}: there is another module {name!r}; rename the file")
    _files[file] = module
    return module


def imported_files() -> list[Path]:
    """The files imported so far."""
    return list(_files)


def imported_modules() -> list[ModuleType]:
    """The modules of imported files. Other processes do not find them: pickle their classes by value."""
    return list(_files.values())
