"""Options of a check, on the command line and in configuration files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from datalog_gate.analysis.policy import ACTIONS, LEVELS
from datalog_gate.base.records import dataclass
from datalog_gate.schema.resource_types import HEATS, NEWEST

WAIVERS = "DATALOG_GATE_WAIVERS"
FAIL_ON = (*LEVELS, "never")
FORMATS = (
    "text",
    "compact",
    "json",
    "junit",
    "sarif",
    "github",
    "html",
)
OUTPUTS = (*FORMATS, "baseline")
"""The formats of `--output`."""
MOST_JOBS = 64
MODES = ("record", "warn", "enforce")
LIVE_PREFIX = "stack:"
"""The prefix of `--against` for a stack in Heat."""


@dataclass(frozen=True, slots=True)
class CheckOption:
    """An option of `check`, with the same name in a configuration."""

    name: str
    help: str
    metavar: str | None = None
    short: str | None = None
    read: Callable[[str], object] = str
    """Converts the text of a value. Errors: ValueError."""
    many: bool = False
    """Whether it may be given several times, and its value is a list."""
    flag: bool = False
    """Whether it is true or false, or one of the choices."""
    choices: Sequence[str] = ()
    default: object = None
    """The default value; a list if there may be several."""
    variable: str | None = None
    """The environment variable that gives the default."""
    rebase: Callable[[str, Path], str] = lambda text, _: text
    """Converts a path in a configuration in this folder to one relative to the working directory."""

    @property
    def attribute(self) -> str:
        """The name of its attribute in Python."""
        return self.name.replace("-", "_")

    def initial(self) -> object:
        """The value if none is given."""
        if self.variable and (text := os.environ.get(self.variable)):
            return text
        return [] if self.many else self.default


def read_pair(text: str) -> tuple[str, str]:
    """Read KEY=VALUE. Errors: ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return name, value


def read_list(text: str) -> tuple[str, ...]:
    """Read words separated by commas."""
    return tuple(part for part in text.split(",") if part)


def read_iso_time(text: str) -> datetime:
    """Read a time in ISO 8601, in UTC if it names its zone. Errors: ValueError."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else time
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not an ISO time like 2027-03-01T12:00") from None


def read_jobs(text: str) -> int:
    """Read a number of processes. Errors: ValueError."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_JOBS:
        raise ValueError(f"{text!r} is not a number from 1 to {MOST_JOBS}")
    return int(text)


def read_output(text: str) -> tuple[str, Path]:
    """Read FMT=FILE. Errors: ValueError."""
    form, equals, path = text.partition("=")
    if not equals or not path or form not in OUTPUTS:
        raise ValueError(f"{text!r} is not FMT=FILE with one of {', '.join(OUTPUTS)}")
    return form, Path(path)


def _read_assumption(text: str) -> str:
    """The text itself, since only the reader of templates knows where the expression ends."""
    read_pair(text)
    return text


def _read_module(text: str) -> tuple[str, tuple[str, ...]]:
    template, *environments = text.split(",")
    if not template or "" in environments:
        raise ValueError(f"{text!r} is not T[,ENV]...")
    return template, tuple(environments)


def rebase_path(text: str, folder: Path) -> str:
    """A path in a configuration in a folder, relative to the working directory."""
    return text if os.path.isabs(text) else os.path.relpath(os.path.join(folder, text))


def _rebase_rules(text: str, folder: Path) -> str:
    """A path to rules. A word that names no file there is the name of an installed pack."""
    installed = os.path.basename(text) == text and not os.path.lexists(os.path.join(folder, text))
    return text if installed else rebase_path(text, folder)


def _rebase_module(text: str, folder: Path) -> str:
    return ",".join(rebase_path(part, folder) if part else part for part in text.split(","))


def _rebase_output(text: str, folder: Path) -> str:
    form, _, path = text.partition("=")
    return f"{form}={rebase_path(path, folder)}" if path else text


def _rebase_stack(text: str, folder: Path) -> str:
    return text if text.startswith(LIVE_PREFIX) else rebase_path(text, folder)


