"""Every code of a rule file by a snippet that fails with it, whole, and its nearest neighbour that passes."""

# ruff: noqa: E501 (texts stand here as they are printed)

from __future__ import annotations

import pytest

from datalog_gate.analysis.check import check
from datalog_gate.diagnostics import CODES, Diagnostic
from datalog_gate.errors import RulesError
from datalog_gate.gate.policyset import RuleFile, load
from datalog_gate.language.parser import parse

ELSEWHERE = {
    "unreadable", "encoding", "outside-root", "yaml", "duplicate-key", "too-large", "not-a-template", "bad-template",
    "bad-function", "bad-reference", "bad-parameter", "bad-environment", "missing-file", "nesting", "no-resources",
    "bad-facts", "bad-test", "bad-catalogue",
}  # fmt: skip
"""Codes of templates, facts, test and catalogue files: their cases stand with the tests of what reads these."""

CASES: dict[str, tuple[str, str, str]] = {
    "syntax": (
        "p(1) q(2).",
        """
rules.dl:1:6: error[syntax] missing `:-` or `.` before `q`
  1 | p(1) q(2).
    |      ^
  help  write `:-` before `q`""",
        "p(1). q(2).",
    ),
    "bad-number": (
        "p(" + "1" * 5000 + ").",
        """
rules.dl:1:3: error[bad-number] a number of more than 1000 digits
  1 | p(11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
    |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
        "p(1).",
    ),
    "bad-string": (
        'p("a\\qb").',
        r"""
rules.dl:1:5: error[bad-string] unknown escape `\q`
  1 | p("a\qb").
    |     ^^
  help  write `\\` for a backslash""",
        'p("a\\\\qb").',
    ),
    "undefined-relation": (
        "p(x) :- heat:resuorce(id=x).",
        """
rules.dl:1:9: error[undefined-relation] there is no relation heat:resuorce
  1 | p(x) :- heat:resuorce(id=x).
    |         ^^^^^^^^^^^^^
  help  did you mean heat:resource?""",
        "p(x) :- heat:resource(id=x).",
    ),
    "unknown-column": (
        "p(x) :- os:nova:server(_id=x, flavour=null).",
        """
rules.dl:1:31: error[unknown-column] os:nova:server has no column flavour
  1 | p(x) :- os:nova:server(_id=x, flavour=null).
    |                               ^^^^^^^^^^^^
  help  did you mean flavor?""",
        'p(x) :- os:nova:server(_id=x, flavor="m1").',
    ),
    "duplicate-column": (
        "p(x) :- heat:stack(id=x, id=x).",
        """
rules.dl:1:26: error[duplicate-column] the column id is given twice
  1 | p(x) :- heat:stack(id=x, id=x).
    |                          ^^^^
  help  keep one of the two""",
        "p(x) :- heat:stack(id=x, name=x).",
    ),
    "arity": (
        "q(1, 2). p(x) :- q(x).",
        """
rules.dl:1:18: error[arity] rules:q has 2 columns, here 1
  1 | q(1, 2). p(x) :- q(x).
    |                  ^^^^
  help  write q(column1, column2), with `_` for any value""",
        "q(1, 2). p(x) :- q(x, _).",
    ),
    "reserved-name": (
        "heat:p(1).",
        """
rules.dl:1:1: error[reserved-name] a rule of rules can't define heat:p
  1 | heat:p(1).
    | ^^^^^^
  help  name it p, which other modules read as rules:p""",
        "p(1).",
    ),
    "unknown-module": (
        "import net:shh. p(1).",
        """
rules.dl:1:1: error[unknown-module] there is no module net:shh
  1 | import net:shh. p(1).
    | ^^^^^^^^^^^^^^
  help  a module is a file: net:ssh is net/ssh.dl""",
        "p(1). export p.",
    ),
    "unknown-builtin": (
        "p(x) :- q(x), builtin:lowre(x, x). q(1).",
        """
rules.dl:1:15: error[unknown-builtin] there is no builtin builtin:lowre
  1 | p(x) :- q(x), builtin:lowre(x, x). q(1).
    |               ^^^^^^^^^^^^^
  help  did you mean builtin:lower?""",
        'p(y) :- q(x), builtin:lower(x, y). q("A").',
    ),
    "redefined": (
        'relation q(a: string). relation q(a: string). q("1").',
        """
rules.dl:1:24: error[redefined] q is declared twice
  1 | relation q(a: string). relation q(a: string). q("1").
    |                        ^^^^^^^^^^^^^^^^^^^^^
  help  keep one of the two""",
        'relation q(a: string). q("1").',
    ),
    "unknown-annotation": (
        "@dney p(1).",
        """
rules.dl:1:1: error[unknown-annotation] there is no annotation @dney
  1 | @dney p(1).
    | ^^^^^
  help  did you mean @deny?""",
        "@deny p(1).",
    ),
    "annotation-attribute": (
        '@deny("a", hnt="b") p(1).',
        """
rules.dl:1:12: error[annotation-attribute] @deny has no attribute hnt
  1 | @deny("a", hnt="b") p(1).
    |            ^^^^^^^
  help  did you mean hint?""",
        '@deny("a", hint="b") p(1).',
    ),
    "message-column": (
        '@deny("a", "no {y}") p(x) :- heat:stack(id=x).',
        """
rules.dl:1:1: error[message-column] the message names y, which is no column of the head
  1 | @deny("a", "no {y}") p(x) :- heat:stack(id=x).
    | ^^^^^^^^^^^^^^^^^^^^
  help  the head has x""",
        '@deny("a", "no {x}") p(x) :- heat:stack(id=x).',
    ),
    "unknown-service": (
        '@unlock("edge") g(x) :- gate:grant(id=x). p(r) :- gate:unlocked("egde", r).',
        """
rules.dl:1:51: error[unknown-service] no rule unlocks the service egde
  1 | @unlock("edge") g(x) :- gate:grant(id=x). p(r) :- gate:unlocked("egde", r).
    |                                                   ^^^^^^^^^^^^^^^^^^^^^^^^
  help  did you mean edge?""",
        '@unlock("edge") g(x) :- gate:grant(id=x). p(r) :- gate:unlocked("edge", r).',
    ),
    "aggregate-scope": (
        "p(x, n) :- q(x), n = count{ x : q(x) }. q(1).",
        """
rules.dl:1:29: error[aggregate-scope] x is aggregated and occurs outside
  1 | p(x, n) :- q(x), n = count{ x : q(x) }. q(1).
    |                             ^
  help  use another name in one of the two places""",
        "p(x, n) :- q(x), n = count{ y : q(y) }. q(1).",
    ),
    "unsafe-variable": (
        "p(x) :- not q(x). q(1).",
        """
rules.dl:1:3: error[unsafe-variable] nothing binds x
  1 | p(x) :- not q(x). q(1).
    |   ^
  help  use x in a relation that is not negated""",
        "p(x) :- q(x), not r(x). q(1). r(2).",
    ),
    "negated-once": (
        "p(x) :- q(x), not r(x, y). q(1). r(1, 2).",
        """
rules.dl:1:24: error[negated-once] y occurs only here, under not
  1 | p(x) :- q(x), not r(x, y). q(1). r(1, 2).
    |                        ^
  help  write `_` if any value will do""",
        "p(x) :- q(x), not r(x, _). q(1). r(1, 2).",
    ),
    "kind-mismatch": (
        "p(x) :- os:nova:server(_id=x, flavor=5).",
        """
rules.dl:1:9: error[kind-mismatch] the column flavor of os:nova:server is string or resource, not number
  1 | p(x) :- os:nova:server(_id=x, flavor=5).
    |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help  write it in quotes""",
        'p(x) :- os:nova:server(_id=x, flavor="5").',
    ),
    "nullable": (
        "p(x) :- os:cinder:volume(_id=x, size=n), n > 10.",
        """
rules.dl:1:42: error[nullable] n may be null here
  1 | p(x) :- os:cinder:volume(_id=x, size=n), n > 10.
    |                                          ^^^^^^
  help  say `n != null`, or give a default: `n ?? ...`""",
        "p(x) :- os:cinder:volume(_id=x, size=n), n ?? 0 > 10.",
    ),
    "unstratified": (
        "p(x) :- q(x), not r(x). r(x) :- q(x), not p(x). q(1).",
        """
rules.dl:1:19: error[unstratified] rules:p depends on not rules:r (rules.dl:1:19), rules:r on not rules:p (rules.dl:1:43)
  1 | p(x) :- q(x), not r(x). r(x) :- q(x), not p(x). q(1).
    |                   ^^^^
  help  break the cycle: move what rules:p needs of rules:r into a relation that does not read rules:p""",
        "p(x) :- q(x), not r(x). r(x) :- q(x). q(1).",
    ),
    "value-growth": (
        "p(0). p(y) :- p(x), y = x + 1.",
        """
rules.dl:1:25: error[value-growth] the result of + goes round in a recursion, which may never end: rules:p depends on rules:p (rules.dl:1:15)
  1 | p(0). p(y) :- p(x), y = x + 1.
    |                         ^^^^^
  help  compute it after the recursion, or match it in a relation that holds all values it can take""",
        "p(0). p(y) :- q(x), y = x + 1. q(1).",
    ),
    "too-complex": (
        "p(1) :- " + ", ".join(["(q(1) or q(2))"] * 11) + ". q(1).",
        """
rules.dl:1:1: error[too-complex] the alternatives of this rule multiply to more than 1000
  1 | p(1) :- (q(1) or q(2)), (q(1) or q(2)), (q(1) or q(2)), (q(1) or q(2)), (q(1) or q(2)), (q(1) or q(2
    | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help  write some of them as rules of a relation of their own""",
        "p(1) :- " + ", ".join(["(q(1) or q(2))"] * 3) + ". q(1).",
    ),
    "forgotten-quotes": (
        "p(x) :- heat:resource(id=x, name=WEB).",
        """
rules.dl:1:34: error[forgotten-quotes] WEB is a variable that occurs once
  1 | p(x) :- heat:resource(id=x, name=WEB).
    |                                  ^^^
  help  write name="WEB" for the text, or leave the column out""",
        'p(x) :- heat:resource(id=x, name="WEB").',
    ),
    "unknown-value": (
        'p(x) :- heat:resource(id=x, type="OS::Nova::Sever").',
        """
rules.dl:1:9: error[unknown-value] type of heat:resource is never 'OS::Nova::Sever'
  1 | p(x) :- heat:resource(id=x, type="OS::Nova::Sever").
    |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help  did you mean OS::Nova::Server?""",
        'p(x) :- heat:resource(id=x, type="OS::Nova::Server").',
    ),
    "unsupported": (
        "p(n) :- n = count{ x : (q(x) or r(x)) }. q(1). r(1).",
        """
rules.dl:1:13: error[unsupported] an aggregate over alternatives
  1 | p(n) :- n = count{ x : (q(x) or r(x)) }. q(1). r(1).
    |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help  write the alternatives as rules of a relation, and aggregate over that""",
        "p(n) :- n = count{ x : q(x) }. q(1).",
    ),
}
"""Code: what fails, what it says, what passes."""

SEVERAL: dict[str, tuple[dict[str, str], str, dict[str, str]]] = {
    "private-relation": (
        {"a": "@deny p(x) :- b:q(x).", "b": "q(1)."},
        """
a.dl:1:15: error[private-relation] q is private to the module b
  1 | @deny p(x) :- b:q(x).
    |               ^^^
  help  write `export q.` in b""",
        {"a": "@deny p(x) :- b:q(x).", "b": "q(1). export q."},
    ),
    "ambiguous-name": (
        {"a": "import b. import c. @deny p(x) :- q(x).", "b": "q(1). export q.", "c": "q(1). export q."},
        """
a.dl:1:35: error[ambiguous-name] q is b:q and c:q
  1 | import b. import c. @deny p(x) :- q(x).
    |                                   ^
  help  write the full name""",
        {"a": "import b. @deny p(x) :- q(x).", "b": "q(1). export q.", "c": "q(1). export q."},
    ),
    "no-policy": (
        {"a": "p(1)."},
        """
a.dl:1:1: error[no-policy] the rules hold no policy: everything would pass
  1 | p(1).
    | ^
  help  write @deny("id", "message") above a rule""",
        {"a": "@deny p(1)."},
    ),
}
"""The same for what needs several modules."""


@pytest.mark.parametrize("code", CASES)
def test_a_mistake_is_said_with_its_place_and_what_to_write(code: str) -> None:
    bad, said, _ = CASES[code]
    with pytest.raises(RulesError) as raised:
        _checked(bad)
    assert str(raised.value) == said.removeprefix("\n")


@pytest.mark.parametrize("code", CASES)
def test_the_nearest_right_text_passes(code: str) -> None:
    assert _checked(CASES[code][2]) == ()


@pytest.mark.parametrize("code", SEVERAL)
def test_a_mistake_between_modules_is_said_with_its_place_and_what_to_write(code: str) -> None:
    bad, said, good = SEVERAL[code]
    with pytest.raises(RulesError) as raised:
        load(_files(bad))
    assert str(raised.value) == said.removeprefix("\n")
    assert load(_files(good)).warnings == ()


def test_every_code_has_a_case() -> None:
    assert {*CASES, *SEVERAL, *ELSEWHERE} == set(CODES)


def test_all_mistakes_of_a_run_are_reported_together_in_order_of_place() -> None:
    with pytest.raises(RulesError) as raised:
        load(_files({"b": "@deny p(x) :- q(x).\nr(x) :- not s(x).\ns(1).\nt(1) u(2).\n", "a": "@dney p(1)."}))
    found = [(one.code, str(one.span)) for one in raised.value.diagnostics]
    assert found == [
        ("unknown-annotation", "a.dl:1:1"),
        ("undefined-relation", "b.dl:1:15"),
        ("unsafe-variable", "b.dl:2:3"),
        ("syntax", "b.dl:4:6"),
    ]


def _checked(text: str) -> tuple[Diagnostic, ...]:
    module, found = parse(text, "rules.dl", "rules")
    return check([module], found=found, sources={"rules.dl": text}).warnings


def _files(texts: dict[str, str]) -> list[RuleFile]:
    return [RuleFile(module, f"{module}.dl", text) for module, text in texts.items()]
