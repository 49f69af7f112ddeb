"""The items of a learner: which slot of its state each of them has, and candidates as kernels take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, repeat
from sys import getsizeof
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftrank.policies.learner.ranked_items import Item
from driftrank.policies.learner.tokens import token_of

#: approximate bytes of an item's name
_ITEM_BYTES = 64
#: open slots remember their last candidates only up to this number: they may be many more than the items
_MOST_REMEMBERED = 32


class Offer(NamedTuple):
    """Candidates of a list. Those in slots beyond the state's have none: they were never observed."""

    slots: NDArray[np.uint32]
    token: NDArray[np.int64]  #: by slot
    names: list[Any]  #: by slot
    place: NDArray[np.intp]  #: by slot: the place among the candidates
    tokens: NDArray[np.int64]  #: by place


class ItemSlots:
    """Items in slots, and the slots that are free.

    ``live`` are the slots of items in the order in which the items came; ``free`` all others, the next to be taken
    first.
    """

    def __init__(self, names: list[Item | None], live: Iterable[int], free: list[int]) -> None:
        self.names = names  #: by slot; None in free ones
        self.slot_of: dict[Any, int] = {names[slot]: slot for slot in live}
        self.free = free
        self.open = False  #: True if candidates may be any items: unknown ones are in slots beyond these
        #: by slot; replaced, never written to: copies share it
        self.token = np.full(len(names), token_of(None), np.int64)
        for item, slot in self.slot_of.items():
            self.token[slot] = token_of(item)
        self._moved()

    @classmethod
    def of(cls, items: list[Item], n: int) -> ItemSlots:
        """The first of ``n`` slots for these items, the others free."""
        free = list(range(len(items), n))
        return cls([*items, *[None] * len(free)], range(len(items)), free)

    def __len__(self) -> int:
        return len(self.names)

    def copy(self) -> ItemSlots:
        other = ItemSlots.__new__(ItemSlots)
        other.__dict__.update(self.__dict__)
        other.names, other.slot_of, other.free = self.names.copy(), self.slot_of.copy(), self.free.copy()
        other._everyone = other._asked = None  # they refer to the names of this one
        return other

    @property
    def nbytes(self) -> int:
        """The approximate memory, in bytes."""
        tables = getsizeof(self.names) + getsizeof(self.slot_of) + getsizeof(self.free)
        return self.token.nbytes + tables + _ITEM_BYTES * len(self.slot_of)

    # -- changes ---------------------------------------------------------------------------------------------------

    def take(self, new: list[Item]) -> list[int]:
        """Give free slots to new items."""
        slots, self.free = self.free[: len(new)], self.free[len(new) :]
        self.token = self.token.copy()
        for slot, item in zip(slots, new, strict=True):
            self.names[slot] = item
            self.slot_of[item] = slot
            self.token[slot] = token_of(item)
        self._moved()
        return slots

    def release(self, slots: list[int]) -> None:
        """Free the slots of items that are removed."""
        for slot in slots:
            del self.slot_of[self.names[slot]]
            self.names[slot] = None
        self.free += slots
        self._moved()

    def widen(self, n: int) -> None:
        """Have ``n`` slots; the new ones are free."""
        more = n - len(self.names)
        if more:
            self.free += range(len(self.names), n)
            self.names += [None] * more
            self.token = np.append(self.token, np.full(more, token_of(None), np.int64))
            self._moved()

    def _moved(self) -> None:
        """Drop what was cached by slot."""
        self.table = object()  #: identifies this assignment of slots
        self._everyone: Offer | None = None
        self._asked: tuple[Sequence[Item], Offer] | None = None

    # -- candidates ------------------------------------------------------------------------------------------------

    def candidates(self, candidates: Sequence[Item] | None) -> Offer:
        """Candidates as kernels take them; None: all items."""
        if candidates is None:
            if self._everyone is None:
                if not self.slot_of:
                    raise ValueError("candidates: this learner has no items yet")
                self._everyone = self._offer(np.array(list(self.slot_of.values()), np.uint32), ())
            return self._everyone
        plain = type(candidates) is list or type(candidates) is tuple
        if plain and self._asked is not None:  # most often the same as in the last call
            try:
                if candidates == self._asked[0]:
                    return self._asked[1]
            except ValueError:  # items such as arrays, whose comparison is not a bool
                pass
        slots = self.slots_of(candidates)
        if not len(slots):
            raise ValueError("candidates: must name at least one item")
        offer = self._offer(slots, candidates)
        if plain and (not self.open or len(candidates) <= _MOST_REMEMBERED):
            self._asked = candidates[:], offer
        return offer

    def _offer(self, slots: NDArray[np.uint32], items: Sequence[Item]) -> Offer:
        """Candidates in these slots; ``items`` names them if some may have no state."""
        L, n = len(self.token), len(slots)
        if not self.open or not items:
            place = np.empty(L, np.intp)
            place[slots] = np.arange(n)
            return Offer(slots, self.token, self.names, place, self.token[slots])
        items = distinct(items)
        tokens = np.array(list(map(token_of, items)), np.int64)
        place = np.arange(-L, n)
        place[slots] = place[L:]
        return Offer(slots, np.concatenate((self.token, tokens)), [*self.names, *items], place, tokens)

    def slots_of(self, items: Iterable[Item]) -> NDArray[np.uint32]:
        """The slots of distinct items. If unknown ones are allowed, the n-th item has slot L + n if it has none."""
        if not isinstance(items, list):
            items = distinct(items)
        beyond = count(len(self.names)) if self.open else repeat(None)
        try:
            slots = list(map(self.slot_of.get, items, beyond))
            if len(set(items)) == len(items) and None not in slots:
                return np.array(slots, np.uint32)
        except TypeError:
            pass
        return np.array([self.slot(item) for item in distinct(items)], np.uint32)  # raises the precise error

    def slot(self, item: Item) -> int:
        try:
            return self.slot_of[item]
        except KeyError:
            raise ValueError(f"item {item!r}: not among this learner's items") from None


def distinct(items: Iterable[Item]) -> list[Any]:
    """The items as a list; ValueError if they are not hashable, or one occurs twice."""
    if isinstance(items, str):
        raise ValueError(f"items={items!r}: must be a list of items, not one string")
    try:
        # NumPy scalars become Python objects: they are equal, but print and are saved differently
        out = list(items)
        if set(map(type, out)) != {str}:
            out = [item.item() if isinstance(item, np.generic) else item for item in out]
        once = len(set(out)) == len(out)
    except TypeError as error:
        raise ValueError(
            f"items={items!r}: must be a list of strings, numbers or other hashable objects ({error})"
        ) from None
    if not once:
        twice = next(item for n, item in enumerate(out) if item in out[:n])
        raise ValueError(f"items: {twice!r} occurs twice")
    return out
