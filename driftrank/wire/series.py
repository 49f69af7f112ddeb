"""The traffic of a ranker over time."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .common import Moment


class ArmSeries(Struct, frozen=True):
    """The lists of an arm over time: a number for each time. Ends of lists count at their own times. Pages after the
    first are not lists of their own."""

    arm: str  #: its name; live, shadow, safe and holdout are the ranker's own
    lists: list[int]  #: that were made
    explored: list[int]  #: those of them with an item that was shown to learn more about it
    feedback: list[int]  #: lists that ended with feedback
    silence: list[int]  #: that ended without feedback, which counts as no click
    dropped: list[int]  #: that ended without feedback and were not learnt from
    withdrawn: list[int]  #: that were taken back
    late: list[int]  #: ends that came after the end of the feedback window
    clicked: list[int]  #: lists with a click, of those with feedback or silence
    clicks: list[int]  #: on these
    value: list[float]  #: the sum of the values of these clicks
    #: clicks per list since the arm began, up to the end of each period; null before 100 lists have ended. The band of
    #: 95% holds at all times together, for lists that do not depend on each other.
    mean: list[float | None]
    low: list[float | None]  #: of the band
    high: list[float | None]  #: of the band


class Positions(Struct, frozen=True):
    """Items by position, from 1; the last number is that of all positions after 20."""

    shown: list[int]  #: items
    explored: list[int]  #: those of them that were shown to learn more about them
    clicked: list[int]  #: clicks, by the end of the list


class Delays(Struct, frozen=True):
    """Clicks by the time since their list was shown. A click after the end of the feedback window is not among them."""

    bounds: list[float]  #: seconds
    clicks: list[int]  #: up to each bound and above the one before; the last number: above all
    cut: list[float | None]  #: the share of the clicks that a feedback window of each bound would have cut off
    wait: float  #: the feedback window, in seconds


class Gain(Struct, frozen=True, omit_defaults=True):
    """An arm compared with the baseline over time: the difference of clicks per list since the comparison began, as it
    was seen last in each hour, with the band of 95% that holds at all times together."""

    arm: str  #: its name
    baseline: str  #: the arm that it is compared with
    since: Moment  #: when the comparison began
    times: list[int]  #: beginnings of hours, in seconds since 1970; those with enough lists
    lists: list[int]  #: of all arms since it began
    difference: list[float]  #: of the arm to the baseline
    low: list[float]  #: of the band
    high: list[float]  #: of the band
    certain_since: Moment | None = None  #: the band has been on one side of 0 since then
    refused: Literal["few", "lost-feedback", "pending"] | None = None  #: as in a comparison
    running: bool = True  #: false: one of the arms has no share any more


class SeriesState(Struct, frozen=True):
    """The traffic of a ranker over time."""

    ranker: str  #: its name
    step: Literal["minute", "hour"]  #: the length of a period
    times: list[int]  #: beginnings of the periods, in seconds since 1970; the last one is not over
    arms: list[ArmSeries]  #: also those that are gone
    changes: list[int]  #: changes of users that were detected, of the latest 1,000
    positions: Positions  #: by whole days, in UTC
    delays: Delays  #: by whole days, in UTC
    gains: list[Gain]  #: of the comparisons of the experiment
