"""Waivers: reading them and applying them to decisions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.analysis.violation_key import computed_cells, key_columns
from datalog_gate.decision.decision import Decision, Violation
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.policytest.suite import read_suite
from tests.refusals import refusals

RULES = """\
@deny("flavor", "{s} takes {f}", hint="take less")
flavor(s, f) :- os:nova:server(_id=s, flavor=f), f in ["huge", "vast"].
@deny("many", "{n} servers")
many(n) :- n = count{ s : os:nova:server(_id=s) }, n > 1.
"""
TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  web: {type: OS::Nova::Server, properties: {flavor: huge}}
  db: {type: OS::Nova::Server, properties: {flavor: vast}}
"""
NOW = "2027-03-01T12:00"
WORD: dict[str, object] = {"id": "W-1", "owner": "net", "reason": "the scanner", "expires": "2027-03-08"}
FLAVOR: dict[str, object] = WORD | {"policy": "flavor"}
MANY: dict[str, object] = WORD | {"policy": "many"}


def rules_of(text: str = RULES) -> dg.Rules:
    return dg.Rules(load([RuleFile("m", "m.dl", text)]))


def judged(*waivers: Mapping[str, object], template: str = TEMPLATE, rules: str = RULES, **more: Any) -> Decision:
    stack = dg.read_stack(template=template, stack_name="s")
    return rules_of(rules).decide(stack, waivers=waivers, **{"now": NOW, **more})


def read_messages(violations: tuple[Violation, ...]) -> list[str]:
    return [f"{violation.policy}: {violation.message}" for violation in violations]


@pytest.mark.parametrize(
    ("head", "body", "keys"),
    [
        ("p(s, f)", "os:nova:server(_id=s, flavor=f)", ("s", "f")),
        ("p(s, f)", 'os:nova:server(_id=s, flavor=g), f = g ?? "none"', ("s", "f")),
        ("p(s, f)", 'os:nova:server(_id=s, flavor=g), is_string(g), concat(g, "!", f)', ("s",)),
        ("p(s, n)", "os:cinder:volume(_id=s, size=z), n = (z ?? 0) + 1", ("s",)),
        ("p(s, n)", "heat:stack(id=s), n = count{ r : os:nova:server(_id=r) }", ("s",)),
        ("p(s, n)", "heat:stack(id=s), q(n)", ("s",)),
        ("p(s, i, v)", "os:nova:server.networks(_id=s, _index=i, network=v)", ("s", "v")),
        ("p(s, w)", 'heat:stack(id=s), w = "always"', ("s", "w")),
        ("p(s, n)", "heat:stack(id=s, depth=n), n = count{ r : os:nova:server(_id=r) }", ("s", "n")),
        # one of two rules works it out
        ("p(s, n)", "heat:stack(id=s, depth=n). p(s, n) :- heat:stack(id=s), q(n)", ("s",)),
    ],
)
def test_the_key_of_a_violation_is_what_is_read_and_not_worked_out(head: str, body: str, keys: tuple[str]) -> None:
    rules = rules_of(f'@deny("p", "x")\n{head} :- {body}.\nq(n) :- n = count{{ r : os:nova:server(_id=r) }}.\n')
    assert key_columns(rules.policies[0], computed_cells(rules.program)) == keys
    named = rules_of(f'@deny("p", "x", key=["s"])\n{head} :- {body}.\nq(1).\n')
    assert key_columns(named.policies[0], computed_cells(named.program)) == ("s",)


ALL = ["flavor: db takes vast", "flavor: web takes huge", "many: 2 servers"]
CALLER: dict[str, Any] = {"caller": {"project": "p1"}}


