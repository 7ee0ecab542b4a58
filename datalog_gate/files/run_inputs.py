"""What a run leaves without effect, or does not give to rules."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.analysis.strata import matches
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.records import dataclass, replace
from datalog_gate.decision.cloud_state import AGES, READINGS, Inventory
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.files.configuration import Configuration
from datalog_gate.files.rules import OPTIONAL_FIELDS, PACK_FILE, read_pack_file
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import RelationRef

LIMITS_STEM = "limits"
"""The module of a pack whose relations `limits.yaml` fills, even with no rows."""


@dataclass(frozen=True, slots=True)
class _RunInputs:
    """The inputs of a run, beside its rules."""

    configuration: Configuration
    caller: Mapping[str, object] | None
    inventory: Inventory | str | None
    """The path if it can't be read."""


def find_idle(
    rules: PolicySet,
    configuration: Configuration,
    caller: Mapping[str, object] | None,
    inventory: Inventory | str | None,
) -> list[Diagnostic]:
    """Warn about an action without effect, and as `find_unfilled` and the inventory. Errors: RulesError for a
    ``pack.yaml``."""
    return [
        *_find_idle_action(rules.policies, rules.cloud_wide, configuration),
        *find_unfilled(rules, configuration, caller, inventory),
        *(inventory.warnings if isinstance(inventory, Inventory) else ()),
    ]


def find_unfilled(
    rules: PolicySet,
    configuration: Configuration,
    caller: Mapping[str, object] | None,
    inventory: Inventory | str | None,
) -> list[Diagnostic]:
    """Warn once about relations that rules read and a run does not fill, unless a ``pack.yaml`` says that they are
    optional. The warnings have no place. Errors: RulesError for a ``pack.yaml``."""
    program, given = rules.program, _RunInputs(configuration, caller, inventory)
    fields: dict[str, Mapping[str, str]] = {}

    def is_optional(file: str, field: str) -> bool:
        folder = os.path.dirname(file)
        if folder not in fields:
            fields[folder] = read_pack_file(Path(folder, PACK_FILE))
        return field in OPTIONAL_FIELDS and fields[folder].get(field) == "optional"

    readers, columns = _find_readers(program)
    names: dict[Diagnostic, list[str]] = {}
    for name in sorted(readers, key=str):
        need = _missing_input(name, program, rules.catalogue, given)
        lacking = sorted(column for column in columns if caller is not None and not caller.get(column))
        if name == "gate:caller" and lacking:
            listed = " and ".join(lacking)
            need = "caller", "unfilled", f"but {configuration.value('caller')} has no {listed}", f"add {listed} to it"
        if need and any(not is_optional(file, need[0]) for file in readers[name]):
            names.setdefault(Diagnostic(*need[1:3], None, need[3], "warning"), []).append(str(name))
    return [
        replace(diagnostic, message=f"the rules read {', '.join(read)}, {diagnostic.message}")
        for diagnostic, read in names.items()
    ]


def _find_readers(program: CheckedProgram) -> tuple[dict[RelationRef, set[str]], set[str]]:
    """The files that read each relation, also through generated rules, and the columns of `gate:caller` that are
    read."""
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
    return readers, columns


def _missing_input(
    name: RelationRef, program: CheckedProgram, catalogue: Catalogue, given: _RunInputs
) -> tuple[str, str, str, str] | None:
    """The missing input of a relation, if any: its name in a ``pack.yaml``, the code, the problem, what to give."""
    if not isinstance(name, str):
        return None
    inventory, value = given.inventory, given.configuration.value
    has_rows = isinstance(inventory, str) or bool(inventory and inventory.rows.get(name))
    if name in (AGES, READINGS) and inventory:
        lacks = not isinstance(inventory, str) and not inventory.readings
        empty = f"but {value('inventory')} does not say when its tables were read"
        return ("inventory", "unfilled", empty, "write it with `datalog-gate inventory pull`") if lacks else None
    if cloud.relation(name) or name == AGES:
        if inventory is None:
            return "inventory", "no-inventory", "but there is no inventory", "give --inventory FILE.jsonl"
        empty = f"but {value('inventory')} has no rows of it"
        return None if has_rows else ("inventory", "unfilled", empty, "collect them again, unless the cloud has none")
    if name in ("gate:caller", "gate:role") and given.caller is None:
        return "caller", "unfilled", "but no caller is given", "give --caller FILE.json"
    if name == "gate:role" and not (given.caller or {}).get("roles"):
        return "caller", "unfilled", f"but {value('caller')} has no roles", 'add "roles": ["member"] to it'
    if name == "gate:service" and not value("services"):
        return "services", "unfilled", "but no service is enabled", "give --services NAME"
    if name in ("heat:status", "heat:physical", "heat:updated", "heat:tag") and not (value("stack") or has_rows):
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


def _find_idle_action(
    policies: Sequence[Policy], cloud_wide: Collection[str], configuration: Configuration
) -> Iterator[Diagnostic]:
    """Warn about an action on which no policy is judged, or only ones of a whole cloud."""
    action = configuration.value("action") or ("update" if configuration.value("against") else "create")
    judged = [policy.id for policy in policies if action in policy.on]
    if not judged:
        message = f"no policy is judged on {action}: everything passes"
        yield Diagnostic("no-policy", message, None, f'write on=["{action}"] in the policies that should be', "warning")
    elif not configuration.value("together") and all(policy in cloud_wide for policy in judged):
        message = f"all policies on {action} judge the whole cloud: everything passes"
        yield Diagnostic("no-policy", message, None, "give all templates of the cloud, with --together", "warning")
