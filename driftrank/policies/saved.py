"""A learner's state outside of memory: a header of JSON and two rows of numbers, as bytes or as a file."""

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

#: of the header; the bytes have a number of their own
FORMAT = 2
_MAGIC = b"drl\x01"
_LENGTH = struct.Struct("<II")  # of the header, and of the floats


class Saved(NamedTuple):
    """What a learner is made of again."""

    header: dict[str, Any]
    floats: NDArray[np.float64]
    ints: NDArray[np.int32]


def pack(saved: Saved) -> bytes:
    """As few bytes as can be had quickly: states are mostly zeros and small numbers."""
    header = json.dumps(saved.header, separators=(",", ":")).encode()
    squeeze = zlib.compressobj(1)
    parts = (
        _LENGTH.pack(len(header), 8 * len(saved.floats)),
        header,
        saved.floats.astype("<f8", copy=False).tobytes(),
        saved.ints.astype("<i4", copy=False).tobytes(),
    )
    return b"".join((_MAGIC, *map(squeeze.compress, parts), squeeze.flush()))


def unpack(packed: bytes) -> Saved:
    """What was packed. Anything else raises ValueError."""
    try:
        if packed[: len(_MAGIC)] != _MAGIC:
            raise ValueError("it begins otherwise")
        whole = zlib.decompress(packed[len(_MAGIC) :])
        header, floats = _LENGTH.unpack_from(whole)
        begin = _LENGTH.size + header
        end = begin + floats
        if end > len(whole):
            raise ValueError("the end is missing")
        return Saved(
            json.loads(whole[_LENGTH.size : begin]),
            np.frombuffer(whole[begin:end], "<f8").astype(np.float64),
            np.frombuffer(whole[end:], "<i4").astype(np.int32),
        )
    except (RecursionError, TypeError, ValueError, struct.error, zlib.error) as error:
        raise ValueError(str(error)) from error


def write(path: str | os.PathLike[str], saved: Saved) -> None:
    """A file of NumPy's .npz, whole or not at all."""
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
    except Exception as error:  # a damaged archive raises about anything
        raise ValueError(str(error)) from error
