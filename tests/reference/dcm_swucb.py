from __future__ import annotations

from tests.reference.cascade_swucb import CascadeSWUCB as _CascadeSWUCB
from tests.reference.placement import _DCM


class DCMSWUCB(_DCM, _CascadeSWUCB):
    pass
