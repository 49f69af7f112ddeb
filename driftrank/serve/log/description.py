"""The description of the items of a list in its record: scores, features and context, for the shared model.

Hashes of names and categories, and numbers, of the items shown only: ten items with five categories take 300 bytes.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, msgpack

from driftrank.kernels.structures import Described


class _Packed(Struct, array_like=True, omit_defaults=True):
    """Little-endian numbers. The order of the fields is a promise."""

    score: bytes = b""  # doubles
    dense: bytes = b""  # doubles
    lengths: bytes = b""  # named features of each item, then of the request; bytes
    tokens: bytes = b""  # of named features, 32 bits
    numbers: bytes = b""  # the values of those with odd tokens, doubles


def pack_description(x: Described) -> bytes | None:
    """The parts of a description that the rest of a record does not tell; None if there are none."""
    if not (len(x.score) or len(x.dense) or len(x.begin)):
        return None
    lengths, tokens = np.diff(x.begin).astype("<u1"), x.named.astype("<u4")
    packed = _Packed(
        x.score.astype("<f8").tobytes(), x.dense.astype("<f8").tobytes(), lengths.tobytes(), tokens.tobytes(),
        x.value[tokens % 2 == 1].astype("<f8").tobytes(),
    )  # fmt: skip
    return msgpack.encode(packed)


def unpack_description(packed: bytes, x: Described) -> Described:
    """The description ``x`` with what was packed."""
    saved = msgpack.decode(packed, type=_Packed)
    lengths, tokens = np.frombuffer(saved.lengths, "<u1"), np.frombuffer(saved.tokens, "<u4")
    values = np.ones(len(tokens))
    values[tokens % 2 == 1] = np.frombuffer(saved.numbers, "<f8")
    begin = np.append(0, np.cumsum(lengths, dtype=np.int64)) if len(lengths) else x.begin
    return x._replace(
        score=np.frombuffer(saved.score, "<f8").astype(float), dense=np.frombuffer(saved.dense, "<f8").astype(float),
        begin=begin, named=tokens.astype(np.uint64), value=values, scaled=np.empty(len(tokens)),
    )  # fmt: skip
