"""Run commands with good and bad options and paths.

None may end in an exception or with an exit code that the contract does not have, and an error about a path names it.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from datalog_gate.base.diagnostics import printable
from datalog_gate.decision_point.operation import Operation
from datalog_gate.doors.cli.main import main as run_command
from datalog_gate.doors.cli.option_parser import COMMANDS
from datalog_gate.files.check_options import FORMATS
from datalog_gate.files.stack_definition import StackDefinition
from tests.fake_heat import point_at

OVERRIDES = 0b110
"""The capabilities by which root reads what modes forbid: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
RULES = """\
@deny("flavor", "{s} takes {f}", hint="take a small one")
huge(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".
"""
STACK = """\
heat_template_version: 2018-08-31
parameters: {f: {type: string}}
resources:
  web: {type: OS::Nova::Server, properties: {image: debian, flavor: {get_param: f}}}
"""
HEAT_CONF = "[DEFAULT]\n[paste_deploy]\napi_paste_config = api-paste.ini\n[datalog_gate]\nrules = rules\n"
LIBRARY = "name: l\ndescription: d\nrules:\n  - rule: error(x) :- nova:servers(id=x)\n"
WAIVERS = "waivers:\n  - {id: W-1, policy: flavor, owner: o, reason: r, expires: 2027-03-01}\n"
SUITE = "cases:\n  - {name: a, stack: ../web.yaml, environment: {parameters: {f: a}}, expect: {}}\n"
FILES: dict[str, str | bytes] = {
    "rules/m.dl": RULES,
    "rules/n.dl": "p(1).\n",
    "rules/test.yaml": SUITE,
    "library.yaml": LIBRARY,
    "broken.dl": "p(x :- q.\n",
    "web.yaml": STACK,
    "nested.yaml": "heat_template_version: 2018-08-31\nresources: {a: {type: web.yaml, properties: {f: a}}}\n",
    "env.yaml": "parameters: {f: huge}\n",
    "stack/template.yaml": STACK,
    "stack/env.yaml": "parameters: {f: huge}\n",
    "broken.yaml": "a: [b\n",
    "list.json": "[]",
    "caller.json": '{"user": "u", "project": "p", "roles": ["member"]}',
    "rows.jsonl": '{"relation": "m:n", "row": [1]}\n',
    "bad.jsonl": "x\n",
    "waivers.yaml": WAIVERS,
    "types.json": '{"source": "acme", "Acme::Box": {"relation": "acme:box", "properties": {}}}',
    "heat.conf": HEAT_CONF,
    "api-paste.ini": "[pipeline:heat-api]\npipeline = datalog_gate heatapi\n",
    "empty": "",
    "latin.yaml": b"a: \xff\n",
    "latin.dl": b'p("\xff").\n',
    "nul.yaml": b"a: \0\n",
    "closed.yaml": STACK,
    "closed.dl": RULES,
    "closed/web.yaml": STACK,
    "closed/m.dl": RULES,
    "half/m.dl": RULES,
    "half/closed/m.dl": RULES,
    "dangling/m.dl": RULES,
    "looping/m.dl": RULES,
}
LINKS = {
    "nowhere.yaml": "absent",
    "loop.yaml": "loop.yaml",
    "loop": "loop",
    "linked": "rules",
    "dangling/n.dl": "absent",
    "looping/sub": "../looping",
    "looping/n.dl": "n.dl",
}
LONG = "x" * 300
DEVICES = ("/dev/null", "/proc/self/mem")
WRITING = ("fmt", "test", "waive")
"""Commands that write to the paths that they read."""
ODD = [
    "absent", "absent/web.yaml", LONG, f"{LONG}/a.yaml", f"stack/{LONG}.yaml", "/".join(["d" * 200] * 25), "a\0b",
    "stack/a\0b.yaml", "", ".", "stack", "rules", "web.yaml/x", "nowhere.yaml", "loop.yaml", "loop",
    "loop/web.yaml", "linked", "dangling", "looping", "empty", "latin.yaml", "latin.dl", "nul.yaml", "closed.yaml",
    "closed.dl", "closed", "closed/web.yaml", "closed/absent", "half", *DEVICES, "-", "~",
    os.fsdecode(b"\xff.yaml"), os.fsdecode(b"absent\xff"), "\udc80\ud800", "broken.yaml", "broken.dl", "list.json",
    "web.yaml", "library.yaml", "env.yaml", "stack:web", "no,such", "{", "text=x", "*", "os:nova:server",
]  # fmt: skip
VALUES: dict[str, list[str]] = {
    "rules": ["rules", "rules/m.dl", "library.yaml", "security"],
    "template": ["web.yaml", "stack", "nested.yaml"],
    "module": ["web.yaml", "web.yaml,env.yaml"],
    "env": ["env.yaml"],
    "root": [".", "stack"],
    "caller": ["caller.json"],
    "rows": ["rows.jsonl"],
    "waivers": ["waivers.yaml"],
    "types": ["types.json"],
    "heat": ["26", "26", "9"],
    "log": ["log.jsonl", "absent.jsonl"],
    "conf": ["heat.conf"],
    "paste": ["api-paste.ini"],
    "report": ["json=report", "text=/dev/null", f"sarif={LONG}", "junit=stack", "json=closed/x", "text=loop"],
    "output": ["pages", "web.yaml", "closed/pages", LONG, "loop/pages"],
    "copy": ["copied", "rules", "web.yaml", f"stack/{LONG}", "loop", "closed/new"],
    "decision": ["DECISION", "DECISION", "a", "decision.json"],
    "format": [*FORMATS, "jsonl"],
    "action": ["create", "update", "delete", "create", "built"],
    "parameter": ["f=huge", "f=a", "f", "=", "g=1", "f=\udc80"],
    "assume": ["{get_param: f} in web=huge", "x", "="],
    "name": ["web", "a/b", "", LONG],
    "time": ["2027-03-01", "2027-03-01", "2027-03-01T12:00Z", "soon"],
    "query": ["m:p(x)", "p(x)", ":- p(x)", "p(", "", "q(x)", "m:huge(x, f)"],
    "relation": ["os:nova:server", "heat:stack", "os:nova:servr", "*", "heat:*", "["],
    "number": ["1", "0", "-1", "a", "999999999999"],
    "engine": ["native", "both", "x"],
    "level": ["deny", "warn", "never", "x"],
    "service": ["edge", "a,b", ""],
    "text": ["net", "net", "", "a\nb"],
    "bound": ["x"],
    "choice": ["error", "empty", "record", "enforce"],
}
"""Good values of each role, some bad ones where it has no path."""
PATHS = {
    "rules", "template", "module", "env", "root", "caller", "rows", "waivers", "types", "log", "conf", "paste",
    "decision",
}  # fmt: skip
READING = "-e env,-P parameter,--assume assume,--stack-name name,--files-root root"
RULE_OPTIONS = "--rules rules,--congress,--catalogue types"
OPTIONS: dict[str, str] = {
    "check": f"{READING},{RULE_OPTIONS},--heat heat,--together,--module module,--action action,--against template,"
    "--caller caller,--services service,--inventory rows,--waivers waivers,--now time,--fail-on level,--strict-unknown,"
    "--mode choice,--select text,--ignore text,--baseline rows,--quiet,--engine engine,--explain,--format format,"
    "--output report,--show-config",
    "facts": f"{READING},--relation relation,--format format,--catalogue types",
    "relations": "--catalogue types",
    "query": "--rules rules,--congress,--facts rows,--undefined choice,--engine engine,--format format,"
    "--catalogue types",
    "test": "--init name,--catalogue types,--seed number",
    "lint": "--catalogue types,--format format",
    "fmt": "--check,--from-congress",
    "docs": f"{RULE_OPTIONS},--output output",
    "examples": f"{RULE_OPTIONS},--format format",
    "diff": "--policy text",
    "rules": "",
    "rules init": "",
    "explain": f"--log log,{RULE_OPTIONS},--inventory rows,--waivers waivers",
    "replay": f"--mode choice,{RULE_OPTIONS},--inventory rows,--waivers waivers,--format format",
    "waive": f"--log log,--owner text,--reason text,--expires time,--ticket text,--while bound,--waivers waivers,"
    f"{RULE_OPTIONS}",
    "waivers check": f"--log log,--now time,{RULE_OPTIONS}",
    "services status": "--heat-conf conf",
    "services list": "--heat-conf conf",
    "services reconcile": "--heat-conf conf,--format format",
    "store check": "--heat-conf conf",
    "store upgrade": "--heat-conf conf",
    "store export": "--heat-conf conf",
    "store import": "--heat-conf conf",
    "inventory pull": "--tables text,--rate number,--output output,--heat-conf conf",
    "scan run": f"--folder root,--processes number,--inventory rows,--waivers waivers,--now time,{RULE_OPTIONS}",
    "scan findings": f"--policy text,--project text,--since time,--format format,{RULE_OPTIONS}",
    "scan query": "--format format",
    "doctor": "--heat-conf conf,--paste paste,--log log,--probe",
}
"""The options of each command with the roles of their values."""
OPERANDS: dict[str, list[str]] = {
    "check": ["template", "template?"], "facts": ["template", "template?"],
    "relations": ["relation?"], "query": ["query"],
    "test": ["rules?"], "lint": ["rules?", "rules?"], "fmt": ["rules", "rules?"],
    "rules init": ["copy", "name?"], "explain": ["decision"], "replay": ["log"], "waive": ["decision", "number"],
    "waivers check": ["waivers?"],
    "examples": ["name?"], "diff": ["rules", "rules", "template?"],
    "store import": ["log", "rules?"], "scan query": ["query"],
}  # fmt: skip
NEEDED = {"--rules", "--heat-conf", "--owner", "--reason", "--expires", "--log"}
"""Options that are mostly given, since many commands can do nothing without them."""
CODES = {
    "check": {0, 1, 2, 3, 4, 64}, "facts": {0, 3, 64}, "relations": {0, 3, 64},
    "query": {0, 2, 3, 4, 64},
    "test": {0, 2, 3, 5, 64}, "lint": {0, 2, 3, 64}, "fmt": {0, 1, 2, 3, 64}, "docs": {0, 2, 3, 64},
    "examples": {0, 2, 3, 64}, "diff": {0, 1, 2, 3, 4, 64},
    "rules": {0, 2, 3, 64}, "explain": {0, 2, 3, 64}, "replay": {0, 1, 2, 3, 64},
    "waive": {0, 2, 3, 64}, "waivers": {0, 1, 2, 3, 64}, "services": {0, 1, 3, 64},
    "doctor": {0, 1, 3, 64}, "store": {0, 1, 3, 64},
    "inventory": {3, 64}, "scan": {0, 1, 2, 3, 4, 64},
}  # fmt: skip
SERVICES = {"serve", "lsp", "repl"}
"""Commands that run until somebody ends them."""
assert {command.split()[0] for command in OPTIONS} == COMMANDS.keys() - SERVICES == CODES.keys()
REASONS = ("Permission denied", "File name too long", "Too many levels", "Is a directory", "Not a directory",
           "No such file", "Input/output error", "null byte", "null character")  # fmt: skip


