"""A saved learner or shared model: a JSON header and two arrays of numbers, as bytes or as a file."""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.layout import Layout
from driftrank.policies.base import EarlierState, Policy

#: version of the header; the bytes have their own in the magic number
FORMAT = 2
_MAGIC = b"drl\x01"
_LENGTHS = struct.Struct("<II")  # bytes of the header and of the floats


class Saved(NamedTuple):
    """The parts of a saved state."""

    header: dict[str, Any]
    floats: NDArray[np.float64]
    ints: NDArray[np.int32]


def check_format(header: Mapping[str, Any]) -> None:
    """Refuse a header of another format."""
    if header["format"] != FORMAT:
        kind = EarlierState if header["format"] < FORMAT else ValueError
        raise kind(f"written in format {header['format']}, this version reads {FORMAT}")


def policy_of(spec: str, version: int) -> Policy:
    """The policy of a saved state, if it still has the version that the state was written with."""
    policy = _parsed(spec)
    policy.check_version(version)
    return policy


@lru_cache(maxsize=256)
def _parsed(spec: str) -> Policy:
    """The policy of a spec, cached: parsing takes longer than the rest of reading a learner."""
    from driftrank.policies.registry import parse_policy

    return parse_policy(spec)


def forget_policies() -> None:
    """Parse specs again: a policy under development may be another class by now."""
    _parsed.cache_clear()


def check_rows(saved: Saved, layout: Layout) -> None:
    """Refuse rows that do not fit the layout."""
    floats, ints = layout.sizes
    rows: tuple[tuple[NDArray[Any], int, type], ...] = (saved.floats, floats, np.float64), (saved.ints, ints, np.int32)
    for row, size, kind in rows:
        if row.shape != (size,) or row.dtype != kind:
            raise ValueError("the size or type of the state does not fit the policy")


def pack(saved: Saved) -> bytes:
    """Compress quickly: states are mostly zeros and small numbers."""
    header = json.dumps(saved.header, separators=(",", ":")).encode()
    compressor = zlib.compressobj(1)
    parts = (
        _LENGTHS.pack(len(header), 8 * len(saved.floats)),
        header,
        saved.floats.astype("<f8", copy=False).tobytes(),
        saved.ints.astype("<i4", copy=False).tobytes(),
    )
    return b"".join((_MAGIC, *map(compressor.compress, parts), compressor.flush()))


def unpack(packed: bytes) -> Saved:
    """Unpack; anything that was not packed by ``pack`` raises ValueError."""
    try:
        if packed[: len(_MAGIC)] != _MAGIC:
            raise ValueError("bad magic number")
        whole = zlib.decompress(packed[len(_MAGIC) :])
        header, floats = _LENGTHS.unpack_from(whole)
        begin = _LENGTHS.size + header
        end = begin + floats
        if end > len(whole):
            raise ValueError("truncated")
        return Saved(
            json.loads(whole[_LENGTHS.size : begin]),
            np.frombuffer(whole[begin:end], "<f8").astype(np.float64),
            np.frombuffer(whole[end:], "<i4").astype(np.int32),
        )
    except (RecursionError, TypeError, ValueError, struct.error, zlib.error) as error:
        raise ValueError(str(error)) from error


def write(path: str | os.PathLike[str], saved: Saved) -> None:
    """Write a NumPy .npz file atomically."""
    target = Path(path)
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".npz", delete=False) as file:
        try:
            np.savez(file, header=np.array(json.dumps(saved.header)), floats=saved.floats, ints=saved.ints)
            file.close()
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise


def read(path: str | os.PathLike[str]) -> Saved:
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("no .npz file, or a part of one")  # NumPy would advise to load it as a pickle
            file.seek(0)
            with np.load(file, allow_pickle=False) as parts:
                return Saved(json.loads(str(parts["header"])), parts["floats"], parts["ints"])
    except Exception as error:  # a damaged archive raises almost anything
        raise ValueError(str(error)) from error
