from __future__ import annotations

from tests.reference.pbm import _PIE, _Fading


class PBMDPIE(_PIE, _Fading):
    pass
