"""Compare our stack with what Heat makes of the same input.

The inputs are our `Stack`, or the diagnostics that refuse it, and Heat's answer for every shape of what only the cloud
knows; the result is the `Difference`s and how many resources were compared. What we call known must be Heat's value in
every shape; what we call unknown must depend on the cloud, so differ between shapes; two unknowns that we write alike
must be alike there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.stack.model import GROUPS, Resource, Stack
from datalog_gate.template.environment import TEMPLATE_ENDINGS
from tests.heat.heat_side import HeatResource, HeatStack, Refused, reference, refusals

Shaped = Mapping[str, Any]
"""Heat's value of one place by shape."""
_ABSENT = Refused("absent")


@dataclass(frozen=True)
class Difference:
    """A place where we and Heat differ, with both values."""

    at: str
    ours: object
    heat: object


@dataclass
class Report:
    """The comparison of `compared` of `resources`."""

    differences: list[Difference] = field(default_factory=list)
    resources: int = 0
    compared: int = 0
    _words: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def differ(self, at: str, ours: object, heat: object) -> None:
        """Note a difference."""
        self.differences.append(Difference(at, ours, heat))


def compare(ours: Stack | list[str], heat: Mapping[str, HeatStack | Refused]) -> Report:
    """Compare one template; `ours` is the stack, or the diagnostics with which we refuse it."""
    report = Report()
    accepted_by_shape = {shape: answer for shape, answer in heat.items() if isinstance(answer, HeatStack)}
    if isinstance(ours, list):
        if accepted := [shape for shape, answer in accepted_by_shape.items() if not stack_refusals(answer)]:
            report.differ("", ours, f"accepts it where the cloud says {', '.join(accepted)}")
    elif not accepted_by_shape:
        report.differ("", "accepts it", dict(heat))
    else:
        _stack(report, ours, accepted_by_shape)
    return report


def stack_refusals(answer: HeatStack) -> list[Refused]:
    """Everything in the stack that Heat can't resolve: it would fail before or while it builds it."""
    errors = [*refusals(answer.conditions), *refusals(answer.outputs)]
    for resource in answer.resources.values():
        parts = [resource.properties, resource.metadata, resource.deletion_policy, resource.update_policy]
        nested = resource.nested
        errors += refusals(parts)
        errors += stack_refusals(nested) if isinstance(nested, HeatStack) else refusals(nested)
    return errors


def _stack(
    report: Report, ours: Stack, answers: Mapping[str, HeatStack], *, group: bool = False, open_: bool = False
) -> None:
    if not group:
        parameters = {parameter.name: parameter.value for parameter in ours.parameters}
        _value(
            report, f"{ours.id} parameters", parameters, {at: _own(answer.parameters) for at, answer in answers.items()}
        )
        _value(
            report,
            f"{ours.id} conditions",
            dict(ours.conditions),
            {at: answer.conditions for at, answer in answers.items()},
        )
        for name, value in ours.outputs.items():
            shaped = {at: answer.outputs.get(name) for at, answer in answers.items()}
            if value is None:  # in Heat's API an output with an error has no value
                shaped = {at: None if list(refusals(output)) else output for at, output in shaped.items()}
            _value(report, f"{ours.id} output {name}", value, shaped)
        if more := {name for answer in answers.values() for name in answer.outputs} - ours.outputs.keys():
            report.differ(f"{ours.id} outputs", sorted(ours.outputs), sorted(more))
    mine = {resource.name: resource for resource in ours.resources}
    for name in mine.keys() | {name for answer in answers.values() for name in answer.resources}:
        report.resources += 1
        built = {at: answer.resources[name] for at, answer in answers.items() if name in answer.resources}
        if name not in mine or not built or (len(built) < len(answers) and not open_ and not mine[name].maybe):
            if not open_:
                report.differ(f"{ours.id}/{name}", name in mine, sorted(built))
            continue
        _resource(report, mine[name], built)


def _own(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if not name.startswith(("OS::", "AWS::"))}


