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

The simulator is not needed: the users come from small cascade worlds. Checks of learners are here, those of specs and
parameters in :mod:`driftrank.policies.contract.description_checks`, those of a shared model in
:mod:`driftrank.policies.contract.shared_model_checks`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from driftrank.contracts import checks_in, require
from driftrank.kernels.rng import policy_key, run_key
from driftrank.policies.base import Policy
from driftrank.policies.contract import description_checks, shared_model_checks
from driftrank.policies.contract.description_checks import check_bad_values_are_refused as check_bad_values_are_refused
from driftrank.policies.contract.description_checks import check_oracle_does_not_learn as check_oracle_does_not_learn
from driftrank.policies.contract.description_checks import check_spec_round_trips as check_spec_round_trips
from driftrank.policies.contract.description_checks import parameters_of
from driftrank.policies.contract.shared_model_checks import check_folds_are_independent as check_folds_are_independent
from driftrank.policies.contract.shared_model_checks import check_prior_is_pure as check_prior_is_pure
from driftrank.policies.contract.shared_model_checks import (
    check_state_of_observed_items_suffices as check_state_of_observed_items_suffices,
)
from driftrank.policies.contract.steps import (
    bits,
    guarded,
    infinite_fields,
    play,
    require_finite,
    require_valid,
    start,
    state_bits,
    step,
)
from driftrank.policies.contract.worlds import ITEMS, WORLDS, clicks_of, random_and_best, users, worth
from driftrank.policies.learner.learner import load
from driftrank.policies.registry import PolicyLike, as_policy

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
    return {name: check for name, check in CHECKS.items() if not policy.oracle or name in _OF_DESCRIPTIONS}


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


# -- checks of learners ------------------------------------------------------------------------------------------------


def check_same_seed_same_run(policy: Policy) -> None:
    """Two learners with the same seed make the same lists and end in the same state, side by side."""
    first, second = start(policy), start(policy)
    for user in users(200):
        require(step(first, user) == step(second, user), f"different lists at step {first.steps}")
    require(state_bits(first) == state_bits(second), "different states after the same events")


def check_rank_is_pure(policy: Policy) -> None:
    """``rank`` and ``scores`` change nothing; a second call gives the same list."""
    learner = start(policy)
    for user in users(60):
        before = state_bits(learner)
        ranking, again = learner.rank(), learner.rank()
        require(ranking == again, f"step {learner.steps + 1}: two calls of rank made {ranking} and {again}")
        require(bits(ranking.memo) == bits(again.memo), "two calls of rank made different memos")
        learner.rank(ITEMS[:2])
        learner.scores()
        require(state_bits(learner) == before, f"step {learner.steps + 1}: rank or scores changed the state")
        learner.update(ranking, clicks_of(ranking, user))


def check_lists_are_valid(policy: Policy) -> None:
    """Every list has k distinct items, for every k from 1 to the number of items, also after the horizon."""
    for L in (1, 2, 5):
        for k in range(1, L + 1):
            for horizon in (1, 3, 100):
                learner = start(policy, ITEMS[:L], k, horizon=horizon)
                for user in users(40, seed=k):
                    require_valid(step(learner, user), ITEMS[:L], k)


def check_candidates_are_respected(policy: Policy) -> None:
    """``rank(candidates, k=...)`` shows at most k of these items; such lists can be learnt from too."""
    learner = start(policy, k=4)
    generator = np.random.default_rng(0)
    for user in users(150):
        candidates = [str(item) for item in generator.permutation(ITEMS)[: generator.integers(1, len(ITEMS) + 1)]]
        k = int(generator.integers(1, 5))
        ranking = learner.rank(candidates, k=k)
        require_valid(ranking, candidates, min(k, len(candidates)))
        learner.update(ranking, clicks_of(ranking, user))
        require_valid(learner.rank(), ITEMS, 4)


def check_save_and_load_change_nothing(policy: Policy) -> None:
    """A learner that was saved and loaded, after items came and went, continues as though nothing had happened."""
    learner = start(policy)
    play(learner, users(100))
    learner.remove_items(["bee", "dog"])
    learner.add_items(["yak"])
    play(learner, users(50, seed=1))
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "learner.npz")
        other = load(Path(folder) / "learner.npz")
    require(other.policy == policy, f"it was loaded as {other.policy.spec}")
    require(other.items == learner.items, "the items differ once loaded")
    require((other.k, other.steps) == (learner.k, learner.steps), "k or the steps differ once loaded")
    require(state_bits(other) == state_bits(learner), "the state differs once loaded")
    for user in users(100, seed=2):
        require(step(learner, user) == step(other, user), f"different lists at step {learner.steps}")
    for each in (learner, other):
        each.add_items(["bee", "zebra"])
    for user in users(30, seed=3):
        require(step(learner, user) == step(other, user), f"different lists after new items, step {learner.steps}")
    require(state_bits(other) == state_bits(learner), "the state differs some steps after loading")


