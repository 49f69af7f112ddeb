from __future__ import annotations

from tests.reference.glrt_cascade_klucb import GLRTCascadeKLUCB as _GLRTCascadeKLUCB
from tests.reference.placement import _DCM, place


class GLRTDCMKLUCB(_DCM, _GLRTCascadeKLUCB):
    def rank(self, t, key):
        shown = place(self.best(t, key), self.stop_after_click)
        forced = self.forced(t, key)
        if forced is not None:
            U = self.index(t, key)
            leaves = self.K - 1
            for i, a in enumerate(shown):  # the worst, or the last of these
                if U[a] < U[shown[leaves]]:
                    leaves = i
            shown.pop(shown.index(forced) if forced in shown else leaves)
            shown.insert(0, forced)
        return shown
