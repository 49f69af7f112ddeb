"""A learner: a policy and its state for one query."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from sys import getsizeof
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.rng import key_of, policy_key, run_key
from driftrank.policies import saved, steps
from driftrank.policies.alarms import Alarm, forget_alarms, read_alarms
from driftrank.policies.base import Policy, Problem
from driftrank.policies.beliefs import Belief, belief
from driftrank.policies.clicks import click_vector
from driftrank.policies.features import feature_rows, one_hot
from driftrank.policies.program import Program
from driftrank.validation import check_integer

Item = Hashable
_NO_KEY = np.uint64(0)
#: bytes of an item's name, and of the objects around a state, about
_AN_ITEM, _AROUND = 64, 1500


class RankedItems(list[Item]):
    """A list of items, top first, with what the policy needs to learn from it later.

    It is an ordinary list; passing a plain one to ``update`` works too.
    """

    def __init__(
        self,
        items: Iterable[Item],
        scores: NDArray[np.float64],
        memo: NDArray[np.float64],
        key: int,
        propensities: NDArray[np.float64] | None = None,
    ) -> None:
        super().__init__(items)
        self.scores = scores  #: what each item was ranked by
        self.memo = memo
        self.key = key
        #: by position, the probability of the item that is shown there given those above; None where not known
        self.propensities = propensities
        self._made = tuple(self)

    #: the slots of the items, and whose they are
    _slots: NDArray[np.uint32] | None = None
    _whose: object = None

    @property
    def propensity(self) -> float | None:
        """The probability of the whole list, None where not known."""
        return None if self.propensities is None else float(np.prod(self.propensities))

    @property
    def intact(self) -> bool:
        """Whether it still is the list the policy made; what it remembers of its choice only fits that one."""
        return self._made == tuple(self)


class Learner:
    """Ranks items and learns from clicks. Made by ``policy.start(items, k)``.

    ``rank`` does not change the learner, so feedback may come late, out of order, or never.
    """

    _token: NDArray[np.int64]  # never written to, but replaced: copies of a learner share it

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
    ) -> None:
        if policy.oracle:
            raise ValueError(f"{policy.spec} must be told the truth, which only a simulation knows")
        self.policy = policy
        self._slots: list[Item | None] = _distinct(items)
        self._slot_of = {item: slot for slot, item in enumerate(self._slots)}
        self._sparse = slots is not None  # whether there may be fewer items than positions
        L = len(self._slots)
        if slots is not None:
            check_integer("slots", slots, 1)
            L = max(L, slots)
            if isinstance(k, int) and k > L:
                raise ValueError(f"slots={slots!r}: must be room for at least k={k} items")
        self._free = list(range(len(self._slots), L))
        rows = None
        if policy.contextual:
            rows = one_hot(L) if features is None else feature_rows(self._slots, features)
        elif features is not None:
            raise ValueError(f"features: {policy.spec} does not look at any")
        self._slots += [None] * len(self._free)
        self._described = features is not None
        problem = Problem(L, k, horizon, horizon, 0 if rows is None else rows.shape[1])
        check_integer("seed", seed, 0)
        check_integer("run", run, 0)
        self._key = run_key(seed, query, run)
        self._where = {"seed": seed, "query": query, "run": run}
        self.steps = 0  #: updates so far
        self._run(Program.shared(policy, problem))
        self._floats, self._ints = self._program.empty()
        if rows is not None:
            self._views()["features"][: len(rows)] = rows
        self._tokens()
        self._moved()
        # every slot begins as though it held an item; then those leave that are not there
        self._call(steps.init_step, self._event(None, None), self._program.everyone, self._token)
        self._forget(self._free)

    # -- use -------------------------------------------------------------------------------------------------------

    @property
    def items(self) -> list[Item]:
        """The items it can show."""
        return list(self._slot_of)

    @property
    def k(self) -> int:
        return self._program.problem.K

    def key_at(self, n: int) -> int:
        """The randomness of draw ``n``, for ``rank(key=...)``; by default the list of step t is drawn with number t."""
        check_integer("n", n, 0, 2**64 - 1)
        return policy_key(self._key, n)

    @property
    def alarms(self) -> list[Alarm]:
        """The changes that the policy has found lately, oldest first: when, and on which item."""
        return read_alarms(self._views(), self._slots)

    @property
    def alarm_count(self) -> int:
        """How many changes the policy has found so far."""
        at = self._program.layout.begins.get("alarms")
        return 0 if at is None else int(self._ints[at])

    def rank(
        self,
        candidates: Sequence[Item] | None = None,
        *,
        k: int | None = None,
        now: float | None = None,
        key: int | None = None,
    ) -> RankedItems:
        """The list to show.

        ``candidates`` limits it to some of the items, ``k`` makes it shorter, ``now`` is the time (steps by default),
        ``key`` seeds its randomness (by default the learner's seed and step do: asking twice gives the same list).
        """
        program = self._program
        slots = self._candidates(candidates)
        length = program.problem.K
        if k is not None:
            check_integer("k", k, 1, length)
            length = k
        length = min(length, len(slots))
        items = slots[:length].copy()  # any list of candidates will do to start from
        score = np.zeros(length)
        kept = length * self.policy.memo
        memo = np.empty(kept + program.scratch)
        memo.fill(-1.0)
        event = self._event(now, key)
        self._call(steps.rank_step, event, slots, self._token, items, score, memo)
        if program.scratch:
            memo = memo[:kept]
        propensities = memo[:: self.policy.memo].copy() if self.policy.propensities else None
        names = self._slots
        ranking = RankedItems([names[i] for i in items.tolist()], score, memo, int(event[2]), propensities)
        ranking._slots, ranking._whose = items, self._table
        return ranking

    def update(
        self, ranking: Sequence[Item], clicks: Any = None, *, item: Item | None = None, now: float | None = None
    ) -> None:
        """Learn from what happened to a list.

        ``clicks`` is a 0/1 vector as long as the list, or the position of the click (1 is the top, one more than the
        length means none), or the clicked item, or None for no click. ``item`` names the clicked item where
        items are themselves numbers.
        """
        slots, memo, score, key = None, None, None, None
        if isinstance(ranking, RankedItems):
            key = ranking.key
            if ranking.intact:
                memo, score = ranking.memo, ranking.scores
                if ranking._whose is self._table and len(set(ranking)) == len(ranking):
                    slots = ranking._slots
        if slots is None:
            slots = self._slots_of(ranking)
        n = len(slots)
        if n > self._program.problem.K:
            raise ValueError(f"ranking has {n} items: this learner shows at most k={self.k}")
        shown = ranking if isinstance(ranking, list) else list(ranking)
        vector = click_vector(shown, item if item is not None else clicks, is_item=item is not None)
        if memo is None or score is None or memo.shape != (n * self.policy.memo,):
            memo, score = np.full(n * self.policy.memo, -1.0), np.zeros(n)
        elif not memo.flags.carray:  # read from somewhere: kernels need their own
            memo = memo.copy()
        self._call(steps.update_step, self._event(now, key), slots, score, memo, vector)
        self.steps += 1
        if self._full is not None and self.steps >= self._full:
            self._make_room()

    def scores(self, *, now: float | None = None) -> dict[Item, float]:
        """What the policy thinks every item is worth (its index, or its estimate where the index is random)."""
        if not self._slot_of:
            return {}
        slots = self._candidates(None)
        out = np.zeros(len(slots))
        self._call(steps.scores_step, self._event(now, None), slots, self._token, out)
        return dict(zip(self._slot_of, out.tolist(), strict=True))

    def beliefs(self, *, now: float | None = None) -> dict[Item, Belief]:
        """What the policy believes of every item: its estimate, how sure that is, and the score it makes of it.

        >>> import driftrank as dr
        >>> learner = dr.CascadeUCB1().start(["a", "b"], k=1)
        >>> for clicked in ("a", None):
        ...     learner.update(["a"], clicked)
        >>> learner.beliefs()["a"].estimate, learner.beliefs()["a"].samples
        (0.5, 2.0)
        """
        if not self._slot_of:
            return {}
        slots = self._candidates(None)
        estimate, samples, score = (np.zeros(len(slots)) for _ in range(3))
        event = self._event(now, None)
        self._call(steps.believe_step, event, slots, estimate, samples)
        self._call(steps.scores_step, event, slots, self._token, score)
        rows = zip(estimate.tolist(), samples.tolist(), score.tolist(), strict=True)
        optimistic = self.policy.optimistic
        return {item: belief(*row, optimistic) for item, row in zip(self._slot_of, rows, strict=True)}

    def greedy(
        self, candidates: Sequence[Item] | None = None, k: int | None = None, *, seen: bool = False
    ) -> list[Item]:
        """The items that look best by what is known, with no wish to learn more: those with the largest estimates.

        Among equals, and among items never seen, which come last, the order is that of the candidates; with ``seen``
        they are left out. A policy that estimates nothing (see :class:`Belief`) is asked for its scores.
        """
        program = self._program
        slots = self._candidates(candidates)
        if k is None:
            k = program.problem.K
        else:
            check_integer("k", k, 1)
        k = min(k, len(slots))
        t = self.steps + 1
        event = t, float(t), _NO_KEY
        if program.estimates:
            best, estimate = np.empty(k, np.uint32), np.empty(k)
            self._call(steps.greedy_step, event, slots, best, estimate)
            if seen and estimate[-1] == -np.inf:
                best = best[estimate > -np.inf]
        else:
            score = np.zeros(len(slots))
            self._call(steps.scores_step, self._event(None, None), slots, self._token, score)
            best = slots[np.argsort(-score, kind="stable")[:k]]
        names = self._slots
        return [names[slot] for slot in best.tolist()]

    # -- items come and go -----------------------------------------------------------------------------------------

    def add_items(self, items: Iterable[Item], *, features: Any = None) -> None:
        """New items, never seen so far; with their features where the others have some."""
        new = _distinct(items)
        for item in new:
            if item in self._slot_of:
                raise ValueError(f"items: {item!r} is there already")
        rows = self._new_features(new, features)
        if not new:
            return
        if len(new) > len(self._free):
            grown = len(self._slots) + len(new) - len(self._free)
            width = self._program.problem.features
            if width and not self._described:
                width = len(one_hot(grown))
            self._free += range(len(self._slots), grown)
            self._slots += [None] * (grown - len(self._slots))
            self._relayout(replace(self._program.problem, L=grown, features=width))
        slots, self._free = self._free[: len(new)], self._free[len(new) :]
        self._token = self._token.copy()
        for slot, item in zip(slots, new, strict=True):
            self._slots[slot] = item
            self._slot_of[item] = slot
            self._token[slot] = _token(item)
        self._moved()
        if self.policy.contextual:
            table = self._views()["features"]
            table[slots] = np.eye(len(table))[slots] if rows is None else rows
        self._forget(slots)

    def renew(self, items: Iterable[Item], *, features: Any = None) -> None:
        """Items that are no longer what they were: what was learnt of them is forgotten."""
        renewed = _distinct(items)
        slots = [self._slot(item) for item in renewed]
        rows = None if features is None else self._new_features(renewed, features)
        if rows is not None:
            self._views()["features"][slots] = rows
        self._forget(slots)

    def describe(self, items: Iterable[Item], features: Any) -> None:
        """Other features for items that are there; nothing that was learnt is forgotten."""
        known = _distinct(items)
        slots = [self._slot(item) for item in known]
        if not self._described and features is None:
            raise ValueError("features: must be given")
        rows = self._new_features(known, features)
        if rows is not None:
            self._views()["features"][slots] = rows
            self._call(steps.described_step, self._event(None, None), np.array(slots, np.uint32))

    def remove_items(self, items: Iterable[Item]) -> None:
        """Items that will not be shown again; what was learnt of them is forgotten."""
        gone = [self._slot(item) for item in _distinct(items)]
        if len(self._slot_of) - len(gone) < self.k and not self._sparse:
            raise ValueError(f"items: {len(self._slot_of) - len(gone)} would be left, fewer than k={self.k}")
        for slot in gone:
            del self._slot_of[self._slots[slot]]
            self._slots[slot] = None
        self._free += gone
        self._moved()
        self._forget(gone)

    # -- saving ----------------------------------------------------------------------------------------------------

    def copy(self) -> Learner:
        """Another learner that knows the same, and goes its own way from here."""
        other = Learner.__new__(Learner)
        other.__dict__.update(self.__dict__)
        other._floats, other._ints = self._floats.copy(), self._ints.copy()
        other._slots, other._slot_of, other._free = self._slots.copy(), self._slot_of.copy(), self._free.copy()
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file (NumPy's .npz, nothing pickled). Items must be strings or numbers."""
        saved.write(path, self._saved())

    def to_bytes(self) -> bytes:
        """The learner as a few bytes, nothing pickled. Items must be strings or numbers."""
        return saved.pack(self._saved())

    @classmethod
    def from_bytes(cls, packed: bytes) -> Learner:
        """The learner that ``to_bytes`` packed. It goes on as though it had never stopped.

        >>> import driftrank as dr
        >>> learner = dr.CascadeUCB1().start(["a", "b", "c"], k=2)
        >>> Learner.from_bytes(learner.to_bytes()).items
        ['a', 'b', 'c']
        """
        try:
            return cls._restored(saved.unpack(packed))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"not the bytes of a learner ({error})") from error

    @property
    def nbytes(self) -> int:
        """How much memory it takes, about: its state, and the names of its items."""
        rows: int = self._floats.nbytes + self._ints.nbytes + self._token.nbytes
        tables = getsizeof(self._slots) + getsizeof(self._slot_of) + getsizeof(self._free)
        return rows + tables + _AN_ITEM * len(self._slot_of) + _AROUND

    # -- inside ----------------------------------------------------------------------------------------------------

    def _saved(self) -> saved.Saved:
        for item in self._slot_of:
            if not isinstance(item, (str, int, float)):
                raise ValueError(f"items: {item!r} cannot be saved; use strings or numbers")
        problem = self._program.problem
        header = {
            "format": saved.FORMAT,
            "policy": self.policy.spec,
            "version": self.policy.version,
            "slots": self._slots,
            "live": list(self._slot_of.values()),
            "free": self._free,
            "k": self.k,
            "horizon": problem.horizon,
            "room": problem.steps,
            "steps": self.steps,
            "where": self._where,
            "features": problem.features if self._described else None,
            "sparse": self._sparse,
        }
        return saved.Saved(header, self._floats, self._ints)

    @classmethod
    def _restored(cls, parts: saved.Saved) -> Learner:
        """The learner of which this was saved; what does not fit raises LookupError, TypeError or ValueError."""
        header = parts.header
        if header["format"] != saved.FORMAT:
            raise ValueError(f"written in format {header['format']}, this version reads {saved.FORMAT}")
        policy = _policy_of(header["policy"])
        if header["version"] != policy.version:
            raise ValueError(f"a state of {policy.spec} version {header['version']}, this is version {policy.version}")
        slots, live, free = header["slots"], header["live"], header["free"]
        slot_of = {slots[slot]: slot for slot in live}
        if policy.oracle or len(slot_of) < len(live) or sorted(live + free) != list(range(len(slots))):
            raise ValueError("items and slots do not fit")
        check_integer("steps", header["steps"], 0)
        if header["room"] is not None:
            check_integer("room", header["room"], 1)
        learner = cls.__new__(cls)
        learner.policy = policy
        learner.steps = header["steps"]
        learner._slots, learner._free = slots, free
        learner._slot_of = slot_of
        learner._sparse = header.get("sparse", False)
        learner._described = header["features"] is not None
        learner._where = header["where"]
        learner._key = run_key(**header["where"])
        width = 0
        if policy.contextual:
            width = header["features"] if learner._described else len(one_hot(len(slots)))
        problem = Problem(len(slots), header["k"], header["horizon"], header["room"], width)
        learner._run(Program.shared(policy, problem))
        floats, ints = learner._program.layout.sizes
        for row, size, kind in ((parts.floats, floats, np.float64), (parts.ints, ints, np.int32)):
            if row.shape != (size,) or row.dtype != kind:
                raise ValueError("the state has another size than the policy says")
        learner._floats, learner._ints = parts.floats, parts.ints
        learner._tokens()
        learner._moved()
        return learner

    def _views(self) -> dict[str, NDArray[Any]]:
        return self._program.layout.views(self._floats, self._ints)

    def _forget(self, slots: list[int]) -> None:
        """What was in these slots is there no more."""
        if slots:
            forget_alarms(self._views(), slots)
            self._call(steps.forget_step, self._event(None, None), np.array(slots, np.int64))

    def _new_features(self, items: list[Item], features: Any) -> NDArray[np.float64] | None:
        """The features of new items, as many numbers as the others have."""
        if features is not None and not self.policy.contextual:
            raise ValueError(f"features: {self.policy.spec} does not look at any")
        if not self._described:
            if features is not None:
                raise ValueError("features: the other items of this learner have none")
            return None
        if not items:
            return None
        if features is None:
            raise ValueError("features: must be given, as for the other items")
        return feature_rows(items, features, self._program.problem.features)

    def _run(self, program: Program) -> None:
        self._program = program
        problem = program.problem
        #: after how many steps the state must grow
        self._full = problem.room if problem.horizon is None else None

    def _call(self, template: Any, event: tuple[int, float, np.uint64], *arguments: Any) -> None:
        program = self._program
        program.step(template)(self._floats, self._ints, program.layout.offsets, program.row, *event, *arguments)

    def _event(self, now: float | None, key: int | None) -> tuple[int, float, np.uint64]:
        t = self.steps + 1
        if key is None:
            key = policy_key(self._key, t)
        return t, float(t if now is None else now), np.uint64(key)

    def _moved(self) -> None:
        """Items are in other slots than before: what was found out about slots is of no use any more."""
        self._table = object()  # this assignment of slots, and no other
        self._everyone: NDArray[np.uint32] | None = None
        self._asked: tuple[Sequence[Item], NDArray[np.uint32]] | None = None

    def _candidates(self, candidates: Sequence[Item] | None) -> NDArray[np.uint32]:
        if candidates is None:
            if self._everyone is None:
                if not self._slot_of:
                    raise ValueError("candidates: this learner has no items yet")
                self._everyone = np.array(list(self._slot_of.values()), np.uint32)
            return self._everyone
        plain = type(candidates) is list or type(candidates) is tuple
        if plain and self._asked is not None:  # most often they are those of the last time
            try:
                if candidates == self._asked[0]:
                    return self._asked[1]
            except ValueError:  # items without an order of their own, such as arrays
                pass
        slots = self._slots_of(candidates)
        if not len(slots):
            raise ValueError("candidates: must name at least one item")
        if plain:
            self._asked = candidates[:], slots
        return slots

    def _slots_of(self, items: Iterable[Item]) -> NDArray[np.uint32]:
        """The slots of different items."""
        if not isinstance(items, list):
            items = _distinct(items)
        try:
            if len(set(items)) == len(items):
                return np.fromiter(map(self._slot_of.__getitem__, items), np.uint32, len(items))
        except (KeyError, TypeError):
            pass
        return np.array([self._slot(item) for item in _distinct(items)], np.uint32)  # it will say what is wrong

    def _slot(self, item: Item) -> int:
        try:
            return self._slot_of[item]
        except KeyError:
            raise ValueError(f"item {item!r}: not among this learner's items") from None

    def _tokens(self) -> None:
        self._token = np.full(len(self._slots), _token(None), np.int64)
        for item, slot in self._slot_of.items():
            self._token[slot] = _token(item)

    def _make_room(self) -> None:
        """Where nobody said how long it will run, the state grows with the number of steps."""
        self._relayout(replace(self._program.problem, steps=2 * self.steps))

    def _relayout(self, problem: Problem) -> None:
        """Copy the state into that of a larger problem."""
        old, new = self._program, Program.shared(self.policy, problem)
        if new.layout != old.layout:
            floats, ints = new.empty()
            before, after = old.layout.views(self._floats, self._ints), new.layout.views(floats, ints)
            for name, values in before.items():
                after[name][tuple(slice(0, n) for n in values.shape)] = values
            self.policy.moved(before, after)
            self._floats, self._ints = floats, ints
        more = problem.L - len(self._token)
        if more:
            self._token = np.append(self._token, np.full(more, _token(None), np.int64))
        self._run(new)


