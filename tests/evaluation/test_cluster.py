"""Evaluation of a log of several files on a cluster gives the numbers of one process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import driftrank as dr
from driftrank.cli.app import run
from driftrank.engine.cluster.cluster import Cluster
from tests.evaluation.worlds import BEST, Drawn, draw, softmax, write

N = 6000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2) as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, in the order of time, without users: the buckets are those of files and rows. The last has one query
    only, and lists without propensities.
    """
    folder = tmp_path_factory.mktemp("files")
    drawn = draw(np.random.default_rng(3), N, softmax, change=2 * N // 3)
    drawn.query[-50:] = 0
    for n, part in enumerate((slice(0, 2500), slice(2500, N - 50), slice(N - 50, N))):
        own = Drawn(*(column[part] for column in drawn))
        time = pa.array(np.arange(N)[part])
        none = pa.array([None] * 50, pa.list_(pa.float64()))
        more = {"propensities": none} if n == 2 else {}
        write(folder / f"{n}.parquet", own, user=None, time=time, **more)
    return folder


def close(one: Any, other: Any, path: str = "") -> None:
    """The same, but for the order in which numbers are added up."""
    assert type(one) is type(other), path
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            close(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), path
        for n, (a, b) in enumerate(zip(one, other, strict=True)):
            close(a, b, f"{path}[{n}]")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12), path
    else:
        assert one == other, path


def test_the_numbers_of_one_process(folder: Path, cluster: Cluster) -> None:
    """Values of all estimators, intervals, checks, changes, windows; and a learner, which runs in this process."""
    targets = [BEST, "best-now", "CascadeSoftmax"]
    here = dr.evaluate(folder, targets, k=2, against="best-now")
    there = dr.evaluate(
        folder, targets, k=2, against="best-now", device="cluster", address=cluster.client.scheduler.address
    )
    assert here["rankings"].value is not None
    assert here.changes > 0
    close(here.to_dict(), there.to_dict())


def test_the_command(folder: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", str(folder), "--best-now", "--objective", "clicks", "--changes", "0", "--json"]
    assert run(command) == 0
    here = json.loads(capsys.readouterr().out)
    assert run([*command, "--device", "cluster", "--address", cluster.client.scheduler.address]) == 0
    close(here, json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "gpu"], "device='gpu': must be one of 'cpu', 'cluster'"),
        (["--address", "a:1"], "address='a:1': must not be given unless the device is 'cluster'"),
    ],
)
def test_wrong_devices(folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert run(["evaluate", str(folder), "--best-now", *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
