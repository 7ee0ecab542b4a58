"""Policies for Congress keep their meaning, but for listed exceptions.

docs/congress.md lists them.

`-s` prints the counts of the conformance cases: ``pytest tests/unit/api/test_congress.py -s -k conformance``.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.analysis.check import check
from datalog_gate.api import convert_congress
from datalog_gate.base.diagnostics import NOWHERE, Diagnostic
from datalog_gate.base.errors import RulesError
from datalog_gate.base.values import Row, to_json
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.decision.query import QueryInputs, ask
from datalog_gate.doors.cli.main import main
from datalog_gate.engine import engine
from datalog_gate.facts.lines import FactLine
from datalog_gate.files.inputs import fact_lines
from datalog_gate.files.rules import read_rules
from datalog_gate.language.ast import Constant, Rule
from datalog_gate.language.congress.library import Entry
from datalog_gate.language.parser import parse

ROOT = Path(__file__).parents[3]
CASES = Path(os.environ.get("DATALOG_GATE_SHARED", ROOT.parent / "shared")) / "conformance/congress.jsonl"
PAGE = ROOT / "docs" / "congress.md"
LIBRARIES = ROOT / "tests" / "congress"
Policies = Mapping[str, Iterable[str]]

OWN: list[tuple[Policies, str, set[tuple[object, ...]]]] = [
    ({"a": ["p(x) :- q(x, y), plus(x, y, z), r(z)", "q(1, 2)", "q(2, 3)", "r(3)"]}, "p(x)", {(1,)}),
    ({"a": ["p(x) :- q(x), lt(x, 3), gteq(x, 2), max(x, 2, 2)", "q(1)", "q(2)", "q(3)"]}, "p(x)", {(2,)}),
    ({"a": ["p(x) :- !r(x), q(x)", "q(1)"]}, "p(x)", {(1,)}),  # in any order, and r is empty
    ({"a": ["p(x, y) :- q(x), r(y)", "q(1)", "r(2)", 'r("b")']}, "p(x, y)", {(1, 2), (1, "b")}),
    ({"a": ["p(x) :- t(x), true", "t(1.5)", "p(x) :- t(x), false"]}, "p(x)", {(1.5,)}),
    ({"a": ["p(x) :- b:q(x), r(x)", "r(1)"], "b": ["q(x) :- c:s(x)"], "c": ["s(1)", "s(2)"]}, "p(x)", {(1,)}),
    ({"a": ["p+(x) :- q(x), not p-(x)", "p-(2)", "q(1)", "q(2)"]}, "p+(x)", {(1,)}),
    ({"a": ["execute[nova:p(x)] :- q(x)", "q(1)"]}, "execute[nova:p(x)]", {(1,)}),
    ({"a": ["p(x) :- nobody:q(x)", "// nothing", "p(1);", "/* nor this */"]}, "p(x)", {(1,)}),
    ({"a": ["p(x) :- q(x), equal(x, 'None')", "q('None')"]}, "p(x)", {("None",)}),
]
"""Policies, a query to the first of them, and its rows."""

REFUSED: list[tuple[Policies, list[str]]] = [
    ({"a": ["p(x) :- not q(x)"]}, ["a:1:3 unsafe-variable"]),
    ({"a": ["q(x) :- p(x, y)", "q(1, 3)"]}, ["a:2:1 arity"]),
    ({"a": ["p(x) :- b:q(x, y)"], "b": ["q(1)"]}, ["a:1:9 arity"]),
    ({"a": ["b:p(x) :- q(x)"], "b": ["p(1)"]}, ["a:1:1 reserved-name"]),
    ({"a": ["p(x) :- q(id=x)"]}, ["a:1:9 undefined-relation"]),
    ({"a": ["p(x) :- nova:tags(id=x)"]}, ["a:1:19 unknown-column"]),
    ({"a": ["p(x) :- nova:tags(9=x)"]}, ["a:1:19 unknown-column"]),
    ({"a": ["p(x) :- nova:tags(server_id=x, 0=x)"]}, ["a:1:32 duplicate-column"]),
    ({"a": ["p(x) :- nova:tags(x, 1=y, z)"]}, ["a:1:27 syntax"]),
    ({"a": ["insert[p(x) :- q(x)]"]}, ["a:1:1 unsupported"]),
    ({"a": ["execute[p(x) :- q(x)"]}, ["a:1:14 syntax"]),
    ({"a": ["p(x) :- execute[q(x)]"]}, ["a:1:16 syntax"]),
    ({"a": ["plus(1, 2, 3)"]}, ["a:1:1 redefined"]),
]
"""Policies, and the place and code of each error."""

FACTS = [
    FactLine("nova:tags", ("s", "t"), NOWHERE),
    FactLine("neutronv2:security_group_rules", {"id": "any", "port_range_min": None}, NOWHERE),
    FactLine("neutronv2:security_group_rules", {"id": "nine", "port_range_min": 9}, NOWHERE),
]
READ: list[tuple[str, list[str], list[tuple[object, ...]]]] = [
    (
        "p(x) :- neutronv2:security_group_rules(id=x, port_range_min='None')",
        ["a:1:61 note: 'None' is read as the value null"],
        [("any",)],
    ),
    ("p(x) :- neutronv2:security_group_rules(id=x, port_range_min=s), lt(s, 10)", [], [("nine",)]),
    ("p(x) :- neutronv2:security_group_rules(id=x, port_range_min=s), not lt(s, 10)", [], [("any",)]),
    ("p(x) :- neutronv2:security_group_rules(id=x, port_range_min=s), equal(s, 9)", [], [("nine",)]),
    (
        "p(x) :- neutronv2:security_group_rules(id=x, port_range_min=s), equal(s, 'None')",
        ["a:1:74 note: 'None' is read as the value null"],
        [("any",)],
    ),
    (
        "t(x, s) :- neutronv2:security_group_rules(id=x, port_range_min=s)\np(x) :- t(x, 'None')",
        ["a:2:14 note: 'None' is read as the value null"],
        [("any",)],
    ),
    (
        "p(x) :- nova:tags(x, _), nova:tags(_, y)",
        ["a:1:36 warning: Congress reads all `_` of a rule as the same value, datalog_gate reads each as any value"],
        [("s",)],
    ),
    ("p(x) :- nova:tags(0=x, 1='t')", [], [("s",)]),
    (
        "p(in) :- nova:tags(in, or)",
        [
            "a:1:3 note: in is read as a variable, in_",
            "a:1:20 note: in is read as a variable, in_",
            "a:1:24 note: or is read as a variable, or_",
        ],
        [("s",)],
    ),
    ("p(x) :- nova:tags(x, True), q(true_)\nq(1)", ["a:1:22 note: True is read as a variable, True_"], [("s",)]),
    ("p(x) :- nova:tags(x, T)\np(x) :- nowhere(x)", ["a:2:9 warning: nothing defines nowhere: it is empty"], [("s",)]),
    ("p(x) :- nova:tags(server_id=x, tag=T)", ["a:1:36 warning: T is a variable that occurs once"], [("s",)]),
]
"""Text, what is said of it, and the rows of p."""

JUDGED = [
    ("disallowed_flavors:error", "deny", "A server has a flavor that is not on offer: s-big, big, m1.huge"),
    ("shared_networks:error", "deny", "error(s-web)"),
    ("shared_networks:execute.nova.servers.pause", "record", "execute.nova.servers.pause(s-big)"),
    ("shared_networks:execute.nova.servers.pause", "record", "execute.nova.servers.pause(s-web)"),
    *(
        ("unsafe_traffic:warning", "warn", f"A security group lets in unsafe traffic: {row}")
        for row in (
            *("g-1, r-above, 3389", "g-1, r-below, 22", "g-1, r-exact, 22", "g-1, r-tcp, 22"),
            *("g-1, r-tcp, 3389", "g-2, r-any, 22", "g-2, r-any, 3389"),
        )
    ),
]
PLACES: list[Any] = [
    ("- rule: error(y) :- heat:stack(id=x)\n", ("unsafe-variable", (3, 15, 16))),
    ("- rule: 'error(y) :- heat:stack(id=x)'\n", ("unsafe-variable", (3, 16, 17))),
    ("- rule: >-\n    error(x) :-\n     heat:stack(id=z)\n", ("unsafe-variable", (4, 11, 12))),
    ("- rule: |\n    error(x) :-\n     heat:stack(idd=x)\n", ("unknown-column", (5, 17, 22))),
    ('- rule: "error(x) :-\n     heat:stack(idd=x)"\n', ("unknown-column", (4, 17, 22))),
    ("- {rule: error(x) :- heat:stack(id=x) heat:stack(id=x)}\n", ("syntax", (3, 39, 49))),
    ("- rule: error(1). error(2)\n", ("bad-library", (3, 9, 10))),
    ("- rule: ''\n", ("bad-library", (3, 10, 11))),
    ("- rulee: error(1)\n", ("bad-library", (3, 3, 1))),
    ("- rule: 5\n", ("bad-library", (3, 9, 10))),
    ("- rule: [\n", ("yaml", (4, 1, 2))),
]
"""The rules of a library, and the code and place of each mistake."""


@pytest.mark.slow
def test_conformance() -> None:
    if not CASES.exists():
        pytest.skip(f"the conformance cases are not there: {CASES}")
    counts: Counter[str] = Counter()
    differing = set()
    for line in CASES.read_text("utf-8").splitlines():
        case = json.loads(line)
        if case["kind"] == "simulate":
            continue
        wrong = difference(case)
        counts[f"{case['kind']}: {'an exception' if wrong else 'as Congress'}"] += 1
        if wrong:
            differing.add(case["id"])
            print(case["id"], wrong)
    print(*(f"{outcome}: {counts[outcome]}" for outcome in sorted(counts)), sep="\n")
    assert differing == exceptions()


@pytest.mark.parametrize(("policies", "query", "expected"), OWN)
def test_a_query_gives_what_congress_gave(policies: Policies, query: str, expected: set[tuple[object, ...]]) -> None:
    assert {tuple(map(to_json, row)) for row in answer(policies, next(iter(policies)), query)} == expected


@pytest.mark.parametrize(("policies", "messages"), REFUSED)
def test_what_congress_refused_is_refused(policies: Policies, messages: list[str]) -> None:
    with pytest.raises(RulesError) as raised:
        content(policies, "a")
    errors = [diagnostic for diagnostic in raised.value.diagnostics if diagnostic.severity == "error"]
    assert [f"{error.span} {error.code}" for error in errors] == messages


@pytest.mark.parametrize(("text", "messages", "rows"), READ)
def test_differences_from_congress_are_reported(text: str, messages: list[str], rows: list[tuple[object, ...]]) -> None:
    answered = ask([RuleFile("a", "a", text, congress=True)], "p(x)", QueryInputs(lines=FACTS))
    assert [f"{warning.span} {warning.severity}: {warning.message}" for warning in answered.warnings] == messages
    assert [tuple(map(to_json, row)) for row in answered.rows] == rows


def test_a_library_is_judged_as_congress_judged_it() -> None:
    rules = dg.load_rules(LIBRARIES)
    stack = dg.read_stack(ROOT / "fixtures/stacks/staging")
    decision = rules.decide(stack, inventory=LIBRARIES / "cloud.jsonl")
    assert [(violation.policy, violation.level, violation.message) for violation in decision.violations] == JUDGED


def test_places_point_into_the_file_of_a_library(tmp_path: Path) -> None:
    for written, *expected in PLACES:
        file = tmp_path / "a.yaml"
        file.write_text(f"name: A\nrules:\n{written}", "utf-8")
        with pytest.raises(RulesError) as raised:
            dg.load_rules(file)
        diagnostics = [(diagnostic.code, diagnostic.span) for diagnostic in raised.value.diagnostics]
        assert [(code, span and (span.line, span.column, span.end_column)) for code, span in diagnostics] == expected, (
            written
        )


def test_yaml_that_is_no_library_is_left_alone_beside_rules(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text("heat_template_version: 2018-08-31\n", "utf-8")
    (tmp_path / "test.yaml").write_text("rules: wrong\n", "utf-8")
    (tmp_path / "lib.yml").write_text("rules: [{rule: 'error(1)'}]", "utf-8")
    assert [read_rule.module for read_rule in read_rules([tmp_path])] == ["lib"]
    for name, text in {
        "web.yaml": None,
        "a.yaml": "Rules: []",
        "b.yaml": "rule: p(1)",
        "c.YAML": "[{rule: p(1)}]",
    }.items():
        if text:
            (tmp_path / name).write_text(text, "utf-8")
        with pytest.raises(RulesError) as raised:
            read_rules([tmp_path / name if text is None else tmp_path])
        assert [diagnostic.code for diagnostic in raised.value.diagnostics] == ["bad-library"], name
        (tmp_path / name).unlink()


def test_files_of_congress_find_a_library_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{name: Lib, rules: [{rule: p(1)}]}", "utf-8")
    (tmp_path / "b.yaml").write_text("rules: [{rule: 'error(x) :- Lib:p(x)'}]", "utf-8")
    assert dg.load_rules(tmp_path).warnings == ()
    assert list(convert_congress(tmp_path).values())[1] == "export error.\n\n@deny()\nerror(x) :- a:p(x).\n"
    (tmp_path / "c.yaml").write_text("{name: Lib, rules: [{rule: p(2)}]}", "utf-8")
    messages = [warning.message for warning in dg.load_rules(tmp_path).warnings]
    assert messages == ["nothing defines Lib:p: it is empty"]


def test_a_comment_is_the_message_only_if_it_is_of_all_rules_of_the_table() -> None:
    entry = Entry("error(x) :- heat:resource(id=x)", 1, 1, "No {x}!")
    other = Entry("error(x) :- heat:stack(id=x)", 2, 1)
    same = replace(other, comment=entry.comment)
    policies = [
        load([RuleFile("a", "a", "", True, entries)]).policies for entries in [(entry,), (entry, same), (entry, other)]
    ]
    messages = [[policy.message for policy in several] for several in policies]
    assert messages == [["No (x)!: {x}"], ["No (x)!: {x}"], ["error({x})"]]


def test_the_option_reads_text_as_congress_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.dl"
    file.write_text("p(x) :- q(x), lt(x, 2).\nq(1).\nq(3).\nexecute[nova:pause(x)] :- q(x)", "utf-8")
    command = ["query", "execute[nova:pause(x)]", "--rules", str(file)]
    assert [main(command), main([*command, "--congress"])] == [2, 0]
    assert capsys.readouterr().out == "1\n3\n"


@pytest.mark.parametrize("library", sorted(path.name for path in LIBRARIES.glob("*.yaml")))
def test_a_converted_library_is_one_of_ours_that_means_the_same(library: str) -> None:
    ((_, text),) = convert_congress(LIBRARIES / library).items()
    written = read_rules([LIBRARIES / library])
    module = written[0].module
    ours = RuleFile(module, "ours.dl", text)
    assert load([ours]).warnings == ()
    assert {policy.id: policy.level for policy in load([ours]).policies} == {
        policy.id: policy.level for policy in load(written).policies
    }
    lines = fact_lines(LIBRARIES / "cloud.jsonl")
    heads = {statement.head for statement in written[0].parse()[0].statements if isinstance(statement, Rule)}
    for query in {f"{head.name}({', '.join('xyz'[: len(head.arguments)])})" for head in heads}:
        inputs = QueryInputs(lines=lines)
        assert ask([ours], query, inputs).rows == ask(written, query, inputs).rows


def exceptions() -> set[str]:
    """The cases that the page lists as decided otherwise."""
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
    return set(ask(_files(policies), text, QueryInputs(lenient=False, now=datetime.now(UTC))).rows)


def content(policies: Policies, target: str) -> set[Row]:
    """All rows of a policy, each with its relation first; Congress's own helper relations begin with ``___``."""
    parsed = [file.parse() for file in _files(policies)]
    program = check(
        [module for module, _ in parsed], problems=[diagnostic for _, wrong in parsed for diagnostic in wrong]
    ).program
    model = engine("native")(program, {name: [] for name in program.inputs})
    names = [name for name in map(str, program.relations) if name.startswith(f"{target}:") and "#" not in name]
    rows = {(name.partition(":")[2], *row) for name in names for row in model.rows(name)}
    return {row for row in rows if not str(row[0]).startswith("___")}


