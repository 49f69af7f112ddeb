"""The standard suite: the environments of the leaderboard, in parts that are compared by themselves.

All of it is data. Times scale with the horizon, so that a run has as many epochs, cycles and arrivals whatever its
length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

#: the horizon that the steps of entries are given for
STEPS = 100_000


@dataclass(frozen=True)
class SuiteEntry:
    """An environment of the suite."""

    name: str
    environment: str
    what: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, int] = field(default_factory=dict)  #: in steps, of runs of ``steps``
    #: parameters of environments with their own queries that take the sizes of the others
    sizes: Mapping[str, str] = field(default_factory=dict)
    users: str = ""  #: the click model of all users; by default that of the queries
    k: int | None = None  #: positions; by default those of the leaderboard
    items: int | None = None  #: of every query, drawn like those of the web; by default the leaderboard's queries
    queries: int | None = None  #: at most so many
    steps: int = STEPS  #: of a run, if those of the leaderboard are 100,000
    scaled: bool = True  #: False: a run has ``steps`` whatever the horizon
    runs: int = 1  #: times those of the leaderboard

    def horizon(self, horizon: int) -> int:
        """The steps of a run, given those of the leaderboard."""
        return max(100, math.ceil(self.steps * horizon / STEPS)) if self.scaled else self.steps

    def spec(self, queries: int, k: int, horizon: int) -> str:
        """The environment as on the command line, for runs of ``horizon`` steps."""
        known = {"k": k, "queries": queries}
        numbers = {
            **self.fixed,
            **{key: known[what] for key, what in self.sizes.items()},
            **{key: max(1, math.ceil(steps * horizon / self.steps)) for key, steps in self.times.items()},
        }
        text = ",".join(f"{key}={str(value).lower()}" for key, value in numbers.items())
        return f"{self.environment}:{text}" if text else self.environment


@dataclass(frozen=True)
class Part:
    """A group of environments that is a leaderboard of its own."""

    title: str
    about: str
    entries: tuple[SuiteEntry, ...]


#: steps where users never cease to change: regret grows in proportion to time, so that more of them show nothing new
_ALWAYS = 30_000
#: steps with five of the changes that are ten in the usual number of steps
_HALF = 50_000


def _drift(shape: str, what: str, period: int) -> SuiteEntry:
    times = {"period": period, "block": 100}
    steps = _HALF if period > 10_000 else _ALWAYS
    return SuiteEntry(f"Drift-{shape}", "Drift", what, fixed={"shape": shape}, times=times, steps=steps)


_ABRUPT = SuiteEntry(
    "Abrupt",
    "Abrupt",
    "the paper's: in every other epoch three items outside the top k become very attractive (0.9)",
    times={"period": 10_000},
)
_HARDER = replace(
    _ABRUPT, name="Abrupt-0.5", what="the same with 0.5: changes that are harder to see", fixed={"boost": 0.5}
)
_BREAKS = SuiteEntry(
    "PiecewiseRandom",
    "PiecewiseRandom",
    "six times, at random steps, about half of the items move up or down",
    times={"horizon": 100_000, "spacing": 1000},
)
_LOW = SuiteEntry(
    "LowCTR",
    "LowCTR",
    "click-through rates of a news site: 1 to 8%, all of them new in each of nine segments",
    sizes={"K": "k"},
    times={"horizon": 100_000},
)
_SILENT = SuiteEntry(
    "Silent",
    "Silent",
    "only items outside the top k change: in every epoch another one joins the best",
    times={"period": 10_000},
)
_ORDER = SuiteEntry("OrderOnly", "OrderOnly", "the best items change places: nothing to gain", times={"period": 10_000})

CHANGE = (
    SuiteEntry("Stationary", "Stationary", "nothing changes"),
    _ABRUPT,
    _HARDER,
    _BREAKS,
    _drift("sinusoid", "every item rises and falls, each in its own time", 20_000),
    _drift("walk", "every item walks at random", 20_000),
    _drift("ramp", "every item moves in straight lines from level to level", 3000),
    _drift("budget", "one item after the other is a little better than by default", 1000),
    _LOW,
    *(
        SuiteEntry(
            f"Recurring-{n}", "Recurring", f"{name} regimes in turn", {"regimes": n}, {"period": 5000}, steps=_HALF
        )
        for n, name in ((2, "two"), (3, "three"))
    ),
    SuiteEntry(
        "Churn",
        "Churn",
        "items are replaced by new ones, announced to policies",
        times={"period": 2000},
        steps=_ALWAYS,
    ),
    SuiteEntry(
        "Churn-hidden",
        "Churn",
        "the same, not announced",
        fixed={"announced": False},
        times={"period": 2000},
        steps=_ALWAYS,
    ),
    replace(_SILENT, steps=_HALF),
    replace(_ORDER, steps=_HALF),
    SuiteEntry(
        "Scaling",
        "Scaling",
        "all items get worse by the same factor: nothing to gain",
        times={"period": 10_000},
        steps=_HALF,
    ),
    SuiteEntry(
        "GarivierMoulines",
        "GarivierMoulines",
        "one position; a middling item is the best for a fifth of the time",
        times={"horizon": _HALF},
        steps=_HALF,
    ),
    SuiteEntry(
        "LinearFeatures",
        "LinearFeatures",
        "50 items whose attraction their features explain; nothing changes",
        sizes={"K": "k", "n_queries": "queries"},
        steps=20_000,  # each takes as long as four with ten items
    ),
)


def position_bias(eta: float, k: int) -> str:
    """Users who examine position k with probability k^-eta, whatever they clicked."""
    return f"PBM:examination=[{';'.join(f'{n**-eta:.4g}' for n in range(1, k + 1))}]"


def _users(
    name: str, what: str, users: str, k: int, breaks: bool = False, steps: int = 20_000, **more: Any
) -> SuiteEntry:
    """Lists of users who may click several times."""
    same: dict[str, Any] = {"users": users, "k": k, "steps": steps, **more}
    if not breaks:
        return SuiteEntry(name, "Stationary", f"{what}; nothing changes", **same)
    changes = {"n_breakpoints": 4}
    times = {"horizon": steps, "spacing": 1000}
    return SuiteEntry(
        f"{name}-breaks", "PiecewiseRandom", f"{what}; four changes at random steps", changes, times, **same
    )


_READERS = (
    ("PBM-0.5", "position k is examined with probability k^-0.5", position_bias(0.5, 5)),
    ("PBM-1", "position k is examined with probability 1/k", position_bias(1.0, 5)),
    ("UBM", "examination depends on the position and the last click, as in the Yandex log", "UBM"),
    ("DBN", "users read from the top, and stop when satisfied or tired", "DBN:objective=clicks"),
    ("DCM", "users read from the top, and may go on after a click, as in the Yandex log", "DCM:objective=clicks"),
)
USERS = (
    *(
        _users(
            f"PBM-{eta:g}-K{k}",
            f"position k is examined with probability k^-{eta:g}",
            position_bias(eta, k),
            k,
            steps=20_000 if k == 5 else 10_000,
        )
        for eta in (0.5, 1.0)
        for k in (3, 5, 10)
    ),
    *(_users(name, what, users, 5) for name, what, users in _READERS[2:]),
    *(_users(name, what, users, 5, breaks=True) for name, what, users in _READERS),
)

#: users of the kinds on which nothing was chosen: other models, other parameters, other numbers of items and positions
_OTHERS = (
    ("PBM-0.75", "position k is examined with probability k^-0.75, as measured in web search", position_bias(0.75, 5)),
    (
        "CCM",
        "users read from the top, and go on after a click less often the more attractive the item",
        "CCM:objective=clicks,continue_no_click=0.9,continue_click_not_relevant=0.8,continue_click_relevant=0.4",
    ),
)


def _other(name: str, users: str, what: str, k: int) -> SuiteEntry:
    """Other numbers of positions; if there are many, twice as many items."""
    return _users(f"{name}-K{k}", what, users, k, steps=10_000 if k < 10 else 6000, items=20 if k > 5 else None)


_DBN, _DBN_IS = "DBN:objective=clicks,satisfaction=0.3,continuation=0.8", "satisfied by 3 of 10 clicks, go on with 0.8"
_DCM, _DCM_IS = "DCM:objective=clicks,stop_after_click=0.6", "leave after 6 of 10 clicks, wherever they are"
OTHERS = (
    *(_users(*other, 5, steps=10_000) for other in _OTHERS),
    *(_users(*other, 5, breaks=True, steps=10_000) for other in _OTHERS),
    *(_other("UBM", "UBM", "examination by position and last click", k) for k in (3, 10)),
    *(_other("DBN", _DBN, _DBN_IS, k) for k in (3, 10)),
    *(_other("DCM", _DCM, _DCM_IS, k) for k in (3, 10)),
    SuiteEntry(
        "PBM-L50-rare",
        "LowCTR",
        "5 of 50 items, attraction 0.1 to 3%, position k is examined with probability 1/k; nothing changes",
        {"L": 50, "K": 5, "low": 0.001, "high": 0.03, "flat": 0.0, "segments": 1},
        {"horizon": 10_000},
        users=position_bias(1.0, 5),
        steps=10_000,
    ),
)


def _known(entry: SuiteEntry) -> SuiteEntry:
    """A world of users for rivals who know how these read."""
    return replace(entry, name=f"{entry.name}-known")


KNOWN = tuple(_known(entry) for entry in USERS if entry.name in ("PBM-1-K5", "PBM-1-breaks", "DCM", "DCM-breaks"))


def _short(steps: int, runs: int) -> tuple[SuiteEntry, SuiteEntry]:
    same: dict[str, Any] = {"steps": steps, "scaled": False, "runs": runs}
    return (
        SuiteEntry(f"Short-{steps}", "Stationary", f"runs of {steps:,} lists; nothing changes", **same),
        SuiteEntry(
            f"Short-{steps}-change",
            "Abrupt",
            f"runs of {steps:,} lists; in the middle three items become very attractive",
            fixed={"period": steps // 2},
            **same,
        ),
    )


def _rare(name: str, what: str, segments: int) -> SuiteEntry:
    levels = {"low": 0.001, "high": 0.02, "flat": 0.0, "segments": segments}
    return SuiteEntry(name, "LowCTR", what, levels, {"horizon": _HALF}, {"K": "k"}, steps=_HALF)


SIZES = (
    SuiteEntry("Items-50", "Stationary", "5 of 50 items; nothing changes", items=50, k=5, steps=12_000),
    SuiteEntry(
        "Items-50-breaks",
        "PiecewiseRandom",
        "5 of 50 items; four changes at random steps",
        {"n_breakpoints": 4, "probability": 0.1},
        {"horizon": 12_000, "spacing": 1000},
        items=50,
        k=5,
        steps=12_000,
    ),
    SuiteEntry("Items-200", "Stationary", "10 of 200 items; nothing changes", items=200, k=10, steps=6000),
    *_short(200, 20),
    *_short(1000, 10),
    SuiteEntry(
        "Fast-all",
        "LowCTR",
        "every 100 steps all items are new: attraction 1 to 60%",
        {"low": 0.01, "high": 0.6, "flat": 0.0, "segments": 200, "horizon": 20_000},
        sizes={"K": "k"},
        steps=20_000,
    ),
    SuiteEntry("Fast-abrupt", "Abrupt", "the paper's changes, every 100 steps", fixed={"period": 100}, steps=20_000),
    SuiteEntry(
        "Blips",
        "Abrupt",
        "one item is very attractive for 30 of every 1,000 steps",
        fixed={"period": 970, "boosted_for": 30, "n_boosted": 1},
        steps=30_000,
    ),
    SuiteEntry(
        "Tied",
        "BLB",
        "three items at 20%, seven at 18%; nothing changes",
        {"L": 10, "delta": 0.02},
        sizes={"K": "k"},
        steps=_HALF,
        runs=2,
    ),
    _rare("Rare", "attraction 0.1 to 2%; nothing changes", 1),
    _rare("Rare-breaks", "attraction 0.1 to 2%, all of it new in each of five segments", 5),
)

#: of the worlds in which policies with the true number of changes, and tuned ones, are compared
CHANGES = 9


def _fair(entry: SuiteEntry, what: str = "", **fixed: Any) -> SuiteEntry:
    """A world with nine changes, beside the one without the name's ending."""
    return replace(entry, name=f"{entry.name}-fair", what=what or entry.what, fixed={**entry.fixed, **fixed})


