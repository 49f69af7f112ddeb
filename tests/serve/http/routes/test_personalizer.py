"""Azure Personalizer's calls, with bodies as its SDKs send them, against a server in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from driftrank.kernels.rng import key_of
from driftrank.serve.access.keys import new_key
from driftrank.serve.http.routes.personalizer import query_of
from driftrank.serve.state.rewards import is_click
from tests.serve.conftest import JSON
from tests.serve.running import Running

#: as the SDKs for Python and .NET serialise a rank request
BODY: dict[str, Any] = {
    "contextFeatures": [{"timeOfDay": "morning"}, {"device": {"os": "ios", "mobile": True, "width": 390}}],
    "actions": [
        {"id": "pasta", "features": [{"taste": "salty", "spiceLevel": "medium"}, {"nutritionLevel": 5}]},
        {"id": "ice cream", "features": [{"taste": "sweet", "spiceLevel": "none"}, {"nutritionLevel": 2}]},
        {"id": "juice", "features": [{"taste": "sweet", "spiceLevel": "none"}, {"nutritionLevel": 5}]},
        {"id": "salad", "features": [{"taste": "salty", "spiceLevel": "low"}, {"nutritionLevel": 8}]},
    ],
    "deferActivation": False,
}
IDS = [action["id"] for action in BODY["actions"]]

Start = Callable[..., "Loop"]


class Loop:
    """A learning loop of Personalizer: a ranker of its own for every test."""

    def __init__(self, server: Running, **settings: Any) -> None:
        self.http = httpx.Client(base_url=server.url, timeout=120)  # the first list waits for the compiler
        self.http.put("/v1/rankers/default?discard=true", json=settings).raise_for_status()
        self.http.post("/v1/rankers/default/reset").raise_for_status()

    def rank(self, **changes: Any) -> httpx.Response:
        return self.http.post("/personalizer/v1.0/rank?unknown=ignored", json=BODY | changes)

    def ranked(self, **changes: Any) -> Any:
        answer = self.rank(**changes)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def reward(self, event_id: str, value: Any) -> None:
        answer = self.http.post(f"/personalizer/v1.0/events/{event_id}/reward", json={"value": value})
        assert (answer.status_code, answer.content) == (204, b""), answer.text

    def activate(self, event_id: str) -> None:
        # SDKs send no body, and say that its length is 0
        answer = self.http.post(f"/personalizer/v1.0/events/{event_id}/activate", headers={"Content-Length": "0"})
        assert (answer.status_code, answer.content) == (204, b""), answer.text

    def state(self, query: str = "") -> Any:
        return self.http.get(f"/v1/rankers/default/queries/{query}").json()

    def learnt(self, query: str = "") -> tuple[int, int]:
        state = self.state(query)
        return state["steps"], state["clicks"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("personalizer")) as running:
        yield running


@pytest.fixture
def start(server: Running) -> Iterator[Start]:
    loops: list[Loop] = []

    def started(**settings: Any) -> Loop:
        loops.append(Loop(server, **settings))
        return loops[-1]

    yield started
    for loop in loops:
        loop.http.close()


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    assert answer.headers["content-type"] == "application/json"
    (error,) = answer.json().values()
    return answer.status_code, error["code"], error["message"]


# -- rank --------------------------------------------------------------------------------------------------------------


def test_all_actions_are_ranked_and_one_is_to_be_shown(start: Start) -> None:
    answer = start().ranked(eventId="shape")
    assert set(answer) == {"ranking", "eventId", "rewardActionId"}
    assert answer["eventId"] == "shape"
    assert sorted(action["id"] for action in answer["ranking"]) == sorted(IDS)
    assert answer["ranking"][0] == {"id": answer["rewardActionId"], "probability": 1.0}
    assert [action["probability"] for action in answer["ranking"][1:]] == [0.0] * 3


def test_an_event_id_is_generated_by_default(start: Start) -> None:
    loop = start()
    made = {loop.ranked(eventId=None)["eventId"], loop.ranked()["eventId"]}
    assert len(made) == 2
    assert "" not in made


def test_the_same_event_id_gives_the_same_action(start: Start) -> None:
    loop = start(policy="CascadeTS")
    first = [loop.ranked(eventId=f"same/{n}")["rewardActionId"] for n in range(10)]
    assert first == [loop.ranked(eventId=f"same/{n}")["rewardActionId"] for n in range(10)]
    assert len(set(first)) > 1
    assert loop.http.get("/v1/rankers/default").json()["lists"] == 10


def test_excluded_actions_keep_their_places_and_are_never_chosen(start: Start) -> None:
    loop = start()
    for n in range(10):
        answer = loop.ranked(eventId=f"excluded/{n}", excludedActions=["pasta", "juice", "not an action"])
        ranking = answer["ranking"]
        assert ranking[0] == {"id": "pasta", "probability": 0.0}
        assert ranking[2] == {"id": "juice", "probability": 0.0}
        assert ranking[1] == {"id": answer["rewardActionId"], "probability": 1.0}
        assert len(ranking) == 4


def test_absent_and_null_are_the_same(start: Start) -> None:
    loop = start(context=["device"])
    nothing = dict.fromkeys(("contextFeatures", "excludedActions", "eventId", "deferActivation"))
    loop.ranked(**nothing)
    answer = loop.http.post("/personalizer/v1.0/rank", json={"actions": [{"id": "a"}, {"id": "b"}]})
    assert answer.status_code == 201
    assert loop.state("device=")["lists"] == 2


def test_a_new_query_begins_with_the_first_action(start: Start) -> None:
    loop = start()
    answer = loop.ranked(eventId="in order")
    assert [action["id"] for action in answer["ranking"]] == IDS


def test_actions_below_are_in_the_order_of_what_was_learnt(start: Start) -> None:
    loop = start(policy="CascadeTS")
    for n in range(60):
        answer = loop.ranked(eventId=f"order/{n}")
        loop.reward(answer["eventId"], {"salad": 1, "juice": 1 if n % 2 else 0}.get(answer["rewardActionId"], 0))
    known = {item["id"]: item["estimate"] for item in loop.state()["items"]}
    answer = loop.ranked(eventId="order/last")
    below = [known[action["id"]] for action in answer["ranking"][1:]]
    assert below == sorted(below, reverse=True)


def test_probabilities_of_a_policy_that_defines_them(start: Start) -> None:
    answer = start(policy="CascadeSoftmax").ranked(eventId="softmax")
    assert [action["probability"] for action in answer["ranking"]] == pytest.approx([0.25] * 4)
    answer = start(policy="CascadeSoftmax").ranked(eventId="softmax of one", excludedActions=IDS[1:])
    assert [action["probability"] for action in answer["ranking"]] == [1.0, 0.0, 0.0, 0.0]


def test_a_shadow_is_an_apprentice(start: Start) -> None:
    loop = start(mode="shadow")
    assert {loop.ranked(eventId=f"shadow/{n}")["rewardActionId"] for n in range(5)} == {"pasta"}
    assert loop.ranked(eventId="shadow/x", excludedActions=["pasta"])["rewardActionId"] == "ice cream"
    loop.reward("shadow/0", 1)
    assert loop.learnt() == (1, 1)


def test_numeric_features_reach_a_policy_that_uses_them(start: Start) -> None:
    loop = start(policy="CascadeLinUCB")
    actions = [{"id": id_, "features": [{"price": n, "shape": {"cm": 10.5 - n}}]} for n, id_ in enumerate(IDS)]
    for n in range(30):
        answer = loop.ranked(eventId=f"linear/{n}", actions=actions, excludedActions=["salad"])
        loop.reward(answer["eventId"], 1 if answer["rewardActionId"] == "juice" else 0)
    # salad was never shown, and is much like what is liked: more of what juice has more of than the others
    answer = loop.ranked(eventId="linear/last", actions=actions)
    assert answer["rewardActionId"] == "salad"


def test_other_features_are_ignored(start: Start) -> None:
    loop = start(policy="CascadeLinUCB")
    answer = loop.ranked(eventId="words")
    assert answer["notes"][0] == "features: not used, CascadeLinUCB needs the same numbers for all items"
    loop.reward("words", 1)
    assert loop.learnt() == (1, 1)


def test_features_and_context_reach_the_shared_model(start: Start) -> None:
    """At noon users like what is salty, at night what is sweet; every event has new actions."""
    loop = start(policy="PriorRegimeTS:hash_bits=10")
    right = []
    for n in range(300):
        noon = n % 2 == 0
        actions = [{"id": f"{n}/{i}", "features": [{"taste": ("salty", "sweet")[i % 2]}]} for i in range(4)]
        context = [{"time": {"noon": noon}}, {"numbers": [1, 2]}]
        answer = loop.ranked(eventId=f"taste/{n}", actions=actions, contextFeatures=context)
        right.append((answer["rewardActionId"][-1] in "02") == noon)
        loop.reward(answer["eventId"], 1 if right[-1] else 0)
    assert sum(right[-100:]) > 80
    below = [ranked["id"][-1] in "02" for ranked in answer["ranking"]]
    assert below[:2] in ([False, False], [True, True]), "those of the same taste are next"
    note = "contextFeatures: 'numbers': must be a number, a string, a boolean or a list of strings; ignored"
    assert answer["notes"] == [note]
    many = [{"tags": [str(n) for n in range(400)]}, {str(n): n for n in range(400)}]
    answer = loop.ranked(eventId="many", actions=[{"id": "a", "features": many}], contextFeatures=many)
    assert answer["rewardActionId"] == "a", "Personalizer takes any number"
    assert answer["notes"] == [
        "contextFeatures: 'tags' is one too many; ignored", "features: 'tags' is one too many; ignored",
        "features: the first 32 names of an item are used, 224 were left out",
        "context: the first 32 names of a request are used, 224 were left out",
    ]  # fmt: skip


def test_it_finds_the_best_action(start: Start) -> None:
    loop = start()
    best = []
    for n in range(400):
        answer = loop.ranked(eventId=f"best/{n}")
        chosen = answer["rewardActionId"]
        best.append(chosen == "salad")
        loop.reward(answer["eventId"], 0.6 if chosen == "salad" else 0.2)
    assert sum(best[-100:]) > 60


# -- context -----------------------------------------------------------------------------------------------------------


def test_named_features_of_the_context_identify_a_query(start: Start) -> None:
    loop = start(context=["timeOfDay", "device.os"])
    loop.ranked(eventId="context/1")
    loop.ranked(eventId="context/2", contextFeatures=[{"device": {"os": "android"}, "timeOfDay": "night"}])
    queries = loop.http.get("/v1/rankers/default/queries").json()
    assert queries == ["timeOfDay=morning|device.os=ios", "timeOfDay=night|device.os=android"]


def test_without_names_all_contexts_are_one_query(start: Start) -> None:
    loop = start()
    loop.ranked(eventId="one/1")
    loop.ranked(eventId="one/2", contextFeatures=[{"timeOfDay": "night"}])
    assert loop.http.get("/v1/rankers/default/queries").json() == [""]
    assert loop.http.get("/v1/rankers/default/queries?after=").json() == []
    assert loop.state()["lists"] == 2
    assert loop.http.get("/v1/rankers/default/export").text.count('"query":""') == 1


@pytest.mark.parametrize(
    ("names", "features", "query"),
    [
        (["os"], [{"device": {"os": "ios"}}], "os=ios"),
        (["device.os"], [{"device": {"os": "ios"}}], "device.os=ios"),
        (["os"], [{"device": {"os": "deep"}}, {"os": "shallow"}], "os=shallow"),
        (["os"], [{"os": "first"}, {"os": "second"}], "os=first"),
        (["b", "a"], [{"a": 1, "b": True}], "b=true|a=1"),
        (["a"], [{"a": 1.5}], "a=1.5"),
        (["a"], [{"a": ["x", 2]}], 'a=["x",2]'),
        (["a", "b"], [{"a": None}], "a=|b="),
        (["a", "b"], [{"a": "x|b=y"}], "a=x%7Cb=y|b="),
        (["a.b"], [{"a.b": "with a dot"}], "a.b=with a dot"),
        ([], [{"a": 1}], ""),
    ],
)
def test_query_of_a_context(names: list[str], features: list[dict[str, Any]], query: str) -> None:
    assert query_of(names, features) == query


def test_a_deeply_nested_context_is_searched_to_a_limit() -> None:
    deep: dict[str, Any] = {"a": 1}
    for _ in range(500):
        deep = {"n": deep, "m": 2}
    assert query_of(["a", "m"], [deep]) == "a=|m=2"


# -- reward ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "clicks"), [(1, 1), (1.0, 1), (2.5, 1), (0, 0), (0.0, 0), (-1, 0)])
def test_a_reward_is_a_click_or_none(start: Start, value: float, clicks: int) -> None:
    loop = start()
    loop.ranked(eventId=f"reward/{value!r}")
    loop.reward(f"reward/{value!r}", value)
    assert loop.learnt() == (1, clicks)


def test_a_reward_in_between_is_a_click_with_that_probability() -> None:
    for value in (0.01, 0.3, 0.9):
        share = sum(is_click("default", f"e{n}", 1, value) for n in range(20_000)) / 20_000
        assert share == pytest.approx(value, abs=4 * (value * (1 - value) / 20_000) ** 0.5)


def test_a_reward_does_not_depend_on_how_the_action_was_drawn() -> None:
    # with the same hash for both, some rankings would be rewarded more often
    both = sum(is_click("default", f"e{n}", 1, 0.5) == (key_of(f"e{n}") >> 63 == 0) for n in range(10_000))
    assert both == pytest.approx(5_000, abs=250)


def test_a_reward_tried_again_is_the_same(start: Start) -> None:
    loop = start()
    for n in range(20):
        loop.ranked(eventId=f"again/{n}")
        for _ in range(2):
            loop.reward(f"again/{n}", 0.5)
    steps, clicks = loop.learnt()
    assert (steps, clicks) == (20, sum(is_click("default", f"again/{n}", 1, 0.5) for n in range(20)))


def test_the_first_reward_counts(start: Start) -> None:
    loop = start()
    loop.ranked(eventId="first")
    loop.reward("first", 0)
    loop.reward("first", 1)
    assert loop.learnt() == (1, 0)


def test_the_largest_reward_counts_if_clicks_are_collected(start: Start) -> None:
    loop = start(second_click="update", wait="0.2s")
    loop.ranked(eventId="largest")
    for value in (0, 1, 0):
        loop.reward("largest", value)
    assert _in_the_end(loop) == (1, 1)


def test_silence_is_the_default_reward(start: Start) -> None:
    loop = start(wait="0.1s")
    loop.ranked(eventId="silence")
    assert _in_the_end(loop) == (1, 0)
    loop.reward("silence", 1)  # too late, and accepted all the same
    assert loop.learnt() == (1, 0)


def test_rewards_of_unknown_events_are_accepted(start: Start) -> None:
    loop = start()
    loop.reward("there is none of this name", 1)
    loop.activate("there is none of this name")
    assert loop.http.get("/v1/rankers/default").json()["lists"] == 0


def test_ids_may_contain_any_characters(start: Start) -> None:
    loop = start()
    loop.ranked(eventId="a/b reward?ü")
    loop.reward("a%2Fb%20reward%3F%C3%BC", 1)
    assert loop.learnt() == (1, 1)


# -- activate ----------------------------------------------------------------------------------------------------------


def test_a_deferred_event_counts_once_it_is_activated(start: Start) -> None:
    loop = start()
    loop.ranked(eventId="deferred", deferActivation=True)
    loop.reward("deferred", 1)  # not shown yet
    assert loop.learnt() == (0, 0)
    for _ in range(2):
        loop.activate("deferred")
    loop.reward("deferred", 1)
    assert loop.learnt() == (1, 1)


def test_a_deferred_event_has_no_default_reward(start: Start) -> None:
    loop = start(wait="0.1s")
    loop.ranked(eventId="never shown", deferActivation=True)
    loop.ranked(eventId="shown")
    assert _in_the_end(loop) == (1, 0)
    loop.activate("never shown")
    assert _in_the_end(loop, steps=2) == (2, 0)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"actions": []}, "length >= 1 - at `$.actions`"),
        ({"actions": [{"id": f"a{n}"} for n in range(51)]}, "length <= 50 - at `$.actions`"),
        ({"actions": [{"id": "a"}, {"id": "a"}]}, "'a' occurs twice"),
        ({"actions": [{"id": "x" * 257}]}, "length <= 256"),
        ({"actions": [{"id": ""}]}, "length >= 1"),
        ({"actions": [{"id": 7}]}, "Expected `str`"),
        ({"actions": [{"features": []}]}, "missing required field `id`"),
        ({"actions": None}, "Expected `array`"),
        ({"excludedActions": IDS}, "at least one that is not excluded"),
        ({"eventId": "x" * 257}, "length <= 256"),
        ({"contextFeatures": {"a": 1}}, "Expected `array"),
        ({"contextFeatures": ["a"]}, "Expected `object`"),
    ],
)
def test_bad_rank_requests(start: Start, changes: dict[str, Any], expected: str) -> None:
    status, code, message = refusal(start().rank(**changes))
    assert (status, code) == (400, "InvalidRankRequest")
    assert expected in message


def test_fifty_actions_are_not_too_many(start: Start) -> None:
    answer = start().ranked(eventId="fifty", actions=[{"id": f"a{n}", "features": []} for n in range(50)])
    assert len(answer["ranking"]) == 50


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"{", b'{"value": "much"}', b'{"value": null}', b'{"value": 1e999}', b"1"]
)
def test_bad_rewards(start: Start, body: bytes) -> None:
    answer = start().http.post("/personalizer/v1.0/events/x/reward", content=body, headers=JSON)
    assert refusal(answer)[:2] == (400, "InvalidRewardRequest")


def test_an_id_that_is_too_long(start: Start) -> None:
    answer = start().http.post(f"/personalizer/v1.0/events/{'x' * 257}/activate")
    assert refusal(answer)[:2] == (400, "InvalidEventIdToActivate")


def test_an_event_id_is_for_one_choice(start: Start) -> None:
    loop = start(context=["timeOfDay"])
    chosen = loop.ranked(eventId="taken")["rewardActionId"]
    others: list[dict[str, Any]] = [
        {"contextFeatures": []}, {"excludedActions": [chosen]}, {"actions": [{"id": "other"}]},
    ]  # fmt: skip
    for changes in others:
        status, code, message = refusal(loop.rank(eventId="taken", **changes))
        assert (status, code) == (409, "InvalidRankRequest")
        assert "'taken'" in message


def test_an_endpoint_may_end_in_a_slash(start: Start) -> None:
    loop = start()
    at = httpx.URL(str(loop.http.base_url).rstrip("/") + "//personalizer/v1.0/rank")
    assert loop.http.post(at, json=BODY).status_code == 201
    assert refusal(loop.http.post(at, json={}))[:2] == (400, "InvalidRankRequest")


@pytest.mark.parametrize("version", ["", "v1.1-preview.1/", "v1.1-preview.3/", "v1.1-preview/"])
@pytest.mark.parametrize("slashes", ["/", "//"])
def test_later_versions_of_the_same_calls(start: Start, version: str, slashes: str) -> None:
    loop = start(k=1)
    base = f"{str(loop.http.base_url).rstrip('/')}{slashes}personalizer/{version}"
    event = f"{version}{len(slashes)}"  # with a slash of its own
    event_url = f"{base}events/{event.replace('/', '%2F')}"
    answer = loop.http.post(httpx.URL(f"{base}rank?api-version=2022-09-01-preview"), json=BODY | {"eventId": event})
    assert (answer.status_code, answer.json()["eventId"]) == (201, event)
    assert loop.http.post(httpx.URL(f"{event_url}/activate")).status_code == 204
    assert loop.http.post(httpx.URL(f"{event_url}/reward"), json={"value": 1}).status_code == 204
    assert loop.learnt() == (1, 1)
    assert refusal(loop.http.post(httpx.URL(f"{base}rank"), json={}))[:2] == (400, "InvalidRankRequest")
    for other in ("ranks", "rank/", "multislot/rank", "v2.0/rank", "v1.0/v1.0/rank"):
        assert refusal(loop.http.post(httpx.URL(f"{base}{other}"), json=BODY))[0] == 404


def test_other_calls_of_personalizer_are_not_supported(start: Start) -> None:
    assert refusal(start().http.get("/personalizer/v1.0/configurations/service"))[:2] == (404, "ResourceNotFound")


def test_keys_are_sent_as_to_personalizer(tmp_path_factory: pytest.TempPathFactory) -> None:
    admin, admin_hash = new_key()
    key, key_hash = new_key()
    variables = {"DRIFTRANK_ADMIN_KEY": admin_hash, "DRIFTRANK_RANKERS__MENU__KEYS": key_hash}
    with Running(tmp_path_factory.mktemp("keys"), DRIFTRANK_PERSONALIZER="menu", **variables) as running:
        http = httpx.Client(base_url=running.url, timeout=120)
        assert refusal(http.post("/personalizer/v1.0/rank", json=BODY))[0] == 401
        wrong = {"Ocp-Apim-Subscription-Key": "wrong"}
        assert refusal(http.post("/personalizer/v1.0/rank", json=BODY, headers=wrong))[0] == 403
        for right in (key, admin):
            headers = {"Ocp-Apim-Subscription-Key": right}
            assert http.post("/personalizer/v1.0/rank", json=BODY, headers=headers).status_code == 201
        twice = f"{running.url}//personalizer/v1.0/rank"
        assert refusal(http.post(twice, json=BODY))[0] == 401
        assert http.post(twice, json=BODY, headers={"Ocp-Apim-Subscription-Key": key}).status_code == 201
        later = f"{running.url}/personalizer/v1.1-preview.3/rank"
        assert refusal(http.post(later, json=BODY))[0] == 401
        assert refusal(http.post(later, json=BODY, headers=wrong))[0] == 403
        ranker = http.get("/v1/rankers/menu", headers={"X-API-Key": admin}).json()
        assert ranker["lists"] == 3
        http.close()


def _in_the_end(loop: Loop, steps: int = 1) -> tuple[int, int]:
    """What was learnt, once there is something."""
    for _ in range(600):
        learnt = loop.learnt()
        if learnt[0] >= steps:
            return learnt
        time.sleep(0.05)
    raise AssertionError(f"nothing was learnt in half a minute: {loop.state()}")
