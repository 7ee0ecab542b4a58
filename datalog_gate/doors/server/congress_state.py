"""The policies of Congress's API in a process, by generation."""

from __future__ import annotations

import json
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock
from typing import Any, TypeVar

from datalog_gate.analysis.rule_index import RuleIndex, index_modules
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import EngineError, InputError, RulesError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Kind, from_python, to_json
from datalog_gate.decision.policy_set import RuleFile, parse_all
from datalog_gate.decision.query import Evaluated, evaluate
from datalog_gate.decision.simulation import make_rule_checkable
from datalog_gate.decision_point.inventory_source import read_inventory_lines, read_source_states
from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.doors.server.endpoint import ApiError
from datalog_gate.engine import engine
from datalog_gate.facts.lines import FactLine
from datalog_gate.language.ast import Declaration, DeclaredColumn, Export, Module, Rule, Statement
from datalog_gate.language.parser import parse
from datalog_gate.schema import cloud
from datalog_gate.schema.declaration import Relation
from datalog_gate.store.rule_store import Change, RuleStore, StaleError, StoredPolicies
from datalog_gate.store.tables import stored_rules

LOOK = 1.0
"""Seconds after which the store is checked for changes by other processes."""
MOST_MODELS = 16
"""The maximum number of cached evaluations."""
MOST_TRIES = 8
"""How often a change is retried when others come in between."""
WORDS = {kind: str(kind.name).lower() for kind in (Kind.NULL, Kind.BOOLEAN, Kind.NUMBER, Kind.STRING, Kind.RESOURCE)}
DEFAULTS = tuple(
    {"id": name, "name": name, "kind": kind, "description": "default policy", "abbreviation": name[:5], "author": ""}
    for name, kind in (("classification", "nonrecursive"), ("action", "action"))
)
"""The policies that Congress creates at its start."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PolicyState:
    """All policies: those of files, which do not change, and those of the store."""

    stored: StoredPolicies
    files: tuple[RuleFile, ...]
    index: RuleIndex
    modules: Mapping[str, Module] = field(default_factory=dict)
    """The modules of files and of sources of data, by name."""

    @property
    def sources(self) -> dict[str, Mapping[str, Any]]:
        """The data sources by name; a driver is itself a source unless another has its name."""
        own = {name: {"id": name, "name": name, "driver": name, "description": "", "config": {}} for name in drivers()}
        return own | {str(source["name"]): source for source in self.stored.sources}

    @property
    def policies(self) -> tuple[Mapping[str, Any], ...]:
        """The policies of the store, after the default ones."""
        stored = {policy["name"] for policy in self.stored.policies}
        return (*(policy for policy in DEFAULTS if policy["name"] not in stored), *self.stored.policies)

    def policy_modules(self) -> list[Module]:
        """The policies with their rules as written."""
        return [
            Module(name, name, _parse_rules(name, self.rules_of(name)), congress=True)
            for name in (str(policy["name"]) for policy in self.policies)
        ]

    def with_sources(self, sources: tuple[Mapping[str, Any], ...]) -> RuleIndex:
        """The index of the same rules over other data sources. Errors: RulesError."""
        stored = replace(self.stored, sources=sources)
        rules = {identity: (rule.module, rule.rule) for identity, rule in self.index.rules.items()}
        return index_modules(list(_modules(self.files, stored).values()), rules, self.index.policies)

    def rules_of(self, policy: str) -> list[Mapping[str, Any]]:
        return [rule for rule in self.stored.rules if rule["policy"] == policy]


@dataclass(frozen=True, slots=True)
class CloudRows:
    """The rows of all sources, by relation."""

    version: object
    lines: Mapping[str, Sequence[FactLine]]
    written: datetime | None
    problem: str = ""


class LivePolicies:
    """The policies that requests read and change. A generation is swapped in by one assignment. If one can't be loaded,
    the previous one stays in force, and `problem` says why."""

    def __init__(self, point: DecisionPoint, store: RuleStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._point, self.store, self._clock = point, store, clock
        self._state: PolicyState | None = None
        self._rows = CloudRows(None, {}, None)
        self._loading, self._looked, self._seen_rows = Lock(), float("-inf"), 0
        self._models: OrderedDict[object, tuple[Evaluated, str]] = OrderedDict()
        self.problem = ""

    def state(self, fresh: bool = False) -> PolicyState:
        """The policies in force. Errors: those of the store, and ApiError before the first generation."""
        now = self._clock()
        state = self._state
        if state is not None and not fresh and now - self._looked < LOOK:
            return state
        with self._take_turn(wait=not fresh):
            number, self._seen_rows = self.store.numbers()
            files = self._point.current().ruleset.rules.files
            state = self._state
            if state is None or state.stored.number != number or state.files != files:
                try:
                    state = _load(self.store.read(), files, state)
                    self._state, self.problem = state, ""
                except RulesError as error:
                    wrong = next(
                        (refusal for refusal in error.diagnostics if refusal.severity == "error"), error.diagnostics[0]
                    )
                    where = f"{wrong.span.file}: " if wrong.span else ""
                    self.problem = f"generation {number}: {where}{wrong.message}"
                    if state is None:
                        raise self._refusal() from None
            self._looked = now
        return state

    @contextmanager
    def _take_turn(self, wait: bool) -> Iterator[None]:
        """Load after others have. A change does not wait for them, who may wait for its transaction."""
        taken = self._loading.acquire(blocking=wait)
        try:
            yield
        finally:
            if taken:
                self._loading.release()

    def _refusal(self) -> ApiError:
        return ApiError(503, "rules", f"the stored rules can't be loaded: {self.problem}")

    def change(self, work: Callable[[PolicyState], tuple[Change, RuleIndex, T]]) -> T:
        """Change the newest policies. `work` returns the changes and the resulting policies. Errors: those of `work`
        and of the store; StaleError if others keep changing them."""
        for attempt in range(MOST_TRIES):
            state = self.state(fresh=True)
            if self.problem:
                raise self._refusal()
            change, _, answer = work(state)
            try:
                self.store.change(state.stored.number, change)
            except StaleError:
                if attempt == MOST_TRIES - 1:
                    raise
                time.sleep(random.uniform(0, 0.005 * 2**attempt))
                continue
            self._looked = float("-inf")  # the next request reads it, once it is committed
            return answer
        raise AssertionError

    def remove_unread(self, policy: str, identity: str, author: str) -> Mapping[str, Any] | None:
        """Remove a stored rule without checks, since invalid stored rules permit no other change. Returns the rule, or
        None for an unknown id. Errors: those of the store, StaleError."""
        stored = self.store.read()
        for rule in stored.rules:
            if (rule["policy"], rule["id"]) == (policy, identity):
                removed = ((stored_rules, {"id": identity}),)
                self.store.change(stored.number, Change(author, "remove rule", policy, (rule,), removed=removed))
                return rule
        return None

    def rows(self, fresh: bool = False) -> CloudRows:
        """The rows of the data sources: of the inventory, and pushed ones."""
        state = self.state(fresh)
        settings = self._point.settings
        sources = tuple(str(source["id"]) for source in state.stored.sources)
        version = frozenset(read_source_states(settings).items()), self._seen_rows, sources
        if version == self._rows.version and not fresh:
            return self._rows
        try:
            lines, written = read_inventory_lines(settings)
            self._rows = CloudRows(version, {**_by_relation(lines), **self._pushed()}, written)
        except (InputError, OSError) as error:
            self._rows = replace(self._rows, version=version, problem=str(error).splitlines()[0])
        return self._rows

    def evaluate(self, relation: str) -> tuple[Evaluated, str]:
        """The model of the relations that a relation depends on, and its rows, sorted, as the JSON of a list. Errors:
        RulesError, EngineError."""
        state, rows = self.state(), self.rows()
        key = relation, state.stored.number, state.files, rows.version
        if known := self._models.get(key):
            return known
        modules = state.index.program_of(relation)
        evaluated = evaluate(modules, self.lines(rows), engine("native"), query="rows#", now=datetime.now(UTC))
        answer = evaluated.answer(relation)
        if answer.errors:
            raise EngineError(f"{answer.errors[0].span}: {answer.errors[0].message}")
        entry = evaluated, json.dumps([{"data": [to_json(value) for value in row]} for row in answer.rows])
        if not any(str(name).startswith("gate:") for name in evaluated.checked.program.inputs):
            with self._loading:
                self._models[key] = entry
                while len(self._models) > MOST_MODELS:
                    self._models.popitem(last=False)
        return entry

    def lines(self, rows: CloudRows) -> list[FactLine]:
        return [line for lines in rows.lines.values() for line in lines]

    def _pushed(self) -> dict[str, list[FactLine]]:
        """The rows of each pushed table, which replace those of the inventory, even if there are none."""
        pushed = {f"{source}:{table}": data for (source, table), data in self.store.pushed().items()}
        return {name: [read_row(name, row, at) for at, row in enumerate(data, 1)] for name, data in pushed.items()}


def read_row(relation: str, row: Any, at: int) -> FactLine:
    """Read a row pushed to a table. Errors: ValueError, TypeError."""
    span = Span(f"PUT {relation}", at, 1, at, 1)
    if isinstance(row, Mapping):
        return FactLine(relation, {name: from_python(value) for name, value in row.items()}, span)
    return FactLine(relation, tuple(map(from_python, row)), span)


def drivers() -> list[str]:
    """The names of the drivers whose services have tables."""
    return sorted({name.partition(":")[0] for name in cloud.names()})


def tables(driver: str) -> list[Relation]:
    """The tables of a driver."""
    relations = (cloud.relation(name) for name in cloud.names() if name.partition(":")[0] == driver)
    return [relation for relation in relations if relation]


def read_rule(text: str, policy: str, kind: str, identity: str) -> Rule:
    """Read one rule. Errors: RulesError; ValueError with the number of statements if there is not exactly one."""
    module, diagnostics = parse(text, f"{policy}:{identity}", policy, congress=True)
    if diagnostics:
        raise RulesError(diagnostics, {f"{policy}:{identity}": text})
    rules = [statement for statement in module.statements if isinstance(statement, Rule)]
    if len(rules) != 1 or len(module.statements) != 1:
        raise ValueError(len(module.statements))
    return make_rule_checkable(rules[0]) if kind == "action" else rules[0]


def _load(stored: StoredPolicies, files: tuple[RuleFile, ...], before: PolicyState | None) -> PolicyState:
    """The state of a generation, derived from the previous one if only some rules differ. Errors: RulesError."""
    modules = _modules(files, stored)
    names = [str(policy["name"]) for policy in (*DEFAULTS, *stored.policies)]
    if before is None or before.files != files or before.stored.sources != stored.sources:
        parsed = _read_rules(stored, stored.rules)
        return PolicyState(stored, files, index_modules(list(modules.values()), parsed, names), modules)
    known, now = ({str(rule["id"]) for rule in generation.rules} for generation in (before.stored, stored))
    index = before.index.remove(known - now)
    for identity, (policy, rule) in _read_rules(stored, [r for r in stored.rules if r["id"] not in known]).items():
        index, _ = index.add(identity, policy, rule)
    return PolicyState(stored, files, replace(index, policies=frozenset(names)), modules)


def _read_rules(stored: StoredPolicies, rules: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, Rule]]:
    kinds = {policy["name"]: str(policy["kind"]) for policy in (*DEFAULTS, *stored.policies)}
    parsed = {}
    for rule in rules:
        policy = str(rule["policy"])
        parsed[str(rule["id"])] = policy, read_rule(str(rule["rule"]), policy, kinds[policy], str(rule["id"]))
    return parsed


def _parse_rules(policy: str, rules: Iterable[Mapping[str, Any]]) -> tuple[Statement, ...]:
    parsed = (parse(str(rule["rule"]), f"{policy}:{rule['id']}", policy, congress=True)[0] for rule in rules)
    return tuple(statement for module in parsed for statement in module.statements)


def _modules(files: tuple[RuleFile, ...], stored: StoredPolicies) -> dict[str, Module]:
    """The modules of files, and one for each data source with another name than its driver, which declares its
    tables."""
    modules, _ = parse_all(files)
    for source in stored.sources:
        if source["name"] != source["driver"]:
            modules.append(_source_module(str(source["name"]), str(source["driver"])))
    return {module.name: module for module in modules}


def _source_module(name: str, driver: str) -> Module:
    declared = []
    for relation in tables(driver):
        columns = [
            DeclaredColumn(column.name, tuple(word for kind, word in WORDS.items() if kind & column.kinds))
            for column in relation.columns
        ]
        declared.append(Declaration(relation.name.partition(":")[2], tuple(columns)))
    return Module(name, name, (*declared, Export(tuple(declaration.name for declaration in declared))))


def _by_relation(lines: Iterable[FactLine]) -> dict[str, list[FactLine]]:
    by_relation: dict[str, list[FactLine]] = {}
    for line in lines:
        by_relation.setdefault(line.relation, []).append(line)
    return by_relation
