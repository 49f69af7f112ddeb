"""The policies of a sweep: families of settings that differ in a few parameters."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from driftrank.engine import Task
from driftrank.environments.base import Environment
from driftrank.experiments.sweeps.grid import parse_template
from driftrank.policies.base import Policy
from driftrank.policies.registry import PolicyLike, as_policy, parse_policy, registry
from driftrank.validation import check_text

#: types that can be written to text and files as they are
PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Point:
    """One setting: the spec of a policy, and its values of the parameters that are swept."""

    spec: str
    values: tuple[Any, ...]

    @property
    def policy(self) -> Policy:
        return parse_policy(self.spec)


@dataclass(frozen=True)
class Family:
    """Policies that differ in a few parameters only."""

    spec: str  #: with its grids, as it was given
    parameters: tuple[str, ...]  #: those that are swept
    points: tuple[Point, ...]
    #: the policy with the defaults of these parameters, which theory may set; None if they have none
    reference: str | None = None
    label: str = ""

    def values(self, point: Point) -> dict[str, Any]:
        """The swept parameters of a setting."""
        return dict(zip(self.parameters, point.values, strict=True))

    @classmethod
    def read(cls, spec: str) -> Family:
        """All policies of a spec with grids.

        >>> family = Family.read("CascadeDUCB:epsilon=0.4,discount=1-geom(0.001,0.1,3)")
        >>> [point.values for point in family.points]
        [(0.999,), (0.99,), (0.9,)]
        >>> family.reference
        'CascadeDUCB:epsilon=0.4'
        """
        template = parse_template(spec, registry)
        axes = template.axes()
        points = []
        for chosen in template.points():
            policy = parse_policy(template.text(chosen))
            points.append(Point(policy.spec, tuple(_plain(_at(policy, path)) for path in axes)))
        _check_once(point.spec for point in points)
        reference = None
        if axes:
            # a parameter may have no default, or one that cannot go with the others
            with contextlib.suppress(ValueError):
                reference = parse_policy(template.text({})).spec
        return cls(spec.strip(), tuple(axes), tuple(points), reference)

    @classmethod
    def of(cls, policies: Sequence[Policy]) -> Family:
        """Policies of one class; the swept parameters are those in which they differ.

        >>> from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
        >>> Family.of([CascadeSWUCB(window=100), CascadeSWUCB(window=300)]).parameters
        ('window',)
        """
        _check_once(policy.spec for policy in policies)
        first = policies[0]
        fields = [
            f for f in dataclasses.fields(first) if any(getattr(p, f.name) != getattr(first, f.name) for p in policies)
        ]
        points = tuple(Point(p.spec, tuple(_plain(getattr(p, f.name)) for f in fields)) for p in policies)
        reference = None
        if fields:
            with contextlib.suppress(ValueError, TypeError):
                reference = first.replace(**{f.name: f.default for f in fields}).spec
        spec = first.spec if len(policies) == 1 else "; ".join(policy.spec for policy in policies)
        return cls(spec, tuple(f.name for f in fields), points, reference)

    def recommended(self, task: Task) -> dict[str, Any]:
        """The values that the reference gives to the swept parameters, ``"auto"`` resolved.

        If they depend on the query, the median over the queries.
        """
        if self.reference is None:
            return {}
        found: dict[str, Any] = {}
        policy = parse_policy(self.reference)
        for path in self.parameters:
            values = [_resolved(policy, path, task, query) for query in task.environment.names]
            if all(value == values[0] for value in values):
                found[path] = values[0]
            elif all(isinstance(value, (int, float)) for value in values):
                found[path] = statistics.median(values)
        return {path: value for path, value in found.items() if value is not None}


def families(policies: PolicyLike | Iterable[PolicyLike]) -> list[Family]:
    """Families: one for every spec, and one for all policies of a class that are given as objects."""
    objects: dict[type[Policy], list[Policy]] = {}
    found: list[Family | type[Policy]] = []
    for given in registry.several("policies", policies):
        if isinstance(given, str):
            check_text("policy", given)
            found.append(Family.read(given))
            continue
        policy = as_policy(given)
        if type(policy) not in objects:
            found.append(type(policy))
        objects.setdefault(type(policy), []).append(policy)
    return labelled([Family.of(objects[f]) if isinstance(f, type) else f for f in found])


def labelled(found: Sequence[Family]) -> list[Family]:
    """Families with labels: the policy with the parameters that are set and not swept, or all of its spec."""
    fixed = [family.points[0].spec if not family.parameters else family.reference or family.spec for family in found]
    often = Counter(fixed)
    labels = [short if often[short] == 1 else family.spec for short, family in zip(fixed, found, strict=True)]
    _check_once(labels)
    return [dataclasses.replace(family, label=label) for family, label in zip(found, labels, strict=True)]


def named_environments(
    environments: Sequence[Environment], names: Sequence[str] = ()
) -> dict[str, tuple[Environment, dict[str, Any]]]:
    """Environments by name, with the parameters in which those of one class differ.

    >>> from driftrank.environments import BLB
    >>> {name: differing for name, (_, differing) in named_environments([BLB(L=8), BLB(L=16)]).items()}
    {'BLB:L=8': {'L': 8}, 'BLB:L=16': {'L': 16}}
    """
    found: dict[str, tuple[Environment, dict[str, Any]]] = {}
    for n, environment in enumerate(environments):
        alike = [other for other in environments if type(other) is type(environment)]
        differing = {
            f.name: _plain(getattr(environment, f.name))
            for f in dataclasses.fields(environment)
            if f.name != "queries" and any(getattr(o, f.name) != getattr(environment, f.name) for o in alike)
        }
        label = type(environment).__name__
        if differing:
            label += ":" + ",".join(f"{name}={value}" for name, value in differing.items())
        label = names[n] if names else label
        if label in found:
            raise ValueError(f"environments: {label} occurs twice; a dictionary gives each a name")
        found[label] = environment, differing
    return found


def _at(policy: Any, path: str) -> Any:
    for name in path.split("."):
        policy = getattr(policy, name)
    return policy


def _plain(value: Any) -> Any:
    """A value that can be written to a file."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, tuple):
        return f"[{';'.join(map(str, value))}]"
    return getattr(value, "spec", str(value))


def _check_once(specs: Iterable[str]) -> None:
    for spec, n in Counter(specs).items():
        if n > 1:
            raise ValueError(f"policies: {spec} occurs twice")


def _resolved(policy: Policy, path: str, task: Task, query: str) -> Any:
    """The value of a parameter that the kernels get."""
    outer, _, name = path.rpartition(".")
    owner: Policy = _at(policy, outer) if outer else policy
    value = getattr(owner, name)
    if isinstance(value, (str, type(None))) and name not in owner.choices:
        value = owner.parameters(task.problem(query, owner)).get(name, value)
    return None if isinstance(value, float) and math.isnan(value) else _plain(value)
