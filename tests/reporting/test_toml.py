from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrank.files import read_toml
from driftrank.reporting.toml import write_toml

text = st.text(st.characters(exclude_categories=["Cs"]))
values = st.one_of(text, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False), st.lists(text))


@given(st.dictionaries(st.text("abcxyz_", min_size=1), values))
def test_what_is_written_is_read(settings: dict[str, Any]) -> None:
    found = tomllib.loads(write_toml(settings, "of a simulation\nin this folder"))
    assert found == settings
    assert list(found) == list(settings)


def test_what_is_none_is_left_out() -> None:
    assert write_toml({"a": None, "b": 1}) == "b = 1\n"


def test_what_toml_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="a="):
        write_toml({"a": {1, 2}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = ", "is not valid TOML"),
        (b"a = 1\na = 2", "is not valid TOML"),
        (b"\xff\xfe", "is not a text file"),
        (None, "cannot be read"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "run.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        read_toml(path)
    assert str(path) in str(raised.value)
