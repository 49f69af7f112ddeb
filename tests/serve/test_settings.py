from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from driftrank.serve.access.keys import hashed
from driftrank.serve.settings.checks import size_in_bytes
from driftrank.serve.settings.load import load_settings
from driftrank.serve.settings.ranker import check_ranker, policy_of
from driftrank.serve.settings.server import ServerSettings
from driftrank.wire import ArmSettings, RankerSettings

KEY = "dr_" + "k" * 32  # the same in every process that runs tests: it is in the names of tests
HASH = hashed(KEY)


def toml(folder: Path, text: str) -> Path:
    path = folder / "driftrank.toml"
    path.write_text(text, "utf-8")
    return path


def test_defaults_include_a_default_ranker() -> None:
    settings = load_settings()
    assert settings == ServerSettings()
    assert (settings.host, settings.port, settings.store) == ("127.0.0.1", 8080, "sqlite:///driftrank.db")
    assert settings.rankers == {"default": RankerSettings()}
    assert settings.rankers["default"].k == 10
    assert (settings.max_body_bytes, settings.memory_bytes) == (1_000_000, 512_000_000)
    assert settings.retention_seconds == 30 * 86_400


def test_the_file_then_the_environment_then_options(tmp_path: Path) -> None:
    path = toml(
        tmp_path,
        """
        [server]
        host = "10.0.0.1"
        port = 1
        memory = "2GiB"
        [rankers.shop-news]
        policy = "CascadeSWUCB:window=24h"
        k = 5
        wait = 60
        """,
    )
    environ = {
        "DRIFTRANK_PORT": "2",
        "DRIFTRANK_HOST": "10.0.0.2",
        "DRIFTRANK_ACCESS_LOG": "true",
        "DRIFTRANK_RANKERS__SHOP_NEWS__K": "7",
        "DRIFTRANK_RANKERS__OTHER__WAIT": "90",
        "DRIFTRANK_RANKERS__OTHER__CONTEXT": "device, hour",
        "DRIFTRANK_RANKERS__OTHER__HORIZON": "none",
        "PATH": "/bin",
    }
    settings = load_settings(path, environ, {"port": 3, "host": None})
    assert (settings.host, settings.port, settings.access_log) == ("10.0.0.2", 3, True)
    assert settings.memory_bytes == 2 * 1024**3
    assert set(settings.rankers) == {"default", "shop-news", "other"}
    shop = settings.rankers["shop-news"]
    assert (shop.policy, shop.k, shop.wait) == ("CascadeSWUCB:window=24h", 7, 60.0)
    assert settings.rankers["other"] == RankerSettings(wait=90.0, context=["device", "hour"])


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    path = toml(tmp_path, "[server]\nport = 4\n")
    assert load_settings(None, {"DRIFTRANK_CONFIG": str(path)}).port == 4
    assert load_settings(toml(tmp_path, "[server]\nport = 5\n"), {"DRIFTRANK_CONFIG": "missing.toml"}).port == 5


@pytest.mark.parametrize("given", [KEY, HASH])
def test_the_admin_key_is_stored_as_a_hash(given: str) -> None:
    settings = load_settings(environ={"DRIFTRANK_ADMIN_KEY": given})
    assert settings.admin_key == HASH
    assert KEY not in repr(settings)


