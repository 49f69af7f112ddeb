"""``make docs``. Kernels run as plain Python here: nothing is simulated, and nothing need be compiled."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # before anything imports numba

from scripts.docs.build import build

sys.exit(build())