@pytest.mark.parametrize(
    ("waiver", "more", "waived"),
    [
        (FLAVOR | {"subject": "s/web", "ticket": "OPS-1"}, {}, ["flavor: web takes huge"]),
        (FLAVOR | {"subject": "web"}, {}, ["flavor: web takes huge"]),
        (FLAVOR | {"subject": "t/web"}, {}, []),
        (FLAVOR | {"key": {"f": "vast"}}, {}, ["flavor: db takes vast"]),
        (FLAVOR | {"key": {"f": "vast"}, "subject": "web"}, {}, []),
        (FLAVOR | {"key": {"f": "vast", "s": "db"}}, {}, ["flavor: db takes vast"]),
        (FLAVOR | {"key": {"f": None}}, {}, []),
        (FLAVOR | {"project": "p1"}, CALLER, ["flavor: db takes vast", "flavor: web takes huge"]),
        (FLAVOR | {"project": "p2"}, CALLER, []),
        (FLAVOR | {"project": "p1"}, {}, []),
        (FLAVOR | {"while": 'f != "vast"'}, {}, ["flavor: web takes huge"]),
        (FLAVOR | {"while": "f < 5"}, {}, []),
        (MANY | {"while": "n <= 2"}, {}, ["many: 2 servers"]),
        (MANY | {"while": "2.5 > n"}, {}, ["many: 2 servers"]),
        (MANY | {"while": "n < 2"}, {}, []),
        (MANY | {"while": "n <= 2"}, {"mode": "warn"}, ["many: 2 servers"]),
        (MANY | {"while": "n <= 2"}, {"now": "2027-03-07T23:59"}, ["many: 2 servers"]),
        (MANY | {"while": "n <= 2"}, {"now": "2027-03-08"}, []),
        (MANY | {"while": "n <= 2", "expires": "2027-03-01T14:00+01:00"}, {}, ["many: 2 servers"]),
        (MANY | {"while": "n <= 2", "expires": "2027-03-01T13:00+01:00"}, {}, []),
    ],
)  # fmt: skip
def test_a_waiver_waives_what_it_names_and_nothing_else(
    waiver: dict[str, object], more: dict[str, Any], waived: list[str]
) -> None:
    decision = judged(waiver, **more)
    assert (read_messages(decision.waived), sorted(read_messages(decision.violations) + waived)) == (waived, ALL)
    assert all(violation.waiver and violation.waiver.to_json() == waiver for violation in decision.waived)


@pytest.mark.parametrize(
    ("waiver", "hints"),
    [
        (FLAVOR | {"subject": "web", "expires": "2027-03-01"},
         ["take less", "take less; waiver W-1 expired 2027-03-01", ""]),
        (MANY | {"while": "n <= 1"}, ["take less", "take less", "waiver W-1 holds only while n <= 1"]),
        (FLAVOR | {"subject": "other", "expires": "2027-03-01"}, ["take less", "take less", ""]),
    ],
)  # fmt: skip
def test_what_is_waived_no_more_is_back_and_says_so(waiver: dict[str, object], hints: list[str]) -> None:
    decision = judged(waiver)
    assert ([violation.hint for violation in decision.violations], decision.outcome) == (hints, "deny")


def test_the_first_waiver_in_force_counts_before_one_that_is_expired() -> None:
    old = FLAVOR | {"subject": "web", "expires": "2027-01-01"}
    new = FLAVOR | {"id": "W-2", "subject": "web"}
    for given_ in ((old, new), (new, old)):
        assert [violation.waiver and violation.waiver.id for violation in judged(*given_).waived] == ["W-2"]


def test_the_waivers_that_a_decision_met_give_it_again() -> None:
    all_ = [
        FLAVOR | {"id": "both", "key": {"f": "huge"}},
        FLAVOR | {"id": "unused", "subject": "mail"},
        FLAVOR | {"id": "old", "subject": "db", "expires": "2027-01-01"},
        FLAVOR | {"id": "vast", "project": "p1", "while": 'f != "tiny"'},
        MANY | {"id": "few", "while": "n < 2"},
    ]
    first = judged(*all_, **CALLER)
    assert [waiver.id for waiver in first.waivers] == ["both", "vast", "few"]
    again = judged(*(waiver.to_json() for waiver in first.waivers), **CALLER)
    assert again.to_json() == first.to_json()


def test_a_waived_denial_denies_no_more_and_warns_of_nothing() -> None:
    both: list[dict[str, object]] = [FLAVOR | {"key": {"f": flavor}, "id": flavor} for flavor in ("huge", "vast")]
    outcomes = [judged(*some).outcome for some in ([], both[:1], both, [*both, MANY | {"while": "n < 9"}])]
    assert outcomes == ["deny", "deny", "deny", "allow"]


PERHAPS = TEMPLATE.replace("resources:", "parameters: {f: {type: string}}\nresources:")


