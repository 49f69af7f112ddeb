"""Experiments: arms and their comparison."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.answers.experiment import experiment_of
from driftrank.serve.answers.shadow import shadow_of
from driftrank.serve.http.bodies import json_response
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.service import Service
from driftrank.wire import ExperimentState, ShadowState

TAG = "rankers"


async def experiment(service: Service, request: Request) -> Response:
    """Compare the arms of a ranker: clicks per list, and their differences to the baseline.

    The baseline is the holdout, or the ranker's own arm if there is no holdout. The intervals of 95% hold at all times
    together, so they may be looked at at any time; each comparison by itself. Lists of one subject need not be
    independent. Overall, and by day of the end of rankings, in UTC. certain_since: the interval has been on one side of
    0 since then. needed: the number of lists after which the interval will be 0.01 to each side. The counts are part of
    the state, and survive restarts. Pages after the first are not counted.
    """
    return json_response(experiment_of(service.ranker(request.path_params["ranker"])))


async def shadow(service: Service, request: Request) -> Response:
    """Estimate what the policy of a ranker in mode shadow would have earned, before it is shown to anybody.

    Needs explore: the baseline is then shown in an order that is drawn with known probabilities, and lists that begin
    as the policy's would have tell what those earn (doubly robust, for users who read from the top). It is the value of
    what the policy shows with what it has learnt beside the baseline, without the price of its own exploration. The
    interval of 95% holds at all times together. No value is given before there are enough lists. The sums are part of
    the state, and begin again with another policy.
    """
    return json_response(shadow_of(service.ranker(request.path_params["ranker"])))


ROUTES = (
    Operation("GET", "/v1/rankers/{ranker}/experiment", experiment, Need.RANKER, answer=ExperimentState),
    Operation("GET", "/v1/rankers/{ranker}/shadow", shadow, Need.RANKER, answer=ShadowState),
)
