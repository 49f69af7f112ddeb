from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import pytest

from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.registry import parse_policy, policies, policy_groups
from driftrank.reflection import Registry


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """A kind of its own with known subclasses."""

    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Circle(_Shape):
    radius: float = 1.0
    points: int = 8
    filled: bool = False
    size: int | str = "auto"
    limit: float | None = None
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Frame(_Shape):
    inner: _Shape = dataclasses.field(default_factory=Circle)
    other: _Shape | None = None


@dataclass(frozen=True, kw_only=True)
class Needy(_Shape):
    needed: int


@dataclass(frozen=True, kw_only=True)
class _Hidden(_Shape):
    pass


@dataclass(frozen=True, kw_only=True)
class Abstract(_Shape):
    abstract: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Concrete(Abstract):
    """``abstract`` of a parent is not inherited."""


@pytest.fixture
def shapes(monkeypatch):
    package = ModuleType("shapes_of_the_test")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "shapes_of_the_test", package)
    return Registry("shape", _Shape, "shapes_of_the_test")


def test_public_concrete_subclasses_are_known(shapes):
    assert shapes.all() == {"Circle": Circle, "Concrete": Concrete, "Frame": Frame, "Needy": Needy}
    assert shapes.get("Circle") is Circle


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("Circle", Circle()),
        ("  Circle  ", Circle()),
        ("Circle:radius=2", Circle(radius=2.0)),
        ("Circle:radius=2.5,points=12", Circle(radius=2.5, points=12)),
        ("Circle: radius = 1e-3 , points = 1_000 ", Circle(radius=0.001, points=1000)),
        ("Circle:points=1e3", Circle(points=1000)),
        ("Circle:filled=true", Circle(filled=True)),
        ("Circle:filled=False", Circle(filled=False)),
        ("Circle:size=5", Circle(size=5)),
        ("Circle:size=auto", Circle(size="auto")),
        ("Circle:size=5.5", Circle(size="5.5")),  # left to the class to refuse
        ("Circle:limit=none", Circle(limit=None)),
        ("Circle:limit=-0.5", Circle(limit=-0.5)),
        ("Circle:name=a b", Circle(name="a b")),
        ("Circle:name=x=y", Circle(name="x=y")),
        ("Circle:name=a:b", Circle(name="a:b")),
        ("Circle:weights=[0.5;1;2e0]", Circle(weights=(0.5, 1.0, 2.0))),
        ("Circle:weights=[]", Circle(weights=())),
        ("Frame:inner=Circle", Frame(inner=Circle())),
        ("Frame:inner=Circle()", Frame(inner=Circle())),
        ("Frame:inner=Circle(radius=3,points=4),name=n", Frame(inner=Circle(radius=3.0, points=4), name="n")),
        ("Frame:inner=Frame(inner=Circle(radius=3))", Frame(inner=Frame(inner=Circle(radius=3.0)))),
        ("Frame:inner=Frame(inner=Frame(inner=Circle))", Frame(inner=Frame(inner=Frame(inner=Circle())))),
        ("Frame:other=none", Frame(other=None)),
        ("Frame:other=Circle(points=3)", Frame(other=Circle(points=3))),
        ("Needy:needed=3", Needy(needed=3)),
    ],
)
def test_parse(shapes, spec, expected):
    found = shapes.parse(spec)
    assert found == expected
    for field in dataclasses.fields(found):
        assert type(getattr(found, field.name)) is type(getattr(expected, field.name))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("Cirlce", "unknown shape 'Cirlce'; did you mean Circle\\? Known: Circle, Concrete, Frame, Needy"),
        ("circle", "did you mean Circle"),
        ("Zzzzzz", r"unknown shape 'Zzzzzz'\. Known: Circle"),
        ("", r"unknown shape ''\. Known"),
        ("_Hidden", "unknown shape"),
        ("Abstract", "unknown shape"),
        ("Circle:radios=1", "unknown parameter of Circle 'radios'; did you mean radius\\? Known: filled, limit"),
        ("Circle:", "shape 'Circle:': parameters are missing after the colon"),
        ("Circle:radius", "shape 'Circle:radius': 'radius' is not of the form key=value"),
        ("Circle:radius=", "'radius=' is not of the form key=value"),
        ("Circle:=1", "'=1' is not of the form key=value"),
        ("Circle:radius=1,", "'' is not of the form key=value"),
        ("Circle:radius=1,,points=2", "'' is not of the form key=value"),
        ("Circle:radius=1,radius=2", "radius is given twice"),
        ("Circle:radius=x", "radius='x': must be float"),
        ("Circle:radius=nan", "radius='nan': must be float"),
        ("Circle:radius=inf", "radius='inf': must be float"),
        ("Circle:points=1.5", "points='1.5': must be int"),
        ("Circle:filled=yes", "filled='yes': must be bool"),
        ("Circle:limit=x", "limit='x': must be float or NoneType"),
        ("Circle:weights=[1;x]", r"weights='\[1;x\]': must be numbers in the form"),
        ("Circle:weights=[1;2", r"weights='\[1;2': must be numbers in the form"),
        ("Circle:weights=1", "weights='1': must be"),
        ("Frame:inner=Square", "unknown shape 'Square'"),
        ("Frame:inner=Circle(radius=x)", "radius='x'"),
        ("Frame:inner=Circle(radius=1", "parentheses do not match"),
        ("Frame:inner=Circle)radius=1(", "parentheses do not match"),
        ("Frame:inner=Circle(radius=1)x", "must be of the form NAME or NAME"),
        ("Needy", "shape Needy: the parameter needed is missing"),
        ("Needy:name=x", "the parameter needed is missing"),
    ],
)
def test_bad_specs(shapes, spec, message):
    with pytest.raises(ValueError, match=message):
        shapes.parse(spec)


