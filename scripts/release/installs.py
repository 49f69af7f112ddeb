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
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from scripts.docs.commands import A_LOG, BEFORE, CODES, commands, resolve, small
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
#: the number of modules of a package that is installed
_MODULES = """
import importlib.util, pathlib
(place,) = importlib.util.find_spec("PACKAGE").submodule_search_locations
print(len([*pathlib.Path(place).rglob("*.py")]))
"""
#: the live page, and everything that it loads
_PAGE = """
import re, sys, urllib.parse, urllib.request
def fetched(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.geturl(), answer.read().decode()
found = {}
address, page = fetched(sys.argv[1])
for link in re.findall(r'(?:src|href)="([^"]+[.](?:css|js|svg|png|ico)(?:[?][^"]*)?)"', page):
    found[link] = fetched(urllib.parse.urljoin(address, link))[1]
assert "<html" in page, page[:500]
assert all(found.values())
assert any(".css" in link for link in found) and any(".js" in link for link in found), sorted(found)
print(len(found), "files")
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

    def run(self, *command: str, codes: Collection[int] = (0,), **settings: str) -> str:
        """The output of a command of this environment, run outside the repository; it ends with one of these codes."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        known = {k: v for k, v in os.environ.items() if not k.startswith(("DRIFTRANK_", "PYTHON"))}
        environment = known | {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "agg"} | settings
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=600)
        if done.returncode not in codes:
            raise RuntimeError(f"{' '.join(command)[:200]}: {(done.stdout + done.stderr).strip()[-2000:]}")
        return done.stdout


def check(python: str, wheels: Mapping[str, Path], sources: Mapping[str, Path], folder: Path) -> Iterator[str]:
    """Install all distributions, by their packages, on one Python and run the README; says what was done."""
    readme = (ROOT / "README.md").read_text("utf-8")
    ours = Environment(folder / "product", python)
    ours.install(f"driftrank[all] @ {wheels['driftrank'].absolute().as_uri()}")
    yield f"installed; {ours.run('driftrank', '--version').strip()}"
    cache = {"DRIFTRANK_CACHE_DIR": str(folder / "cache")}
    (code,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    ours.run("python", "-W", "error", "-c", code, **cache)
    yield "the README's Python runs"
    listed = ours.run("driftrank", "policies").count("\n")
    tried = _commands(ours, readme, cache)
    yield f"driftrank policies ({listed} lines), and of the README, made small: {', '.join(tried)}"
    theirs = Environment(folder / "client", python)
    theirs.install(str(wheels["driftrank_client"].absolute()))
    built = Environment(folder / "source", python)
    built.install("hatchling")
    for package, other in (("driftrank", ours), ("driftrank_client", theirs)):
        built.install("--no-build-isolation", "--no-deps", str(sources[package].absolute()))
        modules = _MODULES.replace("PACKAGE", package)
        counts = [env.run("python", "-c", modules).strip() for env in (other, built)]
        assert counts[0] == counts[1], f"{package}: {counts[0]} modules of the wheel, {counts[1]} of the source"
        yield f"the source distribution of {package} gives the same {counts[0]} modules"
    with _served(ours, cache) as address:
        if shutil.which("curl"):
            for command in re.findall(r"^    (curl .*?(?<!\\)\n)", readme, re.MULTILINE | re.DOTALL):
                answer = ours.run("sh", "-c", command.replace(ADDRESS, address).replace("curl -s", "curl -fsS"))
                assert "visit-1" in answer, answer
            yield "driftrank serve answers the README's curl commands"
        answer = theirs.run("python", "-W", "error", "-c", _CALLS.replace("ADDRESS", address))
        yield f"driftrank-client: {answer.strip()}"
        yield f"the live page of driftrank serve loads {ours.run('python', '-c', _PAGE, f'http://{address}').strip()}"
    with _served(ours, cache, "demo --no-open") as address:
        yield f"that of driftrank demo loads {ours.run('python', '-c', _PAGE, f'http://{address}/try').strip()}"


def _commands(environment: Environment, readme: str, settings: dict[str, str]) -> list[str]:
    """Run the README's commands, made small, on a generated log; returns their names."""
    for before in BEFORE:
        environment.run("driftrank", *before.split(), **settings)
    tried = []
    for command in commands(readme):
        words = small(command.words) if command.whole else None
        if words is None:
            continue
        if words[0] in ("advise", "evaluate"):  # the README's log has no propensities
            environment.run("driftrank", *A_LOG.split(), **settings)
        environment.run("driftrank", *words, codes=CODES.get(words[0], (0,)), **settings)
        tried.append(resolve(command.words)[1])
    assert {*tried} >= {"simulate", "sweep", "log convert", "fit", "evaluate", "advise"}, tried
    return tried


@contextlib.contextmanager
def _served(environment: Environment, settings: dict[str, str], command: str = "serve") -> Iterator[str]:
    """A running service, of ``driftrank serve`` or ``demo --no-open``; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = environment.folder / "server.log"
    known = {k: v for k, v in os.environ.items() if not k.startswith(("DRIFTRANK_", "PYTHON"))}
    with log.open("wb") as out:
        server = subprocess.Popen(
            [environment.bin / "driftrank", *command.split(), "--port", str(port)], cwd=environment.folder,
            stdout=out, stderr=out, env=known | settings,
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
