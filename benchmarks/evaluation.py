"""Off-policy evaluation: its speed, other packages on the same rows, and replay. Coverage: ``evaluation_coverage.py``.

    python benchmarks/evaluation.py models [--logs 500] [--lists 5000]
    python benchmarks/evaluation.py scale [--lists 30000000] [--queries 1000] [--folder DIR]
    python benchmarks/evaluation.py peers [--logs 20] [--lists 5000]
    python benchmarks/evaluation.py replay [--logs 4] [--lists 60000]

``models`` writes the logs of ``evaluation_coverage.py`` and evaluates them with all checks: how often the value was
refused, how often the interval of the click model held the truth in the logs whose checks it passed, and how often the
interval since the last change, as it was found, held the value that the target has at the end.

``scale`` writes a log of shuffled lists of ten, and evaluates the best list of three: seconds and processor seconds of
each step, in one process, and its peak memory.

``peers`` compares with Open Bandit Pipeline (obp) and VW's estimators (vw-estimators) where they define the same thing:
the values, the root mean square error beside that of the default estimator, and the time per log. Needs
``pip install obp vw-estimators``. Cascade-DR, the same as "published", is in obp 0.5.7, not in 0.4.1.

``replay`` shows why replay by lists is refused when users change: Thompson sampling with and without forgetting, in a
world that changes every 5,000 lists, by itself and by replay of uniform lists; and that replay by labels agrees with a
learner that runs by itself at the same pace.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import driftrank as dr  # noqa: E402
from benchmarks.evaluation_coverage import CELLS, WORLDS, World, batch_of, drawn_world, generator, sampled  # noqa: E402
from driftrank.evaluation.base import Batch, known_estimators  # noqa: E402
from driftrank.evaluation.rows import LogRows  # noqa: E402
from driftrank.evaluation.shadow import best_now  # noqa: E402
from tests.evaluation.worlds import ALPHA, CHANGED, LISTS, QUERIES, Drawn, K, L, write  # noqa: E402

# -- the click model -----------------------------------------------------------------------------------------------


def models(logs: int, lists: int) -> None:
    print(f"{logs} logs of {lists:,} lists each")
    print("| world | refused | click model covers | since the last change covers |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        for kind in WORLDS:
            refused, held, now = 0, [], []
            for seed in range(logs):
                world = drawn_world(generator(seed, kind), kind, lists)
                found = dr.evaluate(write(path, world.drawn, world.user), world.target)["rankings"]
                refused += found.value is None
                model = found.ladder["direct"]
                if model.low is not None and model.high is not None:
                    held.append(model.low <= world.value.mean() <= model.high)
                if found.now.low is not None and found.now.high is not None:
                    now.append(found.now.low <= world.value[-1] <= found.now.high)
            covers = [f"{np.mean(those):.3f} of {len(those)}" if those else "-" for those in (held, now)]
            print(f"| {kind} | {refused / logs:.3f} | {' | '.join(covers)} |", flush=True)


# -- speed ---------------------------------------------------------------------------------------------------------


def scale(lists: int, queries: int, folder: Path | None) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "log.parquet"
        dr.logs.generate(path, dr.environments.Stationary(dr.queries.yandex_like(queries)), lists, zipf=0.5)
        print(f"{lists:,} lists of ten of {queries:,} queries, {path.stat().st_size / 1e6:,.0f} MB")
        print("| step | seconds | processor seconds | peak GB |\n|---|---|---|---|")
        log = dr.logs.open_log(path)
        clock = Clock()
        with LogRows(log, 3) as rows:
            clock.print("queries and labels")
            from driftrank.evaluation.checks import check_log

            check_log(rows)
            clock.print("checks")
            target = rows.fixed_target(best_now(rows))
            found = rows.sums(target, known_estimators())
            clock.print("one target, all estimators")
        scope = found.scope(False)
        for key, estimator in known_estimators().items():
            values = scope.replicates(estimator)
            print(f"{key}: {values.value:.5f} +- {1.972 * values.error:.5f}")


class Clock:
    """Prints the time since the last call."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def print(self, step: str) -> None:
        wall, processor = time.perf_counter(), time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"| {step} | {wall - self.wall:.1f} | {processor - self.processor:.1f} | {peak:.2f} |", flush=True)
        self.wall, self.processor = wall, processor


# -- other packages ------------------------------------------------------------------------------------------------


