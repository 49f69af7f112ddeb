"""The requests and answers of the ranking service, as types for server and client.

Each file has a subject; all names are imported from here. Imports are relative because the distribution
``driftrank-client`` has these files, too.
"""

from .common import ENCODER as ENCODER
from .common import ItemId as ItemId
from .common import Moment as Moment
from .common import Named as Named
from .common import Problem
from .common import Why as Why
from .experiment import AfterPrefix, ArmCounts, Comparison, Day, ExperimentState, Interval, ShadowState
from .overview import (
    ArmOverview,
    Clickedness,
    NodeOverview,
    Overview,
    RankerOverview,
    RecentRequests,
    ServiceOverview,
)
from .queries import (
    ChangeLogged,
    EndedLists,
    EventFeedback,
    EventState,
    GivenItem,
    ItemLists,
    ItemState,
    ListSummary,
    QueryLists,
    QueryState,
    QuerySummary,
)
from .rankers import ArmSettings, Explored, OperationLogged, RankerInfo, RankerSettings, SharedState
from .rankers import OperationKind as OperationKind
from .ranking import FEEDBACK as FEEDBACK
from .ranking import RANK as RANK
from .ranking import (
    Activation,
    Clicked,
    Feedback,
    FeedbackResult,
    Item,
    RankedItem,
    RankRequest,
    RankResponse,
    in_order,
)
from .ranking import Outcome as Outcome
from .routing import AFTER_HEADER as AFTER_HEADER
from .routing import ROUTE_HEADER as ROUTE_HEADER
from .routing import SEQ_HEADER as SEQ_HEADER
from .routing import route_in, route_of
from .series import ArmSeries, Delays, Gain, Positions, SeriesState
from .transfer import Counted, SavedQuery, WarmRow

#: what the reference describes; encoders, headers and aliases of types can be imported, too
__all__ = [
    "Activation",
    "AfterPrefix",
    "ArmCounts",
    "ArmOverview",
    "ArmSeries",
    "ArmSettings",
    "ChangeLogged",
    "Clicked",
    "Clickedness",
    "Comparison",
    "Counted",
    "Day",
    "Delays",
    "EndedLists",
    "EventFeedback",
    "EventState",
    "ExperimentState",
    "Explored",
    "Feedback",
    "FeedbackResult",
    "Gain",
    "GivenItem",
    "Interval",
    "Item",
    "ItemLists",
    "ItemState",
    "ListSummary",
    "NodeOverview",
    "OperationLogged",
    "Overview",
    "Positions",
    "Problem",
    "QueryLists",
    "QueryState",
    "QuerySummary",
    "RankRequest",
    "RankResponse",
    "RankedItem",
    "RankerInfo",
    "RankerOverview",
    "RankerSettings",
    "RecentRequests",
    "SavedQuery",
    "SeriesState",
    "ServiceOverview",
    "ShadowState",
    "SharedState",
    "WarmRow",
    "in_order",
    "route_in",
    "route_of",
]