@pytest.mark.parametrize(("on_unknown", "outcome"), [("defer", "allow_with_warnings"), ("deny", "deny")])
def test_what_is_undetermined_is_never_waived_nor_hidden_by_what_is(on_unknown: str, outcome: str) -> None:
    rules = f"""@deny("p", "{{s}} takes {{f}}", on_unknown="{on_unknown}")
p(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".
p(s, f) :- os:nova:server.metadata(_id=s, _key="f", _value=f), f = "vast".
"""
    template = PERHAPS.replace("flavor: huge", "flavor: huge, metadata: {f: {get_param: f}}")
    plain = judged(template=template, rules=rules)
    waived = judged(WORD | {"policy": "p", "subject": "web"}, template=template, rules=rules)
    assert (read_messages(plain.violations), read_messages(plain.undetermined)) == (["p: web takes huge"], [])
    assert (read_messages(waived.waived), read_messages(waived.undetermined)) == (
        ["p: web takes huge"],
        ["p: web takes ?"],
    )
    assert (plain.outcome, waived.outcome) == ("deny", outcome)


@pytest.mark.parametrize("bound", [{"key": {"f": "***"}}, {"while": 'f != "x"'}, {"while": 'f = "S3CRET"'}])
def test_a_hidden_value_meets_no_waiver(bound: dict[str, object]) -> None:
    template = PERHAPS.replace("type: string", "type: string, hidden: true, default: S3CRET")
    rules = '@deny("p", "x")\np(s, f) :- os:nova:server(_id=s, flavor=f), f != "vast".\n'
    decision = judged(WORD | {"policy": "p"} | bound, template=template.replace("huge", "{get_param: f}"), rules=rules)
    assert (read_messages(decision.violations), decision.waived) == (["p: x"], ())


def test_the_id_of_a_decision_is_of_the_waivers_that_it_met_and_whether_they_hold() -> None:
    web, other = FLAVOR | {"subject": "web"}, FLAVOR | {"subject": "mail", "id": "W-2"}
    days = ("2027-03-01", "2027-03-02", "2027-03-08", "2027-03-09")
    first, second, expired, later = (judged(web, other, now=day).id for day in days)
    alone = judged(web).id
    assert (judged(other).id, first, second, expired) == (judged().id, alone, alone, later)
    assert len({judged().id, first, expired, judged(web | {"reason": "another"}).id}) == 4


FLAVORS = st.sampled_from(["huge", "vast", "tiny"])
BOUND = {
    "subject": st.sampled_from(["a", "s/b", "c", "t/a"]),
    "key": FLAVORS.map(lambda flavor: {"f": flavor}),
    "while": st.sampled_from(['f = "huge"', 'f != "vast"', "f < 3"]),
    "project": st.sampled_from(["p1", "p2"]),
}
WAIVER = st.fixed_dictionaries({"expires": st.sampled_from(["2027-01-01", "2028-01-01"])}, optional=BOUND)


@given(st.lists(FLAVORS, min_size=1, max_size=3), st.lists(WAIVER, max_size=3))
def test_waivers_only_move_findings_of_their_own_policy(flavors: list[str], waivers: list[dict[str, object]]) -> None:
    servers = [
        f"  {name}: {{type: OS::Nova::Server, properties: {{flavor: {flavor}}}}}\n"
        for name, flavor in zip("abc", flavors, strict=False)
    ]
    template = TEMPLATE[: TEMPLATE.index("  web")] + "".join(servers)
    named = [FLAVOR | waiver | {"id": str(at)} for at, waiver in enumerate(waivers) if waiver.keys() & BOUND.keys()]
    with_, without = (judged(*some, template=template, **CALLER) for some in (named, []))
    all_ = {violation.row: violation.policy for violation in (*with_.violations, *with_.waived)}
    assert all_ == {violation.row: violation.policy for violation in without.violations}
    assert {violation.policy for violation in with_.waived} <= {"flavor"}
    for violation in with_.waived:
        waiver = violation.waiver
        assert waiver
        assert violation.resource
        assert (waiver.expires, waiver.project or "p1") == ("2028-01-01", "p1")
        assert (waiver.subject or violation.resource.path) in (violation.resource.path, violation.resource.name)
        assert dict(waiver.key).get("f", violation.row[1]) == violation.row[1]
    assert (with_.undetermined, with_.errors, with_.derived) == (without.undetermined, without.errors, without.derived)


GOOD = """\
waivers:
  - id: W-1
    policy: flavor
    subject: web
    key: {f: huge}
    owner: net
    reason: the scanner
    expires: 2027-03-08
"""


