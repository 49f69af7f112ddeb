from __future__ import annotations

from tests.reference.cascade_ducb import CascadeDUCB as _CascadeDUCB
from tests.reference.placement import _DCM


class DCMDUCB(_DCM, _CascadeDUCB):
    pass
