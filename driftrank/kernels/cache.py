"""The directory of compiled kernels: its place, its files, its bound.

An *entry* is all files of one fingerprint: an empty source file with numba's index and data, or one file for a GPU.
A process that compiles an entry holds it, so that others wait for it and need not compile it too. Nothing else is
locked. A file may vanish at any time: numba then compiles again.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: bytes that are kept if ``$DRIFTRANK_CACHE_SIZE`` does not set another bound
DEFAULT_SIZE = 1 << 30
#: when the bound is exceeded, the least recently used entries are removed down to this part of it
_REMAINS = 0.9
#: the bound is checked before the first new entry of a process, and then before every so many
_CHECK_EVERY = 16
#: seconds: a use is noted only if the last one is older, so that most starts write nothing
_RESOLUTION = 3600.0

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

_new_entries = 0


def cache_directory() -> Path:
    """The directory of the cache: ``$DRIFTRANK_CACHE_DIR``, or ``driftrank`` in the user's cache directory."""
    chosen = os.environ.get("DRIFTRANK_CACHE_DIR")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(home) if home else Path.home() / ".cache") / "driftrank"
    except RuntimeError:  # no home directory
        return Path(tempfile.gettempdir()) / "driftrank-cache"


def cache_size() -> int:
    """The bound in bytes: ``$DRIFTRANK_CACHE_SIZE``, such as ``500M`` or ``2G``, or :data:`DEFAULT_SIZE`."""
    text = os.environ.get("DRIFTRANK_CACHE_SIZE", "")
    if not text:
        return DEFAULT_SIZE
    found = re.fullmatch(r"(\d+)([KMGT]?)(?:I?B)?", text.strip().upper())
    if found is None:
        raise ValueError(f"DRIFTRANK_CACHE_SIZE={text!r}: must be a number of bytes, such as 500M or 2G")
    return int(found[1]) * _UNITS[found[2]]


@functools.cache
def kernel_directory() -> Path:
    """The directory of the kernels, or a temporary one if that cannot be written."""
    directory = cache_directory() / "kernels"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory):
            pass
    except OSError:
        directory = Path(tempfile.mkdtemp(prefix="driftrank-kernels-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def cache_file(name: str, digest: str, suffix: str) -> Path:
    """The main file of an entry, which need not exist."""
    return kernel_directory() / f"{name}_{digest}{suffix}"


def is_cached(path: Path) -> bool:
    """True if the main file of an entry exists; notes the use."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    if time.time() - max(status.st_atime, status.st_mtime) > _RESOLUTION:
        with contextlib.suppress(OSError):  # another user's file
            # the access time is the time of the last use: the modification time may be part of numba's key
            os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))
    return True


def is_stored(name: str, digest: str) -> bool:
    """True if numba's index of an entry exists: some process has compiled it."""
    return any((kernel_directory() / "__pycache__").glob(f"{name}_{digest}.*.nbi"))


def write_entry(path: Path, content: bytes) -> None:
    """Write the main file of a new entry in one step, after making space for it."""
    global _new_entries
    if _new_entries % _CHECK_EVERY == 0:
        prune(path.parent, cache_size())
    _new_entries += 1
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold an entry while it is compiled: another process that needs it waits, and then finds it.

    Where files cannot be locked (Windows, some network file systems) each process compiles for itself.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            handle = os.open(path, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
            # closing is not enough: a child of fork() has the file open too
            stack.callback(fcntl.flock, handle, fcntl.LOCK_UN)
        yield


@dataclass
class _Entry:
    used: float = 0.0
    size: int = 0
    files: list[Path] = field(default_factory=list)


def prune(directory: Path, size: int) -> int:
    """Remove the least recently used entries if all together exceed ``size`` bytes; returns the bytes removed.

    Temporary files of killed processes count as entries.
    """
    entries: dict[str, _Entry] = {}
    for folder in (directory, directory / "__pycache__"):
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as files:
            for file in files:
                with contextlib.suppress(OSError):  # removed meanwhile
                    status = file.stat(follow_symlinks=False)
                    if file.is_file(follow_symlinks=False):
                        entry = entries.setdefault(file.name.partition(".")[0], _Entry())
                        entry.size += status.st_size
                        entry.files.append(Path(file.path))
                        used = status.st_mtime if folder != directory else max(status.st_atime, status.st_mtime)
                        entry.used = max(entry.used, used)
    total = sum(entry.size for entry in entries.values())
    if total <= size:
        return 0
    removed = 0
    for entry in sorted(entries.values(), key=lambda entry: entry.used):
        if total - removed <= _REMAINS * size:
            break
        # numba's index first, so that it never refers to data that is gone
        for path in sorted(entry.files, key=lambda path: path.suffix != ".nbi"):
            with contextlib.suppress(OSError):
                path.unlink()
        removed += entry.size
    return removed
