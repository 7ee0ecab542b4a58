"""The parser of the command-line options."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from datalog_gate import __version__
from datalog_gate.base.diagnostics import closest
from datalog_gate.base.records import replace
from datalog_gate.doors.cli.common import USAGE
from datalog_gate.files.check_options import BY_NAME, CheckOption, read_list

COMMANDS = {
    "check": ("judge templates by the rules", "web.yaml -e production.yaml -P key=ops --services edge"),
    "facts": ("print the facts of templates", "web.yaml --relation os:nova:server --format jsonl"),
    "relations": ("print the relations that rules can read", "'os:nova:*'"),
    "query": ("query rules and facts", "'open_ssh(group, src)' --rules rules/net/ssh.dl --facts web.jsonl"),
    "test": ("run the policy tests (test.yaml) below the paths", "rules/ -- -k ssh -n 2"),
    "fmt": ("format rule files, and print those that changed", "--check rules/"),
    "rules": ("list the packs of rules, or copy them to change them", "init rules placement security"),
    "docs": ("print a page for each policy, in Markdown", "--rules rules --output docs/policies"),
    "examples": ("print the smallest stacks that policies deny, and near ones that pass", "net.open_ssh --rules rules"),
    "diff": ("print the smallest stacks that only one of two rule sets denies", "old/rules rules web.yaml"),
    "explain": ("explain a decision of a decision log", "7f3a91 --log decisions.jsonl --rules rules"),
    "replay": ("print the decisions of a log that these rules would change", "decisions.jsonl --rules rules"),
    "waive": (
        "waive a violation of a decision until a date",
        "7f3a91 1 --owner net --reason scanner --expires 2027-03-01",
    ),
    "waivers": ("list waivers that are expired, end soon, or are unused", "check waivers.yaml --log decisions.jsonl"),
    "lint": ("print what is valid in rules, but probably a mistake", "rules/"),
    "services": ("list and reconcile the claims of services", "status --heat-conf heat.conf"),
    "store": ("create, check, export or fill the store of grants", "upgrade --heat-conf heat.conf"),
    "inventory": ("read the contents of the cloud, for rules", "pull --cloud prod --output cloud.jsonl"),
    "doctor": ("find doors that are missing in a Heat, and hosts with other rules", "--heat-conf /etc/heat/heat.conf"),
    "serve": ("run the policy server", "--config /etc/datalog-gate/server.conf --host 127.0.0.1 --port 1789"),
    "repl": ("query the facts of templates and the rows of rules", "web.yaml --rules rules/"),
    "lsp": ("serve an editor: rules, templates and policy tests, on stdin and stdout", ""),
    "scan": ("judge every stack, and list findings and since when they exist", "run --folder templates --rules rules"),
}
"""The description of each command, and an example of its arguments."""


class _ArgumentParser(argparse.ArgumentParser):
    """An argument parser that exits with `USAGE` for wrong usage.

    `argparse` makes a formatter for each option that is added, which asks for the width of the terminal and for that
    imports `shutil`. Only a help text needs the width.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": partial(argparse.HelpFormatter, width=80), **named})

    def add_argument(self, *names: Any, **more: Any) -> argparse.Action:
        """Add an argument. Without a default `argparse` names a list that may be empty beside what is missing."""
        return super().add_argument(*names, **({"default": [], **more} if more.get("nargs") == "*" else more))

    def format_help(self) -> str:
        self.formatter_class = argparse.HelpFormatter
        return super().format_help()

    def format_usage(self) -> str:
        self.formatter_class = argparse.HelpFormatter
        return super().format_usage()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the arguments; the command itself reports those that it does not have."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Exit with the error, what was probably meant, and one line of usage."""
        usage = f"usage: {self.prog} [OPTION]...; --help lists the options"
        self.exit(USAGE, "\n".join([f"{self.prog}: {message}", *self._suggest(message), usage, ""]))

    def _suggest(self, message: str) -> list[str]:
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)$", message)
        option = re.search(r"unrecognized arguments: (-[^\s=]+)", message)
        near = closest(choice[1], re.findall(r"[\w-]+", choice[2])) if choice else None
        near = closest(option[1], self._option_string_actions) if option else near
        return [f"did you mean {near}?"] if near else []


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the arguments of a command. For `test`, arguments after ``--`` are for pytest. Errors: SystemExit."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if words[:1] == ["test"] and "--" in words else len(words)
    if "--version" in words[:end]:
        words, end = ["--version"], 1
    parser = create_parser(words[0] if words else "")
    if "" in words[:end]:
        parser.error("an argument is empty: is a variable of the shell unset?")
    options = parser.parse_args(words[:end])
    options.pytest = words[end + 1 :]
    if hasattr(options, "configured"):
        _complete(options, options.configured)
    for name, value in (("format", "text"), ("output", [])):  # for commands without these options
        setattr(options, name, getattr(options, name, value))
    return options


