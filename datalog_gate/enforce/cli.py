"""The command line (layer 6): arguments in; the result on stdout, all else on stderr, and an exit code.

Each command is a few lines over a public function.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import NamedTuple, NoReturn

from datalog_gate import __version__
from datalog_gate.analysis.policy import ACTIONS
from datalog_gate.catalogue import Catalogue
from datalog_gate.diagnostics import Diagnostic, render
from datalog_gate.errors import DiagnosticsError, EngineError, InputError, RulesError, UsageError
from datalog_gate.facts.stack import Stack
from datalog_gate.gate.decision import Decision

OK, DENIED, RULES, INPUT, UNDECIDED, USAGE = 0, 1, 2, 3, 4, 64
UNREAD = 141
"""What a shell gives for a command whose reader went away: whoever does not read a denial must not see success."""
PRECEDENCE = (USAGE, RULES, INPUT, DENIED, UNDECIDED, OK)
"""What a run of several templates exits with: the first of these that any of them gives."""
FAIL_ON = ("deny", "warn", "record", "never")
FORMATS = ("text", "compact", "json")
CHECK_EXAMPLE = "example: datalog-gate check web.yaml -e production.yaml -P key=ops --services edge"
FACTS_EXAMPLE = "example: datalog-gate facts web.yaml --relation os:nova:server --format jsonl"
QUERY_EXAMPLE = "example: datalog-gate query 'open_ssh(group, src)' --rules rules/net/ssh.dl --facts web.jsonl"
UPGRADE_EXAMPLE = "example: datalog-gate check-rules --rules rules --catalogue heat-28.0.0.json"
TEST_EXAMPLE = "example: datalog-gate test rules/"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # half a surrogate pair, which JSON can hold, is no UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except UsageError as error:
        return _complain(str(error), USAGE)
    except RulesError as error:
        return _diagnose(error, RULES, options.format)
    except InputError as error:
        return _diagnose(error, INPUT, options.format)
    except EngineError as error:
        return _complain(str(error), UNDECIDED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit fails once more
        return UNREAD


def check(options: argparse.Namespace) -> int:
    """Judge each template, or all together, and print each decision."""
    from datalog_gate.api import load_rules
    from datalog_gate.sources import default_rules, read_catalogue, read_json

    roots = _roots(options)
    catalogue = read_catalogue(*options.catalogue)
    rules = load_rules(*(options.rules or [default_rules()]), catalogue=catalogue)
    for warning in rules.warnings:
        print(render(warning, rules.sources), file=sys.stderr)
    caller = read_json(Path(options.caller)) if options.caller else None
    if caller is not None and not isinstance(caller, dict):
        raise UsageError(f'{options.caller} holds no object: write {{"user": ..., "roles": [...]}}')
    codes, decisions = [], []
    for judged in [roots] if options.together else [[root] for root in roots]:
        try:
            decision = rules.decide(
                _read_all(judged, options, catalogue),
                action=options.action,
                caller=caller,
                services=options.services,
                inventory=options.inventory,
                now=options.now,
                engine=options.engine,
                mode=options.mode,
            )
        except InputError as error:
            codes.append(_diagnose(error, INPUT, options.format))
            continue
        except EngineError as error:
            codes.append(_complain(f"{', '.join(root.template for root in judged)}: {error}", UNDECIDED))
            continue
        decisions.append(decision)
        codes.append(_verdict(decision, options.fail_on, options.strict_unknown))
        print(_formatted(decision, options.format), flush=True)
    for form, path in options.output:
        _write(path, "".join(f"{_formatted(one, form)}\n" for one in decisions))
    return min(codes, key=PRECEDENCE.index)


def facts(options: argparse.Namespace) -> int:
    """Print the facts of each template."""
    from datalog_gate.diagnostics import closest
    from datalog_gate.facts.flatten import flatten
    from datalog_gate.facts.lines import write, write_text
    from datalog_gate.sources import read_catalogue

    catalogue = read_catalogue(*options.catalogue)
    for name in options.relation or ():
        if catalogue.relation(name) is None:
            near = closest(name, catalogue.names())
            raise UsageError(f"there is no relation {name}" + (f": did you mean {near}?" if near else ""))
    for template in options.template:
        root = _Root(template, (), options.stack_name)
        found = flatten(_read(root, options, catalogue), catalogue, options.relation)
        for line in write(found, catalogue) if options.format == "jsonl" else write_text(found, catalogue):
            print(line)
    return OK


def query(options: argparse.Namespace) -> int:
    """Print the rows of a query."""
    from datalog_gate.engine import engine
    from datalog_gate.gate.query import ask
    from datalog_gate.sources import read_catalogue, read_facts, read_rules
    from datalog_gate.values import show, to_json

    catalogue = read_catalogue(*options.catalogue)
    files = read_rules([Path(path) for path in options.rules])
    lines = [line for path in options.facts for line in read_facts(Path(path))]
    answer = ask(files, options.query, lines, engine(options.engine), options.undefined == "empty", catalogue)
    sources = {one.file: one.text for one in files} | {"<query>": options.query}
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
    """Run the policy tests below the paths."""
    from datalog_gate.policytest.suite import run

    return run(options.path, options.catalogue)


def check_rules(options: argparse.Namespace) -> int:
    """Say which rules an upgrade would break."""
    from datalog_gate import api
    from datalog_gate.sources import default_rules, read_catalogue

    before, after = (read_catalogue(*options.catalogue, upgrade=upgrade) for upgrade in (False, True))
    api.check_rules(*(options.rules or [default_rules()]), catalogue=after, before=before)
    return OK


class _Root(NamedTuple):
    """A template to read as a root: with environments of its own, and the stack's name if it is not the usual one."""

    template: str
    environments: tuple[str, ...]
    name: str | None


