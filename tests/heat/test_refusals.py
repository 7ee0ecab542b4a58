"""Our refusals against Heat's own validation of templates with one mistake each."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from itertools import islice

import pytest

from datalog_gate.base.diagnostics import REFUSALS, Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.validation.refusals import find_further_refusals, find_refusals
from tests.heat.heat_validation import validate
from tests.heat.inputs import Request, send
from tests.template_mistakes import MISTAKES, find_corpus, find_fixtures, put_mistake

OF_EACH = 60 if os.environ.get("DATALOG_GATE_ALL_CASES") else 4
"""The number of mistakes of each kind."""
TYPES = SHIPPED.of_heat(version("openstack-heat").partition(".")[0])
"""The types of the installed Heat."""


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    return [send(template, environments) for template, environments, _ in (*find_fixtures(), *find_corpus())]


def say(body: object, request: Request) -> tuple[Diagnostic, ...]:
    """What we say of a template."""
    try:
        stack = read_stack(template=json.dumps(body), environment=request.environment, files=request.files)
        return find_refusals(stack, TYPES)
    except InputError as error:
        return (*error.diagnostics, *find_further_refusals(error, TYPES))


def errors(said: Sequence[Diagnostic]) -> list[str]:
    """The errors, but for those of the reader, which `test_corpus` compares with Heat."""
    found = [problem for problem in said if problem.severity == "error" and problem.code in REFUSALS]
    return [f"{problem.code}: {problem.message}" for problem in found]


def test_what_heat_accepts_is_not_refused_and_what_it_refuses_is_said(requests: list[Request]) -> None:
    wrong, missed = [], []
    for request in requests:
        reason = validate(json.dumps(request.body), request.files, request.environment)
        said = say(request.body, request)
        if reason is None and errors(said):
            wrong.append(errors(said))
        if reason and not said and "DatalogGate::" not in reason:
            missed.append(reason)
    assert (wrong, missed) == ([], [])


def test_mistakes_are_said_as_heat_refuses_them(requests: list[Request]) -> None:
    chance = random.Random(47)
    right = [request for request in requests if not say(request.body, request)]
    refused: Counter[str] = Counter()
    missed: list[tuple[str, str]] = []
    wrong: list[tuple[str, list[str]]] = []
    for kind in MISTAKES:
        candidates = (
            (request, put_mistake(kind, request.body, chance)) for request in chance.choices(right, k=10 * OF_EACH)
        )
        for request, body in islice((pair for pair in candidates if pair[1] is not None), OF_EACH):
            reason = validate(json.dumps(body), request.files, request.environment)
            said = say(body, request)
            refused[kind] += reason is not None
            if reason and not said:
                missed.append((kind, reason))
            if reason is None and errors(said):
                wrong.append((kind, errors(said)))
    print(f"of {refused.total()} refused, {len(missed)} are not said: {missed}; wrongly refused: {wrong}")
    assert sum(count > 0 for count in refused.values()) >= 34
    assert len(missed) <= 0.02 * refused.total()
    assert wrong == []
