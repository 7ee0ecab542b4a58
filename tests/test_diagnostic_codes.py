"""Every code of a rule file by a snippet that fails with it, whole, and its nearest neighbour that passes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from datalog_gate.analysis.check import check
from datalog_gate.diagnostics import CODES, Diagnostic, Span
from datalog_gate.enforce.cli import main
from datalog_gate.errors import InputError, RulesError
from datalog_gate.gate.policyset import RuleFile, load
from datalog_gate.language.parser import parse
from datalog_gate.policytest.suite import read_suite

CASES: dict[str, tuple[str, str, str | None, str]] = {
    "syntax": (
        "p(1) q(2).",
        "6-7: missing `:-` or `.` before `q`",
        "write `:-` before `q`",
        "p(1). q(2)."),
    "bad-number": (
        "p(" + "1" * 5000 + ").",
        "3-5003: a number of more than 1000 digits",
        None,
        "p(1)."),
    "bad-string": (
        'p("a\\qb").',
        "5-7: unknown escape `\\q`",
        "write `\\\\` for a backslash",
        'p("a\\\\qb").'),
    "undefined-relation": (
        "p(x) :- heat:resuorce(id=x).",
        "9-22: there is no relation heat:resuorce",
        "did you mean heat:resource?",
        "p(x) :- heat:resource(id=x)."),
    "unknown-column": (
        "p(x) :- os:nova:server(_id=x, flavour=null).",
        "31-43: os:nova:server has no column flavour",
        "did you mean flavor?",
        'p(x) :- os:nova:server(_id=x, flavor="m1").'),
    "duplicate-column": (
        "p(x) :- heat:stack(id=x, id=x).",
        "26-30: the column id is given twice",
        "keep one of the two",
        "p(x) :- heat:stack(id=x, name=x)."),
    "arity": (
        "q(1, 2). p(x) :- q(x).",
        "18-22: rules:q has 2 columns, here 1",
        "write q(column1, column2), with `_` for any value",
        "q(1, 2). p(x) :- q(x, _)."),
    "reserved-name": (
        "heat:p(1).",
        "1-7: a rule of rules can't define heat:p",
        "name it p, which other modules read as rules:p",
        "p(1)."),
    "unknown-module": (
        "import net:shh. p(1).",
        "1-15: there is no module net:shh",
        "a module is a file: net:ssh is net/ssh.dl",
        "p(1). export p."),
    "unknown-builtin": (
        "p(x) :- q(x), builtin:lowre(x, x). q(1).",
        "15-28: there is no builtin builtin:lowre",
        "did you mean builtin:lower?",
        'p(y) :- q(x), builtin:lower(x, y). q("A").'),
    "redefined": (
        'relation q(a: string). relation q(a: string). q("1").',
        "24-45: q is declared twice",
        "keep one of the two",
        'relation q(a: string). q("1").'),
    "unknown-annotation": (
        "@dney p(1).",
        "1-6: there is no annotation @dney",
        "did you mean @deny?",
        "@deny p(1)."),
    "annotation-attribute": (
        '@deny("a", hnt="b") p(1).',
        "12-19: @deny has no attribute hnt",
        "did you mean hint?",
        '@deny("a", hint="b") p(1).'),
    "message-column": (
        '@deny("a", "no {y}") p(x) :- heat:stack(id=x).',
        "1-21: the message names y, which is no column of the head",
        "the head has x",
        '@deny("a", "no {x}") p(x) :- heat:stack(id=x).'),
    "unknown-service": (
        '@unlock("edge") g(x) :- gate:grant(id=x). p(r) :- gate:unlocked("egde", r).',
        "51-75: no rule unlocks the service egde",
        "did you mean edge?",
        '@unlock("edge") g(x) :- gate:grant(id=x). p(r) :- gate:unlocked("edge", r).'),
    "aggregate-scope": (
        "p(x, n) :- q(x), n = count{ x : q(x) }. q(1).",
        "29-30: x is aggregated and occurs outside",
        "use another name in one of the two places",
        "p(x, n) :- q(x), n = count{ y : q(y) }. q(1)."),
    "unsafe-variable": (
        "p(y) :- q(x), not r(y). q(1). r(1).",
        "3-4: nothing binds y; rules:q (rules.dl:1:9) binds x",
        'use y in a relation that is not negated, or write "y" if it is a text',
        "p(y) :- q(y), not r(y). q(1). r(2)."),
    "negated-once": (
        "p(x) :- q(x), not r(x, y). q(1). r(1, 2).",
        "24-25: y occurs only here, under not",
        "write `_` if any value will do",
        "p(x) :- q(x), not r(x, _). q(1). r(1, 2)."),
    "kind-mismatch": (
        "p(x) :- os:nova:server(_id=x, flavor=5).",
        "9-40: the column flavor of os:nova:server is string or resource, not number",
        "write it in quotes",
        'p(x) :- os:nova:server(_id=x, flavor="5").'),
    "nullable": (
        "p(x) :- os:cinder:volume(_id=x, size=n), n > 10.",
        "42-48: n may be null here",
        "say `n != null`, or give a default: `n ?? ...`",
        "p(x) :- os:cinder:volume(_id=x, size=n), n ?? 0 > 10."),
    "unstratified": (
        "p(x) :- q(x), not r(x). r(x) :- q(x), not p(x). q(1).",
        "19-23: rules:p depends on not rules:r (rules.dl:1:19), rules:r on not rules:p (rules.dl:1:43)",
        "break the cycle: move what rules:p needs of rules:r into a relation that does not read rules:p",
        "p(x) :- q(x), not r(x). r(x) :- q(x). q(1)."),
    "value-growth": (
        "p(0). p(y) :- p(x), y = x + 1.",
        "25-30: the result of + goes round in a recursion, which may never end: "
        "rules:p depends on rules:p (rules.dl:1:15)",
        "compute it after the recursion, or match it in a relation that holds all values it can take",
        "p(0). p(y) :- q(x), y = x + 1. q(1)."),
    "too-complex": (
        "p(1) :- " + ", ".join(["(q(1) or q(2))"] * 11) + ". q(1).",
        "1-183: the alternatives of this rule multiply to more than 1000",
        "write some of them as rules of a relation of their own",
        "p(1) :- " + ", ".join(["(q(1) or q(2))"] * 3) + ". q(1)."),
    "forgotten-quotes": (
        "p(x) :- heat:resource(id=x, name=WEB).",
        "34-37: WEB is a variable that occurs once",
        'write name="WEB" for the text, or leave the column out',
        'p(x) :- heat:resource(id=x, name="WEB").'),
    "used-once": (
        "p(x) :- os:nova:server(_id=x, name=nul).",
        "36-39: nul is a variable that occurs once",
        "did you mean null?",
        "p(x) :- os:nova:server(_id=x, name=null)."),
    "never-read": (
        "big(1). bgi(2). p(x) :- big(x).",
        "9-12: nothing reads bgi",
        "did you mean big? Else declare it: `relation bgi(...).`",
        "big(1). big(2). p(x) :- big(x)."),
    "unknown-value": (
        'p(x) :- heat:resource(id=x, type="OS::Nova::Sever").',
        "9-52: type of heat:resource is never 'OS::Nova::Sever'",
        "did you mean OS::Nova::Server?",
        'p(x) :- heat:resource(id=x, type="OS::Nova::Server").'),
    "bad-pattern": (
        'p(x) :- heat:stack(name=x), matches(x, "a(b").',
        "40-45: the pattern is not RE2's: missing ): a(b",
        "https://github.com/google/re2/wiki/Syntax has the syntax",
        'p(x) :- heat:stack(name=x), matches(x, "a(b)").'),
    "unsupported": (
        "p(x) :- q+(x). q(1).",
        "9-11: `q+` before a parenthesis is an update relation of Congress",
        "for arithmetic write `q + (`",
        "p(x) :- q(x). q(1)."),
    "too-large": (
        "p(" + "(" * 26 + "1" + ")" * 26 + ").",
        "28-29: nested deeper than 25",
        None,
        "p(((1)))."),
}  # fmt: skip
"""Code: what fails, from and to which column and what is said of it, what to write, what passes. All in one line."""

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


HEAD = "heat_template_version: 2018-08-31\n"
GOOD = HEAD + "resources:\n  net:\n    type: OS::Neutron::Net\n"
NAMED = GOOD + "    properties:\n      name: "
TYPED = HEAD + "parameters:\n  n:\n    type: number\n    default: "
POLICY = '@deny("a", "{x}")\np(x) :- '
TEST = "cases:\n  - {name: one, stack: s, expect: {violations: [{policy: a}]}}\n"
OK = POLICY + "heat:stack(id=x).\n"
FACTS, LINT = "facts template.yaml", "lint ."
Files = dict[str, str | bytes]

FILES: dict[str, tuple[str, Files, Files]] = {
    "unreadable": (FACTS, {}, {"template.yaml": GOOD}),
    "encoding": (FACTS, {"template.yaml": NAMED.encode() + b"caf\xe9"}, {"template.yaml": NAMED + "caf\u00e9"}),
    "outside-root": (
        FACTS,
        {"template.yaml": NAMED + "{get_file: ../name}"},
        {"template.yaml": NAMED + "{get_file: name}", "name": "a"}),
    "yaml": (FACTS, {"template.yaml": NAMED + "[a"}, {"template.yaml": NAMED + "a"}),
    "duplicate-key": (FACTS, {"template.yaml": NAMED + "a\n      name: b"}, {"template.yaml": NAMED + "a"}),
    "not-a-template": (FACTS, {"template.yaml": "resources: {}"}, {"template.yaml": GOOD}),
    "bad-template": (FACTS, {"template.yaml": HEAD + "resources:\n  net: 1"}, {"template.yaml": GOOD}),
    "bad-function": (
        FACTS,
        {"template.yaml": NAMED + "{list_join: a}"},
        {"template.yaml": NAMED + '{list_join: ["-", [a, b]]}'}),
    "bad-reference": (
        FACTS,
        {"template.yaml": NAMED + "{get_param: nobody}"},
        {"template.yaml": NAMED + "{get_param: OS::stack_name}"}),
    "bad-parameter": (
        FACTS,
        {"template.yaml": TYPED + "many\n" + GOOD.removeprefix(HEAD)},
        {"template.yaml": TYPED + "3\n" + GOOD.removeprefix(HEAD)}),
    "bad-environment": (
        FACTS + " -e env.yaml",
        {"template.yaml": GOOD, "env.yaml": "parameters: 1"},
        {"template.yaml": GOOD, "env.yaml": "parameters: {}"}),
    "missing-file": (
        FACTS,
        {"template.yaml": GOOD.replace("OS::Neutron::Net", "inner.yaml")},
        {"template.yaml": GOOD.replace("OS::Neutron::Net", "inner.yaml"), "inner.yaml": GOOD}),
    "nesting": (
        FACTS,
        {"template.yaml": GOOD.replace("OS::Neutron::Net", "template.yaml")},
        {"template.yaml": GOOD.replace("OS::Neutron::Net", "inner.yaml"), "inner.yaml": GOOD}),
    "no-resources": (FACTS, {"template.yaml": HEAD}, {"template.yaml": GOOD}),
    "no-inventory": (
        "check template.yaml --rules m.dl --format compact",
        {"template.yaml": GOOD, "m.dl": POLICY + "heat:stack(id=x), not nova:servers(_).\n"},
        {"template.yaml": GOOD, "m.dl": POLICY + "heat:stack(id=x), not os:neutron:net().\n"}),
    "congress": (
        "check template.yaml --rules m.dl --congress --format compact",
        {"template.yaml": GOOD, "m.dl": "error(x) :- heat:stack(id=x), not heat:parameter(hidden='True')\n"},
        {"template.yaml": GOOD, "m.dl": "error(x) :- heat:stack(id=x), heat:parameter(hidden=true)\n"}),
    "bad-library": (
        "check-rules --rules m.yaml",
        {"m.yaml": "name: m\nrules:\n- rule: 5\n"},
        {"m.yaml": "name: m\nrules:\n- rule: error(x) :- heat:stack(id=x)\n"}),
    "bad-facts": (
        "query q(_) --rules m.dl --facts q.jsonl",
        {"m.dl": "relation q(a: number).", "q.jsonl": '{"relation": "q", "row": [1, 2]}\n'},
        {"m.dl": "relation q(a: number).", "q.jsonl": '{"relation": "q", "row": [1]}\n'}),
    "bad-test": (
        "suite", {"m.dl": OK, "test.yaml": TEST.replace("expect", "expct")}, {"m.dl": OK, "test.yaml": TEST}),
    "bad-catalogue": (
        FACTS + " --catalogue acme.json",
        {"template.yaml": GOOD, "acme.json": "[]"},
        {"template.yaml": GOOD, "acme.json": '{"A::B": {"relation": "acme:b", "properties": {}, "attributes": {}}}'}),
    "never-fires": (
        LINT,
        {"m.dl": POLICY + "heat:stack(id=x, depth=d), d = 0, d = 1.\n", "test.yaml": TEST},
        {"m.dl": POLICY + "heat:stack(id=x, depth=d), d = 0.\n", "test.yaml": TEST}),
    "never-used": (
        LINT,
        {"m.dl": OK + "seen(1).\n", "test.yaml": TEST},
        {"m.dl": OK + "seen(1).\nexport seen.\n", "test.yaml": TEST}),
    "cartesian": (
        LINT,
        {"m.dl": POLICY + "os:neutron:port(_id=x), os:nova:server(name=n), n != null.\n", "test.yaml": TEST},
        {"m.dl": POLICY + "os:neutron:port(_id=x), os:nova:server.networks(port=x).\n", "test.yaml": TEST}),
    "constant-aggregate": (
        LINT,
        {"m.dl": POLICY + "heat:stack(id=x), sum{ 1 : os:nova:server(_stack=x) } > 3.\n", "test.yaml": TEST},
        {"m.dl": POLICY + "heat:stack(id=x), count{ s : os:nova:server(_stack=x, _id=s) } > 3.\n", "test.yaml": TEST}),
    "no-message": (LINT, {"m.dl": OK.replace(', "{x}"', ""), "test.yaml": TEST}, {"m.dl": OK, "test.yaml": TEST}),
    "no-test": (LINT, {"m.dl": OK}, {"m.dl": OK, "test.yaml": TEST}),
}  # fmt: skip
"""The same for what a command finds in files: the command, what fails, what passes."""


ROOT = Path(__file__).parents[1]
GOLDEN, PAGE = ROOT / "tests/golden/diagnostics.txt", ROOT / "docs/diagnostics.md"


@pytest.mark.parametrize("code", FILES)
def test_a_command_says_what_is_wrong_and_nothing_of_the_nearest_right_files(code: str) -> None:
    command, bad, good = FILES[code]
    assert f"[{code}]" in _said(command, bad)
    assert _said(command, good) == ""


def test_what_each_code_says_is_the_golden_file() -> None:
    assert golden() == GOLDEN.read_text("utf-8")


def test_the_page_of_diagnostics_is_made_of_the_cases() -> None:
    assert page() == PAGE.read_text("utf-8")


@pytest.mark.parametrize("code", CASES)
def test_a_mistake_is_said_with_its_place_and_what_to_write(code: str) -> None:
    bad, said, suggestion, _ = CASES[code]
    column, _, rest = said.partition("-")
    end, _, message = rest.partition(": ")
    with pytest.raises(RulesError) as raised:
        _checked(bad)
    span = Span("rules.dl", 1, int(column), 1, int(end))
    assert raised.value.diagnostics == (Diagnostic(code, message, span, suggestion),)


@pytest.mark.parametrize("code", CASES)
def test_the_nearest_right_text_passes(code: str) -> None:
    assert _checked(CASES[code][3]) == ()


@pytest.mark.parametrize("code", SEVERAL)
def test_a_mistake_between_modules_is_said_with_its_place_and_what_to_write(code: str) -> None:
    bad, said, good = SEVERAL[code]
    with pytest.raises(RulesError) as raised:
        load(_files(bad))
    assert str(raised.value) == said.removeprefix("\n")
    assert load(_files(good)).warnings == ()


def test_every_code_has_a_case() -> None:
    assert {*CASES, *SEVERAL, *FILES} == set(CODES)


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


def test_what_could_not_be_read_is_not_said_to_be_undefined_as_well() -> None:
    with pytest.raises(RulesError) as raised:
        load(
            _files(
                {
                    "a": "export p.\np(x) :- q(x) r(x).\nq(1).\ns(x) :- p(x), t(x).\n",
                    "b": "import a.\nu(x) :- a:p(x), p(x).",
                }
            )
        )
    found = [(one.code, str(one.span)) for one in raised.value.diagnostics]
    assert found == [("syntax", "a.dl:2:14"), ("undefined-relation", "a.dl:4:15")]


def golden() -> str:
    """All that the failing cases print, by code."""
    return "\n".join(f"== {code}\n{_shown(code)[2]}\n" for code in CODES)


def page() -> str:
    """The page: of each code what it means, a text that fails, what is printed, a text that passes."""
    parts = [
        "# Diagnostics\n\nMade from `CODES` and the cases of tests/test_diagnostic_codes.py, which run as tests: "
        "`python -m tests.test_diagnostic_codes` writes it anew.\n"
    ]
    for code, meaning in CODES.items():
        bad, good, said = _shown(code)
        shown = "".join(f"```\n{_cut(one)}\n```\n\n" for one in (bad, said))
        parts.append(f"\n## {code}\n\n{meaning}\n\n{shown}Passes:\n\n```\n{_cut(good)}\n```\n")
    return "".join(parts)


def _shown(code: str) -> tuple[str, str, str]:
    """What fails, what passes, and what is said of the first."""
    if code in FILES:
        command, *both = FILES[code]
        bad, good = (_listing(files) for files in both)
        return bad, good, _said(command, both[0])
    if code in SEVERAL:
        one, said, other = SEVERAL[code]
        bad, good = (_listing({f"{name}.dl": text for name, text in texts.items()}) for texts in (one, other))
        return bad, good, said.removeprefix("\n")
    with pytest.raises(RulesError) as raised:
        _checked(CASES[code][0])
    return CASES[code][0], CASES[code][3], str(raised.value)


def _listing(files: Mapping[str, str | bytes]) -> str:
    texts = {name: text.decode("latin-1") if isinstance(text, bytes) else text for name, text in files.items()}
    return "\n".join(f"# {name}\n{text.rstrip()}" for name, text in texts.items()) or "# no file"


def _cut(text: str) -> str:
    return "\n".join(line if len(line) <= 160 else line[:157] + "..." for line in text.splitlines())


def _said(command: str, files: Mapping[str, str | bytes]) -> str:
    """What a command says that runs beside the files and finds something wrong."""
    with TemporaryDirectory() as folder, chdir(folder), redirect_stderr(StringIO()) as said, redirect_stdout(said):
        for name, text in files.items():
            Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
        if command != "suite":
            code = main(command.split())
            return said.getvalue().rstrip().replace(str(Path(folder).resolve()), "here") if code else ""
        try:
            read_suite(Path("test.yaml"))
        except InputError as error:
            return str(error).replace(f"{Path(folder).resolve()}/", "")
        return ""


def _checked(text: str) -> tuple[Diagnostic, ...]:
    module, found = parse(text, "rules.dl", "rules")
    return check([module], found=found, sources={"rules.dl": text}).warnings


def _files(texts: dict[str, str]) -> list[RuleFile]:
    return [RuleFile(module, f"{module}.dl", text) for module, text in texts.items()]


if __name__ == "__main__":
    GOLDEN.write_text(golden(), "utf-8")
    PAGE.write_text(page(), "utf-8")