def test_variables_of_kubernetes_and_others_are_ignored() -> None:
    environ = {
        "DRIFTRANK_PORT": "tcp://10.0.0.1:8080",
        "DRIFTRANK_PORT_8080_TCP_ADDR": "10.0.0.1",
        "DRIFTRANK_SERVICE_HOST": "10.0.0.1",
        "DRIFTRANK_SERVICE_PORT_HTTP": "8080",
        "DRIFTRANK_CACHE_DIR": "/tmp",
        "DRIFTRANK_CACHE_SIZE": "2G",
        "DRIFTRANK_DEBUG": "1",
    }
    assert load_settings(environ=environ) == ServerSettings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nprot = 1", r"unknown setting in .*toml, \[server\] 'prot'; did you mean port\?"),
        ("[sever]\nport = 1", r"unknown table in .*toml 'sever'; did you mean server\?"),
        ("port = 1", r"unknown table in .*toml 'port'"),
        ("server = 1", r"toml: server=1: must be a table, \[server\]"),
        ("[rankers]\nshop = 1", r"toml, \[rankers\]: shop=1: must be a table, \[rankers.shop\]"),
        ("[server]\nport = 70000", r"\[server\]: port=70000: must be an integer from 0 to 65535"),
        ("[server]\nport = '80'", r"\[server\]: port='80': must be an integer"),
        ("[server]\nport = true", r"\[server\]: port=True: must be an integer"),
        ("[server]\ndurability = 'some'", r"durability='some': must be one of 'full', 'relaxed'"),
        ("[server]\nmemory = '5 sheep'", r"memory='5 sheep': must be bytes"),
        ("[server]\nmemory = 512", r"memory=512: is 512 bytes; must be at least 100 kB, as in '512MB'"),
        ("[server]\nmax_body = 0", r"max_body .*=0: must be an integer of at least 1"),
        ("[server]\nretention = '3 moons'", r"retention .*='3 moons': must be a number and a unit"),
        ("[server]\nretention = '1m'", r"retention='1m': must be no shorter than the feedback window, wait='30m'"),
        ("[server]\nstore = 'driftrank.db'", r"store='driftrank.db': must be of the form 'sqlite:///driftrank.db'"),
        ("[server]\nhost = ' '", r"host=' ': must not be empty"),
        ("[server]\nlog_level = 'loud'", r"log_level='loud': must be one of 'debug'"),
        ("[server]\npersonalizer = '../x'", r"ranker='../x': must be up to 64"),
        ("[rankers.shop]\npolcy = 'Random'", r"unknown setting in .*\[rankers.shop\] 'polcy'; did you mean policy\?"),
        ("[rankers.shop]\npolicy = 'Randm'", r"\[rankers.shop\]: unknown policy 'Randm'; did you mean Random\?"),
        ("[rankers.shop]\nk = 'ten'", r"\[rankers.shop\]: k='ten': must be an integer"),
        ("[rankers.shop]\nwait = 'a while'", r"\[rankers.shop\]: wait='a while': must be a number and a unit"),
        ("[rankers.shop]\nwait = [1]", r"\[rankers.shop\]: wait=\[1\]: must be a string or a number"),
        ("[rankers.shop]\nmode = 'dead'", r"\[rankers.shop\]: mode='dead': must be one of 'live', 'shadow', 'safe'"),
        ("[rankers.shop]\ncontext = 'x'", r"\[rankers.shop\]: context='x': must be a list of strings"),
        ("[rankers.'a b']\nk = 1", r"ranker='a b': must be up to 64 letters"),
        ("[rankers.shop]\nwait = '8d'", r"\[rankers.shop\]: forget_items='7d': must be no shorter than wait='8d'"),
        ("[server", r"is not valid TOML"),
    ],
)
def test_errors_in_a_file_name_the_table(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_settings(toml(tmp_path, text))


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"DRIFTRANK_PROT": "1"}, r"unknown environment variable 'DRIFTRANK_PROT'; did you mean DRIFTRANK_PORT\?"),
        ({"DRIFTRANK_PORT": "x"}, r"environment variable DRIFTRANK_PORT: port='x': must be an integer"),
        ({"DRIFTRANK_ACCESS_LOG": "perhaps"}, r"access_log='perhaps': must be true or false"),
        ({"DRIFTRANK_RANKERS__A__POLCY": "x"}, r"RANKERS__A__POLCY: 'polcy'; did you mean policy\?"),
        ({"DRIFTRANK_RANKERS__A__K": "0"}, r"DRIFTRANK_RANKERS__A__K: k=0: must be an integer from 1"),
        ({"DRIFTRANK_RANKERS__A__CONTEXT": "[1"}, r"CONTEXT: context='\[1': must be a list of strings"),
        ({"DRIFTRANK_RANKERS__K": "0"}, r"DRIFTRANK_RANKERS__K: ranker='': must be up to 64"),
        ({"DRIFTRANK_CONFIG": "no/such.toml"}, r"no/such.toml: cannot be read"),
    ],
)
def test_errors_in_the_environment_name_the_variable(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_settings(environ=environ)


def test_a_variable_must_name_one_ranker(tmp_path: Path) -> None:
    path = toml(tmp_path, "[rankers.a-b]\n[rankers.a_b]\n")
    assert load_settings(path, {"DRIFTRANK_RANKERS__a_b__K": "3"}).rankers["a_b"].k == 3
    with pytest.raises(ValueError, match=r"A_B__...: could be a-b or a_b"):
        load_settings(path, {"DRIFTRANK_RANKERS__A_B__K": "3"})


def test_files_that_are_not_settings(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not a text file"):
        load_settings(tmp_path / "x.toml")
    with pytest.raises(ValueError, match="cannot be read"):
        load_settings(tmp_path)


def test_unknown_options() -> None:
    with pytest.raises(ValueError, match="unknown option 'prt'; did you mean port"):
        load_settings(options={"prt": 1})
    with pytest.raises(ValueError, match="option --log-level: log_level='loud'"):
        load_settings(options={"log_level": "loud"})


def test_secrets_stay_out_of_messages() -> None:
    for name, value in (("DRIFTRANK_ADMIN_KEY", "hunter2"), ("DRIFTRANK_RANKERS__A__KEYS", "hunter2")):
        with pytest.raises(ValueError, match="driftrank key") as caught:
            load_settings(environ={name: value})
        assert "hunter2" not in str(caught.value)
    with pytest.raises(ValueError, match="admin_key"):
        ServerSettings(admin_key=KEY)


def test_keys_of_rankers_need_an_admin(tmp_path: Path) -> None:
    path = toml(tmp_path, f'[rankers.shop]\nkeys = ["{HASH}"]\n')
    with pytest.raises(ValueError, match="admin_key: must be set if rankers have keys, as shop has"):
        load_settings(path)
    settings = load_settings(path, {"DRIFTRANK_ADMIN_KEY": hashed("x")})
    assert settings.rankers["shop"].keys == [HASH]


@pytest.mark.parametrize(
    ("host", "public"),
    [("127.0.0.1", False), ("127.1.2.3", False), ("::1", False), ("[::1]", False), ("localhost", False),
     ("0.0.0.0", True), ("::", True), ("192.168.1.5", True), ("example.org", True)],
)  # fmt: skip
def test_public_addresses(host: str, public: bool) -> None:
    assert ServerSettings(host=host).public is public


def test_retention_forever() -> None:
    assert ServerSettings(retention="forever").retention_seconds == math.inf


@pytest.mark.parametrize(
    ("text", "size"), [("1B", 1), ("1kb", 1000), ("1.5MB", 1_500_000), ("2 GiB", 2 * 1024**3), ("1TB", 10**12)]
)
def test_sizes(text: str, size: int) -> None:
    assert size_in_bytes("memory", text) == size


@pytest.mark.parametrize("value", ["", "MB", "1 M", "-1MB", "0MB", 0, -5, True, "1e3MB"])
def test_invalid_sizes(value: Any) -> None:
    with pytest.raises(ValueError, match="memory"):
        size_in_bytes("memory", value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policy": "DynamicOracle"}, r"policy='DynamicOracle': must not be an oracle"),
        ({"policy": "CascadeSWUCB:window=0"}, r"window"),
        ({"policy": "TopRank"}, r"horizon=None: must be given for TopRank"),
        ({"policy": "CascadeTS", "mode": "safe"}, r"policy='CascadeTS': in mode 'safe' must be BubbleRank"),
        ({"k": 0}, r"k=0: must be an integer"),
        ({"holdout": 1.0}, r"holdout=1.0: must be a number in \[0, 1\)"),
        ({"holdout": -0.1}, r"holdout=-0.1"),
        ({"holdout": math.nan}, r"holdout=nan"),
        ({"wait": 0}, r"wait"),
        ({"wait": -1.0}, r"wait"),
        ({"forget_items": "1m"}, r"forget_items='1m': must be no shorter than wait='30m'"),
        ({"seed": -1}, r"seed=-1"),
        ({"horizon": 0}, r"horizon=0"),
        ({"keys": ["secret"]}, r"^keys: must be hashes"),
        ({"context": ["a", "a"]}, r"context=\['a', 'a'\]: must be names of features, each once"),
    ],
)
def test_invalid_rankers(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_ranker("shop", RankerSettings(**given))


@pytest.mark.parametrize("name", ["", ".x", "-x", "a/b", "a b", "x" * 65, "ä", "x\n"])
def test_invalid_names(name: str) -> None:
    with pytest.raises(ValueError, match="ranker="):
        check_ranker(name, RankerSettings())


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        ({}, "PriorRegimeTS"),
        ({"policy": "TopRank", "horizon": 1000}, "TopRank"),
        ({"policy": "CascadeLinUCB"}, "CascadeLinUCB"),
        ({"mode": "shadow", "policy": "CascadeTS"}, "CascadeTS"),
        ({"mode": "safe"}, "BubbleRank:initial=given,horizon=1000000"),
        ({"mode": "safe", "horizon": 500}, "BubbleRank:initial=given"),
        ({"mode": "safe", "policy": "BubbleRank:delta=0.01"}, "BubbleRank:initial=given,delta=0.01"),
    ],
)
def test_the_policy_of_a_ranker(given: dict[str, Any], spec: str) -> None:
    settings = RankerSettings(**given)
    check_ranker("shop", settings)
    assert policy_of(settings).spec == spec


