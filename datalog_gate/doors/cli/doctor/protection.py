"""Checks of who may change or lift decisions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import closest
from datalog_gate.base.errors import RulesError
from datalog_gate.decision_point.break_glass import load_break_glass
from datalog_gate.decision_point.enabled_plugins import list_grantable
from datalog_gate.decision_point.inventory_source import STORE
from datalog_gate.decision_point.policy_reload import find_roots
from datalog_gate.decision_point.roles import BREAK_GLASS, GRANT, create_enforcer
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor import CheckResult, Level, Locate
from datalog_gate.doors.cli.heat_conf import IniFile

OWN = "datalog_gate:"
"""The prefix of the gate's rules of oslo.policy."""


def check_permissions(settings: Settings, locate: Locate) -> Iterator[CheckResult]:
    """Check that only their owner may write the files that a decision depends on, and who may read the log."""
    try:
        roots = find_roots(settings) if settings.rules else []
    except RulesError:  # reported by the check of the rules
        roots = []
    files: dict[str, Sequence[str | Path]] = {
        "rules": roots,
        "catalogue": settings.catalogue,
        "inventory": [settings.inventory],
        "waivers": [settings.waivers],
        "break_glass": [settings.break_glass],
        "decision_log": [settings.decision_log],
    }
    for option, paths in files.items():
        for path in paths:
            if path not in ("", STORE):
                yield from check_writers(option, Path(path), locate)


def check_writers(about: str, path: Path, locate: Locate) -> Iterator[CheckResult]:
    """Check that only the owner may write a file, or a folder and everything below it."""
    writable = [file for file in (path, *sorted(path.rglob("*"))) if _is_writable_by_others(file)]
    if writable:
        more = f" and {len(writable) - 1} more below it" if len(writable) > 1 else ""
        message = f"users other than the owner may write {writable[0]}{more}"
        fix = f"chmod {'-R ' if path.is_dir() else ''}go-w {path}"
        yield CheckResult("finding", about, message, locate(about), fix)


def _is_writable_by_others(path: Path) -> bool:
    """Whether the group or others may write the file. False if that is not known."""
    try:
        return bool(path.stat().st_mode & 0o022)
    except OSError:
        return False


def check_policy_file(conf: Any, ini: IniFile, all_settings: list[Settings]) -> Iterator[CheckResult]:
    """Check that oslo.policy reads the rules that the operator wrote, and does not fall back to their defaults."""
    place = ini.place("oslo_policy", "policy_file")
    services = list(dict.fromkeys(name for settings in all_settings for name in list_grantable(settings)))
    logging.getLogger("oslo_policy").addHandler(logging.NullHandler())  # a service logs this, not the doctor
    enforcer = create_enforcer(conf, services)
    if enforcer.policy_path:
        yield from check_writers("policy_file", Path(enforcer.policy_path), lambda _: place)
    elif conf.get_location("policy_file", "oslo_policy").location.name == "user":
        message = f"the policy file {enforcer.policy_file} is missing, so the defaults apply, also for Heat's own rules"
        yield CheckResult("finding", "policy_file", message, place, "correct policy_file under [oslo_policy]")
    elif services or any(settings.break_glass for settings in all_settings):
        name, who = (f"{GRANT}:{services[0]}", "any member may grant every service") if services else (
            BREAK_GLASS, "any admin may break the glass")  # fmt: skip
        message = f"policy.yaml is missing, so the defaults apply: {who}"
        fix = f'write `"{name}": "role:admin"` into policy.yaml beside heat.conf, or another rule'
        yield CheckResult("note", "policy_file", message, place, fix)
    for name in sorted(enforcer.file_rules.keys() - enforcer.registered_rules.keys()):
        if name.startswith(OWN):
            of_service = name.startswith(f"{GRANT}:")
            rules = {rule for rule in enforcer.registered_rules if rule.startswith(f"{GRANT}:") == of_service}
            near = closest(name, rules)
            fix = f"write {near} in place of {name}" if near else "remove it"
            message = f"the gate has no rule {name}: it has no effect"
            if of_service:
                fix += f", or add {name.removeprefix(f'{GRANT}:')} to `services`"
            level: Level = "finding" if services or not of_service else "note"  # it may be meant for later use
            yield CheckResult(level, "policy_file", message, place, fix)


def check_break_glass(settings: Settings, locate: Locate, now: datetime) -> Iterator[CheckResult]:
    """Check whether break-glass is in force, and whether the file would take effect."""
    path, place = settings.break_glass, locate("break_glass")
    try:
        override = load_break_glass(path, now)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"the break-glass file {path} is ignored: {reason}"
        example = f"""echo "$(date -u -d '2 hours' +%FT%TZ) why" > {path}"""
        yield CheckResult("finding", "break_glass", message, place, f"write `{example}`, or remove the file")
        return
    if override:
        until = override.until.isoformat()
        message = f"break-glass is in force until {until} ({override.why}): refused requests may pass"
        yield CheckResult("finding", "break_glass", message, place, f"remove {path} when it is no longer needed")
