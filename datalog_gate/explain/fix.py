"""The search for a change of the template that fixes a finding.

A change of one property, or a grant, is a fix if judging again gives no such finding, no other one and no error. It
need not be the smallest. What rules select by a constant, and what they never test, is not changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from types import EllipsisType
from typing import Any, NamedTuple

from datalog_gate.analysis.check import UNLOCKED
from datalog_gate.analysis.program import Call, Compare, Const, Match, Operand, Pattern, Var, Without
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import EngineError
from datalog_gate.base.values import FALSE, TRUE, ResourceId, Unknown, Value, from_python, row_key, show, to_json
from datalog_gate.decision.decision import Decision, Violation
from datalog_gate.decision.findings import NAMELESS
from datalog_gate.decision.judgement import Judgement, decide
from datalog_gate.engine.native import evaluate
from datalog_gate.explain.why import Node
from datalog_gate.facts.stack_relations import POLICY
from datalog_gate.schema.declaration import Property, certain_version
from datalog_gate.schema.resource_types import member_of
from datalog_gate.stack.model import Data, Path, Resource, Stack
from datalog_gate.stack.property_values import path_text, typed

TRIES = 64
"""How many changes are tried for one finding."""
WORK = 100_000
"""How many facts are judged anew for all findings of a decision together: a few seconds."""
OFFERS = 20
"""How many rows of a relation are looked through for values that a rule accepts."""


class TemplateChange(NamedTuple):
    """A resource with other properties, or a new one, of the stack `home`; in words, and where the value stands now."""

    home: str
    resource: Resource
    text: str
    place: Span | None


class _Cell(NamedTuple):
    """A value of a template that a finding rests on: in which stack, whose, where, and the values it is tested as."""

    home: str
    resource: Resource
    path: Path
    value: Value
    faces: frozenset[Value]


class Fixes:
    """Finds changes of the template for the findings of one decision. All searches share `WORK`."""

    def __init__(self, judgement: Judgement) -> None:
        reader = judgement.reader
        self._rules, self._request = reader.rules, reader.request
        self._stacks, self._secrets = reader.stacks, reader.secrets
        self._facts, self._model = reader.evaluation.facts, reader.evaluation.model
        self._relations = reader.evaluation.program.relations
        self._before = _count_findings(judgement.decision)
        self._left = WORK

    def find(self, violation: Violation, tree: Node) -> TemplateChange | None:
        """Find a change under which the finding, explained by the tree, does not hold; None if no tried one settles
        it."""
        for change in islice(self._changes(tree), TRIES):
            if self._left <= 0:
                break
            self._left -= len(self._facts)
            if self._settles(change, violation):
                return change
        return None

    def _settles(self, change: TemplateChange, violation: Violation) -> bool:
        stacks = [with_resource(stack, change.home, change.resource) for stack in self._stacks]
        try:
            decision = decide(self._rules, stacks, self._request, evaluate)
        except EngineError:
            return False
        if any(error.code == "budget" for error in decision.errors):
            self._left = 0  # the next one would take as long
            return False
        after = _count_findings(decision)
        key = violation.policy, violation.row
        return after[key] < self._before[key] and after <= self._before

    def _changes(self, tree: Node) -> Iterator[TemplateChange]:
        """The changes to try, in the order of the tree: grants, then values, first those that the finding's row has."""
        nodes = [tree]
        for node in nodes:
            nodes += [premise for premise in node.premises if isinstance(premise, Node)]
        for node in nodes:
            yield from self._grants(node)
        cells = {(cell.resource.id, cell.path): cell for node in nodes for cell in self._cells(node)}
        for cell in sorted(cells.values(), key=lambda cell: cell.faces.isdisjoint(tree.row)):
            values = (value for node in nodes for value in self._offers(cell, node))
            offers = dict.fromkeys(value for value in values if not isinstance(value, ResourceId | Unknown | None))
            equated = any(self._equates(cell, node) for node in nodes)
            if offers or equated:
                near = sorted(offers, key=lambda offer: -_alike(offer, cell.value))
                for value in dict.fromkeys((*near, *self._allowed(cell))):
                    if value != cell.value and (change := _changed(cell, value)):
                        yield change

    def _grants(self, node: Node) -> Iterator[TemplateChange]:
        """A grant for each resource that a premise wants a service to be unlocked for."""
        for premise in node.premises:
            match premise:
                case Without((Match(relation, (service, wanted)),)) if certain_version(relation) == UNLOCKED:
                    name, resource = _value(service, node.binding), _value(wanted, node.binding)
                    home = self._home(resource) if isinstance(resource, ResourceId) else None
                    if home and isinstance(name, str) and isinstance(resource, ResourceId):
                        title = f"grant of {name} for {resource.name}"
                        properties = {"service": name, "scope": [resource.name]}
                        grant = Resource(ResourceId(f"{home.id}/{title}"), title, POLICY, POLICY, properties)
                        text = f"add a resource of type {POLICY} with service: {name}, scope: [{resource.name}]"
                        yield TemplateChange(home.id, grant, text, None)

    def _home(self, resource: ResourceId) -> Stack | None:
        stacks = (nested for root in self._stacks for nested in root.walk())
        return next((stack for stack in stacks if any(member.id == resource for member in stack.resources)), None)

    def _cells(self, node: Node) -> Iterator[_Cell]:
        """The values of resources that the rule of a row reads into variables. What is secret is left alone, so is what
        is not known, and what refers to another resource: the template would be another one."""
        matches = [literal for literal in node.rule.body if isinstance(literal, Match)] if node.rule else []
        matches.sort(key=lambda match: match.span)
        leaves = [premise for premise in node.premises if isinstance(premise, Node)]
        for match, leaf in zip(matches, leaves, strict=True):
            name = certain_version(leaf.relation)
            of, path = self._facts.origin(name, leaf.row) or (None, ())
            open_ = self._secrets.row(name, leaf.row) == leaf.row
            if not isinstance(of, Resource) or of.nested or path[:1] != ("properties",) or not open_:
                continue
            for at, column in enumerate(self._relations[leaf.relation].columns):
                variable, value = match.arguments[at], leaf.row[at]
                hidden = self._secrets.guarded(name, at) or isinstance(value, Unknown | ResourceId)
                if not isinstance(variable, Var) or column.name in (*NAMELESS, "path") or hidden:
                    continue
                whole = path if column.name in ("value", "_value") else (*path, column.name)
                home = self._home(of.id)
                if home:
                    yield _Cell(home.id, of, whole, value, frozenset(_faces(variable, value, node)))

    def _offers(self, cell: _Cell, node: Node) -> Iterator[Value]:
        """What the value is compared with in a rule, and for bounds what lies beside; what a relation holds that lacks
        it."""
        secret = self._secrets.values(node.rule, node.binding) if node.rule else ()
        for premise in node.premises:
            match premise:
                case Compare(comparator, left, right) if comparator != "=" and not {left, right} & set(secret):
                    sides = _value(left, node.binding), _value(right, node.binding)
                    for side, other in (sides, sides[::-1]):
                        if side in cell.faces:
                            if not isinstance(other, EllipsisType):
                                yield other
                            if comparator != "!=" and isinstance(other, int):
                                yield from (other - 1, other + 1)
                case Without((Match(relation, arguments),)):
                    for at, term in enumerate(arguments):
                        tested = term and _value(term, node.binding) in cell.faces
                        if tested and not self._secrets.guarded(relation, at):
                            rows = sorted(self._model.rows(relation), key=row_key)[:OFFERS]
                            yield from (row[at] for row in rows)

    def _equates(self, cell: _Cell, node: Node) -> bool:
        """Whether a rule tests the value by a builtin, or asks that it equals a constant."""
        for premise in node.premises:
            match premise:
                case Compare("=", left, right) if Const in (type(left), type(right)):
                    terms: Sequence[Operand] = (left, right)
                case Call(_, inputs, ()):
                    terms = inputs
                case _:
                    continue
            if any(_value(term, node.binding) in cell.faces for term in terms):
                return True
        return False

    def _allowed(self, cell: _Cell) -> Iterator[Value]:
        """The values that Heat allows there, and the one that it takes if nothing is said. Where that is none, nothing
        may mean everything: to leave a value out is never a fix."""
        kind = self._rules.catalogue.type(cell.resource.type)
        schema: Property | None = None
        among = kind.properties if kind else ()
        for step in cell.path[1:]:
            if isinstance(step, str):
                schema = next((candidate for candidate in among if candidate.name == step), None)
                among = schema.children if schema else ()
        if schema:
            yield from map(from_python, member_of(schema).allowed if schema.kind in ("list", "map") else schema.allowed)
            if schema.kind == "boolean":
                yield from (TRUE, FALSE)
            if schema.default is not None and not isinstance(schema.default, list | dict):
                yield from_python(schema.default)


