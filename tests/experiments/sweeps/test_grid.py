from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrank.environments.registry import registry as environments
from driftrank.experiments.sweeps.axis_scale import Scale
from driftrank.experiments.sweeps.family import Family, families, named_environments
from driftrank.experiments.sweeps.grid import MOST, parse_template
from driftrank.policies.forgetting.cascade_ducb import CascadeDUCB
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.registry import parse_policy
from driftrank.policies.registry import registry as policies
from driftrank.policies.stationary.cascade_ts import CascadeTS


def values(spec: str, parameter: str) -> tuple[str, ...]:
    return parse_template(spec, policies).axes()[parameter].values


# -- grids ---------------------------------------------------------------------------------------------------------


def test_geometric_integers_are_rounded_and_distinct() -> None:
    assert values("CascadeSWUCB:window=geom(1,64,7)", "window") == ("1", "2", "4", "8", "16", "32", "64")
    few = values("CascadeSWUCB:window=geom(2,10,50)", "window")
    assert few == tuple(str(n) for n in range(2, 11))


def test_linear() -> None:
    assert values("CascadeSWUCB:epsilon=lin(0,1,11)", "epsilon") == tuple(f"{i / 10:g}" for i in range(11))
    assert values("CascadeSWUCB:window=lin(10,20,3)", "window") == ("10", "15", "20")


def test_distance_from_one_is_geometric() -> None:
    found = [float(text) for text in values("CascadeDUCB:discount=1-geom(0.0001,0.1,25)", "discount")]
    assert (found[0], found[-1], len(found)) == (0.9999, 0.9, 25)
    steps = [math.log((1 - b) / (1 - a)) for a, b in itertools.pairwise(found)]
    assert all(step == pytest.approx(math.log(1000) / 24, rel=1e-4) for step in steps)


def test_words_and_vectors() -> None:
    assert values("CascadeSWUCB:ties={random; index}", "ties") == ("random", "index")
    assert values("DCMUCB:stop_after_click={[0.1;0.2];decreasing}", "stop_after_click") == ("[0.1;0.2]", "decreasing")
    assert values("DCMUCB:termination={[0.1;0.2];decreasing}", "stop_after_click") == ("[0.1;0.2]", "decreasing")
    assert values("CascadeSWUCB:restart={true;false}", "restart") == ("true", "false")


def test_product_and_order() -> None:
    template = parse_template("CascadeSWUCB:window={10;20},epsilon=0.4,ties={random;index}", policies)
    assert [template.text(point) for point in template.points()] == [
        "CascadeSWUCB:window=10,epsilon=0.4,ties=random",
        "CascadeSWUCB:window=10,epsilon=0.4,ties=index",
        "CascadeSWUCB:window=20,epsilon=0.4,ties=random",
        "CascadeSWUCB:window=20,epsilon=0.4,ties=index",
    ]
    assert template.text({}) == "CascadeSWUCB:epsilon=0.4"


def test_policies_in_parentheses() -> None:
    family = Family.read("OracleRestart:base=CascadeSWUCB(window=geom(10,1000,3),epsilon=0.4)")
    assert family.parameters == ("base.window",)
    assert [point.values for point in family.points] == [(10,), (100,), (1000,)]
    assert family.reference == "OracleRestart:base=CascadeSWUCB(epsilon=0.4)"
    family = Family.read("OracleRestart:base={CascadeTS(a0=0.5,b0=2);CascadeUCB1}")
    assert [point.values for point in family.points] == [("CascadeTS:a0=0.5,b0=2.0",), ("CascadeUCB1",)]


def test_environments_have_grids_too() -> None:
    template = parse_template("Abrupt:period=geom(100,10000,3),boost={0.5;0.9}", environments)
    assert len(list(template.points())) == 6


def test_close_numbers_keep_the_digits_that_tell_them_apart() -> None:
    found = values("CascadeDUCB:discount=lin(0.9,0.9000001,5)", "discount")
    assert len(set(map(float, found))) == 5