def others(batch: Batch, world: World) -> Iterator[tuple[str, str, float, float]]:
    """Package, our estimator, their value, seconds."""
    from estimators.bandits import cs, ips, snips
    from obp.ope import SlateRewardInteractionIPS, SlateStandardIPS

    n = len(batch.first)
    slate, position = np.repeat(np.arange(n), K), np.tile(np.arange(K), n)
    reward = batch.clicked.astype(float).ravel()
    logging = np.cumprod(world.drawn.propensities, axis=1)  # probabilities of prefixes
    target = (batch.weight[:, 1:] > 0).astype(float)
    for ours, make, end in (("prefix", SlateRewardInteractionIPS, "_cascade"), ("list", SlateStandardIPS, "")):
        last = slice(None) if end else slice(K - 1, K)
        given = {
            f"pscore{end}": np.broadcast_to(logging[:, last], (n, K)).ravel(),
            f"evaluation_policy_pscore{end}": np.broadcast_to(target[:, last], (n, K)).ravel(),
        }
        begin = time.perf_counter()
        value = make(len_list=K).estimate_policy_value(slate_id=slate, reward=reward, position=position, **given)
        yield "obp", ours, float(value), time.perf_counter() - begin
    yield from cascade_dr(batch, world, logging, target)
    for ours, make in (("list", ips.Estimator), ("self-normalised", snips.Estimator)):
        begin = time.perf_counter()
        estimator = make()
        for w, r in zip(batch.weight[:, -1].tolist(), batch.reward.tolist(), strict=True):
            estimator.add_example(1.0, r, w)
        yield "vw-estimators", ours, float(estimator.get()), time.perf_counter() - begin
    begin = time.perf_counter()
    sequence = cs.Interval()
    for w, r in zip(batch.stopped.tolist(), batch.reward.tolist(), strict=True):
        sequence.add_example(1.0, r, w)
    low, _ = sequence.get()
    yield "vw-estimators", "empirical-bernstein", float(low), time.perf_counter() - begin


def cascade_dr(
    batch: Batch, world: World, logging: np.ndarray, target: np.ndarray
) -> Iterator[tuple[str, str, float, float]]:
    """The same for Cascade-DR, whose click model is given for every item at every position."""
    try:
        from obp.ope import SlateCascadeDoublyRobust
    except ImportError:
        return
    n, items = len(batch.first), LISTS[world.drawn.number]
    above = np.cumprod(np.column_stack([np.ones(n), 1 - batch.hazard]), axis=1)[:, :-1]
    # of the target's item, if those above are the target's; others have no weight
    chance = above * (1 - (1 - batch.hazard) * batch.rest[:, 1:])
    wanted = np.array([world.target[query] for query in QUERIES])[world.drawn.query]
    shows = (wanted[:, :, None] == np.arange(L)).astype(float)
    begin = time.perf_counter()
    value = SlateCascadeDoublyRobust(len_list=K, n_unique_action=L).estimate_policy_value(
        slate_id=np.repeat(np.arange(n), K), action=items.ravel(), reward=batch.clicked.astype(float).ravel(),
        position=np.tile(np.arange(K), n), pscore_cascade=logging.ravel(),
        evaluation_policy_pscore_cascade=target.ravel(), q_hat=(shows * chance[:, :, None]).ravel(),
        evaluation_policy_action_dist=shows.ravel(),
    )  # fmt: skip
    yield "obp", "published", float(value), time.perf_counter() - begin


def ours_of(batch: Batch) -> dict[str, tuple[float, float]]:
    """Our values, and seconds."""
    out = {}
    for key in ("prefix", "list", "self-normalised", "published"):
        begin = time.perf_counter()
        estimator = known_estimators()[key]
        value = estimator.value(estimator.columns(batch).sum(axis=0), np.array(float(len(batch.first))))
        out[key] = float(value), time.perf_counter() - begin
    begin = time.perf_counter()
    sequence = dr.evaluation.Sequence(kind="empirical-bernstein")
    sequence.add(batch.stopped * batch.reward, losses=batch.stopped * (1 - batch.reward))
    out["empirical-bernstein"] = sequence.interval()[0], time.perf_counter() - begin
    return out


