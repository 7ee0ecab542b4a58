"""Each mistake in rules is reported as the golden file says.

docs/language.md shows some of them.
"""

from __future__ import annotations

import re
import shlex
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from datalog_gate.base.diagnostics import CODES
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.doors.cli.main import main
from tests.commands import write_files
from tests.mistakes import CHECK, MEANT, MISTAKES, POLICY, TEMPLATE, Mistake
from tests.pages import DOCS, assert_written

GOLDEN = DOCS.parent / "tests" / "golden" / "mistakes.md"
PART = re.compile(r"(?s)(<!-- generated: mistakes -->\n).*?(<!-- end -->)")
SAID = re.compile(r"^(?:.*?: )?((?:error|warning|note)\[[^]]+\] .*|  help  .*)$")


@cache
def run(mistake: Mistake) -> tuple[int, tuple[str, ...]]:
    """The exit code, and what is said without places and excerpts: each message, and the advice below it."""
    with TemporaryDirectory() as folder, chdir(folder), redirect_stderr(StringIO()) as said, redirect_stdout(said):
        rules = {"rules.dl": mistake.rules} if mistake.rules else {}
        write_files(Path(folder), {"web.yaml": TEMPLATE, **rules, **mistake.files})
        code = main(shlex.split(mistake.command))
    lines = (SAID.match(line) for line in said.getvalue().splitlines())
    return code, tuple(line[1].strip() for line in lines if line)


HEAD = "| what is written | what is said | exit |\n| - | - | - |\n"
ON_THE_PAGE = (
    'heat:deletion_policy(id=x, policy="Keep")',
    'heat:property(id=x, path="networks[0].port")',
    'os:neutron:security_group.rules(_id=x, protocol="TCP")',
    'os:nova:server(_id=x, flavor=F), f = "m1.huge"',
    'os:nova:server.metadata(_id=x, _key="public", _value="true")',
    "os:cinder:volume(_id=x, size=n), n ?? 0 > 500 * 1024",
    "os:neutron:security_group.rules(_id=x, port_range_min=a, port_range_max=b), a ?? 65535 <= 22, b ?? 0 >= 22",
    'os:nova:server(_id=x, flavor=f), (f != "m1.small" or f != "m1.huge")',
    'os:nova:server(_id=x, name=n), n != null, contains(n, "db|web")',
    'os:nova:server(_id=x, flavor=f) and f = "m1.huge"',
    'os:nova:server(_id=x), gate:request("delete")',
)
"""What docs/language.md shows."""
ROWS = [mistake for rows in MISTAKES.values() for mistake in rows]


def test_each_mistake_has_its_message() -> None:
    assert_written(GOLDEN, page())
    silent = [row for row in ROWS if not any(line.startswith(("error", "warning")) for line in run(row)[1])]
    assert silent == []
    codes = set(re.findall(r"(?:error|warning)\[([a-z-]+)\]", page()))
    assert codes - CODES.keys() == {"a"}  # the policy itself is in error


def test_the_page_of_the_language_shows_some() -> None:
    rows = {row.text: row for row in reversed(ROWS)}
    table = "".join([HEAD, *(table_row(rows[text]) for text in ON_THE_PAGE)])
    path = DOCS / "language.md"
    assert_written(path, PART.sub(lambda match: f"{match[1]}{table}{match[2]}", path.read_text("utf-8")))


@pytest.mark.parametrize("text", MEANT)
def test_what_only_looks_like_a_mistake_is_accepted(text: str) -> None:
    assert load([RuleFile("m", "m.dl", f"{POLICY}{text}.\n")]).warnings == ()


def page() -> str:
    """All mistakes with what is said of each."""
    parts = [f"`web.yaml`:\n\n```yaml\n{TEMPLATE}```\n"]
    for kind, mistakes in MISTAKES.items():
        parts += [f"\n## {kind}\n\n", HEAD, *map(table_row, mistakes)]
    return "".join(parts)


def table_row(mistake: Mistake) -> str:
    code, said = run(mistake)
    return f"| {'<br>'.join(_listing(mistake))} | {'<br>'.join(map(_escape, said))} | {code} |\n"


def _listing(mistake: Mistake) -> list[str]:
    lines = [_code(line) for line in mistake.text.splitlines()]
    for name, text in mistake.files.items():
        shown = ["the template"] if text == TEMPLATE else [_code(line) for line in text.splitlines() or [""] if line]
        lines += [f"{_code(name)}: {shown[0] if shown else 'empty'}", *shown[1:]]
    return [*lines, _code(mistake.command)] if mistake.command != CHECK else lines


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text.replace('|', chr(92) + '|')}{fence}"


def _escape(line: str) -> str:
    """What is said as a cell: the code and the advice are set apart, and nothing is read as markup."""
    head, bracket, message = line.partition("] ") if not line.startswith("help") else ("", "", line)
    parts = [part.replace("|", "\\|") for part in message.split("`")]
    parts[::2] = [part.replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_") for part in parts[::2]]
    written = "`".join(parts)
    return f"`{head}]` {written}" if bracket else f"*{written}*"