def _complete(options: argparse.Namespace, names: Sequence[str]) -> None:
    """Fill in missing options from the project's configuration, else with defaults. The configuration gets the values
    on the command line, and loses those of other options. Errors: InputError."""
    from datalog_gate.files.configuration import load_configuration

    configuration = load_configuration()
    attributes = {name: BY_NAME[name].attribute for name in names}
    given = {name: getattr(options, attribute) for name, attribute in attributes.items() if hasattr(options, attribute)}
    if "stack" in given:  # what the project says of templates is not meant for it
        unused = {"environment", "parameter", "assume", "files-root", "fetch", "module"}
    else:
        unused = {"stack", "module"} if getattr(options, "template", ()) or "module" in given else set()
    values = {name: value for name, value in configuration.values.items() if name in attributes.keys() - unused}
    options.configuration = replace(configuration, values=values, given=given)
    for name, attribute in attributes.items():
        setattr(options, attribute, options.configuration.value(name))


def create_parser(command: str = "") -> argparse.ArgumentParser:
    """The parser for a command. Other commands are left out, since creating all takes longer than reading a small
    template; they are included if `_GROUPS` does not name the first word."""
    parser: argparse.ArgumentParser = _ArgumentParser(
        prog="datalog-gate", description="A datalog policy gate for OpenStack Heat.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    known = any(command in names for names, _ in _GROUPS)
    for names, add in _GROUPS:
        if not known or command in names:
            add(commands)
    return parser


def _add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, module: str
) -> argparse.ArgumentParser:
    """Add a command, which is a function of that name in a module of `commands`."""
    summary, arguments = COMMANDS[name]
    command = _add_part(commands, name, summary)
    command.epilog = f"example: datalog-gate {name} {arguments}".rstrip()
    command.set_defaults(home=module)
    return command


