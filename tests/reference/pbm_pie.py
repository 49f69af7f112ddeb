from __future__ import annotations

from tests.reference.pbm import _PIE, _All


class PBMPIE(_PIE, _All):
    pass
