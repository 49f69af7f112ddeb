from __future__ import annotations

from tests.reference.cascade_cd import CascadeCD as _CascadeCD


class GLRTCascadeKLUCB(_CascadeCD):
    def __init__(self, L, K, horizon=None, **options):
        super().__init__(L, K, horizon, base="klucb", **options)
