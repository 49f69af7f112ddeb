"""Names of NumPy that numba-cuda 0.30 uses and NumPy 2.5 has removed. Import this before ``numba.cuda``."""

from __future__ import annotations

import numpy as np

if not hasattr(np, "row_stack"):
    setattr(np, "row_stack", np.vstack)  # noqa: B010 - type checkers do not know the name
