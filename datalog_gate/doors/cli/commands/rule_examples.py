"""The commands `examples` and `diff`, which show what rules mean by stacks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterable, Iterator

from datalog_gate import api
from datalog_gate.base.diagnostics import Span, did_you_mean
from datalog_gate.base.errors import UsageError
from datalog_gate.doors.cli.common import DENIED, OK, load_rules
from datalog_gate.examples.case_building import NOW, Case
from datalog_gate.examples.example_search import PolicyExamples
from datalog_gate.files.templates import read_stack
from datalog_gate.policytest.comparison import flow
from datalog_gate.policytest.example_cases import write_cases
from datalog_gate.stack.model import Stack

SCHEMA = "datalog-gate/examples/1"


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
    """Print the smallest stacks, and the given ones, that only one of two rule sets denies."""
    old, new = (api.load_rules(path) for path in (options.old, options.new))
    _check_ids(options.policy, {policy.id for rules in (old, new) for policy in rules.policies})
    lines = []
    for difference in api.compare_rules(old, new, options.policy):
        lines.append(f"{difference.policy}: {_change(difference.newly)}: {brief(difference.case)}")
    for template in options.template:
        stack = read_stack(template)
        before, after = (_found(rules, stack, options.policy) for rules in (old, new))
        for policy, resource in sorted(before ^ after):
            lines.append(f"{policy}: {_change((policy, resource) in after)}: {template}: {resource}")
    print(*lines, sep="\n", end="\n" * bool(lines))
    return DENIED if lines else OK


def brief(case: Case) -> str:
    """A case in one line: the resources by name, and what else it has."""
    rest = {key: value for key, value in case.items() if key != "stack" and (key != "now" or value != NOW)}
    template = {key: value for key, value in case["stack"].items() if key not in ("resources", "heat_template_version")}
    parts = {**template, **case["stack"]["resources"], **rest}
    return ", ".join(f"{name}: {flow(value)}" for name, value in parts.items()) or "an empty template"


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
    _check_ids(ids, known)
    return ids or known


def _check_ids(ids: Iterable[str], known: Collection[str]) -> None:
    for name in ids:
        if name not in known:
            raise UsageError(f"there is no policy {name}: {did_you_mean(name, known, 'docs lists all policies')}")


def _to_text(found: PolicyExamples) -> Iterator[str]:
    yield f"{found.policy.id}  {_place(found.policy.span)}"
    for example in found.examples:
        yield f"denies    {brief(example.case)}"
        for flip in example.flips:
            yield f"passes    {brief(flip.case)}    {flip.condition} is false"
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
        "no-example": None
        if found.examples
        else {"condition": found.furthest, "place": found.span.to_json() if found.span else None},
    }


def _place(span: Span) -> str:
    return f"{span.file}:{span.line}"
