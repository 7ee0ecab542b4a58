"""The generated pages of policies."""

from __future__ import annotations

from pathlib import Path

import pytest

import datalog_gate as dg
from datalog_gate.doors.cli.main import main
from tests.commands import write_files

RULES = """\
export p. relation q(a: string, b: string) "Q".
/* one */ @warn("net.a_b_", "# {s} <b>*all*</b>", hint="1) see [here](x)\\n# or `there`", doc="a_b & _c_ ~d~ $e$ \\\\",
               url="https://example.org/?a=1&b_=2", owner="- ann", tags=["x", "y_"], on=["delete", "create"])
p(s, why) :- os:nova:server(_id=s, name=n), // a comment
  q(n, why).   p(s, "````") :- os:nova:server(_id=s, name=null)
;
export other.
@deny("index", "other", url="javascript:x") other(1).
"""
TESTS = """\
cases:
  - name: "2. named"
    stack: ../stacks/web
    expect:
      violations:
        - {policy: net.a_b_, resource: web_, line: 7}
        - {policy: index}
      undetermined:
        - {policy: net.a_b_}
  - name: passes
    stack: ../stacks/web
    expect: {violations: []}
  - name: inline
    stack: {heat_template_version: 2018-08-31, resources: {}}
    expect: {violations: [{policy: net.a_b_, line: 1}]}
"""
PAGE = r"""# net.a_b\_

- Level: warn
- Message: \# {s} \<b\>\*all\*\</b\>
- Hint: 1\) see \[here\](x) # or \`there\`
- Meaning: a_b \& \_c\_ \~d\~ \$e\$ \\
- More: <https://example.org/?a=1&b_=2>
- Owner: \- ann
- Tags: x, y\_
- Actions: create, delete
- Subject: s
- Relation: m:p

## Rule

`````prolog
@warn("net.a_b_", "# {s} <b>*all*</b>", hint="1) see [here](x)\n# or `there`", doc="a_b & _c_ ~d~ $e$ \\",
               url="https://example.org/?a=1&b_=2", owner="- ann", tags=["x", "y_"], on=["delete", "create"])
p(s, why) :- os:nova:server(_id=s, name=n), // a comment
  q(n, why).
p(s, "````") :- os:nova:server(_id=s, name=null)
`````

## Cases

- 2\. named (../stacks/web): violated by web\_ in line 7; undetermined
- inline (inline, line 13): violated in line 1
"""
OTHER = """\
# index

- Level: deny
- Message: other
- More: javascript:x
- Actions: create, update, adopt, restore
- Relation: m:other

## Rule

```prolog
@deny("index", "other", url="javascript:x") other(1).
```

## Cases

- 2\\. named (../stacks/web): violated
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dg.Rules:
    monkeypatch.chdir(tmp_path)
    return dg.load_rules(write_files(Path("r"), {"m.dl": RULES, "test.yaml": TESTS}))


def test_a_page_has_the_policy_its_rules_and_its_cases(rules: dg.Rules) -> None:
    assert rules.pages() == {
        "index.md": "# Policies\n\n- [index](%2569ndex.md): deny, other\n"
        "- [net.a_b\\_](net.a_b_.md): warn, \\# {s} \\<b\\>\\*all\\*\\</b\\>\n",
        "net.a_b_.md": PAGE,
        "%69ndex.md": OTHER,
    }


def test_all_pages_are_one_document(rules: dg.Rules) -> None:
    deeper = [page.replace("\n## ", "\n### ").replace("# ", "## ", 1) for page in (OTHER, PAGE)]
    assert rules.document() == "# Policies\n\n" + "\n".join(deeper)


def test_lines_are_those_of_diagnostics_whatever_ends_them(rules: dg.Rules) -> None:
    Path("r/m.dl").write_text("// a\u2028\n" + RULES)
    assert dg.load_rules("r").pages() == rules.pages()


def test_the_command_prints_the_document_or_writes_the_pages(
    rules: dg.Rules, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", "--rules", "r"]) == 0
    assert capsys.readouterr() == (rules.document(), "")
    assert main(["docs", "--rules", "r", "--output", "a/b"]) == 0
    assert capsys.readouterr() == ("", "")
    assert {path.name: path.read_text() for path in Path("a/b").iterdir()} == rules.pages()


@pytest.mark.parametrize(
    ("options", "code"), [("--rules absent", 2), ("--rules r --output r/m.dl", 64), ("--rules bad", 3)]
)
@pytest.mark.usefixtures("rules")
def test_policies_that_can_not_be_documented_are_reported(
    options: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(Path("bad"), {"m.dl": RULES, "test.yaml": "cases: 1\n"})
    assert main(["docs", *options.split()]) == code
    assert capsys.readouterr().out == ""
