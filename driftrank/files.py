"""Files: written completely or not at all; errors of reading in one line."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yield a temporary file to write to; it replaces ``path`` if no error occurs."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def written_text(path: Path, text: str) -> None:
    """Write a text file: all of it, or none."""
    with written(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def usable_folder(path: str | os.PathLike[str], name: str = "out") -> Path:
    """Create a folder unless it exists; raises ValueError, with the name of the option, if it cannot be written to."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"{name}={os.fspath(path)!r}: cannot write to this folder ({error.strerror})") from None
    return folder


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file; raises ValueError with the reason if it cannot be read."""
    name = os.fspath(path)
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{name}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{name}: is not a text file") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name}: is not valid TOML ({error})") from None
