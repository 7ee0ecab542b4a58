"""The options of the section ``[datalog_gate]``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Any

from datalog_gate.base.records import dataclass

GROUP = "datalog_gate"
MODES = ("enforce", "warn", "record", "off")


def _option(default: Any, text: str, **arguments: Any) -> Any:
    """A field that is an option of oslo.config, with its help and other arguments."""
    metadata = {"default": list(default) if isinstance(default, tuple) else default, "help": text, **arguments}
    return field(default_factory=lambda: default, metadata=metadata, repr="secret" not in arguments)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options with their defaults. Errors: ValueError for a text in place of a list of texts."""

    rules: tuple[str, ...] = _option(
        (),
        "Rule files and folders, comma-separated. They are loaded again when they change; a set that does not load "
        "leaves the one before in force. Without any the packs of the package are used.",
        mutable=True,
    )
    catalogue: tuple[str, ...] = _option(
        (), "Files with resource types of plugins, or of another version of Heat.", mutable=True
    )
    inventory: str = _option(
        "",
        "What there is in the cloud: a file of facts, one JSON object a line, or `store` for the newest that "
        "`datalog-gate inventory pull` wrote into the store. It is loaded again on change, while requests go on with "
        "the one before.",
        mutable=True,
    )
    waivers: str = _option(
        "",
        "A file of waivers, as `check --waivers` reads it, loaded again on change together with the rules; or `store` "
        "for those that people gave by the policy server.",
        mutable=True,
    )
    reload_seconds: float = _option(
        5.0,
        "Options, rules, catalogue, inventory, waivers and rules of oslo.policy are looked at for changes no oftener.",
        min=0,
        mutable=True,
    )
    mode: str = _option(
        "enforce",
        "The most that a violation may do. Short of `enforce` nothing is refused, not even what can't be judged.",
        choices=[
            ("enforce", "what policies deny is refused"),
            ("warn", "whoever asks is told"),
            ("record", "the decision log is told"),
            ("off", "nothing is judged"),
        ],
        mutable=True,
    )
    project_modes: Mapping[str, str] = _option(
        {}, "The mode of single projects in place of `mode`: PROJECT_ID:MODE, comma-separated.", mutable=True
    )
    policy_modes: Mapping[str, str] = _option(
        {},
        "Lower modes of single policies: POLICY_ID:MODE, comma-separated. A project's mode is the most.",
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
        "A file that an operator writes to let refused requests pass for a while, of callers that the policy "
        "datalog_gate:break_glass names: a time in ISO 8601 until when, at most a day ahead, a space, and why.",
        mutable=True,
    )
    services: tuple[str, ...] = _option(
        (),
        "Opt-in services that grants may unlock, of the entry-point group datalog_gate.services. Who may use one "
        "is the policy datalog_gate:grant:SERVICE.",
    )
    service_option: tuple[str, ...] = _option(
        (), "A setting of a service, as preflight_option has it for plugins.", several=True
    )
    store: str = _option(
        "",
        "The database in which is written down what services hold for grants, who approved them, and what plugins of "
        "preflight are still to be told, for all hosts: postgresql+psycopg://USER:PASSWORD@HOST/DATABASE or "
        "mysql+pymysql://USER:PASSWORD@HOST/DATABASE. `datalog-gate store upgrade` makes its tables.",
        secret=True,
    )
    service_journal: str = _option(
        "",
        "The file that is the store where `store` is not set: on a local disk, the same one for all processes of the "
        "one host. No service is enabled without either.",
    )
    service_call_seconds: float = _option(10.0, "Seconds until a call of a service is given up.", min=0.1)
    service_step_seconds: float = _option(
        25.0, "Seconds that all calls of a service for one grant may take together.", min=0.1
    )
    service_lease_seconds: float = _option(
        120.0,
        "Seconds that a process has for a grant before another one may go on in its place; more than for a step.",
        min=1,
    )
    service_late_seconds: float = _option(
        300.0,
        "Seconds in which a call that was given up may still take effect; what it may hold is released again then.",
        min=0,
    )
    preflight: tuple[str, ...] = _option(
        (), "Plugins of the entry-point group datalog_gate.preflight that are asked before each operation."
    )
    preflight_option: tuple[str, ...] = _option(
        (),
        "A setting of a plugin: NAME.KEY=VALUE. May be given several times; in a paste section, a line each.",
        several=True,
    )
    budget_seconds: float = _option(
        5.0, "Seconds that the policies of one level may take; past them they are indeterminate.", min=0, mutable=True
    )
    budget_facts: int = _option(1_000_000, "Facts that the policies of one level may derive.", min=1, mutable=True)
    decision_log: str = _option(
        "", "The file that decisions are logged to, one JSON object a line. Without it none are."
    )
    decision_log_bytes: int = _option(
        100 * 1024 * 1024, "Bytes on disk that the log and the one older file beside it take together.", min=1024
    )
    metrics_port: int = _option(
        0,
        "The port on which the numbers of all processes of the host are told to Prometheus; 0 tells none. The address, "
        "the port and the folder are the same for all of them.",
        min=0,
        max=65535,
    )
    metrics_host: str = _option("127.0.0.1", "The address of the port; nobody who can reach it is asked who he is.")
    metrics_folder: str = _option(
        "",
        "A folder through which processes add up their numbers, on a local disk or in memory, that the users of all of "
        "Heat's services can write. Without it the processes of one user that see the same temporary files do.",
    )
    body_limit: int = _option(1024 * 1024, "Bytes of a request that can be judged; Heat's max_json_body_size.", min=1)
    create_denial: str = _option(
        "refuse",
        "What becomes of a denied creation.",
        choices=[
            ("refuse", "it is answered with 403"),
            ("failed_stack", "a stack is made that fails with the reason; needs our resources in plugin_dirs"),
        ],
    )
    keep_vetoed_stack: bool = _option(
        False,
        "Keep a stack that the lifecycle plugin vetoes where its user asked for rollback: else it is deleted, and "
        "the reason with it.",
    )
    allow_unverified_context: bool = _option(
        False, "Trust a context that no authtoken verified, as in the flavor noauth. For tests only."
    )

    @property
    def store_url(self) -> str:
        """The URL of the store, or the path of its file; empty if there is none."""
        return self.store or self.service_journal

    def __post_init__(self) -> None:
        for option in fields(self):
            if isinstance(getattr(self, option.name), str) and isinstance(option.metadata["default"], list):
                raise ValueError(f"{option.name} is one text: write ({getattr(self, option.name)!r},)")


