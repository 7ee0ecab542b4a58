"""What was found, in the formats that other programs read (layer 6): JUnit XML, SARIF 2.1.0, GitHub's annotations.

In: for each request the decision, or the error that came in its place. Out: one document. Whatever a template's author
can name is text in it and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from typing import Literal as OneOf
from urllib.parse import quote

from datalog_gate import __version__
from datalog_gate.analysis.policy import LEVELS, Policy
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.base.diagnostics import CODES, Diagnostic, Severity, Span, printable
from datalog_gate.base.errors import DiagnosticsError, GateError
from datalog_gate.decision.decision import Change, Decision, Violation
from datalog_gate.doors.cli.decision_text import compact, diagnostics_json, said, text

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From the gravest on, as the levels of policies are."""
WHOLE = ("junit", "sarif")
"""The formats that say everything in one document. Of the others each answer is a part of its own."""
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class Judged:
    """What was judged, as it was named, the answer, and lines on what grants ask for."""

    name: str
    answer: Decision | GateError
    asks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to show. `rule` is a policy's id or a diagnostic's code; `state` says whether it holds, or holds and is
    waived or was there before, or could not be told for what is not known yet, or because something is broken. `change`
    is what a violation has where there is an older state."""

    rule: str
    level: Severity
    state: OneOf["holds", "waived", "preexisting", "unknown", "broken"]
    message: str
    place: Span | None
    help: str = ""
    resource: str = ""
    because: tuple[tuple[str, Span | None], ...] = ()
    change: Change | None = None

    def __str__(self) -> str:
        word = {"waived": "waived", "unknown": "undetermined", "broken": "error"}.get(self.state, self.level)
        place = f"{self.place}: " if self.place else ""
        return printable(f"{place}{word}[{self.rule}] {self.message}" + (f" ({self.help})" if self.help else ""))


def report(
    form: str, judged: Sequence[Judged], policies: Sequence[Policy] = (), fails: Sequence[Severity] = SEVERITIES[:1]
) -> str:
    """The document of a format. `policies` are those that judged, `fails` the levels of findings that fail a test."""
    match form:
        case "junit":
            return junit(judged, policies, fails)
        case "sarif":
            return sarif([found for one in judged for found in findings(one.answer)], policies)
    return "".join(_part(form, one.answer, one.asks) for one in judged)


def unfilled(program: CheckedProgram, given: str | None) -> list[Diagnostic]:
    """A warning if policies may pass only because no inventory fills what they read. Packs may say that theirs do
    without one."""
    from datalog_gate.analysis.check import matches
    from datalog_gate.doors.cli.commands.packs import does_without
    from datalog_gate.schema import cloud

    found: dict[Path, set[str]] = {}
    for rule in () if given else (rule for stratum in program.strata for rule in stratum.rules):
        if read := {str(match.relation) for match in matches(rule.body) if cloud.relation(str(match.relation))}:
            found.setdefault(Path(rule.span.file).parent, set()).update(read)
    needed = sorted({one for folder, read in found.items() if not does_without(folder) for one in read})
    message = f"the rules read {', '.join(needed)}, which nothing fills"
    return [Diagnostic("no-inventory", message, None, "give --inventory FILE.jsonl", "warning")] if needed else []


def _part(form: str, answer: Decision | GateError, asks: Sequence[str]) -> str:
    match form, answer:
        case "github", _:
            return "".join(f"{github(finding)}\n" for finding in findings(answer))
        case "json", Decision():
            return f"{json.dumps(answer.to_json(), ensure_ascii=False)}\n"
        case "json", DiagnosticsError():
            return f"{diagnostics_json(answer.diagnostics)}\n"
        case "json", _:  # an engine that gave up has no object in JSON
            return ""
        case "compact", Decision():
            return f"{compact(answer)}\n"
        case _, Decision():
            return f"{text(answer, asks)}\n"
    return f"{answer}\n"


def severity(violation: Violation) -> Severity:
    """How grave a finding is: a deny in warn mode is a warning."""
    return SEVERITIES[max(LEVELS.index(violation.level), ("enforce", "warn", "record").index(violation.mode))]


def findings(answer: Decision | GateError) -> Iterator[Finding]:
    """What is found in an answer: its violations, what is undetermined, waived, its errors."""
    if isinstance(answer, DiagnosticsError):
        for wrong in answer.diagnostics:
            state: OneOf["holds", "broken"] = "broken" if wrong.severity == "error" else "holds"
            yield Finding(wrong.code, wrong.severity, state, wrong.message, wrong.span, wrong.suggestion or "")
        return
    if isinstance(answer, GateError):
        yield Finding("engine", "error", "broken", str(answer), None)
        return
    for violation in answer.violations:
        resource = violation.resource.path if violation.resource else ""
        kind: OneOf["holds", "preexisting"] = "preexisting" if violation.tolerated else "holds"
        yield Finding(
            violation.policy,
            severity(violation),
            kind,
            said(violation),
            violation.place,
            violation.hint,
            resource,
            change=violation.change,
        )
    for violation in answer.undetermined:
        refused = violation.enforced and violation.on_unknown == "deny"
        deferred = SEVERITIES[max(SEVERITIES.index(severity(violation)), 2 if violation.on_unknown == "allow" else 1)]
        grave: Severity = "error" if refused else deferred
        because = tuple((unknown.expression, unknown.place) for unknown in violation.because)
        resource = violation.resource.path if violation.resource else ""
        unsure: OneOf["holds", "unknown"] = "holds" if refused else "unknown"
        yield Finding(
            violation.policy,
            grave,
            unsure,
            said(violation),
            violation.place,
            violation.hint,
            resource,
            because,
            violation.change,
        )
    for violation in answer.waived:
        resource = violation.resource.path if violation.resource else ""
        by = f"waived by {violation.waiver}"
        yield Finding(
            violation.policy,
            severity(violation),
            "waived",
            said(violation),
            violation.place,
            by,
            resource,
            change=violation.change,
        )
    for failed in answer.errors:
        grave = "error" if failed.enforced else "warning"
        change: Change | None = "introduced" if answer.compared else None  # all results of a run say it, or none
        yield Finding(failed.policy, grave, "broken", failed.message, failed.place, change=change)


def github(finding: Finding) -> str:
    """The finding as a workflow command, which annotates the line."""
    properties = {"title": finding.rule}
    if finding.place:
        place = {"file": _relative(finding.place.file), "line": finding.place.line, "col": finding.place.column}
        properties = {key: str(value) for key, value in place.items()} | properties
    said = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    word = "notice" if finding.level == "note" or finding.state in ("waived", "preexisting") else finding.level
    return f"::{word} {said}::{_escaped(finding.message + (f' ({finding.help})' if finding.help else ''))}"


def _escaped(value: str, more: str = "") -> str:
    """The value as the runner of workflows reads it back."""
    value = value.replace("%", "%25")
    for char in f"\r\n{more}":
        value = value.replace(char, f"%{ord(char):02X}")
    return printable(value)


def junit(judged: Sequence[Judged], policies: Sequence[Policy], fails: Sequence[Severity]) -> str:
    """A suite for each stack, or set of stacks, with a case for each policy. A case fails by its findings of the levels
    `fails`, is skipped if it is undetermined, waived or pre-existing, and is an error if the policy, or the request,
    could not be judged."""
    from xml.etree import ElementTree as Xml

    top = Xml.Element("testsuites", name="datalog-gate")
    for one in judged:
        found = list(findings(one.answer))
        decided = isinstance(one.answer, Decision)
        names = [policy.id for policy in policies] if decided else ["readable"]
        stacks = printable(", ".join(one.answer.stacks) if isinstance(one.answer, Decision) else one.name)
        suite = Xml.SubElement(top, "testsuite", name=stacks)
        for name in names:
            mine = [each for each in found if each.rule == name or not decided]
            case = Xml.SubElement(suite, "testcase", classname=stacks, name=printable(name))
            _outcome(case, mine, fails)
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("tests", str(len(names)))
    Xml.indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(top, encoding="unicode")}\n'


def _outcome(case: Any, found: Sequence[Finding], fails: Sequence[Severity]) -> None:
    from xml.etree import ElementTree as Xml

    failed = [finding for finding in found if finding.state == "holds" and finding.level in fails]
    broken = [finding for finding in found if finding.state == "broken"]
    unknown = [finding for finding in found if finding.state in ("unknown", "waived", "preexisting")]
    shown: Sequence[Finding] = ()
    for tag, some in (("error", broken), ("failure", failed), ("skipped", unknown)):
        if some and not shown:
            shown = some
            more = f" (and {len(some) - 1} more)" if some[1:] else ""
            node = Xml.SubElement(case, tag, message=printable(some[0].message) + more)
            node.text = "\n".join(map(str, some))
            if tag != "skipped":
                node.set("type", printable(some[0].rule))
    if rest := [finding for finding in found if finding not in shown]:
        Xml.SubElement(case, "system-out").text = "\n".join(map(str, rest))


def sarif(found: Sequence[Finding], policies: Sequence[Policy]) -> str:
    """One run. Its rules are the policies, and the codes of diagnostics that occur. What is undetermined is a result of
    kind `open`, which by SARIF 2.1.0 (3.27.10) has the level `none`."""
    rules = [_policy(policy) for policy in policies]
    known = {policy.id: at for at, policy in enumerate(policies)}
    for finding in found:
        if finding.rule not in known:
            known[finding.rule] = len(rules)
            meaning = CODES.get(finding.rule, "The engine could not answer.")
            rules.append({"id": finding.rule, "shortDescription": {"text": meaning}})
    declared = {policy.id: policy.span for policy in policies}
    run = {
        "tool": {"driver": {"name": "datalog-gate", "version": __version__, "rules": rules}},
        "invocations": [{"executionSuccessful": not any(finding.state == "broken" for finding in found)}],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, known[finding.rule], finding.place or declared.get(finding.rule)) for finding in found
        ],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _policy(policy: Policy) -> dict[str, object]:
    default = dict(zip(LEVELS, SEVERITIES, strict=True))[policy.level]
    rule: dict[str, object] = {
        "id": policy.id,
        "shortDescription": _message(policy.message),
        "defaultConfiguration": {"level": default},
    }
    if doc := policy.texts.get("doc"):
        rule["fullDescription"] = _message(doc)
    if policy.hint:
        rule["help"] = _message(policy.hint)
    if "://" in (url := policy.texts.get("url", "")):
        rule["helpUri"] = quote(url, safe="%/:?#[]@!$&'()*+,;=~")
    if tags := policy.lists.get("tags"):
        rule["properties"] = {"tags": list(dict.fromkeys(tags))}
    return rule


def _result(finding: Finding, index: int, place: Span | None) -> dict[str, object]:
    location = _location(place)
    if finding.resource:
        location["logicalLocations"] = [{"fullyQualifiedName": printable(finding.resource), "kind": "resource"}]
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "kind": "open" if finding.state == "unknown" else "fail",
        "level": "none" if finding.state == "unknown" else finding.level,
        "message": _message(
            finding.message + (f" ({finding.help})" if finding.help and finding.state != "waived" else "")
        ),
        "locations": [location] if location else [],
    }
    if finding.state == "waived":
        justified = printable(finding.help)
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": justified}]
    if finding.change:
        result["baselineState"] = "new" if finding.change == "introduced" else "unchanged"
    if finding.because:
        result["relatedLocations"] = [
            {**_location(where), "message": _message(what)} for what, where in dict.fromkeys(finding.because)
        ]
    return result


def _location(place: Span | None) -> dict[str, object]:
    if place is None:
        return {}
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, "region": region}}


def _message(said: str) -> dict[str, str]:
    """A message of SARIF, in which ``[a](b)`` would be a link (3.11.6)."""
    return {"text": printable(said).replace("](", "] (")}


def _uri(file: str) -> str:
    path = _relative(file)
    encoded = quote(path, errors="surrogatepass")
    return f"file://{encoded}" if os.path.isabs(path) else encoded


def _relative(file: str) -> str:
    """The path from the working directory, if the file lies in it."""
    path = Path(os.path.normpath(file))
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()
