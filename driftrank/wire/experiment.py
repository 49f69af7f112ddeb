"""The arms of a ranker, compared."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .common import Moment


class ArmCounts(Struct, frozen=True):
    """Rankings of an arm that have ended, and what came of them. Pages after the first are not counted."""

    arm: str  #: its name; live, shadow, safe and holdout are the ranker's own
    lists: int  #: with feedback, or silence that counts as no click
    clicks: int  #: on these
    value: float  #: the sum of the values of their clicks
    lost: int  #: rankings taken back, or dropped without feedback
    clicks_per_list: float | None  #: null if there are no lists
    pending: int = 0  #: rankings whose feedback window is open


class Interval(Struct, frozen=True):
    """A difference per list. The interval holds at all times together with 95%: it may be looked at at any time."""

    difference: float  #: of the arm to the baseline
    low: float  #: of the interval
    high: float  #: of the interval


class AfterPrefix(Struct, frozen=True, omit_defaults=True):
    """The difference of the ranker's own arm to the holdout, by clicks after the items that both would have shown.

    Clicks above the first place where the two lists differ are the same in both for users who read from the top, and
    only add noise.
    """

    differing: float  #: the share of lists whose items or order differ between the two
    clicks: Interval | None = None  #: per list; null if refused
    needed: int | None = None  #: lists of all arms until the interval is 0.01 to each side
    #: few: fewer than 100 lists of one of them. not-top-down: clicks above depend on what is below.
    refused: Literal["few", "not-top-down"] | None = None


class Comparison(Struct, frozen=True, omit_defaults=True):
    """An arm compared with the baseline."""

    arm: str  #: its name
    baseline: str  #: the arm that it is compared with: the holdout, or the ranker's own if there is none
    since: Moment  #: when the comparison began
    lists: int  #: of all arms since then
    clicks: Interval | None = None  #: per list; null if refused
    value: Interval | None = None  #: per list, if values were given
    certain_since: Moment | None = None  #: the interval of clicks has been on one side of 0 since then
    needed: int | None = None  #: lists of all arms until the interval of clicks is 0.01 to each side
    #: few: one of the arms has fewer than 100 lists, or those of too few subjects. lost-feedback: the share of lists
    #: that were lost differs between the arms, by more than chance. pending: so does the share of those whose feedback
    #: window is open, by more than the interval's half-width.
    refused: Literal["few", "lost-feedback", "pending"] | None = None
    running: bool = True  #: false: one of the arms has no share any more
    after_prefix: AfterPrefix | None = None  #: of the ranker's own arm and the holdout

    @property
    def best_known(self) -> Interval | None:
        """The difference after the shared prefix if there is one, else that of all clicks; None if both are refused."""
        after = self.after_prefix
        return self.clicks if after is None or after.clicks is None else after.clicks


class Day(Struct, frozen=True):
    """The counts of a day, in UTC, by the end of rankings."""

    day: str  #: such as 2026-11-18
    arms: list[ArmCounts]  #: with lists on that day
    comparisons: list[Comparison]  #: of that day alone; each interval holds by itself


class ExperimentState(Struct, frozen=True):
    """The arms of a ranker, and their comparison."""

    ranker: str  #: its name
    shares: dict[str, float]  #: of rankings, by arm
    arms: list[ArmCounts]  #: since they began
    comparisons: list[Comparison]  #: since they began
    days: list[Day]  #: the latest first
    by: Literal["subject", "event", "both"] | None  #: what the rankings were assigned to arms by; null: none has ended


class ShadowState(Struct, frozen=True, omit_defaults=True):
    """The value of the lists that the policy of a ranker in mode shadow would have shown: the share with a click."""

    ranker: str  #: its name
    lists: int = 0  #: that have ended, with what the policy would have shown instead
    effective: float = 0.0  #: how many of the policy's own lists tell as much about their value
    shown: float | None = None  #: the share with a click of the lists that were shown
    value: float | None = None  #: of the policy's lists; null if refused
    low: float | None = None  #: of its interval of 95%, which holds at all times together
    high: float | None = None  #: of its interval
    gain: Interval | None = None  #: of the policy's lists, compared with those that were shown, list by list
    #: not-shadow: the ranker is not in mode shadow, and was not. no-propensities: it does not explore. few: fewer than
    #: 100 effective lists, or 30 effective clicks. no-overlap: the policy's lists are not shown, or not as often as
    #: stated.
    refused: Literal["not-shadow", "no-propensities", "few", "no-overlap"] | None = None
