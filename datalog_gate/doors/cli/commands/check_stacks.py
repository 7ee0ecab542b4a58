"""The command `check`: judges templates or live stacks by the rules."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING

from datalog_gate.analysis.program import Compare, Const, Match
from datalog_gate.api import ExplainedDecision, Rules
from datalog_gate.base.diagnostics import Diagnostic, Severity, closest, render
from datalog_gate.base.errors import EngineError, GateError, InputError, UsageError
from datalog_gate.base.records import replace
from datalog_gate.base.values import ResourceId, Unknown, show
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import Decision, Waiver
from datalog_gate.doors.cli.colours import choose_paint
from datalog_gate.doors.cli.common import DENIED, INPUT, OK, RULES, UNDECIDED, USAGE, load_rules, print_note, write_file
from datalog_gate.doors.cli.processes import map_in_processes
from datalog_gate.doors.cli.reports.entries import SEVERITIES, ReportEntry, compute_severity
from datalog_gate.doors.cli.reports.formats import DOCUMENTS, FOR_PEOPLE, format_entry, format_report
from datalog_gate.doors.cli.reports.github import format_warnings
from datalog_gate.doors.cli.reports.text import (
    Detail,
    format_comparison_notes,
    format_preexisting,
    format_total,
    format_waiver_notes,
)
from datalog_gate.doors.cli.template_args import (
    STANDARD_INPUT,
    RootTemplate,
    find_roots,
    read_caller_file,
    read_old_stack,
    read_stacks,
)
from datalog_gate.doors.cli.tolerance import (
    find_baseline,
    find_idle_ignores,
    find_keys,
    find_modes,
    find_shown_refusals,
    find_sources,
    note_gone,
    tolerate,
)
from datalog_gate.files.baseline import Baseline, format_baseline
from datalog_gate.files.check_options import FAIL_ON
from datalog_gate.files.run_inputs import RunInputs, find_unfilled
from datalog_gate.stack.model import Data, Stack

if TYPE_CHECKING:
    from datalog_gate.doors.cli.fixing import Fixing
    from datalog_gate.services.contract import Request

LONGEST_WAIT = 366
"""The number of days from which a policy's `enforce_from` is probably a typo."""
LONGEST_WAIVER = 3 * LONGEST_WAIT
"""The number of days from which a waiver is probably meant to be permanent."""
PRECEDENCE = (USAGE, RULES, INPUT, DENIED, UNDECIDED, OK)
"""The exit code for several templates is the first of these that any template gives."""


def check(options: argparse.Namespace) -> int:
    """Judge each template, or all together, and print each decision."""
    if options.show_config:
        from datalog_gate.doors.cli.configuration_report import print_configuration

        print_configuration(options)
        return OK
    _wants_pages(options)
    roots = find_roots(options)
    caller, caller_error = read_caller_file(options.caller)
    baseline = find_baseline(options)
    rules = load_rules(options)
    modes = find_modes(rules, options)
    inventory = _load_inventory(rules, options.inventory)
    today = (options.now or datetime.now(UTC)).date()
    for warning in _find_warnings(rules, options, inventory, caller, today):
        print(render(warning, rules.sources), file=sys.stderr)
    if caller_error:
        raise caller_error
    waivers = rules.waivers(options.waivers or ())
    for warning in _find_distant_waivers(waivers, today):
        print(render(warning, {}), file=sys.stderr)
    failing = SEVERITIES[: FAIL_ON.index(options.fail_on) + 1] if options.fail_on in FAIL_ON[:3] else ()
    groups = [roots] if options.together else [[root] for root in roots]
    once = len(groups) == 1 and not (options.fix or options.diff)

    def judge(group: list[RootTemplate], options: argparse.Namespace = options) -> ReportEntry:
        return _check_group(group, options, rules, caller, waivers, inventory, modes, baseline, once)

    if options.fix or options.diff:
        explaining = argparse.Namespace(**{**vars(options), "explain": True, "format": "text", "output": []})
        fixing = _fix(groups, lambda group: judge(group, explaining), options)
        if options.diff:
            return min((_exit_code(entry, failing, options) for entry in fixing.before), key=PRECEDENCE.index)
        groups = fixing.groups

    # explanations are computed when shown, and pydatalog has its own process
    jobs = 1 if options.explain or options.engine != "native" else options.jobs
    answers = _show_progress(_judge_groups(judge, groups, jobs, rules.sources), len(groups), options)
    entries = _print_entries(answers, len(groups) > 1, options)
    failing_tests = failing or SEVERITIES[:1]
    if options.format in DOCUMENTS:
        print(format_report(options.format, entries, rules.policies, failing_tests), end="")
    decisions = [entry.answer for entry in entries if isinstance(entry.answer, Decision)]
    idle = list(find_idle_ignores(entries, rules, options))
    for warning in idle:
        print(render(warning, find_sources(entries)), file=sys.stderr)
    if options.format == "github":
        print(format_warnings(idle), end="")
    notes = [*format_waiver_notes(waivers, decisions), *format_comparison_notes(rules.program.inputs, decisions)]
    notes += [note] if baseline and (note := note_gone(baseline, entries)) else []
    if not options.quiet:
        for note in notes:
            print_note(note)
    for form, path in options.output:
        if form == "baseline":
            write_file(path, format_baseline(find_keys(entries), path))
        else:
            more = format_warnings(idle) if form == "github" else ""
            write_file(path, format_report(form, entries, rules.policies, failing_tests) + more)
    code = min((_exit_code(entry, failing, options) for entry in entries), key=PRECEDENCE.index)
    built = [answer for answer in decisions if all(warning.code != "no-resources" for warning in answer.near_misses)]
    return code if built or code != OK else INPUT


