"""Relations that rules read and a run does not fill."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.analysis.strata import matches
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.records import dataclass, replace
from datalog_gate.decision.cloud_state import AGES, READINGS, Inventory
from datalog_gate.files.pack_file import OPTIONAL_FIELDS, read_pack_file
from datalog_gate.files.rules import PACK_FILE
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import RelationRef

LIMITS_STEM = "limits"
"""The module of a pack whose relations `limits.yaml` fills, even with no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInputs:
    """The inputs of a run. Its options and the keys of a project's configuration have the same names."""

    inventory: Inventory | str | None
    """The path if it can't be read."""
    inventory_file: str | None
    caller: Mapping[str, object] | None
    caller_file: str | None
    services: Sequence[str]
    stack: str | None
    """The judged stack in Heat."""


def find_unfilled(program: CheckedProgram, catalogue: Catalogue, given: RunInputs) -> list[Diagnostic]:
    """Warn once about relations that rules read and a run does not fill, unless a ``pack.yaml`` says that they are
    optional. The warnings have no place. Errors: RulesError for a ``pack.yaml``."""
    fields: dict[str, Mapping[str, str]] = {}

    def is_optional(file: str, field: str) -> bool:
        folder = os.path.dirname(file)
        if folder not in fields:
            fields[folder] = read_pack_file(Path(folder, PACK_FILE))
        return field in OPTIONAL_FIELDS and fields[folder].get(field) == "optional"

    readers: dict[RelationRef, set[str]] = {}
    columns: set[str] = set()
    generated = [rule for rule in program.rules if str(rule.relation).startswith(cloud.LIVE)]
    behind = {rule.relation: {match.relation for match in matches(rule.body)} for rule in generated}
    for rule in program.rules:
        if rule.relation in behind:
            continue
        for match in matches(rule.body):
            for name in behind.get(match.relation, {match.relation}):
                readers.setdefault(name, set()).add(rule.span.file)
            if match.relation == "gate:caller":
                columns |= {program.relations["gate:caller"].columns[at].name for at in match.columns}
    names: dict[Diagnostic, list[str]] = {}
    for name in sorted(readers, key=str):
        need = _missing_input(name, program, catalogue, given)
        lacking = sorted(column for column in columns if given.caller is not None and not given.caller.get(column))
        if name == "gate:caller" and lacking:
            listed = " and ".join(lacking)
            need = "caller", "unfilled", f"but {given.caller_file} has no {listed}", f"add {listed} to it"
        if need and any(not is_optional(file, need[0]) for file in readers[name]):
            names.setdefault(Diagnostic(*need[1:3], None, need[3], "warning"), []).append(str(name))
    return [
        replace(diagnostic, message=f"the rules read {', '.join(read)}, {diagnostic.message}")
        for diagnostic, read in names.items()
    ]


def _missing_input(
    name: RelationRef, program: CheckedProgram, catalogue: Catalogue, given: RunInputs
) -> tuple[str, str, str, str] | None:
    """The missing input that would fill a relation, or None: its name in a ``pack.yaml``, the code, the problem, and
    what to give."""
    if not isinstance(name, str):
        return None
    inventory = given.inventory
    has_rows = isinstance(inventory, str) or bool(inventory and inventory.rows.get(name))
    if name in (AGES, READINGS) and inventory:
        lacks = not isinstance(inventory, str) and not inventory.readings
        empty = f"but {given.inventory_file} does not say when its tables were read"
        return ("inventory", "unfilled", empty, "write it with `datalog-gate inventory pull`") if lacks else None
    if cloud.relation(name) or name == AGES:
        if inventory is None:
            return "inventory", "no-inventory", "but there is no inventory", "give --inventory FILE.jsonl"
        empty = f"but {given.inventory_file} has no rows of it"
        return None if has_rows else ("inventory", "unfilled", empty, "collect them again, unless the cloud has none")
    if name in ("gate:caller", "gate:role") and given.caller is None:
        return "caller", "unfilled", "but no caller is given", "give --caller FILE.json"
    if name == "gate:role" and not (given.caller or {}).get("roles"):
        return "caller", "unfilled", f"but {given.caller_file} has no roles", 'add "roles": ["member"] to it'
    if name == "gate:service" and not given.services:
        return "services", "unfilled", "but no service is enabled", "give --services NAME"
    if name in ("heat:status", "heat:physical", "heat:updated", "heat:tag") and not (given.stack or has_rows):
        advice = "give --stack NAME, or rows with --inventory"
        return "inventory", "unfilled", "but a template has no rows of it", advice
    if name not in program.inputs or catalogue.relation(name) or has_rows:
        return None
    module, _, bare = name.rpartition(":")
    if program.relations[name].generated or module.rpartition(":")[2] == LIMITS_STEM:  # limits.yaml says []
        return None
    return (
        "facts",
        "unfilled",
        "but nothing gives it rows",
        f"write facts, `{bare}(...).`, or give rows with --inventory",
    )
