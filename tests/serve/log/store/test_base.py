from __future__ import annotations

import os

import pytest

from driftrank.serve.log.store.base import Damage, Store, StoreError, StoreFull, open_store, store_at, stores
from driftrank.serve.log.store.postgres import PostgresStore
from driftrank.serve.log.store.sqlite import SQLiteStore


def test_a_store_is_found_by_the_scheme_of_its_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert stores() == {"postgresql": PostgresStore, "sqlite": SQLiteStore}
    assert store_at("sqlite:///a.db") is SQLiteStore
    with open_store("sqlite:///a.db") as store:
        assert isinstance(store, Store)
        assert store.path == tmp_path / "a.db"
    with open_store(f"sqlite:///{tmp_path}/b.db", durability="relaxed") as store:
        assert store.path == tmp_path / "b.db"


def test_a_relative_path_does_not_change_with_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///a.db") as store:
        os.chdir("/")
        store.append([("a", b"{}")])
        assert store.size() > 0


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("a.db", "store='a.db': must be an address such as sqlite:///driftrank.db"),
        ("sqlit:///a.db", "unknown kind of store 'sqlit'; did you mean sqlite.*Known: postgresql, sqlite"),
        ("sqlite://a.db", "store='sqlite://a.db': must be sqlite:///relative/path or sqlite:////absolute/path"),
        ("sqlite:///", "store='sqlite:///': must be"),
    ],
)
def test_invalid_addresses(url, message):
    with pytest.raises(ValueError, match=message):
        open_store(url)


def test_durability_is_one_of_two(tmp_path):
    for make in (lambda: open_store("sqlite:///a.db", durability="none"), lambda: SQLiteStore("a.db", durability="")):
        with pytest.raises(ValueError, match=r"durability=.*: must be one of 'full', 'relaxed'"):
            make()


def test_errors_have_one_base():
    assert issubclass(StoreFull, StoreError)
    assert issubclass(StoreError, OSError)
    assert str(StoreFull("a.db: the disk is full")) == "a.db: the disk is full"


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (Damage(4, 1, "why"), "the log is cut before entry 4: why. 1 entry is cut off"),
        (Damage(4, None, "why"), "the log is cut before entry 4: why. An unknown number of entries are cut off"),
        (Damage(4, 0, "why", kept="x"), "the log was repaired: why. No entry is lost, kept in x"),
        (Damage(4, 0, "why", snapshot="q"), "the snapshot 'q' is not used: why"),
    ],
)
def test_damage_is_described_in_one_line(damage, line):
    assert str(damage) == line
