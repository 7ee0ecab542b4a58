"""The format `sarif`: a document of SARIF 2.1.0."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import quote

from datalog_gate import __version__
from datalog_gate.analysis.policy import LEVELS, Policy
from datalog_gate.base.diagnostics import CODES, Span, printable
from datalog_gate.doors.cli.reports.entries import (
    SEVERITIES,
    ReportedFinding,
    ReportEntry,
    make_relative,
    name_findings,
)

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def format_sarif(entries: Sequence[ReportEntry], policies: Sequence[Policy], _failing: object) -> str:
    """Format the findings of all entries. `policies` are those that judged."""
    several = len(entries) > 1
    return format_findings([finding for entry in entries for finding in name_findings(entry, several)], policies)


def format_findings(findings: Sequence[ReportedFinding], policies: Sequence[Policy]) -> str:
    """Format one run of SARIF, whose rules are the policies, and the codes of diagnostics that occur.

    An undetermined finding is a result of kind `open`, which has the level `none` (SARIF 2.1.0, 3.27.10).
    """
    rules = [_build_rule(policy) for policy in policies]
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
            _build_result(finding, index[finding.rule], finding.place or declared.get(finding.rule))
            for finding in findings
        ],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _build_rule(policy: Policy) -> dict[str, object]:
    default = dict(zip(LEVELS, SEVERITIES, strict=True))[policy.level]
    rule: dict[str, object] = {
        "id": policy.id,
        "shortDescription": _build_message(policy.message),
        "defaultConfiguration": {"level": default},
    }
    if doc := policy.texts.get("doc"):
        rule["fullDescription"] = _build_message(doc)
    if policy.hint:
        rule["help"] = _build_message(policy.hint)
    if "://" in (url := policy.texts.get("url", "")):
        rule["helpUri"] = quote(url, safe="%/:?#[]@!$&'()*+,;=~")
    if tags := policy.lists.get("tags"):
        rule["properties"] = {"tags": list(dict.fromkeys(tags))}
    return rule


def _build_result(finding: ReportedFinding, index: int, place: Span | None) -> dict[str, object]:
    location = _build_location(place)
    if finding.resource:
        location["logicalLocations"] = [{"fullyQualifiedName": printable(finding.resource), "kind": "resource"}]
    is_waived = finding.state in ("waived", "ignored")
    is_open = finding.state == "unknown" or (is_waived and finding.because)
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "kind": "open" if is_open else "fail",
        "level": "none" if is_open else finding.severity,
        "message": _build_message(finding.message + (f" ({finding.help})" if finding.help and not is_waived else "")),
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
            {**_build_location(unknown_place), "message": _build_message(expression)}
            for expression, unknown_place in dict.fromkeys(finding.because)
        ]
    return result


def _build_location(place: Span | None) -> dict[str, object]:
    if place is None or not place.line:
        return {}
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    return {"physicalLocation": {"artifactLocation": {"uri": _build_uri(place.file)}, "region": region}}


def _build_message(text: str) -> dict[str, str]:
    """A message of SARIF, in which ``[a](b)`` would be a link (3.11.6)."""
    return {"text": printable(text).replace("](", "] (")}


def _build_uri(file: str) -> str:
    path = make_relative(file)
    try:
        encoded = quote(path, errors="surrogateescape")  # the bytes of a name that is not UTF-8
    except UnicodeEncodeError:
        encoded = quote(path, errors="surrogatepass")
    return f"file://{encoded}" if os.path.isabs(path) else encoded