def _add_part(
    parts: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    description = f"{summary[0].upper()}{summary[1:]}."
    return parts.add_parser(name, help=summary, description=description, allow_abbrev=False)


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add_command(commands, "check", "check_stacks")
    help_ = "template file, a folder of them, or - for standard input (default: those of the configuration)"
    command.add_argument("template", nargs="*", metavar="TEMPLATE", help=help_)
    _add_configured(command, *BY_NAME)
    command.add_argument(
        "--fix", action="store_true", help="write proved fixes into the templates, and judge the result"
    )
    help_ = "print the difference that --fix makes, and write nothing, also beside --fix"
    command.add_argument("--diff", action="store_true", help=help_)
    help_ = "print these options as the project's configuration, and where each value comes from; judge nothing"
    command.add_argument("--show-config", action="store_true", help=help_)


def _add_configured(command: argparse.ArgumentParser, *names: str) -> None:
    """Add options of `check` that the project's configuration has defaults for."""
    for name in names:
        _add_option(command, BY_NAME[name], default=argparse.SUPPRESS)
    command.set_defaults(configured=names)


def _add_option(command: argparse.ArgumentParser, option: CheckOption, default: object) -> None:
    more: dict[str, Any] = {"default": default, "help": option.help, "dest": option.attribute}
    if option.flag:
        more["action"] = _Flag
    else:
        more |= {"metavar": option.metavar, "type": _reader(option.read)}
        more |= {"choices": option.choices, "metavar": None} if option.choices else {}
        more |= {"action": "append"} if option.many else {}
        more |= {"action": _AddWords} if option.read is read_list else {}
    action = command.add_argument(*[option.short] if option.short else [], f"--{option.name}", **more)
    for word in option.choices if option.flag else ():  # an optional value would take the template for it
        command._option_string_actions[f"--{option.name}={word}"] = action


class _Flag(argparse.BooleanOptionalAction):
    """An option that is true, false, or the word that is written after it, as in ``--explain=all``."""

    def __call__(self, parser: Any, options: argparse.Namespace, values: Any, option: str | None = None) -> None:
        super().__call__(parser, options, values, option)
        if word := (option or "").partition("=")[2]:
            setattr(options, self.dest, word)


class _AddWords(argparse.Action):
    """Adds words to those of the same option before it."""

    def __call__(self, _parser: object, options: argparse.Namespace, values: Any, _option: object = None) -> None:
        setattr(options, self.dest, (*getattr(options, self.dest, ()), *values))


def _reader(read: Callable[[str], object]) -> Callable[[str], object]:
    """A type function for an option that passes its error messages to argparse unchanged."""

    def convert(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _add_facts_and_query(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    facts = _add_command(commands, "facts", "facts_and_queries")
    facts.add_argument(
        "template", nargs="+", metavar="TEMPLATE", help="template file, a folder of them, or - for standard input"
    )
    _add_configured(
        facts, "environment", "parameter", "assume", "stack-name", "files-root", "fetch", "catalogue", "heat-conf"
    )
    _add_list(facts, "--relation", "only this relation (default: all)", metavar="NAME")
    facts.add_argument("--format", choices=("text", "jsonl"), default="text")

    relations = _add_command(commands, "relations", "facts_and_queries")
    help_ = "a relation, a resource type, or a pattern as in a shell (default: a line for each relation)"
    relations.add_argument("pattern", nargs="?", metavar="NAME|PATTERN", help=help_)
    _add_check_options(relations, "catalogue")

    query = _add_command(commands, "query", "facts_and_queries")
    query.add_argument("query", metavar="QUERY", help="an atom, p(x, _), or a body, :- a(x), b(y)")
    help_ = "rule files or folders"
    query.add_argument("--rules", action="extend", nargs="+", required=True, metavar="FILE", help=help_)
    _add_check_options(query, "congress")
    _add_list(query, "--facts", "facts, as `facts` writes them", metavar="FILE.jsonl")
    help_ = "how an undefined relation is read"
    query.add_argument("--undefined", choices=("error", "empty"), default="empty", help=help_)
    query.add_argument("--engine", choices=("native", "pydatalog"), default="native")
    query.add_argument("--format", choices=("text", "json"), default="text")
    _add_check_options(query, "catalogue")


def _add_test(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    test = _add_command(commands, "test", "policy_tests")
    test.add_argument(
        "path", nargs="*", metavar="PATH", help="folders or test.yaml files (default: ./rules, else here)"
    )
    job = test.add_mutually_exclusive_group()
    job.add_argument("--mutate", action="store_true", help="print the faults in the rules that no case detects")
    job.add_argument("--init", metavar="POLICY", help="write the examples of a policy as cases")
    test.add_argument("--mutants", type=int, metavar="N", help="try N mutants (default: all)")
    test.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the choice of mutants (default: 0)")
    _add_configured(test, "catalogue")
    test.set_defaults(configured=("catalogue", "rules"))


def _add_rule_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    fmt = _add_command(commands, "fmt", "rule_files")
    fmt.add_argument("path", nargs="*", metavar="PATH", help="rule files or folders (default: ./rules)")
    fmt.add_argument("--check", action="store_true", help="only print files that would change; exit 1 if any")
    fmt.add_argument("--modern", action="store_true", help="also write functions as terms where they are used once")
    fmt.add_argument("--from-congress", action="store_true", help="convert files of Congress to rules, and print them")

    rules = _add_command(commands, "rules", "rule_files")
    rules.set_defaults(init=False)
    init = rules.add_subparsers(metavar="init").add_parser(
        "init", help="copy packs into a new folder", allow_abbrev=False
    )
    init.add_argument("folder", type=Path, metavar="DIR", help="a new or an empty folder")
    init.add_argument("pack", nargs="*", metavar="PACK", help="the packs (default: all)")
    init.set_defaults(init=True)

    docs = _add_command(commands, "docs", "rule_files")
    _add_rules(docs)
    docs.add_argument("--output", dest="folder", type=Path, metavar="DIR", help="write the pages and an index there")

    examples = _add_command(commands, "examples", "rule_examples")
    examples.add_argument("policy", nargs="*", metavar="POLICY", help="ids of policies (default: all)")
    examples.add_argument("--format", choices=("text", "yaml", "json"), default="text")
    _add_rules(examples)

    diff = _add_command(commands, "diff", "rule_examples")
    diff.add_argument("old", type=Path, metavar="OLD", help="the rules as they were, a file or a folder")
    diff.add_argument("new", type=Path, metavar="NEW", help="the rules as they are")
    diff.add_argument("template", nargs="*", type=Path, metavar="TEMPLATE", help="also compare what they say of these")
    _add_list(diff, "--policy", "compare only this policy", metavar="ID")


def _add_log_and_waivers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    explain = _add_command(commands, "explain", "logged_decisions")
    explain.add_argument("decision", metavar="DECISION", help="its id, or the beginning of it")
    explain.add_argument("--log", metavar="FILE.jsonl", help="the decision log (default: $DATALOG_GATE_LOG)")
    _add_replay(explain)

    replay = _add_command(commands, "replay", "logged_decisions")
    replay.add_argument("log", type=Path, metavar="LOG", help="a decision log")
    replay.add_argument("--mode", choices=BY_NAME["mode"].choices, default="", help="decide as in this mode")
    _add_replay(replay)
    replay.add_argument("--format", choices=("text", "json", "html"), default="text")

    waive = _add_command(commands, "waive", "logged_decisions")
    waive.add_argument("decision", metavar="DECISION", help="the beginning of its id, or a file of check --format json")
    waive.add_argument("number", type=int, metavar="N", help="which of its violations, as listed, from 1")
    waive.add_argument("--log", metavar="FILE.jsonl", help="the decision log (default: $DATALOG_GATE_LOG)")
    waive.add_argument("--owner", required=True, metavar="TEXT", help="who answers for it")
    waive.add_argument("--reason", required=True, metavar="TEXT", help="why")
    waive.add_argument("--expires", required=True, metavar="TEXT", help="the first day on which it no longer holds")
    waive.add_argument("--ticket", default="", metavar="TEXT", help="where it was agreed")
    waive.add_argument(
        "--while",
        dest="bound",
        default="",
        metavar="EXPR",
        help="a bound, like 'servers <= 120': the waiver ends when it is exceeded",
    )
    default = BY_NAME["waivers"].initial() or "waivers.yaml"
    help_ = f"the file (default: ${BY_NAME['waivers'].variable}, else waivers.yaml)"
    waive.add_argument("--waivers", default=default, metavar="FILE", help=help_)
    _add_rules(waive)

    waivers = _add_command(commands, "waivers", "logged_decisions")
    actions = waivers.add_subparsers(dest="action", required=True, metavar="check")
    check = actions.add_parser("check", help="list waivers that need attention", allow_abbrev=False)
    check.add_argument("waivers", nargs="?", default=default, metavar="FILE", help=help_)
    check.add_argument("--log", type=Path, metavar="FILE.jsonl", help="also list waivers unused in this decision log")
    check.add_argument(
        "--now",
        type=_reader(BY_NAME["now"].read),
        metavar="ISO",
        help="the time to compare with (default: now, in UTC)",
    )
    _add_rules(check)


def _add_lint_and_services(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    lint = _add_command(commands, "lint", "rule_files")
    lint.add_argument("path", nargs="*", metavar="PATH", help="rule files or folders (default: those of check)")
    _add_configured(lint, "rules", "catalogue")
    lint.add_argument("--format", choices=("text", "json", "sarif", "github"), default="text")

    services = _add_command(commands, "services", "services")
    parts = services.add_subparsers(dest="part", required=True, metavar="PART")
    _add_conf(_add_part(parts, "status", "list the claims of services; exit 1 if one needs attention"))
    _add_reconcile(_add_part(parts, "reconcile", "settle the open claims of services"))
    _add_conf(_add_part(parts, "list", "list the enabled services"))

    store = _add_command(commands, "store", "shared_store")
    parts = store.add_subparsers(dest="part", required=True, metavar="PART")
    _add_conf(_add_part(parts, "upgrade", "make the tables of this version"))
    _add_conf(_add_part(parts, "check", "print what the store holds; exit 1 if this version can't use it"))
    _add_conf(_add_part(parts, "export", "print all rows, one JSON object a line"))
    add = _add_part(parts, "import", "add the rows of exports, and of other SQLite stores")
    add.add_argument("file", nargs="+", type=Path, metavar="FILE", help="no service may write it any longer")
    _add_conf(add)

    inventory = _add_command(commands, "inventory", "cloud_inventory")
    _add_pull(inventory.add_subparsers(dest="part", required=True, metavar="PART"))

    doctor = _add_command(commands, "doctor", "doctor")
    _add_conf(doctor)
    doctor.add_argument("--paste", type=Path, metavar="FILE", help="api-paste.ini (default: as in heat.conf)")
    doctor.add_argument("--log", type=Path, metavar="FILE", help="a decision log (default: as in heat.conf)")
    probe = "create an empty stack, which a door in Heat's engine refuses, and delete it, with the user's OS_*"
    doctor.add_argument("--probe", action="store_true", help=probe)


def _add_pull(parts: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    pull = _add_part(parts, "pull", "read the tables of an inventory from the APIs of the cloud")
    pull.description = (
        "Read the tables of an inventory from the APIs of the cloud. A table that can't be read is reported and "
        "keeps the rows of the previous pull with their age; exit 3 if it has none."
    )
    pull.epilog = "example: datalog-gate inventory pull --tables 'nova:*,cinder:volumes' --output cloud.jsonl"
    help_ = "an entry of clouds.yaml (default: $OS_CLOUD, else OS_*)"
    pull.add_argument("--cloud", metavar="NAME", help=help_)
    help_ = "only these tables, or those that match a pattern (default: all)"
    pull.add_argument("--tables", type=read_list, default=(), metavar="A,B", help=help_)
    target = pull.add_mutually_exclusive_group()
    help_ = "the file, which is replaced atomically (default: stdout)"
    target.add_argument("--output", dest="output_file", type=Path, metavar="FILE", help=help_)
    target.add_argument("--store", metavar="URL", help="the store, where doors with `inventory = store` read it")
    target.add_argument(
        "--heat-conf", type=Path, metavar="FILE", help="heat.conf of the services: the store that it names"
    )
    help_ = "repeat at this interval, such as 5m; if several hosts share a store, one pulls and the others wait"
    pull.add_argument("--every", type=_seconds, metavar="TIME", help=help_)
    pull.add_argument("--rate", type=_rate, metavar="N/s", help="requests a second at most (default: any)")


def _add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    serve = _add_command(commands, "serve", "http_server")
    help_ = "a configuration as heat.conf is, with a section [datalog_gate_server] (default: for one person, on SQLite)"
    serve.add_argument("--config", type=Path, metavar="FILE", help=help_)
    serve.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="the address (default: 127.0.0.1)")
    serve.add_argument("--port", type=_port, default=1789, metavar="N", help="the port (default: 1789)")


def _add_editor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    lsp = _add_command(commands, "lsp", "editor_tools")
    lsp.add_argument("--stdio", action="store_true", help="accepted for editors that give it; has no effect")
    repl = _add_command(commands, "repl", "editor_tools")
    repl.add_argument("template", nargs="*", metavar="TEMPLATE", help="template file, or a folder of them")
    _add_configured(
        repl, "rules", "environment", "parameter", "assume", "stack-name", "files-root", "fetch", "catalogue"
    )


def _add_scan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parts = _add_command(commands, "scan", "cloud_scan").add_subparsers(dest="part", required=True, metavar="PART")
    run = _add_part(parts, "run", "judge what changed; exit 1 if a finding that denies is open, 3 if a stack is unread")
    watch = _add_part(parts, "watch", "run again and again")
    rejudge = _add_part(parts, "rejudge", "print what rules would find in the stored stacks, and store nothing")
    verify = _add_part(parts, "verify", "judge random stacks in two ways; exit 4 if they differ")
    verify.add_argument("count", type=_count, metavar="N", help="how many")
    verify.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the choice (default: 0)")
    help_ = "read only stacks that were updated at this time, in UTC, or later; the others stay as they are"
    run.add_argument("--since", type=_reader(BY_NAME["now"].read), metavar="ISO", help=help_)
    watch.set_defaults(since=None)
    watch.add_argument("--every", type=_seconds, default=600.0, metavar="TIME", help="the interval (default: 10m)")
    for part in (run, watch):
        _add_scan_source(part)
    help_ = (
        "the engine: native judges stacks, the others judge stored facts (default: the store's database, and native)"
    )
    rejudge.add_argument("--engine", choices=("native", "duckdb", "postgres", "spark"), help=help_)
    for part in (run, watch):
        part.add_argument(
            "--engine", choices=("native",), default="native", help="the engine that judges stacks: native"
        )
    for part in (run, watch, rejudge):
        help_ = "processes that judge (default: 1)"
        part.add_argument("--processes", type=_reader(BY_NAME["jobs"].read), default=1, metavar="N", help=help_)
    for part in (run, watch, rejudge, verify):
        _add_check_options(part, "services", "inventory", "now", "heat-conf")
        _add_rules(part)
    for part in (run, watch, rejudge, verify, *_add_scan_results(parts)):
        help_ = "a file of DuckDB, or postgresql://... (default: datalog-gate.duckdb)"
        part.add_argument("--store", default="datalog-gate.duckdb", metavar="URL", help=help_)


def _add_scan_source(part: argparse.ArgumentParser) -> None:
    """Add where the stacks of a scan come from."""
    source = part.add_mutually_exclusive_group(required=True)
    help_ = "all stacks of a Heat, of this entry of clouds.yaml (default: $OS_CLOUD, else OS_*)"
    source.add_argument("--cloud", nargs="?", const="", metavar="NAME", help=help_)
    source.add_argument("--folder", type=Path, metavar="DIR", help="the templates below a folder")
    source.add_argument("--log", type=Path, metavar="FILE", help="the stacks of a decision log")
    part.add_argument("--rate", type=_rate, metavar="N/s", help="requests a second at most (default: any)")
    _add_check_options(part, "waivers")


def _add_scan_results(
    parts: argparse._SubParsersAction[argparse.ArgumentParser],
) -> tuple[argparse.ArgumentParser, ...]:
    """Add the parts that read what scans stored."""
    findings = _add_part(parts, "findings", "list the open findings; exit 1 if one of them denies")
    findings.add_argument("--project", metavar="ID", help="only those in stacks of this project")
    help_ = "only those first seen at this time, in UTC, or later"
    findings.add_argument("--since", type=_reader(BY_NAME["now"].read), metavar="ISO", help=help_)
    findings.add_argument("--format", choices=("text", "json", "csv", "sarif"), default="text")
    _add_rules(findings)
    history = _add_part(parts, "history", "print the number of new, resolved and open findings of each day")
    for part in (findings, history):
        part.add_argument("--policy", metavar="ID", help="only those of this policy")
    query = _add_part(parts, "query", "query the stored facts of all stacks")
    query.add_argument("query", metavar="QUERY", help="an atom, all:os:nova:server(_id=x, name=n), or a body, :- ...")
    _add_list(query, "--rules", "rule files or folders that the query reads", metavar="FILE")
    query.add_argument("--format", choices=("text", "json"), default="text")
    export = _add_part(parts, "export", "write the store as files of Parquet")
    export.add_argument("--parquet", type=Path, required=True, metavar="DIR", help="the folder")
    return findings, history, query, export


def _add_reconcile(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Settle claims that a crash left open, by the state of their stacks. The credentials in OS_* must be "
        "those of an admin, who sees all stacks. With --every one host does so, and the others wait to take over."
    )
    help_ = "repeat at this interval, such as 60s or 5m"
    command.add_argument("--every", type=_seconds, metavar="TIME", help=help_)
    command.add_argument("--format", choices=("text", "json"), default="text")
    _add_conf(command)


def _add_conf(command: argparse.ArgumentParser) -> None:
    command.add_argument("--heat-conf", type=Path, required=True, metavar="FILE", help="heat.conf of the services")


def _add_rules(command: argparse.ArgumentParser) -> None:
    _add_check_options(command, "rules", "congress", "catalogue")


def _add_check_options(command: argparse.ArgumentParser, *names: str) -> None:
    """Add options that the command shares with `check`."""
    for name in names:
        _add_option(command, BY_NAME[name], BY_NAME[name].initial())


def _add_replay(command: argparse.ArgumentParser) -> None:
    _add_rules(command)
    _add_check_options(command, "inventory", "heat-conf")
    command.add_argument("--waivers", metavar="FILE.yaml", help="waivers (default: those of the record)")


def _add_list(command: argparse.ArgumentParser, option: str, help_: str, **more: Any) -> None:
    """Add an option that may be given several times."""
    command.add_argument(option, action="append", default=[], help=help_, **more)


def _seconds(text: str) -> float:
    factor = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    try:
        seconds = float(text[:-1]) * factor if factor else float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds of at least 1")
    return seconds


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text.removesuffix("/s"))
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of requests a second")
    return rate


_GROUPS = (
    (("check",), _add_check),
    (("facts", "relations", "query"), _add_facts_and_query),
    (("test",), _add_test),
    (("fmt", "rules", "docs", "examples", "diff"), _add_rule_commands),
    (("explain", "replay", "waive", "waivers"), _add_log_and_waivers),
    (("lint", "services", "store", "inventory", "doctor"), _add_lint_and_services),
    (("serve",), _add_serve),
    (("lsp", "repl"), _add_editor),
    (("scan",), _add_scan),
)
"""The commands in the order of the help, with the functions that add them to a parser."""