@pytest.mark.parametrize(
    ("old", "new", "diagnostics"),
    [
        ("waivers:", "waiver:", ["1:1 the file must have a single key, `waivers`, with a list"
                                 " | write `waivers:`, and each waiver with a dash"]),
        ("subject", "subjct", ["4:5 a waiver has no key `subjct` | did you mean subject?"]),
        ("    expires: 2027-03-08\n", "", ["2:5 `expires` is missing here: a waiver must end"]),
        ("2027-03-08", "soon", ["8:14 soon is not a date | write one like 2027-03-01, the first day on which it "
        "no longer holds"]),
        ("owner: net", "owner: 17", ['6:12 `owner` must be a string | write "17" in quotes']),
        ("owner: net", "owner:", ["6:11 `owner` must be a string"]),
        ("policy: flavor", "policy: flavour", ["3:13 there is no policy flavour | did you mean flavor?"]),
        ("    subject: web\n    key: {f: huge}\n", "",
         ["2:5 it would waive everything that the policy finds | give at least one of subject, key, project, while"]),
        ("{f: huge}", "f", ["5:10 `key` must be a mapping of columns to values"]),
        ("{f: huge}", "{f: [huge]}", ["5:14 `f` must be a string, a number, true, false or null"]),
        ("{f: huge}", "{fl: huge}", ["5:11 flavor has no column fl | did you mean f?"]),
        ("policy: flavor", "policy: many", ["4:14 many blames no resource | remove `subject`",
                                            "5:11 many has no column f | its key columns are none"]),
        ("policy: flavor\n    subject: web\n    key: {f: huge}", "policy: many\n    key: {n: 2}",
         ['4:11 n is not a key column of many: the violation stays the same when it changes'
          ' | bound it instead, `while: "n <= 2"`']),
        ("owner", "while: f == huge\n    owner",
         ["6:12 `while` can't be `f == huge`: found `==`, expected a comparison"
          ' | write one like `while: "n <= 120"`']),
        ("owner", 'while: "1 < 2"\n    owner',
         ["6:12 `while` can't be `1 < 2`: it names no column"
          ' | write one like `while: "n <= 120"`']),
        ("owner", 'while: f = "a", f = "b"\n    owner',
         ["6:12 `while` can't be `f = \"a\", f = \"b\"`: it is not a comparison of a column"
          ' | write one like `while: "n <= 120"`']),
        ("owner", "while: n < 2\n    owner", ["6:12 flavor has no column n | the columns of flavor are s, f"]),
        ("  - id: W-1",
         "  - W-0\n  - {id: W-1, policy: flavor, key: {f: a}, owner: a, reason: a, expires: 2027-03-01}\n"
         "  - id: W-1",
         ["2:5 a waiver must be a mapping | with the keys id, policy, subject, project, owner, reason, ticket, "
         "expires, "
         "while, key",
          "3:10 W-1 is the id of more than one waiver | give each its own id",
          "4:9 W-1 is the id of more than one waiver | give each its own id"]),
    ],
)  # fmt: skip
def test_errors_of_a_file_are_reported_with_their_place(
    old: str, new: str, diagnostics: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "waivers.yaml"
    file.write_text(GOOD.replace(old, new))
    refused = refusals(lambda: rules_of().waivers(file), "code", "span", "message", "suggestion")
    assert {code for code, *_ in refused} == {"bad-waiver"}
    assert [
        f"{span.line}:{span.column} {' | '.join(filter(None, words))}" for _, span, *words in refused
    ] == diagnostics


def test_entries_without_a_text_are_reported_by_their_number() -> None:
    waivers = [FLAVOR | {"subject": "web"}, FLAVOR | {"id": "W-2"}]
    message = "waivers[1]: it would waive everything that the policy finds"
    assert refusals(lambda: rules_of().waivers(waivers), "message") == [message]


def test_a_file_may_hold_no_waiver(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("waivers:\n")
    assert rules_of().waivers(tmp_path / "w.yaml") == ()


def test_a_case_of_a_test_file_may_have_waivers(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text(RULES)
    case = """\
cases:
  - name: the scanner may stay
    stack: {heat_template_version: 2018-08-31, resources: {web: {type: OS::Nova::Server, properties: {flavor: huge}}}}
    now: 2027-03-01T12:00
    waivers:
      - {id: W-1, policy: POLICY, subject: web, owner: net, reason: the scanner, expires: 2027-03-08}
    expect:
"""
    cases = [("flavor", "violations: []"), ("flavour", "diagnostics: [{code: bad-waiver}]"), ("many", "violations: []")]
    reports = []
    for policy, expected in cases:
        (tmp_path / "test.yaml").write_text(f"{case.replace('POLICY', policy)}      {expected}\n")
        suite = read_suite(tmp_path / "test.yaml")
        reports.append(suite.report(suite.cases[0]))
    bad = "  + diagnostics: {code: bad-waiver}\n      waivers[0]: many blames no resource"
    assert reports == ["", "", bad]
