"""Requests, inventories and waivers, from files or as data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from datalog_gate.analysis.program import ProgramCache
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.base.values import TooLongError, from_python
from datalog_gate.decision.bound_facts import bind
from datalog_gate.decision.cloud_state import Inventory, loaded, read_readings
from datalog_gate.decision.decision import Waiver
from datalog_gate.decision.judgement import Judgement, judge
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import Caller, DecisionRequest, read_action, read_caller, read_mode, read_time
from datalog_gate.decision.waivers import read_waivers
from datalog_gate.engine.budget import BUDGET, Budget
from datalog_gate.engine.least_model import Engine
from datalog_gate.engine.native import evaluate
from datalog_gate.facts.lines import FactLine, read
from datalog_gate.files.templates import read_json, read_text
from datalog_gate.stack.model import Stack

if TYPE_CHECKING:
    from datalog_gate.template.document import Document

FactSource = Path | str | Mapping[str, Iterable[Sequence[object] | Mapping[str, object]]] | list[FactLine]
"""The path of lines of JSON, rows of plain data by relation (each in order or by column), or facts already read."""
WaiverSource = Path | str | Sequence[Waiver | Mapping[str, object]]
"""The path of a `waivers.yaml`, waivers, or entries of such a file as data."""


class RequestInputs(TypedDict, total=False):
    """What stacks are judged with, besides the rules, as plain data and files."""

    against: Stack | Sequence[Stack]
    """The stack as it was, or several of them, each with the name of the one that it becomes. A violation that was
    there then, and no better, is pre-existing."""
    caller: Mapping[str, object] | None
    """Its user, project and domain (texts) and roles (a list of texts)."""
    services: Collection[str]
    """The enabled services that the caller may use."""
    inventory: Inventory | FactSource | None
    """A loaded one, or what to load it from."""
    waivers: WaiverSource
    """Loaded ones, or what to load them from."""
    now: datetime | str | None
    """In ISO 8601 if it is a text; UTC where it names no zone. By default the present."""
    mode: str
    """The most that a violation may do: enforce, as by default, warn or record."""
    modes: Mapping[str, str] | None
    """The modes of single policies by id; a policy that is `off` is not judged."""
    budget: Budget
    """What each group of policies may take."""
    cloud: Mapping[str, str] | None
    """Says that the stacks are all that there are, with the projects by stack of those that are not the caller's.
    Without it policies that read `all:` relations are skipped."""
    tolerant: bool
    """Whether pre-existing violations stop nothing, as by default."""


def read_request(
    rules: PolicySet,
    stacks: Sequence[Stack],
    given: RequestInputs,
    action: str | None = None,
    engine: Engine = evaluate,
) -> DecisionRequest:
    """Read a request about the stacks. `action` is `update` by default if there is an older state, else `create`.
    `engine` derives what depends on the inventory alone. Errors: UsageError, InputError for inventory or waivers."""
    against, modes, now = given.get("against", ()), given.get("modes") or {}, given.get("now")
    older = (against,) if isinstance(against, Stack) else tuple(against)
    caller = read_caller(given.get("caller"))
    return DecisionRequest(
        action=read_action(action, stacks, older),
        now=read_time(datetime.now(UTC) if now is None else now),
        caller=caller,
        services=frozenset(given.get("services", ())),
        mode=read_mode(given.get("mode", "enforce")),
        inventory=_load_inventory(rules, given.get("inventory"), engine),
        budget=given.get("budget", BUDGET),
        modes={policy: read_mode(mode) for policy, mode in modes.items() if mode != "off"},
        off=frozenset(policy for policy, mode in modes.items() if mode == "off"),
        waivers=load_waivers(rules, given.get("waivers", ())),
        against=older,
        tolerant=given.get("tolerant", True),
        cloud=_find_projects(given.get("cloud"), stacks, caller),
    )


def judge_given(rules: PolicySet, stacks: Sequence[Stack], given: RequestInputs) -> Judgement:
    """Judge stacks with the engine `native`. Errors: those of `read_request` and `judge`."""
    from datalog_gate.template.reader import read_assuming

    return judge(rules, stacks, read_request(rules, stacks, given), evaluate, read_assuming)


def read_caller_file(path: str | None) -> tuple[dict[str, object] | None, InputError | None]:
    """Read and check the caller. An error is returned, since errors in rules are reported first. Errors: UsageError."""
    if path is None:
        return None, None
    try:
        caller = read_json(Path(path))
    except InputError as error:
        return None, error
    if not isinstance(caller, dict):
        raise UsageError(f'{path} holds no object: write {{"user": ..., "roles": [...]}}')
    read_caller(caller)
    return caller, None


def _load_inventory(rules: PolicySet, source: Inventory | FactSource | None, engine: Engine) -> Inventory:
    """The inventory for the rules; one without rows is made once for all requests."""
    if source is None:
        return _EMPTY.get(rules.program, rules.digest, lambda: read_inventory(rules, {}, None, engine))
    inventory = source if isinstance(source, Inventory) else read_inventory(rules, source, None, engine)
    if inventory.rules != rules.digest:
        raise UsageError("the inventory was loaded for other rules")
    return inventory


def _find_projects(
    cloud: Mapping[str, str] | None, stacks: Sequence[Stack], caller: Caller | None
) -> dict[str, str | None] | None:
    """The projects of the stacks of a cloud, by default that of the caller; None if they are not a cloud."""
    if cloud is None:
        return None
    if unknown := sorted({*cloud} - {stack.id for stack in stacks}):
        raise UsageError(f"the cloud has no stack {', '.join(unknown)}, for which a project is given")
    project = caller.project if caller else None
    return {stack.id: project for stack in stacks} | {**cloud}


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
