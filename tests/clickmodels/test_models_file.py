"""The models file: old files are read the same, and the text that is written does not change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftrank.clickmodels import CM, DBN, UBM, models_file
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.queries import load

#: written by `driftrank fit log.parquet --model CM,DBN,UBM --drift --items 3 --intervals` at commit 28fd5ba, for the
#: log of `generate(path, Abrupt(yandex_like(2), k=2, period=1000), 4000, length=3)`
OLD = Path(__file__).with_name("models_28fd5ba.json")


def test_an_old_file() -> None:
    queries = load(OLD)
    assert list(queries) == ["yandex-like-0-0", "yandex-like-0-1"]
    assert queries.items["yandex-like-0-1"] == (2002, 2007, 2004)
    assert queries["yandex-like-0-1"].tolist() == [0.0392156862745098, 0.042704626334519574, 0.0625]
    assert queries.changes["yandex-like-0-1"] == ((994, (0.0392156862745098, 0.9112149532710281, 0.0625)),)
    assert [after for after, _ in queries.changes["yandex-like-0-0"]] == [1000, 1998]
    assert queries.models == {}
    dbn = load(OLD, "DBN:objective=any")
    assert dbn.changes == {}
    assert dbn.models["yandex-like-0-0"] == DBN(
        objective="any",
        satisfaction=(0.9815059871043897, 0.8312750076539117, 0.8643162129088073),
        continuation=0.9574991352606816,
    )
    ubm = load(OLD, "UBM").models["yandex-like-0-1"]
    assert isinstance(ubm, UBM)
    assert ubm.examination == (
        (0.5, 0.5, 1.0),
        (0.005229422384708345, 0.5, 0.9633319691961325),
        (0.004978523609016384, 0.006166349968006521, 0.9134637218963534),
    )


@pytest.mark.parametrize("cls", [CM, DBN, UBM])
def test_an_old_file_as_a_fit(cls: type[CM | DBN | UBM]) -> None:
    content = json.loads(OLD.read_text("utf-8"))
    again = Fit.from_dict(cls, content).to_dict()["queries"]
    for name, entry in content["queries"].items():
        values = {part: value for part, value in entry[cls.__name__].items() if part != "changes"}
        assert again[name] == {"items": entry["items"], cls.__name__: values}


def test_the_text_does_not_change(tmp_path: Path) -> None:
    entries = json.loads(OLD.read_text("utf-8"))["queries"]
    for name, query in models_file.read(OLD, "CM").items():
        entries[name]["CM"] = models_file.block({"attraction": query.attraction}, query.changes)
    models_file.write(tmp_path / "models.json", entries)
    assert (tmp_path / "models.json").read_bytes() == OLD.read_bytes()
