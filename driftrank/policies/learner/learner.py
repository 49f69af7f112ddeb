"""A learner: a policy and its state for one query."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.rng import key_of, policy_key, run_key
from driftrank.policies.alarms import Alarm, forget_alarms, read_alarms
from driftrank.policies.base import EarlierState, Policy, RankingProblem, check_policy
from driftrank.policies.estimates import Belief, belief
from driftrank.policies.learner import serialization, templates
from driftrank.policies.learner.beliefs_table import beliefs_table
from driftrank.policies.learner.candidate_prior import check_prior, described_offer, filled, model_prior, with_prior
from driftrank.policies.learner.click_vector import click_vector
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.learner.features import feature_rows, one_hot
from driftrank.policies.learner.item_slots import ItemSlots, Offer, distinct
from driftrank.policies.learner.ranked_items import Item, RankedItems, described_at
from driftrank.policies.learner.saved_learner import SavedLearner
from driftrank.policies.learner.shared_model import Prior, SharedModel
from driftrank.reporting.table import Table
from driftrank.validation import check_integer

_NO_KEY = np.uint64(0)
#: approximate bytes of a learner's objects other than its state and items
_OTHER_BYTES = 1500
#: slots added at a time to a learner that gives them to items when they are observed
_MORE_SLOTS = 8


class Learner:
    """Ranks items and learns from clicks. Made by ``policy.start(items, k)``.

    ``rank`` does not change the learner, so feedback may come late, out of order, or never.

    If its policy has a shared model and it was started with ``slots``, candidates need not be known: an item gets a
    slot in the state when it is first observed, and is ranked by its prior until then.
    """

    def __init__(
        self,
        policy: Policy,
        items: Iterable[Item],
        k: int,
        *,
        features: Any = None,
        seed: int = 0,
        horizon: int | None = None,
        query: str = "",
        run: int = 0,
        slots: int | None = None,
        shared: SharedModel | None = None,
    ) -> None:
        check_policy(policy)
        if policy.oracle:
            raise ValueError(f"{policy.spec}: must not be an oracle, as only a simulation knows the truth")
        self.policy = policy
        known = distinct(items)
        self._sparse = slots is not None  # True if there may be fewer items than positions
        L = len(known)
        if slots is not None:
            check_integer("slots", slots, 1)
            L = max(L, slots)
            if isinstance(k, int) and k > L:
                raise ValueError(f"slots={slots!r}: must be at least k={k}")
        rows = None
        if policy.contextual:
            rows = one_hot(L) if features is None else feature_rows(known, features)
        elif features is not None:
            raise ValueError(f"features: {policy.spec} does not use features")
        self._slots = ItemSlots.of(known, L)
        self._described = features is not None
        problem = RankingProblem(L, k, horizon, horizon, 0 if rows is None else rows.shape[1])
        check_integer("seed", seed, 0)
        check_integer("run", run, 0)
        self._key, self._query = run_key(seed, query, run), key_of(query)
        self._where = {"seed": seed, "query": query, "run": run}
        self.steps = 0  #: updates so far
        self._compile(CompiledPolicy.cached(policy, problem))
        if not isinstance(shared, SharedModel | None):
            raise ValueError(f"shared={shared!r}: must be a SharedModel")
        if shared is not None and shared.policy != policy:
            raise ValueError(f"shared: the model of {shared.policy.spec}, not of {policy.spec}")
        self.shared = shared  #: the model that gives priors to its items, and learns from its lists
        self._floats, self._ints = self.compiled.empty()
        if rows is not None:
            self._views()["features"][: len(rows)] = rows
        # every slot starts as though it held an item; then the free ones are cleared
        self._call(
            templates.init_step,
            self._event(None, None),
            self.compiled.everyone,
            self._slots.token,
            self.compiled.unknown,
            0.0,
            0.0,
        )
        self._forget(self._slots.free)

    def __repr__(self) -> str:
        query = f", query {self._where['query']!r}" if self._where["query"] else ""
        return (
            f"<Learner {self.policy.spec}: k={self.k}, {len(self._slots.slot_of)} items, {self.steps} updates{query}>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>\n{self.table().to_html()}"

    def table(self, most: int = 20) -> Table:
        """The items with the largest estimates, and the observations behind these; ``most`` items at most.

        >>> import driftrank as dr
        >>> learner = dr.CascadeUCB1().start(["a", "b", "c"], k=2)
        >>> learner.update(["a", "b"], "b")
        >>> learner.table(most=2)
        item        estimate  observations
        ----------  --------  ------------
        b             1.0000             1
        a             0.0000             1
        and 1 more         –             –
        """
        check_integer("most", most, 1)
        return beliefs_table(self.beliefs(), most)

    # -- use -------------------------------------------------------------------------------------------------------

    @property
    def items(self) -> list[Item]:
        """The items that it can show."""
        return list(self._slots.slot_of)

    def __contains__(self, item: object) -> bool:
        """True if the learner has a state of this item."""
        return item in self._slots.slot_of

    @property
    def open(self) -> bool:
        """True if candidates may be any items: they get a state when they are observed."""
        return self._sparse and self.compiled.shares

    @property
    def k(self) -> int:
        return self.compiled.problem.K

    def key_at(self, n: int) -> int:
        """The randomness of draw ``n``, for ``rank(key=...)``; by default the list of step t uses draw t."""
        check_integer("n", n, 0, 2**64 - 1)
        return policy_key(self._key, n)

    @property
    def alarms(self) -> list[Alarm]:
        """The latest changes that the policy has detected, oldest first."""
        return read_alarms(self._views(), self._slots.names)

    @property
    def detects(self) -> bool:
        """True if the policy detects changes."""
        return "alarms" in self.compiled.layout.begins

    @property
    def alarm_count(self) -> int:
        """The number of changes that the policy has detected so far."""
        at = self.compiled.layout.begins.get("alarms")
        return 0 if at is None else int(self._ints[at])

    def rank(
        self,
        candidates: Sequence[Item] | None = None,
        *,
        k: int | None = None,
        now: float | None = None,
        key: int | None = None,
        ordered: bool = True,
        dense: Any = None,
        crosses: Sequence[str | int] = (),
        features: Any = None,
        context: Any = None,
        scores: Any = None,
        prior: Prior | None = None,
    ) -> RankedItems:
        """The list to show.

        ``candidates`` limits it to some of the items, ``k`` makes it shorter, ``now`` is the time (the step by
        default), ``key`` its randomness (by default from the learner's seed and step: a second call returns the same).

        With a shared model, the order of the candidates is the caller's unless ``ordered`` is False; ``dense``,
        ``crosses``, ``features``, ``context`` and ``scores`` describe them as for
        :func:`~driftrank.policies.learner.described.describe`. ``prior`` replaces what the model says.
        """
        compiled = self.compiled
        offer = self._slots.candidates(candidates)
        slots = offer.slots
        length = compiled.problem.K
        if k is not None:
            check_integer("k", k, 1, length)
            length = k
        length = min(length, len(slots))
        items = slots[:length].copy()  # the search may start from any list of candidates
        score = np.zeros(length)
        memo = filled(length * self.policy.memo, -1.0)
        event = self._event(now, key)
        prior = self._prior(
            offer, prior, ordered=ordered, dense=dense, crosses=crosses, features=features, context=context,
            scores=scores,
        )  # fmt: skip
        scratch = np.empty(compiled.scratch_for(len(offer.token)))
        self._call(templates.rank_step, event, *with_prior(self.compiled, offer, prior), items, score, memo, scratch)
        propensities = memo[:: self.policy.memo].copy() if self.policy.propensities else None
        names = offer.names
        ranking = RankedItems([names[i] for i in items.tolist()], score, memo, int(event[2]), propensities)
        ranking._slots, ranking._table = items, self._slots.table
        ranking.explored = self.policy.explored(score, memo)
        if prior is not None:
            ranking.describe(prior.described, offer.place[items])
        return ranking

    def adopt(
        self, items: Sequence[Item], *, now: float | None = None, key: int | None = None, prior: Prior | None = None
    ) -> RankedItems:
        """A list that was made elsewhere, with what the policy notes when it makes one.

        Its policy must have a shared model: the notes of such a policy do not depend on positions. ``prior`` is that of
        the items; by default they are taken to be in the caller's order.
        """
        if not self.compiled.shares:
            raise ValueError(f"policy={self.policy.spec}: must be a policy with a shared model")
        ranking = self.rank(items, k=len(items), now=now, key=key, prior=prior)
        at = {item: n for n, item in enumerate(ranking)}
        order = np.array([at[item] for item in items])
        described = None if ranking.described is None else described_at(ranking.described, order)
        memo = ranking.memo.reshape(len(items), -1)[order].ravel()
        return RankedItems(items, ranking.scores[order], memo, ranking.key, described=described)

    def prior(
        self,
        candidates: Sequence[Item] | None = None,
        *,
        shared: SharedModel | None = None,
        **description: Any,
    ) -> Prior:
        """The prior of candidates in the caller's order, from ``shared`` or the learner's own model.

        They are described by keywords as for :func:`~driftrank.policies.learner.described.describe`.
        """
        shared = shared or self.shared
        if shared is None:
            raise ValueError("shared: must be given to a learner without a shared model")
        return shared.prior(described_offer(self._query, self._slots.candidates(candidates), description))

    def update(
        self, ranking: Sequence[Item], clicks: Any = None, *, item: Item | None = None, now: float | None = None
    ) -> None:
        """Learn from the clicks on a list.

        ``clicks`` is a 0/1 vector as long as the list, or the position of the click (1 is the top, one more than the
        length means none), or the clicked item, or None for no click. ``item`` is the clicked item, for items that
        are numbers themselves. With a shared model, that learns as well.
        """
        slots, memo, score, key = None, None, None, None
        if isinstance(ranking, RankedItems):
            key = ranking.key
            if ranking.intact:
                memo, score = ranking.memo, ranking.scores
                if ranking._table is self._slots.table and len(set(ranking)) == len(ranking):
                    slots = ranking._slots
        if slots is None:
            slots = self._slots.slots_of(ranking)
        n = len(slots)
        if n > self.compiled.problem.K:
            raise ValueError(f"ranking has {n} items: this learner shows at most k={self.k}")
        shown = ranking if isinstance(ranking, list) else list(ranking)
        vector = click_vector(shown, item if item is not None else clicks, is_item=item is not None)
        if memo is None or score is None or memo.shape != (n * self.policy.memo,):
            memo, score = filled(n * self.policy.memo, -1.0), np.zeros(n)
        elif not memo.flags.carray:  # a read-only or strided view: kernels need an array
            memo = memo.copy()
        event = self._event(now, key)
        if self.shared is not None and isinstance(ranking, RankedItems):
            self.shared.learn(ranking, vector)
        if self.open:
            slots = self._admitted(shown, slots, event[2], memo, vector)
        self._call(templates.update_step, event, slots, score, memo, vector)
        self.steps += 1
        if self._full is not None and self.steps >= self._full:
            self._grow()

    def scores(self, *, now: float | None = None) -> dict[Item, float]:
        """The worth of every item to the policy: its index, or its estimate if the index is random."""
        if not self._slots.slot_of:
            return {}
        offer = self._slots.candidates(None)
        out = np.zeros(len(offer.slots))
        prior = with_prior(self.compiled, offer, self._prior(offer, None))
        self._call(templates.scores_step, self._event(now, None), *prior, out)
        return dict(zip(self._slots.slot_of, out.tolist(), strict=True))

    def beliefs(
        self,
        candidates: Sequence[Item] | None = None,
        *,
        now: float | None = None,
        prior: Prior | None = None,
        **description: Any,
    ) -> dict[Item, Belief]:
        """The policy's belief about every item, or every candidate: estimate, bonus, samples and score.

        With a shared model also the mean and strength of the prior, which are those that ``rank`` would use for
        candidates that are described by the same keywords, and what the columns of the model add to its logit.

        >>> import driftrank as dr
        >>> learner = dr.CascadeUCB1().start(["a", "b"], k=1)
        >>> for clicked in ("a", None):
        ...     learner.update(["a"], clicked)
        >>> learner.beliefs()["a"].estimate, learner.beliefs()["a"].samples
        (0.5, 2.0)
        """
        if not self._slots.slot_of and candidates is None:
            return {}
        offer = self._slots.candidates(candidates)
        n = len(offer.slots)
        estimate, samples, score = (np.zeros(n) for _ in range(3))
        event = self._event(now, None)
        prior = self._prior(offer, prior, **description)
        arguments = with_prior(self.compiled, offer, prior)
        self._call(templates.believe_step, event, *arguments, estimate, samples)
        self._call(templates.scores_step, event, *arguments, score)
        of_prior: Iterable[tuple[Any, Any, Any]] = repeat((None, None, None), n)
        if prior is not None:
            of_prior = zip(prior.mean.tolist(), prior.strength.tolist(), prior.because(), strict=True)
        learnt = zip(estimate.tolist(), samples.tolist(), score.tolist(), strict=True)
        rows = [(*counted, *known) for counted, known in zip(learnt, of_prior, strict=True)]
        optimistic = self.policy.optimistic
        return {offer.names[slot]: belief(*row, optimistic) for slot, row in zip(offer.slots, rows, strict=True)}

    def greedy(
        self,
        candidates: Sequence[Item] | None = None,
        k: int | None = None,
        *,
        seen: bool = False,
        prior: Prior | None = None,
        **description: Any,
    ) -> list[Item]:
        """The items with the largest estimates, without exploration.

        Equal items keep the order of the candidates. So do items never seen, which come last, or are left out with
        ``seen``; with a shared model, their prior is their estimate. For a policy that estimates nothing (see
        :class:`Belief`), its scores are used.
        """
        compiled = self.compiled
        offer = self._slots.candidates(candidates)
        slots = offer.slots
        arguments = with_prior(self.compiled, offer, self._prior(offer, prior, **description))
        if k is None:
            k = compiled.problem.K
        else:
            check_integer("k", k, 1)
        k = min(k, len(slots))
        t = self.steps + 1
        event = t, float(t), _NO_KEY
        if compiled.estimates:
            best, estimate = np.empty(k, np.uint32), np.empty(k)
            self._call(templates.greedy_step, event, *arguments, best, estimate)
            if seen and estimate[-1] == -np.inf:
                best = best[estimate > -np.inf]
        else:
            score = np.zeros(len(slots))
            self._call(templates.scores_step, self._event(None, None), *arguments, score)
            best = slots[np.argsort(-score, kind="stable")[:k]]
        return [offer.names[slot] for slot in best.tolist()]

    # -- change of items -------------------------------------------------------------------------------------------

    def add_items(self, items: Iterable[Item], *, features: Any = None) -> None:
        """Add items that were never seen; with features if the other items have them."""
        new = distinct(items)
        for item in new:
            if item in self._slots.slot_of:
                raise ValueError(f"items: {item!r} already exists")
        rows = self._new_features(new, features)
        if new:
            self._add(new, rows)

    def _add(self, new: list[Item], rows: NDArray[np.float64] | None, more: int = 0) -> None:
        """Add new items, with ``more`` free slots if there are not enough."""
        spare: list[int] = []
        missing = len(new) - len(self._slots.free)
        if missing > 0:
            self._widen(len(self._slots) + missing + more, self.k)
            spare = self._slots.free[len(new) :]
        slots = self._slots.take(new)
        if self.policy.contextual:
            table = self._views()["features"]
            table[slots] = np.eye(len(table))[slots] if rows is None else rows
        self._forget(slots + spare)

    def _widen(self, slots: int, k: int) -> None:
        """Have so many slots and positions; new slots are free."""
        width = self.compiled.problem.features
        if width and not self._described:
            width = len(one_hot(slots))
        self._slots.widen(slots)
        self._relayout(replace(self.compiled.problem, L=slots, K=k, features=width))

    def renew(self, items: Iterable[Item], *, features: Any = None) -> None:
        """Forget everything learnt about items, because they have become others."""
        renewed = distinct(items)
        slots = [self._slots.slot(item) for item in renewed]
        rows = None if features is None else self._new_features(renewed, features)
        if rows is not None:
            self._views()["features"][slots] = rows
        self._forget(slots)

    def describe(self, items: Iterable[Item], features: Any) -> None:
        """Change the features of items; nothing learnt is forgotten."""
        known = distinct(items)
        slots = [self._slots.slot(item) for item in known]
        if not self._described and features is None:
            raise ValueError("features: must be given")
        rows = self._new_features(known, features)
        if rows is not None:
            self._views()["features"][slots] = rows
            self._call(templates.features_changed_step, self._event(None, None), np.array(slots, np.uint32))

    def remove_items(self, items: Iterable[Item]) -> None:
        """Remove items, and forget everything learnt about them."""
        gone = [self._slots.slot(item) for item in distinct(items)]
        if len(self._slots.slot_of) - len(gone) < self.k and not self._sparse:
            raise ValueError(f"items: {len(self._slots.slot_of) - len(gone)} would be left, fewer than k={self.k}")
        self._slots.release(gone)
        self._forget(gone)

    def resized(self, k: int) -> Learner:
        """An independent copy that can show more items, up to ``k``, and has learnt the same.

        Raises ValueError if the policy's state for another ``k`` is another one.
        """
        problem = self.compiled.problem
        check_integer("k", k, self.k)
        L = max(len(self._slots), k) if self._sparse else len(self._slots)
        before, after = (self.policy.fields(self.policy.parameters(replace(problem, L=L, K=K))) for K in (self.k, k))
        if any(field.shape(L, self.k) > after[name].shape(L, k) for name, field in before.items()):
            raise ValueError(f"k={k}: must be {self.k}, since the state of {self.policy.spec} depends on it")
        other = self.copy()
        new = range(len(self._slots), L)
        other._widen(L, k)
        other._forget([*new])
        return other

    # -- saving ----------------------------------------------------------------------------------------------------

    def copy(self) -> Learner:
        """An independent copy, with the same shared model."""
        other = Learner.__new__(Learner)
        other.__dict__.update(self.__dict__)
        other._floats, other._ints = self._floats.copy(), self._ints.copy()
        other._slots = self._slots.copy()
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file (NumPy's .npz, without pickle). Items must be strings or numbers."""
        serialization.write(path, self._saved())

    def to_bytes(self) -> bytes:
        """The learner as compressed bytes, without pickle. Items must be strings or numbers."""
        return serialization.pack(self._saved())

    @classmethod
    def from_bytes(cls, packed: bytes) -> Learner:
        """The learner packed by ``to_bytes``, which continues as though it had never stopped.

        A shared model is not part of it: set ``learner.shared``.

        >>> import driftrank as dr
        >>> learner = dr.CascadeUCB1().start(["a", "b", "c"], k=2)
        >>> Learner.from_bytes(learner.to_bytes()).items
        ['a', 'b', 'c']
        """
        try:
            return cls._restored(serialization.unpack(packed))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            kind = EarlierState if isinstance(error, EarlierState) else ValueError
            raise kind(f"not the bytes of a learner ({error})") from error

    @property
    def nbytes(self) -> int:
        """The approximate memory of its state and of the names of its items, in bytes."""
        rows: int = self._floats.nbytes + self._ints.nbytes
        return rows + self._slots.nbytes + _OTHER_BYTES

    # -- internals -------------------------------------------------------------------------------------------------

    def _saved(self) -> serialization.Saved:
        saved = SavedLearner(
            self.policy, self.compiled.problem, self._slots, self.steps, self._where, self._described, self._sparse
        )
        return serialization.Saved(saved.header(), self._floats, self._ints)

    @classmethod
    def _restored(cls, parts: serialization.Saved) -> Learner:
        """The saved learner; inconsistent parts raise LookupError, TypeError or ValueError."""
        saved = SavedLearner.of(parts.header)
        learner = cls.__new__(cls)
        learner.policy = saved.policy
        learner.shared = None
        learner.steps = saved.steps
        learner._slots = saved.slots
        learner._sparse, learner._described = saved.sparse, saved.described
        learner._where = saved.where
        learner._key, learner._query = run_key(**saved.where), key_of(saved.where["query"])
        learner._compile(CompiledPolicy.cached(saved.policy, saved.problem))
        serialization.check_rows(parts, learner.compiled.layout)
        learner._floats, learner._ints = parts.floats, parts.ints
        return learner

    def _views(self) -> dict[str, NDArray[Any]]:
        return self.compiled.layout.views(self._floats, self._ints)

    def _forget(self, slots: list[int]) -> None:
        """Clear these slots."""
        if slots:
            if self.alarm_count or not self.open:  # saved states of other learners stay as they were, to the bit
                forget_alarms(self._views(), slots)
            self._call(templates.forget_step, self._event(None, None), np.array(slots, np.int64))

    def _new_features(self, items: list[Item], features: Any) -> NDArray[np.float64] | None:
        """The features of new items, with as many numbers as those of the others."""
        if features is not None and not self.policy.contextual:
            raise ValueError(f"features: {self.policy.spec} does not use features")
        if not self._described:
            if features is not None:
                raise ValueError("features: the other items of this learner have none")
            return None
        if not items:
            return None
        if features is None:
            raise ValueError("features: must be given, as for the other items")
        return feature_rows(items, features, self.compiled.problem.features)

    def _compile(self, compiled: CompiledPolicy) -> None:
        self.compiled = compiled
        self._slots.open = self.open
        problem = compiled.problem
        #: the number of steps after which the state must grow; None: never
        self._full = problem.capacity if problem.horizon is None else None

    def _call(self, template: Any, event: tuple[int, float, np.uint64], *arguments: Any) -> None:
        compiled = self.compiled
        compiled.step(template)(self._floats, self._ints, compiled.layout.offsets, compiled.row, *event, *arguments)

    def _prior(self, offer: Offer, prior: Prior | None, **description: Any) -> Prior | None:
        """The prior of candidates: as given, or from the shared model; None if there is neither."""
        if prior is None:
            return model_prior(self.shared, self._query, offer, description)
        check_prior(self.policy, self.compiled, offer, prior)
        return prior

    def _admitted(
        self,
        shown: list[Item],
        slots: NDArray[np.uint32],
        key: np.uint64,
        memo: NDArray[np.float64],
        clicks: NDArray[np.int8],
    ) -> NDArray[np.uint32]:
        """The slots of a list, after the observed items that had none were given one."""
        compiled, slot_of = self.compiled, self._slots.slot_of
        unknown = [n for n, item in enumerate(shown) if item not in slot_of]
        if not unknown:
            return slots
        observed = compiled.step(templates.observed_step)(compiled.row, key, slots, memo, clicks)
        new = [shown[n] for n in unknown if n < observed]
        if not new:
            return slots
        most = max(self.k, self.policy.most_items)
        self._drop(len(self._slots.slot_of) + len(new) - most, set(shown))
        self._add(new, None, max(0, min(_MORE_SLOTS, most - len(self._slots.slot_of) - len(new))))
        return self._slots.slots_of(shown)

    def _drop(self, n: int, but: set[Item]) -> None:
        """Forget the ``n`` items that were observed least, of equal ones the first; ``but`` not these."""
        if n <= 0:
            return
        offer = self._slots.candidates(None)
        estimate, samples = np.zeros(len(offer.slots)), np.zeros(len(offer.slots))
        self._call(
            templates.believe_step, self._event(None, None), *with_prior(self.compiled, offer, None), estimate, samples
        )
        items = [offer.names[slot] for slot in offer.slots[np.argsort(samples, kind="stable")].tolist()]
        self.remove_items([item for item in items if item not in but][:n])

    def _event(self, now: float | None, key: int | None) -> tuple[int, float, np.uint64]:
        t = self.steps + 1
        if key is None:
            key = policy_key(self._key, t)
        return t, float(t if now is None else now), np.uint64(key)

    def _grow(self) -> None:
        """Enlarge the state, which grows with the number of steps if the horizon is unknown."""
        self._relayout(replace(self.compiled.problem, steps=2 * self.steps))

    def _relayout(self, problem: RankingProblem) -> None:
        """Copy the state into the layout of a larger problem."""
        new = CompiledPolicy.cached(self.policy, problem)
        self._floats, self._ints = self.compiled.moved(self._floats, self._ints, new)
        self._compile(new)


@lru_cache(maxsize=256)
def keeps_learning(policy: Policy, k: int, more: int, horizon: int | None) -> bool:
    """True if learners that show up to ``k`` items can show more, and continue with what they have learnt: the state of
    one that is widened before it begins is that of one that begins so.
    """
    try:
        narrow, wide = (policy.start(range(more), K, horizon=horizon, slots=more) for K in (k, more))
        widened = narrow.resized(more)
    except ValueError:
        return False
    same_floats = np.array_equal(widened._floats, wide._floats, equal_nan=True)
    return bool(same_floats and np.array_equal(widened._ints, wide._ints))


def load(path: str | os.PathLike[str]) -> Learner:
    """Read a learner written by ``save``, which continues as though it had never stopped."""
    try:
        serialization.forget_policies()
        return Learner._restored(serialization.read(path))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)}: not a saved learner ({error})") from error
