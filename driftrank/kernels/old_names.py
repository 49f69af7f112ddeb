"""Names that numba-cuda 0.30 asks NumPy for and that NumPy 2.5 no longer has. Import this before ``numba.cuda``."""

from __future__ import annotations

import numpy as np

if not hasattr(np, "row_stack"):
    setattr(np, "row_stack", np.vstack)  # noqa: B010 - the name is unknown to those who read types
