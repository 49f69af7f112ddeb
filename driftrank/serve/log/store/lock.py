"""One service per file: a lock that ends with its process, even if that is killed."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from driftrank.serve.log.store.base import StoreError, StoreFull, StoreInUse, StoreReadOnly

_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}


class FileLock:
    """Holds ``<path>.lock`` until :meth:`release`. The file is not removed: that would be a race."""

    def __init__(self, path: Path) -> None:
        try:
            self._handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _cannot(path, error) from None
        try:
            _lock(self._handle)
        except OSError:
            holder = os.pread(self._handle, 20, 0).decode("ascii", "replace").strip() if hasattr(os, "pread") else ""
            os.close(self._handle)
            raise StoreInUse(f"{path}: is in use by another service (process {holder or 'unknown'})") from None
        try:
            os.ftruncate(self._handle, 0)
            os.write(self._handle, f"{os.getpid()}\n".encode())
        except OSError as error:
            self.release()
            raise _cannot(path, error) from None

    def release(self) -> None:
        os.close(self._handle)


def _lock(handle: int) -> None:
    """Lock a file, or raise OSError at once."""
    if sys.platform == "win32":  # pragma: no cover
        import msvcrt

        os.lseek(handle, 1 << 20, os.SEEK_SET)  # locked bytes cannot be read there, but the process id must be
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _cannot(path: Path, error: OSError) -> StoreError:
    if error.errno in _FULL:
        return StoreFull(f"{path}: the disk is full")
    if error.errno in _READ_ONLY:
        return StoreReadOnly(f"{path}: its folder cannot be written to ({error.strerror})")
    if not path.parent.exists():
        return StoreError(f"{path}: no such folder; create it first")
    return StoreError(f"{path}: cannot be opened ({error.strerror})")
