from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MUTANTS = Path(__file__).parents[1] / "benchmarks" / "mutants.py"


@pytest.mark.skipif(not MUTANTS.exists(), reason="needs the repository's benchmarks")
def test_every_mutant_fits_the_code_and_has_tests() -> None:
    listed = subprocess.run([sys.executable, MUTANTS, "--list"], capture_output=True, text=True, check=False)
    assert listed.returncode == 0, listed.stdout
