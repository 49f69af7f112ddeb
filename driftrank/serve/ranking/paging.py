"""Lists that stay the same for a subject for some time, and their pages.

The first list of a subject for a query and candidates is remembered. Asked for again, it is shown again; a further page
goes on below it, with the same draw: its items are ranked among those that were not above. Each page is an impression
of its own, learnt from as any list is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from driftrank.kernels.rng import key_of
from driftrank.policies.learner.learner import Learner
from driftrank.serve.log.records import Ranked
from driftrank.serve.ranking.choice import CheckedRequest, Chosen, adopted, choose_free, digest, shows_baseline
from driftrank.serve.state.arms import Arm, Assignment
from driftrank.serve.state.query import Query
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state import State
from driftrank.wire import ItemId, RankRequest


class _Served(NamedTuple):
    """A page that was served."""

    seq: int
    ranked: Ranked


class Page:
    """A page to be made, and what is known of the ranking that it is of."""

    def __init__(self, same: int, draw: int, served: Sequence[_Served]) -> None:
        self.draw = draw  #: of the query's randomness, if there was none: the same for requests at the same time
        self._same, self._served = same, served
        last = max((it.ranked for it in served), key=lambda ranked: ranked.offset + len(ranked.shown), default=None)
        #: the items of the ranking so far
        self._known: list[ItemId] = [] if last is None else [*last.above, *last.shown]
        self._repeats, self._above = 0, self._known
        self.key = None if last is None else last.key  #: of the draw, if there was one
        #: the baseline and what the own arm would show, if it is shown again; (None, None): unknown
        self.alternatives: tuple[list[ItemId] | None, list[ItemId] | None] | None = None

    def choose(self, arm: Arm, learner: Learner, request: CheckedRequest, name: str, now: float, key: int) -> Chosen:
        """The items of the page: those known, then others by the policy or the baseline."""
        begin, end = request.offset, request.offset + request.k
        for seq, ranked in self._served:
            if (ranked.offset, len(ranked.shown)) == (begin, request.k):
                self._repeats, self._above = seq, ranked.above
                self.alternatives = ranked.baseline, ranked.instead
                return Chosen(
                    ranked.shown, ranked.why, ranked.score, ranked.propensity, ranked.memo, ranked.places,
                    ranked.described,
                )  # fmt: skip
        ranking, chosen = list(self._known), Chosen([], "", [])
        while len(ranking) < end:
            # page by page as they are shown: a policy may rank no more than k at once
            most = min(request.k, (begin if len(ranking) < begin else end) - len(ranking))
            chosen = choose_free(arm, learner, request, name, set(ranking), most, now, key, len(ranking))
            ranking += chosen.shown
        self._above = ranking[:begin]
        if len(chosen.shown) < request.k:  # some of them were known
            self.alternatives = None, None
            shown = ranking[begin:end]
            why = "b" if shows_baseline(arm, name) else "l"
            chosen = Chosen(shown, why * len(shown), [None] * len(shown))
        elif not shows_baseline(arm, name):
            return chosen
        return chosen if name == "holdout" else adopted(arm, learner, request, chosen, now, key)

    def marked(self, ranked: Ranked) -> Ranked:
        """The record with its place in the ranking. It is remembered if it tells more of the ranking."""
        more = len(self._above) + len(ranked.shown) > len(self._known)
        return structs.replace(
            ranked, same=self._same if more else 0, repeats=self._repeats, offset=len(self._above), above=self._above
        )


def page_of(
    state: State, ranker: Ranker, assigned: Assignment, query: Query | None, request: RankRequest,
    checked: CheckedRequest, now: float,
) -> Page | None:  # fmt: skip
    """The page that a request asks for; None if its list need not be stable."""
    if not ranker.stable or not assigned.subject or request.pinned:
        return None
    same = digest(request.query, checked.items, None, assigned.subject)
    served = []
    for seq in ranker.stable_lists.get(same, now, ranker.stable):
        ranked = state.impressions.record(seq)
        if ranked is not None and _is_valid(seq, ranked, assigned, query):
            served.append(_Served(seq, ranked))
    draw = key_of(f"stable/{assigned.subject}/{now // ranker.stable:.0f}")  # a tiny time makes it infinite
    return Page(same, draw, served)


def _is_valid(seq: int, ranked: Ranked, assigned: Assignment, query: Query | None) -> bool:
    """True if a page was made by the same arm, which has not begun again since, nor has the query."""
    since = query is not None and query.since <= seq
    return since and ranked.arm == assigned.name and ranked.ranker_since == assigned.arm.since