def _roots(options: argparse.Namespace) -> list[_Root]:
    """The templates, then the modules. Of those that are judged together no two have one name: the second `web` is
    `web-2`."""
    from datalog_gate.sources import root_name

    given = [*((template, ()) for template in options.template), *options.module]
    if not given:
        raise UsageError("check takes a TEMPLATE or a --module")
    roots: list[_Root] = []
    for template, environments in given:
        name = options.stack_name
        if options.together:
            stem = name or root_name(Path(template))
            taken = {root.name for root in roots}
            name = next(one for at in count(1) if (one := stem if at == 1 else f"{stem}-{at}") not in taken)
        roots.append(_Root(template, environments, name))
    return roots


def _read_all(roots: Sequence[_Root], options: argparse.Namespace, catalogue: Catalogue) -> list[Stack]:
    """The stacks of all roots. Errors: InputError with what is wrong with any."""
    stacks: list[Stack] = []
    found: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for root in roots:
        try:
            stacks.append(_read(root, options, catalogue))
        except InputError as error:
            found += error.diagnostics
            sources |= error.sources
    if found:
        raise InputError(found, sources)
    return stacks


def _read(root: _Root, options: argparse.Namespace, catalogue: Catalogue) -> Stack:
    from datalog_gate.sources import read_stack

    stack = read_stack(
        Path(root.template),
        environments=(*options.environment, *root.environments),
        parameters=dict(options.parameter),
        files_root=options.files_root,
        stack_name=root.name,
        catalogue=catalogue,
    )
    if not any(one.resources for one in stack.walk()):
        message = (
            f"{root.template} leaves nothing to judge: it has no resource, or its conditions switch all of them off"
        )
        raise InputError([Diagnostic("no-resources", message, stack.place)], stack.sources)
    return stack


def _verdict(decision: Decision, fail_on: str | None, strict_unknown: bool) -> int:
    """The exit code of one decision. `fail_on` counts findings by what they may do: a deny in warn mode is a warn."""
    levels = FAIL_ON[: FAIL_ON.index(fail_on) + 1] if fail_on in FAIL_ON[:3] else ()
    found = {FAIL_ON[max(FAIL_ON.index(one.level), _weight(one.mode))] for one in decision.violations}
    if fail_on != "never" and (decision.outcome == "deny" or found & set(levels)):
        return DENIED
    if decision.outcome == "indeterminate" or (strict_unknown and decision.undetermined):
        return UNDECIDED
    return OK


def _weight(mode: str) -> int:
    return ("enforce", "warn", "record").index(mode)


def _formatted(decision: Decision, form: str) -> str:
    from datalog_gate.enforce.render import compact, text

    match form:
        case "json":
            return json.dumps(decision.to_json(), ensure_ascii=False)
        case "compact":
            return compact(decision)
        case _:
            return text(decision)


def _output(text: str) -> tuple[str, Path]:
    form, equals, path = text.partition("=")
    if not equals or not path or form not in FORMATS:
        raise argparse.ArgumentTypeError(f"{text!r} is not FMT=FILE with one of {', '.join(FORMATS)}")
    return form, Path(path)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None


def _diagnose(error: DiagnosticsError, code: int, form: str) -> int:
    """Print what is wrong: as JSON on stdout where JSON was asked for, else with excerpts on stderr."""
    if form == "json":
        from datalog_gate.enforce.render import diagnostics_json

        print(diagnostics_json(error.diagnostics), flush=True)
    else:
        print(error, file=sys.stderr)
    return code


def _complain(message: str, code: int) -> int:
    print(f"datalog-gate: {message}", file=sys.stderr)
    return code


