"""The old state in rules: the meaning of `old:`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.analysis.slices import collect_dependencies
from datalog_gate.analysis.violation_key import judges_transition
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import RulesError
from datalog_gate.base.values import ResourceId, Row, row_key
from datalog_gate.decision.policy_set import PolicySet, RuleFile, load
from datalog_gate.engine.native import evaluate
from datalog_gate.schema.declaration import RelationRef, old_version

POLICY = '@deny("p", "{s}")\n'
WEB, DB = ResourceId("web/a"), ResourceId("web/b")


def rules_of(text: str, **modules: str) -> PolicySet:
    files = [
        RuleFile(name.replace("_", ":"), f"{name}.dl", content) for name, content in {"m": text, **modules}.items()
    ]
    return load(files)


def wrong_with(text: str, **modules: str) -> list[tuple[str, str, str, str | None]]:
    with pytest.raises(RulesError) as refused:
        rules_of(text, **modules)
    return [read_diagnostic(diagnostic) for diagnostic in refused.value.diagnostics]


def read_diagnostic(diagnostic: Diagnostic) -> tuple[str, str, str, str | None]:
    assert diagnostic.span
    return (
        f"{diagnostic.span.file}:{diagnostic.span.line}:{diagnostic.span.column}",
        diagnostic.code,
        diagnostic.message,
        diagnostic.suggestion,
    )


@pytest.mark.parametrize(
    ("body", "transition"),
    [
        ("os:nova:server(_id=s)", False),
        ('gate:request("update"), os:nova:server(_id=s)', True),
        ("os:nova:server(_id=s), not asked(s)", True),
        ("os:nova:server(_id=s), gate:now(_)", False),
        ("os:nova:server(_id=s), not old:os:nova:server(_id=s)", True),
        ("os:nova:server(_id=s), not old:server(s)", True),
        ("os:nova:server(_id=s), not old:known(s)", False),
        ('heat:change(s, "create")', True),
    ],
)
def test_a_policy_whose_relations_have_the_action_judges_the_change(body: str, transition: bool) -> None:
    rules = rules_of(
        f"{POLICY}p(s) :- {body}.\nasked(s) :- heat:resource(s), gate:request(_).\n"
        "server(s) :- heat:resource(s).\nrelation known(s: resource).\n"
    )
    assert judges_transition(rules.policies[0], collect_dependencies(rules.program, rules.policies)) is transition


REFUSED: dict[str, tuple[str, list[tuple[str, str, str, str | None]]]] = {
    "a relation that there is not": (
        "p(s) :- old:os:nova:servr(_id=s).",
        [("m.dl:2:13", "undefined-relation", "there is no relation os:nova:servr", "did you mean os:nova:server?")]),
    "a relation of no module": (
        "p(s) :- heat:resource(s), not old:know(s).\nknown(s) :- heat:nested(s, _).\nexport known.",
        [("m.dl:2:35", "undefined-relation", "there is no relation know", "did you mean known?")]),
    "a column that it has not": (
        "p(s) :- old:os:nova:server(_id=s, flavour=_).",
        [("m.dl:2:35", "unknown-column", "old:os:nova:server has no column flavour", "did you mean flavor?")]),
    "the request": (
        'p(s) :- heat:resource(s), old:gate:request("create").',
        [("m.dl:2:27", "undefined-relation",
          "there is no old:gate:request: no stack, old or new, has rows of gate:request", "read gate:request itself")]),
    "the inventory": (
        "p(s) :- heat:resource(s), old:nova:servers(id=_).",
        [("m.dl:2:27", "undefined-relation",
          "there is no old:nova:servers: no stack, old or new, has rows of nova:servers", "read nova:servers itself")]),
    "a builtin": (
        'p(s) :- heat:resource(id=s, name=n), old:starts_with(n, "a").',
        [("m.dl:2:38", "undefined-relation",
          "there is no old:starts_with: no stack, old or new, has rows of starts_with", "read starts_with itself")]),
    "what was before that": (
        "p(s) :- old:old:heat:resource(s).",
        [("m.dl:2:9", "undefined-relation",
          "there is no old:old:heat:resource: no stack, old or new, has rows of old:heat:resource",
          "read old:heat:resource itself")]),
    "what rests on the change": (
        "p(s) :- heat:resource(s), not old:q(s).\nq(s) :- r(s).\nr(s) :- old:heat:resource(s).",
        [("m.dl:2:31", "undefined-relation", "there is no old:m:q: the relation itself depends on the change",
          "use old: only for a relation whose rules read neither old: nor heat:change")]),
    "kinds that never meet, once": (
        "p(s) :- heat:resource(s), not old:q(s).\nq(s) :- heat:stack(parent=s, depth=d), d = \"x\".",
        [("m.dl:3:9", "kind-mismatch", "d can never equal depth of heat:stack, which is number",
          "the two are never equal: compare values of the same kind")]),
    "a value that nothing holds, once": (
        'p(s) :- old:heat:restricted(s, "updat"), not old:q(s).\nq(s) :- heat:hook(s, "pre-creat").',
        [("m.dl:2:9", "unknown-value", "action of old:heat:restricted is never 'updat'", "did you mean update?"),
         ("m.dl:3:9", "unknown-value", "hook of heat:hook is never 'pre-creat'", "did you mean pre-create?")]),
    "recursion through not, once": (
        "p(s) :- heat:resource(s), not old:q(s).\nq(s) :- heat:resource(s), not q(s).",
        [("m.dl:3:31", "unstratified", "m:q depends on not m:q (m.dl:3:31)",
          "break the cycle: move what m:q needs of m:q into a relation that does not read m:q")]),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_relation_without_an_old_state_is_reported_once_at_its_place(what: str) -> None:
    text, expected = REFUSED[what]
    assert wrong_with(POLICY + text) == expected


def test_a_private_relation_is_as_private_before() -> None:
    other = "q(s) :- heat:resource(s).\nrelation r(a: resource).\n"
    assert wrong_with(f"{POLICY}p(s) :- old:n:q(s), not old:n:r(s).", n=other + "export r.") == [
        ("m.dl:2:13", "private-relation", "q is private to the module n", "write `export q.` in n")
    ]


SERVERS = "os:nova:server"
HOLDS: dict[str, tuple[str, list[ResourceId]]] = {
    "a relation of stacks": ("p(s) :- heat:resource(s), not old:heat:resource(s).", [DB]),
    "one that rules derive": ("p(s) :- heat:resource(s), not old:q(s).\nq(s) :- heat:resource(s).", [DB]),
    "one of another module": ("p(s) :- heat:resource(s), not old:n:q(s).", [DB]),
    "one that is imported": ("import n.\np(s) :- heat:resource(s), not old:q(s).", [DB]),
    "one that rests on others": (
        "p(s) :- heat:resource(s), not old:q(s).\nq(s) :- heat:resource(s), (r(s) or not r(s)).\n"
        "r(s) :- heat:nested(s, _).", [DB]),
    "one that is recursive": (
        "p(s) :- heat:resource(s), not old:q(s).\nq(s) :- heat:resource(s).\nq(s) :- q(t), heat:requires(s, t, _).",
        [DB]),
    "an aggregate": (
        "p(s) :- heat:resource(s), many(n), old:many(m), n > m.\nmany(n) :- n = count{ s : heat:resource(s) }.",
        [WEB, DB]),
    "a list of texts": (
        'p(s) :- heat:resource(s), not old:q(s).\nq(s) :- heat:resource(id=s, name=n), n in ["a", "b"].', [DB]),
    "what an author declares": (
        'p(s) :- heat:resource(s), not old:q(s).\nrelation q(s: resource).', [WEB, DB]),
    "what has no rows of a stack": (
        'p(s) :- heat:resource(id=s, name=n), old:q(n).\nq("b").', [DB]),
    "the request, in what there was": (
        'p(s) :- heat:resource(s), not old:q(s).\nq(s) :- heat:resource(s), gate:request("create").', [WEB, DB]),
}  # fmt: skip


@pytest.mark.parametrize("what", HOLDS)
def test_an_older_relation_holds_what_the_same_rules_say_of_the_older_stack(what: str) -> None:
    text, expected = HOLDS[what]
    rules = rules_of(text.replace("p(s)", f"{POLICY}p(s)", 1), n="q(s) :- r(s).\nr(s) :- heat:resource(s).\nexport q.")
    kind = "OS::Nova::Server"
    rows: list[Row] = [(resource_id, "web", resource_id.name, kind, kind) for resource_id in (WEB, DB)]
    facts: dict[RelationRef, list[Row]] = {
        "heat:resource": rows,
        old_version("heat:resource"): rows[:1],
        "gate:request": [("update",)],
    }
    inputs = {name: facts.get(name, []) for name in rules.program.inputs}
    derived = evaluate(rules.program, inputs).rows(rules.policies[0].relation)
    assert sorted(derived, key=row_key) == [(resource_id,) for resource_id in expected]


def test_only_what_is_read_is_copied() -> None:
    rules = rules_of(
        f"{POLICY}p(s) :- heat:resource(s), not old:q(s), t(s).\nq(s) :- heat:resource(s), not limit(s).\n"
        "relation limit(s: resource).\nt(s) :- heat:nested(s, _).\n"
    )
    derived = {name for stratum in rules.program.strata for name in stratum.relations}
    assert derived == {"m:p", "m:q", old_version("m:q"), "m:t"}
    assert rules.program.inputs == {"heat:resource", old_version("heat:resource"), "heat:nested", "m:limit"}
    assert rules.program.relations[old_version("m:q")].columns == rules.program.relations["m:q"].columns


HEAD = "heat_template_version: 2021-04-16\n"
GRANT = "  g: {type: DatalogGate::Policy, properties: {service: edge, expires: %s}}\n"
PORT = "  port: {type: OS::Neutron::Port, properties: {network: n}}\n"
NEWLY = """@deny("newly", "{s} was no breach")
newly(s) :- closed(s), not old:closed(s).
closed(s) :- os:neutron:port(_id=s), not gate:unlocked("edge", s).
@unlock("edge") edge(g) :- gate:grant(id=g).
"""


def decided(tmp_path: Path, rules: str, old: str, new: str, **more: Any) -> dg.Decision:
    """The decision about an update of the resources in old.yaml to those in new.yaml."""
    files = [tmp_path / "m.dl", tmp_path / "old.yaml", tmp_path / "new.yaml"]
    for file, text in zip(files, (rules, old, new), strict=True):
        file.write_text(text)
    before, after = (dg.read_stack(file, stack_name="s", **more) for file in files[1:])
    policies = dg.load_rules(files[0])
    return policies.decide(after, action="update", against=before, services=["edge"], now="2027-03-01", explain=True)


def places(decision: dg.Decision) -> list[tuple[str, str]]:
    return [
        (violation.message, f"{Path(violation.place.file).name}:{violation.place.line}")
        for violation in decision.violations
        if violation.place
    ]


def test_a_deleted_resource_has_its_place_in_the_older_template(tmp_path: Path) -> None:
    rules = '@deny("gone", "{s} in {z}")\ngone(s, z) :- old:os:nova:server(_id=s, availability_zone=z), z != null,'
    rules += ' heat:change(s, "delete").\n@deny("kind", "{s}")\nkind(s) :- heat:change(s, "replace").'
    server = "  web:\n    type: OS::Nova::Server\n    properties:\n      flavor: f\n      availability_zone: z1\n"
    volume = "  vol:\n    type: OS::Cinder::Volume\n    properties:\n      availability_zone: %s\n"
    decision = decided(
        tmp_path, rules, f"{HEAD}resources:\n{server}{volume % 'a'}", f"{HEAD}resources:\n{volume % 'b'}"
    )
    assert places(decision) == [("web in z1", "old.yaml:7"), ("vol", "new.yaml:6")]
    assert decision.explanation
    assert str(tmp_path / "old.yaml") in decision.sources
    [deleted, _] = decision.violations
    assert [line.text for line in decision.explanation.why(deleted)] == [
        "old:os:nova:server(s/web, availability_zone=z1, ...)", "heat:change(s/web, delete)", "z1 != null"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (GRANT % "2028-01-01" + PORT, PORT, ["port was no breach"]),
        (GRANT % "2027-01-01" + PORT, PORT, []),
        (PORT, PORT, []),
        (GRANT % "2028-01-01" + PORT, GRANT % "2028-01-01" + PORT, []),
    ],
)
def test_a_grant_that_is_taken_away_had_relaxed_what_was_if_it_is_in_effect(
    tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    decision = decided(tmp_path, NEWLY, f"{HEAD}resources:\n{old}", f"{HEAD}resources:\n{new}")
    assert [violation.message for violation in decision.violations] == expected


def test_a_grant_that_may_have_been_there_leaves_it_open_what_was(tmp_path: Path) -> None:
    head = f"{HEAD}parameters: {{p: {{type: string}}}}\nresources:\n"
    perhaps = (GRANT % "2028-01-01").replace("{type", "{condition: {equals: [{get_param: p}, x]}, type", 1)
    decision = decided(tmp_path, NEWLY, head + perhaps + PORT, head + PORT)
    assert decision.violations == ()
    assert [violation.message for violation in decision.undetermined] == ["port was no breach"]


def test_a_secret_of_the_older_state_is_one(tmp_path: Path) -> None:
    rules = '@deny("was", "{s} had {p}")\nwas(s, p) :- old:os:nova:server(_id=s, admin_pass=p), p != null.\n'
    rules += '@deny("said", "{q}")\nsaid(q) :- old:word(q).\n'
    rules += 'word(q) :- os:nova:server(admin_pass=p), concat(p ?? "", "!", q).\n'
    head = f"{HEAD}parameters: {{pw: {{type: string, hidden: true, default: S3CR3T}}}}\nresources:\n"
    server = "  web: {type: OS::Nova::Server, properties: {name: {get_attr: [port, status]}, admin_pass: %s}}\n"
    old, new = head + server % "{get_param: pw}" + PORT, head + server % "x" + PORT.replace("n}", "m}")
    decision = decided(tmp_path, rules, old, new)
    assert sorted(violation.message for violation in decision.violations) == ["***", "web had ***"]
    assert "S3CR3T" not in json.dumps(decision.to_json())
    other = decided(tmp_path, rules, old.replace("S3CR3T", "0TH3R"), new.replace("S3CR3T", "0TH3R"))
    assert other.digests["facts"] == decision.digests["facts"]


def test_an_unknown_stays_the_same_unless_it_depends_on_a_change(tmp_path: Path) -> None:
    rules = (
        '@deny("moved", "{s}")\nmoved(s) :- os:nova:server(_id=s, name=n), old:os:nova:server(_id=s, name=o), n != o.'
    )
    head = f"{HEAD}parameters: {{p: {{type: string}}}}\nresources:\n"
    text = "  %s: {type: OS::Nova::Server, properties: {flavor: f, name: {%s}}}\n"
    servers = (
        text % ("a", "get_param: p") + text % ("b", "get_attr: [x, status]") + text % ("c", "get_attr: [y, status]")
    )
    ports = PORT.replace("port", "x", 1) + PORT.replace("port", "y", 1).replace(" n}", " %s}")
    decision = decided(tmp_path, rules, head + servers + ports % "n", head + servers + ports % "m")
    assert (
        [violation.message for violation in decision.violations],
        [violation.message for violation in decision.undetermined],
    ) == ([], ["c"])


def test_a_query_reads_facts_of_the_old_state_alone() -> None:
    assert dg.query("", ":- old:heat:nested(s, t)", {"old:heat:nested": [("a", "b")]}) == {("a", "b")}


def test_without_an_old_stack_there_is_no_old_state(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text(
        '@deny("new", "{s}")\nnew(s) :- heat:resource(s), not old:heat:resource(s).\n'
        '@deny("change", "{s}")\nchange(s) :- heat:change(s, _).'
    )
    decision = dg.load_rules(tmp_path / "m.dl").decide(dg.read_stack(template=f"{HEAD}resources:\n{PORT}"))
    assert [(violation.policy, violation.message) for violation in decision.violations] == [("new", "port")]