def _fix(
    groups: Sequence[list[RootTemplate]],
    judge: Callable[[list[RootTemplate]], ReportEntry],
    options: argparse.Namespace,
) -> Fixing:
    """Fix the templates, or show the difference, and print what was fixed. Errors: UsageError."""
    from datalog_gate.doors.cli.fixing import Fixing

    if options.stack or STANDARD_INPUT in options.template:
        raise UsageError("--fix and --diff need templates in files")
    fixing = Fixing(groups, judge)
    if options.diff:
        print(fixing.format_diff(), end="")
    else:
        fixing.write()
    for line in fixing.lines:
        print(line, file=sys.stderr)
    return fixing


def _find_warnings(
    rules: Rules,
    options: argparse.Namespace,
    inventory: Inventory | str | None,
    caller: Mapping[str, object] | None,
    today: date,
) -> list[Diagnostic]:
    """The warnings about the rules, and about what options and inputs leave without effect. Errors: RulesError."""
    given = RunInputs(
        inventory=inventory,
        inventory_file=options.inventory,
        caller=caller,
        caller_file=options.caller,
        services=options.services,
        stack=options.stack,
    )
    return [
        *rules.warnings,
        *_find_idle_options(rules, options),
        *_find_distant_policies(rules, today),
        *_find_distant_times(rules, today),
        *find_unfilled(rules.program, rules.catalogue, given),
        *(inventory.warnings if isinstance(inventory, Inventory) else ()),
    ]


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


def _judge_groups(
    judge: Callable[[list[RootTemplate]], ReportEntry],
    groups: Sequence[list[RootTemplate]],
    jobs: int,
    sources: Mapping[str, str],
) -> Iterator[ReportEntry]:
    """Judge groups of templates, in several processes if `jobs` says so. To save time, worker processes return
    decisions without the `sources` of the rules, which are added here, and without derived rows, which reports do not
    show."""

    def judge_there(group: list[RootTemplate]) -> ReportEntry:
        entry = judge(group)
        if not isinstance(entry.answer, Decision):
            return entry
        own = {file: text for file, text in entry.answer.sources.items() if sources.get(file) is not text}
        return replace(entry, answer=replace(entry.answer, sources=own, derived={}))

    for entry in map_in_processes(judge if jobs == 1 else judge_there, groups, jobs):
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


def _check_group(
    group: list[RootTemplate],
    options: argparse.Namespace,
    rules: Rules,
    caller: dict[str, object] | None,
    waivers: tuple[Waiver, ...],
    inventory: Inventory | str | None,
    modes: Mapping[str, str],
    baseline: Baseline | None,
    once: bool,
) -> ReportEntry:
    """Judge templates as one set of facts."""
    pages = _wants_pages(options)
    templates = tuple(root.template for root in group)
    name = ", ".join(templates)
    try:
        stacks = read_stacks(group, options, rules.catalogue)
        refusals = () if options.stack else find_shown_refusals(stacks, options, rules.catalogue)
        decision = rules.decide(
            stacks,
            action=options.action,
            against=read_old_stack(group[0], options, rules.catalogue),
            caller=caller,
            services=options.services,
            inventory=inventory,
            waivers=waivers,
            now=options.now,
            engine=options.engine,
            mode=options.mode,
            modes=modes,
            explain=bool(options.explain) or pages,
            near_misses=True,
            cloud={} if options.together else None,
            once=once,
        )
        entry = ReportEntry(name, decision, templates, format_grant_requests(stacks, decision))
        entry = tolerate(replace(entry, refusals=refusals), decision, stacks, rules, baseline)
        if not (pages and isinstance(entry.answer, ExplainedDecision)):
            return entry
        from datalog_gate.pages.decision_page import build_page

        decision = entry.answer
        page = build_page(
            decision, entry.answer.explanation, stacks, bool(options.explain), entry.grant_requests, entry.refusals
        )
        return replace(entry, answer=decision if options.explain else entry.answer.bare(), page=page)
    except (InputError, EngineError) as error:
        return ReportEntry(name, error)


def _wants_pages(options: argparse.Namespace) -> bool:
    """Whether a page of HTML is to be written. Errors: UsageError without the extra `pages`."""
    if "html" not in (options.format, *(form for form, _ in options.output)):
        return False
    if find_spec("jinja2") is None:
        raise UsageError("the format html needs Jinja2: pip install 'datalog-gate[pages]'")
    return True


