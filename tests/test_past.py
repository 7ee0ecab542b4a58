"""The older state in rules: what `old:` stands for, and what is wrong with it."""

from __future__ import annotations

import pytest

from datalog_gate.analysis.identity import judges_transition
from datalog_gate.diagnostics import Diagnostic
from datalog_gate.engine.native import evaluate
from datalog_gate.errors import RulesError
from datalog_gate.gate.policyset import PolicySet, RuleFile, load, rests_on
from datalog_gate.values import ResourceId, Row, row_key

POLICY = '@deny("p", "{s}")\n'
WEB, DB = ResourceId("web/a"), ResourceId("web/b")


def rules_of(text: str, **modules: str) -> PolicySet:
    files = [RuleFile(name.replace("_", ":"), f"{name}.dl", given) for name, given in {"m": text, **modules}.items()]
    return load(files)


def wrong_with(text: str, **modules: str) -> list[tuple[str, str, str, str | None]]:
    with pytest.raises(RulesError) as refused:
        rules_of(text, **modules)
    return [told(one) for one in refused.value.diagnostics]


def told(one: Diagnostic) -> tuple[str, str, str, str | None]:
    assert one.span
    return f"{one.span.file}:{one.span.line}:{one.span.column}", one.code, one.message, one.suggestion


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
def test_a_policy_judges_the_change_if_what_it_rests_on_tells_what_is_done(body: str, transition: bool) -> None:
    rules = rules_of(
        f"{POLICY}p(s) :- {body}.\nasked(s) :- heat:resource(s), gate:request(_).\n"
        "server(s) :- heat:resource(s).\nrelation known(s: resource).\n"
    )
    assert judges_transition(rules.policies[0], rests_on(rules.program, rules.policies)) is transition


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
    "a list that is a relation": (
        "p(s) :- old:os:nova:server(_id=s, networks=_).",
        [("m.dl:2:35", "unknown-column", "old:os:nova:server has no column networks",
          "it is a list or a map: read old:os:nova:server.networks(_id=...)")]),
    "positions": (
        "p(s) :- old:os:nova:server(s).",
        [("m.dl:2:9", "arity", "old:os:nova:server takes named columns only", "write old:os:nova:server(_id=...)")]),
    "too many columns": (
        "p(s) :- heat:resource(s), not old:q(s, s).\nq(s) :- heat:nested(s, _).",
        [("m.dl:2:31", "arity", "old:m:q has 1 columns, here 2", "write old:q(s), with `_` for any value")]),
    "the request": (
        'p(s) :- heat:resource(s), old:gate:request("create").',
        [("m.dl:2:27", "undefined-relation",
          "there is no old:gate:request: no stack, old or new, fills gate:request", "read gate:request itself")]),
    "the inventory": (
        "p(s) :- heat:resource(s), old:nova:servers(id=_).",
        [("m.dl:2:27", "undefined-relation",
          "there is no old:nova:servers: no stack, old or new, fills nova:servers", "read nova:servers itself")]),
    "a builtin": (
        'p(s) :- heat:resource(id=s, name=n), old:starts_with(n, "a").',
        [("m.dl:2:38", "undefined-relation",
          "there is no old:starts_with: no stack, old or new, fills starts_with", "read starts_with itself")]),
    "the change": (
        'p(s) :- old:heat:change(s, "create").',
        [("m.dl:2:9", "undefined-relation",
          "there is no old:heat:change: no stack, old or new, fills heat:change", "read heat:change itself")]),
    "what was before that": (
        "p(s) :- old:old:heat:resource(s).",
        [("m.dl:2:9", "undefined-relation",
          "there is no old:old:heat:resource: no stack, old or new, fills old:heat:resource",
          "read old:heat:resource itself")]),
    "what rests on the change": (
        "p(s) :- heat:resource(s), not old:q(s).\nq(s) :- r(s).\nr(s) :- old:heat:resource(s).",
        [("m.dl:2:31", "undefined-relation", "there is no old:m:q: it judges the change itself",
          "read as old: a relation whose rules read neither old: nor heat:change")]),
    "kinds that never meet, once": (
        "p(s) :- heat:resource(s), not old:q(s).\nq(s) :- heat:stack(parent=s, depth=d), d = \"x\".",
        [("m.dl:3:9", "kind-mismatch", "d can never be the number that depth is",
          "the two never meet: compare values of one kind")]),
    "kinds of what the older relation holds": (
        "p(s) :- heat:resource(s), old:q(s, d), d < \"x\".\nq(s, d) :- heat:stack(parent=s, depth=d).",
        [("m.dl:2:40", "kind-mismatch", "< compares number, not string", "write the number without quotes")]),
    "a value that nothing holds, once": (
        'p(s) :- old:heat:restricted(s, "updat"), not old:q(s).\nq(s) :- heat:hook(s, "pre-creat").',
        [("m.dl:2:9", "unknown-value", "action of old:heat:restricted is never 'updat'", "did you mean update?"),
         ("m.dl:3:9", "unknown-value", "hook of heat:hook is never 'pre-creat'", "did you mean pre-create?")]),
    "a type that there is not": (
        'p(s) :- old:heat:resource(id=s, type="OS::Nova::Servr").',
        [("m.dl:2:9", "unknown-value", "type of old:heat:resource is never 'OS::Nova::Servr'",
          "did you mean OS::Nova::Server?")]),
    "recursion through not, once": (
        "p(s) :- heat:resource(s), not old:q(s).\nq(s) :- heat:resource(s), not q(s).",
        [("m.dl:3:31", "unstratified", "m:q depends on not m:q (m.dl:3:31)",
          "break the cycle: move what m:q needs of m:q into a relation that does not read m:q")]),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_older_state_is_said_once_at_its_place(what: str) -> None:
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
    rows: list[Row] = [(one, "web", one.name, kind, kind) for one in (WEB, DB)]
    facts: dict[str, list[Row]] = {"heat:resource": rows, "old:heat:resource": rows[:1], "gate:request": [("update",)]}
    given = {name: facts.get(name, []) for name in rules.program.inputs}
    found = evaluate(rules.program, given).rows(rules.policies[0].relation)
    assert sorted(found, key=row_key) == [(one,) for one in expected]


def test_only_what_is_read_is_copied() -> None:
    rules = rules_of(
        f"{POLICY}p(s) :- heat:resource(s), not old:q(s), t(s).\nq(s) :- heat:resource(s), not limit(s).\n"
        "relation limit(s: resource).\nt(s) :- heat:nested(s, _).\n"
    )
    derived = {name for stratum in rules.program.strata for name in stratum.relations}
    assert derived == {"m:p", "m:q", "old:m:q", "m:t"}
    assert rules.program.inputs == {"heat:resource", "old:heat:resource", "heat:nested", "m:limit"}
    assert rules.program.relations["old:m:q"].columns == rules.program.relations["m:q"].columns
