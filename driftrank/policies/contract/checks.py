"""The contract of policies, as functions that can be run on a policy of your own.

Run all of it at once, ``check_policy(MyPolicy())``, or let pytest show every check as a test::

    import pytest
    from driftrank.policies.contract.checks import CHECKS, applicable
    from mine import MyPolicy

    @pytest.mark.parametrize("check", applicable(MyPolicy()))
    def test_contract(check):
        CHECKS[check](MyPolicy())

With a plain version of the policy, written from its formulas, ``check_policy(MyPolicy(), reference=MyReference)`` also
checks that both make the same lists. A failed check raises ``AssertionError`` with policy, check and reason.

The simulator is not needed: the users come from small cascade worlds.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from driftrank.contracts import checks_in, require
from driftrank.kernels.rng import policy_key, run_key
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.contract.worlds import ITEMS, WORLDS, clicks_of, random_and_best, users, worth
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.learner.described import describe
from driftrank.policies.learner.learner import Learner, load
from driftrank.policies.learner.ranked_items import RankedItems
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.registry import PolicyLike, as_policy, parse_policy

#: the part of the gain from random lists to the best ones that a policy must reach in the worlds it claims
MARGIN = 0.1


class Reference(Protocol):
    """A plain version of a policy: items are 0 .. L-1, ``key`` is the step's randomness."""

    def rank(self, t: int, key: int) -> Sequence[int]: ...

    def update(self, t: int, ranking: Sequence[int], clicks: Sequence[int]) -> None: ...


def check_policy(policy: PolicyLike, reference: Callable[[int, int, int | None], Reference] | None = None) -> None:
    """Run every check that applies. ``reference`` makes a plain version of the policy from L, K and the horizon.

    >>> from driftrank.policies.stationary.random import Random
    >>> check_policy(Random())
    """
    policy = as_policy(policy)
    for check in applicable(policy).values():
        check(policy)
    if reference is not None:
        same_lists(policy, reference)


def applicable(policy: Policy) -> dict[str, Callable[[Policy], None]]:
    """The checks that apply to a policy; for an oracle, which cannot be started, only those of its description."""
    return {name: check for name, check in CHECKS.items() if not policy.oracle or name in _OF_ORACLES}


def same_lists(
    policy: Policy,
    reference: Callable[[int, int, int | None], Reference],
    *,
    L: int = 6,
    K: int = 3,
    steps: int = 400,
    seed: int = 0,
    known_horizon: bool = True,
) -> None:
    """The policy and its plain version make the same lists, whatever is clicked.

    Both get ``steps`` as their horizon, if ``known_horizon``.
    """
    horizon = steps if known_horizon else None
    learner = policy.start(range(L), K, seed=seed, horizon=horizon)
    plain = reference(L, K, horizon)
    generator = np.random.default_rng(seed)
    attraction = generator.permutation(np.linspace(0.05, 0.9, L))
    for t in range(1, steps + 1):
        if t % (steps // 3 + 1) == 0:
            attraction = generator.permutation(attraction)
        expected = [int(a) for a in plain.rank(t, policy_key(run_key(seed, "", 0), t))]
        ranking = learner.rank()
        require(list(ranking) == expected, f"step {t}: shows {list(ranking)}, its plain version {expected}")
        clicks = [int(u < attraction[a]) for u, a in zip(generator.random(K), expected, strict=True)]
        if generator.random() < 0.7:  # mostly the first click only, sometimes all of them
            clicks = [int(c and not any(clicks[:i])) for i, c in enumerate(clicks)]
        plain.update(t, expected, clicks)
        learner.update(ranking, clicks)


# -- the checks --------------------------------------------------------------------------------------------------------


def check_same_seed_same_run(policy: Policy) -> None:
    """Two learners with the same seed make the same lists and end in the same state, side by side."""
    first, second = _start(policy), _start(policy)
    for user in users(200):
        require(_step(first, user) == _step(second, user), f"different lists at step {first.steps}")
    require(_state(first) == _state(second), "different states after the same events")


def check_rank_is_pure(policy: Policy) -> None:
    """``rank`` and ``scores`` change nothing; a second call gives the same list."""
    learner = _start(policy)
    for user in users(60):
        before = _state(learner)
        ranking, again = learner.rank(), learner.rank()
        require(ranking == again, f"step {learner.steps + 1}: two calls of rank made {ranking} and {again}")
        require(_bits(ranking.memo) == _bits(again.memo), "two calls of rank made different memos")
        learner.rank(ITEMS[:2])
        learner.scores()
        require(_state(learner) == before, f"step {learner.steps + 1}: rank or scores changed the state")
        learner.update(ranking, clicks_of(ranking, user))


def check_lists_are_valid(policy: Policy) -> None:
    """Every list has k distinct items, for every k from 1 to the number of items, also after the horizon."""
    for L in (1, 2, 5):
        for k in range(1, L + 1):
            for horizon in (1, 3, 100):
                learner = _start(policy, ITEMS[:L], k, horizon=horizon)
                for user in users(40, seed=k):
                    _valid(_step(learner, user), ITEMS[:L], k)


def check_candidates_are_respected(policy: Policy) -> None:
    """``rank(candidates, k=...)`` shows at most k of these items; such lists can be learnt from too."""
    learner = _start(policy, k=4)
    generator = np.random.default_rng(0)
    for user in users(150):
        candidates = [str(item) for item in generator.permutation(ITEMS)[: generator.integers(1, len(ITEMS) + 1)]]
        k = int(generator.integers(1, 5))
        ranking = learner.rank(candidates, k=k)
        _valid(ranking, candidates, min(k, len(candidates)))
        learner.update(ranking, clicks_of(ranking, user))
        _valid(learner.rank(), ITEMS, 4)


def check_save_and_load_change_nothing(policy: Policy) -> None:
    """A learner that was saved and loaded, after items came and went, continues as though nothing had happened."""
    learner = _start(policy)
    _play(learner, users(100))
    learner.remove_items(["bee", "dog"])
    learner.add_items(["yak"])
    _play(learner, users(50, seed=1))
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "learner.npz")
        other = load(Path(folder) / "learner.npz")
    require(other.policy == policy, f"it was loaded as {other.policy.spec}")
    require(other.items == learner.items, "the items differ once loaded")
    require((other.k, other.steps) == (learner.k, learner.steps), "k or the steps differ once loaded")
    require(_state(other) == _state(learner), "the state differs once loaded")
    for user in users(100, seed=2):
        require(_step(learner, user) == _step(other, user), f"different lists at step {learner.steps}")
    for each in (learner, other):
        each.add_items(["bee", "zebra"])
    for user in users(30, seed=3):
        require(_step(learner, user) == _step(other, user), f"different lists after new items, step {learner.steps}")
    require(_state(other) == _state(learner), "the state differs some steps after loading")


