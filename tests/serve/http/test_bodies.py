from __future__ import annotations

import pytest

from driftrank import wire
from driftrank.serve.http.bodies import decoded
from driftrank.serve.problems import Refused


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff", 400),
        (b'{"query": "\xff", "items": []}', 400),
        (b"{}", 422),
        (b'{"query": 1, "items": []}', 422),
    ],
)
def test_bodies_that_cannot_be_decoded(body: bytes, status: int) -> None:
    with pytest.raises(Refused) as caught:
        decoded(wire.RANK, body)
    assert caught.value.status == status
    assert caught.value.detail
