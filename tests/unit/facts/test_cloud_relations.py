"""Policies over the whole cloud: the meaning of `all:`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from oslo_config import cfg

import datalog_gate as dg
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.decision_point.operation import Operation
from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.decision_point.settings import Settings
from datalog_gate.facts.cloud_relations import add_cloud_facts
from datalog_gate.facts.factset import FactSet
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.policytest.suite import read_suite
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import all_version
from tests.commands import run, write_files
from tests.refusals import refusals

POLICY = '@deny("p", "{s}")\n'
HEAD = "heat_template_version: 2021-04-16\n"
SERVER = "  s: {type: OS::Nova::Server, properties: {flavor: f, name: %s}}\n"
SAME = """@deny("same", "{s} of {p} has the name {n} of {t}")
same(s, p, n, t) :- named(s, n, p), named(t, n, _), s != t.
named(s, n, p) :- all:os:nova:server(_id=s, name=n, _project=p), n != null.
"""
ALONE = '@warn("alone", "{s}")\nalone(s) :- os:nova:server(_id=s, name="web").\n'


def template(name: str, more: str = "") -> str:
    return f"{HEAD}{more}resources:\n{SERVER % name}"


WRONG: dict[str, tuple[str, list[tuple[str, str, str, str | None]]]] = {
    "a relation that there is not": (
        "p(s) :- all:os:nova:servr(_id=s).",
        [("m.dl:2:13", "undefined-relation", "there is no relation os:nova:servr", "did you mean os:nova:server?")]),
    "a column that it has not": (
        "p(s) :- all:os:nova:server(_id=s, project=_).",
        [("m.dl:2:35", "unknown-column", "all:os:nova:server has no column project", "did you mean _project?")]),
    "a project without its name": (
        'p(s) :- all:heat:nested(s, _, "p1").',
        [("m.dl:2:9", "arity", "all:heat:nested has 2 columns, found 3",
          "write all:heat:nested(id, stack), with `_` for any value")]),
    "a project of one stack": (
        "p(s) :- heat:resource(id=s, _project=_).",
        [("m.dl:2:29", "unknown-column", "heat:resource has no column _project",
          "the columns are id, stack, name, type, declared")]),
    "the inventory": (
        "p(s) :- heat:resource(s), all:nova:servers(id=_).",
        [("m.dl:2:27", "undefined-relation", "there is no all:nova:servers: no stack has rows of nova:servers",
          "read nova:servers itself")]),
    "the time": (
        "p(s) :- heat:resource(s), all:gate:now(_).",
        [("m.dl:2:27", "undefined-relation", "there is no all:gate:now: no stack has rows of gate:now",
          "read gate:now itself")]),
    "the change": (
        'p(s) :- all:heat:change(s, "create").',
        [("m.dl:2:9", "undefined-relation", "there is no all:heat:change: no stack has rows of heat:change",
          "read heat:change itself")]),
    "what unlocks fill": (
        "p(s) :- heat:resource(s), not all:gate:unlocked(_, s).",
        [("m.dl:2:31", "undefined-relation", "there is no all:gate:unlocked: no stack has rows of gate:unlocked",
          "read gate:unlocked itself")]),
    "a builtin": (
        'p(s) :- heat:resource(id=s, name=n), all:starts_with(n, "a").',
        [("m.dl:2:38", "undefined-relation", "there is no all:starts_with: no stack has rows of starts_with",
          "read starts_with itself")]),
    "what rules derive": (
        "p(s) :- all:q(s).\nq(s) :- heat:resource(s).",
        [("m.dl:2:9", "undefined-relation", "there is no all:q: no stack has rows of q",
          "read q itself, and in its rules write all: before the relations of stacks")]),
    "the older cloud": (
        "p(s) :- all:old:heat:resource(s).",
        [("m.dl:2:9", "undefined-relation", "there is no all:old:heat:resource: no stack has rows of old:heat:resource",
          "read all:heat:resource: a cloud is judged as it is")]),
    "the cloud as it was": (
        "p(s) :- old:all:heat:resource(s).",
        [("m.dl:2:9", "undefined-relation",
          "there is no old:all:heat:resource: no stack, old or new, has rows of all:heat:resource",
          "read all:heat:resource itself")]),
    "the operation beside it": (
        'p(s) :- q(s), gate:request("create").\nq(s) :- all:heat:resource(s).',
        [("m.dl:2:1", "cloud-wide", "p judges the whole cloud, but reads gate:request, which only a single stack has",
          "judge changes of a stack in a separate policy")]),
    "older states beside it, through others": (
        "p(s) :- all:heat:resource(s), not old:q(s), heat:disruption(s, _).\nq(s) :- heat:nested(s, _).",
        [("m.dl:2:1", "cloud-wide", "p judges the whole cloud, but reads heat:disruption, old:heat:nested, "
          "which only a single stack has",
          "judge changes of a stack in a separate policy")]),
    "a grant": (
        'p(s) :- heat:resource(s).\n@unlock("edge") q(g) :- gate:grant(id=g), not r(g).\n'
        "r(g) :- all:heat:member(g, _, _).",
        [("m.dl:3:1", "cloud-wide",
          "a grant of edge can't depend on the whole cloud: it is decided for a single stack",
          "use relations of the stack or of the inventory")]),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_no_cloud_has_is_reported_at_its_place(what: str) -> None:
    text, expected = WRONG[what]
    problems = refusals(lambda: load([RuleFile("m", "m.dl", POLICY + text)]), "span", "code", "message", "suggestion")
    assert [(str(span), *rest) for span, *rest in problems] == expected


def test_a_module_may_be_named_all() -> None:
    rules = load(
        [
            RuleFile("all", "all.dl", POLICY + "p(s) :- all:q(s), all:heat:resource(s). q(s) :- heat:resource(s)."),
            RuleFile("all:net", "all/net.dl", "r(s) :- heat:resource(s). export r."),
            RuleFile("n", "n.dl", "r(s) :- all:net:r(s). export r."),
        ]
    )
    assert rules.program.inputs == {"heat:resource", all_version("heat:resource")}


def test_the_rows_of_each_stack_have_its_project_and_keep_their_places() -> None:
    stacks = [dg.read_stack(template=template("web"), stack_name=name) for name in ("a", "b")]
    facts = FactSet()
    relation = all_version("heat:resource")
    add_cloud_facts(facts, stacks, {"a": "p1"}, SHIPPED, ["heat:resource", relation])
    kind = "OS::Nova::Server"
    assert [(name, row, located and located[0]) for name, row, located in facts] == [
        (relation, (ResourceId(f"{stack.id}/s"), stack.id, "s", kind, kind, project), stack.named["s"])
        for stack, project in zip(stacks, ("p1", None), strict=True)
    ]


FILES = {"m.dl": SAME + ALONE, "a.yaml": template("web"), "b.yaml": template("web")}


TOGETHER = """\
a.yaml:3:61: deny[same] a/s of null has the name web of b/s
b.yaml:3:61: deny[same] b/s of null has the name web of a/s
a.yaml:3:3: warn[alone] a/s
b.yaml:3:3: warn[alone] b/s
"""


@pytest.mark.parametrize("engine", ["native", "pydatalog", "both"])
def test_templates_that_are_checked_together_are_the_whole_cloud(
    folder: Path, engine: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    arguments = ("check", "a.yaml", "b.yaml", "--together", "--rules", "m.dl", "--format", "compact")
    code, out, err = run(capsys, *arguments, "--engine", engine)
    *lines, counts = out.splitlines()
    assert (code, sorted(lines), err) == (1, sorted(TOGETHER.splitlines()), "")
    assert counts.startswith("2 denied, 2 warnings, 0 undetermined; 2 policies, ")
    assert "skipped" not in counts


def test_a_cloud_of_one_stack_is_a_cloud(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.yaml").write_text(
        template("web") + "  t: {type: OS::Nova::Server, properties: {name: web, flavor: m}}\n"
    )
    caller = folder / "caller.json"
    caller.write_text('{"project": "p1"}')
    arguments = ("check", folder / "a.yaml", "--together", "--rules", folder / "m.dl", "--caller", caller)
    code, out, _ = run(capsys, *arguments, "--format", "json")
    violations = [finding["message"] for finding in json.loads(out)["violations"] if finding["policy"] == "same"]
    assert (code, violations) == (1, ["s of p1 has the name web of t", "t of p1 has the name web of s"])


def test_a_single_template_skips_policies_over_the_cloud_and_counts_them(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = run(capsys, "check", "a.yaml", "--rules", "m.dl", "--format", "compact")
    warned, counts = out.splitlines()
    assert (code, warned, err) == (0, "a.yaml:3:3: warn[alone] s", "")
    assert "; 1 policy, 3 facts; 1 policy judges the whole cloud: skipped; allow_with_warnings; " in counts
    _, out, _ = run(capsys, "check", "a.yaml", "--rules", "m.dl", "--format", "json")
    assert json.loads(out)["counts"] == {"policies": 1, "facts": 3, "skipped": 1}
    _, out, _ = run(capsys, "check", "a.yaml", "--rules", "m.dl", "--format", "junit")
    cases = {
        case.get("name"): [(part.tag, part.attrib) for part in case] for case in Xml.fromstring(out).iter("testcase")
    }
    assert cases["same"] == [("skipped", {"message": "judges the whole cloud"})]


def test_rules_that_all_judge_the_cloud_let_a_single_template_pass_with_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "m.dl").write_text(SAME)
    code, _, err = run(capsys, "check", folder / "a.yaml", "--rules", folder / "m.dl")
    warning = "warning[no-policy] all policies on create judge the whole cloud: everything passes"
    assert (code, err.splitlines()) == (0, [warning, "  help  give all templates of the cloud, with --together"])


def test_decisions_without_such_policies_do_not_depend_on_what_is_judged_as_a_cloud() -> None:
    rules = dg.load_rules("rules/net")
    stack = dg.read_stack("fixtures/stacks/bastion")
    assert rules.decide(stack, cloud={}).to_json() == rules.decide(stack).to_json()
    assert rules.cloud_wide == frozenset()


def test_a_decision_about_a_cloud_is_another_one_than_that_about_a_stack(folder: Path) -> None:
    (folder / "m.dl").write_text(SAME + ALONE)
    rules, stack = dg.load_rules(folder / "m.dl"), dg.read_stack(template=f"{HEAD}resources: {{}}")
    whole, single = rules.decide(stack, cloud={}), rules.decide(stack)
    assert rules.cloud_wide == {"same"}
    assert (whole.skipped, single.skipped, whole.id == single.id) == ((), ("same",), False)


def test_what_is_not_known_in_one_stack_leaves_the_cloud_undetermined(folder: Path) -> None:
    unknown = dg.read_stack(template=template("{get_param: n}", "parameters: {n: {type: string}}\n"), stack_name="b")
    stacks = [dg.read_stack(folder / "a.yaml"), unknown]
    for engine in ("native", "both"):
        decision = dg.load_rules(folder / "m.dl").decide(stacks, cloud={"a": "p1"}, engine=engine)
        undetermined = [violation.resource for violation in decision.undetermined if violation.policy == "same"]
        assert undetermined == [ResourceId("a/s"), ResourceId("b/s")]
        assert not decision.errors


def test_a_secret_of_any_stack_is_one(folder: Path) -> None:
    hidden = "parameters: {n: {type: string, hidden: true, default: web}}\n"
    stacks = [dg.read_stack(template=template("{get_param: n}", hidden), stack_name=name) for name in ("a", "b")]
    decision = dg.load_rules(folder / "m.dl").decide(stacks, cloud={}, explain=True)
    messages = [violation.message for violation in decision.violations if violation.policy == "same"]
    assert messages == ["a/s of null has the name *** of b/s", "b/s of null has the name *** of a/s"]
    assert '"web"' not in json.dumps(decision.to_json())


def test_a_finding_of_the_cloud_is_explained_by_rows_of_its_stacks(folder: Path) -> None:
    stacks = [dg.read_stack(folder / f"{name}.yaml") for name in "ab"]
    decision = dg.load_rules(folder / "m.dl").decide(stacks, cloud={"a": "p1"}, explain=True)
    assert isinstance(decision, dg.api.ExplainedDecision)
    same = next(violation for violation in decision.violations if violation.policy == "same")
    assert [line.text for line in decision.explanation.why(same)] == [
        "named(a/s, web, p1)",
        "all:os:nova:server(a/s, name=web, _project=p1, ...)",
        "web != null",
        "named(b/s, web, null)",
        "all:os:nova:server(b/s, name=web, _project=null, ...)",
        "web != null",
        "a/s != b/s",
    ]


QUOTA = """@deny("quota", "project {p} has {n} servers")
quota(p, n) :- all:heat:stack(_project=p), p != null, n = count{ s : all:os:nova:server(_id=s, _project=p) }, n > 1.
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", []),
        ("projects: {web: p1, b: p1}", ["project p1 has 2 servers"]),
        ("projects: {web: p1, b: p2}", []),
        ("caller: {project: p3}", ["project p3 has 2 servers"]),
        ("caller: {project: p3}\n    projects: {web: p1}", []),
    ],
)
def test_a_case_is_a_cloud_of_its_stacks(folder: Path, more: str, expected: list[str]) -> None:
    case = f"cases:\n  - name: one\n    stack: web\n    modules: {{b: b.yaml}}\n    {more}\n    expect: {{}}\n"
    write_files(folder, {"m.dl": QUOTA, "web/template.yaml": template("x"), "test.yaml": case})
    suite = read_suite(folder / "test.yaml")
    assert [finding.message for finding in suite.run(suite.cases[0]).findings] == expected