def check_permuted_items_behave_permuted(policy: Policy) -> None:
    """The order of items or candidates makes no difference (with random ties)."""
    if "ties" in _parameters(policy):
        policy = policy.replace(ties="random")
    order = ("dog", "ant", "fox", "bee", "elk", "cat")
    first, second = _start(policy), _start(policy, order)
    for user in users(200):
        shown, other = first.rank(), second.rank()
        require(shown == other, f"step {first.steps + 1}: {shown}, but {other} with the items in another order")
        other = first.rank(order)
        require(shown == other, f"step {first.steps + 1}: {shown}, but {other} with the candidates in another order")
        for learner in (first, second):
            learner.update(learner.rank(), clicks_of(shown, user))


def check_late_and_lost_feedback(policy: Policy) -> None:
    """Feedback may come late, out of order, for a plain list, or never."""
    learner = _start(policy)
    pending: list[Any] = []
    generator = np.random.default_rng(0)
    for n, user in enumerate(users(200)):
        pending.append((learner.rank(), user))
        _valid(pending[-1][0], ITEMS, 2)
        if n % 4 == 0:
            pending.pop()  # lost
        while pending and generator.random() < 0.5:
            ranking, when = pending.pop(generator.integers(len(pending)))
            learner.update(list(ranking) if generator.random() < 0.5 else ranking, clicks_of(ranking, when))
    for ranking, user in reversed(pending):
        learner.update(ranking[::-1], clicks_of(ranking[::-1], user))
    _finite(learner)
    if policy.memo == 0:
        first, second = _start(policy), _start(policy)
        for user in users(50):
            _step(first, user)
            second.update(list(second.rank()), clicks_of(second.rank(), user))
        require(_state(first) == _state(second), "it learns something else from a plain list than from its own")


def check_feedback_forms_are_equivalent(policy: Policy) -> None:
    """The same clicks as a vector, an array, a position, an item or nothing have the same effect."""
    learners = [_start(policy) for _ in range(5)]
    for user in users(80):
        ranking = learners[0].rank()
        vector = clicks_of(ranking, user)
        position = vector.index(1) + 1 if any(vector) else len(vector) + 1
        clicked = ranking[position - 1] if any(vector) else None
        forms: list[dict[str, Any]] = [
            {"clicks": vector},
            {"clicks": np.array(vector, bool)},
            {"clicks": position},
            {"clicks": clicked},
            {"item": clicked},
        ]
        for learner, form in zip(learners, forms, strict=True):
            learner.update(learner.rank(), **form)
            require(_state(learner) == _state(learners[0]), f"{form} has another effect than {forms[0]}")