def with_resource(stack: Stack, home: str, resource: Resource) -> Stack:
    """The stack in which this resource stands in place of its namesake in the stack `home`, or beside the others."""
    if stack.id == home:
        others = tuple(resource if other.id == resource.id else other for other in stack.resources)
        return replace(stack, resources=others if resource in others else (*others, resource), source=None)
    resources = tuple(
        replace(other, nested=with_resource(other.nested, home, resource)) if other.nested else other
        for other in stack.resources
    )
    return replace(stack, resources=resources, source=None)


def _count_findings(decision: Decision) -> Counter[tuple[str, object]]:
    """Count the violations, certain or not, by policy and row, and the errors by policy and message."""
    violations = (*decision.violations, *decision.undetermined)
    counts = Counter[tuple[str, object]]((violation.policy, violation.row) for violation in violations)
    counts.update((error.policy, error.message) for error in decision.errors)
    return counts


def _value(term: Pattern, binding: Mapping[Var, Value]) -> Value | EllipsisType:
    if isinstance(term, Const):
        return term.value
    return binding.get(term, ...) if term else ...


def _faces(variable: Var, value: Value, node: Node) -> Iterator[Value]:
    """The value as it is tested: itself, or what stands for a null."""
    if value is not None:
        yield value
    for premise in node.premises:
        match premise:
            case Call("??", (left, _), (Var() as output,)) if value is None and left == variable:
                yield node.binding[output]


