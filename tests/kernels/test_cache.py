from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from driftrank.kernels import cache as kernel_cache
from driftrank.kernels.cache import DEFAULT_SIZE, cache_directory, cache_file, cache_size, is_cached, prune, write_entry

DAY = 86_400


def test_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIFTRANK_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_directory() == tmp_path / "mine"
    monkeypatch.setenv("DRIFTRANK_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "driftrank"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert cache_directory() == tmp_path / "home" / ".cache" / "driftrank"

    def homeless():
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_directory().name == "driftrank-cache"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", DEFAULT_SIZE),
        ("0", 0),
        ("4096", 4096),
        ("10K", 10_240),
        ("500M", 500 << 20),
        ("2g", 2 << 30),
        ("1GiB", 1 << 30),
    ],
)
def test_bound(monkeypatch, text, size):
    monkeypatch.setenv("DRIFTRANK_CACHE_SIZE", text)
    assert cache_size() == size


@pytest.mark.parametrize("text", ["large", "-1", "1.5G", "1 X"])
def test_wrong_bound(monkeypatch, text):
    monkeypatch.setenv("DRIFTRANK_CACHE_SIZE", text)
    with pytest.raises(ValueError, match=r"DRIFTRANK_CACHE_SIZE=.*must be a number of bytes"):
        cache_size()


def make_entry(directory: Path, name: str, days_unused: float, size: int = 1000) -> list[Path]:
    """A kernel as numba stores it, written 100 days ago."""
    (directory / "__pycache__").mkdir(parents=True, exist_ok=True)
    source = directory / f"{name}.py"
    data = directory / "__pycache__" / f"{name}.step-3.py311.1.nbc"
    index = directory / "__pycache__" / f"{name}.step-3.py311.nbi"
    source.write_bytes(b"")
    data.write_bytes(b"x" * (size - 10))
    index.write_bytes(b"x" * 10)
    written = time.time() - 100 * DAY
    for path in (data, index):
        os.utime(path, (written, written))
    os.utime(source, (time.time() - days_unused * DAY, written))
    return [source, data, index]


def names(directory: Path) -> set[str]:
    return {path.name.partition(".")[0] for path in directory.rglob("*") if path.is_file()}


def test_the_least_recently_used_are_removed_whole(tmp_path):
    for n, days in enumerate([5, 1, 9, 3]):
        make_entry(tmp_path, f"step_{n}", days)
    gpu = tmp_path / "gpu_step_4.cubin"
    gpu.write_bytes(b"x" * 1000)
    os.utime(gpu, (time.time() - 7 * DAY,) * 2)
    assert prune(tmp_path, 5000) == 0
    assert names(tmp_path) == {"step_0", "step_1", "step_2", "step_3", "gpu_step_4"}
    assert prune(tmp_path, 3400) == 2000  # down to 90% of the bound
    assert names(tmp_path) == {"step_0", "step_1", "step_3"}
    assert len(list(tmp_path.rglob("step_0.*"))) == 3
    assert prune(tmp_path, 0) == 3000
    assert not names(tmp_path)


def test_left_over_files_count_and_go(tmp_path):
    make_entry(tmp_path, "step_0", days_unused=1)
    left = tmp_path / "tmpabcd"  # of a process that was killed while writing
    left.write_bytes(b"x" * 1000)
    os.utime(left, (time.time() - 50 * DAY,) * 2)
    assert prune(tmp_path, 1500) == 1000
    assert names(tmp_path) == {"step_0"}


def test_a_use_counts_and_leaves_the_key_alone(tmp_path):
    used, *_ = make_entry(tmp_path, "step_0", days_unused=9)
    make_entry(tmp_path, "step_1", days_unused=3)
    before = used.stat().st_mtime_ns
    assert is_cached(used)
    assert used.stat().st_mtime_ns == before  # numba compares it
    assert not is_cached(tmp_path / "step_2.py")
    prune(tmp_path, 1500)
    assert names(tmp_path) == {"step_0"}


def test_the_index_goes_before_its_data(tmp_path, monkeypatch):
    make_entry(tmp_path, "step_0", days_unused=9)
    removed = []
    monkeypatch.setattr(Path, "unlink", lambda path: removed.append(path.suffix))
    prune(tmp_path, 0)
    assert removed[0] == ".nbi"
    assert sorted(removed) == [".nbc", ".nbi", ".py"]


def test_files_that_others_remove_or_hold(tmp_path, monkeypatch):
    make_entry(tmp_path, "step_0", days_unused=9)
    make_entry(tmp_path, "step_1", days_unused=8)

    def refused(path):
        raise PermissionError("in use") if path.suffix == ".nbc" else FileNotFoundError("gone")

    monkeypatch.setattr(Path, "unlink", refused)
    assert prune(tmp_path, 0) == 2000
    assert prune(tmp_path / "missing", 0) == 0


def test_the_bound_is_checked_before_a_new_entry(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache, "kernel_directory", lambda: tmp_path)
    monkeypatch.setattr(kernel_cache, "_new_entries", 0)
    monkeypatch.setenv("DRIFTRANK_CACHE_SIZE", "1500")
    make_entry(tmp_path, "step_0", days_unused=9)
    make_entry(tmp_path, "step_1", days_unused=3)
    write_entry(cache_file("step", "2", ".py"), b"")
    assert names(tmp_path) == {"step_1", "step_2"}
    make_entry(tmp_path, "step_3", days_unused=9)
    write_entry(cache_file("step", "4", ".py"), b"")
    assert names(tmp_path) == {"step_1", "step_2", "step_3", "step_4"}  # not at every one: it reads the directory
    for n in range(5, 5 + kernel_cache._CHECK_EVERY):
        write_entry(cache_file("step", str(n), ".py"), b"")
    assert "step_3" not in names(tmp_path)
