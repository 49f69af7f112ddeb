from __future__ import annotations

from tests.reference.cascade_swklucb import CascadeSWKLUCB as _CascadeSWKLUCB
from tests.reference.placement import _DCM


class DCMSWKLUCB(_DCM, _CascadeSWKLUCB):
    pass
