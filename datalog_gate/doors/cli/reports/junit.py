"""The format `junit`: a document of JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datalog_gate.analysis.policy import Policy
from datalog_gate.base.diagnostics import Severity, printable
from datalog_gate.decision.decision import Decision
from datalog_gate.doors.cli.reports.entries import TOLERATED, ReportedFinding, ReportEntry, list_findings


def format_junit(entries: Sequence[ReportEntry], policies: Sequence[Policy], failing: Sequence[Severity]) -> str:
    """Format a test suite for each entry, with a case for each policy."""
    from xml.etree import ElementTree as Xml

    root = Xml.Element("testsuites", name="datalog-gate")
    for entry in entries:
        findings = list(list_findings(entry))
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
    failed = [finding for finding in findings if finding.state == "holds" and finding.severity in failing]
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
