"""What is wrong with the doors into a Heat (layer 6): in, its files; out, what was looked at, and how that is.

With credentials in the environment a canary flies: a preview, which builds nothing, and which a live door marks.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, get_args

from datalog_gate.base.diagnostics import Diagnostic, Span, closest
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.settings import GROUP, Settings
from datalog_gate.doors.cli.doctor.check_result import Level, Sign
from datalog_gate.doors.cli.doctor.health import At, examine_engine, examine_log, examine_rules, examine_settings
from datalog_gate.doors.cli.doctor.live_doors import examine_doors, given
from datalog_gate.doors.cli.heat_conf import read_conf, said
from datalog_gate.doors.cli.ini import Ini, read_ini

SCHEMA = "datalog-gate/doctor/1"
CANARY = {
    "stack_name": "datalog-gate-canary",
    "template": {"heat_template_version": "2018-08-31", "description": "A look whether a door is live."},
}
MARK = "Datalog-Gate"
"""The header of every answer to a request that a door looked at, whatever it thought of it."""
PLUGIN_DIRS = ["/usr/lib64/heat", "/usr/lib/heat", "/usr/local/lib/heat", "/usr/local/lib64/heat"]
"""Heat's default (heat/common/config.py:109)."""


def examine(
    heat_conf: Path, paste: Path | None = None, log: Path | None = None, cfn: bool = True, now: datetime | None = None
) -> list[Sign]:
    """What there is to say of the Heat with that configuration. `paste` and `log` are where heat.conf says, unless they
    are given. Without `cfn` heat-api-cfn is not deployed. Errors: InputError for a file that can't be read, UsageError
    where oslo.config is not installed."""
    ini, conf = read_ini(heat_conf), _conf(heat_conf)
    from datalog_gate.decision_point.config_options import build_settings

    try:
        legacy, flavor, dirs = not conf.convergence_engine, conf.paste_deploy.flavor or "", conf.plugin_dirs
        ways = read_ini(paste or heat_conf.parent / conf.paste_deploy.api_paste_config)
    except ValueError as error:
        raise InputError([Diagnostic("unreadable", f"{heat_conf} can't be read: {said(error)}")]) from None

    signs = [*examine_engine(legacy, ini.place("DEFAULT", "convergence_engine")), *_misspelt(ini)]
    doors = given(ways, flavor)
    chosen: list[tuple[Settings, At]] = []
    for section in (None, *doors):
        at: At = partial(_at, ini, ways, section)
        try:
            chosen.append((build_settings(_conf(heat_conf), doors[section] if section else {}), at))
        except ValueError as error:
            option = re.search(r"option (\w+)", str(error))
            place = at(option[1] if option else "")
            signs.append(Sign("finding", "options", said(error), place, "mend it: a service does not start with this"))
            if section is None:
                break
    signs += examine_doors(
        ways, flavor, cfn, any(door_settings.allow_unverified_context for door_settings, _ in chosen)
    )
    for door_settings, at in chosen:
        signs += examine_settings(door_settings, dirs, at, now or datetime.now(UTC))
        signs += examine_rules(door_settings, at)
        signs += examine_log(door_settings, log, at)
    if os.environ.get("OS_AUTH_URL") or os.environ.get("OS_ENDPOINT"):
        signs.append(_canary())
    return list(dict.fromkeys(signs))  # doors of the same settings show the same


def render(signs: Sequence[Sign], form: str) -> str:
    """The signs in a format, text or json."""
    if form == "json":
        return json.dumps({"schema": SCHEMA, "signs": [sign.to_json() for sign in signs]}, ensure_ascii=False) + "\n"
    found, noted, well = (sum(sign.level == level for sign in signs) for level in get_args(Level))
    counts = f"{found} finding{'' if found == 1 else 's'}, {noted} note{'' if noted == 1 else 's'}, {well} in order"
    return "\n".join([*map(str, signs), counts]) + "\n"


def _conf(path: Path) -> Any:
    """What Heat reads of its file, with its own options that count here. Errors: as `read_conf`."""
    conf = read_conf(path)
    from oslo_config import cfg

    conf.register_opts(
        [cfg.BoolOpt("convergence_engine", default=True), cfg.ListOpt("plugin_dirs", default=PLUGIN_DIRS)]
    )
    conf.register_opts([cfg.StrOpt("flavor"), cfg.StrOpt("api_paste_config", default="api-paste.ini")], "paste_deploy")
    return conf


def _at(ini: Ini, paste: Ini, section: str | None, option: str) -> Span:
    """Where an option is given: in the section of a door, or else in heat.conf."""
    if section and (option in paste.sections[section].options or not option):
        return paste.place(section, option)
    return ini.place(GROUP, option)


def _misspelt(ini: Ini) -> Iterator[Sign]:
    """Options that oslo.config passes over in silence, since nobody has registered them."""
    names = {field.name for field in fields(Settings)}
    for name in ini.sections[GROUP].options if GROUP in ini.sections else ():
        if name not in names:
            near = closest(name, names)
            fix = f"write {near}" if near else "take it out"
            yield Sign("finding", "options", f"there is no option {name}", ini.place(GROUP, name), fix)


def _canary() -> Sign:
    """Whether a door answers for the Heat that the credentials lead to."""
    from datalog_gate.doors.cli.heat_client import Heat

    try:
        status, headers = Heat().post("/stacks/preview", CANARY)
    except InputError as error:
        return Sign("finding", "canary", error.diagnostics[0].message, None, error.diagnostics[0].suggestion or "")
    if mark := headers.get(MARK):
        return Sign("ok", "canary", f"a door is live: it says {mark.partition(';')[0]}")
    fix = "mend what is found at the doors and restart the API; or Heat refused who asks before a door could"
    return Sign("finding", "canary", f"no door is live: a preview was answered with {status} and no {MARK}", None, fix)