def check_state_is_bounded(policy: Policy) -> None:
    """With a horizon, the state keeps the size of its layout, from the first step to the last and beyond.

    Nothing is written outside of it, and new items use the slots of removed ones.
    """
    learner = _start(policy, horizon=300)
    sizes = learner.compiled.layout.sizes
    guards = [_guarded(learner, name) for name in ("_floats", "_ints")]
    for n, user in enumerate(users(400)):
        _step(learner, user)
        if n % 10 == 9:
            learner.remove_items([ITEMS[n % 5]])
            learner.add_items([ITEMS[n % 5]])
    require((learner._floats.size, learner._ints.size) == sizes, f"the state grew from {sizes}")
    require(learner.compiled.layout.sizes == sizes, "the layout grew although as many items were added as removed")
    for name, (whole, edge) in zip(("floats", "integers"), guards, strict=True):
        outside = np.concatenate((whole[:edge], whole[-edge:]))
        require(bool((outside == 77).all()), f"{name} were written outside of the state")


def check_numbers_are_finite(policy: Policy) -> None:
    """No NaN, and infinity only in fields that have it from the start, whatever users click."""
    everything, nothing = frozenset(ITEMS), frozenset[str]()
    for crowd in ([everything] * 150, [nothing] * 150, users(150), [nothing] * 75 + [everything] * 75):
        learner = _start(policy, horizon=150)
        infinite = _infinite(learner)
        for user in crowd:
            ranking = learner.rank()
            require(not np.isnan(ranking.scores).any(), f"step {learner.steps + 1}: ranks by NaN")
            learner.update(ranking, clicks_of(ranking, user))
            _finite(learner, infinite)


def check_items_come_and_go(policy: Policy) -> None:
    """A removed item is not shown; a new one can be shown at once, and is shown eventually."""
    learner = _start(policy)
    _play(learner, users(150))
    learner.remove_items(["cat", "elk"])
    left = [item for item in ITEMS if item not in ("cat", "elk")]
    for user in users(50, seed=1):
        _valid(_step(learner, user), left, 2)
    require("cat" not in learner.scores(), "a removed item still has a score")
    learner.add_items(["yak", "zebra", "emu"])  # one more than were removed, so that the state must grow
    require(learner.rank(["emu"]) == ["emu"], "a new item is not shown although it is the only candidate")
    unseen = {"yak", "zebra", "emu"}
    attraction = dict.fromkeys(left, 0.05) | dict.fromkeys(unseen, 0.8)
    for user in users(800, attraction, seed=2):
        ranking = _step(learner, user)
        _valid(ranking, [*left, "yak", "zebra", "emu"], 2)
        unseen -= set(ranking)
    require(not unseen or not policy.claims, f"new items were not shown once in 800 steps: {sorted(unseen)}")
    _finite(learner)


def check_item_that_returns_is_new(policy: Policy) -> None:
    """An item that was removed and added again is worth as much as an item never seen."""
    fresh = _start(policy)
    if len(set(fresh.scores().values())) > 1:
        return  # scores of new items differ
    for clicked in (True, False):
        learner = _start(policy)
        for _ in range(40):
            learner.update(["ant", "bee"], [int(clicked), 0])
        learner.remove_items(["ant"])
        learner.add_items(["ant", "yak"])  # one in its old slot, the other in an unused one
        scores = learner.scores()
        back, new = scores["ant"], scores["yak"]
        require(back == new, f"an item that was added again scores {back:g}, a new one {new:g}")


def check_beats_random(policy: Policy) -> None:
    """In every kind of world that the policy claims, its lists are worth more than random ones.

    If it fails at first, it gets four times as many steps: some policies learn slowly.
    """
    for kind in policy.claims:
        require(kind in WORLDS, f"claims {kind!r}: known kinds of world are {', '.join(WORLDS)}")
        part = _gain(policy, kind, 1)
        if part <= MARGIN:
            part = _gain(policy, kind, 4)
        require(part > MARGIN, f"{kind} world: it gains {part:.0%} of what the best lists gain over random ones")


