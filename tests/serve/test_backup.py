"""The backup that operate.md describes, night after night."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from driftrank.serve.log.store.sqlite import SQLiteStore
from tests.docs.session import blocks
from tests.serve.harness import Harness

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "operate.md"


def command() -> str:
    """The documented command, for the store of a harness."""
    (found,) = [block.text for block in blocks(PAGE.read_text("utf-8")) if "VACUUM INTO" in block.text]
    assert found.count("shop.db") == 1
    return re.sub(r"^python ", f"{sys.executable} ", found.replace("shop.db", "service.db"), flags=re.MULTILINE)


def back_up(folder: Path) -> int:
    return subprocess.run(["bash", "-c", command()], cwd=folder, check=False, capture_output=True).returncode


def test_it_works_the_second_night(tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    with Harness(tmp_path) as harness:
        for night in (1, 2, 3):
            harness.rank("q", ["a", "b", "c"], f"e{night}")
            harness.feedback(f"e{night}", [1])
            assert back_up(tmp_path) == 0
            assert backup.stat().st_mode & 0o777 == 0o600
            (tmp_path / str(night)).mkdir()
            (tmp_path / str(night) / "service.db").write_bytes(backup.read_bytes())
            with Harness.at(tmp_path / str(night)) as restored:
                assert restored.info().steps == night
                assert restored.outcome(f"e{night}", [1]) == "duplicate"
        harness.rank("q", ["a", "b"], "later")  # the service goes on
    last = backup.read_bytes()
    (tmp_path / "service.db").rename(tmp_path / "elsewhere.db")
    assert back_up(tmp_path) != 0
    assert backup.read_bytes() == last, "a copy that fails does not cost the last one"
    assert not (tmp_path / "service.db").exists()
    with SQLiteStore(backup) as store:
        assert len(store.read(0)) > 6
