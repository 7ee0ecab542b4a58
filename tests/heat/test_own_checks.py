"""The pack `heat` against what Heat's classes check beyond their schemas."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from heat.common import exception

import datalog_gate as dg
from datalog_gate.base.errors import InputError
from datalog_gate.files.templates import read_stack
from datalog_gate.policytest.testfile import Case, read_cases
from tests.heat.heat_validation import OWN_CHECKS, find_refused_resources
from tests.heat.inputs import send
from tests.pages import DOCS, assert_generated
from tests.template_mistakes import find_corpus, find_fixtures

PACK = Path(__file__).parents[2] / "rules/heat"
CASES = read_cases(PACK / "test.yaml")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_heats_classes_refuse_what_the_pack_denies(case: Case) -> None:
    by_schema, by_class = find_refused_resources(str(case.given["stack"]), {}, {})
    denied = {violation["resource"] for violation in case.expect.get("violations", ())}
    assert (by_schema, set(by_class)) == ({}, denied)


def test_heats_classes_refuse_in_the_corpus_what_the_pack_denies() -> None:
    rules = dg.load_rules(PACK)
    wrong, missed = [], []
    for template, environments, _ in (*find_fixtures(), *find_corpus()):
        request = send(template, environments)
        body = json.dumps(request.body)
        try:
            stack = read_stack(template=body, environment=request.environment, files=request.files)
            by_schema, by_class = find_refused_resources(body, request.files, request.environment)
        except (InputError, exception.HeatException):  # one of the two can't read it
            continue
        violations = rules.decide(stack).violations
        denied = {violation.resource.path.split("/")[1] for violation in violations if violation.resource}
        wrong += [(str(template), name) for name in denied - by_schema.keys() - by_class.keys()]
        missed += [(str(template), name, reason) for name, reason in by_class.items() if name not in denied]
    assert (wrong, missed) == ([], [])


def test_the_page_lists_each_class_with_checks_of_its_own() -> None:
    reasons = yaml.safe_load((Path(__file__).parent / "own_checks.yaml").read_text("utf-8"))
    policies: dict[str, list[str]] = defaultdict(list)
    for policy in dg.load_rules(PACK).policies:
        for function in policy.texts["doc"].split(", "):
            policies[function.removeprefix("heat.engine.resources.").removesuffix(".validate")].append(policy.id)
    classes = {f"{kind.__module__}.{kind.__qualname__}".removeprefix("heat.engine.resources.") for kind in OWN_CHECKS}
    assert reasons.keys() | policies.keys() == classes
    rows = [
        f"| `{name}` | {', '.join(f'`{policy}`' for policy in policies[name])} | {reasons.get(name, '')} |"
        for name in sorted(classes)
    ]
    assert_generated(
        DOCS / "own-checks.md", "\n\n" + "\n".join(("| class | policies | left out |", "| - | - | - |", *rows)) + "\n"
    )