def test_a_project_needs_an_existing_stack() -> None:
    stack = dg.read_stack(template=template("web"), stack_name="a")
    with pytest.raises(dg.UsageError, match="the cloud has no stack b, for which a project is given"):
        dg.load_rules("rules/net").decide(stack, cloud={"b": "p1"})


def test_a_query_reads_facts_of_all_stacks() -> None:
    facts = {"all:heat:nested": [("a", "b", "p1")]}
    assert dg.query("", "all:heat:nested(id=s, stack=t, _project=p)", facts) == {("a", "b", "p1")}


BODY = {"heat_template_version": "2018-08-31", "resources": {"s": {"type": "OS::Nova::Server"}}}


def test_a_door_lets_pass_what_only_the_whole_cloud_could_refuse_and_logs_the_count(tmp_path: Path) -> None:
    rule = '@deny("lone", "{s} has no neighbour")\nlone(s) :- heat:resource(id=s), not others(s).\n'
    rule += "others(s) :- heat:resource(id=s), all:heat:resource(id=t), s != t.\n"
    write_files(tmp_path, {"rules/m.dl": rule})
    conf = cfg.ConfigOpts()
    conf([], project="heat", default_config_files=[])
    log = tmp_path / "decisions.jsonl"
    point = DecisionPoint(Settings(rules=(str(tmp_path / "rules"),), decision_log=str(log)), Entitlements(conf, ()))
    operation = Operation(
        door="api",
        action="create",
        stack_name="a",
        project="p1",
        definition=lambda: StackDefinition(BODY),
        credentials={"user_id": "u1", "project_id": "p1", "roles": ["member"]},
    )
    assert point.judge(operation).verdict == "allowed"
    point.flush()
    entries = list(map(json.loads, log.read_text().splitlines()))
    assert [entry["decision"]["counts"] for entry in entries if "decision" in entry] == [
        {"policies": 0, "facts": 5, "skipped": 1}
    ]


def test_the_time_that_only_a_skipped_policy_reads_is_no_part_of_a_decision() -> None:
    timed = '@warn("t", "{s} {now}")\nt(s, now) :- all:heat:root(stack=s), gate:now(time=now).\n'
    stack = dg.read_stack(template=template("web"), stack_name="s")

    def ids(text: str, cloud: dict[str, str] | None) -> set[str]:
        rules = dg.Rules(load([RuleFile("m", "m.dl", text)]))
        return {rules.decide(stack, now=f"2027-03-0{day}", cloud=cloud).id for day in (1, 2)}

    local = '@warn("l", "{s} {now}")\nl(s, now) :- heat:root(stack=s), gate:now(time=now).\n'
    assert [len(ids(ALONE + timed, None)), len(ids(ALONE + timed, {})), len(ids(local + timed, None))] == [1, 2, 2]
