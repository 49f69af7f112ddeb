"""The description of the items of a list in its record: scores, features and context, for the shared model.

Hashes of names and categories, and numbers, of the items shown only: ten items with five categories take 300 bytes.
"""

from __future__ import annotations

from typing import NamedTuple

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


class PlainDescription(NamedTuple):
    """A packed description for people."""

    score: list[float]  #: of each item; empty: there are none
    vectors: list[list[float]]  #: of each item
    named: list[int]  #: the number of named features of each item
    context: int  #: and of the request


def plain_description(packed: bytes, n: int) -> PlainDescription:
    """The packed description of ``n`` items."""
    saved = msgpack.decode(packed, type=_Packed)
    dense, lengths = np.frombuffer(saved.dense, "<f8"), np.frombuffer(saved.lengths, "<u1").tolist()
    of_items, context = (lengths[:n], sum(lengths[n:])) if lengths else ([0] * n, 0)
    return PlainDescription(
        np.frombuffer(saved.score, "<f8").tolist(), dense.reshape(n, -1).tolist(), of_items, context
    )


def unpack_description(packed: bytes, x: Described) -> Described:
    """The description ``x`` with what was packed. Raises ``ValueError`` if it does not fit."""
    n, saved = len(x.item), msgpack.decode(packed, type=_Packed)
    lengths, tokens = np.frombuffer(saved.lengths, "<u1"), np.frombuffer(saved.tokens, "<u4")
    score, dense, numbers = (
        np.frombuffer(part, "<f8").astype(float) for part in (saved.score, saved.dense, saved.numbers)
    )
    values, odd = np.ones(len(tokens)), tokens % 2 == 1
    if len(score) not in (0, n) or len(dense) % n or len(lengths) not in (0, n + 1):
        raise ValueError(f"not the description of {n} items")
    if lengths.sum() != len(tokens) or odd.sum() != len(numbers):
        raise ValueError("a description whose parts do not fit each other")
    if not all(np.isfinite(part).all() for part in (score, dense, numbers)):
        raise ValueError("a description with numbers that are not finite")
    values[odd] = numbers
    begin = np.append(0, np.cumsum(lengths, dtype=np.int64)) if len(lengths) else x.begin
    scaled = np.empty(len(tokens))
    return x._replace(
        score=score, dense=dense, begin=begin, named=tokens.astype(np.uint64), value=values, scaled=scaled
    )