def _resource(report: Report, ours: Resource, answers: Mapping[str, HeatResource]) -> None:
    def part(part_name: str, mine: object, theirs: str) -> None:
        _value(
            report, f"{ours.id.path} {part_name}", mine, {at: getattr(answer, theirs) for at, answer in answers.items()}
        )

    report.compared += 1
    kinds = {answer.type for answer in answers.values()}
    if {_kind(kind) for kind in kinds} != {_kind(ours.type)}:
        report.differ(f"{ours.id.path} type", ours.type, kinds)
    empty = {at: _filled(answer) for at, answer in answers.items()}
    for part_name in ("properties", "metadata", "update_policy"):
        mine = getattr(ours, part_name)
        shaped = {at: parts[part_name] for at, parts in empty.items()}
        _value(report, f"{ours.id.path} {part_name}", {} if mine is None else mine, shaped)
    part("deletion_policy", ours.deletion_policy, "deletion_policy")
    if {answer.requires for answer in answers.values()} != {frozenset(ours.requires)}:
        report.differ(
            f"{ours.id.path} requires", sorted(ours.requires), [sorted(answer.requires) for answer in answers.values()]
        )
    nested = {at: answer.nested for at, answer in answers.items() if isinstance(answer.nested, HeatStack)}
    if ours.nested is None:
        if nested and ours.open_members is None:
            report.differ(f"{ours.id.path} nested", None, sorted(nested))
    elif nested:
        open_ = ours.open_members is not None
        _stack(report, ours.nested, nested, group=ours.type in GROUPS, open_=open_)
    else:
        report.resources += sum(len(stack.resources) for stack in ours.nested.walk())
        report.differ(f"{ours.id.path} nested", "holds a stack", next(iter(answers.values())).nested)


def _filled(resource: HeatResource) -> dict[str, Any]:
    """As Heat's definition, with an empty map for a missing part."""
    parts = {"properties": resource.properties, "metadata": resource.metadata, "update_policy": resource.update_policy}
    return {name: {} if part is None else part for name, part in parts.items()}


def _kind(name: str) -> str:
    """A type; templates by their file's name only, since a client makes an address of it."""
    return PurePosixPath(name).name if name.endswith(TEMPLATE_ENDINGS) else name


def _value(report: Report, at: str, ours: object, heat: Shaped) -> None:
    known = {shape: value for shape, value in heat.items() if not isinstance(value, Refused)}
    match ours:
        case _ if not known:
            alike = len(set(heat.values())) == 1
            report.differ(at, ours, next(iter(heat.values())) if alike else dict(heat))
        case Unknown():
            _unknown(report, at, ours, heat)
        case ResourceId():
            if any(value != reference(ours.path, shape) for shape, value in known.items()):
                report.differ(at, ours, known)
        case dict():
            sure = {key for key, value in ours.items() if not isinstance(value, Unknown)}  # the others may be left out
            if all(isinstance(mapping, dict) and sure <= mapping.keys() <= ours.keys() for mapping in known.values()):
                for key, value in ours.items():
                    _value(
                        report,
                        f"{at}.{key}",
                        value,
                        {shape: mapping.get(key, _ABSENT) for shape, mapping in known.items()},
                    )
            else:
                report.differ(at, ours, known)
        case list():
            if all(isinstance(value, list) and len(value) == len(ours) for value in known.values()):
                for index, value in enumerate(ours):
                    _value(report, f"{at}.{index}", value, {shape: items[index] for shape, items in known.items()})
            else:
                report.differ(at, ours, known)
        case str() if ours.endswith(TEMPLATE_ENDINGS):
            if any(not isinstance(value, str) or _kind(value) != _kind(ours) for value in known.values()):
                report.differ(at, ours, known)
        case _:
            if any(type(value) is not type(ours) or value != ours for value in known.values()):
                report.differ(at, ours, known)


def _unknown(report: Report, at: str, ours: Unknown, heat: Shaped) -> None:
    values = [_ABSENT if isinstance(value, Refused) else value for value in heat.values()]
    if len(values) > 1 and all(value == values[0] for value in values):  # one shape alone shows no dependence
        report.differ(at, ours, heat)
        return
    word = heat.get("word")  # a text stays what it is, whatever type a parameter on its way has
    before, alike = report._words.setdefault(ours.expression, (at, word))
    if isinstance(word, str) and isinstance(alike, str) and word != alike:
        report.differ(f"{at} and {before}", ours, (word, alike))
