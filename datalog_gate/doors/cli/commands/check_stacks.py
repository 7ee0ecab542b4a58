"""The command `check`: judges templates or live stacks by the rules."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from datalog_gate.analysis.policy import LEVELS
from datalog_gate.api import DecisionInputs, ExplainedDecision, Rules
from datalog_gate.base.diagnostics import Diagnostic, Severity, render
from datalog_gate.base.errors import EngineError, GateError, InputError, UsageError
from datalog_gate.base.records import dataclass, replace
from datalog_gate.decision.decision import Decision, Waiver
from datalog_gate.doors.cli.colours import choose_paint
from datalog_gate.doors.cli.common import DENIED, INPUT, OK, RULES, UNDECIDED, USAGE, load_rules, print_note, write_file
from datalog_gate.doors.cli.processes import map_in_processes
from datalog_gate.doors.cli.reports.entries import SEVERITIES, ReportEntry
from datalog_gate.doors.cli.reports.formats import DOCUMENTS, FOR_PEOPLE, format_entry, format_report
from datalog_gate.doors.cli.reports.github import format_warnings
from datalog_gate.doors.cli.reports.html import require_pages
from datalog_gate.doors.cli.reports.text import (
    Detail,
    format_comparison_notes,
    format_preexisting,
    format_total,
    format_waiver_notes,
)
from datalog_gate.doors.cli.tolerance import (
    find_baseline,
    find_keys,
    find_sources,
    note_gone,
)
from datalog_gate.files.baseline import Baseline, format_baseline
from datalog_gate.files.inputs import read_caller_file
from datalog_gate.files.root_templates import RootTemplate, find_roots, read_versions
from datalog_gate.files.tolerated_findings import find_idle_ignores, find_modes
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Stack

if TYPE_CHECKING:
    from datalog_gate.doors.cli.fixing import Fixing

PRECEDENCE = (USAGE, RULES, INPUT, DENIED, UNDECIDED, OK)
"""The exit code for several templates is the first of these that any template gives."""


def check(options: argparse.Namespace) -> int:
    """Judge each template, or all together, and print each decision."""
    if options.show_config:
        from datalog_gate.doors.cli.configuration_report import print_configuration

        print_configuration(options)
        return OK
    _wants_pages(options)
    roots = find_roots(options.template, options.configuration)
    groups = [roots] if options.together else [[root] for root in roots]
    fixes = options.fix or options.diff
    checker = _prepare(options, once=len(groups) == 1 and not fixes)
    if fixes:
        explaining = argparse.Namespace(**{**vars(options), "explain": True, "format": "text", "output": []})
        fixing = _fix(groups, replace(checker, options=explaining).judge, options)
        if options.diff:
            return _compute_code(fixing.before, options)
        groups = fixing.groups
    answers = _show_progress(_judge_groups(checker, groups), len(groups), options)
    entries = _print_entries(answers, len(groups) > 1, options)
    _report(checker, entries)
    code = _compute_code(entries, options)
    decisions = [entry.answer for entry in entries if isinstance(entry.answer, Decision)]
    built = [answer for answer in decisions if all(warning.code != "no-resources" for warning in answer.near_misses)]
    return code if built or code != OK else INPUT


@dataclass(frozen=True, slots=True)
class _Checker:
    """What all templates are judged with."""

    options: argparse.Namespace
    rules: Rules
    given: DecisionInputs
    waivers: Sequence[Waiver]
    baseline: Baseline | None

    def judge(self, group: list[RootTemplate]) -> ReportEntry:
        """Judge templates as one set of facts."""
        templates = tuple(root.template for root in group)
        try:
            return self._judge(group, templates)
        except (InputError, EngineError) as error:
            return ReportEntry(", ".join(templates), error)

    def _judge(self, group: list[RootTemplate], templates: tuple[str, ...]) -> ReportEntry:
        options, rules = self.options, self.rules
        pages = _wants_pages(options)
        stacks, old = read_versions(group, options.configuration, rules.catalogue, _read_live)
        given: DecisionInputs = {**self.given, "against": old, "explain": bool(options.explain) or pages}
        tolerated = rules.check(stacks, templates, options.configuration, self.baseline, **given)
        warnings = [warning for stack in stacks for warning in stack.warnings]
        entry = ReportEntry(
            name=", ".join(templates),
            answer=replace(tolerated.decision, near_misses=(*warnings, *tolerated.decision.near_misses)),
            templates=templates,
            grant_requests=_describe_grants(stacks, tolerated.decision),
            keys=tolerated.keys,
            ignores=tolerated.ignores,
            used=tolerated.used,
            refusals=tolerated.refusals,
        )
        return _add_page(entry, stacks, options) if pages else entry


def _read_live(name: str, stack_name: str | None, catalogue: Catalogue) -> Stack:
    from datalog_gate.doors.cli.heat_client import read_live

    return read_live(name, stack_name, catalogue)


def _prepare(options: argparse.Namespace, once: bool) -> _Checker:
    """Load what all templates are judged with, and print the warnings about it. `once` says that only one is judged."""
    caller, caller_error = read_caller_file(options.caller)
    baseline = find_baseline(options)
    rules = load_rules(options)
    modes = find_modes(rules.policies, options.configuration)
    try:
        inventory = None if options.inventory is None else rules.inventory(options.inventory)
    except InputError:  # each decision reports it
        inventory = options.inventory
    for warning in (*rules.warnings, *rules.find_idle(options.configuration, caller, inventory)):
        print(render(warning, rules.sources), file=sys.stderr)
    if caller_error:
        raise caller_error
    waivers = rules.waivers(options.waivers or ())
    given: DecisionInputs = {
        "caller": caller,
        "services": options.services,
        "inventory": inventory,
        "waivers": waivers,
        "now": options.now,
        "engine": options.engine,
        "mode": options.mode,
        "modes": modes,
        "near_misses": True,
        "cloud": {} if options.together else None,
        "once": once,
    }
    return _Checker(options, rules, given, waivers, baseline)


def _report(checker: _Checker, entries: Sequence[ReportEntry]) -> None:
    """Print documents and notes about all entries, and write the outputs."""
    options, rules, baseline = checker.options, checker.rules, checker.baseline
    failing = _find_failing(options) or SEVERITIES[:1]
    if options.format in DOCUMENTS:
        print(format_report(options.format, entries, rules.policies, failing), end="")
    decisions = [entry.answer for entry in entries if isinstance(entry.answer, Decision)]
    ignores = {ignore for entry in entries for ignore in entry.ignores}
    used = {ignore for entry in entries for ignore in entry.used}
    idle = find_idle_ignores(decisions, rules.policies, ignores, used, options.configuration)
    for warning in idle:
        print(render(warning, find_sources(entries)), file=sys.stderr)
    if options.format == "github":
        print(format_warnings(idle), end="")
    if not options.quiet:
        notes = [*format_waiver_notes(checker.waivers, decisions)]
        notes += format_comparison_notes(rules.compared_relations, decisions)
        notes += [note] if baseline and (note := note_gone(baseline, entries)) else []
        for note in notes:
            print_note(note)
    for form, path in options.output:
        if form == "baseline":
            write_file(path, format_baseline(find_keys(entries), path))
        else:
            more = format_warnings(idle) if form == "github" else ""
            write_file(path, format_report(form, entries, rules.policies, failing) + more)


def _fix(
    groups: Sequence[list[RootTemplate]],
    judge: Callable[[list[RootTemplate]], ReportEntry],
    options: argparse.Namespace,
) -> Fixing:
    """Fix the templates, or show the difference, and print what was fixed. Errors: UsageError."""
    from datalog_gate.doors.cli.fixing import Fixing

    if options.stack or groups[0][0].unsaved:
        raise UsageError("--fix and --diff need templates in files")
    fixing = Fixing(groups, judge)
    if options.diff:
        print(fixing.format_diff(), end="")
    else:
        fixing.write()
    for line in fixing.lines:
        print(line, file=sys.stderr)
    return fixing


def _print_entries(answers: Iterable[ReportEntry], several: bool, options: argparse.Namespace) -> list[ReportEntry]:
    """Print each answer as soon as it is there, unless the format is one document, and their total. Return them."""
    entries = []
    warned: set[Diagnostic] = set()
    for entry in answers:
        entries.append(entry)
        if isinstance(entry.answer, EngineError):
            print_note(f"{entry.name}: {entry.answer}")
        if isinstance(entry.answer, Decision):
            shown = entry.refusals if options.format in FOR_PEOPLE else ()
            for problem in (*shown, *entry.answer.near_misses):
                if problem not in warned:
                    warned.add(problem)
                    print(render(problem, entry.answer.sources), file=sys.stderr)
        if options.format not in DOCUMENTS:
            _print_entry(entry, options.format, several, options)
    if options.format in FOR_PEOPLE and several and not options.quiet:
        print(format_total(entries))
    if options.format in FOR_PEOPLE and options.quiet and (line := format_preexisting(entries)):
        print(line)
    return entries


def _judge_groups(checker: _Checker, groups: Sequence[list[RootTemplate]]) -> Iterator[ReportEntry]:
    """Judge groups of templates, in several processes if `--jobs` says so. To save time, worker processes return
    decisions without the `sources` of the rules, which are added here, and without derived rows, which reports do not
    show."""
    options, sources = checker.options, checker.rules.sources
    # explanations are computed when shown, and pydatalog has its own process
    jobs = 1 if options.explain or options.engine != "native" else options.jobs

    def judge_there(group: list[RootTemplate]) -> ReportEntry:
        entry = checker.judge(group)
        if not isinstance(entry.answer, Decision):
            return entry
        own = {file: text for file, text in entry.answer.sources.items() if sources.get(file) is not text}
        return replace(entry, answer=replace(entry.answer, sources=own, derived={}))

    for entry in map_in_processes(checker.judge if jobs == 1 else judge_there, groups, jobs):
        if jobs > 1 and isinstance(entry.answer, Decision):
            entry = replace(entry, answer=replace(entry.answer, sources={**sources, **entry.answer.sources}))
        yield entry


def _show_progress(entries: Iterator[ReportEntry], total: int, options: argparse.Namespace) -> Iterator[ReportEntry]:
    """Yield the entries, with a progress bar on a terminal unless entries are printed there. Needs tqdm."""
    shown = options.format not in DOCUMENTS and sys.stdout.isatty()
    if total == 1 or shown or not sys.stderr.isatty() or not find_spec("tqdm"):
        yield from entries
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=" templates", file=sys.stderr, leave=False) as bar:
        for entry in entries:
            bar.clear()  # warnings are printed on its line
            yield entry
            bar.update()
            bar.refresh()


def _describe_grants(stacks: Sequence[Stack], decision: Decision) -> tuple[str, ...]:
    """What unlocked grants request from their services."""
    if not any(grant.unlocked for grant in decision.grants):
        return ()
    from datalog_gate.decision_point.grant_lines import format_grants

    return format_grants(stacks, decision)


def _add_page(entry: ReportEntry, stacks: Sequence[Stack], options: argparse.Namespace) -> ReportEntry:
    """The entry with the data of its page, and without an explanation that the options do not ask for."""
    decision = entry.answer
    assert isinstance(decision, ExplainedDecision)
    from datalog_gate.pages.decision_page import build_page

    page = build_page(
        decision, decision.explanation, stacks, bool(options.explain), entry.grant_requests, entry.refusals
    )
    return replace(entry, answer=decision if options.explain else decision.bare(), page=page)


def _wants_pages(options: argparse.Namespace) -> bool:
    """Whether a page of HTML is to be written. Errors: UsageError without the extra `pages`."""
    if "html" not in (options.format, *(form for form, _ in options.output)):
        return False
    require_pages()
    return True


def _print_entry(entry: ReportEntry, form: str, named: bool, options: argparse.Namespace) -> None:
    """Print an answer to stdout. In formats for people, invalid input goes to stderr."""
    if form in FOR_PEOPLE and isinstance(entry.answer, Decision):
        detail: Detail = "new" if options.quiet else "all" if options.explain == "all" else "findings"
        print(format_entry(form, entry, named, detail, choose_paint(sys.stdout)), end="", flush=True)
    elif form not in FOR_PEOPLE:
        print(format_entry(form, entry, named), end="", flush=True)
    elif isinstance(entry.answer, InputError):
        print(_named_error(entry) if named else entry.answer, file=sys.stderr)


def _named_error(entry: ReportEntry) -> InputError:
    """The input error of an entry, with the template's name in diagnostics whose place does not have it."""
    assert isinstance(entry.answer, InputError)
    diagnostics = [
        diagnostic
        if _names_template(diagnostic, entry.name)
        else replace(diagnostic, message=f"{diagnostic.message} (in {entry.name})")
        for diagnostic in entry.answer.diagnostics
    ]
    return InputError(diagnostics, entry.answer.sources)


