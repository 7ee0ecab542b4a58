"""The commands `examples` and `diff`, which show what rules mean by stacks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from datalog_gate import api
from datalog_gate.base.diagnostics import Span, closest, suggest_name
from datalog_gate.base.errors import UsageError
from datalog_gate.doors.cli.common import DENIED, OK, load_rules
from datalog_gate.examples.case_building import NOW, Case
from datalog_gate.examples.example_search import PolicyExamples
from datalog_gate.files.templates import read_stack
from datalog_gate.policytest.comparison import flow
from datalog_gate.policytest.example_cases import write_cases
from datalog_gate.stack.model import Stack

SCHEMA = "datalog-gate/examples/1"
MANY = 4
"""How many resources or rows that are alike are written once."""


def examples(options: argparse.Namespace) -> int:
    """Print the smallest stacks that the policies deny, and near ones that pass."""
    rules = load_rules(options)
    found = (rules.examples(policy) for policy in _choose(rules, options.policy))
    if options.format == "json":
        print(json.dumps({"schema": SCHEMA, "policies": list(map(_to_json, found))}, ensure_ascii=False))
    elif options.format == "yaml":
        print(write_cases("", "<examples>", found), end="")
    else:
        for examples_found in found:
            print(*_to_text(examples_found), sep="\n", flush=True)
    return OK


def diff(options: argparse.Namespace) -> int:
    """Print the smallest stacks, and the given ones, that only one of two rule sets denies, or has a message for."""
    old, new = (api.load_rules(path) for path in (options.old, options.new))
    check_ids(options.policy, {policy.id for rules in (old, new) for policy in rules.policies})
    lines = []
    for difference in api.compare_rules(old, new, options.policy):
        reason = f" with the message {flow(difference.message)}" if difference.message else ""
        lines.append(f"{difference.policy}: {_change(difference.newly)}{reason}: {brief(difference.case)}")
    for template in options.template:
        stack = read_stack(template)
        before, after = (_found(rules, stack, options.policy) for rules in (old, new))
        for policy, resource in sorted(before ^ after):
            lines.append(f"{policy}: {_change((policy, resource) in after)}: {template}: {resource}")
    print(*lines, sep="\n", end="\n" * bool(lines))
    return DENIED if lines else OK


def brief(case: Case, base: Case | None = None) -> str:
    """A case in one line: the resources by name, and what else it has. With a base, only how it differs from that."""
    nested = {name for shown in (case, base) if shown for name in _list_nested(shown)}
    parts, before = _list_parts(case, nested), _list_parts(base, nested) if base else {}
    if before.keys() <= parts.keys() or parts.keys() <= before.keys():
        return _flow_changes(parts, before) if base else _flow_inside(parts) or "an empty template"
    return _flow_inside(parts)


def _list_nested(case: Case) -> Iterator[str]:
    """The names of resources with a property of the name of a section."""
    for template in (case["stack"], case.get("against"), *case.get("modules", {}).values()):
        for name, resource in template["resources"].items() if template else ():
            if (resource.get("properties") or {}).keys() & resource.keys():
                yield name


def _list_parts(case: Case, nested: Collection[str]) -> dict[str, Any]:
    rest = {key: value for key, value in case.items() if key != "stack" and (key != "now" or value != NOW)}
    if "against" in rest:
        rest["against"] = _list_template(rest["against"], nested)
    if "modules" in rest:
        rest["modules"] = {name: _list_template(template, nested) for name, template in rest["modules"].items()}
    return {**_list_template(case["stack"], nested), **rest}


def _list_template(template: Mapping[str, Any], nested: Collection[str]) -> dict[str, Any]:
    """The sections of a template, and the resources with their properties beside their type; `nested` ones keep them
    in `properties`."""
    sections = {key: value for key, value in template.items() if key not in ("resources", "heat_template_version")}
    resources = {}
    for name, resource in template["resources"].items():
        properties = resource.get("properties") or {}
        inside = {"properties": properties} if name in nested and properties else properties
        rest = {key: value for key, value in resource.items() if key != "properties"}
        resources[name] = {"type": resource["type"], **inside, **rest}
    return {**sections, **resources}


def _flow_changes(value: dict[str, Any], before: dict[str, Any]) -> str:
    """What differs between two maps, without braces."""
    changes = [
        (key, _flow_entry(key, inner) if key == "type" else _flow_change(inner, before.get(key)))
        for key, inner in value.items()
        if key not in before or inner != before[key]
    ]
    removed = [f"no {flow(key)}" for key in before if key not in value]
    same = ["..."] if any(key in before and inner == before[key] for key, inner in value.items()) else []
    return ", ".join([*_list_alike(changes), *removed, *same])


def _flow_change(value: Any, before: Any) -> str:
    if isinstance(value, dict) and isinstance(before, dict):
        return f"{{{_flow_changes(value, before)}}}" if value.keys() & before.keys() else _flow(value)
    if isinstance(value, list) and isinstance(before, list) and len(value) == len(before):
        return f"[{', '.join(map(_flow_change, value, before))}]"
    return _flow(value)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{_flow_inside(value)}}}"
    if isinstance(value, list) and len(value) >= MANY and all(isinstance(row, dict) for row in value):
        names = list(dict.fromkeys(name for row in value for name in row))
        differing = [name for name in names if any(row.get(name) != value[0].get(name) for row in value)]
        others = f"which differ in {' and '.join(differing)}" if differing else "which are the same"
        return f"[{_flow(value[0])}, {len(value) - 1} more, {others}]"
    return flow(value)


def _flow_inside(value: dict[str, Any]) -> str:
    """A map in one line, without braces."""
    return ", ".join(_list_alike((key, _flow_entry(key, inner)) for key, inner in value.items()))


def _list_alike(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The entries of a map. Many that are alike are written once."""
    for text, same in groupby(entries, key=itemgetter(1)):
        names = [flow(key) for key, _ in same]
        if len(names) >= MANY and text.startswith("{"):
            names = [f"{names[0]} to {names[-1]} ({len(names)} alike)"]
        yield from (f"{name}: {text}" for name in names)


