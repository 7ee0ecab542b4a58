"""What is written for Congress means here what it meant there, but for the exceptions that docs/congress.md lists.

`-s` prints the counts of the conformance cases: ``pytest tests/test_congress.py -s -k conformance``.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.analysis.check import check
from datalog_gate.engine import engine
from datalog_gate.diagnostics import Diagnostic
from datalog_gate.errors import RulesError
from datalog_gate.gate.policyset import RuleFile
from datalog_gate.gate.query import ask
from datalog_gate.language.ast import Constant, Rule
from datalog_gate.language.parser import parse
from datalog_gate.values import Row

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
    policies = policies or {"rules": []}
    target = names.get(case["target"], next(reversed(policies)))
    query, expected = case["query"], case.get("expected", "")
    try:
        if case["kind"] == "select":
            rows, wanted = answer(policies, target, query), rows_of(expected.replace("query :-", "\n").splitlines())
        elif case["kind"] == "content":
            rows, wanted = content(policies, target), facts_of(expected)
            if expected.startswith("Theory "):  # a simulation left the policy of this name as it was: no rows are told
                return ""
        else:
            content({**policies, target: [*policies.get(target, ()), query]}, target)
            return "accepted"
    except RulesError as error:
        return "" if case["kind"] in ("reject", "parse_error") else str(error)
    return "" if rows == wanted else f"{sorted(map(str, rows))}, not {sorted(map(str, wanted))}"


def answer(policies: Policies, target: str, query: str) -> set[Row]:
    """The rows of a query to one of the policies."""
    body = query.partition(":-")[2]
    name = re.match(r"[\w.]+\(", query)
    text = f":- {body}" if body else f"{target}:{query}" if name else query
    return set(ask(_files(policies), text, (), engine("native"), lenient=False, now=datetime.now(UTC)).rows)


def content(policies: Policies, target: str) -> set[Row]:
    """All rows of a policy, each with its relation first; Congress's own helper relations begin with ``___``."""
    parsed = [one.parse() for one in _files(policies)]
    program = check([module for module, _ in parsed], found=[one for _, wrong in parsed for one in wrong]).program
    model = engine("native")(program, {name: [] for name in program.inputs})
    names = [name for name in program.relations if name.startswith(f"{target}:") and "#" not in name]
    rows = {(name.partition(":")[2], *row) for name in names for row in model.rows(name)}
    return {row for row in rows if not str(row[0]).startswith("___")}


def facts_of(text: str) -> set[Row]:
    """The facts that a text lists, each with its relation first; what holds variables is a rule or a part of one."""
    facts = set()
    for found in re.findall(r"(?:execute\[)?[\w.:+-]+\([^()]*\)\]?", text):
        ((rule,), _) = _statements(found)
        if all(isinstance(one, Constant) for one in rule.head.arguments):
            facts.add((rule.head.name, *(one.value for one in rule.head.arguments if isinstance(one, Constant))))
    return facts


def rows_of(lines: Iterable[str]) -> set[Row]:
    """The rows that texts list: of facts one each, of a body that is filled in the whole line as one."""
    rows = set()
    for line in lines:
        facts = [next(iter(facts_of(one))) for one in re.findall(r"(?:execute\[)?[\w.:+-]+\([^()]*\)\]?", line)]
        if "," in re.sub(r"\([^()]*\)", "", line):
            rows.add(tuple(value for fact in facts for value in fact[1:]))
        else:
            rows |= {fact[1:] for fact in facts}
    return rows


def _statements(text: str) -> tuple[list[Rule], list[Diagnostic]]:
    module, found = parse(text, "expected", "expected", congress=True)
    return [one for one in module.statements if isinstance(one, Rule)], list(found)


def _files(policies: Policies) -> list[RuleFile]:
    return [RuleFile(name, name, "\n".join(rules), congress=True) for name, rules in policies.items()]
