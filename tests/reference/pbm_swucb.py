from __future__ import annotations

from tests.reference.pbm import _UCB, _Latest


class PBMSWUCB(_UCB, _Latest):
    pass