FAIR = (
    _fair(_ABRUPT),
    _fair(_HARDER),
    _fair(_BREAKS, "nine times, at random steps, about half of the items move up or down", n_breakpoints=CHANGES),
    _fair(_LOW, "attraction 1 to 8%, all of it new in each of ten segments", segments=CHANGES + 1),
    _fair(_SILENT),
    _fair(_ORDER),
)


def _traffic(name: str, what: str, **fixed: Any) -> SuiteEntry:
    """Many short runs: with five long ones no permutation test could confirm a verdict."""
    same = {"n_queries": 300, **fixed}
    return SuiteEntry(f"Traffic-{name}", "Traffic", what, same, sizes={"K": "k"}, steps=20_000, runs=3)


TRAFFIC = (
    _traffic(
        "noisy",
        "the caller has a fair order, every query has items of its own, and users stop reading",
        catalogue=0,
        item_share=0,
        going_on=0.85,
    ),
    _traffic(
        "random",
        "the same with an order that means nothing, and users who read to the end",
        catalogue=0,
        item_share=0,
        caller="random",
    ),
    _traffic(
        "perfect",
        "the best order there is, items of its own for every query, and users who stop reading: nothing to gain",
        catalogue=0,
        item_share=0,
        going_on=0.85,
        caller="perfect",
    ),
    _traffic("shared", "no order; half of the variance belongs to items, which are shared by queries", caller="none"),
    _traffic(
        "position",
        "a fair order, shared items, and users who examine position k with probability 1/k and click several times",
        examination_power=1,
        after_click=1,
    ),
)