def test_further_arguments(shapes):
    assert shapes.parse("Frame:name=n", inner=Circle(points=3)) == Frame(name="n", inner=Circle(points=3))
    assert shapes.parse("Needy", needed=4) == Needy(needed=4)
    with pytest.raises(ValueError, match="unknown parameter of Needy 'needed'"):
        shapes.parse("Needy:needed=3", needed=4)  # given already


def test_make_takes_values_as_they_are(shapes):
    assert shapes.make("Circle", {"radius": 2.5, "points": "3"}) == Circle(radius=2.5, points=3)


# -- the policies


def test_policies_are_found_by_reflection():
    known = policies()
    assert list(known) == sorted(known)
    assert known["CascadeSWUCB"] is CascadeSWUCB
    assert IndexPolicy not in known.values()


@pytest.mark.parametrize("name", policies())
def test_specs_of_all_policies_round_trip(name):
    policy = policies()[name]()
    assert policy.spec == name
    assert parse_policy(policy.spec) == policy


@pytest.mark.parametrize(
    "policy",
    [
        CascadeSWUCB(window=500, ties="index"),
        CascadeSWUCB(window="doubling", epsilon=0.6000000000000001, restart=True),
        CascadeSWUCB(feedback="last", epsilon=1e-05),
    ],
)
def test_parameters_round_trip(policy):
    assert parse_policy(policy.spec) == policy


def test_nested_policies_round_trip():
    spec = "OracleRestart:base=CascadeTS(a0=0.5)"
    policy = parse_policy(spec)
    assert policy.spec == spec
    assert policy.base.a0 == 0.5
    assert parse_policy(policy.spec) == policy


def test_bad_policies():
    with pytest.raises(ValueError, match=r"unknown policy 'CascadeSWUBC'; did you mean CascadeSWUCB\?"):
        parse_policy("CascadeSWUBC")
    with pytest.raises(ValueError, match="unknown parameter of CascadeSWUCB 'windov'; did you mean window"):
        parse_policy("CascadeSWUCB:windov=3")
    with pytest.raises(ValueError, match=r"window .*='3.5'"):
        parse_policy("CascadeSWUCB:window=3.5")


def test_policies_by_group():
    groups = policy_groups()
    assert next(iter(groups)) == "The default policy and its predecessor"
    assert list(groups["The default policy and its predecessor"]) == ["CascadeRegimeTS", "PriorRegimeTS"]
    assert list(groups["Policies that detect changes and restart"])[:2] == ["CascadeCD", "CascadeCUSUM"]
    assert groups["Oracles, which know the truth"]["StaticOracle"] is policies()["StaticOracle"]
    assert sorted(name for group in groups.values() for name in group) == sorted(policies())


def test_classes_from_elsewhere_are_a_group(shapes):
    assert shapes.groups() == {"Other": shapes.all()}
