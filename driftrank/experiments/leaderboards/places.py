"""The environments of a leaderboard, made from the suite's data or from specs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from driftrank.clickmodels.registry import parse_click_model
from driftrank.environments.base import Environment
from driftrank.environments.registry import registry, takes_queries
from driftrank.experiments.leaderboards.suite import ENTRIES, PARTS, SuiteEntry
from driftrank.experiments.simulation.settings import environment_of, name_of
from driftrank.queries import Queries, yandex_like
from driftrank.validation import check_integer, check_known

#: runs of Traffic for one run of the queries elsewhere
TRAFFIC_RUNS = 5


@dataclass(frozen=True)
class Place:
    """An environment in which policies are compared."""

    name: str
    part: str
    spec: str  #: repeats it with ``driftrank simulate --env``
    options: str  #: and these options, if they differ from those of the leaderboard
    what: str
    environment: Environment
    users: str  #: the click model, if it is not that of the queries
    k: int
    horizon: int
    runs: int  #: of every query


def places(names: Iterable[str], queries: Queries, k: int, horizon: int, runs: int, seed: int = 0) -> list[Place]:
    """Environments by their names in the suite or those of its parts (all of it if none is given), or by their specs.

    An environment with one query of its own gets as many runs as the others have queries and runs together; Traffic,
    whose runs have many queries, five for each.

    >>> queries = Queries.of([[0.5, 0.4, 0.3, 0.2, 0.1, 0.05], [0.4, 0.3, 0.3, 0.1, 0.1, 0.1]])
    >>> [(p.spec, p.runs) for p in places(["Abrupt", "BLB:L=8"], queries, k=2, horizon=5000, runs=3)]
    [('Abrupt:period=500', 3), ('BLB:L=8', 6)]
    """
    check_integer("horizon", horizon, 100)
    check_integer("runs", runs, 1)
    found: dict[str, Place] = {}
    for name in _expanded(names):
        part, entry = ENTRIES.get(name, ("", SuiteEntry(name, "", "")))
        place = _place(entry, part, queries, k, horizon, runs, seed)
        if name in found:
            raise ValueError(f"environments: {name} occurs twice")
        found[name] = place
    return list(found.values())


def _expanded(names: Iterable[str]) -> list[str]:
    """The names with the environments of a part in its place."""
    given = [name.strip() for name in names] or list(PARTS)
    return [own for name in given for own in ([e.name for e in PARTS[name].entries] if name in PARTS else [name])]


def _place(entry: SuiteEntry, part: str, queries: Queries, k: int, horizon: int, runs: int, seed: int) -> Place:
    """An environment of the suite; one of no part is given by its spec."""
    own, steps = _queries(entry, queries, seed), entry.horizon(horizon)
    shown = k if entry.k is None else min(entry.k, *map(len, own.attraction.values()))
    spec = entry.spec(len(own), shown, steps) if part else entry.name
    kind = name_of(spec)
    check_known("environment", kind, {*registry.all(), *ENTRIES, *PARTS})
    given: dict[str, Any] = {"queries": own, "k": shown} if takes_queries(kind) else {}
    if entry.users and not given:
        given["click_model"] = parse_click_model(entry.users)
    environment = environment_of(spec, **given)
    times = TRAFFIC_RUNS if environment.traffic else -(-len(own) // len(environment.queries))
    options = {
        "k": shown if takes_queries(kind) and shown != k else "",
        "click-model": f"'{entry.users}'" if ";" in entry.users else entry.users,
        "queries": f"yandex-like:{len(own)}x{entry.items}" if entry.items else "",
        "horizon": steps if steps != horizon else "",
    }
    return Place(
        entry.name,
        part or ("traffic" if environment.traffic else "change"),
        spec,
        " ".join(f"--{name} {value}" for name, value in options.items() if value),
        entry.what or _summary(environment),
        environment,
        entry.users,
        shown,
        steps,
        runs * times * entry.runs,
    )


def _queries(entry: SuiteEntry, queries: Queries, seed: int) -> Queries:
    """The queries of an environment: the leaderboard's, or as many with more items; with the environment's users."""
    n = min(len(queries), entry.queries or len(queries))
    own = queries if n == len(queries) else queries.first(n)
    if entry.items:
        own = yandex_like(n, seed, entry.items)
    return own.clicking(parse_click_model(entry.users)) if entry.users else own


def _summary(environment: Environment) -> str:
    """The first line of its docstring, for use inside a sentence."""
    line = (type(environment).__doc__ or "").strip().splitlines()[0].rstrip(".")
    return line[:1].lower() + line[1:]
