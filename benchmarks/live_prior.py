"""Send realistic traffic to a service, and compare its rankings with the caller's own order from the first one on.

    python benchmarks/live_prior.py [--lists 15000] [--rate 240] [--policy PriorRegimeTS] [--holdout 0.1] [--seed 0]
        [--noise 18] [--json FILE]

A real ``driftrank serve`` in a folder of its own, and what ``driftrank drive --env Traffic`` sends to it. 2,000
queries, Zipf; 200 candidates each, in the caller's order: that of their true attractions plus noise on the ranks. K =
10. Users click at most once, and go on after an item without a click with probability 0.85. Clicks come two seconds
late on average, those of a fifth of the rankings never, a tenth twice; after six seconds silence counts as no click.
Every 1,000 lists 2% of the items are replaced.

Values are expected clicks of the rankings shown, so users' chance is not in them: of live rankings, and of the caller's
order for the same requests, by windows of 500 rankings. Attractions, queries and users follow from ``--seed``; the
order of feedback depends on the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from driftrank.client import Client  # noqa: E402
from driftrank.drive.drive import Drive  # noqa: E402
from driftrank.drive.session import FeedbackFaults  # noqa: E402

K, WAIT, WINDOW = 10, 6.0, 500
WORLD = (
    "n_queries=2000,candidates=200,catalogue=0,shape=exponential,query_sd=0,top=0.3,tau=12,floor=0.01,going_on=0.85,"
    "day=1000,new=0.02"
)
FAULTS = FeedbackFaults(delay=2.0, drop=0.2, duplicate=0.1)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    caller = f"caller=noisy,noise={options.noise}" if options.noise < math.inf else "caller=random"
    with served(options) as url:
        drive = Drive(
            url=url, ranker="shop", env=f"Traffic:{WORLD},K={K},{caller}", steps=options.lists, seed=options.seed,
            rate=options.rate, connections=64, faults=FAULTS,
        )  # fmt: skip
        result = drive.run()
        if result.error is not None:
            raise result.error
        with Client(url, ranker="shop", timeout=30.0) as client:
            info = client.ranker()
        metrics = urllib.request.urlopen(f"{url}/metrics").read().decode()
    gauge = {name: float(value) for name, value in re.findall(r"^driftrank_(\w+) (\S+)$", metrics, re.MULTILINE)}
    print(result.caller_table(WINDOW))
    ratios = [window.clicks / window.caller for window in result.against_caller(WINDOW)]
    shared = info.shared
    return result.summary() | {
        "lowest ratio": min(ratios), "last ratio": ratios[-1], "held": int(result.held.sum()),
        "kB a query": gauge["state_bytes"] / max(1.0, gauge["resident_queries"]) / 1000,
        "shared": None if shared is None else {"columns": shared.columns, "strength": shared.strength,
                                               "going_on": shared.going_on},
    }  # fmt: skip


@contextmanager
def served(options: argparse.Namespace) -> Iterator[str]:
    """A service with a ranker ``shop`` in a folder of its own; yields its address."""
    folder = Path(tempfile.mkdtemp(prefix="driftrank-live-"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = f"[rankers.shop]\nk = {K}\nwait = {WAIT}\nholdout = {options.holdout}\n"
    if options.policy:
        config += f'policy = "{options.policy}"\n'
    (folder / "driftrank.toml").write_text(config)
    command = [sys.executable, "-m", "driftrank", "serve", "--config", "driftrank.toml", "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/readyz", server, folder)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


def wait_for(url: str, server: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until and server.poll() is None:
        try:
            urllib.request.urlopen(url)
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit((folder / "server.log").read_text())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lists", type=int, default=15_000)
    parser.add_argument("--rate", type=float, default=240.0, help="lists and feedbacks a second")
    parser.add_argument("--policy", help="by default that of the service")
    parser.add_argument("--holdout", type=float, default=0.1)
    parser.add_argument(
        "--noise", type=float, default=18.0, help="on ranks; 0: the caller's order is perfect, inf: random"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    out = measure(options)
    print(f"clicks against the caller's order: lowest window {out['lowest ratio']:.3f}, last {out['last ratio']:.3f}")
    print(f"{out['policy']}: {out['kB a query']:.1f} kB a query; rank {out['rank_ms']}; feedback {out['feedback']}")
    print(f"shared model: {out['shared']}")
    if options.json:
        options.json.write_text(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
