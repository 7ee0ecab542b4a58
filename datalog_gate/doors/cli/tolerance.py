"""Findings tolerated by a check: ignores, a baseline, policies left out."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence

from datalog_gate.api import ExplainedDecision, Rules
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import replace
from datalog_gate.decision.decision import Decision
from datalog_gate.doors.cli.reports.entries import ReportEntry
from datalog_gate.files import tolerated_findings
from datalog_gate.files.baseline import Baseline, Templates, read_baseline
from datalog_gate.files.ignores import Ignore, find_idle, leave_out_ignored
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Stack
from datalog_gate.validation import refusals as heat_refusals


def find_baseline(options: argparse.Namespace) -> Baseline | None:
    """The baseline that the options name; none if this run creates it. Errors: InputError."""
    written = [os.path.abspath(path) for form, path in options.output if form == "baseline"]
    if not options.baseline or (not os.path.lexists(options.baseline) and os.path.abspath(options.baseline) in written):
        return None
    return read_baseline(options.baseline)


def find_modes(rules: Rules, options: argparse.Namespace) -> dict[str, str]:
    """The policies that `--select` and `--ignore` switch off. Errors: UsageError for an unknown policy, and if none is
    left."""
    return tolerated_findings.find_modes(rules.policies, options.select, options.ignore)


def find_shown_refusals(
    stacks: Sequence[Stack], options: argparse.Namespace, catalogue: Catalogue
) -> tuple[Diagnostic, ...]:
    """What the Heat of `--heat` would refuse of stacks, and with `--deprecated` what it hides or deprecates. `--select`
    and `--ignore` leave out codes."""
    searches = [heat_refusals.find_refusals]
    if options.deprecated:
        from datalog_gate.validation.deprecation import find_deprecated

        searches.append(find_deprecated)
    types = catalogue.of_heat(options.heat)
    found = (refusal for stack in stacks for search in searches for refusal in search(stack, types))
    return tolerated_findings.leave_out(found, options.select, options.ignore)


def find_further_refusals(
    error: InputError, options: argparse.Namespace, catalogue: Catalogue
) -> tuple[Diagnostic, ...]:
    """What Heat would refuse besides what could not be read, as `find_shown_refusals`, but for what comments ignore."""
    found = heat_refusals.find_further_refusals(error, catalogue.of_heat(options.heat))
    left_out = options.select, options.ignore, options.now
    return tolerated_findings.leave_out_further(found, error.sources, *left_out)


def tolerate(
    entry: ReportEntry, decision: Decision, stacks: Sequence[Stack], rules: Rules, baseline: Baseline | None
) -> ReportEntry:
    """The entry with comments in the templates and the baseline applied to its decision and refusals."""
    sources = {file: text for stack in stacks for file, text in stack.sources.items()}
    tolerant, keys, ignores, used = tolerated_findings.tolerate(
        decision,
        templates=entry.templates,
        sources=sources,
        policies=rules.policies,
        program=rules.program,
        baseline=baseline,
    )
    if isinstance(decision, ExplainedDecision):
        decision.explain_too(tolerant)
    warnings = [warning for stack in stacks for warning in stack.warnings]
    tolerant = replace(tolerant, near_misses=(*warnings, *tolerant.near_misses))
    refusals, covering = leave_out_ignored(entry.refusals, ignores, decision.now)
    return replace(entry, answer=tolerant, keys=keys, ignores=ignores, used=used | covering, refusals=refusals)


def find_idle_ignores(
    entries: Sequence[ReportEntry], rules: Rules, options: argparse.Namespace
) -> Iterator[Diagnostic]:
    """Warn about ignores that are expired, or match no finding of the policies that judged."""
    decisions = [entry.answer for entry in entries if isinstance(entry.answer, Decision)]
    if not decisions:
        return
    off = find_modes(rules, options)
    skipped = {policy for decision in decisions for policy in decision.skipped}
    action = decisions[0].action
    judged = {policy.id for policy in rules.policies if action in policy.on} - off.keys() - skipped
    judged |= tolerated_findings.find_left_codes(options.select, options.ignore)
    judged -= {"deprecated"} if not options.deprecated else set()
    ignores: set[Ignore] = {ignore for entry in entries for ignore in entry.ignores if ignore.policy in judged}
    used = {ignore for entry in entries for ignore in entry.used}
    yield from find_idle(ignores, used, decisions[0].now)


def note_gone(baseline: Baseline, entries: Sequence[ReportEntry]) -> str:
    """A note on findings of the baseline that no longer exist; empty if there are none."""
    judged = {entry.templates for entry in entries if isinstance(entry.answer, Decision)}
    gone = baseline.count_gone(judged, set(find_keys(entries)))
    if not gone:
        return ""
    are = "finding of {} is gone" if gone == 1 else "findings of {} are gone"
    return f"{gone} {are.format(baseline.file)}: write it again with --output baseline={baseline.file}"


def find_keys(entries: Sequence[ReportEntry]) -> Iterator[tuple[Templates, str]]:
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