def _changed(cell: _Cell, value: Value) -> TemplateChange | None:
    """The resource with the value in the cell; None if that makes no sense."""
    try:
        properties = _put(cell.resource.properties, cell.path[1:], to_json(value))
    except ValueError:
        return None
    text = f"set {path_text(cell.path[1:])} of {cell.resource.name} to {show(value)}"
    resource = replace(cell.resource, properties=properties)
    return TemplateChange(cell.home, resource, text, cell.resource.locate(cell.path))


def _put(data: Data, path: Path, value: Data) -> Any:
    """A copy of the data with the value at the path. Errors: ValueError where the data has no such place, and for a
    least above a most."""
    step, *rest = path
    match data, step:
        case dict(), str():
            changed = {**data, step: _put(data.get(step), tuple(rest), value) if rest else value}
            if _in_order(changed, step):
                return changed
        case list(), int() if step < len(data):
            return [*data[:step], _put(data[step], tuple(rest), value) if rest else value, *data[step + 1 :]]
    raise ValueError(path)


def _in_order(data: Mapping[str, Data], changed: str) -> bool:
    """Whether the least is no more than the most where one of them was changed, `port_range_min` and `_max`."""
    stem, _, end = changed.rpartition("_")
    if end not in ("min", "max") or not {f"{stem}_min", f"{stem}_max"} & data.keys():
        return True
    least, most = (typed("integer", data.get(f"{stem}_{bound}")) for bound in ("min", "max"))
    return isinstance(least, int) and isinstance(most, int) and least <= most


def _alike(value: Value, other: Value) -> int:
    pairs = zip(str(value), str(other), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