def peers(logs: int, lists: int) -> None:
    rng = np.random.default_rng(23)
    apart: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    errors: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        for _ in range(logs):
            world = sampled(rng, lists, "stationary")
            batch, truth = batch_of(world, np.arange(lists) % CELLS.buckets), world.value.mean()
            ours = ours_of(batch)
            for package, key, value, seconds in others(batch, world):
                apart.setdefault((package, key), []).append((abs(value - ours[key][0]), seconds, ours[key][1]))
            write(path, world.drawn)
            for key, estimate in dr.evaluate(path, world.target, changes=0).ladder("rankings").items():
                if estimate.value is not None:
                    errors.setdefault(key, []).append(estimate.value - truth)
    print(f"{logs} logs of {lists:,} lists")
    print("| package | the same as | largest difference | their seconds | ours |\n|---|---|---|---|---|")
    for (package, key), rows in apart.items():
        difference, theirs, own = np.array(rows).T
        print(f"| {package} | {key} | {difference.max():.1e} | {np.median(theirs):.5f} | {np.median(own):.5f} |")
    print("\n| estimator | RMSE |\n|---|---|")
    for key, found in errors.items():
        print(f"| {key} | {np.sqrt(np.mean(np.square(found))):.4f} of {len(found)} |")


# -- replay --------------------------------------------------------------------------------------------------------

PERIOD = 5000


def replays(logs: int, lists: int) -> None:
    policies = {"CascadeTS": dr.CascadeTS(), "CascadeDTS:discount=0.99": dr.CascadeDTS(discount=0.99)}
    found: dict[str, dict[str, list[float]]] = {name: {} for name in policies}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        for n in range(logs):
            rng = np.random.default_rng([n, 31])
            number = rng.integers(0, len(LISTS), lists)
            alpha = np.where((np.arange(lists) // PERIOD % 2 == 0)[:, None], ALPHA[0], CHANGED[0])
            hits = rng.random((lists, K)) < np.take_along_axis(alpha, LISTS[number], axis=1)
            first = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, K + 1)
            uniform = np.tile(1 / (L - np.arange(K)), (lists, 1))
            write(path, Drawn(np.zeros(lists, int), number, first, uniform))
            for name, policy in policies.items():
                for kind in ("lists", "labels"):
                    got = dr.evaluate(path, policy, value_of="online", replay=kind, changes=0, seed=n).targets
                    (one,) = got.values()
                    found[name].setdefault(f"replay by {kind}", []).append(one.value or np.nan)
                pace = round(lists / one.whole.lists)
                found[name].setdefault("pace", []).append(pace)
                paced = by_itself(policy, rng, lists // pace, pace)
                found[name].setdefault("by itself, at the pace of labels", []).append(paced)
                found[name].setdefault("by itself", []).append(by_itself(policy, rng, 15_000, 1))
                quick = [by_itself(policy, rng, lists // 120, 120) for _ in range(10)]
                found[name].setdefault("by itself, 120 times as fast", []).extend(quick)
    print(f"{logs} logs of {lists:,} lists, a change every {PERIOD:,}; means and their errors")
    columns = (
        "by itself", "replay by lists", "by itself, 120 times as fast", "pace", "replay by labels",
        "by itself, at the pace of labels",
    )  # fmt: skip
    print(f"| policy | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, values in found.items():
        print(f"| {name} | " + " | ".join(mean_error(values[c]) for c in columns) + " |")


def mean_error(values: list[float]) -> str:
    return f"{np.mean(values):.4f} ({np.std(values, ddof=1) / np.sqrt(len(values)):.4f})"


def by_itself(policy: dr.Policy, rng: np.random.Generator, steps: int, faster: int) -> float:
    learner = policy.start(range(L), K, seed=int(rng.integers(1 << 30)))
    won = 0
    for t in range(steps):
        alpha = ALPHA[0] if faster * t // PERIOD % 2 == 0 else CHANGED[0]
        ranking = learner.rank()
        hits = np.flatnonzero(rng.random(K) < alpha[list(ranking)])
        won += len(hits) > 0
        learner.update(ranking, int(hits[0]) + 1 if len(hits) else None)
    return won / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("models", "scale", "peers", "replay"))
    parser.add_argument("--logs", type=int)
    parser.add_argument("--lists", type=int)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.what == "models":
        models(options.logs or 500, options.lists or 5000)
    elif options.what == "scale":
        scale(options.lists or 30_000_000, options.queries, options.folder)
    elif options.what == "peers":
        peers(options.logs or 20, options.lists or 5000)
    else:
        replays(options.logs or 4, options.lists or 60_000)


if __name__ == "__main__":
    main()
