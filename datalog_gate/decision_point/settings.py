"""The options of the section ``[datalog_gate]``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from datalog_gate.base.records import dataclass, field, fields

GROUP = "datalog_gate"
MODES = ("enforce", "warn", "record", "off")


def _option(default: Any, text: str, **arguments: Any) -> Any:
    """A field that is an option of oslo.config, with its help and other arguments."""
    metadata = {"default": list(default) if isinstance(default, tuple) else default, "help": text, **arguments}
    return field(default_factory=lambda: default, metadata=metadata, repr="secret" not in arguments)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options with their defaults."""

    rules: tuple[str, ...] = _option(
        (),
        "Absolute paths of rule files and folders, or names of installed packs, comma-separated. They are reloaded when"
        " they change; if the new ones do not load, the previous ones stay in force. If empty, the packs of the package"
        " are used.",
        place="rules",
        mutable=True,
    )
    catalogue: tuple[str, ...] = _option(
        (), "Files with resource types of plugins, or of another version of Heat.", place="path", mutable=True
    )
    inventory: str = _option(
        "",
        "The contents of the cloud: a file of facts, one JSON object per line, or `store` for the newest inventory "
        "that `datalog-gate inventory pull` wrote into the store. It is reloaded when it changes; meanwhile requests "
        "use the previous one.",
        place="path or store",
        mutable=True,
    )
    waivers: str = _option(
        "",
        "A file of waivers, as `check --waivers` reads it, reloaded with the rules when it changes; or `store` for the "
        "waivers that were given through the policy server.",
        place="path or store",
        mutable=True,
    )
    reload_seconds: float = _option(
        5.0,
        "Minimum number of seconds between checks whether the options, rules, catalogue, inventory, waivers or rules "
        "of oslo.policy have changed.",
        min=0,
        mutable=True,
    )
    mode: str = _option(
        "enforce",
        "The strongest effect that a violation may have. In all modes but `enforce` hardly anything is refused, not "
        "even what can't be judged: docs/install.md lists what is.",
        choices=[
            ("enforce", "operations that policies deny are refused"),
            ("warn", "violations are reported to the caller"),
            ("record", "violations are only written to the decision log"),
            ("off", "nothing is judged"),
        ],
        mutable=True,
    )
    project_modes: Mapping[str, str] = _option(
        {}, "Modes of single projects, used instead of `mode`: PROJECT_ID:MODE, comma-separated.", mutable=True
    )
    policy_modes: Mapping[str, str] = _option(
        {},
        "Weaker modes of single policies: POLICY_ID:MODE, comma-separated. They can't exceed the mode of the project.",
        mutable=True,
    )
    exempt_projects: tuple[str, ...] = _option(
        (), "Ids of projects whose stacks are not judged, such as the service project's.", mutable=True
    )
    exempt_users: tuple[str, ...] = _option(
        (), "Ids of users, such as services', whose requests are not judged.", mutable=True
    )
    break_glass: str = _option(
        "",
        "A file that an operator writes to let refused requests pass for a while, if the policy "
        "datalog_gate:break_glass allows it to the caller. It contains the end time in ISO 8601, at most a day ahead, "
        "a space, and the reason.",
        place="path",
        mutable=True,
    )
    services: tuple[str, ...] = _option(
        (),
        "Services of the entry-point group datalog_gate.services: opt-in ones, which grants may unlock to whom the "
        "policy datalog_gate:grant:SERVICE allows it, and those that are consulted for every stack.",
    )
    service_option: tuple[str, ...] = _option(
        (),
        "A setting of a service: NAME.KEY=VALUE. May be given several times; in a paste section, one per line.",
        several=True,
    )
    store: str = _option(
        "",
        "The database, shared by all hosts, for the claims of services and approvals: "
        "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE or mysql+pymysql://USER:PASSWORD@HOST/DATABASE. "
        "`datalog-gate store upgrade` creates its tables. On a single host it may be the path of a file on a local "
        "disk, which is created when it is first used.",
        place="database",
        secret=True,
    )
    service_call_seconds: float = _option(10.0, "Timeout of a call to a service, in seconds.", min=0.1)
    service_step_seconds: float = _option(
        25.0, "Timeout of all calls to a service for one grant together, in seconds.", min=0.1
    )
    service_lease_seconds: float = _option(
        120.0,
        "Seconds for which a process holds a grant before another process may take over; more than "
        "service_step_seconds.",
        min=1,
    )
    service_late_seconds: float = _option(
        300.0,
        "Seconds during which a call that timed out may still take effect; after that its claim is released.",
        min=0,
    )
    budget_seconds: float = _option(
        5.0,
        "Work of the policies of one level; past it they are indeterminate. 1 is 10,000,000 steps, about a second.",
        min=0,
        mutable=True,
    )
    budget_facts: int = _option(1_000_000, "Facts that the policies of one level may derive.", min=1, mutable=True)
    decision_log: str = _option(
        "",
        "The file to which decisions are logged, one JSON object per line. If empty, decisions are not logged.",
        place="path",
    )
    decision_log_bytes: int = _option(
        100 * 1024 * 1024, "Bytes on disk that the log and its one older file may take together.", min=1024
    )
    metrics_port: int = _option(
        0,
        "The port on which the metrics of all processes of the host are served to Prometheus; 0 serves none. The "
        "address, the port and the folder must be the same for all processes.",
        min=0,
        max=65535,
    )
    metrics_host: str = _option("127.0.0.1", "The address of the port. There is no authentication.")
    metrics_folder: str = _option(
        "",
        "A folder through which processes add up their metrics, on a local disk or in memory, writable by the users of "
        "all of Heat's services. If empty, only processes of the same user with the same temporary folder add up.",
        place="path",
    )
    body_limit: int = _option(
        1024 * 1024,
        "Maximum size of a request that can be judged, in bytes; the same as Heat's max_json_body_size.",
        min=1,
    )
    create_denial: str = _option(
        "refuse",
        "What happens to a denied creation.",
        choices=[
            ("refuse", "it is answered with 403"),
            (
                "failed_stack",
                "a stack is created that fails with the reason; needs the gate's resources in plugin_dirs",
            ),
        ],
    )
    keep_vetoed_stack: bool = _option(
        False,
        "Keep a stack that the lifecycle plugin vetoes even if its user asked for rollback; otherwise it is deleted "
        "together with the reason.",
    )
    allow_unverified_context: bool = _option(
        False, "Trust a context that no authtoken verified, as in the flavor noauth. For tests only."
    )


LIVE_OPTIONS = tuple(option.name for option in fields(Settings) if option.metadata.get("mutable"))
"""The options that are reloaded when the configuration files change."""


def parse_service_options(texts: Sequence[str]) -> dict[str, dict[str, str]]:
    """Parse NAME.KEY=VALUE texts into the options of each service. Errors: ValueError."""
    options: dict[str, dict[str, str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        service, dot, key = name.partition(".")
        if not (service and dot and key and equals):
            name = re.split("[=:. ]", text)[0]  # the rest may be secret
            raise ValueError(f"service_option {name} is not NAME.KEY=VALUE")
        options.setdefault(service.strip(), {})[key.strip()] = value.strip()
    return options