OWN = ("template.yaml", "./", ". can't", "api-paste.ini")
"""What a message names though no argument does: files of the folder here, and what heat.conf names."""
PARTIAL = ("check", "facts", "test", "doctor", "scan")
"""Commands that print results before they meet what they can't read, and pytest's report."""


class WrongOutcomeError(Exception):
    """What a command did that it must not do."""


class Workshop:
    """A folder with good and odd files. Commands are run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, content in FILES.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        for name, target in LINKS.items():
            (folder / name).symlink_to(target)
        Path(os.fsdecode(os.fsencode(folder) + b"/\xff.yaml")).write_text(STACK)
        with self._inside():
            now = datetime(2027, 3, 1, 12, tzinfo=UTC)
            point = point_at(now, rules=f"{folder}/rules", decision_log=f"{folder}/log.jsonl")
            stack = StackDefinition(STACK, parameters={"f": "huge"})
            answer = point.judge(Operation("api", "create", "web", "p", lambda: stack, {"user_id": "u", "roles": []}))
            point.flush()
            _, decision, _ = _run(["check", "web.yaml", "--rules", "rules", "-P", "f=huge", "--format", "json"])
        self.decision = answer.id
        (folder / "decision.json").write_text(decision)
        for name in ("closed.yaml", "closed.dl", "closed", "half/closed"):
            (folder / name).chmod(0)

    def attempt(self, number: int) -> str:
        """Run the command of this number; return its name and exit code. Errors: WrongOutcomeError."""
        arguments = [self.decision if word == "DECISION" else word for word in command_line(Random(number))]
        with self._inside():
            code, out, err = _run(arguments)
        command = f"{number}: {arguments!r}\n{err}"
        if not isinstance(code, int) or code not in CODES[arguments[0]]:
            raise WrongOutcomeError(f"exit code {code} of {command}")
        output = out + err
        if code in (2, 3, 64) and not output.strip():
            raise WrongOutcomeError(f"no message, exit code {code} of {command}")
        if code in (3, 64) and out and "--format" not in arguments and arguments[0] not in PARTIAL:
            raise WrongOutcomeError(f"stdout has {out!r}, exit code {code} of {command}")
        if any(reason in output for reason in REASONS) and not _names_path(output, arguments):
            raise WrongOutcomeError(f"a message without its path, of {command}")
        return f"{arguments[0]}: {code}"

    @contextmanager
    def _inside(self) -> Iterator[None]:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            with without_overrides():
                yield
        finally:
            os.chdir(before)


@contextmanager
def without_overrides() -> Iterator[None]:
    """Let root read only what the modes of files allow, as any other user."""
    library = ctypes.CDLL(None, use_errno=True)
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()  # man capset: version 3, this thread
    library.capget(header, data)
    effective = data[0]
    data[0] = effective & ~OVERRIDES
    library.capset(header, data)
    try:
        yield
    finally:
        data[0] = effective
        library.capset(header, data)


def command_line(random: Random) -> list[str]:
    """Draw the arguments of a command."""
    command = random.choice([*OPTIONS, *["check"] * 6, "facts", "query", "waive"])
    words = command.split()
    operands = [
        _value(random, role.rstrip("?"))
        for role in OPERANDS.get(command, [])
        if not role.endswith("?") or random.random() < 0.2
    ]
    options: list[str] = []
    for option in filter(None, OPTIONS[command].split(",")):
        name, _, role = option.partition(" ")
        if random.random() < (0.95 if name in NEEDED else 0.12):
            options += [name, _value(random, role)] if role else [name]
    if random.random() < 0.03:
        options.insert(random.randrange(len(options) + 1), random.choice(ODD))
    arguments = [*words, *operands, *options] if random.random() < 0.5 else [*words, *options, *operands]
    return ["empty" if word in DEVICES and words[0] in WRITING else word for word in arguments]


def _value(random: Random, role: str) -> str:
    if role in PATHS and random.random() < 0.35:
        return random.choice(ODD)
    if role == "format" and random.random() < 0.6:
        return random.choice(["text", "json"])
    return random.choice(VALUES[role])


def _run(arguments: list[str]) -> tuple[object, str, str]:
    """The exit code, or a traceback, and what was printed."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace") for _ in range(2)]
    code: object
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(), "utf-8")
    try:
        with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
            try:
                code = run_command(arguments)
            except SystemExit as stop:
                code = stop.code or 0
            except Exception:  # noqa: BLE001 - any at all is what is looked for
                code = traceback.format_exc()
    finally:
        sys.stdin = stdin
    printed = []
    for stream in streams:
        stream.flush()
        buffer = stream.buffer
        assert isinstance(buffer, io.BytesIO)
        printed.append(buffer.getvalue().decode("utf-8", "replace"))
    return code, printed[0], printed[1]


def _names_path(output: str, arguments: list[str]) -> bool:
    """Whether the output holds a path of the arguments, or one of the files in the folder."""
    words = [part for word in arguments for part in (word, word.partition("=")[2], *word.split(",")) if part]
    forms = {form for word in words for form in (word, printable(word), ascii(word)[1:-1], json.dumps(word)[1:-1])}
    escaped = {word.encode("utf-8", "backslashreplace").decode() for word in words}
    return any(form in output for form in (*forms, *escaped, *OWN, "waivers.yaml"))
