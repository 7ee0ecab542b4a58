"""Misspellings in rules are reported with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalog_gate.base.diagnostics import Diagnostic, render
from datalog_gate.base.errors import InputError
from datalog_gate.policytest.suite import read_suite
from tests.refusals import rule_problems

POLICY = '@deny("a.b", "{x}", hint="h")\np(x) :- '

TYPOS: dict[str, tuple[str, ...]] = {
    "head": (POLICY + "big(x).\n"
        "big(x) :- os:nova:server(_id=x).\n"
        "bgi(x) :- os:cinder:volume(_id=x).",
        "4:1-4 never-read: nothing reads bgi; did you mean big? Else declare it: `relation bgi(...).`"),
    "plain policy": (POLICY + "os:nova:server(_id=x).\n"
        "warnin(x) :- os:cinder:volume(_id=x).",
        "3:1-7 never-read: nothing reads warnin; did you mean warning? Else declare it: `relation warnin(...).`"),
    "forgotten at": (POLICY + "os:nova:server(_id=x).\n"
        'deny("a.c", "{x}")\n'
        "q(x) :- os:nova:server(_id=x).",
        "3:1-5 never-read: nothing reads deny; did you mean @deny? Else declare it: `relation deny(...).`"),
    "list": (POLICY + "os:nova:server.network(_id=x, port=null).",
        "2:9-31 undefined-relation: there is no relation os:nova:server.network; "
        "did you mean os:nova:server.networks?"),
    "nothing alike": (POLICY + "os:zebra:stripe(_id=x).",
        "2:9-24 undefined-relation: there is no relation os:zebra:stripe; "
        "`datalog-gate relations` lists all relations"),
    "attribute path": (POLICY + 'heat:property(id=x, path="flavr", value="m1").',
        "2:9-54 unknown-value: path of heat:property is never 'flavr'; did you mean flavor?"),
    "type by equation": (POLICY + 'heat:resource(id=x, type=t), t = "OS::Nova::Servr".',
        "2:38-59 unknown-value: t is never 'OS::Nova::Servr'; did you mean OS::Nova::Server?"),
    "enum": (POLICY + 'os:neutron:security_group.rules(_id=x, direction="ingres").',
        "2:9-67 unknown-value: direction of os:neutron:security_group.rules is never 'ingres'; did you mean ingress?"),
    "enum with many": (POLICY + 'os:neutron:security_group.rules(_id=x, protocol="everything").',
        "2:9-70 unknown-value: protocol of os:neutron:security_group.rules is never 'everything'; "
        "one of ah, dccp, egp, esp, gre, icmp, icmpv6, igmp, ipv6-encap, ipv6-frag, ipv6-icmp, ipv6-nonxt "
        "and 266 more"),
    "enum default": (POLICY + 'os:neutron:security_group.rules(_id=x, protocol=d), d ?? "tpc" = "tcp".',
        "2:61-71 unknown-value: d is never 'tpc'; did you mean tcp?"),
    "enum in table": (POLICY + "os:neutron:security_group.rules(_id=x, ethertype=d), all(d).\n"
        'all("IPv4").\n'
        'all("IPv").',
        "4:1-11 unknown-value: d is never 'IPv'; did you mean IPv6?"),
    "enum via relation": (POLICY + 'dir(x, "ingres").\n'
        "dir(x, d) :- os:neutron:security_group.rules(_id=x, direction=d).",
        "2:9-25 unknown-value: d of m:dir is never 'ingres'; did you mean ingress?"),
    "own enum": (POLICY + 'dir(x, "inn").\n'
        'dir(x, "in") :- os:nova:server(_id=x).',
        "2:9-22 unknown-value: column2 of m:dir is never 'inn'; did you mean in?"),
    "key": ('@deny("a.b", "{server}", key="sevrer")\n'
        "p(server) :- os:nova:server(_id=server).",
        "1:1-39 annotation-attribute: key names sevrer, which is not a column of the head; did you mean server?"),
    "export": ("export pp, qeue.\n"
        "queue(1).\n"
        "@deny pp(x) :- os:nova:server(_id=x), not queue(1).",
        "1:1-16 unknown-module: m has no relation qeue to export; did you mean queue?"),
    "kind": ("relation rack(host: strng).\n"
        '@deny("a.b", "{x}", hint="h")\n'
        "p(x) :- rack(n), os:nova:server(_id=x, name=n).",
        "1:15-26 kind-mismatch: there is no kind strng; did you mean string?"),
    "key of declaration": ("relation rack(host: string) key(hots).\n"
        '@deny("a.b", "{x}", hint="h")\n'
        "p(x) :- rack(n), os:nova:server(_id=x, name=n).",
        "1:1-38 unknown-column: rack has no column hots; did you mean host?"),
    "keyword": ("relatin rack(host: string).",
        "1:9-13 syntax: missing `:-` or `.` before `rack`; did you mean `relation`?"),
    "not": (POLICY + "os:nova:server(_id=x), nt os:nova:server.networks(_id=x).",
        "2:35-58 syntax: missing `,` or `.` before `os:nova:server.networks`; did you mean `not`?"),
    "quotes low": (POLICY + "os:neutron:security_group.rules(_id=x, direction=ingress).",
        '2:58-65 forgotten-quotes: ingress is a variable that occurs once; '
        'write direction="ingress" for the text, or leave the column out'),
    "quotes low2": (POLICY + "os:nova:server(_id=x, name=web).",
        '2:36-39 warning used-once: web is a variable that occurs once; '
        'write name="web" for the text, or leave the column out'),
    "quotes eq": (POLICY + "os:nova:server(_id=x, name=n), n = active.",
        '2:44-50 forgotten-quotes: active is a variable that occurs once: the condition holds for any value; '
        'write "active" for the text'),
    "quotes ne": (POLICY + "os:nova:server(_id=x, name=n), n != active.",
        '2:45-51 unsafe-variable: nothing binds active; os:nova:server (m.dl:2:9) binds n, x; '
        'use active in a relation that is not negated, or write "active" if it is a text'),
    "quotes pos": ("relation s(h: string, v: string).\n"
        '@deny("a.b", "{x}", hint="h")\n'
        "p(x) :- os:nova:server(_id=x, name=n), s(n, ACTIVE).",
        '3:45-51 forgotten-quotes: ACTIVE is a variable that occurs once; write "ACTIVE" for the text, or `_`'),
    "var head": ('@deny("a.b", "{server}")\n'
        "p(server) :- os:nova:server(_id=sevrer).",
        "2:3-9 unsafe-variable: nothing binds server; os:nova:server (m.dl:2:14) binds sevrer; did you mean sevrer?",
        "2:33-39 warning used-once: sevrer is a variable that occurs once; did you mean server?"),
    "var join": ('@deny("a.b", "{server}")\n'
        "p(server) :- os:nova:server(_id=server, flavor=flavor), bad(flavr).\n"
        'bad("m1").',
        "2:48-54 warning used-once: flavor is a variable that occurs once; did you mean flavr?",
        "2:61-66 warning used-once: flavr is a variable that occurs once; did you mean flavor?"),
    "var agg": ('@deny("a.b", "{stack}")\n'
        "p(stack, n) :- heat:stack(id=stack), n = count{ s : os:nova:server(_stack=stak, _id=s) }, n > 100.",
        "2:75-79 warning used-once: stak is a variable that occurs once; did you mean stack?"),
    "var not": ('@deny("a.b", "{server}")\n'
        "p(server) :- os:nova:server(_id=server), not os:nova:server.networks(_id=servr).",
        "2:74-79 negated-once: servr occurs only here, under not; did you mean server?"),
    "service grant": ('@unlock("edge") g(x) :- gate:grant(id=x, service="egde").\n'
        '@deny("a.b", "{x}", hint="h")\n'
        'p(x) :- os:nova:server(_id=x), not gate:unlocked("edge", x).',
        "1:25-57 unknown-service: no rule unlocks the service egde; did you mean edge?"),
    "old": (POLICY + "odl:os:nova:server(_id=x).",
        "2:9-27 undefined-relation: there is no relation odl:os:nova:server; did you mean os:nova:server?"),
    "name in a declaration": ("relation lst(name: string).\n"
        'list("a").\n'
        '@deny("a.b", "{x}", hint="h")\n'
        "p(x) :- os:nova:server(_id=x, name=n), not list(n).",
        "1:1-27 never-read: nothing reads lst; did you mean list?"),
}  # fmt: skip
"""What is misspelt: a module, then of each diagnostic its place, what it says, and what to write."""


@pytest.mark.parametrize("what", TYPOS)
def test_a_misspelling_is_reported_with_place_and_suggestion(what: str) -> None:
    text, *expected = TYPOS[what]
    assert [_format_diagnostic(diagnostic) for diagnostic in rule_problems(text)] == expected


def test_a_policy_that_a_test_file_misspells_is_an_error_of_that_file(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text('@deny("net.open", "{x}")\np(x) :- os:nova:server(_id=x).\n')
    test = tmp_path / "test.yaml"
    test.write_text("cases:\n  - {name: a, stack: s, expect: {violations: [{policy: net.opne}]}}\n")
    with pytest.raises(InputError) as raised:
        read_suite(test)
    (diagnostic,) = raised.value.diagnostics
    assert render(diagnostic, raised.value.sources).removeprefix(str(tmp_path)) == (
        "/test.yaml:2:56: error[bad-test] there is no policy net.opne beside this file\n"
        "  2 |   - {name: a, stack: s, expect: {violations: [{policy: net.opne}]}}\n"
        "    |                                                        ^^^^^^^^\n"
        "  help  did you mean net.open?"
    )


def _format_diagnostic(diagnostic: Diagnostic) -> str:
    assert diagnostic.span
    severity = "" if diagnostic.severity == "error" else f"{diagnostic.severity} "
    place = f"{diagnostic.span.line}:{diagnostic.span.column}-{diagnostic.span.end_column}"
    return f"{place} {severity}{diagnostic.code}: {diagnostic.message}" + (
        f"; {diagnostic.suggestion}" if diagnostic.suggestion else ""
    )
