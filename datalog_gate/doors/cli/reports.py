"""Reports of decisions for people and programs.

The formats are text, JSON, JUnit XML, SARIF 2.1.0, annotations of GitHub, and pages of HTML. Names from templates are
escaped, so that they cannot change the structure of a report.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from typing import Literal as OneOf
from urllib.parse import quote

from datalog_gate import __version__
from datalog_gate.analysis.policy import CHANGING, LEVELS, Policy
from datalog_gate.analysis.violation_key import compares_states
from datalog_gate.api import ExplainedDecision
from datalog_gate.base.diagnostics import CODES, Diagnostic, Severity, Span, excerpt, format_count, printable
from datalog_gate.base.errors import DiagnosticsError, GateError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.decision.decision import SHORT, Change, Decision, Violation, Waiver
from datalog_gate.doors.cli.colours import CYAN, GREEN, WORDS, Paint, leave_plain
from datalog_gate.files.baseline import FindingKeys, Templates
from datalog_gate.files.ignores import Ignore
from datalog_gate.schema.declaration import RelationRef

if TYPE_CHECKING:
    from datalog_gate.explain.explanation import Explanation
    from datalog_gate.pages.decision_page import DecisionPage

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From the most severe, in the order of policy levels."""
WHOLE_DOCUMENTS = ("junit", "sarif", "html")
"""The formats with all answers in one document. In other formats each answer is printed by itself."""
FOR_PEOPLE = ("text", "compact")
MOST_ALIKE = 3
"""The maximum number of findings of one policy at one place that are shown separately, and of names of the others."""
MANY = 20
"""The number of findings from which the text ends with counts by policy."""
State = OneOf["holds", "waived", "ignored", "preexisting", "unknown", "broken"]
TOLERATED: tuple[State, ...] = ("waived", "ignored", "preexisting")
DIAGNOSTICS = "datalog-gate/diagnostics/1"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
PREEXISTING = "preexisting"


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """The answer for one template, or for templates judged together."""

    name: str
    answer: Decision | GateError
    templates: Templates = ()
    """The templates that were judged."""
    grant_requests: tuple[str, ...] = ()
    """Lines about what grants request from their services."""
    keys: FindingKeys = field(default_factory=dict)
    """The keys that identify its findings across runs."""
    ignores: tuple[Ignore, ...] = ()
    """The comments in its templates that ignore findings."""
    used: frozenset[Ignore] = frozenset()
    """The ignores that match a finding."""
    refusals: tuple[Diagnostic, ...] = ()
    """What Heat would refuse of its templates."""
    page: DecisionPage | None = None
    """The page of a decision, for the format `html`."""


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding in a report: a violation, or a diagnostic."""

    rule: str
    """The id of a policy, or the code of a diagnostic."""
    level: Severity
    state: State
    """Whether it is certain, waived, ignored in its template, preexisting, undetermined, or could not be evaluated."""
    message: str
    place: Span | None
    help: str = ""
    resource: str = ""
    """The path of the resource."""
    because: tuple[tuple[str, Span | None], ...] = ()
    """The unknown expressions that it depends on, with their places."""
    change: Change | None = None
    """Whether a change introduced it; None without an old stack."""
    template: str = ""
    """The judged template, if there are several."""
    key: str = ""
    """The key that identifies it across runs."""

    def __str__(self) -> str:
        words = {"waived": "waived", "ignored": "waived", "unknown": "undetermined", "broken": "error"}
        word = words.get(self.state, self.level)
        text = self.message + (f" ({self.help})" if self.help else "")
        return printable(_in_template(f"{_at(self.place)}{word}[{self.rule}] {text}", self.place, self.template))


def format_report(
    form: str,
    entries: Sequence[ReportEntry],
    policies: Sequence[Policy] = (),
    failing: Sequence[Severity] = SEVERITIES[:1],
) -> str:
    """Format entries as a document. `policies` are those that judged, `failing` the levels that fail a test."""
    several = len(entries) > 1
    match form:
        case "junit":
            return _format_junit(entries, policies, failing)
        case "sarif":
            return format_sarif([finding for entry in entries for finding in _named(entry, several)], policies)
        case "html":
            return _format_pages(entries)
    total = f"{format_total(entries)}\n" if several and form in FOR_PEOPLE else ""
    return "".join(format_entry(form, entry, several) for entry in entries) + total


def format_entry(form: str, entry: ReportEntry, named: bool, quiet: bool = False, paint: Paint = leave_plain) -> str:
    """Format one entry in a format where each is printed by itself. If `named`, each line names its template; if
    `quiet`, there are only findings."""
    answer = entry.answer
    name = entry.name if named else ""
    template = {"template": name} if named else {}
    match form, answer:
        case "github", _:
            return "".join(f"{_format_annotation(finding)}\n" for finding in _named(entry, named))
        case "json", Decision():
            refusals = {"refusals": [refusal.to_json() for refusal in entry.refusals]}
            return f"{json.dumps(template | answer.to_json() | refusals, ensure_ascii=False)}\n"
        case "json", DiagnosticsError():
            diagnostics = [diagnostic.to_json() for diagnostic in answer.diagnostics]
            return f"{json.dumps({**template, 'schema': DIAGNOSTICS, 'diagnostics': diagnostics})}\n"
        case "json", _:  # the failure of an engine has no JSON
            return ""
        case "compact", Decision():
            return _lines(format_compact(answer, name, quiet, paint))
        case _, Decision():
            return _lines(format_decision(answer, entry.grant_requests, name, quiet, paint))
    return f"{answer}\n"


def _lines(text: str) -> str:
    return f"{text}\n" if text else ""


def format_total(entries: Sequence[ReportEntry]) -> str:
    """Format the counts of all entries together."""
    decisions = [entry.answer for entry in entries if isinstance(entry.answer, Decision)]
    outcomes = Counter(decision.outcome for decision in decisions)
    parts = [f"{count} {outcome}" for outcome, count in sorted(outcomes.items())]
    if len(decisions) < len(entries):
        parts.append(f"{len(entries) - len(decisions)} without a decision")
    levels = Counter(_word(violation) for decision in decisions for violation in decision.violations)
    open_findings = sum(len(decision.undetermined) for decision in decisions)
    counts = f"{levels['deny']} denied, {format_count(levels['warn'], 'warning')}, {open_findings} undetermined"
    return f"total of {len(entries)}: {counts}; {', '.join(parts)}"


def compute_severity(violation: Violation) -> Severity:
    """Compute the severity of a finding: a deny in warn mode is a warning."""
    return SEVERITIES[max(LEVELS.index(violation.level), ("enforce", "warn", "record").index(violation.mode))]


def _named(entry: ReportEntry, named: bool) -> Iterator[ReportedFinding]:
    """The findings of an entry; if `named`, with its template."""
    for finding in _findings(entry):
        yield replace(
            finding, template=entry.name if named else "", key=finding.key and f"{_relative(entry.name)} {finding.key}"
        )


def _in_template(line: str, place: Span | None, template: str) -> str:
    """A line on a finding that names the template, unless its place does."""
    before, after = _template_parts(line, place, template)
    return f"{before}{line}{after}"


def _template_parts(message: str, place: Span | None, template: str) -> tuple[str, str]:
    """What names the template before and after a line with this message; empty if its place or message does."""
    if not template or template in message.split() or (place and place.file in (template, f"{template}/template.yaml")):
        return "", ""
    return ("", f" (in {template})") if place else (f"{template}: ", "")


def _findings(entry: ReportEntry) -> Iterator[ReportedFinding]:
    """The violations, undetermined and waived findings, and errors of an answer."""
    answer, keys = entry.answer, entry.keys
    for wrong in answer.diagnostics if isinstance(answer, DiagnosticsError) else entry.refusals:
        state: State = "broken" if wrong.severity == "error" else "holds"
        change: Change | None = "introduced" if isinstance(answer, Decision) and answer.compared else None
        yield ReportedFinding(
            wrong.code, wrong.severity, state, wrong.message, wrong.span, wrong.suggestion or "", change=change
        )
    if isinstance(answer, DiagnosticsError):
        return
    if isinstance(answer, GateError):
        yield ReportedFinding("engine", "error", "broken", str(answer), None)
        return
    for violation in answer.violations:
        state = "preexisting" if violation.tolerated else "holds"
        yield _finding(violation, keys, compute_severity(violation), state, violation.hint)
    for violation in answer.undetermined:
        if violation.enforced and violation.on_unknown == "deny":
            yield _finding(violation, keys, "error", "holds", violation.hint)
        else:
            most = 2 if violation.on_unknown == "allow" else 1
            level = SEVERITIES[max(SEVERITIES.index(compute_severity(violation)), most)]
            yield _finding(violation, keys, level, "unknown", violation.hint)
    ignored = {ignore.waiver for ignore in entry.ignores}
    for violation in answer.waived:
        state = "ignored" if violation.waiver in ignored else "waived"
        yield _finding(violation, keys, compute_severity(violation), state, f"waived by {violation.waiver}")
    for failure in answer.errors:
        yield ReportedFinding(
            failure.policy,
            "error" if failure.enforced else "warning",
            "broken",
            failure.message,
            failure.place,
            change="introduced" if answer.compared else None,  # SARIF: all results of a run have it, or none
        )


def _finding(
    violation: Violation,
    keys: FindingKeys,
    level: Severity,
    state: State,
    help_: str,
) -> ReportedFinding:
    return ReportedFinding(
        rule=violation.policy,
        level=level,
        state=state,
        message=format_message(violation),
        place=violation.place,
        help=help_,
        resource=violation.resource.path if violation.resource else "",
        because=tuple((unknown.expression, unknown.place) for unknown in violation.unknowns),
        change=violation.change,
        key=keys.get((violation.policy, violation.row), ""),
    )


def _format_annotation(finding: ReportedFinding) -> str:
    """Format a finding as a workflow command of GitHub, which annotates the line."""
    properties = {"title": finding.rule}
    if finding.place and finding.place.line:
        place = {"file": _relative(finding.place.file), "line": finding.place.line, "col": finding.place.column}
        properties = {key: str(value) for key, value in place.items()} | properties
    arguments = ",".join(f"{key}={_escape(value, ':,')}" for key, value in properties.items())
    command = "notice" if finding.level == "note" or finding.state in TOLERATED else finding.level
    message = finding.message + (f" ({finding.help})" if finding.help else "")
    return f"::{command} {arguments}::{_escape(_in_template(message, finding.place, finding.template))}"


def _escape(value: str, more: str = "") -> str:
    """Escape a value as the workflow runner reads it back."""
    value = value.replace("%", "%25")
    for char in f"\r\n{more}":
        value = value.replace(char, f"%{ord(char):02X}")
    return printable(value)


def _format_junit(entries: Sequence[ReportEntry], policies: Sequence[Policy], failing: Sequence[Severity]) -> str:
    """Format a test suite for each entry, with a case for each policy."""
    from xml.etree import ElementTree as Xml

    root = Xml.Element("testsuites", name="datalog-gate")
    for entry in entries:
        findings = list(_findings(entry))
        name = printable(entry.name)
        if isinstance(entry.answer, Decision):
            cases = {policy.id: [finding for finding in findings if finding.rule == policy.id] for policy in policies}
            if entry.refusals:
                codes = {refusal.code for refusal in entry.refusals}
                cases["readable"] = [finding for finding in findings if finding.rule in codes]
        else:
            cases = {"readable": findings}
        suite = Xml.SubElement(root, "testsuite", name=name)
        for policy_id, case_findings in cases.items():
            case = Xml.SubElement(suite, "testcase", classname=name, name=printable(policy_id))
            _add_outcome(case, case_findings, failing)
            if isinstance(entry.answer, Decision) and policy_id in entry.answer.skipped:
                Xml.SubElement(case, "skipped", message="judges the whole cloud")
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("tests", str(len(cases)))
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(root, encoding="unicode")}\n'


def _add_outcome(case: Any, findings: Sequence[ReportedFinding], failing: Sequence[Severity]) -> None:
    """Add the result to a test case: an error if it could not be judged, skipped if it is undetermined, waived or
    pre-existing."""
    from xml.etree import ElementTree as Xml

    broken = [finding for finding in findings if finding.state == "broken"]
    failed = [finding for finding in findings if finding.state == "holds" and finding.level in failing]
    skipped = [finding for finding in findings if finding.state in ("unknown", *TOLERATED)]
    shown: Sequence[ReportedFinding] = broken or failed or skipped
    if shown:
        tag = "error" if broken else "failure" if failed else "skipped"
        more = f" (and {len(shown) - 1} more)" if shown[1:] else ""
        node = Xml.SubElement(case, tag, message=printable(shown[0].message) + more)
        node.text = "\n".join(map(str, shown))
        if tag != "skipped":
            node.set("type", printable(shown[0].rule))
    if rest := [finding for finding in findings if finding not in shown]:
        Xml.SubElement(case, "system-out").text = "\n".join(map(str, rest))


def _format_pages(entries: Sequence[ReportEntry]) -> str:
    """Format one document of HTML, with a part for each entry."""
    from datalog_gate.pages.rendering import FailedPage, render_decisions

    return render_decisions([entry.page or FailedPage(entry.name, str(entry.answer)) for entry in entries])


def format_sarif(findings: Sequence[ReportedFinding], policies: Sequence[Policy]) -> str:
    """Format one run of SARIF, whose rules are the policies, and the codes of diagnostics that occur.

    An undetermined finding is a result of kind `open`, which has the level `none` (SARIF 2.1.0, 3.27.10).
    """
    rules = [_policy_rule(policy) for policy in policies]
    index = {policy.id: position for position, policy in enumerate(policies)}
    for finding in findings:
        if finding.rule not in index:
            index[finding.rule] = len(rules)
            meaning = CODES.get(finding.rule, "The engine could not answer.")
            rules.append({"id": finding.rule, "shortDescription": {"text": meaning}})
    declared = {policy.id: policy.span for policy in policies}
    run = {
        "tool": {"driver": {"name": "datalog-gate", "version": __version__, "rules": rules}},
        "invocations": [{"executionSuccessful": not any(finding.state == "broken" for finding in findings)}],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, index[finding.rule], finding.place or declared.get(finding.rule)) for finding in findings
        ],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _policy_rule(policy: Policy) -> dict[str, object]:
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


def _result(finding: ReportedFinding, index: int, place: Span | None) -> dict[str, object]:
    location = _location(place)
    if finding.resource:
        location["logicalLocations"] = [{"fullyQualifiedName": printable(finding.resource), "kind": "resource"}]
    is_waived = finding.state in ("waived", "ignored")
    is_open = finding.state == "unknown" or (is_waived and finding.because)
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "kind": "open" if is_open else "fail",
        "level": "none" if is_open else finding.level,
        "message": _message(finding.message + (f" ({finding.help})" if finding.help and not is_waived else "")),
        "locations": [location] if location else [],
    }
    if is_waived:
        kind, justification = "inSource" if finding.state == "ignored" else "external", printable(finding.help)
        result["suppressions"] = [{"kind": kind, "status": "accepted", "justification": justification}]
    if finding.key:
        digest = sha256(finding.key.encode("utf-8", "surrogatepass")).hexdigest()
        result["partialFingerprints"] = {"datalogGate/v1": digest}
    if finding.template:
        result["properties"] = {"template": printable(finding.template)}
    if finding.change:
        result["baselineState"] = "new" if finding.change == "introduced" else "unchanged"
    if finding.because:
        result["relatedLocations"] = [
            {**_location(unknown_place), "message": _message(expression)}
            for expression, unknown_place in dict.fromkeys(finding.because)
        ]
    return result


def _location(place: Span | None) -> dict[str, object]:
    if place is None or not place.line:
        return {}
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, "region": region}}


def _message(text: str) -> dict[str, str]:
    """A message of SARIF, in which ``[a](b)`` would be a link (3.11.6)."""
    return {"text": printable(text).replace("](", "] (")}


def _uri(file: str) -> str:
    path = _relative(file)
    try:
        encoded = quote(path, errors="surrogateescape")  # the bytes of a name that is not UTF-8
    except UnicodeEncodeError:
        encoded = quote(path, errors="surrogatepass")
    return f"file://{encoded}" if os.path.isabs(path) else encoded


def _relative(file: str) -> str:
    """The path from the working directory, if the file lies in it."""
    path = Path(os.path.normpath(file))
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def format_decision(
    decision: Decision,
    grant_requests: Sequence[str] = (),
    name: str = "",
    quiet: bool = False,
    paint: Paint = leave_plain,
) -> str:
    """Format all findings with excerpts, the requests of grants, grants that unlock nothing, and the counts.

    Many findings of a policy at one place, such as of members of a group, are one with a count, unless they are
    explained. With several templates, `name` is that of this one.
    """
    lines: list[str] = []
    explanation = decision.explanation if isinstance(decision, ExplainedDecision) else None
    alike: dict[object, list[tuple[Violation, str]]] = {}
    for at, (violation, word) in enumerate(_worded(decision)):
        resource = violation.resource
        if explanation or violation.because or violation.place is None or resource is None:
            alike[at] = [(violation, word)]
            continue
        others = tuple(value for value in violation.row if value != resource)
        kind = violation.policy, word, violation.place, others, violation.hint, violation.waiver, violation.change
        alike.setdefault(kind, []).append((violation, word))
    for findings in alike.values():
        shown = findings if len(findings) <= MOST_ALIKE else findings[:1]
        for violation, word in shown:
            head = _format_head(violation, word, name, paint)
            lines.append(head if violation.mode == "enforce" else f"{head} ({violation.mode} only)")
            if violation.place:
                lines += excerpt(violation.place, decision.sources, lambda text: paint(text, GREEN))
            lines += map(printable, _format_details(violation, explanation))
        if rest := [violation.resource for violation, _ in findings[len(shown) :]]:
            paths = list(dict.fromkeys(resource.path for resource in rest if resource))
            more = ", ..." if paths[MOST_ALIKE:] else ""
            lines.append(printable(f"  and {len(rest)} more here: {', '.join(paths[:MOST_ALIKE])}{more}"))
    lines += _format_errors(decision, name, paint)
    if quiet:
        return "\n".join(lines)
    if explanation:
        for policy, rows in explanation.clean().items():
            lines.append(_format_line(None, "clean", policy, _format_examined(rows), "", paint))
    lines += map(printable, grant_requests)
    for grant in decision.grants:
        if not grant.unlocked:
            lines.append(printable(f"grant {grant.grant.path} does not unlock {grant.service}: {grant.reason}"))
    by_policy = Counter(violation.policy for violation, _ in _worded(decision))
    if by_policy.total() > MANY:
        counts = ", ".join(f"{policy} {count}" for policy, count in by_policy.most_common())
        lines.append(printable(f"by policy: {counts}"))
    return "\n".join([*lines, printable(_in_template(_format_counts(decision), None, name))])


def format_compact(decision: Decision, name: str = "", quiet: bool = False, paint: Paint = leave_plain) -> str:
    """Format one line for each finding, and the counts; each names the template of that name."""
    lines = [_format_head(violation, word, name, paint) for violation, word in _worded(decision)]
    counts = [] if quiet else [printable(_in_template(_format_counts(decision), None, name))]
    return "\n".join([*lines, *_format_errors(decision, name, paint), *counts])


def _worded(decision: Decision) -> Iterator[tuple[Violation, str]]:
    """All findings of a decision, each with its first word."""
    yield from ((violation, _word(violation)) for violation in decision.violations)
    yield from ((violation, "undetermined") for violation in decision.undetermined)
    yield from ((violation, "waived") for violation in decision.waived)


def _format_errors(decision: Decision, name: str, paint: Paint) -> list[str]:
    return [_format_line(error.place, "error", error.policy, error.message, name, paint) for error in decision.errors]


def _format_counts(decision: Decision) -> str:
    levels = Counter(_word(violation) for violation in decision.violations)
    counts = [f"{levels['deny']} denied", format_count(levels["warn"], "warning")]
    if decision.compared:
        counts.insert(1, f"{levels[PREEXISTING]} {PREEXISTING}")
    if decision.waived:
        met = dict.fromkeys(violation.waiver for violation in decision.waived if violation.waiver)
        waivers = "; ".join(f"{waiver.id}, {waiver.left(decision.now)}" for waiver in met)
        counts.append(f"{len(decision.waived)} waived ({waivers})")
    counts.append(f"{len(decision.undetermined)} undetermined")
    if decision.errors:
        counts.append(f"{len(decision.errors)} in error")
    policies, facts = decision.counts["policies"], decision.counts["facts"]
    size = f"{format_count(policies, 'policy', 'policies')}, {format_count(facts, 'fact')}"
    if skipped := len(decision.skipped):
        size += f"; {format_count(skipped, 'policy judges', 'policies judge')} the whole cloud: skipped"
    return f"{', '.join(counts)}; {size}; {decision.outcome}; decision {decision.id[:SHORT]}"


def format_waiver_notes(waivers: Sequence[Waiver], decisions: Sequence[Decision]) -> Iterator[str]:
    """Format notes on waivers that end soon, and on those that no finding used."""
    used = {waiver: decision.now for decision in decisions for waiver in decision.waivers}
    for waiver, now in used.items():
        if waiver.ends_soon(now):
            yield f"waiver {waiver.id} ends soon: {waiver.left(now)}"
    if unused := [waiver.id for waiver in waivers if waiver not in used]:
        more = ", ..." if unused[10:] else ""
        yield f"{len(unused)} of {len(waivers)} waivers matched nothing here: {', '.join(unused[:10])}{more}"


def format_comparison_notes(inputs: Collection[RelationRef], decisions: Sequence[Decision]) -> Iterator[str]:
    """Format a note if rules read the changes of an update, but no old stack is given."""
    read = sorted(str(relation) for relation in inputs if compares_states([relation]))
    if read and any(decision.action in CHANGING and not decision.compared for decision in decisions):
        yield f"the rules read {', '.join(read)}, but the state of the stack before is not given: use --against OLD"


def _format_details(violation: Violation, explanation: Explanation | None) -> Iterator[str]:
    """The lines below the excerpt: what it depends on, why it holds, and what to change."""
    for unknown in violation.unknowns:
        yield f"  unknown  {unknown.expression}{f'   {unknown.place}' if unknown.place else ''}"
    explained = explanation.of(violation) if explanation else None
    if explained:
        from datalog_gate.explain.explanation import format_lines

        yield from format_lines(explained.lines)
    if violation.waiver:
        yield f"  waiver  {violation.waiver}"
    elif violation.hint:
        yield f"  hint  {violation.hint}"
    if explained and explained.fix:
        yield f"  fix   {explained.fix.text}" + (f"   {explained.fix.where}" if explained.fix.where else "")


def _format_head(violation: Violation, word: str, name: str, paint: Paint) -> str:
    message = violation.full_message if word == PREEXISTING else format_message(violation)
    return _format_line(violation.place, word, violation.policy, message, name, paint)


def _format_line(place: Span | None, word: str, rule: str, message: str, name: str, paint: Paint) -> str:
    """The line about a finding, with its first word in a colour."""
    before, after = _template_parts(message, place, name)
    beginning, rest = printable(f"{before}{_at(place)}"), printable(f"[{rule}] {message}{after}")
    return f"{beginning}{paint(word, WORDS.get(word, CYAN))}{rest}"


def _word(violation: Violation) -> str:
    """The level of a violation, or `preexisting`."""
    return PREEXISTING if violation.tolerated else violation.level


def format_message(violation: Violation) -> str:
    """Format the message of a violation, and whether it was there before."""
    return f"{violation.full_message} ({PREEXISTING})" if violation.change == PREEXISTING else violation.full_message


def _format_examined(rows: Mapping[str, int]) -> str:
    """Format how many rows a policy examined."""
    if not any(rows.values()):
        return f"looked at nothing: there is no row of {', '.join(rows) or 'anything'}"
    counts = ", ".join(f"{name} {count}" for name, count in rows.items() if count)
    total = sum(rows.values())
    empty = ", ".join(name for name, count in rows.items() if not count)
    return f"looked at {format_count(total, 'row')}: {counts}" + (f"; no row of {empty}" if empty else "")


def _at(place: Span | None) -> str:
    return f"{place}: " if place else ""