class _Parser(argparse.ArgumentParser):
    """An argument parser whose exit code for usage is the contract's."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="datalog-gate", description="A datalog policy gate for OpenStack Heat.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    judge = _command(commands, "check", check, "judge templates by the rules", CHECK_EXAMPLE)
    _add_template(judge, "*")
    judge.add_argument("--together", action="store_true", help="judge all templates as one set of facts")
    judge.add_argument(
        "--module",
        type=_module,
        action="append",
        default=[],
        metavar="T[,ENV]...",
        help="one more template, with environments of its own over those of -e",
    )
    _add_rules(judge)
    _add_catalogue(judge)
    judge.add_argument(
        "--action", choices=ACTIONS, default="create", help="what is asked of the stack (default: create)"
    )
    judge.add_argument("--caller", metavar="FILE.json", help="who asks: user, project, domain, roles")
    judge.add_argument("--services", type=_list, default=(), metavar="A,B", help="services enabled for the caller")
    judge.add_argument("--inventory", metavar="FILE.jsonl", help="facts about the cloud, as `facts` writes them")
    judge.add_argument("--now", type=_time, metavar="ISO", help="the time to judge at (default: now, in UTC)")
    judge.add_argument("--fail-on", choices=FAIL_ON, help="exit 1 for findings of this level or a graver one")
    judge.add_argument("--strict-unknown", action="store_true", help="exit 4 where something is undetermined")
    judge.add_argument(
        "--mode", choices=("record", "warn", "enforce"), default="enforce", help="the most a policy may do"
    )
    judge.add_argument("--engine", choices=("native", "pydatalog", "both"), default="native")
    judge.add_argument("--format", choices=FORMATS, default="text")
    judge.add_argument(
        "--output", type=_output, action="append", default=[], metavar="FMT=FILE", help="write a format to a file too"
    )

    flat = _command(commands, "facts", facts, "print the facts of templates", FACTS_EXAMPLE)
    _add_template(flat, "+")
    flat.add_argument("--relation", action="append", metavar="NAME", help="only this relation (default: all)")
    flat.add_argument("--format", choices=("text", "jsonl"), default="text")
    _add_catalogue(flat)

    ask = _command(commands, "query", query, "ask rules and facts a question", QUERY_EXAMPLE)
    ask.add_argument("query", metavar="QUERY", help="an atom, p(x, _), or a body, :- a(x), b(y)")
    ask.add_argument("--rules", action="extend", nargs="+", required=True, metavar="FILE", help="rule files or folders")
    ask.add_argument("--facts", action="append", default=[], metavar="FILE.jsonl", help="facts, as `facts` writes them")
    ask.add_argument("--undefined", choices=("error", "empty"), default="empty", help="what an undefined relation is")
    ask.add_argument("--engine", choices=("native", "pydatalog"), default="native")
    ask.add_argument("--format", choices=("text", "json"), default="text")
    _add_catalogue(ask)

    suite = _command(commands, "test", test, "run the policy tests (test.yaml) below the paths", TEST_EXAMPLE)
    suite.add_argument("path", nargs="*", metavar="PATH", help="folders or test.yaml files (default: here)")
    suite.set_defaults(format="text")
    _add_catalogue(suite)

    upgrade = _command(commands, "check-rules", check_rules, "say which rules an upgrade would break", UPGRADE_EXAMPLE)
    _add_rules(upgrade)
    _add_catalogue(upgrade)
    upgrade.add_argument("--format", choices=("text", "json"), default="text")
    return parser


def _command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    what: str,
    example: str,
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name, help=what, description=what.capitalize() + ".", epilog=example, allow_abbrev=False
    )
    command.set_defaults(command=run)
    return command


def _add_rules(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--rules",
        action="append",
        metavar="PATH",
        help="rule file or folder (default: ./rules, "
        "else $DATALOG_GATE_RULES, else the packs that come with the program)",
    )


def _add_catalogue(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--catalogue",
        action="append",
        default=[],
        metavar="FILE",
        help="resource types of a plugin, or of another version of Heat as catalogue/data/harvest.py prints them",
    )


def _add_template(command: argparse.ArgumentParser, how_many: str) -> None:
    command.add_argument("template", nargs=how_many, metavar="TEMPLATE", help="template file")
    command.add_argument("-e", dest="environment", action="append", default=[], metavar="ENV", help="environment file")
    command.add_argument(
        "-P", dest="parameter", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="a parameter's value"
    )
    command.add_argument("--stack-name", metavar="N", help="the root stack's name (default: the file's stem)")
    command.add_argument(
        "--files-root", metavar="DIR", help="folder that files may be read from (default: the template's)"
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return name, value


def _module(text: str) -> tuple[str, tuple[str, ...]]:
    template, *environments = text.split(",")
    if not template or "" in environments:
        raise argparse.ArgumentTypeError(f"{text!r} is not T[,ENV]...")
    return template, tuple(environments)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no ISO time, like 2027-03-01T12:00") from None


if __name__ == "__main__":
    sys.exit(main())
