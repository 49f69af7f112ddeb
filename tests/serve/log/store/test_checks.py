"""Every store fulfils the contract, and broken ones fail it."""

from __future__ import annotations

import functools

import pytest

from driftrank.serve.log.store.base import stores
from driftrank.serve.log.store.checks import CHECKS, check_store
from driftrank.serve.log.store.shared_checks import SHARED_CHECKS
from driftrank.serve.log.store.sqlite import SQLiteStore
from tests.serve.log.store.benches import PostgresBench, sqlite_benches


def _benches(scheme, request):
    if scheme == "sqlite":
        return sqlite_benches(request.getfixturevalue("tmp_path"))
    assert scheme == "postgresql", "a new backend needs a bench"
    return functools.partial(PostgresBench, request.getfixturevalue("postgres"))


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("scheme", stores())
def test_contract(scheme, check, request):
    CHECKS[check](_benches(scheme, request))


def test_all_at_once(tmp_path):
    check_store(sqlite_benches(tmp_path))


class _Forgetful(SQLiteStore):
    """Assigns numbers twice."""

    def _remember_last(self):
        pass


class _Twice(SQLiteStore):
    """Reports known ids as new."""

    def append(self, entries):
        return [(seq, True) for seq, _ in super().append(entries)]


class _Trusting(SQLiteStore):
    """Does not check anything."""

    def verify(self, after):
        return None


class _Silent(SQLiteStore):
    """Raises no error when closed."""

    def close(self):
        pass

    def __del__(self):
        super().close()


class _Locked(SQLiteStore):
    """Does not write snapshots."""

    def put_snapshots(self, snapshots, gone=(), *, before=0):
        raise OSError("not now")


class _Garrulous(SQLiteStore):
    """Raises errors of several lines."""

    def read(self, after, limit=10_000):
        try:
            return super().read(after, limit)
        except OSError as error:
            raise type(error)(f"{error}\nand so on") from None


@pytest.mark.parametrize(
    ("broken", "check", "message"),
    [
        (_Forgetful, "numbers_are_never_given_again", "last, opened again: is 0, should be 20"),
        (_Twice, "an_id_is_settled_once", r"an id twice in a batch: is \(1, True\), should be \(1, False\)"),
        (_Trusting, "a_damaged_entry_ends_the_log", "the damage is not reported"),
        (_Silent, "a_store_that_is_closed", r"no StoreError, but \[\(2, True\)\]"),
        (_Locked, "reading_beside_writing", r"problems of the writer: is \[OSError\('not now'\)\], should be \[\]"),
        (_Garrulous, "a_damaged_first_entry", "its message is not one line"),
    ],
)
def test_a_broken_store_fails_its_check(broken, check, message, tmp_path):
    with pytest.raises(AssertionError, match=f"sqlite: {check}: {message}"):
        CHECKS[check](sqlite_benches(tmp_path, broken))


def test_other_errors_are_failures_too():
    def nowhere():
        raise KeyError("no such place")

    with pytest.raises(AssertionError, match="nowhere: finding: KeyError"):
        CHECKS["finding"](nowhere)


@pytest.mark.parametrize("check", SHARED_CHECKS)
def test_contract_of_several_services(check, postgres):
    SHARED_CHECKS[check](functools.partial(PostgresBench, postgres))
