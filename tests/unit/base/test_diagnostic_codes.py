"""Every diagnostic code with a snippet that fails and one that passes.

They are the test of the code and its part of the page.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from datalog_gate.analysis import lints
from datalog_gate.analysis.check import check
from datalog_gate.analysis.linting import Lint, list_lints, review_checked
from datalog_gate.base.diagnostics import CODES, Diagnostic, render
from datalog_gate.base.errors import InputError, RulesError
from datalog_gate.decision.policy_set import RuleFile, load, parse_all
from datalog_gate.doors.cli.main import main
from datalog_gate.policytest.suite import read_suite
from tests.pages import DOCS, assert_written

HEAD = "heat_template_version: 2018-08-31\n"
GOOD = HEAD + "resources:\n  net:\n    type: OS::Neutron::Net\n"
NAMED = GOOD + "    properties:\n      name: "
SUBNET = GOOD.replace("Net\n", "Subnet\n") + "    properties: {network: n, "
SCALING = (
    GOOD
    + """\
  group:
    type: OS::Heat::AutoScalingGroup
    properties: {resource: {type: OS::Neutron::Net}, min_size: 1, max_size: 3, """
)
TYPED = HEAD + "parameters:\n  n:\n    type: number\n    default: "
POLICY = '@deny("a", "{x}")\np(x) :- '
TEST = "cases:\n  - {name: one, stack: s, expect: {violations: [{policy: a}]}}\n"
WAIVER = "waivers:\n  - {id: W-1, policy: a, key: {x: web}, owner: net, reason: known, expires: 2028-01-01}\n"
OK = POLICY + "heat:stack(id=x).\n"
SERVERS = POLICY + "os:nova:server(_id=x).\n"
NETS = POLICY + "os:neutron:net(_id=x).\n"

RULES, SUITE, FACTS = "load", "suite", "facts template.yaml --relation heat:hook"
REFUSED = "check template.yaml --rules m.dl --quiet --deprecated"
Files = Mapping[str, str | bytes]
LINTS = list_lints()

REFUSALS = {
    "unknown-type": (GOOD.replace("Net\n", "Nett\n"), GOOD),
    "unknown-property": (NAMED.replace("name", "nmae") + "a\n", NAMED + "a\n"),
    "missing-property": (GOOD.replace("Net\n", "Port\n"), GOOD),
    "wrong-kind": (NAMED + "[a]\n", NAMED + "a\n"),
    "not-allowed": (SUBNET + "ip_version: 5}\n", SUBNET + "ip_version: 6}\n"),
    "out-of-range": (SUBNET + "prefixlen: -1}\n", SUBNET + "prefixlen: 24}\n"),
    "bad-length": (SUBNET.replace("Subnet", "NetworkGateway") + "devices: []}\n", GOOD),
    "bad-text": (SUBNET + "cidr: 10.0.0.0/33}\n", SUBNET + "cidr: 10.0.0.0/24}\n"),
    "unknown-attribute": tuple(
        GOOD + f"outputs:\n  status:\n    value: {{get_attr: [net, {name}]}}\n" for name in ("statu", "status")
    ),
    "duplicate-name": tuple(
        GOOD + f"parameters:\n  {name}:\n    type: string\n    default: a\n" for name in ("net", "name")
    ),
    "deprecated": (SUBNET.replace("network:", "network_id:") + "cidr: 10.0.0.0/24}\n", SUBNET + "cidr: 10.0.0.0/24}\n"),
}
"""A template that Heat refuses, and one that it accepts."""
SHORT = 4
"""The number of lines up to which the page shows a text that passes in full."""
CASES: dict[str, tuple[str, str | Files, str | Files]] = {
    "syntax": (RULES, "p(1) q(2).", "p(1). q(2)."),
    "bad-number": (RULES, "p(" + "1" * 5000 + ").", "p(1)."),
    "bad-string": (RULES, 'p("a\\qb").', 'p("a\\\\qb").'),
    "undefined-relation": (RULES, "p(x) :- heat:resuorce(id=x).", "p(x) :- heat:resource(id=x)."),
    "unknown-column": (
        RULES,
        "p(x) :- os:nova:server(_id=x, flavour=null).",
        'p(x) :- os:nova:server(_id=x, flavor="m1").'),
    "duplicate-column": (RULES, "p(x) :- heat:stack(id=x, id=x).", "p(x) :- heat:stack(id=x, name=x)."),
    "arity": (RULES, "q(1, 2). p(x) :- q(x).", "q(1, 2). p(x) :- q(x, _)."),
    "reserved-name": (RULES, "heat:p(1).", "p(1)."),
    "unknown-module": (RULES, "import net:shh. p(1).", "p(1). export p."),
    "unknown-builtin": (
        RULES,
        "p(x) :- q(x), builtin:lowre(x, x). q(1).",
        'p(y) :- q(x), builtin:lower(x, y). q("A").'),
    "redefined": (RULES, 'relation q(a: string). relation q(a: string). q("1").', 'relation q(a: string). q("1").'),
    "unknown-annotation": (RULES, "@dney p(1).", "@deny p(1)."),
    "annotation-attribute": (RULES, '@deny("a", hnt="b") p(1).', '@deny("a", hint="b") p(1).'),
    "message-column": (
        RULES,
        '@deny("a", "no {y}") p(x) :- heat:stack(id=x).',
        '@deny("a", "no {x}") p(x) :- heat:stack(id=x).'),
    "unknown-service": (
        RULES,
        '@unlock("edge") g(x) :- gate:grant(id=x). p(r) :- gate:unlocked("egde", r).',
        '@unlock("edge") g(x) :- gate:grant(id=x). p(r) :- gate:unlocked("edge", r).'),
    "aggregate-scope": (
        RULES,
        "p(x, n) :- q(x), n = count{ x : q(x) }. q(1).",
        "p(x, n) :- q(x), n = count{ y : q(y) }. q(1)."),
    "set-aggregate": (
        RULES,
        "p(n) :- n = sum{ size : os:cinder:volume(size=size) }.",
        "p(n) :- n = sum{ size, v : os:cinder:volume(_id=v, size=size) }."),
    "unsafe-variable": (RULES, "p(y) :- q(x), not r(y). q(1). r(1).", "p(y) :- q(y), not r(y). q(1). r(2)."),
    "negated-once": (RULES, "p(x) :- q(x), not r(x, y). q(1). r(1, 2).", "p(x) :- q(x), not r(x, _). q(1). r(1, 2)."),
    "kind-mismatch": (RULES, "p(x) :- os:nova:server(_id=x, flavor=5).", 'p(x) :- os:nova:server(_id=x, flavor="5").'),
    "nullable": (
        RULES,
        "p(x) :- os:cinder:volume(_id=x, size=n), n > 10.",
        "p(x) :- os:cinder:volume(_id=x, size=n), n ?? 0 > 10."),
    "unguarded": (
        RULES,
        'p(x) :- os:nova:server(_id=x, flavor=f), starts_with(f, "m1.").',
        'p(x) :- os:nova:server(_id=x, flavor=f), is_string(f), starts_with(f, "m1.").'),
    "unstratified": (
        RULES,
        "p(x) :- q(x), not r(x). r(x) :- q(x), not p(x). q(1).",
        "p(x) :- q(x), not r(x). r(x) :- q(y), x = y + 1. q(1)."),
    "value-growth": (RULES, "p(0). p(y) :- p(x), y = x + 1.", "p(0). p(y) :- q(x), y = x + 1. q(1)."),
    "too-complex": (
        RULES,
        "p(1) :- " + ", ".join(["(q(1) or q(2))"] * 11) + ". q(1).",
        "p(1) :- " + ", ".join(["(q(1) or q(2))"] * 3) + ". q(1)."),
    "forgotten-quotes": (RULES, "p(x) :- heat:resource(id=x, name=WEB).", 'p(x) :- heat:resource(id=x, name="WEB").'),
    "used-once": (RULES, "p(x) :- os:nova:server(_id=x, name=nul).", "p(x) :- os:nova:server(_id=x, name=null)."),
    "never-read": (RULES, "big(1). bgi(2). p(x) :- big(x).", "big(1). big(2). p(x) :- big(x)."),
    "unknown-value": (
        RULES,
        'p(x) :- heat:resource(id=x, type="OS::Nova::Sever").',
        'p(x) :- heat:resource(id=x, type="OS::Nova::Server").'),
    "bad-pattern": (
        RULES,
        'p(x) :- heat:stack(name=x), matches(x, "a(b").',
        'p(x) :- heat:stack(name=x), matches(x, "a(b)").'),
    "cloud-wide": (
        RULES,
        "@deny p(x) :- all:heat:stack(id=x), old:heat:stack(id=x).",
        "@deny p(x) :- all:heat:stack(id=x), heat:stack(id=x)."),
    "near-miss": (
        "check template.yaml --rules m.dl",
        {
            "template.yaml": NAMED + "web\n",
            "m.dl": POLICY + 'os:neutron:net(_id=x, name="Web").\n@deny("b", "{x}")\nq(x) :- heat:stack(id=x).\n',
        },
        {"template.yaml": NAMED + "web\n", "m.dl": POLICY + 'os:neutron:net(_id=x, name="db").\n'}),
    "unfilled": (
        "check template.yaml --rules m.dl",
        {"template.yaml": GOOD, "m.dl": POLICY + 'heat:stack(id=x), not gate:role("admin").\n'},
        {"template.yaml": GOOD, "m.dl": POLICY + "heat:stack(id=x), not os:neutron:net().\n"}),
    "unsupported": (RULES, "p(x) :- q+(x). q(1).", "p(x) :- q(x). q(1)."),
    "too-large": (RULES, "p(" + "(" * 26 + "1" + ")" * 26 + ").", "p(((1)))."),
    "private-relation": (
        RULES,
        {"a.dl": "@deny p(x) :- b:q(x).", "b.dl": "q(1)."},
        {"a.dl": "@deny p(x) :- b:q(x).", "b.dl": "q(1). export q."}),
    "ambiguous-name": (
        RULES,
        {"a.dl": "import b. import c. @deny p(x) :- q(x).", "b.dl": "q(1). export q.", "c.dl": "q(1). export q."},
        {"a.dl": "import b. @deny p(x) :- q(x).", "b.dl": "q(1). export q.", "c.dl": "q(1). export q."}),
    "no-policy": ("docs --rules a.dl", {"a.dl": "p(1)."}, {"a.dl": "@deny p(1)."}),
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
    "group-size": (
        FACTS,
        {"template.yaml": SCALING + "desired_capacity: 5}\n"},
        {"template.yaml": SCALING + "desired_capacity: 3}\n"}),
    "newer-version": (
        FACTS,
        {"template.yaml": GOOD.replace("2018-08-31", "2016-04-08") + "    condition: true\n"},
        {"template.yaml": GOOD + "    condition: true\n"}),
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
    "bad-assumption": (
        FACTS + " --assume '{get_param: n} in template=a'",
        {"template.yaml": HEAD + "parameters: {m: {type: string}}\n" + GOOD.removeprefix(HEAD)},
        {"template.yaml": HEAD + "parameters: {n: {type: string}}\n" + GOOD.removeprefix(HEAD)}),
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
        "docs --rules m.yaml",
        {"m.yaml": "name: m\nrules:\n- rule: 5\n"},
        {"m.yaml": "name: m\nrules:\n- rule: error(x) :- heat:stack(id=x)\n"}),
    "bad-limits": (
        "docs --rules .",
        {"m.dl": OK, "limits.dl": "relation most(n: number).\n", "limits.yaml": "mst: 100\nmost: 100\n"},
        {"m.dl": OK, "limits.dl": "relation most(n: number).\n", "limits.yaml": "most: 100\n"}),
    "bad-pack": (
        "rules",
        {"rules/a/m.dl": OK, "rules/a/pack.yaml": "version: 1.0\nsummary: one\n"},
        {"rules/a/m.dl": OK, "rules/a/pack.yaml": "version: '1.0'\nsummary: one\n"}),
    "bad-facts": (
        "query q(_) --rules m.dl --facts q.jsonl",
        {"m.dl": "relation q(a: number).", "q.jsonl": '{"relation": "q", "row": [1, 2]}\n'},
        {"m.dl": "relation q(a: number).", "q.jsonl": '{"relation": "q", "row": [1]}\n'}),
    "bad-test": (
        SUITE, {"m.dl": OK, "test.yaml": TEST.replace("expect", "expct")}, {"m.dl": OK, "test.yaml": TEST}),
    "bad-waiver": (
        "waivers check w.yaml --rules m.dl --now 2027-01-01",
        {"m.dl": OK, "w.yaml": WAIVER.replace("policy: a", "policy: b")},
        {"m.dl": OK, "w.yaml": WAIVER}),
    "bad-ignore": (
        "check template.yaml --rules m.dl --format compact",
        {"template.yaml": GOOD.replace("net:", "net:  # datalog-gate: ignore[a]"), "m.dl": NETS},
        {"template.yaml": GOOD.replace("net:", "net:  # datalog-gate: ignore[a] until 2207-01-31: known"),
         "m.dl": NETS}),
    "bad-configuration": (
        "check --show-config",
        {"datalog-gate.toml": 'fail_on = "warn"\n'},
        {"datalog-gate.toml": 'fail-on = "warn"\n'}),
    "bad-catalogue": (
        FACTS + " --catalogue acme.json",
        {"template.yaml": GOOD, "acme.json": "[]"},
        {"template.yaml": GOOD, "acme.json": '{"A::B": {"relation": "acme:b", "properties": {}, "attributes": {}}}'}),
    **{
        code: (REFUSED, {"template.yaml": bad, "m.dl": SERVERS}, {"template.yaml": good, "m.dl": SERVERS})
        for code, (bad, good) in REFUSALS.items()
    },
}  # fmt: skip
"""What is done with files, `RULES`, `SUITE` or a command; the files that fail; those that pass. A text is rules.dl."""


@pytest.mark.parametrize("code", CASES)
def test_the_failing_text_has_the_code_and_its_neighbour_passes(code: str) -> None:
    action, bad, good = CASES[code]
    assert f"[{code}]" in _run_action(action, _files(bad))
    assert _run_action(action, _files(good)) == ""


def test_the_page_says_what_each_code_means_and_prints() -> None:
    assert_written(DOCS / "diagnostics.md", page())


def test_every_code_has_a_case() -> None:
    assert CASES.keys() | {lint.code for lint in LINTS.values()} == CODES.keys()


def find_by(lint: Lint, text: str) -> list[Diagnostic]:
    """What one lint says of rules, of which a test expects the policy `a`; or the error that it is."""
    modules, notes = parse_all(_modules({"rules.dl": text}))
    try:
        return list(lint.find(review_checked(check(modules, problems=notes), ("a",))))
    except RulesError as error:
        return list(error.diagnostics)


@pytest.mark.parametrize("name", LINTS)
def test_a_lint_reports_its_wrong_example_but_not_the_right_one(name: str) -> None:
    lint = LINTS[name]
    assert {diagnostic.code for diagnostic in find_by(lint, lint.wrong)} == {lint.code}
    assert find_by(lint, lint.right) == []


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            {"b.dl": "@deny p(x) :- q(x).\nr(x) :- not s(x).\ns(1).\nt(1) u(2).\n", "a.dl": "@dney p(1)."},
            "a.dl:1:1 unknown-annotation, b.dl:1:15 undefined-relation, b.dl:2:3 unsafe-variable, b.dl:4:6 syntax",
        ),
        (  # what could not be read is not said to be undefined as well
            {"a.dl": "export p.\np(x) :- q(x) r(x).\nq(1).\ns(x) :- p(x), t(x).\n",
             "b.dl": "import a.\nu(x) :- a:p(x), p(x)."},
            "a.dl:2:14 syntax, a.dl:4:15 undefined-relation",
        ),
    ],
)  # fmt: skip
def test_all_mistakes_of_a_run_are_reported_together_in_order_of_place(texts: dict[str, str], expected: str) -> None:
    with pytest.raises(RulesError) as raised:
        load(_modules(texts))
    assert ", ".join(f"{diagnostic.span} {diagnostic.code}" for diagnostic in raised.value.diagnostics) == expected


def page() -> str:
    """The page: of each code what it means, and of each case and lint a text that fails, what is printed, one that
    passes."""
    parts = [
        "# Diagnostics\n\nFor authors of rules: every error and warning, by tests/unit/base/test_diagnostic_codes.py.\n"
        "Of a longer text that passes the lines that differ are shown.\n"
    ]
    for code, meaning in CODES.items():
        parts.append(f"\n## {code}\n\n{meaning}\n")
        if code in CASES:
            action, bad, good = CASES[code]
            parts.append(_examples(_listing(bad), _run_action(action, _files(bad)), _listing(good)))
        for name, lint in LINTS.items():
            if lint.code == code:
                explanation = (import_module(f"{lints.__name__}.{name}").__doc__ or "").strip().replace("``", "`")
                printed = "\n".join(render(found, {"rules.dl": lint.wrong}) for found in find_by(lint, lint.wrong))
                parts.append(f"\n{explanation}\n{_examples(lint.wrong, printed, lint.right)}")
    return "".join(parts)


def _examples(bad: str, printed: str, good: str) -> str:
    texts = "".join(f"```\n{_cut(text)}\n```\n\n" for text in (bad, printed))
    return f"\n{texts}Passes:\n\n```\n{_cut(_changed(bad, good))}\n```\n"


def _changed(bad: str, good: str) -> str:
    """The lines of a text that another does not have, if it is long."""
    before = bad.splitlines()
    lines = [line for line in good.splitlines() if line not in before]
    return "\n".join(lines) if lines and len(good.splitlines()) > SHORT else good


def _files(case: str | Files) -> Files:
    return {"rules.dl": case} if isinstance(case, str) else case


def _listing(case: str | Files) -> str:
    if isinstance(case, str):
        return case
    texts = {name: text.decode("latin-1") if isinstance(text, bytes) else text for name, text in case.items()}
    return "\n".join(f"# {name}\n{text.rstrip()}" for name, text in texts.items()) or "# no file"


def _cut(text: str) -> str:
    return "\n".join(line if len(line) <= 160 else line[:157] + "..." for line in text.splitlines())


def _run_action(action: str, files: Files) -> str:
    """The diagnostics that the action prints; empty without errors."""
    if action == RULES:
        sources = {name: str(text) for name, text in files.items()}
        modules, diagnostics = parse_all(_modules(sources))
        try:
            warnings = check(modules, problems=diagnostics, sources=sources).warnings
        except RulesError as error:
            return str(error)
        return "\n".join(render(warning, sources) for warning in warnings)
    with (
        TemporaryDirectory() as top,  # the folder above holds no rules, whatever others keep beside it
        TemporaryDirectory(dir=top) as folder,
        chdir(folder),
        redirect_stderr(StringIO()) as output,
        redirect_stdout(output),
    ):
        for name, text in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
        if action != SUITE:
            code = main(shlex.split(action))
            printed = output.getvalue().rstrip().replace(str(Path(folder).resolve()), "here")
            return printed if code or "warning[" in printed else ""
        try:
            read_suite(Path("test.yaml"))
        except InputError as error:
            return str(error).replace(f"{Path(folder).resolve()}/", "")
        return ""


def _modules(texts: Mapping[str, str]) -> list[RuleFile]:
    return [RuleFile(name.removesuffix(".dl"), name, text) for name, text in texts.items()]
