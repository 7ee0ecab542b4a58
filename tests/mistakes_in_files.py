"""Mistakes in files, waivers, settings and the syntax of rules."""

from __future__ import annotations

from tests.mistakes import (
    CHECK,
    DENY_HUGE,
    DENY_TINY,
    FLAVORS,
    HUGE,
    POLICY,
    SERVER,
    TEMPLATE,
    Mistake,
    Written,
    read_mistakes,
    waiver_text,
)

_WRITTEN: Written = {
    "What a run lacks": (
        'relation banned(name: string).\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n',
        Mistake(
            'relation banned(name: string).\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f), banned(f).\n',
            files=FLAVORS,
        ),
        'heat:stack(id=x), gate:caller(project="p1")',
        'heat:stack(id=x), gate:role("member")',
        Mistake('heat:stack(id=x), gate:role("member")', files={"caller.json": '{"user": "u1"}'}),
        'os:nova:server(_id=x, image=i), glancev2:images(id=i, visibility="public")',
        Mistake('os:nova:server(_id=x, image=i), glancev2:images(id=i, visibility="public")', files=FLAVORS),
        '@unlock("edge") g(x) :- gate:grant(id=x, service="edge").\n'
        '@deny("a", "{x}")\n'
        'p(x) :- heat:stack(id=x), gate:service("edge").\n',
        Mistake('heat:stack(id=x), gate:caller(project="p1")', files={"caller.json": "{}"}),
        Mistake('heat:stack(id=x), gate:now(t), t > "2226-12-24"', other_command=f"{CHECK} --now 2026-12-01"),
        Mistake(
            'heat:stack(id=x), gate:caller(domain="guests")', files={"caller.json": '{"user": "u1", "project": "p1"}'}
        ),
        Mistake('heat:stack(id=x), gate:service("edge")', other_command=f"{CHECK} --services egde"),
        'heat:status(id=x, status="FAILED")',
        Mistake('os:nova:server(_id=x, flavor="tiny")', other_command="check web.yaml --rules rules.dl -P kye=x"),
    ),
    "Policies, waivers and settings": (
        f'@deny("a", "{{x}}", severity="high")\n{HUGE}',
        f'@deny("a", "{{x}}", fix="m1.small")\n{HUGE}',
        f'@deny("a", "{{x}}", on_unknown="warn")\n{HUGE}',
        f'@deny("a", "{{x}}", enforce_from="2027-02-31")\n{HUGE}',
        f'@deny("a", "{{x}}", enforce_from="31/01/2027")\n{HUGE}',
        Mistake(f'@deny("a", "{{x}}", enforce_from="2226-11-01")\n{HUGE}', other_command=f"{CHECK} --now 2026-12-01"),
        f'@deny("a", "{{x}}", on=["delete"])\n{HUGE}',
        f'@Deny("a", "{{x}}")\n{HUGE}',
        f'{POLICY}os:nova:server(_id=x, flavor="tiny").\nP(x) :- os:nova:server(_id=x, flavor="m1.huge").\n',
        f'{POLICY}os:nova:server(_id=x, flavor="tiny").\nq(x) :- os:nova:server(_id=x, flavor="m1.huge").\n',
        Mistake(DENY_HUGE, files={"w.yaml": waiver_text("2027-02-31")}),
        Mistake(DENY_HUGE, files={"w.yaml": waiver_text("01-02-2027")}),
        Mistake(DENY_HUGE, files={"w.yaml": waiver_text("2027-02-01", 'while: "x = x"')}),
        Mistake(
            DENY_HUGE,
            files={"datalog-gate.toml": 'rules = ["rules.dl"]\nfail_on = "warn"\n'},
            other_command="check web.yaml",
        ),
        Mistake(
            DENY_HUGE, files={"datalog-gate.toml": '[check]\nrules = ["rules.dl"]\n'}, other_command="check web.yaml"
        ),
        Mistake(
            files={
                "r/a.dl": DENY_HUGE,
                "r/test.yaml": "cases:\n  - {name: n, stack: ../web.yaml, expect: {violation: []}}\n",
            },
            other_command="test r",
        ),
        Mistake(DENY_HUGE, files={"w.yaml": waiver_text("2226-02-01")}),
        Mistake(DENY_HUGE, files={"datalog_gate.toml": 'rules = ["rules.dl"]\n'}, other_command="check web.yaml"),
        Mistake(
            DENY_HUGE,
            files={"pyproject.toml": '[tool.datalog_gate]\nrules = ["rules.dl"]\n'},
            other_command="check web.yaml",
        ),
    ),
    "Files and modules": (
        {"r/a.dl": DENY_TINY, "r/b.datalog": SERVER},
        {"r/a.dl": DENY_TINY, "r/b.dl.txt": SERVER},
        {"r/a.dl": DENY_TINY, "r/b": SERVER},
        {"r/b.pl": SERVER},
        {"r/open-ssh.dl": SERVER},
        {"r/my-net/ssh.dl": SERVER},
        {"r/open ssh.dl": SERVER},
        {"r/10_ssh.dl": SERVER},
        Mistake(other_command="check web.yaml --rules web.yaml"),
        Mistake(files={"t/web.yaml": TEMPLATE}, other_command="check web.yaml --rules t"),
        Mistake("os:nova:server(_id=x)", other_command="check rules.dl --rules rules.dl"),
        Mistake(
            "os:nova:server(_id=x)",
            files={"env.yaml": "parameters: {key: ops}\n"},
            other_command="check env.yaml --rules rules.dl",
        ),
        Mistake("os:nova:server(_id=x)", other_command="check web.yaml -e web.yaml --rules rules.dl"),
        Mistake(files={"test.yaml": "cases: []\n"}, other_command="check web.yaml --rules test.yaml"),
        {
            "r/cap/limits.dl": "relation most(n: number).\nexport most.\n",
            "r/cap/limits.yaml": "most: 1\n",
            "r/cap/a.dl": 'import limits.\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), most(n), n < 9.\n',
        },
        {"r/a.dl": 'import net:limits.\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), most(n), n < 9.\n'},
        {
            "r/b.dl": "q(1). export q.",
            "r/a.dl": 'import "b.dl".\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), q(n), n < 9.\n',
        },
        {
            "r/lists.dl": 'team("web").\n',
            "r/a.dl": '@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
        },
        {
            "r/lists.dl": 'team("web").\n',
            "r/a.dl": 'import lists.\n@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
        },
        {
            "r/lists.dl": 'team("web").\n',
            "r/a.dl": '@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), lists:team(n).\n',
        },
        {
            "r/lists.dl": 'team("web"). export team.\n',
            "r/a.dl": '@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
        },
        {
            "r/lists.dl": 'team("web").\n',
            "r/a.dl": 'export team.\n@deny("a", "{x}")\np(x) :- heat:resource(id=x, name=n), team(n).\n',
        },
        {
            "r/limits.dl": "relation most(n: number).\nexport most.\n",
            "r/limits.yml": "most: 1\n",
            "r/a.dl": 'import limits.\n@deny("a", "{x}")\np(x, n) :- heat:stack(id=x), most(n), n < 9.\n',
        },
        Mistake(other_command="check web.yaml --rules nothere"),
        Mistake("os:nova:server(_id=x)", other_command="check wbe.yaml --rules rules.dl"),
    ),
    "Signs and words": (
        'os:nova:server(_id=x, flavor=f), f == "m1.huge"',
        'os:nova:server(_id=x, flavor=f) and f = "m1.huge"',
        'os:nova:server(_id=x, flavor=f) && f = "m1.huge"',
        'os:nova:server(_id=x, flavor=f), f <> "m1.huge"',
        'os:nova:server(_id=x, flavor=f), f not in ["m1.tiny"]',
        "os:nova:server(_id=x, flavor=f), g := f",
        'os:nova:server(_id=x, flavor=f), f in ("a", "b")',
        '@deny("a", "{x}")\np(x) if os:nova:server(_id=x).\n',
        '@deny("a", "{x}")\np(x) <- os:nova:server(_id=x).\n',
        'os:nova:server(_id=x, flavor=f), f = "a" or f = "b"',
        'os:nova:server(_id=x, flavor=f), (f = "a" | f = "b")',
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f)\n  f = "a".\n',
        '@deny("a", "{x}")\np(x) :- os:nova:server(_id=x, flavor=f),\n',
        "(os:nova:server(_id=x) ; os:cinder:volume(_id=x))",
        "os:nova:server(_id: x)",
        "os:cinder:volume(_id=x, size=s), s ?? 0 > 500GB",
        'os:nova:server(_id=x, name=n), n like "web%"',
        '-- a comment\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n',
        '% a comment\n@deny("a", "{x}")\np(x) :- os:nova:server(_id=x).\n',
        "os:nova:server(_id=x), \\+ os:cinder:volume(_id=x)",
        'os:nova:server(_id=x, name=n), n = f"web"',
        "os:nova:server(_id=x, networks.0.port=p)",
        "os:neutron:port(_id=x, port_security_enabled=secured), not secured",
        "os:nova:server(_id=x), Not os:nova:server(_id=x)",
    ),
    "aggregates over equal values": (
        "os:nova:server(_id=x), sum{ n : os:cinder:volume(size=n) } > 1000",
        "os:nova:server(_id=x), sum{ n : os:cinder:volume(_id=v, size=n) } > 1000",
        "os:nova:server(_id=x), avg{ 1 : os:cinder:volume(size=_) } > 1",
        "os:nova:server(_id=x), count{ t : heat:resource(type=t) } > 100",
        "heat:stack(id=x), count{ n, v : os:cinder:volume(_stack=x, _id=v, name=n) } > 1",
        '@deny("a", "{x}") p(x) :- x = sum{ n : r(n) }, x > 1000. r(n) :- os:cinder:volume(size=n).',
    ),
    "values of several kinds": (
        'os:nova:server(_id=x, flavor=f), starts_with(f, "m1.huge")',
        'os:nova:server(_id=x, image=i), contains(i ?? "", "cirros")',
        'os:nova:server.metadata(_id=x, _key="slots", _value=v), v != null, v > 4',
        "os:nova:server(_id=x), max{ v : heat:metadata(id=x, value=v) } > 4",
        "os:nova:server(_id=x, name=n), n != null, max2(n, 5, most), most != null",
    ),
}
IN_FILES = read_mistakes(_WRITTEN)
