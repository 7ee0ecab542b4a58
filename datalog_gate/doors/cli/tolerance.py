"""Findings tolerated by a check: ignores, a baseline, policies left out."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence

from datalog_gate.decision.decision import Decision
from datalog_gate.doors.cli.reports.entries import ReportEntry
from datalog_gate.files.baseline import Baseline, read_baseline


def find_baseline(options: argparse.Namespace) -> Baseline | None:
    """The baseline that the options name; none if this run creates it. Errors: InputError."""
    written = [os.path.abspath(path) for form, path in options.output if form == "baseline"]
    if not options.baseline or (not os.path.lexists(options.baseline) and os.path.abspath(options.baseline) in written):
        return None
    return read_baseline(options.baseline)


def note_gone(baseline: Baseline, entries: Sequence[ReportEntry]) -> str:
    """A note on findings of the baseline that no longer exist; empty if there are none."""
    judged = {entry.templates for entry in entries if isinstance(entry.answer, Decision)}
    gone = baseline.count_gone(judged, set(find_keys(entries)))
    if not gone:
        return ""
    are = "finding of {} is gone" if gone == 1 else "findings of {} are gone"
    return f"{gone} {are.format(baseline.file)}: write it again with --output baseline={baseline.file}"


def find_keys(entries: Sequence[ReportEntry]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The templates and key of each finding that is neither waived nor ignored."""
    for entry in entries:
        if isinstance(entry.answer, Decision):
            for finding in (*entry.answer.violations, *entry.answer.undetermined):
                yield entry.templates, entry.keys[finding.policy, finding.row]


def find_sources(entries: Sequence[ReportEntry]) -> Mapping[str, str]:
    """The texts of rules and templates by file."""
    return {
        file: text
        for entry in entries
        if isinstance(entry.answer, Decision)
        for file, text in entry.answer.sources.items()
    }