def _gain(policy: Policy, kind: str, patience: int) -> float:
    """The worth of the policy's lists, from 0 for random ones to 1 for the best."""
    gained, possible = 0.0, 0.0
    place = {item: n for n, item in enumerate(ITEMS)}
    for seed in range(3):
        attraction, judged_from = WORLDS[kind](seed)
        attraction = attraction.repeat(patience, axis=0)
        learner = _start(policy, seed=seed, horizon=len(attraction))
        draws = np.random.default_rng(seed).random(attraction.shape)
        for t, (alpha, draw) in enumerate(zip(attraction, draws, strict=True)):
            shown = [place[item] for item in _step(learner, {ITEMS[a] for a in np.flatnonzero(draw < alpha)})]
            if t >= judged_from * patience:
                average, best = random_and_best(tuple(alpha), len(shown))
                gained += worth(alpha[shown]) - average
                possible += best - average
    return gained / possible


def check_spec_round_trips(policy: Policy) -> None:
    """The policy parsed from its spec is the same policy; so is a copy."""
    again = parse_policy(policy.spec)
    require(again == policy, f"{policy.spec!r} is parsed as {again!r}")
    require(policy.replace() == policy and hash(policy.replace()) == hash(policy), "a copy is not equal to it")
    require(type(policy)() == parse_policy(type(policy).__name__), "the name alone does not mean the defaults")


def check_bad_values_are_refused(policy: Policy) -> None:
    """An invalid value of a parameter raises a ``ValueError`` that names it."""
    for name, kinds in _parameters(policy).items():
        bad: list[Any] = ["nonsense", [], object()]
        if {int, float} & set(kinds):
            bad += [math.nan, -math.inf]
        if type(None) not in kinds:
            bad.append(None)
        for value in bad:
            try:
                policy.replace(**{name: value})
            except ValueError as error:
                require(name in str(error), f"{name}={value!r} is refused without naming {name}: {error}")
            except Exception as error:
                raise AssertionError(f"{name}={value!r} raises {error!r}, not a ValueError") from error
            else:
                raise AssertionError(f"{name}={value!r} is accepted")


def check_oracle_does_not_learn(policy: Policy) -> None:
    """An oracle cannot be started as a learner."""
    if policy.oracle:
        try:
            _start(policy)
        except ValueError:
            return
        raise AssertionError("it can be started although it is an oracle")


def _described(n: int) -> dict[str, Any]:
    """All that may be known of the items of a request and of the request, number ``n``."""
    return {
        "crosses": ["token"],
        "features": [{"kind": str(i % 2), "size": float(i * n)} for i in range(len(ITEMS))],
        "context": {"day": str(n % 7), "hour": n % 24},
        "scores": [float(i * i) for i in range(len(ITEMS))],
    }


def check_prior_is_pure(policy: Policy) -> None:
    """The shared model, if there is one, gives every item a proper prior, and is not changed by that."""
    if not _shares(policy):
        return
    model = SharedModel(policy)
    for query, ranking, clicks in _traffic(policy, model, 60):
        before = model.to_bytes()
        for ordered in (True, False):
            prior, again = (model.prior(describe(query, ITEMS, ordered=ordered, **_described(7))) for _ in range(2))
            require(_bits(prior.counts) == _bits(again.counts), "two calls gave different priors")
            proper = np.isfinite(prior.counts).all() and (prior.counts > 0).all()
            require(bool(proper), f"not a proper prior: {prior.counts.tolist()}")
            require(0 <= prior.going_on <= 1, f"users go on with probability {prior.going_on:g}")
        require(model.to_bytes() == before, "giving a prior changed the model")
        model.learn(ranking, clicks)


def check_folds_are_independent(policy: Policy) -> None:
    """Learners that were only given the priors, and a model that was only given the lists, end as both together do."""
    if not _shares(policy):
        return
    model, alone = SharedModel(policy), SharedModel(policy)
    together, apart = ({q: _open(policy, q) for q in _QUERIES} for _ in range(2))
    for learner in together.values():
        learner.shared = model
    lists = []
    for n, user in enumerate(users(200)):
        query = _QUERIES[n % len(_QUERIES)]
        known = _described(n) if n % 3 else {}
        ranking = together[query].rank(ITEMS, **known)
        other = apart[query].rank(ITEMS, prior=model.prior(describe(query, ITEMS, **known)))
        require(ranking == other, f"{ranking}, but {other} with the prior alone")
        clicks = clicks_of(ranking, user)
        together[query].update(ranking, clicks)
        apart[query].update(other, clicks)
        lists.append((ranking, clicks))
    for ranking, clicks in lists:
        alone.learn(ranking, clicks)
    require(alone.to_bytes() == model.to_bytes(), "replayed from its lists, the shared model differs")
    for query in _QUERIES:
        require(_state(apart[query]) == _state(together[query]), "with the priors alone, a query's state differs")


