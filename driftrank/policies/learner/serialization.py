"""A saved learner: a JSON header and two arrays of numbers, as bytes or as a file."""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: version of the header; the bytes have their own in the magic number
FORMAT = 2
_MAGIC = b"drl\x01"
_LENGTHS = struct.Struct("<II")  # bytes of the header and of the floats


class Saved(NamedTuple):
    """The parts of a saved learner."""

    header: dict[str, Any]
    floats: NDArray[np.float64]
    ints: NDArray[np.int32]


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
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as parts:
            return Saved(json.loads(str(parts["header"])), parts["floats"], parts["ints"])
    except Exception as error:  # a damaged archive raises almost anything
        raise ValueError(str(error)) from error
