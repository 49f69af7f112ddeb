"""Speed of converting logs and fitting click models, against a plain Python loop and as logs grow.

    python benchmarks/fitting.py scale [--lists 30000000] [--queries 100000] [--folder DIR]
    python benchmarks/fitting.py loop [--lists 100000]

``scale`` writes a log in the Yandex format (lists of ten results in many orders, users of the dependent click model,
queries of Zipf's frequencies), converts it to Parquet and fits models to the latter, each in its own process; for a
quarter, half and the whole of the lists, to show the growth of the cost. Prints seconds, the peak memory of the
process, and nanoseconds per list.

``loop`` fits PBM, UBM and DBN to the same sessions with a plain loop over sessions (tests/reference/em.py;
50 iterations, the usual number, extrapolated from a few) and with driftrank, from the Parquet file, counting included,
until EM has converged. Compilation and loading of data are not timed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

#: models that are fitted together, in one pass over the log
FITS = ("CM,DCM,SDBN", "PBM", "UBM")
#: iterations of the plain EM loop
ITERATIONS = 50


def convert(source: str, target: str) -> None:
    from driftrank.logs import convert as to_parquet

    report = to_parquet(source, target)
    assert not report.counts, report.describe()


def fit(log: str, names: str) -> None:
    from driftrank.clickmodels import click_models
    from driftrank.logs import open_log

    models = [click_models()[name] for name in names.split(",")]
    counts = open_log(log).counts(models[0].counts_for())
    for model in models:
        assert model.fit(counts).converged


def alone(*arguments: str) -> tuple[float, float]:
    """Run one step in its own process: seconds, and peak gigabytes."""
    text = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); import fitting, resource, time; "
        f"begin = time.perf_counter(); fitting.{arguments[0]}(*{list(arguments[1:])!r}); "
        "print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)"
    )
    out = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True).stdout.split()
    return float(out[-2]), float(out[-1])


def scale(lists: int, queries: int, folder: Path) -> None:
    from driftrank.clickmodels import DCM
    from driftrank.environments import Stationary
    from driftrank.logs import generate
    from driftrank.queries import yandex_like

    world = Stationary(yandex_like(queries), click_model=DCM())
    for n in (lists // 4, lists // 2, lists):
        text, table = folder / f"log{n}.txt", folder / f"log{n}.parquet"
        begin = time.perf_counter()
        generate(text, world, n, order="swapped", zipf=0.8)
        show(n, "generate", time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
        show(n, f"text ({text.stat().st_size / 1e9:.2f} GB) to Parquet", *alone("convert", str(text), str(table)))
        text.unlink()
        for names in FITS:
            show(n, f"fit {names}", *alone("fit", str(table), names))
        table.unlink()


def show(lists: int, what: str, seconds: float, gigabytes: float) -> None:
    each = seconds / lists * 1e9
    print(f"{lists:>11,} lists  {what:32} {seconds:8.1f} s {gigabytes:6.2f} GB {each:8.0f} ns/list", flush=True)


def loop(lists: int) -> None:
    from driftrank.clickmodels import DBN, PBM, UBM
    from driftrank.environments import Stationary
    from driftrank.logs import generate, open_log
    from driftrank.queries import yandex_like
    from tests.reference import em

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        generate(path, Stationary(yandex_like(100), click_model=DBN()), lists, order="swapped", zipf=0.8)
        log = open_log(path)
        with log.connect() as connection:
            rows = connection.execute(f"SELECT query, ranking, clicks FROM {log.relation}").fetchall()
        sessions = [(q, tuple(items), tuple(int(k in c) for k in range(1, len(items) + 1))) for q, items, c in rows]
        for model, plain in ((PBM, em.fit_pbm), (UBM, em.fit_ubm), (DBN, em.fit_dbn)):
            model.fit(log)  # compiles
            ratios = []
            for _ in range(3):  # alternately
                begin = time.perf_counter()
                plain(sessions, iterations=2)
                theirs = (time.perf_counter() - begin) / 2 * ITERATIONS
                begin = time.perf_counter()
                ours = model.fit(log)
                seconds = time.perf_counter() - begin
                ratios.append((theirs / seconds, theirs, seconds, ours.iterations))
            ratio, theirs, seconds, steps = sorted(ratios)[1]
            found[model.__name__] = ratio
            print(
                f"{model.__name__}: loop {theirs:.1f} s ({ITERATIONS} iterations), driftrank {seconds:.2f} s ({steps} "
                f"EM steps, counting included): {ratio:.0f} times",
                flush=True,
            )
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("scale", "loop"))
    parser.add_argument("--lists", type=int)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.what == "loop":
        loop(given.lists or 100_000)
    else:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            scale(given.lists or 30_000_000, given.queries, Path(folder))


if __name__ == "__main__":
    main()