CHECK_OPTIONS = (
    CheckOption("environment", "environment file", "ENV", short="-e", many=True, rebase=rebase_path),
    CheckOption("parameter", "a parameter's value", "KEY=VALUE", short="-P", read=read_pair, many=True),
    CheckOption(
        "assume", "the value of an unknown, named by its expression", "EXPR=VALUE", read=_read_assumption, many=True
    ),
    CheckOption("stack-name", "the root stack's name (default: the file's stem)", "N"),
    CheckOption(
        "files-root",
        "folder that files may be read from (default: that of the template)",
        "DIR",
        many=True,
        rebase=rebase_path,
    ),
    CheckOption("fetch", "read templates and files at URLs, over HTTP", flag=True, default=False),
    CheckOption("jobs", "processes that judge the templates (default: 1)", "N", read=read_jobs, default=1),
    CheckOption("together", "judge all templates as one set of facts, a cloud", flag=True, default=False),
    CheckOption(
        "module",
        "another template, with environments of its own after those of -e",
        "T[,ENV]...",
        read=_read_module,
        many=True,
        rebase=_rebase_module,
    ),
    CheckOption(
        "stack", "judge a stack in Heat, by name or id, with the credentials in the variables OS_*", "NAME", many=True
    ),
    CheckOption(
        "rules",
        "rule file or folder (default: ./rules, else $DATALOG_GATE_RULES, else the packs of the package)",
        "PATH",
        many=True,
        rebase=_rebase_rules,
    ),
    CheckOption("congress", "read rule files as OpenStack Congress reads them", flag=True, default=False),
    CheckOption(
        "catalogue",
        "resource types of a plugin, or of another version of Heat as contrib/harvest.py prints them",
        "FILE",
        many=True,
        rebase=rebase_path,
    ),
    CheckOption(
        "heat",
        "the Heat by which templates are validated (default: the newest)",
        choices=tuple(HEATS),
        default=NEWEST,
    ),
    CheckOption(
        "heat-conf",
        "the heat.conf whose defaults of properties are in force, as default_user_data_format (default: Heat's own)",
        "FILE",
        rebase=rebase_path,
    ),
    CheckOption("action", "the operation on the stack (default: create, or update with --against)", choices=ACTIONS),
    CheckOption(
        "against",
        "the stack before an update: a template, a folder with a template.yaml, or stack:NAME for one in Heat",
        "OLD",
        rebase=_rebase_stack,
    ),
    CheckOption("caller", "the caller: user, project, domain, roles", "FILE.json", rebase=rebase_path),
    CheckOption("services", "services enabled for the caller", "A,B", read=read_list, default=()),
    CheckOption("inventory", "facts about the cloud, as `facts` writes them", "FILE.jsonl", rebase=rebase_path),
    CheckOption(
        "waivers", f"waivers (default: ${WAIVERS}, or none)", "FILE.yaml", variable=WAIVERS, rebase=rebase_path
    ),
    CheckOption(
        "select", "judge only these policies, or those that match a pattern", "A,B", read=read_list, default=()
    ),
    CheckOption("deprecated", "warn of what Heat hides or deprecates", flag=True, default=False),
    CheckOption("ignore", "do not judge these policies", "A,B", read=read_list, default=()),
    CheckOption(
        "baseline",
        "known findings, which do not change the outcome, as --output baseline=FILE writes them",
        "FILE",
        rebase=rebase_path,
    ),
    CheckOption("now", "the time to judge at (default: now, in UTC)", "ISO", read=read_iso_time),
    CheckOption("fail-on", "exit 1 for findings of this level or a more severe one", choices=FAIL_ON),
    CheckOption("strict-unknown", "exit 4 if a finding is undetermined", flag=True, default=False),
    CheckOption("mode", "the most severe effect of a policy", choices=MODES, default="enforce"),
    CheckOption(
        "engine", "the engine that derives the violations", choices=("native", "pydatalog", "both"), default="native"
    ),
    CheckOption(
        "explain",
        "explain each finding, and suggest a fix; --explain=all also lists what clean policies looked at",
        flag=True,
        choices=("all",),
        default=False,
    ),
    CheckOption("cache", "keep checked rules for later runs, in ~/.cache/datalog-gate", flag=True, default=True),
    CheckOption(
        "quiet",
        "print only findings that were not there before, without counts and notes",
        short="-q",
        flag=True,
        default=False,
    ),
    CheckOption("format", "the format of the output", choices=FORMATS, default="text"),
    CheckOption(
        "output", "also write a format to a file", "FMT=FILE", read=read_output, many=True, rebase=_rebase_output
    ),
)
"""All options of `check` except its templates, in the order of the help."""
BY_NAME = {option.name: option for option in CHECK_OPTIONS}