def check_state_of_observed_items_suffices(policy: Policy) -> None:
    """With a shared model, a learner that knows no items at first makes the lists of one that knows all."""
    if not _shares(policy):
        return
    models = SharedModel(policy), SharedModel(policy)
    some, every = _open(policy, "q"), policy.start(ITEMS, 2, seed=7, query="q", slots=len(ITEMS))
    some.shared, every.shared = models
    for user in users(200):
        shown, other = some.rank(ITEMS), every.rank(ITEMS)
        require(shown == other, f"step {some.steps + 1}: {shown}, but {other} if all items have a state")
        some.update(shown, clicks_of(shown, user))
        every.update(other, clicks_of(other, user))
    require(set(some.items) <= set(ITEMS), "it has a state of items that were never candidates")


# -- helpers -----------------------------------------------------------------------------------------------------------


def _start(policy: Policy, items: Sequence[str] = ITEMS, k: int = 2, *, seed: int = 7, horizon: int = 1000) -> Learner:
    learner: Learner = policy.start(items, k, seed=seed, horizon=horizon, query="checks")
    return learner


#: the queries that share a model
_QUERIES = ("q", "r")


def _shares(policy: Policy) -> bool:
    return CompiledPolicy.cached(policy, RankingProblem(len(ITEMS), 2, 1000, 1000)).shares


def _open(policy: Policy, query: str) -> Learner:
    """A learner that knows no items yet."""
    learner: Learner = policy.start((), 2, seed=7, query=query, slots=2)
    return learner


def _traffic(policy: Policy, model: SharedModel, steps: int) -> Iterable[tuple[str, RankedItems, list[int]]]:
    """Lists of some queries and their clicks, ranked with the prior of the model."""
    learners = {query: _open(policy, query) for query in _QUERIES}
    for n, user in enumerate(users(steps)):
        query = _QUERIES[n % len(_QUERIES)]
        ranking = learners[query].rank(ITEMS, prior=model.prior(describe(query, ITEMS)))
        clicks = clicks_of(ranking, user)
        yield query, ranking, clicks
        learners[query].update(ranking, clicks)


def _step(learner: Learner, user: Iterable[str]) -> list[Any]:
    ranking = learner.rank()
    learner.update(ranking, clicks_of(ranking, user))
    return ranking


def _play(learner: Learner, crowd: Iterable[Iterable[str]]) -> None:
    for user in crowd:
        _step(learner, user)


def _bits(values: NDArray[Any]) -> bytes:
    return values.tobytes()


def _state(learner: Learner) -> tuple[bytes, bytes]:
    return _bits(learner._floats), _bits(learner._ints)


def _valid(ranking: Sequence[Any], allowed: Sequence[str], k: int) -> None:
    good = len(ranking) == k and len(set(ranking)) == k and set(ranking) <= set(allowed)
    require(good, f"the list {list(ranking)} is not {k} distinct items of {list(allowed)}")


def _infinite(learner: Learner) -> set[str]:
    """The fields with an infinite value."""
    views = learner.compiled.layout.views(learner._floats, learner._ints)
    return {name for name, values in views.items() if np.isinf(values).any()}


def _finite(learner: Learner, infinite: set[str] | None = None) -> None:
    if infinite is None:
        infinite = _infinite(_start(learner.policy, horizon=learner.compiled.problem.horizon or 1000))
    views = learner.compiled.layout.views(learner._floats, learner._ints)
    for name, values in views.items():
        require(not np.isnan(values).any(), f"step {learner.steps}: {name} has NaN")
        if name not in infinite:
            require(not np.isinf(values).any(), f"step {learner.steps}: {name} has become infinite")
    for item, score in learner.scores().items():
        require(not math.isnan(score), f"step {learner.steps}: the score of {item!r} is NaN")


def _guarded(learner: Learner, name: str) -> tuple[NDArray[Any], int]:
    """Surround a row of the state by numbers that must not change."""
    row, edge = getattr(learner, name), 64
    whole = np.full(len(row) + 2 * edge, 77, row.dtype)
    whole[edge : edge + len(row)] = row
    setattr(learner, name, whole[edge : edge + len(row)])
    return whole, edge


def _parameters(policy: Policy) -> dict[str, tuple[Any, ...]]:
    """The parameters of a policy, with their types."""
    hints = typing.get_type_hints(type(policy))
    fields = dataclasses.fields(policy)
    return {f.name: typing.get_args(hints[f.name]) or (hints[f.name],) for f in fields if f.init}


#: every check, by name
CHECKS: dict[str, Callable[[Policy], None]] = checks_in(globals(), "check_policy", lambda policy: policy.spec)
_OF_ORACLES = {"spec_round_trips", "bad_values_are_refused", "oracle_does_not_learn"}