def _flow_entry(key: str, value: Any) -> str:
    """The value of a key. A type is not quoted."""
    return str(value) if key == "type" else _flow(value)


def _change(newly: bool) -> str:
    return "newly denied" if newly else "no longer denied"


def _found(rules: api.Rules, stack: Stack, ids: list[str]) -> set[tuple[str, str]]:
    decision = rules.decide(stack)
    return {
        (policy, violation.resource.path if violation.resource else "")
        for violation in decision.violations
        for policy in violation.policies
        if not ids or policy in ids
    }


def _choose(rules: api.Rules, ids: list[str]) -> list[str]:
    known = [policy.id for policy in rules.policies]
    check_ids(ids, known)
    return ids or known


def check_ids(ids: Iterable[str], known: Collection[str]) -> None:
    """Check that policies have these ids. Errors: UsageError."""
    for name in ids:
        if name not in known:
            advice = suggest_name(closest(name, known), "docs lists all policies")
            raise UsageError(f"there is no policy {name}: {advice}")


def _to_text(found: PolicyExamples) -> Iterator[str]:
    yield f"{found.policy.id}  {_place(found.policy.span)}"
    for example in found.examples:
        refused = f"    Heat refuses it: {', '.join(example.refused)}" if example.refused else ""
        yield f"denies    {brief(example.case)}{refused}"
        if example.alike:
            yield f"denies    the same with {', '.join(example.alike)}"
        for flip in example.flips:
            yield f"passes    {brief(flip.case, example.case)}    {flip.condition} is false"
    for unshown in found.unshown:
        yield f"not shown {unshown.condition}: {unshown.reason}"
    if not found.examples:
        where = f", {_place(found.span)}" if found.span else ""
        yield f"no-example: no stack was found that it denies; the furthest attempt failed at {found.furthest}{where}"


def _to_json(found: PolicyExamples) -> dict[str, object]:
    return {
        "policy": found.policy.id,
        "place": found.policy.span.to_json(),
        "examples": [
            {
                "denies": example.case,
                "alike": list(example.alike),
                "refused": list(example.refused),
                "message": example.message,
                "resource": example.resource.path if example.resource else None,
                "place": example.span.to_json(),
                "passes": [
                    {"case": flip.case, "condition": flip.condition, "place": flip.span.to_json()}
                    for flip in example.flips
                ],
            }
            for example in found.examples
        ],
        "unshown": [
            {"condition": unshown.condition, "place": unshown.span.to_json(), "reason": unshown.reason}
            for unshown in found.unshown
        ],
        "no-example": None
        if found.examples
        else {"condition": found.furthest, "place": found.span.to_json() if found.span else None},
    }


def _place(span: Span) -> str:
    return f"{span.file}:{span.line}"
