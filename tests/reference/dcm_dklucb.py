from __future__ import annotations

from tests.reference.cascade_dklucb import CascadeDKLUCB as _CascadeDKLUCB
from tests.reference.placement import _DCM


class DCMDKLUCB(_DCM, _CascadeDKLUCB):
    pass