def _load_inventory(rules: Rules, path: str | None) -> Inventory | str | None:
    """Load the inventory once. If it can't be read, return its path: then each decision reports the error."""
    if path is None:
        return None
    try:
        return rules.inventory(path)
    except InputError:
        return path


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
    levels = {compute_severity(violation) for violation in answer.violations if not violation.tolerated}
    unknown = any(not violation.tolerated for violation in answer.undetermined)
    if options.fail_on != "never" and (answer.outcome == "deny" or levels & set(failing)):
        return DENIED
    if answer.outcome == "indeterminate" or (options.strict_unknown and unknown):
        return UNDECIDED
    return OK


def _find_idle_options(rules: Rules, options: argparse.Namespace) -> Iterator[Diagnostic]:
    """Warn about an action without policies, and about services that no rule names although one has a similar name."""
    from datalog_gate.analysis.strata import matches

    action = options.action or ("update" if options.against else "create")
    judged = [policy.id for policy in rules.policies if action in policy.on]
    if not judged:
        message = f"no policy is judged on {action}: everything passes"
        yield Diagnostic("no-policy", message, None, f'write on=["{action}"] in the policies that should be', "warning")
    elif rules.cloud_wide.issuperset(judged) and not options.together:
        message = f"all policies on {action} judge the whole cloud: everything passes"
        yield Diagnostic("no-policy", message, None, "give all templates of the cloud, with --together", "warning")
    constants = {
        argument.value
        for rule in (rules.program.rules if options.services else ())
        for match in matches(rule.body)
        if match.relation in ("gate:service", "gate:grant")
        for argument in match.arguments
        if isinstance(argument, Const)
    }
    named = {value for value in constants if isinstance(value, str)}
    for service in options.services:
        if service not in named and (near := closest(service, named)):
            message = f"no rule names the service {service}"
            yield Diagnostic("unknown-service", message, None, f"did you mean --services {near}?", "warning")


def _find_distant_policies(rules: Rules, today: date) -> Iterator[Diagnostic]:
    """Warn about policies that are enforced only after more than a year."""
    for policy in rules.policies:
        if policy.enforce_from and (policy.enforce_from - today).days > LONGEST_WAIT:
            message = f"{policy.id} only warns until {policy.enforce_from}"
            yield Diagnostic("far-date", message, policy.span, "write the date from which it should deny", "warning")


def _find_distant_waivers(waivers: Sequence[Waiver], today: date) -> Iterator[Diagnostic]:
    """Warn about waivers that expire only after years."""
    for waiver in waivers:
        if (waiver.until.date() - today).days > LONGEST_WAIVER:
            message = f"{waiver.id} waives {waiver.policy} until {waiver.expires}"
            yield Diagnostic("far-date", message, None, "write a date by which it should be reviewed", "warning")


def _find_distant_times(rules: Rules, today: date) -> Iterator[Diagnostic]:
    """Warn about conditions that hold only after more than a year: ``gate:now(t), t > "2206-12-24"``."""
    from datalog_gate.analysis.constants import read_day

    for rule in rules.program.rules:
        times = {match.arguments[0] for match in rule.body if isinstance(match, Match) and match.relation == "gate:now"}
        for literal in rule.body if times else ():
            match literal:
                case Compare(">" | ">=", time, Const(str() as text)) | Compare("<" | "<=", Const(str() as text), time):
                    day = read_day(text) if time in times else None
                    if day and (day - today).days > LONGEST_WAIT:
                        message, advice = (
                            f"this condition holds only from {day} on",
                            "write the date from which it should hold",
                        )
                        yield Diagnostic("far-date", message, literal.span, advice, "warning")


def format_grant_requests(stacks: Sequence[Stack], decision: Decision) -> tuple[str, ...]:
    """Format what unlocked grants request from their services, with the resources of the grant's own stack."""
    if not any(grant.unlocked for grant in decision.grants):
        return ()
    from datalog_gate.decision_point.grant_requests import build_requests

    requests: dict[str, Request] = {}
    for stack in stacks:
        requests |= build_requests(stack, decision.grants, "")
    lines = []
    for grant in decision.grants:
        if grant.unlocked:
            request = requests[grant.grant.path]
            home = f"{grant.grant.stack}/"
            names = dict.fromkeys(part.id.removeprefix(home).partition("/")[0] for part in request.scope)
            options = f" ({_format_map(request.options)})" if request.options else ""
            lines.append(f"grant {request.grant} asks {request.service} for {', '.join(names)}{options}")
    return tuple(lines)


def _format_map(values: Mapping[str, Data]) -> str:
    return ", ".join(f"{name}: {_format_value(value)}" for name, value in values.items())


def _format_value(value: Data) -> str:
    match value:
        case None | Unknown() | ResourceId():  # a ResourceId is a tuple too
            return show(value)
        case Mapping():
            return f"{{{_format_map(value)}}}"
        case tuple():
            return f"[{', '.join(map(_format_value, value))}]"
        case bool():
            return str(value).lower()
    return str(value)