def check_permuted_items_behave_permuted(policy: Policy) -> None:
    """The order of items or candidates makes no difference (with random ties)."""
    if "ties" in parameters_of(policy):
        policy = policy.replace(ties="random")
    order = ("dog", "ant", "fox", "bee", "elk", "cat")
    first, second = start(policy), start(policy, order)
    for user in users(200):
        shown, other = first.rank(), second.rank()
        require(shown == other, f"step {first.steps + 1}: {shown}, but {other} with the items in another order")
        other = first.rank(order)
        require(shown == other, f"step {first.steps + 1}: {shown}, but {other} with the candidates in another order")
        for learner in (first, second):
            learner.update(learner.rank(), clicks_of(shown, user))


def check_late_and_lost_feedback(policy: Policy) -> None:
    """Feedback may come late, out of order, for a plain list, or never."""
    learner = start(policy)
    pending: list[Any] = []
    generator = np.random.default_rng(0)
    for n, user in enumerate(users(200)):
        pending.append((learner.rank(), user))
        require_valid(pending[-1][0], ITEMS, 2)
        if n % 4 == 0:
            pending.pop()  # lost
        while pending and generator.random() < 0.5:
            ranking, when = pending.pop(generator.integers(len(pending)))
            learner.update(list(ranking) if generator.random() < 0.5 else ranking, clicks_of(ranking, when))
    for ranking, user in reversed(pending):
        learner.update(ranking[::-1], clicks_of(ranking[::-1], user))
    require_finite(learner)
    if policy.memo == 0:
        first, second = start(policy), start(policy)
        for user in users(50):
            step(first, user)
            second.update(list(second.rank()), clicks_of(second.rank(), user))
        require(state_bits(first) == state_bits(second), "it learns something else from a plain list than from its own")


def check_feedback_forms_are_equivalent(policy: Policy) -> None:
    """The same clicks as a vector, an array, a position, an item or nothing have the same effect."""
    learners = [start(policy) for _ in range(5)]
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
            require(state_bits(learner) == state_bits(learners[0]), f"{form} has another effect than {forms[0]}")


def check_state_is_bounded(policy: Policy) -> None:
    """With a horizon, the state keeps the size of its layout, from the first step to the last and beyond.

    Nothing is written outside of it, and new items use the slots of removed ones.
    """
    learner = start(policy, horizon=300)
    sizes = learner.compiled.layout.sizes
    guards = [guarded(learner, name) for name in ("_floats", "_ints")]
    for n, user in enumerate(users(400)):
        step(learner, user)
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
        learner = start(policy, horizon=150)
        infinite = infinite_fields(learner)
        for user in crowd:
            ranking = learner.rank()
            require(not np.isnan(ranking.scores).any(), f"step {learner.steps + 1}: ranks by NaN")
            learner.update(ranking, clicks_of(ranking, user))
            require_finite(learner, infinite)


def check_items_come_and_go(policy: Policy) -> None:
    """A removed item is not shown; a new one can be shown at once, and is shown eventually."""
    learner = start(policy)
    play(learner, users(150))
    learner.remove_items(["cat", "elk"])
    left = [item for item in ITEMS if item not in ("cat", "elk")]
    for user in users(50, seed=1):
        require_valid(step(learner, user), left, 2)
    require("cat" not in learner.scores(), "a removed item still has a score")
    learner.add_items(["yak", "zebra", "emu"])  # one more than were removed, so that the state must grow
    require(learner.rank(["emu"]) == ["emu"], "a new item is not shown although it is the only candidate")
    unseen = {"yak", "zebra", "emu"}
    attraction = dict.fromkeys(left, 0.05) | dict.fromkeys(unseen, 0.8)
    for user in users(800, attraction, seed=2):
        ranking = step(learner, user)
        require_valid(ranking, [*left, "yak", "zebra", "emu"], 2)
        unseen -= set(ranking)
    require(not unseen or not policy.claims, f"new items were not shown once in 800 steps: {sorted(unseen)}")
    require_finite(learner)


def check_item_that_returns_is_new(policy: Policy) -> None:
    """An item that was removed and added again is worth as much as an item never seen."""
    fresh = start(policy)
    if len(set(fresh.scores().values())) > 1:
        return  # scores of new items differ
    for clicked in (True, False):
        learner = start(policy)
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
        learner = start(policy, seed=seed, horizon=len(attraction))
        draws = np.random.default_rng(seed).random(attraction.shape)
        for t, (alpha, draw) in enumerate(zip(attraction, draws, strict=True)):
            shown = [place[item] for item in step(learner, {ITEMS[a] for a in np.flatnonzero(draw < alpha)})]
            if t >= judged_from * patience:
                average, best = random_and_best(tuple(alpha), len(shown))
                gained += worth(alpha[shown]) - average
                possible += best - average
    return gained / possible


def _spec(policy: Policy) -> str:
    return policy.spec


_OF_DESCRIPTIONS: dict[str, Callable[[Policy], None]] = checks_in(vars(description_checks), "check_policy", _spec)
#: every check, by name
CHECKS: dict[str, Callable[[Policy], None]] = {
    **checks_in(globals(), "check_policy", _spec),
    **_OF_DESCRIPTIONS,
    **checks_in(vars(shared_model_checks), "check_policy", _spec),
}