LIVE_OPTIONS = tuple(option.name for option in fields(Settings) if option.metadata.get("mutable"))
"""The options that are reloaded when the configuration files change."""


def list_changed(settings: Settings) -> dict[str, object]:
    """The options that differ from their defaults, as JSON data without passwords. Only the names of plugin
    settings."""
    defaults, changed = Settings(), dict[str, object]()
    for option in fields(Settings):
        value = getattr(settings, option.name)
        if value == getattr(defaults, option.name):
            continue
        if option.metadata.get("several"):
            value = sorted(text.partition("=")[0].strip() for text in value)
        elif option.metadata.get("secret"):
            value = re.sub(r"//[^/@]*@", "//", value)
        changed[option.name] = list(value) if isinstance(value, tuple) else value
    return changed


def parse_plugin_options(option: str, texts: Sequence[str]) -> dict[str, dict[str, str]]:
    """Parse NAME.KEY=VALUE texts into the options of each plugin. Errors: ValueError, which names the `option`."""
    options: dict[str, dict[str, str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        plugin, dot, key = name.partition(".")
        if not (plugin and dot and key and equals):
            raise ValueError(f"{option} {re.split('[=:. ]', text)[0]} is not NAME.KEY=VALUE")  # the rest may be secret
        options.setdefault(plugin.strip(), {})[key.strip()] = value.strip()
    return options
