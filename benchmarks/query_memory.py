"""Memory of a query in the service, by policy and number of candidates, after 1,000 lists.

    python benchmarks/query_memory.py

Lists have ten positions; a third of them are clicked, anywhere. The first figure is what the service counts against
``memory`` (``driftrank_state_bytes``), the second what Python allocates for it when it is read from its snapshot.
"""

from __future__ import annotations

import argparse
import random
import tracemalloc

from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.registry import parse_policy
from driftrank.serve.log.records import Ranked
from driftrank.serve.ranking.choice import memo_of
from driftrank.serve.state.query import Query, new_learner

POLICIES = ("PriorRegimeTS", "CascadeTS", "CascadeRegimeTS", "CascadeSWUCB:window=24h")
CANDIDATES = (10, 50, 200, 1000)
LISTS = 1000


def query_of(policy_spec: str, n: int) -> Query:
    """A query after 1,000 lists of ``n`` candidates, as the service folds it."""
    policy, users = parse_policy(policy_spec), random.Random(n)
    items = [f"item-{m:06d}" for m in range(n)]
    shared = SharedModel(policy) if policy.shares else None
    learner = new_learner(policy, 10, () if policy.shares else items, None, 0, None, "shoes")
    query = Query(learner, 1)
    query.seen = dict.fromkeys(learner.items, 0.0)  # type: ignore[arg-type]
    for step in range(LISTS):
        now = 60.0 * step
        prior = None if shared is None else query.learner.prior(items, shared=shared)
        ranking = query.learner.rank(items, now=now, prior=prior)
        ranked = Ranked("r", "shoes", f"e{step}", now, step + 1, list(ranking), "", 0, asked=1, memo=memo_of(ranking))  # type: ignore[arg-type]
        query.offer(step + 2, ranked, 7 * 86_400.0)
        clicks = [users.randint(1, min(10, n))] if users.random() < 1 / 3 else []
        query.learn(ranking, clicks, now)  # type: ignore[arg-type]
        if shared is not None:
            shared.learn(ranking, clicks[0] if clicks else None)
    query.measure()
    return query


def allocated(packed: bytes, copies: int = 20) -> float:
    """The bytes that Python allocates for a query."""
    tracemalloc.start()
    queries = [Query.from_bytes(packed) for _ in range(copies)]
    size = tracemalloc.get_traced_memory()[0] / len(queries)
    tracemalloc.stop()
    return size


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("policy                    candidates  with a state  counted  allocated")
    for policy in POLICIES:
        for n in CANDIDATES:
            query = query_of(policy, n)
            sizes = query.nbytes / 1000, allocated(query.to_bytes()) / 1000
            print(f"{policy:24}  {n:10}  {len(query.seen):12}  {sizes[0]:4.0f} kB  {sizes[1]:6.0f} kB", flush=True)


if __name__ == "__main__":
    main()
