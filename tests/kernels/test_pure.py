from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).with_name("evaluate.py")


def evaluated(path, **environment):
    subprocess.run(
        [sys.executable, str(SCRIPT), str(path)],
        cwd=SCRIPT.parents[2],
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parents[2]), **environment},
        check=True,
    )
    return np.load(path)


def test_compiled_kernels_are_the_python_functions_to_the_last_bit(tmp_path):
    """The same source, run by the interpreter: nothing is contracted, reordered or taken from the C library."""
    compiled = evaluated(tmp_path / "compiled.npy")
    interpreted = evaluated(tmp_path / "interpreted.npy", NUMBA_DISABLE_JIT="1")
    assert np.isfinite(compiled).all()
    assert len(np.unique(compiled[:, 8])) > 2000
    np.testing.assert_array_equal(compiled.view(np.uint64), interpreted.view(np.uint64))
