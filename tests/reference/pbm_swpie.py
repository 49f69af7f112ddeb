from __future__ import annotations

from tests.reference.pbm import _PIE, _Latest


class PBMSWPIE(_PIE, _Latest):
    pass
