from __future__ import annotations

import pytest

from driftrank.serve.access.keys import Access, Keys, as_hash, hashed, is_hash, new_key
from driftrank.serve.settings.server import ServerSettings
from driftrank.wire import RankerSettings

# the same in every process that runs tests: they are in the names of tests
ADMIN = "dr_" + "a" * 32
ADMIN_HASH = hashed(ADMIN)
SHOP = "dr_" + "s" * 32
SHOP_HASH = hashed(SHOP)
NEWS = "dr_" + "n" * 32
NEWS_HASH = hashed(NEWS)
RANKERS = {
    "shop": RankerSettings(keys=[SHOP_HASH]),
    "news": RankerSettings(keys=[NEWS_HASH]),
    "bare": RankerSettings(),
}
READ = "dr_" + "r" * 32
OLD = "dr_" + "o" * 32
SETTINGS = ServerSettings(admin_key=[ADMIN_HASH, hashed(OLD)], read_key=hashed(READ))
KEYS = Keys(lambda: SETTINGS, lambda: RANKERS)


def test_keys_are_long_random_and_safe_in_urls() -> None:
    keys = {new_key()[0] for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) == 35 and key.startswith("dr_") and key[3:].replace("-", "").replace("_", "").isalnum()
               for key in keys)  # fmt: skip


def test_hashes() -> None:
    assert is_hash(ADMIN_HASH)
    assert not is_hash(ADMIN)
    assert as_hash("admin_key", ADMIN) == as_hash("admin_key", ADMIN_HASH) == hashed(ADMIN) == ADMIN_HASH
    with pytest.raises(ValueError, match="admin_key: must be a key or the hash of one"):
        as_hash("admin_key", "sha256:12")


def test_without_keys_everything_is_open() -> None:
    keys = Keys(ServerSettings, lambda: {"shop": RankerSettings()})
    assert keys.open
    for presented in (None, "", "anything"):
        assert keys.allows(presented, ranker="shop", admin=True) is Access.GRANTED
        assert keys.visible(presented) is None


@pytest.mark.parametrize(
    ("presented", "ranker", "admin", "access"),
    [
        (None, "shop", False, Access.MISSING),
        (None, None, True, Access.MISSING),
        (None, "nowhere", False, Access.MISSING),
        (ADMIN, "shop", True, Access.GRANTED),
        (OLD, "shop", True, Access.GRANTED),  # several admin keys, so that they can be changed one by one
        (ADMIN, "bare", False, Access.GRANTED),
        (READ, "shop", True, Access.DENIED),
        (ADMIN, "nowhere", False, Access.GRANTED),
        (ADMIN, None, True, Access.GRANTED),
        (SHOP, "shop", False, Access.GRANTED),
        (SHOP, "shop", True, Access.DENIED),
        (SHOP, "news", False, Access.DENIED),
        (SHOP, "bare", False, Access.DENIED),
        (SHOP, "nowhere", False, Access.DENIED),
        (SHOP, None, False, Access.GRANTED),
        (SHOP, None, True, Access.DENIED),
        ("", "shop", False, Access.DENIED),
        ("dr_wrong", None, False, Access.DENIED),
        (SHOP_HASH, "shop", False, Access.DENIED),  # a hash from the settings is not a key
        ("\udcff\u2603", "shop", False, Access.DENIED),
    ],
)
def test_access(presented: str | None, ranker: str | None, admin: bool, access: Access) -> None:
    assert KEYS.allows(presented, ranker=ranker, admin=admin) is access


@pytest.mark.parametrize("ranker", ["shop", "bare", None])
def test_a_read_key_reads_everything_and_changes_nothing(ranker: str | None) -> None:
    for admin in (False, True):
        assert KEYS.allows(READ, ranker=ranker, admin=admin, reads=True) is Access.GRANTED
        assert KEYS.allows(READ, ranker=ranker, admin=admin) is Access.DENIED
    assert KEYS.visible(READ) is None


def test_rankers_of_a_key() -> None:
    assert KEYS.visible(ADMIN) is None
    assert KEYS.visible(SHOP) == {"shop"}
    assert KEYS.visible("dr_wrong") == KEYS.visible(None) == frozenset()


def test_keys_may_change_while_the_server_runs() -> None:
    rankers = {"shop": RankerSettings()}
    keys = Keys(ServerSettings, lambda: rankers)
    assert keys.open
    rankers["shop"] = RankerSettings(keys=[SHOP_HASH, NEWS_HASH])
    assert keys.allows(None, ranker="shop", admin=False) is Access.MISSING
    assert keys.allows(NEWS, ranker="shop", admin=False) is Access.GRANTED
    rankers["news"] = RankerSettings(keys=[NEWS_HASH])
    assert keys.visible(NEWS) == {"shop", "news"}
    assert keys.allows(NEWS, ranker=None, admin=True) is Access.DENIED  # there is no admin key