def _names_template(diagnostic: Diagnostic, template: str) -> bool:
    """Whether a diagnostic is placed in a template or its folder, or names it without a place."""
    if diagnostic.span is None:
        return template in diagnostic.message
    return diagnostic.span.file == template or diagnostic.span.file.startswith(f"{template.rstrip('/')}/")


def _find_failing(options: argparse.Namespace) -> Sequence[Severity]:
    """The levels of `--fail-on`."""
    return SEVERITIES[: LEVELS.index(options.fail_on) + 1] if options.fail_on in LEVELS else ()


def _compute_code(entries: Sequence[ReportEntry], options: argparse.Namespace) -> int:
    """The exit code for several answers."""
    return min((_exit_code(entry, _find_failing(options), options) for entry in entries), key=PRECEDENCE.index)


def _exit_code(entry: ReportEntry, failing: Sequence[Severity], options: argparse.Namespace) -> int:
    """The exit code of one answer. `failing` are the levels of `--fail-on`."""
    answer = entry.answer
    if entry.mistakes:
        return INPUT
    if isinstance(answer, InputError):
        return INPUT if any(diagnostic.severity == "error" for diagnostic in answer.diagnostics) else OK
    if isinstance(answer, GateError):
        return UNDECIDED
    if any(warning.severity == "error" for warning in answer.near_misses):
        return INPUT
    levels = {violation.severity for violation in answer.violations if not violation.tolerated}
    unknown = any(not violation.tolerated for violation in answer.undetermined)
    if options.fail_on != "never" and (answer.outcome == "deny" or levels & set(failing)):
        return DENIED
    if answer.outcome == "indeterminate" or (options.strict_unknown and unknown):
        return UNDECIDED
    return OK