FEATURES = tuple(
    SuiteEntry(
        f"LTR-{name}",
        "LearningToRank",
        f"30 queries with 15 documents each, graded by a linear function of 6 features and noise; {what}",
        {"K": 5, "behaviour": name},
        steps=5000,
    )
    for name, what in (
        ("perfect", "users click what is good, and only that"),
        ("navigational", "users look for one document"),
        ("informational", "users look for several documents, and click much"),
    )
)

PARTS = {
    "change": Part(
        "Users who change",
        "Users read a list from the top to the first click (unless the queries have other click models), and change.",
        CHANGE,
    ),
    "users": Part(
        "Users who click several times",
        "Users by click model, who overlook low positions or click several times; regret is in clicks.",
        USERS,
    ),
    "others": Part(
        "Users of other kinds",
        "Constants of the default policy were chosen among users of the kinds above, with other queries and seeds "
        "(`python benchmarks/users.py development`). Nothing was chosen among these: another exponent, another model, "
        "other parameters, other numbers of positions and items.",
        OTHERS,
    ),
    "known": Part(
        "Rivals who know how users read",
        "Users of two worlds of each kind, as above. Policies for PBM and DCM have the true parameters of those users. "
        "Among the others, the same policies show what wrong knowledge costs.",
        KNOWN,
    ),
    "sizes": Part(
        "Sizes and times",
        "Many items, short runs, fast changes, short disturbances, items that are nearly tied, and rare clicks.",
        SIZES,
    ),
    "fair": Part(
        "Rivals with the true number of changes, and tuned",
        f"Worlds with {CHANGES} changes. The best rivals three times: with default parameters; with those that theory "
        f"recommends for the true number of changes (`n_breakpoints={CHANGES}`); and with the best of 32 settings "
        "on development worlds of other kinds (`python benchmarks/fair.py tune`), the order of the list among them. "
        "OracleRestart knows every change: as CascadeTS, with a prior Beta(1/2, 1/2) and that order, and as the usual "
        "policy itself; StaticOracle knows the best list that never changes.",
        FAIR,
    ),
    "traffic": Part(
        "Traffic",
        "All queries of a ranker in one run. Every policy has a state for each query, one with a shared model also "
        "that for all of them.",
        TRAFFIC,
    ),
    "features": Part(
        "Learning to rank by features",
        "One learner for the documents of all queries, so that what it learns of features from one query holds for the "
        "others. The data are made up (`driftrank.letor.generate`); `LearningToRank:data=FILE` reads real ones.",
        FEATURES,
    ),
}
#: by name
ENTRIES = {entry.name: (part, entry) for part, group in PARTS.items() for entry in group.entries}
