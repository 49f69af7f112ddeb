"""What an operator does to a running server: signals, keys, sockets, certificates."""

from __future__ import annotations

import shutil
import signal
import ssl
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from driftrank.serve.access.keys import new_key
from tests.serve.running import Running

CHEAP = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1"}


def until(condition: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(what)


def send(server: Running, number: int) -> None:
    server._process.send_signal(number)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_sighup_loads_the_settings_again(tmp_path: Path) -> None:
    (old, old_hash), (new, new_hash), (reader, read_hash) = new_key(), new_key(), new_key()
    config = tmp_path / "driftrank.toml"

    def write(keys: str, more: str = "", port: int = 1) -> None:
        config.write_text(f'[server]\nadmin_key = {keys}\n{more}\n[rankers.default]\npolicy = "CascadeUCB1"\n')

    write(f'"{old_hash}"')
    with Running(tmp_path, "--config", str(config)) as server, httpx.Client(base_url=server.url) as client:

        def status(key: str, method: str = "GET", path: str = "/v1/rankers") -> int:
            return client.request(method, path, headers=bearer(key)).status_code

        client.put("/v1/rankers/mine", json={"policy": "CascadeUCB1", "k": 7}, headers=bearer(old)).raise_for_status()
        assert (status(old), status(new)) == (200, 403)
        write(f'["{old_hash}", "{new_hash}"]', f'read_key = "{read_hash}"')  # both, for as long as clients change
        send(server, signal.SIGHUP)
        until(lambda: status(new) == 200, "the new key has access")
        assert (status(old), status(reader), status(reader, path="/metrics")) == (200, 200, 200)
        assert status(reader, "POST", "/v1/rankers/default/reset") == 403
        write(f'"{new_hash}"', 'memory = "1GB"\nmax_items = 2')
        send(server, signal.SIGHUP)
        until(lambda: status(old) == 403, "the old key has no access any more")
        many = client.post("/v1/rankers/mine/rank", json={"query": "q", "items": ["a", "b", "c"]}, headers=bearer(new))
        assert "at most 2 are allowed" in many.text
        assert client.get("/v1/rankers/mine", headers=bearer(new)).json()["settings"]["k"] == 7
        until(lambda: "a restart is needed to change memory" in server.log, server.log)
        write('"nonsense"')
        send(server, signal.SIGHUP)
        until(lambda: "the settings were not loaded again" in server.log, server.log)
        assert status(new) == 200
        assert server.stop() == 0


def test_ready_says_no_before_connections_are_refused(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP, DRIFTRANK_DRAIN="30s") as server:
        with httpx.Client(base_url=server.url) as client:
            assert client.get("/readyz").status_code == 200
            send(server, signal.SIGTERM)
            until(lambda: client.get("/readyz").status_code == 503, "not ready any more")
            assert client.get("/readyz").json()["detail"] == "the service is stopping"
            answer = client.post("/v1/rankers/default/rank", json={"query": "q", "items": ["a", "b"]})
            assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert httpx.get(f"{server.url}/healthz").status_code == 200  # also a new connection
        began = time.perf_counter()
        send(server, signal.SIGTERM)  # the second one: at once
        server._end()
        assert time.perf_counter() - began < 25
        assert server._process.returncode == 0
    with Running(tmp_path, **CHEAP, DRIFTRANK_DRAIN="1s") as server:
        assert httpx.get(f"{server.url}/v1/rankers/default").json()["lists"] == 1
        assert server.stop() == 0
        assert "connections are refused in 1 s" in server.log


def test_the_rate_of_a_key(tmp_path: Path) -> None:
    (shop, shop_hash), (admin, admin_hash) = new_key(), new_key()
    variables = {"DRIFTRANK_ADMIN_KEY": admin_hash, "DRIFTRANK_RANKERS__DEFAULT__KEYS": shop_hash}
    with (
        Running(tmp_path, **CHEAP, **variables, DRIFTRANK_RATE="0.5") as server,
        httpx.Client(base_url=f"{server.url}/v1/rankers/default") as client,
    ):
        one = {"query": "q", "items": ["a", "b"]}
        batch = client.post("/rank", json=[one] * 20, headers=bearer(shop))  # five may be saved up, fifteen are owed
        assert batch.status_code == 200
        answer = client.post("/rank", json=one, headers=bearer(shop))
        assert answer.status_code == 429
        assert 20 <= int(answer.headers["retry-after"]) <= 32
        assert client.post("/rank", json=one, headers=bearer(admin)).status_code == 200  # others are not concerned
        assert 'driftrank_requests_refused_total{why="rate"} 1.0' in httpx.get(
            f"{server.url}/metrics", headers=bearer(admin)
        ).text  # fmt: skip


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP) as server:
        httpx.post(f"{server.url}/v1/rankers/default/rank", json={"query": "q", "items": ["a"]}).raise_for_status()
        files = list(tmp_path.glob("driftrank.db*"))
        assert len(files) == 4
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "d.sock"
    server = Running(tmp_path, "--socket", str(path), **CHEAP)
    with server, httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://ranking") as client:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert client.post("/v1/rankers/default/rank", json={"query": "q", "items": ["a"]}).status_code == 200
        server.kill()
        assert path.exists()
        server.restart()  # in spite of the file that is left
        assert client.get("/v1/rankers/default").json()["lists"] == 1
        assert server.stop() == 0
        assert not path.exists()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls(tmp_path: Path) -> None:
    def certificate(name: str) -> None:
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
        command += ["-days", "2", "-addext", "subjectAltName=IP:127.0.0.1", "-subj", f"/CN={name}"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    def status(server: Running) -> int:
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        return httpx.get(f"{server.url}/healthz", verify=context).status_code

    certificate("first")
    first, first_key = (tmp_path / "cert.pem").read_bytes(), (tmp_path / "key.pem").read_bytes()
    with Running(tmp_path, "--tls-cert", "cert.pem", "--tls-key", "key.pem", **CHEAP) as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert status(server) == 200
        certificate("other")
        (tmp_path / "key.pem").write_bytes(first_key)  # half of a renewal
        send(server, signal.SIGHUP)
        until(lambda: "not loaded again: tls_cert='cert.pem'" in server.log, server.log)
        (tmp_path / "cert.pem").write_bytes(first)
        assert status(server) == 200, "new connections still get the first one"
        certificate("second")
        with pytest.raises(httpx.ConnectError):
            status(server)
        send(server, signal.SIGHUP)
        until(lambda: "were loaded again" in server.log, server.log)
        assert status(server) == 200
        assert server.stop() == 0
