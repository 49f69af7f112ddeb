"""A PostgreSQL cluster in a temporary folder, for tests: without fsync, and without a password."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

_numbers = itertools.count(1)


def binaries() -> Path | None:
    """The folder of the newest ``initdb`` of this machine."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return versions[-1].parent if versions else None


class Cluster:
    """A server that can be killed, frozen and started again. Its address has several hosts, if it has a standby."""

    def __init__(self, *settings: str, primary: Cluster | None = None) -> None:
        programs = binaries()
        assert programs is not None
        # not in a folder of pytest, which only root could read
        self._programs, self.folder = programs, Path(tempfile.mkdtemp(prefix="driftrank-postgres-"))
        # by default a standby tries again after 5 s
        quick = ["fsync=off", "wal_retrieve_retry_interval=100ms"]
        self._settings = [*quick, "max_connections=60", "listen_addresses=127.0.0.1", *settings]
        self.user = pwd.getpwnam("postgres").pw_uid if os.geteuid() == 0 else os.geteuid()  # initdb refuses root
        self.port = free_port()
        os.chown(self.folder, self.user, -1)
        if primary is None:
            options = ["-A", "trust", "-U", "driftrank", "--no-sync", "--locale=C", "-E", "UTF8"]
            self._program("initdb", *options, "-D", self.data)
        else:
            source = f"host=127.0.0.1 port={primary.port} user=driftrank application_name=standby"
            self._program("pg_basebackup", "-R", "--no-sync", "-c", "fast", "-d", source, "-D", self.data)
        self.start()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def _program(self, name: str, *arguments: str) -> None:
        command = [str(self._programs / name), *arguments]
        done = subprocess.run(command, user=self.user, capture_output=True, text=True, cwd="/")
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        command = [str(self._programs / "postgres"), "-D", self.data, "-p", str(self.port), "-k", str(self.folder)]
        for setting in self._settings:
            command += ["-c", setting]
        log = open(self.folder / "log", "ab")  # noqa: SIM115
        self._process = subprocess.Popen(command, user=self.user, stdout=log, stderr=log, cwd="/")
        log.close()
        self.wait()

    def wait(self) -> None:
        """Until it accepts connections."""
        for _ in range(600):
            try:
                psycopg.connect(self.conninfo, connect_timeout=3).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    @property
    def conninfo(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=driftrank dbname=postgres"

    def url(self, schema: str | None = None, *others: Cluster) -> str:
        """The address of a store in a schema, by default in a new one."""
        hosts = ",".join(f"127.0.0.1:{cluster.port}" for cluster in (self, *others))
        return f"postgresql://driftrank@{hosts}/postgres?schema={schema or f's{next(_numbers)}'}"

    def run(self, statement: str, *parameters: Any) -> list[Any]:
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def promote(self) -> None:
        self._program("pg_ctl", "promote", "-w", "-D", self.data)

    def signal(self, number: int) -> None:
        """To all its processes."""
        for process in self._processes():
            os.kill(process, number)

    def _processes(self) -> list[int]:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [self._process.pid, *map(int, children)]

    def kill(self) -> None:
        """With SIGKILL, and all of it: it could not be started again before the last of its processes has ended."""
        self._process.send_signal(signal.SIGSTOP)  # it makes no more of them
        processes = self._processes()
        for process in processes:
            os.kill(process, signal.SIGKILL)
        self._process.wait()
        while any(map(_runs, processes)):
            time.sleep(0.01)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
