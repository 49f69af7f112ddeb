"""Small and read-only disks, for the length of a test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk mounted at ``folder``; needs the right to mount."""
    folder.mkdir()
    if not _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)):
        pytest.skip("needs the right to mount a disk")
    try:
        yield folder
    finally:
        _run("umount", "--lazy", str(folder))


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Make a file, or a folder with its contents, read-only, even for root."""
    if _run("mount", "--bind", str(place), str(place)):
        try:
            if not _run("mount", "-o", "remount,bind,ro", str(place)):
                pytest.skip("needs the right to mount as read-only")
            yield
        finally:
            _run("umount", "--lazy", str(place))
        return
    paths = [place, *(place.iterdir() if place.is_dir() else ())]
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        if any(os.access(path, os.W_OK) for path in paths):
            pytest.skip("permissions do not hold for this user, who may not mount either")
        yield
    finally:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)
