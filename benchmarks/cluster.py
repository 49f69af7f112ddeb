"""Measure two worker processes against one on this machine, and the overhead of a job.

    python benchmarks/cluster.py [--rounds 5] [--runs 20] [--policy NAME ...]

All four ways (one and two worker processes, and, as the limit of the machine, one and two threads) run the same
simulation in turn, round after round, so that they meet the same conditions; the median of the ratios counts. The
clusters stay open and kernels are compiled before: only simulations are timed. Results are compared, too: they are the
same to the last bit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

QUERIES, HORIZON = 20, 100_000
#: empty jobs, to measure the overhead
JOBS = 1000


def nothing(job: int) -> int:
    return job


def measure(rounds: int, runs: int, policies: list[str]) -> dict[str, Any]:
    import numpy as np

    import driftrank as dr
    from driftrank.engine import Cluster
    from driftrank.engine.devices import Device

    environment = dr.environments.Abrupt(dr.queries.yandex_like(QUERIES), k=3)
    with Cluster(workers=1) as one, Cluster(workers=2) as two:
        ways: dict[str, tuple[Device, int]] = {
            "cluster, 1 worker": (one, 1), "cluster, 2 workers": (two, 2),
            "cpu, 1 thread": ("cpu", 1), "cpu, 2 threads": ("cpu", 2),
        }  # fmt: skip
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        expected = None
        for number in range(-1, rounds):
            for way, (device, n) in ways.items() if number % 2 else reversed(ways.items()):
                begin = time.perf_counter()
                result = dr.simulate(
                    policies, environment, horizon=HORIZON, runs=runs, device=device, threads=n, progress=False
                )
                if number >= 0:  # in the first round, workers fetch their kernels
                    seconds[way].append(time.perf_counter() - begin)
                if expected is None:
                    expected = result.values
                assert np.array_equal(expected, result.values), way
        begin = time.perf_counter()
        assert len(list(two.map(nothing, range(JOBS)))) == JOBS
        job = (time.perf_counter() - begin) / JOBS
    steps = QUERIES * HORIZON * runs * len(policies)
    return {
        "seconds": {way: statistics.median(found) for way, found in seconds.items()},
        "steps_per_second": {way: steps / statistics.median(found) for way, found in seconds.items()},
        "two_workers_to_one": _ratio(seconds, "cluster, 1 worker", "cluster, 2 workers"),
        "two_threads_to_one": _ratio(seconds, "cpu, 1 thread", "cpu, 2 threads"),
        "two_threads_to_two_workers": _ratio(seconds, "cluster, 2 workers", "cpu, 2 threads"),
        "milliseconds_to_send_a_job": job * 1e3,
        "rounds": rounds,
    }


def _ratio(seconds: dict[str, list[float]], slow: str, fast: str) -> float:
    return statistics.median(a / b for a, b in zip(seconds[slow], seconds[fast], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--policy", action="append")
    given = parser.parse_args()
    found = measure(given.rounds, given.runs, given.policy or ["CascadeDUCB", "CascadeSWUCB", "CascadeKLUCB"])
    for way, speed in found["steps_per_second"].items():
        print(f"{way:20} {found['seconds'][way]:7.2f} s {speed / 1e6:7.1f} M steps/s")
    print(f"two workers are {found['two_workers_to_one']:.2f} times one; two threads {found['two_threads_to_one']:.2f}")
    print(f"an empty job takes {found['milliseconds_to_send_a_job']:.1f} ms")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
