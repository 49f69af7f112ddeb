from __future__ import annotations

from tests.reference.cascade_klucb import CascadeKLUCB as _CascadeKLUCB
from tests.reference.placement import _DCM


class DCMKLUCB(_DCM, _CascadeKLUCB):
    pass
