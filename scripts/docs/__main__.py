"""``make docs``. Kernels run as plain Python here: only notebooks simulate, in processes of their own.

``--versioned`` offers the other versions that are published beside this one.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # before anything imports numba

from scripts.docs.build import build

if __name__ == "__main__":
    unknown = {*sys.argv[1:]} - {"--versioned"}
    sys.exit(f"make docs: unknown {' '.join(sorted(unknown))}" if unknown else build(versioned=len(sys.argv) > 1))
