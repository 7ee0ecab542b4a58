"""The options of the command line (layer 6): in, arguments; out, a namespace whose `command` names the command."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from datalog_gate import __version__
from datalog_gate.analysis.policy import ACTIONS, LEVELS

USAGE = 64
WAIVERS = "DATALOG_GATE_WAIVERS"
FAIL_ON = (*LEVELS, "never")
FORMATS = ("text", "compact", "json", "junit", "sarif", "github")
OF_DIAGNOSTICS = ("text", "json", "sarif", "github")
COMMANDS = {
    "check": ("judge templates by the rules", "web.yaml -e production.yaml -P key=ops --services edge"),
    "facts": ("print the facts of templates", "web.yaml --relation os:nova:server --format jsonl"),
    "query": ("ask rules and facts a question", "'open_ssh(group, src)' --rules rules/net/ssh.dl --facts web.jsonl"),
    "test": ("run the policy tests (test.yaml) below the paths", "rules/ -- -k ssh -n 2"),
    "fmt": ("write rule files in the one layout, and say which changed", "--check rules/"),
    "check-rules": ("say which rules an upgrade would break", "--rules rules --catalogue heat-28.0.0.json"),
    "rules": ("list the packs of rules that there are, or copy them to change", "init rules placement security"),
    "docs": ("print a page of each policy, in Markdown", "--rules rules --output docs/policies"),
    "explain": ("say why a service decided as its decision log tells", "7f3a91 --log decisions.jsonl --rules rules"),
    "replay": ("say which decisions of a log these rules would change", "decisions.jsonl --rules rules"),
    "waive": (
        "let be what a decision found, until a day",
        "7f3a91 1 --owner net --reason scanner --expires 2027-03-01",
    ),
    "waivers": (
        "say which waivers are expired, end soon, or waive nothing",
        "check waivers.yaml --log decisions.jsonl",
    ),
    "lint": ("say what is no error in rules, but hardly meant", "rules/"),
    "services": ("say what services hold for grants, and settle what a crash left", "status --heat-conf heat.conf"),
    "approval": ("approve or refuse what grants ask for", "approve A-12 --why 'for March' --heat-conf heat.conf"),
    "doctor": ("say which doors into Heat are live, and what is wrong with them", "--heat-conf /etc/heat/heat.conf"),
}
"""What each command does, and an example of its arguments."""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose exit code for usage is the contract's."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command. What stands behind ``--`` after `test` is pytest's."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    at = given.index("--") if given[:1] == ["test"] and "--" in given else len(given)
    options = parser().parse_args(given[:at])
    options.pytest = given[at + 1 :]
    return options


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    whole = _Parser(prog="datalog-gate", description="A datalog policy gate for OpenStack Heat.", allow_abbrev=False)
    whole.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")

    judge = _command(commands, "check")
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
    judge.add_argument(
        "--stack",
        action="append",
        metavar="NAME",
        help="judge a stack in Heat as it is there, by name or id; credentials are taken from OS_* in the environment",
    )
    _add_rules(judge)
    _add_catalogue(judge)
    judge.add_argument(
        "--action", choices=ACTIONS, help="what is asked of the stack (default: create, or update with --against)"
    )
    judge.add_argument(
        "--against",
        metavar="OLD",
        help="the stack as it was: a template, a folder with a template.yaml, or stack:NAME for one in Heat",
    )
    judge.add_argument("--caller", metavar="FILE.json", help="who asks: user, project, domain, roles")
    judge.add_argument("--services", type=_list, default=(), metavar="A,B", help="services enabled for the caller")
    judge.add_argument("--inventory", metavar="FILE.jsonl", help="facts about the cloud, as `facts` writes them")
    judge.add_argument(
        "--waivers",
        default=os.environ.get(WAIVERS),
        metavar="FILE.yaml",
        help=f"waivers (default: ${WAIVERS}, or none)",
    )
    judge.add_argument("--now", type=_time, metavar="ISO", help="the time to judge at (default: now, in UTC)")
    judge.add_argument("--fail-on", choices=FAIL_ON, help="exit 1 for findings of this level or a graver one")
    judge.add_argument("--strict-unknown", action="store_true", help="exit 4 where something is undetermined")
    judge.add_argument(
        "--mode", choices=("record", "warn", "enforce"), default="enforce", help="the most a policy may do"
    )
    judge.add_argument("--engine", choices=("native", "pydatalog", "both"), default="native")
    judge.add_argument("--explain", action="store_true", help="say why, what would settle it, and what was looked at")
    judge.add_argument("--format", choices=FORMATS, default="text")
    judge.add_argument(
        "--output", type=_output, action="append", default=[], metavar="FMT=FILE", help="write a format to a file too"
    )

    flat = _command(commands, "facts")
    _add_template(flat, "+")
    flat.add_argument("--relation", action="append", metavar="NAME", help="only this relation (default: all)")
    flat.add_argument("--format", choices=("text", "jsonl"), default="text")
    flat.set_defaults(module=[], stack=None, together=False, against=None)
    _add_catalogue(flat)

    ask = _command(commands, "query")
    ask.add_argument("query", metavar="QUERY", help="an atom, p(x, _), or a body, :- a(x), b(y)")
    ask.add_argument("--rules", action="extend", nargs="+", required=True, metavar="FILE", help="rule files or folders")
    _add_congress(ask)
    ask.add_argument("--facts", action="append", default=[], metavar="FILE.jsonl", help="facts, as `facts` writes them")
    ask.add_argument("--undefined", choices=("error", "empty"), default="empty", help="what an undefined relation is")
    ask.add_argument("--engine", choices=("native", "pydatalog"), default="native")
    ask.add_argument("--format", choices=("text", "json"), default="text")
    _add_catalogue(ask)

    suite = _command(commands, "test")
    suite.add_argument("path", nargs="*", metavar="PATH", help="folders or test.yaml files (default: here)")
    job = suite.add_mutually_exclusive_group()
    job.add_argument("--coverage", action="store_true", help="say what of the rules the cases never show")
    job.add_argument("--mutate", action="store_true", help="say which faults in the rules no case notices")
    job.add_argument("--init", metavar="TEMPLATE", help="write a case of what the policies say of it now")
    job.add_argument("--update", action="store_true", help="rewrite expectations that differ, after showing the change")
    suite.add_argument("--min-coverage", type=float, metavar="PERCENT", help="exit 5 below it")
    suite.add_argument("--min-score", type=float, metavar="PERCENT", help="exit 5 below it")
    suite.add_argument("--mutants", type=int, metavar="N", help="try N mutants (default: all)")
    suite.add_argument("--seed", type=int, default=0, metavar="N", help="which mutants those are (default: 0)")
    suite.add_argument(
        "--agree-on",
        action="append",
        default=[],
        metavar="PATH",
        help="templates: a mutant that changes nothing on any of them counts as no fault",
    )
    suite.add_argument("--yes", action="store_true", help="update without asking")
    suite.add_argument("--format", choices=("text", "json"), default="text")
    _add_catalogue(suite)

    form = _command(commands, "fmt")
    form.add_argument("path", nargs="*", metavar="PATH", help="rule files or folders (default: ./rules)")
    form.add_argument("--check", action="store_true", help="only say which would change; exit 1 if any")
    form.add_argument("--from-congress", action="store_true", help="print what files of Congress mean, as rule files")
    form.set_defaults(format="text")

    upgrade = _command(commands, "check-rules")
    _add_rules(upgrade)
    _add_catalogue(upgrade)
    upgrade.add_argument("--format", choices=OF_DIAGNOSTICS, default="text")

    shelf = _command(commands, "rules")
    shelf.add_argument("--format", choices=("text", "json"), default="text")
    shelf.set_defaults(init=False)
    copy = shelf.add_subparsers(metavar="init").add_parser(
        "init", help="copy packs into a new folder", allow_abbrev=False
    )
    copy.add_argument("folder", type=Path, metavar="DIR", help="a folder that is not there yet, or empty")
    copy.add_argument("pack", nargs="*", metavar="PACK", help="the packs (default: all)")
    copy.set_defaults(init=True)

    book = _command(commands, "docs")
    _add_rules(book)
    _add_catalogue(book)
    book.add_argument("--output", dest="folder", type=Path, metavar="DIR", help="write the pages and an index there")
    book.set_defaults(format="text")

    why = _command(commands, "explain")
    why.add_argument("decision", metavar="DECISION", help="its id, or the beginning of it")
    why.add_argument("--log", metavar="FILE.jsonl", help="the decision log (default: $DATALOG_GATE_LOG)")
    _add_replay(why)

    again = _command(commands, "replay")
    again.add_argument("log", type=Path, metavar="LOG", help="a decision log")
    again.add_argument("--mode", choices=("record", "warn", "enforce"), default="", help="decide as in this mode")
    _add_replay(again)

    default = os.environ.get(WAIVERS, "waivers.yaml")
    file: Any = {"metavar": "FILE", "default": default, "help": f"the file (default: ${WAIVERS}, else waivers.yaml)"}
    let = _command(commands, "waive")
    let.add_argument("decision", metavar="DECISION", help="the beginning of its id, or a file that check wrote as json")
    let.add_argument("number", type=int, metavar="N", help="which of its violations, as listed, from 1")
    let.add_argument("--log", metavar="FILE.jsonl", help="the decision log (default: $DATALOG_GATE_LOG)")
    for name, meaning in (("owner", "who answers for it"), ("reason", "why"), ("expires", "the first day without it")):
        let.add_argument(f"--{name}", required=True, metavar="TEXT", help=meaning)
    let.add_argument("--ticket", default="", metavar="TEXT", help="where it was agreed")
    let.add_argument("--while", dest="bound", default="", metavar="EXPR", help="how far it goes, like 'servers <= 120'")
    let.add_argument("--waivers", **file)

    whole_file = _command(commands, "waivers").add_subparsers(dest="action", required=True, metavar="check")
    list_ = whole_file.add_parser("check", help="read the file, and list what needs a look", allow_abbrev=False)
    list_.add_argument("waivers", nargs="?", **file)
    list_.add_argument("--log", type=Path, metavar="FILE.jsonl", help="list what met nothing in this decision log, too")
    list_.add_argument("--now", type=_time, metavar="ISO", help="the time to look at (default: now, in UTC)")
    for each in (let, list_):
        _add_rules(each)
        _add_catalogue(each)
        each.set_defaults(format="text")

    look = _command(commands, "lint")
    look.add_argument("path", nargs="*", metavar="PATH", help="rule files or folders (default: those of check)")
    _add_catalogue(look)
    look.add_argument("--format", choices=OF_DIAGNOSTICS, default="text")

    _add_services(_command(commands, "services").add_subparsers(dest="part", required=True, metavar="PART"))
    _add_approval(_command(commands, "approval").add_subparsers(dest="part", required=True, metavar="PART"))

    cure = _command(commands, "doctor")
    _add_heat_conf(cure)
    cure.add_argument("--paste", type=Path, metavar="FILE", help="api-paste.ini (default: where heat.conf says)")
    cure.add_argument("--log", type=Path, metavar="FILE", help="a decision log (default: where heat.conf says)")
    cure.add_argument("--no-cfn", dest="cfn", action="store_false", help="heat-api-cfn is not deployed")
    return whole


def _command(commands: argparse._SubParsersAction[_Parser], name: str) -> argparse.ArgumentParser:
    what, arguments = COMMANDS[name]
    example = f"example: datalog-gate {name} {arguments}"
    return commands.add_parser(name, help=what, description=f"{what.capitalize()}.", epilog=example, allow_abbrev=False)


def _add_services(parts: argparse._SubParsersAction[Any]) -> None:
    _add_heat_conf(_part(parts, "status", "what services hold; exit 1 if a person has to look"))
    settle = _part(parts, "reconcile", "settle what a crash left, by what Heat says; credentials are an admin's OS_*")
    settle.add_argument("--every", type=_seconds, metavar="SECONDS", help="go on, each so many seconds")
    _add_heat_conf(settle)
    names = _part(parts, "list", "the services that are enabled")
    names.add_argument("--for-me", action="store_true", help="only those that whoever OS_* names may grant")
    _add_heat_conf(names)


def _add_approval(parts: argparse._SubParsersAction[Any]) -> None:
    for name in ("approve", "refuse"):
        word = _part(parts, name, f"{name} a request")
        word.add_argument("request", metavar="ID", help="as A-12")
        word.add_argument("--why", default="", metavar="TEXT", help="for who asked")
        _add_heat_conf(word)
    names = _part(parts, "list", "what awaits an answer")
    names.add_argument("--all", action="store_true", help="everything that was asked, with the answers")
    _add_heat_conf(names)


def _part(parts: argparse._SubParsersAction[_Parser], name: str, what: str) -> argparse.ArgumentParser:
    return parts.add_parser(name, help=what, description=f"{what.capitalize()}.", allow_abbrev=False)


def _add_heat_conf(command: argparse.ArgumentParser) -> None:
    command.add_argument("--heat-conf", type=Path, required=True, metavar="FILE", help="heat.conf of the services")
    command.add_argument("--format", choices=("text", "json"), default="text")


def _add_rules(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--rules",
        action="append",
        metavar="PATH",
        help="rule file or folder (default: ./rules, "
        "else $DATALOG_GATE_RULES, else the packs that come with the program)",
    )
    _add_congress(command)


def _add_replay(command: argparse.ArgumentParser) -> None:
    _add_rules(command)
    _add_catalogue(command)
    command.add_argument("--inventory", metavar="FILE.jsonl", help="facts about the cloud, as `facts` writes them")
    command.add_argument("--waivers", metavar="FILE.yaml", help="waivers (default: those of the time)")
    command.add_argument("--format", choices=("text", "json"), default="text")


def _add_congress(command: argparse.ArgumentParser) -> None:
    command.add_argument("--congress", action="store_true", help="read rule files as OpenStack Congress reads them")


def _add_catalogue(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--catalogue",
        action="append",
        default=[],
        metavar="FILE",
        help="resource types of a plugin, or of another version of Heat as schema/data/harvest.py prints them",
    )


def _add_template(command: argparse.ArgumentParser, how_many: str) -> None:
    command.add_argument("template", nargs=how_many, metavar="TEMPLATE", help="template file")
    command.add_argument("-e", dest="environment", action="append", default=[], metavar="ENV", help="environment file")
    command.add_argument(
        "-P", dest="parameter", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="a parameter's value"
    )
    command.add_argument(
        "--assume",
        type=_assumption,
        action="append",
        default=[],
        metavar="EXPR=VALUE",
        help="what is unknown, by its expression, has this value",
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


def _assumption(text: str) -> tuple[str, str]:
    """The expression, which ends with the path of a stack, and the value: both may hold an equals sign."""
    if found := re.fullmatch(r"(.+? in [^\s=]+)=(.*)", text, re.DOTALL):
        return found[1], found[2]
    return _pair(text)


def _module(text: str) -> tuple[str, tuple[str, ...]]:
    template, *environments = text.split(",")
    if not template or "" in environments:
        raise argparse.ArgumentTypeError(f"{text!r} is not T[,ENV]...")
    return template, tuple(environments)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else time
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no ISO time, like 2027-03-01T12:00") from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, 1 or more")
    return seconds


def _output(text: str) -> tuple[str, Path]:
    form, equals, path = text.partition("=")
    if not equals or not path or form not in FORMATS:
        raise argparse.ArgumentTypeError(f"{text!r} is not FMT=FILE with one of {', '.join(FORMATS)}")
    return form, Path(path)
