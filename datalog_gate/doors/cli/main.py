"""The command line (layer 6): arguments in; the result on stdout, all else on stderr, and an exit code.

Each command is a few lines over a public function.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from datalog_gate.base.diagnostics import Diagnostic, render
from datalog_gate.base.errors import EngineError, GateError, InputError, RulesError, UsageError
from datalog_gate.decision.decision import Decision
from datalog_gate.doors.cli.arguments import FAIL_ON, USAGE, parse
from datalog_gate.doors.cli.output_files import replace, write

if TYPE_CHECKING:
    from datalog_gate.api import Rules
    from datalog_gate.decision.cloud_state import Inventory
    from datalog_gate.decision.decision import Waiver
    from datalog_gate.doors.cli.reports import Judged

OK, DENIED, RULES, INPUT, UNDECIDED = 0, 1, 2, 3, 4
FINDINGS = 1
"""What `fmt --check`, `replay`, `services` and `doctor` exit with for what is not as it should be."""
UNREAD = 141
"""What a shell gives for a command whose reader went away: whoever does not read a denial must not see success."""
PRECEDENCE = (USAGE, RULES, INPUT, DENIED, UNDECIDED, OK)
"""What a run of several templates exits with: the first of these that any of them gives."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = parse(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # half a surrogate pair, which JSON can hold, is no UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return COMMANDS[options.command](options)
        except (RulesError, InputError) as error:
            return _diagnose(error, options)
    except UsageError as error:
        return _complain(str(error), USAGE)
    except EngineError as error:
        return _complain(str(error), UNDECIDED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit fails once more
        return UNREAD


def check(options: argparse.Namespace) -> int:
    """Judge each template, or all together, and print each decision."""
    from datalog_gate.doors.cli.decision_text import notes, uncompared
    from datalog_gate.doors.cli.reports import SEVERITIES, WHOLE, Judged, report, unfilled
    from datalog_gate.doors.cli.template_args import caller_in, read_all, read_older, roots

    given = roots(options)
    caller, unread = caller_in(options.caller)
    rules = _rules(options)
    for warning in (*rules.warnings, *unfilled(rules.program, options.inventory)):
        print(render(warning, rules.sources), file=sys.stderr)
    if unread:
        raise unread
    waivers = rules.waivers(options.waivers or ())
    fails = SEVERITIES[: FAIL_ON.index(options.fail_on) + 1] if options.fail_on in FAIL_ON[:3] else ()
    codes, judged = [], []
    for some in [given] if options.together else [[root] for root in given]:
        answer: Decision | GateError
        asked: tuple[str, ...] = ()
        name = ", ".join(root.template for root in some)
        try:
            stacks = read_all(some, options, rules.catalogue)
            answer = rules.decide(
                stacks,
                action=options.action,
                against=read_older(some[0], options, rules.catalogue),
                caller=caller,
                services=options.services,
                inventory=options.inventory,
                waivers=waivers,
                now=options.now,
                engine=options.engine,
                mode=options.mode,
                explain=options.explain,
            )
            codes.append(_verdict(answer, fails, options))
            if any(grant.unlocked for grant in answer.grants):
                from datalog_gate.doors.cli.grant_preview import asks

                asked = asks(stacks, answer)
        except InputError as error:
            answer = error
            codes.append(INPUT)
        except EngineError as error:
            answer = error
            codes.append(_complain(f"{name}: {error}", UNDECIDED))
        judged.append(Judged(name, answer, asked))
        if options.format not in WHOLE:
            _show(judged[-1], options.format)
    if options.format in WHOLE:
        print(report(options.format, judged, rules.policies, fails or SEVERITIES[:1]), end="")
    decided = [one.answer for one in judged if isinstance(one.answer, Decision)]
    for note in (*notes(waivers, decided), *uncompared(rules.program.inputs, decided)):
        print(f"datalog-gate: {note}", file=sys.stderr)
    for form, path in options.output:
        write(path, report(form, judged, rules.policies, fails or SEVERITIES[:1]))
    return min(codes, key=PRECEDENCE.index)


def facts(options: argparse.Namespace) -> int:
    """Print the facts of each template."""
    from datalog_gate.base.diagnostics import closest
    from datalog_gate.doors.cli.template_args import read, roots
    from datalog_gate.facts.flatten import flatten
    from datalog_gate.facts.lines import write, write_text
    from datalog_gate.files.templates import read_catalogue

    catalogue = read_catalogue(*options.catalogue)
    for name in options.relation or ():
        if catalogue.relation(name) is None:
            near = closest(name, catalogue.names())
            raise UsageError(f"there is no relation {name}" + (f": did you mean {near}?" if near else ""))
    for root in roots(options):
        found = flatten(read(root, options, catalogue), catalogue, options.relation)
        for line in write(found, catalogue) if options.format == "jsonl" else write_text(found, catalogue):
            print(line)
    return OK


def query(options: argparse.Namespace) -> int:
    """Print the rows of a query."""
    from datetime import UTC, datetime

    from datalog_gate.base.values import show, to_json
    from datalog_gate.decision.policy_set import texts
    from datalog_gate.decision.query import ask
    from datalog_gate.engine import engine
    from datalog_gate.files.rules import read_rules
    from datalog_gate.files.templates import read_catalogue, read_facts

    catalogue = read_catalogue(*options.catalogue)
    files = read_rules([Path(path) for path in options.rules], options.congress)
    lines = [line for path in options.facts for line in read_facts(Path(path))]
    lenient, now = options.undefined == "empty", datetime.now(UTC)
    answer = ask(files, options.query, lines, engine(options.engine), lenient, catalogue, now)
    sources = texts(files) | {"<query>": options.query}
    for warning in answer.warnings:
        print(render(warning, sources), file=sys.stderr)
    if options.format == "json":
        print(json.dumps([[to_json(value) for value in row] for row in answer.rows], ensure_ascii=False))
    else:
        for row in answer.rows:
            print("\t".join(show(value) for value in row))
    for error in answer.errors:
        print(f"{error.span}: error[evaluation] {error.message}", file=sys.stderr)
    return UNDECIDED if answer.errors else OK


def test(options: argparse.Namespace) -> int:
    """Run the policy tests below the paths, or say how good they are, or write them."""
    from datalog_gate.doors.cli.commands import policy_tests

    return policy_tests.test(options)


def check_rules(options: argparse.Namespace) -> int:
    """Say which rules an upgrade would break."""
    from datalog_gate import api
    from datalog_gate.files.rules import default_rules
    from datalog_gate.files.templates import read_catalogue

    before, after = (read_catalogue(*options.catalogue, upgrade=upgrade) for upgrade in (False, True))
    rules = options.rules or [default_rules()]
    api.check_rules(*rules, catalogue=after, before=before, congress=options.congress)
    return OK


def rules(options: argparse.Namespace) -> int:
    """Print the packs that there are, or copy them."""
    from datalog_gate.doors.cli.commands.packs import copy_packs, listed, packs
    from datalog_gate.files.rules import default_rules

    if options.init:
        print(*copy_packs(default_rules(), options.folder, options.pack), sep="\n")
    else:
        print(listed(packs(default_rules()), options.format))
    return OK


def docs(options: argparse.Namespace) -> int:
    """Print what the policies say of themselves, or write a page for each."""
    from datalog_gate.doors.cli.commands.docs import handbook, write_pages

    rules = _rules(options)
    if options.folder is None:
        print(handbook(rules), end="")
    else:
        write_pages(rules, options.folder)
    return OK


def fmt(options: argparse.Namespace) -> int:
    """Format rule files in place, or only check that they are formatted. Print those that differ. Nothing is written
    unless all can be read."""
    from datalog_gate.api import formatted, from_congress

    paths = options.path or ["rules"]
    if not options.path and not Path("rules").is_dir():
        raise UsageError("fmt: there is no folder rules here; name the rule files or folders")
    if options.from_congress:
        print("\n".join(from_congress(*paths).values()), end="")
        return OK
    changed = formatted(*paths)
    for file, text in changed.items():
        if not options.check:
            replace(Path(file), text)
        print(file)
    return FINDINGS if options.check and changed else OK


def lint(options: argparse.Namespace) -> int:
    """Print what is no error in rules, but hardly meant."""
    from datalog_gate import api
    from datalog_gate.files.rules import default_rules
    from datalog_gate.files.templates import read_catalogue

    try:
        api.lint(*(options.path or [default_rules()]), catalogue=read_catalogue(*options.catalogue))
    except RulesError as error:
        return _diagnose(error, options, sys.stdout)
    return OK


def doctor(options: argparse.Namespace) -> int:
    """Print what is to be said of the doors into a Heat."""
    from datalog_gate.doors.cli.doctor import examine, render

    signs = examine(options.heat_conf, options.paste, options.log, options.cfn)
    print(render(signs, options.format), end="")
    return FINDINGS if any(sign.level == "finding" for sign in signs) else OK


def services(options: argparse.Namespace) -> int:
    """Print what services hold, what was settled of it, or which there are."""
    from datalog_gate.doors.cli.commands import services

    return FINDINGS if services.run(options) else OK


def approval(options: argparse.Namespace) -> int:
    """Approve or refuse a request, or print those that there are."""
    from datalog_gate.doors.cli.commands import approval_requests

    approval_requests.run(options)
    return OK


def explain(options: argparse.Namespace) -> int:
    """Print a decision of a log with why."""
    from datalog_gate.decision_point.replay import find_record
    from datalog_gate.doors.cli import replay_output

    log = options.log or os.environ.get("DATALOG_GATE_LOG")
    if not log:
        raise UsageError("explain: name the decision log with --log, or in DATALOG_GATE_LOG")
    record = find_record(Path(log), options.decision)
    rules = _rules(options)
    print(replay_output.explained(record, rules, _inventory(rules, options), _waivers(rules, options), options.format))
    if "inputs" in record and not replay_output.same_rules(record, rules):
        print("datalog-gate: the rules have changed since: this is what they say now", file=sys.stderr)
    return OK


def replay_log(options: argparse.Namespace) -> int:
    """Print which decisions of a log are others by the rules."""
    from datalog_gate.decision_point.replay import replay_log
    from datalog_gate.doors.cli import replay_output

    rules = _rules(options)
    same = True
    found = replay_log(options.log, rules, _inventory(rules, options), options.mode, _waivers(rules, options))
    for one in replay_output.compared(found, options.format):
        if isinstance(one, Diagnostic):
            print(render(one, {}), file=sys.stderr)
        else:
            print(one.text)
            same = same and one.same
    return OK if same else FINDINGS


def waive(options: argparse.Namespace) -> int:
    """Write a waiver for a violation of a decision, and print it."""
    from datalog_gate.doors.cli.commands.waive import waive

    entry, notes = waive(Path(options.waivers), _rules(options), options)
    print(entry, end="")
    for note in notes:
        print(f"datalog-gate: {note}", file=sys.stderr)
    return OK


def waivers(options: argparse.Namespace) -> int:
    """Print the waivers that need a look."""
    from datalog_gate.doors.cli.commands.waive import looked_at

    lines, well = looked_at(options.waivers, _rules(options), options.now, options.log)
    print("\n".join(lines))
    return OK if well else FINDINGS


def _waivers(rules: Rules, options: argparse.Namespace) -> tuple[Waiver, ...] | None:
    return rules.waivers(options.waivers) if options.waivers else None


def _inventory(rules: Rules, options: argparse.Namespace) -> Inventory | None:
    return rules.inventory(Path(options.inventory)) if options.inventory else None


def _rules(options: argparse.Namespace) -> Rules:
    from datalog_gate.api import load_rules
    from datalog_gate.files.rules import default_rules
    from datalog_gate.files.templates import read_catalogue

    catalogue = read_catalogue(*options.catalogue)
    return load_rules(*(options.rules or [default_rules()]), catalogue=catalogue, congress=options.congress)


def _verdict(decision: Decision, fails: Sequence[str], options: argparse.Namespace) -> int:
    """The exit code of one decision. `fails` are the levels of `--fail-on`."""
    from datalog_gate.doors.cli.reports import severity

    found = {severity(violation) for violation in decision.violations if not violation.tolerated}
    unknown = any(not violation.tolerated for violation in decision.undetermined)
    if options.fail_on != "never" and (decision.outcome == "deny" or found & set(fails)):
        return DENIED
    if decision.outcome == "indeterminate" or (options.strict_unknown and unknown):
        return UNDECIDED
    return OK


def _show(judged: Judged, form: str) -> None:
    """Print an answer on stdout; bad input goes to stderr where people read it, as what became of an engine did."""
    from datalog_gate.doors.cli.reports import report

    if form not in ("text", "compact") or isinstance(judged.answer, Decision):
        print(report(form, [judged]), end="", flush=True)
    elif isinstance(judged.answer, InputError):
        print(judged.answer, file=sys.stderr)


def _diagnose(error: RulesError | InputError, options: argparse.Namespace, to: TextIO | None = None) -> int:
    """Print what is wrong: on stdout in a format for programs, else with excerpts on stderr. The outputs get it too."""
    from datalog_gate.doors.cli.reports import Judged, report

    judged = Judged("rules" if isinstance(error, RulesError) else "input", error)
    if options.format in ("json", "junit", "sarif", "github"):
        print(report(options.format, [judged]), end="", flush=True)
    else:
        print(error, file=to or sys.stderr, flush=True)
    for form, path in getattr(options, "output", ()):
        write(path, report(form, [judged]))
    return RULES if isinstance(error, RulesError) else INPUT


def _complain(message: str, code: int) -> int:
    print(f"datalog-gate: {message}", file=sys.stderr)
    return code


COMMANDS = {
    "check": check,
    "facts": facts,
    "query": query,
    "test": test,
    "check-rules": check_rules,
    "rules": rules,
    "docs": docs,
    "fmt": fmt,
    "lint": lint,
    "doctor": doctor,
    "services": services,
    "approval": approval,
    "explain": explain,
    "replay": replay_log,
    "waive": waive,
    "waivers": waivers,
}


if __name__ == "__main__":
    sys.exit(main())
