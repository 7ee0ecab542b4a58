"""A page in Markdown for each policy, with its rules and cases."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from datalog_gate.analysis.policy import ACTIONS, Policy
from datalog_gate.base.diagnostics import Span, printable
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.language.parser import parse
from datalog_gate.policytest.testfile import Case, read_cases

EXPECTATIONS = {"violations": "violated", "undetermined": "undetermined"}
"""The words for the expectations of a case."""


def format_document(rules: PolicySet) -> str:
    """Format one document with a section for each policy. Errors: InputError for a test file."""
    sections = ("\n".join(_format_policy(rules, policy, cases, 2)) for policy, cases in _policies(rules))
    return "# Policies\n\n" + "\n".join(sections)


def format_pages(rules: PolicySet) -> dict[str, str]:
    """Format the index, and a page for each policy, by file name. Errors: InputError for a test file."""
    pages = {}
    lines = ["# Policies", ""]
    for policy, cases in _policies(rules):
        name = f"{quote(policy.id, safe='') if policy.id != 'index' else '%69ndex'}.md"
        pages[name] = "\n".join(_format_policy(rules, policy, cases, 1))
        lines.append(f"- [{_escape(policy.id)}]({quote(name)}): {policy.level}, {_escape(policy.message)}")
    return {"index.md": "\n".join([*lines, ""]), **pages}


def _policies(rules: PolicySet) -> Iterator[tuple[Policy, list[tuple[Path, Case]]]]:
    """The policies in order of id, each with the cases of its test file that name it."""
    tests: dict[Path, Sequence[Case]] = {}
    for policy in rules.policies:
        file = Path(policy.span.file).parent / "test.yaml"
        if file not in tests:
            tests[file] = read_cases(file) if file.is_file() else ()
        yield policy, [(file, case) for case in tests[file] if list(_expected(case, policy.id))]


def _format_policy(rules: PolicySet, policy: Policy, cases: Sequence[tuple[Path, Case]], depth: int) -> Iterator[str]:
    """Format a policy as lines, with headings of this depth and below."""
    subject = "" if policy.subject is None else policy.columns[policy.subject]
    fields = {
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
    yield from (f"{'#' * depth} {_escape(policy.id)}", "")
    yield from (f"- {name}: {_escape(text)}" for name, text in fields.items() if text)
    text = "\n".join(_rule_lines(rules, policy))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    yield from ("", f"{'#' * depth}# Rule", "", f"{fence}prolog", text, fence, "")
    if cases:
        yield from (f"{'#' * depth}# Cases", "")
        yield from (_format_case(file, case, policy.id) for file, case in cases)
        yield ""


def _rule_lines(rules: PolicySet, policy: Policy) -> Iterator[str]:
    """The rules of a policy as written, with their annotations."""
    text = rules.sources[policy.span.file]
    spans = {
        rule.span for stratum in rules.program.strata for rule in stratum.rules if rule.relation == policy.relation
    }
    module, _ = parse(text, policy.span.file, "")
    starts = {rule.span: rule.annotation.span for rule in module.rules if rule.annotation}
    for span in sorted(span for span in spans if span.file == policy.span.file):
        for line in _cut(text, starts.get(span, span), span):
            yield "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in line)


def _cut(text: str, start: Span, end: Span) -> list[str]:
    lines = text.splitlines()[start.line - 1 : end.end_line]
    rest = lines[-1][end.end_column - 1 :]
    lines[-1] = lines[-1][: end.end_column - 1] + (rest[:1] if rest.startswith((".", ";")) else "")
    lines[0] = lines[0][start.column - 1 :]
    return lines


def _format_case(file: Path, case: Case, policy: str) -> str:
    stack = case.given["stack"]
    source = os.path.relpath(stack, file.parent) if isinstance(stack, Path) else f"inline, line {case.line}"
    return f"- {_escape(case.name)} ({_escape(source)}): {_escape('; '.join(_expected(case, policy)))}"


def _expected(case: Case, policy: str) -> Iterator[str]:
    """The expectation of a case about the policy, in words."""
    for kind, word in EXPECTATIONS.items():
        for expected in case.expect.get(kind, ()):
            if expected["policy"] == policy:
                resource = f" by {expected['resource']}" if "resource" in expected else ""
                line = f" in line {expected['line']}" if "line" in expected else ""
                yield f"{word}{resource}{line}"


def _escape(text: str) -> str:
    """Escape a text as one line of Markdown without headings, links or HTML; URLs become links."""
    line = printable(text.replace("\n", " ").strip())
    if re.fullmatch(r"https?://[^\s<>\\]+", line):
        return f"<{line}>"
    line = re.sub(r"[\\`*\[\]<>&~$]|(?<!\w)_|_(?!\w)|^[#+=-]", r"\\\g<0>", line)
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", line)