def facts_of(text: str) -> set[Row]:
    """The facts that a text lists, each with its relation first; what holds variables is a rule or a part of one."""
    facts = set()
    for atom in re.findall(r"(?:execute\[)?[\w.:+-]+\([^()]*\)\]?", text):
        ((rule,), _) = _statements(atom)
        values = [argument.value for argument in rule.head.arguments if isinstance(argument, Constant)]
        if len(values) == len(rule.head.arguments):
            facts.add((rule.head.name, *values))
    return facts


def rows_of(lines: Iterable[str]) -> set[Row]:
    """The rows that texts list: of facts one each, of a body that is filled in the whole line as one."""
    rows = set()
    for line in lines:
        facts = [next(iter(facts_of(atom))) for atom in re.findall(r"(?:execute\[)?[\w.:+-]+\([^()]*\)\]?", line)]
        if "," in re.sub(r"\([^()]*\)", "", line):
            rows.add(tuple(value for fact in facts for value in fact[1:]))
        else:
            rows |= {fact[1:] for fact in facts}
    return rows


def _statements(text: str) -> tuple[list[Rule], list[Diagnostic]]:
    module, diagnostics = parse(text, "expected", "expected", congress=True)
    return [statement for statement in module.statements if isinstance(statement, Rule)], list(diagnostics)


def _files(policies: Policies) -> list[RuleFile]:
    return [RuleFile(name, name, "\n".join(rules), congress=True) for name, rules in policies.items()]