def load(path: str | os.PathLike[str]) -> Learner:
    """Read a learner written by ``save``. It goes on as though it had never stopped."""
    try:
        _policy_of.cache_clear()  # a policy that is being worked on may mean another class by now
        return Learner._restored(saved.read(path))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)}: not a saved learner ({error})") from error


def _token(item: Item | None) -> int:
    """What an item's randomness is keyed on: the same for the same name, on every machine."""
    if isinstance(item, int) and 0 <= item < 2**63:
        return int(item)
    return _token_of(str.__repr__(item) if isinstance(item, str) else repr(item))


@lru_cache(maxsize=256)
def _policy_of(spec: str) -> Policy:
    """The policy that is written so. Finding it takes longer than all the rest of reading a learner."""
    from driftrank.policies.registry import parse_policy

    return parse_policy(spec)


@lru_cache(maxsize=2**14)
def _token_of(text: str) -> int:
    return key_of(text) >> 1


def _distinct(items: Iterable[Item]) -> list[Any]:
    if isinstance(items, str):
        raise ValueError(f"items={items!r}: must be a list of items, not one string")
    try:
        # NumPy's numbers and strings become Python's: they are equal, but neither look nor are saved alike
        out = [item.item() if isinstance(item, np.generic) else item for item in items]
        once = len(set(out)) == len(out)
    except TypeError as error:
        raise ValueError(
            f"items={items!r}: must be a list of strings, numbers or other hashable things ({error})"
        ) from None
    if not once:
        twice = next(item for n, item in enumerate(out) if item in out[:n])
        raise ValueError(f"items: {twice!r} occurs twice")
    return out
