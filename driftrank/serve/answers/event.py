"""One event: the ranking that was served, why, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from driftrank.policies.shared.memo import MEMO
from driftrank.serve.answers.reason import placed
from driftrank.serve.core import ServiceCore
from driftrank.serve.log.description import plain_description
from driftrank.serve.log.records import Final, Ranked, decode
from driftrank.serve.log.store.base import StoreDamaged
from driftrank.serve.problems import Refused
from driftrank.serve.ranking.choice import ranked_items
from driftrank.serve.state import outcome
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.times import moment
from driftrank.wire import EventFeedback, EventState, GivenItem, ItemId

_Outcome = Literal["open", "inactive", "collected", "counted", "holdout", "forgotten", "withdrawn", "dropped"]


async def event(service: ServiceCore, name: str, event_id: str) -> EventState:
    """All that the log and the state have of a ranking."""
    service.check_named("event_id", event_id)
    ranker = service.ranker(name)
    impression = (await service.impressions(ranker, [event_id]))[event_id]
    if impression is None:
        detail = f"event_id={event_id!r}: no ranking of ranker {name!r} has it, or it is no longer in the log"
        raise Refused(404, "No such event", detail)
    await service.hold(name, [impression.ranked.query])
    candidates = await _candidates(service, ranker, impression.ranked)
    ranked, final, opened_by = impression.ranked, impression.final, impression.opened_by
    collected, _ = ranker.collected.get(opened_by or 0, ([], None))
    became = _outcome(service, ranker, impression)
    opened, is_open = opened_by is not None, opened_by is not None and final is None
    return EventState(
        event_id, name, ranked.query, impression.seq, moment(ranked.time), ranked.arm, became, became == "counted",
        ranked.step, ranked_items(ranked), candidates, f"{ranked.key:016x}",
        ranker.spec if ranked.ranker_since in (0, ranker.since) and impression.seq >= ranker.since else None,
        ranked.defer, moment(impression.opened_at) if opened else None,
        moment(impression.opened_at + ranker.feedback_window) if is_open else None,
        collected, None if final is None else _feedback(final), _reasons(ranker, impression), *_given(ranked),
        f"{ranked.subject:016x}" if ranked.subject else None, ranked.offset, ranked.repeats,
    )  # fmt: skip


def _reasons(ranker: Ranker, impression: Impression) -> list[str]:
    """Why each item is where it is; with the numbers of the memo, if the policy that made it has not changed."""
    ranked, arm = impression.ranked, ranker.arm(impression.ranked.arm)
    notes: list[Sequence[float] | None] = [None] * len(ranked.shown)
    same = arm is not None and ranked.ranker_since in (0, arm.since) and impression.seq >= arm.since
    if arm is not None and same and arm.shares and arm.policy.memo == MEMO and ranked.memo:
        memo = np.frombuffer(ranked.memo, "<f8")
        if len(memo) == MEMO * len(notes):
            notes = list(memo.reshape(-1, MEMO).tolist())
    return [placed(item, note) for item, note in zip(ranked_items(ranked), notes, strict=True)]


def _given(ranked: Ranked) -> tuple[list[GivenItem], int]:
    """The items shown as the request described them, and the number of features of its context."""
    n = len(ranked.shown)
    places: Sequence[int | None] = ranked.places or [None] * n
    if ranked.described is not None:
        its = plain_description(ranked.described, n)
        scores: Sequence[float | None] = its.score or [None] * n
        all_ = zip(places, scores, its.vectors, its.named, strict=True)
        return [GivenItem(*one) for one in all_], its.context
    if ranked.features is not None and ranked.items is not None:
        vectors = dict(zip(ranked.items, ranked.features, strict=True))
        return [
            GivenItem(place, None, vectors.get(item, [])) for place, item in zip(places, ranked.shown, strict=True)
        ], 0
    return [GivenItem(place) for place in ranked.places], 0


def _outcome(service: ServiceCore, ranker: Ranker, impression: Impression) -> _Outcome:
    final = impression.final
    if final is None:
        if impression.opened_by is None:
            return "inactive"
        return "collected" if impression.opened_by in ranker.collected else "open"
    if final.how == "dropped":
        return "dropped"
    holdout, reset = impression.ranked.arm == "holdout", service.state.is_reset(ranker, impression)
    became = outcome.counted(final, waited=True, holdout=holdout, reset=reset, policy=ranker.policy).outcome
    return became  # type: ignore[return-value]


def _feedback(final: Final) -> EventFeedback:
    values = dict(final.values)
    return EventFeedback(final.how, moment(final.time), final.clicks, final.shown, final.client_time, values)  # type: ignore[arg-type]


async def _candidates(service: ServiceCore, ranker: Ranker, ranked: Ranked) -> list[ItemId] | None:
    """The candidates, which may be in the record of an earlier ranking."""
    if ranked.offered_by:
        try:
            found = await service.read(service.store.read, ranked.offered_by - 1, 1)
        except StoreDamaged:
            return None
        record = decode(found[0].body) if found and found[0].seq == ranked.offered_by else None
        return _own_candidates(ranker, record) if isinstance(record, Ranked) else None
    return _own_candidates(ranker, ranked)


def _own_candidates(ranker: Ranker, ranked: Ranked) -> list[ItemId] | None:
    if ranked.candidates is not None:
        return ranked.candidates
    # with a shared model these are only the candidates that had a state
    return ranked.items if ranked.ranker_since == ranker.since and not ranker.shares else None
