"""Checks of rules, catalogue, inventory, waivers and the break-glass file."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime
from pathlib import Path

from datalog_gate.api import Rules
from datalog_gate.base.diagnostics import closest, format_count
from datalog_gate.base.errors import DiagnosticsError
from datalog_gate.decision_point.break_glass import load_break_glass
from datalog_gate.decision_point.inventory_source import STORE
from datalog_gate.decision_point.policy_reload import find_roots, load_service_rules
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor import CheckResult, Locate, format_first, format_fix, format_line
from datalog_gate.doors.cli.doctor.inventories import check_inventory
from datalog_gate.files.rules import shipped_rules
from datalog_gate.files.templates import read_catalogue, read_text
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.template.document import read_document


def check_policy_inputs(settings: Settings, locate: Locate, now: datetime, heat_conf: str) -> Iterator[CheckResult]:
    """Check that all files load together and are up to date, and who may write them."""
    files = {
        "rules": [str(path) for path in find_roots(settings)] if settings.rules else [],
        "catalogue": settings.catalogue,
        "inventory": [path for path in (settings.inventory,) if path not in ("", STORE)],
        "waivers": [path for path in (settings.waivers,) if path],
    }
    rules = yield from _check_rules(settings, locate)
    if settings.inventory:
        yield from check_inventory(settings, rules, locate, now, heat_conf)
    if settings.waivers:
        yield from _check_waivers(settings, rules, locate, now)
    for option, paths in (files | {"break_glass": [path for path in (settings.break_glass,) if path]}).items():
        for path in paths:
            yield from check_writers(option, Path(path), locate)


def _check_rules(settings: Settings, locate: Locate) -> Generator[CheckResult, None, Rules | None]:
    """Check that the rules load with their catalogue; return them or None."""
    catalogue = SHIPPED
    try:
        catalogue = read_catalogue(*settings.catalogue)
    except DiagnosticsError as error:
        message = f"it can't be loaded: {format_first(error)}"
        yield CheckResult("finding", "catalogue", message, locate("catalogue"), format_fix(error, "correct it"))
    try:
        rules = load_service_rules(settings, catalogue)
    except DiagnosticsError as error:
        fix = format_fix(error, f"correct what `datalog-gate lint {' '.join(settings.rules)}` shows")
        yield CheckResult("finding", "rules", f"they can't be loaded: {format_first(error)}", locate("rules"), fix)
        return None
    policies = {policy.id for policy in rules.policies}
    source = ", ".join(settings.rules) or f"none are set, so {shipped_rules()}"
    count = format_count(len(policies), "policy", "policies")
    yield CheckResult("ok", "rules", f"{rules.digest[:12]} with {count}: {source}", locate("rules"))
    for warning in rules.warnings:
        yield CheckResult("note", "rules", format_line(warning), locate("rules"))
    for name in sorted(settings.policy_modes.keys() - policies):
        near = closest(name, policies)
        message = f"policy_modes names {name}, which is not a policy of the rules: it has no effect"
        fix = f"write {near} in place of {name}" if near else f"remove {name} from policy_modes"
        yield CheckResult("finding", "rules", message, locate("policy_modes"), fix)
    return rules


def _check_waivers(settings: Settings, rules: Rules | None, locate: Locate, now: datetime) -> Iterator[CheckResult]:
    path = settings.waivers
    try:
        document = read_document(read_text(path), path)
        waivers = rules.waivers(document) if rules else ()
    except DiagnosticsError as error:
        fix = format_fix(error, f"correct what `datalog-gate waivers check {path}` shows")
        yield CheckResult("finding", "waivers", f"they can't be loaded: {format_first(error)}", locate("waivers"), fix)
        return
    for index, waiver in enumerate(waivers):
        place = document.place(("waivers", index))
        if now >= waiver.until:
            message = (
                f"the waiver {waiver.id} of {waiver.policy} expired on {waiver.expires}: its violations count again"
            )
            fix = f"remove it from {path}, or agree with {waiver.owner} on a later date for `expires`"
            yield CheckResult("finding", "waivers", message, place, fix)
        elif waiver.ends_soon(now):
            message = f"the waiver {waiver.id} of {waiver.policy} has {waiver.left(now)}, until {waiver.expires}"
            yield CheckResult("note", "waivers", message, place)


def check_writers(about: str, path: Path, locate: Locate) -> Iterator[CheckResult]:
    """Check that only the owner may write a file, or a folder and everything below it."""
    writable = [file for file in (path, *sorted(path.rglob("*"))) if _is_writable_by_others(file)]
    if writable:
        more = f" and {len(writable) - 1} more below it" if len(writable) > 1 else ""
        message = f"users other than the owner may write {writable[0]}{more}"
        yield CheckResult(
            "finding", about, message, locate(about), f"chmod {'-R ' if path.is_dir() else ''}go-w {path}"
        )


def _is_writable_by_others(path: Path) -> bool:
    """Whether the group or others may write the file. False if that is not known."""
    try:
        return bool(path.stat().st_mode & 0o022)
    except OSError:
        return False


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
