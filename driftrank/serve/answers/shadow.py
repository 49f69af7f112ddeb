"""The value of a policy in the shadow as an answer, from the sums that the fold keeps."""

from __future__ import annotations

import math

from driftrank.serve.state.ranker import Ranker
from driftrank.wire import Interval, ShadowState


def shadow_of(ranker: Ranker) -> ShadowState:
    """The value of the lists that the policy of a ranker in the shadow would have shown, unless it is refused."""
    sums = ranker.experiment.shadow
    if sums is None or not sums.lists:
        shadows = ranker.settings.mode == "shadow"
        refused = "not-shadow" if not shadows else "few" if ranker.settings.explore else "no-propensities"
        return ShadowState(ranker.name, refused=refused)  # type: ignore[arg-type]
    shown = math.fsum(sums.rewards) / sums.lists
    if sums.few or sums.apart:
        refused = "few" if sums.few else "no-overlap"
        return ShadowState(ranker.name, sums.lists, sums.effective, shown, refused=refused)  # type: ignore[arg-type]
    value, half, _ = sums.value(ranker.planned)
    gain, beside, _ = sums.gain(ranker.planned)
    return ShadowState(
        ranker.name, sums.lists, sums.effective, shown, _share(value), _share(value - half), _share(value + half),
        Interval(gain, gain - beside, gain + beside),
    )  # fmt: skip


def _share(x: float) -> float:
    return min(max(x, 0.0), 1.0)
