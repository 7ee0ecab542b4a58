"""Lints: rules that are valid but hardly meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate import api
from datalog_gate.base.errors import RulesError
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.doors.cli.main import main

POLICY = '@deny("a", "{x}")\n'
TEST = "cases:\n  - {name: a, stack: s, expect: {violations: [{policy: a}]}}\n"

LINTS: dict[str, tuple[str, list[str]]] = {
    "a relation that nothing can fill": (
        POLICY + "p(x) :- q(x).\nq(x) :- q(x), heat:stack(id=x).",
        ["2:1 never-fires: this rule never holds: m:q never has a row",
         "3:1 never-fires: this rule never holds: m:q never has a row"]),
    "a comment that ignores a lint of the statement below it, and one that finds none": (
        "// datalog-gate: ignore[cartesian] each port is compared with each server\n"
        + POLICY + "p(x) :- os:neutron:port(_id=x), os:nova:server(name=n), n != null.\n"
        "# datalog-gate: ignore[cartesian] nothing to ignore\n"
        "// datalog-gate: ignore[never-fires] a warning when rules are loaded\n"
        + POLICY.replace("a", "b") + "q(x) :- heat:stack(id=x, depth=d), d = 0, d = 1.",
        ["4:1 bad-ignore: there is no cartesian to ignore in the statement below", "7:1 no-test: no test expects b"]),
    "what may come from an inventory can hold": (POLICY + "p(x) :- q(x).\nrelation q(a: string).", []),
    "a body that its author made false": (POLICY + "p(x) :- heat:stack(id=x), false.", []),
    "a body that an empty list makes false": (
        POLICY + "p(x) :- heat:stack(id=x, depth=d), d in [].",
        ["2:36 never-fires: the list is empty, so this never holds"]),
    "two values at once": (
        POLICY + 'p(x) :- heat:stack(id=x, name=n), n = "a", n = "b".',
        ["2:1 never-fires: this rule never holds: n can't be both = \"a\" and = \"b\""]),
    "two values at once, with the constants on the left": (
        POLICY + "p(x) :- heat:stack(id=x, depth=d), 3 < d, 2 >= d.",
        ["2:1 never-fires: this rule never holds: d can't be both > 3 and <= 2"]),
    "a default that the largest port on the left excludes": (
        POLICY + "p(x) :- os:neutron:security_group_rule(_id=x, port_range_min=a), 22 >= a ?? 65535.",
        ["2:1 one-form: a reads os:neutron:security_group_rule, but a template can also say the same with "
         "os:neutron:security_group.rules",
         "2:66 narrow-range: a range without port_range_min has no bound, but with this default, 65535 <= 22 is "
         "false"]),
    "one of two alternatives": (
        POLICY + 'p(x) :- heat:stack(id=x, name=n), n = "a", (n = "b" or n = "a").', []),
    "constants": (
        POLICY + "p(x) :- heat:stack(id=x), 1 = 2.",
        ["2:1 never-fires: this rule never holds: 1 = 2 is false"]),
    "a variable beside itself": (
        POLICY + "p(x) :- heat:stack(id=x), x != x.",
        ["2:1 never-fires: this rule never holds: both sides of != are the same"]),
    "a variable that occurs once": (
        "relation q(a: string, b: string).\n" + POLICY + "p(x) :- q(x, port), not q(_, x).",
        ["3:14 used-once: port is a variable that occurs once"]),
    "a variable that says it occurs once": (
        "relation q(a: string, b: string).\n" + POLICY + "p(x) :- q(x, _port).", []),
    "what no policy needs": (
        "import n.\nrelation q(a: string).\nr(1).\nr(2).\nexport s.\ns(x) :- t(x).\nt(1).\n"
        + POLICY + "p(x) :- heat:stack(id=x).",
        ["1:1 never-used: nothing here uses the module n",
         "2:1 never-used: no policy or export needs q",
         "3:1 never-used: no policy or export needs r"]),
    "what nothing reads, which is said once": (
        POLICY + "p(x) :- heat:stack(id=x).\nq(x) :- heat:stack(id=x).", ["3:1 never-used: nothing reads q"]),
    "an import that is needed": ("import n.\n" + POLICY + "p(x) :- exported(x).", []),
    "relations without a variable in common": (
        POLICY + "p(x) :- heat:stack(id=x), os:nova:server(_id=s), os:nova:server.tags(_id=s).",
        ["2:27 cartesian: every row of heat:stack is combined with every row of os:nova:server"]),
    "the same under not, and in an aggregate": (
        POLICY + "p(x) :- heat:stack(id=x), not (heat:resource(id=r, stack=x), os:nova:server(_id=s), s != r),\n"
        "  count{ a, b : os:neutron:port(_id=a), os:nova:server(_id=b) } > 3.",
        ["3:41 cartesian: every row of os:neutron:port is combined with every row of os:nova:server"]),
    "one row meets all": (
        POLICY + "p(x) :- heat:stack(id=x, depth=d), gate:now(t), most(n), d > n, len(t, l), l > 1.\nmost(3).", []),
    "the caller has one row by a key": (
        "relation trial(project: string) key(project).\n" + POLICY
        + 'p(x) :- gate:caller(project=c), trial(c), os:nova:server(_id=x), nova:flavors(id="f", name=n), n != "g".',
        []),
    "a name for null that is like no value": (
        POLICY + 'p(x) :- os:neutron:security_group.rules(_id=x, protocol=q), q ?? "any" in ["tcp", "any"].',
        ["2:1 one-form: a reads os:neutron:security_group.rules, but a template can also say the same with "
         "os:neutron:security_group_rule"]),
    "a null that a rule states joins nothing": (
        POLICY + "p(x) :- os:nova:server(_id=x, key_name=q), tcp(q), not udp(q).\n"
        'tcp(q) :- q in [null, "tcp"].\nudp("udp").\nudp(null).',
        ["2:44 null-join: m:tcp has a null for q, but null never joins null",
         "2:56 null-join: m:udp has a null for q, but null never joins null"]),
    "a null that a rule states and another one asks for": (
        POLICY + "p(x) :- os:nova:server(_id=x, key_name=q), word(q, d), d != \"b\".\n"
        'p(x) :- os:nova:server(_id=x, key_name=null), word(null, "any").\n'
        'word("a", "b").\nword(null, "any").', []),
    "a null that a rule states and a test excludes": (
        POLICY + 'p(x) :- os:nova:server(_id=x, key_name=q), starts_with(q, "a"), tcp(q).\n'
        'tcp("ab").\ntcp(null).', []),
    "an aggregate over a constant": (
        POLICY + "p(x) :- heat:stack(id=x), count{ 1 : os:nova:server(_stack=x) } > 3.",
        ["2:27 set-aggregate: count takes each value of `1` only once, even if several rows of os:nova:server have "
         "it"]),
    "a policy that says nothing": ('@deny("a")\np(x) :- heat:stack(id=x).', ["2:1 no-message: a has no message"]),
    "a policy without a test": (
        '@deny("b", "{x}")\np(x) :- heat:stack(id=x).', ["2:1 no-test: no test expects b"]),
    "what the check warns of": (
        POLICY + 'p(x) :- heat:resource(id=x, type="Acme::Balancer").',
        ["2:9 unknown-value: type of heat:resource is never 'Acme::Balancer'"]),
}  # fmt: skip
"""The module m, and what is said of it, beside n, which has a tested policy."""


@pytest.mark.parametrize("what", LINTS)
def test_each_lint_is_reported_with_its_place(what: str, tmp_path: Path) -> None:
    text, expected = LINTS[what]
    (tmp_path / "m.dl").write_text(text)
    (tmp_path / "n.dl").write_text('export exported.\nexported(1).\n@deny("n", "{x}")\np(x) :- heat:stack(id=x).\n')
    (tmp_path / "test.yaml").write_text(TEST.replace("[", "[{policy: n}, "))
    assert _lints(tmp_path) == expected


def test_two_defaults_of_another_kind_are_no_error(tmp_path: Path) -> None:
    path = tmp_path / "m.dl"
    path.write_text(POLICY + "p(x) :- heat:stack(id=x, name=n), v = n ?? 1, v = n ?? 2.\n")
    warnings = [(warning.severity, warning.message) for warning in api.load_rules(path).warnings]
    assert warnings == [("warning", f"the default {number} is number, but n is string") for number in (1, 2)]


def test_lints_are_the_result_of_the_command_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.dl"
    path.write_text('@deny("b c", "{x}")\np(x) :- heat:stack(id=x).\n')
    assert (main(["lint", str(path)]), *capsys.readouterr()) == (
        2,
        f"{path}:2:1: warning[no-test] no test expects b c\n  2 | p(x) :- heat:stack(id=x).\n    | ^^^^\n"
        "  help  write its examples as cases with `datalog-gate test --init 'b c'`\n",
        "",
    )
    assert main(["lint", str(path), "--format", "json"]) == 2
    assert capsys.readouterr().out.startswith('{"schema": "datalog-gate/diagnostics/1", "diagnostics": [{"code": "no-t')


def _lints(path: Path) -> list[str]:
    try:
        api.lint(path)
    except RulesError as error:
        return [
            f"{diagnostic.span.line}:{diagnostic.span.column} {diagnostic.code}: {diagnostic.message}"
            for diagnostic in error.diagnostics
            if diagnostic.span
        ]
    return []


LITERALS = (
    "q(x, n)", "q(x, m)", "q(y, n)", "x = y", "n < m", "n >= m + 1", "m = n * 2", "n > 2", "m <= 3", "not (n > 3)",
    "n % 2 > 0", "n / 2 < 1", "not (m - 1 < 2)", "count{ z : q(z, n) } < 2", "count{ z : q(z, _) } = 0", "n != m",
    "max{ k : q(_, k) } < n", "min{ k : q(x, k) } >= m", "count{ z : q(z, _), z = x } > 1", "not q(x, m)",
    "m < 3, n > m",
    "t(x, s)", "starts_with(s, \"a\")", "matches(s, \"^ab?$\")", "not contains(s, \"b\")", "len(s, l), l > n",
    "lower(s, u), matches(u, \"[A-Z]\")", "upper(s, v), v = s", "concat(s, \"b\", c), t(_, c)",
)  # fmt: skip
FACTS: Mapping[str, Sequence[Sequence[object]]] = {
    "q": [(x, n) for x in ("a", "b", "c") for n in range(1, 6) if (ord(x) + n) % 3],
    "t": [("a", "a"), ("a", "ab"), ("b", "B"), ("c", "abb"), ("c", "AB")],
}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(LITERALS), min_size=1, max_size=5, unique=True))
def test_a_rule_that_the_lint_calls_dead_derives_nothing(literals: list[str]) -> None:
    body = ", ".join(("q(x, n)", "q(y, m)", "t(x, s)", *literals))
    declared = "relation q(x: string, n: number).\nrelation t(x: string, s: string).\n"
    try:
        rules = load([RuleFile("m", "m.dl", f'{declared}@deny("a", "{{x}}")\np(x) :- {body}.\n')])
    except dg.RulesError:
        return
    if any(warning.code == "never-fires" and "rule" in warning.message for warning in rules.warnings):
        assert dg.query(f"{declared}p(x) :- {body}.", "p(x)", facts=FACTS) == set()
