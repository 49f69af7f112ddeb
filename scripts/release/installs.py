"""Each distribution in a fresh environment on every Python that is there, with the README's commands."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from scripts.release.facts import ROOT

PYTHONS = ("3.11", "3.12", "3.13")
ADDRESS = "127.0.0.1:8080"
#: the client against a service, as in its README
_CALLS = """
from driftrank_client import Client
with Client("http://ADDRESS") as client:
    ranking = client.rank("running shoes", ["trail", "road", "track"], k=2)
    client.feedback(ranking.event_id, clicks=[ranking.items[0].id])
print(len(ranking.items), "items")
"""


def pythons() -> dict[str, str | None]:
    """The interpreter of every supported version; None if there is none."""
    found: dict[str, str | None] = {}
    for version in PYTHONS:
        kept = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python"))
        candidates = [shutil.which(f"python{version}"), *map(str, kept), sys.executable]
        found[version] = next((path for path in candidates if path and _version_of(path) == version), None)
    return found


def _version_of(python: str) -> str:
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


class Environment:
    """A fresh virtual environment of some Python."""

    def __init__(self, folder: Path, python: str) -> None:
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        self.folder, self.bin = folder, folder / "bin"

    def install(self, *what: str) -> None:
        pip = [
            str(self.bin / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
        ]
        lock = ["--constraint", str(ROOT / "requirements.lock")]
        done = subprocess.run([*pip, *lock, *what], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"pip install {' '.join(what)}: {done.stderr.strip()[-2000:]}")

    def run(self, *command: str, **settings: str) -> str:
        """The output of a command of this environment, run outside the repository."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        known = {k: v for k, v in os.environ.items() if not k.startswith(("DRIFTRANK_", "PYTHON"))}
        environment = known | {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "agg"} | settings
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)[:200]}: {(done.stdout + done.stderr).strip()[-2000:]}")
        return done.stdout


def check(python: str, product: Path, source: Path, client: Path, folder: Path) -> Iterator[str]:
    """Install all distributions on one Python and run the README; says what was done."""
    readme = (ROOT / "README.md").read_text("utf-8")
    ours = Environment(folder / "product", python)
    ours.install(f"driftrank[all] @ {product.absolute().as_uri()}")
    yield f"installed; {ours.run('driftrank', '--version').strip()}"
    cache = {"DRIFTRANK_CACHE_DIR": str(folder / "cache")}
    (code,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    ours.run("python", "-W", "error", "-c", code, **cache)
    yield "the README's Python runs"
    listed = ours.run("driftrank", "policies").count("\n")
    small = ["--horizon", "2000", "--runs", "1", "--queries", "yandex-like:1"]
    ours.run("driftrank", "simulate", "--policy", "CascadeSWUCB:window=500", *small, "--out", "out", "-q", **cache)
    yield f"driftrank policies ({listed} lines) and driftrank simulate run"
    built = Environment(folder / "source", python)
    built.install("hatchling")
    built.install("--no-build-isolation", "--no-deps", str(source.absolute()))
    modules = "import pathlib, driftrank as d; print(len([*pathlib.Path(d.__file__).parent.rglob('*.py')]))"
    counts = [env.run("python", "-c", modules).strip() for env in (ours, built)]
    assert counts[0] == counts[1], f"the wheel has {counts[0]} modules, the source distribution gives {counts[1]}"
    yield f"the source distribution gives the same {counts[0]} modules"
    theirs = Environment(folder / "client", python)
    theirs.install(str(client.absolute()))
    with _served(ours, cache) as address:
        if shutil.which("curl"):
            for command in re.findall(r"^    (curl .*?(?<!\\)\n)", readme, re.MULTILINE | re.DOTALL):
                answer = ours.run("sh", "-c", command.replace(ADDRESS, address).replace("curl -s", "curl -fsS"))
                assert "visit-1" in answer, answer
            yield "driftrank serve answers the README's curl commands"
        answer = theirs.run("python", "-W", "error", "-c", _CALLS.replace("ADDRESS", address))
        yield f"driftrank-client: {answer.strip()}"


@contextlib.contextmanager
def _served(environment: Environment, settings: dict[str, str]) -> Iterator[str]:
    """A running service; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = environment.folder / "server.log"
    known = {k: v for k, v in os.environ.items() if not k.startswith(("DRIFTRANK_", "PYTHON"))}
    with log.open("wb") as out:
        server = subprocess.Popen(
            [environment.bin / "driftrank", "serve"], cwd=environment.folder, stdout=out, stderr=out,
            env=known | settings | {"DRIFTRANK_PORT": str(port)},
        )  # fmt: skip
    try:
        end = time.monotonic() + 180
        while "listens on" not in log.read_text():
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"driftrank serve: {log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