def test_tables_of_a_ranker(tmp_path):
    path = tmp_path / "driftrank.toml"
    path.write_text(
        """
        [rankers.shop]
        k = 3
        [rankers.shop.arms.bold]
        share = 0.25
        policy = "CascadeTS"
        [rankers.shop.values]
        purchase = 1
        dwell = 0.3
        """
    )
    shop = load_settings(path).rankers["shop"]
    assert shop.arms == {"bold": ArmSettings(share=0.25, policy="CascadeTS")}
    assert shop.values == {"purchase": 1.0, "dwell": 0.3}
    environ = {"DRIFTRANK_RANKERS__SHOP__ARMS": '{"b": {"share": 0.5}}', "DRIFTRANK_RANKERS__SHOP__STABLE": "30m"}
    shop = load_settings(path, environ).rankers["shop"]
    assert (shop.arms, shop.stable) == ({"b": ArmSettings(share=0.5)}, "30m")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("values = 3", r"values=3: must be a table of numbers by name"),
        ('values = { buy = "much" }', r"values=.*: must be a table of numbers by name"),
        ("arms = { b = { policy = 'CascadeTS' } }", r"arms=.*: must be a table of arms by name, each with a share"),
        ("holdout = 0.9\narms = { b = { share = 0.2 } }", r"sum 1.1: must be at most 1"),
        ("stable = '90d'", r"retention='30d': must be no shorter than stable='90d' in the ranker shop"),
    ],
)
def test_bad_tables(tmp_path, line, says):
    path = tmp_path / "driftrank.toml"
    path.write_text(f"[rankers.shop]\n{line}\n")
    with pytest.raises(ValueError, match=says):
        load_settings(path)
