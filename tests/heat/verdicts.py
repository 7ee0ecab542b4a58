"""Compare the shipped rules on our stack and on Heat's values.

Heat resolves the stack once for each shape of what only the cloud knows. A `Contradiction` is a finding that we are
certain of and that Heat's values do not have, or one that Heat's values have and that we neither report nor call
undetermined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from datalog_gate import Rules, load_rules
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.decision.decision import Violation
from datalog_gate.stack.model import Data, Resource, Stack
from tests.heat.heat_side import HeatResource, HeatStack, Refused, reference, refusals

_RULES = Path(__file__).parents[2] / "rules"

Finding = tuple[str, str | None]
"""A policy, and the path of the resource that it blames."""


class Contradiction(NamedTuple):
    """A finding on which we and Heat's values in that shape disagree; `certain` if it is we who have it."""

    shape: str
    finding: Finding
    certain: bool


def contradictions(ours: Stack, heat: Mapping[str, HeatStack | Refused]) -> list[Contradiction]:
    """Every disagreement. A shape in which Heat refuses the whole has no stack to judge; `none` writes a reference like
    any other text, so nobody could tell the two apart there."""
    judged = {
        shape: _rules().decide(heat_stack(ours, answer, shape))
        for shape, answer in heat.items()
        if shape != "none" and isinstance(answer, HeatStack)
    }
    mine = _rules().decide(ours)
    certain = set(map(_finding, mine.violations))
    possible = {(policy, _finding(violation)[1]) for violation in mine.undetermined for policy in violation.policies}
    unread = [f"{resource.id.path}/" for stack in ours.walk() for resource in stack.resources if resource.open_members]
    problems: list[Contradiction] = []
    for shape, theirs in judged.items():
        unsure = {policy_error.policy for policy_error in (*mine.errors, *theirs.errors)}
        blamed_pairs, rows = (
            set(map(_finding, theirs.violations)),
            {(violation.policy, violation.row) for violation in theirs.violations},
        )
        for violation in mine.violations:
            partly = any(isinstance(value, Unknown) for value in violation.row)
            if (violation.policy, violation.row) not in rows and not (partly and _finding(violation) in blamed_pairs):
                problems.append(Contradiction(shape, _finding(violation), True))
        for policy, blamed in blamed_pairs - certain - possible:
            # a finding about one member, or about nothing that was read, stands for the members that were not read
            around = next((group for group in unread if blamed and blamed.startswith(group)), None)
            told = {(policy, path) for path in (None, *(path for _, path in certain | possible)) if around}
            told = {pair for pair in told if pair[1] is None or pair[1].startswith(str(around))}
            if not told & (certain | possible):
                problems.append(Contradiction(shape, (policy, blamed), False))
        problems = [contradiction for contradiction in problems if contradiction.finding[0] not in unsure]
    return problems


@cache
def _rules() -> Rules:
    return load_rules(_RULES)


def _finding(violation: Violation) -> Finding:
    return violation.policy, violation.resource.path if violation.resource else None


def heat_stack(ours: Stack, answer: HeatStack, shape: str) -> Stack:
    """Our stack with what Heat says in that shape. What Heat can't resolve stays as we have it."""
    return _Filled(shape, ours.id, answer).stack(ours, answer)


class _Filled:
    """Puts Heat's values in place of ours; the texts that are ids of resources in that shape become references."""

    def __init__(self, shape: str, root: str, answer: HeatStack) -> None:
        self._ids = {reference(path, shape): ResourceId(path) for path in _paths(root, answer)}

    def stack(self, ours: Stack, answer: HeatStack) -> Stack:
        mine = {resource.name: resource for resource in ours.resources}
        resources = tuple(
            self._resource(mine.get(name) or _unheard(f"{ours.id}/{name}", resource), resource)
            for name, resource in answer.resources.items()
        )
        return replace(
            ours,
            parameters=tuple(
                replace(
                    parameter, value=self._data(parameter.value, answer.parameters.get(parameter.name, parameter.value))
                )
                for parameter in ours.parameters
            ),
            resources=resources,
            outputs={name: self._data(value, answer.outputs.get(name, value)) for name, value in ours.outputs.items()},
            conditions={
                name: self._data(value, answer.conditions.get(name, value)) for name, value in ours.conditions.items()
            },
        )

    def _resource(self, ours: Resource, built: HeatResource) -> Resource:
        nested, unsure = ours.nested, ours.open_members
        if isinstance(built.nested, HeatStack):
            path = ours.id.path
            empty = Stack(path, path.replace("/", "-"), ours.id, path.count("/"), "heat_template_version", None)
            nested, unsure = self.stack(nested or empty, built.nested), None
        properties = self._data(ours.properties, built.properties or {})
        return replace(
            ours,
            properties=properties if isinstance(properties, dict) else ours.properties,
            metadata=self._data(ours.metadata, built.metadata),
            update_policy=self._data(ours.update_policy, built.update_policy),
            maybe=None,
            nested=nested,
            open_members=unsure,
        )

    def _data(self, ours: Data, heat: Any) -> Data:
        match heat:
            case str():
                return self._ids.get(heat, heat)
            case dict() if isinstance(ours, dict) or not any(refusals(heat)):
                mine = ours if isinstance(ours, dict) else {}
                return {key: self._data(mine.get(key), value) for key, value in heat.items()}
            case list() if isinstance(ours, list) and len(ours) == len(heat):
                return [self._data(item, value) for item, value in zip(ours, heat, strict=True)]
            case list() if not any(refusals(heat)):
                return [self._data(None, value) for value in heat]
            case None | bool() | int() | float():
                return heat
        return ours  # refused, or a set or something else that only yaql knows


def _paths(root: str, answer: HeatStack) -> Iterator[str]:
    for name, resource in answer.resources.items():
        yield f"{root}/{name}"
        if isinstance(resource.nested, HeatStack):
            yield from _paths(f"{root}/{name}", resource.nested)


def _unheard(path: str, resource: HeatResource) -> Resource:
    """A resource that only Heat has."""
    return Resource(ResourceId(path), path.rpartition("/")[2], resource.type, resource.type, {})
