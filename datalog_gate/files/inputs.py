"""Inventories and waivers, from files or as data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from datalog_gate.analysis.program import ProgramCache
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.base.values import TooLongError, from_python
from datalog_gate.decision.bound_facts import bind
from datalog_gate.decision.cloud_state import Inventory, loaded, read_readings
from datalog_gate.decision.decision import Waiver
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import DecisionRequest, read_action, read_caller, read_mode, read_time
from datalog_gate.decision.waivers import read_waivers
from datalog_gate.engine.budget import BUDGET, Budget
from datalog_gate.engine.least_model import Engine
from datalog_gate.engine.native import evaluate
from datalog_gate.facts.lines import FactLine, read
from datalog_gate.files.templates import read_text
from datalog_gate.stack.model import Stack

if TYPE_CHECKING:
    from datalog_gate.template.document import Document

FactSource = Path | str | Mapping[str, Iterable[Sequence[object] | Mapping[str, object]]] | list[FactLine]
"""The path of a file of facts as lines of JSON, rows of plain data by relation (each in order or by column), or facts
already read."""
WaiverSource = Path | str | Sequence[Waiver | Mapping[str, object]]
"""The path of a `waivers.yaml`, waivers, or entries of such a file as data."""


def read_request(
    rules: PolicySet,
    stacks: Sequence[Stack],
    *,
    action: str | None = None,
    against: Stack | Sequence[Stack] = (),
    caller: Mapping[str, object] | None = None,
    services: Collection[str] = (),
    inventory: Inventory | FactSource | None = None,
    waivers: WaiverSource = (),
    now: datetime | str | None = None,
    mode: str = "enforce",
    modes: Mapping[str, str] | None = None,
    budget: Budget = BUDGET,
    cloud: Mapping[str, str] | None = None,
    tolerant: bool = True,
    engine: Engine = evaluate,
) -> DecisionRequest:
    """Read a request about the stacks from plain data and files; `api.Rules.decide` describes the parameters.
    Errors: UsageError, InputError for inventory or waivers."""
    older = (against,) if isinstance(against, Stack) else tuple(against)
    action = read_action(action, stacks, older)
    most = read_mode(mode)
    if inventory is None:
        inventory = _EMPTY.get(rules.program, rules.digest, lambda: read_inventory(rules, {}, None, engine))
    elif not isinstance(inventory, Inventory):
        inventory = read_inventory(rules, inventory, None, engine)
    if inventory.rules != rules.digest:
        raise UsageError("the inventory was loaded for other rules")
    if unknown := sorted({*(cloud or ())} - {stack.id for stack in stacks}):
        raise UsageError(f"the cloud has no stack {', '.join(unknown)}, for which a project is given")
    asker = read_caller(caller)
    project = asker.project if asker else None
    own = {policy: read_mode(mode) for policy, mode in (modes or {}).items() if mode != "off"}
    return DecisionRequest(
        action=action,
        now=read_time(datetime.now(UTC) if now is None else now),
        caller=asker,
        services=frozenset(services),
        mode=most,
        inventory=inventory,
        budget=budget,
        modes=own,
        off=frozenset(policy for policy, mode in (modes or {}).items() if mode == "off"),
        waivers=load_waivers(rules, waivers),
        against=older,
        tolerant=tolerant,
        cloud=None if cloud is None else {stack.id: project for stack in stacks} | {**cloud},
    )


_EMPTY = ProgramCache[Inventory]()


def read_inventory(
    rules: PolicySet, source: FactSource, before: Inventory | None = None, engine: Engine = evaluate
) -> Inventory:
    """Read an inventory. Unchanged parts are shared with the one `before` it. Errors: InputError."""
    lines = fact_lines(source)
    rows = bind(rules.program, lines, catalogue=rules.catalogue)
    return loaded(rules, rows, before, read_readings(lines), engine)


def load_waivers(rules: PolicySet, source: WaiverSource | Document) -> tuple[Waiver, ...]:
    """Load waivers; existing waivers are returned as they are. Errors: InputError."""
    from datalog_gate.template.document import Document, read_document

    if isinstance(source, str | Path):
        return read_waivers(read_document(read_text(source), str(source)), rules)
    if isinstance(source, Document):
        return read_waivers(source, rules)
    waivers = tuple(waiver for waiver in source if isinstance(waiver, Waiver))
    if len(waivers) == len(source):
        return waivers
    return read_waivers(Document("<waivers>", None, {"waivers": list(source)}), rules)


def fact_lines(source: FactSource | None) -> list[FactLine]:
    """Read facts as lines. Rows of data are named by their relation and number. Errors: InputError."""
    if source is None:
        return []
    if isinstance(source, str | Path):
        return read(read_text(source), str(source))
    if isinstance(source, list):
        return source
    lines = []
    for relation, rows in source.items():
        for number, row in enumerate(rows, 1):
            span = Span(f"<{relation}>", number, 1, number, 1)
            for value in row.values() if isinstance(row, Mapping) else row:
                if isinstance(value, float) and not isfinite(value):
                    raise InputError([Diagnostic("bad-facts", f"{value} is not a number", span)])
            try:
                cells = (
                    {column: from_python(value) for column, value in row.items()}
                    if isinstance(row, Mapping)
                    else tuple(map(from_python, row))
                )
            except TooLongError as error:
                raise InputError([Diagnostic("bad-facts", str(error), span)]) from None
            lines.append(FactLine(relation, cells, span))
    return lines
