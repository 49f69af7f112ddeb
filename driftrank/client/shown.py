"""A ranking while it is shown: rank, show, feedback in one block."""

from __future__ import annotations

from ..wire import Clicked, Feedback, ItemId, RankedItem, RankResponse


class Shown:
    """A ranking that is being shown, and its clicks so far.

    At the end of its block the clicks are sent. If the block fails before anything was clicked, the ranking is taken
    back: it was not shown.
    """

    def __init__(self, ranking: RankResponse) -> None:
        self.ranking = ranking
        self.shown: int | None = None  #: items shown, from the top; None: all
        self._clicks: list[str | int | Clicked] = []

    @property
    def items(self) -> list[RankedItem]:
        return self.ranking.items

    def click(self, item: ItemId, value: float | None = None, kind: str | None = None) -> None:
        """Note a click on an item, and its value or the kind of event."""
        self._clicks.append(Clicked(item, value=value, kind=kind))

    def feedback(self, *, failed: bool) -> Feedback:
        if failed and not self._clicks:
            return Feedback(self.ranking.event_id, shown=0)
        return Feedback(self.ranking.event_id, self._clicks, self.shown)
