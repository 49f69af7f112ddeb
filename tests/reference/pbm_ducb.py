from __future__ import annotations

from tests.reference.pbm import _UCB, _Fading


class PBMDUCB(_UCB, _Fading):
    pass
