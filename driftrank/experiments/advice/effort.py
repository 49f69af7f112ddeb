"""The amount of work of an advice, from a budget of time.

It follows from the budget and the size of the log, never from a clock: the same log and seed give the same advice.
"""

from __future__ import annotations

from dataclasses import dataclass

from driftrank.policies.parameters import seconds

#: seconds that a repetition takes per list on two cores: find changes, fit, simulate seven policies
_PER_LIST = 45e-6
#: the part of the budget for repetitions, and the number of models that are repeated, usually
_SHARE, _MODELS = 0.6, 2
#: repetitions at least and at most
_FEWEST, _MOST = 8, 20
#: seconds that a policy takes per list in the shadow of a log
_SHADOW = 150e-6


@dataclass(frozen=True)
class Effort:
    """The amount of work."""

    lists: int  #: at most, of the most frequent queries
    budget: float  #: seconds

    def repetitions(self, lists: int) -> int:
        """Logs that are drawn of every plausible model."""
        return int(min(max(_SHARE * self.budget / (_MODELS * lists * _PER_LIST), _FEWEST), _MOST))

    def shadow(self, lists: int) -> bool:
        """True if there is time to run the advised policy in the shadow of the log."""
        return lists * _SHADOW < 0.2 * self.budget


def effort(budget: float | str) -> Effort:
    """The work that about fits a budget, in seconds or as ``"5m"``."""
    given = seconds("budget", budget)
    return Effort(max(2000, round(_SHARE * given / (_MODELS * _FEWEST * _PER_LIST))), given)
