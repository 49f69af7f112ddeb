from __future__ import annotations

from tests.reference.cascade_ucb1 import CascadeUCB1 as _CascadeUCB1
from tests.reference.placement import _DCM


class DCMUCB(_DCM, _CascadeUCB1):
    pass
