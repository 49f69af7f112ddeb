"""Azure Personalizer's own clients, of which nothing but the endpoint is changed, against a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from azure.ai.personalizer import PersonalizerClient as LaterClient
from azure.cognitiveservices.personalizer import PersonalizerClient
from azure.cognitiveservices.personalizer.models import ErrorResponseException, RankableAction, RankRequest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError
from msrest.authentication import CognitiveServicesCredentials

from driftrank.serve.access.keys import new_key
from tests.serve.running import Running

ACTIONS = {"pasta": [{"taste": "salty"}], "juice": [{"taste": "sweet"}, {"level": 5}]}
CONTEXT = [{"device": "mobile"}, {"time": {"weekday": "monday"}}]


@pytest.fixture(params=["", "/"], ids=["plain", "slash"])
def keyed(tmp_path: Path, request: Any) -> Any:
    """A server, its endpoint as people write it, and the key of its ranker."""
    _, admin_hash = new_key()
    key, key_hash = new_key()
    variables = {
        "DRIFTRANK_ADMIN_KEY": admin_hash, "DRIFTRANK_RANKERS__DEFAULT__KEYS": key_hash,
        "DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1",
    }  # fmt: skip
    with Running(tmp_path, **variables) as server:
        yield server.url + request.param, key


def learnt(endpoint: str, key: str) -> tuple[int, int]:
    info = httpx.get(f"{endpoint.rstrip('/')}/v1/rankers/default", headers={"X-API-Key": key}).json()
    return info["steps"], info["clicks"]


@pytest.mark.slow
def test_the_client_of_version_1_0(keyed: Any) -> None:
    endpoint, key = keyed
    client = PersonalizerClient(endpoint, CognitiveServicesCredentials(key))
    actions = [RankableAction(id=id_, features=features) for id_, features in ACTIONS.items()]
    said = RankRequest(actions=actions, context_features=CONTEXT, event_id="e1", excluded_actions=["juice"])
    answer = client.rank(said)
    assert (answer.event_id, answer.reward_action_id) == ("e1", "pasta")
    assert [(action.id, action.probability) for action in answer.ranking] == [("pasta", 1.0), ("juice", 0.0)]
    client.events.reward(event_id="e1", value=1.0)
    deferred = client.rank(RankRequest(actions=actions, context_features=CONTEXT, defer_activation=True))
    client.events.activate(deferred.event_id)
    client.events.reward(event_id=deferred.event_id, value=0.0)
    assert learnt(endpoint, key) == (2, 1)
    with pytest.raises(ErrorResponseException, match="actions"):
        client.rank(RankRequest(actions=[]))
    with pytest.raises(ErrorResponseException, match="has no access to this resource"):
        PersonalizerClient(endpoint, CognitiveServicesCredentials("wrong")).rank(said)


def test_the_client_of_the_last_version(keyed: Any) -> None:
    endpoint, key = keyed
    with LaterClient(endpoint, AzureKeyCredential(key)) as client:
        said = {
            "actions": [{"id": id_, "features": features} for id_, features in ACTIONS.items()],
            "contextFeatures": CONTEXT, "eventId": "e1", "excludedActions": ["juice"], "deferActivation": True,
        }  # fmt: skip
        answer = client.rank(said)
        assert (answer["eventId"], answer["rewardActionId"]) == ("e1", "pasta")
        client.activate("e1")
        client.reward("e1", {"value": 1.0})
        assert learnt(endpoint, key) == (1, 1)
        with pytest.raises(HttpResponseError, match="actions"):
            client.rank({"actions": []})
    other = LaterClient(endpoint, AzureKeyCredential("wrong"))
    with other, pytest.raises(HttpResponseError, match="has no access to this resource"):
        other.rank(said)
