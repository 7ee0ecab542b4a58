"""What the policies say of themselves, as Markdown (layer 6): a page for each, from its metadata, text and cases.

In: loaded rules, and the `test.yaml` beside the files of their policies. Out: text that depends on nothing else. What
rules say is text in it: none of it can make a heading, a link or HTML.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from datalog_gate.analysis.policy import ACTIONS, Policy
from datalog_gate.api import Rules
from datalog_gate.base.diagnostics import Span, printable
from datalog_gate.base.errors import UsageError
from datalog_gate.doors.cli.output_files import write
from datalog_gate.language.ast import Rule
from datalog_gate.language.parser import parse
from datalog_gate.policytest.testfile import Case, read_cases

INDEX = "index.md"
FOUND = ("violations", "undetermined")


def handbook(rules: Rules) -> str:
    """One document with a section for each policy. Errors: InputError for a test file."""
    sections = ("\n".join(_page(rules, policy, cases, 2)) for policy, cases in _policies(rules))
    return "# Policies\n\n" + "\n".join(sections)


def pages(rules: Rules) -> dict[str, str]:
    """A page for each policy by the name of its file, and `INDEX`. Errors: InputError for a test file."""
    found = {}
    lines = ["# Policies", ""]
    for policy, cases in _policies(rules):
        name = f"{quote(policy.id, safe='') if policy.id != 'index' else '%69ndex'}.md"
        found[name] = "\n".join(_page(rules, policy, cases, 1))
        lines.append(f"- [{_plain(policy.id)}]({quote(name)}): {policy.level}, {_plain(policy.message)}")
    return {INDEX: "\n".join([*lines, ""]), **found}


def write_pages(rules: Rules, folder: Path) -> None:
    """Write the pages into a folder, which is made if it is not there. Errors: UsageError, and as `pages`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"can't write to {folder}: {error.strerror}") from None
    for name, text in pages(rules).items():
        write(folder / name, text)


def _policies(rules: Rules) -> Iterator[tuple[Policy, list[tuple[Path, Case]]]]:
    """The policies in order of id, each with the cases of the test file beside it that name it."""
    tests: dict[Path, Sequence[Case]] = {}
    for policy in rules.policies:
        file = Path(policy.span.file).parent / "test.yaml"
        if file not in tests:
            tests[file] = read_cases(file) if file.is_file() else ()
        yield policy, [(file, case) for case in tests[file] if list(_expected(case, policy.id))]


def _page(rules: Rules, policy: Policy, cases: Sequence[tuple[Path, Case]], depth: int) -> Iterator[str]:
    """The lines of a policy's page; headings start at that depth."""
    subject = "" if policy.subject is None else policy.columns[policy.subject]
    told = {
        "Level": policy.level,
        "Message": policy.message,
        "Hint": policy.hint,
        "Meaning": policy.texts.get("doc", ""),
        "More": policy.texts.get("url", ""),
        "Owner": policy.texts.get("owner", ""),
        "Tags": ", ".join(policy.lists.get("tags", ())),
        "Actions": ", ".join(action for action in ACTIONS if action in policy.on),
        "Subject": subject,
        "Relation": policy.relation,
    }
    yield from (f"{'#' * depth} {_plain(policy.id)}", "")
    yield from (f"- {name}: {_plain(text)}" for name, text in told.items() if text)
    text = "\n".join(_texts(rules, policy))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    yield from ("", f"{'#' * depth}# Rule", "", f"{fence}prolog", text, fence, "")
    if cases:
        yield from (f"{'#' * depth}# Cases", "")
        yield from (_case(file, case, policy.id) for file, case in cases)
        yield ""


def _texts(rules: Rules, policy: Policy) -> Iterator[str]:
    """The rules of a policy as they are written, the one that is annotated with its annotation."""
    text = rules.sources[policy.span.file]
    spans = {
        rule.span for stratum in rules.program.strata for rule in stratum.rules if rule.relation == policy.relation
    }
    module, _ = parse(text, policy.span.file, "")
    starts = {
        statement.span: statement.annotation.span
        for statement in module.statements
        if isinstance(statement, Rule) and statement.annotation
    }
    for span in sorted(span for span in spans if span.file == policy.span.file):
        start = starts.get(span, span)
        for line in _cut(text, start, span):
            yield "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in line)


def _cut(text: str, start: Span, end: Span) -> list[str]:
    lines = text.splitlines()[start.line - 1 : end.end_line]
    rest = lines[-1][end.end_column - 1 :]
    lines[-1] = lines[-1][: end.end_column - 1] + (rest[:1] if rest.startswith((".", ";")) else "")
    lines[0] = lines[0][start.column - 1 :]
    return lines


def _case(file: Path, case: Case, policy: str) -> str:
    stack = case.given["stack"]
    where = os.path.relpath(stack, file.parent) if isinstance(stack, Path) else f"inline, line {case.line}"
    return f"- {_plain(case.name)} ({_plain(where)}): {_plain('; '.join(_expected(case, policy)))}"


def _expected(case: Case, policy: str) -> Iterator[str]:
    """What a case expects of the policy, in words."""
    for kind, word in zip(FOUND, ("violated", "undetermined"), strict=True):
        for one in case.expect.get(kind, ()):
            if one["policy"] == policy:
                yield word + _where(one)


def _where(one: Mapping[str, Any]) -> str:
    resource = f" by {one['resource']}" if "resource" in one else ""
    return resource + (f" in line {one['line']}" if "line" in one else "")


def _plain(text: str) -> str:
    """The text as one line that Markdown shows as it is; an address is a link."""
    line = printable(text.replace("\n", " ").strip())
    if re.fullmatch(r"https?://[^\s<>\\]+", line):
        return f"<{line}>"
    line = re.sub(r"[\\`*\[\]<>&~$]|(?<!\w)_|_(?!\w)|^[#+=-]", r"\\\g<0>", line)
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", line)
