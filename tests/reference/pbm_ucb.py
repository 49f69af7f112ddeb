from __future__ import annotations

from tests.reference.pbm import _UCB, _All


class PBMUCB(_UCB, _All):
    pass