@given(
    low=st.floats(1e-6, 1e3),
    ratio=st.floats(1.5, 1e6),
    count=st.integers(2, 40),
    kind=st.sampled_from(["geom", "lin"]),
)
def test_ends_are_exact_and_all_lies_between(low: float, ratio: float, count: int, kind: str) -> None:
    high = low * ratio
    found = [float(text) for text in values(f"CascadeSWUCB:epsilon={kind}({low!r},{high!r},{count})", "epsilon")]
    assert (found[0], found[-1], len(found)) == (low, high, count)
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("geom(50,20000)", r"window='geom\(50,20000\)': must be geom\(from,to,count\) with three numbers"),
        ("geom(50,20000,x)", "with three numbers"),
        ("geom(50,inf,3)", "with three numbers"),
        ("geom()", "with three numbers"),
        ("geom(0,20000,5)", "from must be above 0"),
        ("geom(-5,20000,5)", "from must be above 0"),
        ("geom(500,50,5)", "from must be less than to"),
        ("lin(50,50,5)", "from must be less than to"),
        ("geom(50,500,1)", "count must be an integer from 2 to 100,000"),
        ("geom(50,500,2.5)", "count must be an integer"),
        ("geom(50,500,1e9)", "count must be an integer"),
        ("1-geom(0.1,0.5,3)", "is for numbers next to 1, and window is an integer"),
        ("gem(50,500,5)", r"window='gem\(50,500,5\)': a grid must be geom\("),
        ("2-geom(50,500,5)", "a grid must be"),
        ("geom(50,500,5)+1", "a grid must be"),
        ("{50;500", r"window='\{50;500': a list must be of the form"),
        ("50;500}", "a list must be of the form"),
        ("{50;{60;70}}", "not inside another"),
        ("{}", "a value is missing"),
        ("{50;;500}", "a value is missing"),
        ("{50;50}", "50 occurs twice"),
        ("{50;geom(60,70,3)}", r"'geom\(60,70,3\)' is a grid of its own"),
        ("{50;5e1}", "CascadeSWUCB:window=50 occurs twice"),
        ("{50;x}", "window"),
        ("lin(0,10,3)", "window.*=0: must be an integer of at least 1"),
        ("geom(50,500,5", "parentheses do not match"),
    ],
)
def test_bad_grids(value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Family.read(f"CascadeSWUCB:window={value}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("CascadeDUCB:discount=1-geom(1e-20,1e-18,4)", "too close to each other"),
        ("CascadeSWUCB:windw=geom(50,500,5)", "unknown parameter of CascadeSWUCB 'windw'; did you mean window?"),
        ("CascadeSWUBC:window=geom(50,500,5)", "unknown policy 'CascadeSWUBC'"),
        ("CascadeSWUCB:window=geom(50,500,5),window={1;2}", "window is given twice"),
        ("CascadeSWUCB:", "parameters are missing after the colon"),
        ("OracleRestart:base=CascadeSWUBC(window=geom(50,500,5))", "unknown policy 'CascadeSWUBC'"),
        ("OracleRestart:base=CascadeSWUCB(window=geom(50,5,5))", "from must be less than to"),
        ("CascadeSWUCB:window=lin(1,90000,90000),epsilon={0.1;0.2}", f"180,000 points together; at most {MOST:,}"),
        ("CascadeDUCB:discount={0.9;1.5}", "discount.*=1.5"),
    ],
)
def test_bad_specs(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Family.read(spec)


# -- families ------------------------------------------------------------------------------------------------------


def test_values_have_the_types_of_the_policy() -> None:
    family = Family.read("CascadeSWUCB:window=geom(50,200,3),epsilon={0.1;1},restart={true;false}")
    assert family.parameters == ("window", "epsilon", "restart")
    assert family.points[0].values == (50, 0.1, True)
    assert [type(value) for value in family.points[-1].values] == [int, float, bool]
    assert all(parse_policy(point.spec) == point.policy for point in family.points)


def test_without_a_grid_it_is_one_policy() -> None:
    family = Family.read("CascadeTS:a0=0.5")
    assert (family.parameters, [p.spec for p in family.points], family.reference) == ((), ["CascadeTS:a0=0.5"], None)


def test_objects_of_one_class_are_taken_together() -> None:
    given = [CascadeSWUCB(window=10, epsilon=0.3), CascadeTS(), CascadeSWUCB(window=30, epsilon=0.3)]
    swucb, ts = families(given)
    assert (swucb.parameters, [p.values for p in swucb.points]) == (("window",), [(10,), (30,)])
    assert swucb.reference == "CascadeSWUCB:epsilon=0.3"
    assert (ts.label, ts.parameters) == ("CascadeTS", ())


def test_a_reference_that_cannot_be_is_none() -> None:
    """A discount goes with no half-life, so that taking both away does, but one of them does not."""
    assert Family.read("CascadeDUCB:half_life={60;600}").reference == "CascadeDUCB"
    with pytest.raises(ValueError, match="half_life"):
        Family.read("CascadeDUCB:half_life=60,discount={0.9;0.99}")
    assert Family.of([CascadeDUCB(half_life=60), CascadeDUCB(discount=0.9)]).reference == "CascadeDUCB"


def test_labels_are_as_short_as_can_be() -> None:
    def labels(*specs: str) -> list[str]:
        return [family.label for family in families(specs)]

    assert labels("CascadeSWUCB:window={1;2}", "CascadeDUCB") == ["CascadeSWUCB", "CascadeDUCB"]
    assert labels("CascadeSWUCB:window={1;2}", "CascadeSWUCB:window={1;2},epsilon=0.1") == [
        "CascadeSWUCB", "CascadeSWUCB:epsilon=0.1",
    ]  # fmt: skip
    assert labels("CascadeSWUCB:window={1;2}", "CascadeSWUCB:epsilon={0.1;0.2}") == [
        "CascadeSWUCB:window={1;2}", "CascadeSWUCB:epsilon={0.1;0.2}",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="occurs twice"):
        labels("CascadeTS", "CascadeTS")


def test_environments_are_told_apart_by_what_differs() -> None:
    from driftrank.environments import Abrupt, Stationary

    alpha = [[0.5, 0.4, 0.3, 0.2, 0.1, 0.1]]
    some = [Abrupt(alpha, period=5), Abrupt(alpha, period=9), Stationary(alpha)]
    found = named_environments(some)
    assert {name: differing for name, (_, differing) in found.items()} == {
        "Abrupt:period=5": {"period": 5}, "Abrupt:period=9": {"period": 9}, "Stationary": {},
    }  # fmt: skip
    with pytest.raises(ValueError, match="Stationary occurs twice; a dictionary gives each a name"):
        named_environments([Stationary(alpha), Stationary(alpha)])
    assert list(named_environments([Stationary(alpha), Stationary(alpha)], ["a", "b"])) == ["a", "b"]


# -- axes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "parameter", "kind"),
    [
        ("CascadeSWUCB:window=geom(50,20000,25)", "window", "log"),
        ("CascadeSWUCB:window=lin(50,20000,25)", "window", "linear"),
        ("CascadeDUCB:discount=1-geom(0.0001,0.1,25)", "discount", "below one"),
        ("CascadeDUCB:discount=lin(0.1,0.9,9)", "discount", "linear"),
        ("CascadeDUCB:epsilon={0.1;0.2;0.4}", "epsilon", "log"),
        ("CascadeSWUCB:window={auto;500}", "window", "words"),
        ("CascadeSWUCB:restart={true;false}", "restart", "words"),
    ],
)
def test_scale_is_that_of_the_grid(spec: str, parameter: str, kind: str) -> None:
    family = Family.read(spec)
    scale = Scale.of(family.values(point)[parameter] for point in family.points)
    assert scale.kind == kind
    edges = scale.edges()
    at = scale.at(scale.values)
    assert len(edges) == len(at) + 1
    low, high = (edges.min(), edges.max())
    assert ((low < at) & (at < high)).all()
    inside = sorted(edges)[1:-1]
    assert all(a < e < b for a, e, b in zip(sorted(at)[:-1], inside, sorted(at)[1:], strict=True))


def test_scale_knows_what_it_can_show() -> None:
    assert Scale.of([10, 100, 1000]).holds(50)
    assert not Scale.of([10, 100, 1000]).holds(0)
    assert not Scale.of([10, 100, 1000]).holds("auto")
    assert not Scale.of([0.9, 0.99, 0.999]).holds(1.0)
    assert Scale.of(["a", "b"]).holds("b")
    assert not Scale.of(["a", "b"]).holds("c")
