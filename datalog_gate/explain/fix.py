"""The search for a change of the template that fixes a finding.

A change of one property, what the hint says to write or to remove, the allowed values of a parameter, or a grant, is a
fix if judging again gives no such finding, no other one and no error. It need not be the smallest. A change that only
hides something from the rule does not count: see decision 55.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from ipaddress import ip_network
from itertools import islice, takewhile
from types import EllipsisType
from typing import NamedTuple

from datalog_gate.analysis.program import Call, CheckedLiteral, Compare, Const, Match, Operand, Pattern, Var, Without
from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.base.values import FALSE, TRUE, ResourceId, Unknown, Value, from_python, row_key, show
from datalog_gate.decision.decision import Decision, Violation
from datalog_gate.decision.findings import NAMELESS
from datalog_gate.decision.judgement import Judgement, decide
from datalog_gate.engine.native import evaluate
from datalog_gate.explain.instruction import read_instruction
from datalog_gate.explain.template_change import (
    TemplateChange,
    apply_change,
    find_readers,
    follow_instruction,
    limit_parameter,
    make_grant,
    set_value,
)
from datalog_gate.explain.why import Node, Premise
from datalog_gate.schema.declaration import Property, ResourceType, certain_version
from datalog_gate.schema.relations import UNLOCKED
from datalog_gate.schema.resource_types import member_of
from datalog_gate.stack.model import Path, Resource, Stack
from datalog_gate.template.reader import read_assuming

TRIES = 64
"""The maximum number of changes tried for one finding."""
WORK = 100_000
"""The maximum number of facts judged again for all findings of a decision together: a few seconds."""
OFFERS = 20
"""The maximum number of rows of a relation that are searched for values that a rule accepts."""
IDENTIFYING = ("name", "type", "protocol", "ipprotocol", "direction", "ethertype")
"""Properties that identify a thing, in lower case. With another value it would be another thing, not a safer one."""
_STEPS = NAMELESS | {"path"}
"""The columns that say where in a resource a row's values are."""
COPYING = ("??", "int", "lower", "trim", "upper")
"""Builtins whose output is their first input."""


class _Role(IntEnum):
    """How a test of the rules uses a value. The smallest is tried first."""

    NETWORK = 0
    """The value must be a small enough network, or lie within one."""
    BOUND = 1
    """The value must be beyond a bound."""
    LISTED = 2
    """The value must be in a relation, or equal another value."""
    EXCEPTED = 3
    """The value must be a constant: the rule applies to all others."""
    CHOSEN = 4
    """The value must not be a constant: the rule applies to that one."""


class _Offer(NamedTuple):
    """A value to try, and a description if more has to be done than to set it."""

    role: _Role
    value: Value
    words: str = ""


class _Step(NamedTuple):
    """A row of a derivation, and the literal that it matches in the rule of the row above."""

    node: Node
    above: _Step | None = None
    match: Match | None = None


class _Use(NamedTuple):
    """A term with the value of a cell in the rule of a row, or the number of addresses of `network`."""

    step: _Step
    term: Operand
    network: str = ""


class _Cell(NamedTuple):
    """A template value that a finding depends on: its stack, resource, path and uses."""

    home: str
    resource: Resource
    path: Path
    value: Value
    uses: Sequence[_Use]

    def reaches(self, tree: Node) -> bool:
        """Whether the row of the finding contains the value."""
        arguments = tree.rule.arguments if tree.rule else ()
        return any(use.step.node is tree and use.term in arguments for use in self.uses)

    def is_named(self, hint: str) -> bool:
        """Whether the hint names the property, or by its last word: the `type` of `volume_type`."""
        name = str(self.path[-1])
        return _has_word(hint, name) or _has_word(hint, name.rpartition("_")[2])


class Fixes:
    """Finds changes of the template for the findings of one decision. All searches share `WORK`."""

    def __init__(self, judgement: Judgement) -> None:
        reader = judgement.reader
        self._rules, self._request = reader.rules, reader.request
        self._stacks, self._secrets = reader.stacks, reader.secrets
        self._facts, self._model = reader.evaluation.facts, reader.evaluation.model
        self._relations = reader.evaluation.program.relations
        self._before = _count_findings(judgement.decision)
        self._after: dict[tuple[str, ResourceId, Path, str, bool], Counter[tuple[str, object]] | None] = {}
        """The findings with each change that was tried, since several findings may have the same."""
        self._left = WORK

    def find(self, violation: Violation, tree: Node) -> TemplateChange | None:
        """Find a change that fixes the finding, which the tree explains; None if none of the tried ones does."""
        for change in islice(self._changes(tree, violation), TRIES):
            if settled := self._count_settled(change, violation):
                return change._replace(settled=settled)
        return None

    def _count_settled(self, change: TemplateChange, violation: Violation) -> int:
        """Count the findings that the change fixes; 0 if this one stays, or if there is a new finding or error."""
        key = violation.policy, violation.row
        tried = change.home, change.resource.id, change.path, repr(change.value), change.is_read_again
        if tried not in self._after:
            self._after[tried] = self._judge(change) if self._left > 0 else None
        after = self._after[tried]
        if after is None or after[key] >= self._before[key]:
            return 0
        if not after <= self._before:
            if change.is_read_again or change.limited or not change.path:
                return 0
            # the new ones may be those that case analysis rules out: it needs the text to be read again
            return self._count_settled(change._replace(is_read_again=True), violation)
        rows = [row for _, row in (self._before - after).elements()]
        found = {cell for row in rows if isinstance(row, tuple) for cell in row}
        if change.limited and not find_readers(self._stacks, change.limited) <= found:
            return 0  # it would limit a resource without a finding
        return sum(not isinstance(row, str) for row in rows)

    def _judge(self, change: TemplateChange) -> Counter[tuple[str, object]] | None:
        """Count the findings with the change; None if it can't be judged."""
        self._left -= len(self._facts) * (1 + (len(change.limited.domain) if change.limited else change.is_read_again))
        try:
            stacks = [apply_change(stack, change) for stack in self._stacks]
            reread = read_assuming if change.limited or change.is_read_again else None
            decision = decide(self._rules, stacks, self._request, evaluate, reread)
        except (EngineError, InputError):
            return None
        if any(error.code == "budget" for error in decision.errors):
            self._left = 0  # the next one would take equally long
            return None
        return _count_findings(decision)

    def _changes(self, tree: Node, violation: Violation) -> Iterator[TemplateChange]:
        """The changes to try: what the hint says, then values, then grants."""
        walk = [_Step(tree)]
        for step in walk:
            walk += [_Step(leaf, step, match) for match, leaf in _rows(step.node)]
        yield from self._instructed(walk, violation)
        yield from self._values(walk, violation.hint)
        for step in walk:
            yield from self._grants(step.node)

    def _instructed(self, walk: Sequence[_Step], violation: Violation) -> Iterator[TemplateChange]:
        """What the hint says, at each place that the finding depends on, or below the resource that it is about."""
        instruction = read_instruction(violation.hint)
        if instruction is None or instruction.key.lower() in IDENTIFYING:
            return
        places = list[tuple[Stack, Resource | None, Path]]()
        for step in walk:
            name = certain_version(step.node.relation)
            of, path = self._facts.origin(name, step.node.row) or (None, ())
            match of:
                case Resource() if path[:1] == ("properties",) and (home := self._home(of.id)):
                    places += [(home, of, (*path, instruction.key)), (home, of, (*path[:-1], instruction.key))]
                case Stack() if path[:1] == ("parameters",) and of.resources:
                    places.append((of, None, (*path[:2], instruction.key)))
        if violation.resource and (home := self._home(violation.resource)):
            of = home.named[violation.resource.name]
            kind = self._rules.catalogue.type(of.type)
            maps = [part.name for part in kind.properties if part.kind == "map"] if kind else []
            places += [
                (home, of, ("properties", *above, instruction.key)) for above in ((), *((name,) for name in maps))
            ]
        tried = set[tuple[str, str, Path]]()
        for home, resource, path in places:
            place = home.id, resource.name if resource else "", path
            if place not in tried and (resource is None or self._may_have(resource, path)):
                tried.add(place)
                yield follow_instruction(home, resource, path, instruction)

    def _may_have(self, resource: Resource, path: Path) -> bool:
        """Whether Heat knows such a property of the resource, or takes any key there."""
        kind = self._rules.catalogue.type(resource.type)
        if kind is None or path[:1] != ("properties",) or len(path) < 2:
            return False
        above = property_at(kind, path[1:-1])
        is_open = above is not None and above.kind == "map" and not above.children
        return is_open or property_at(kind, path[1:]) is not None

    def _values(self, walk: Sequence[_Step], hint: str) -> Iterator[TemplateChange]:
        """Other values, in order of role, those in the finding's row first, then the allowed values of parameters. If
        the hint names a property that the finding depends on, only that is changed, in any role."""
        cells = [cell for step in walk for cell in self._cells(step)]
        named = [cell for cell in cells if cell.is_named(hint)]
        known = [cell for cell in named or cells if not isinstance(cell.value, Unknown)]
        offers = [(cell, offer) for cell in known for offer in self._offers(cell)]
        last_role = max(min([offer.role for _, offer in offers], default=_Role.CHOSEN), _Role.LISTED)
        if not named and any(_limits(premise) for step in walk for premise in step.node.premises):
            last_role = _Role.LISTED
        alone = len({(cell.resource.id, cell.path) for cell, offer in offers if offer.role == _Role.CHOSEN}) == 1
        offers.sort(
            key=lambda pair: (
                pair[1].role,
                not pair[0].reaches(walk[0].node),
                not _has_word(hint, show(pair[1].value)),
                -_likeness(pair[1], pair[0]),
            )
        )
        tried = set[tuple[ResourceId, Path, Value]]()
        for cell, (role, value, words) in offers:
            key = cell.resource.id, cell.path, value
            scope = role > last_role or (role == _Role.CHOSEN and not alone)
            if scope or key in tried or value == cell.value or isinstance(value, ResourceId | Unknown | None):
                continue
            if change := set_value(cell.home, cell.resource, cell.path, value, words):
                tried.add(key)
                yield change
        yield from self._limits(named or cells)

    def _limits(self, cells: Iterable[_Cell]) -> Iterator[TemplateChange]:
        """The allowed values for each parameter without a value, if tests of the rules tell which pass."""
        offered: dict[Unknown, tuple[Path, set[Value]]] = {}
        for cell in cells:
            if isinstance(cell.value, Unknown):
                values = {offer.value for offer in self._offers(cell) if offer.role in (_Role.LISTED, _Role.EXCEPTED)}
                offered.setdefault(cell.value, (cell.path, set()))[1].update(values)
        for unknown, (path, values) in offered.items():
            if len(values) < OFFERS and (change := limit_parameter(self._stacks, unknown, path, values)):
                yield change

    def _grants(self, node: Node) -> Iterator[TemplateChange]:
        """A grant for each resource that a premise requires to be unlocked for a service."""
        for premise in node.premises:
            match premise:
                case Without((Match(relation, (service, wanted)),)) if certain_version(relation) == UNLOCKED:
                    name, resource = _value(service, node.binding), _value(wanted, node.binding)
                    home = self._home(resource) if isinstance(resource, ResourceId) else None
                    if home and isinstance(name, str) and isinstance(resource, ResourceId):
                        yield make_grant(home, name, resource)

    def _home(self, resource: ResourceId) -> Stack | None:
        stacks = (nested for root in self._stacks for nested in root.walk())
        return next((stack for stack in stacks if any(member.id == resource for member in stack.resources)), None)

    def _cells(self, step: _Step) -> Iterator[_Cell]:
        """The values of resources that the rule of a row reads. Secrets, unknowns, references to other resources and
        identifying properties are left out: changing these would make another template."""
        for match, leaf in _rows(step.node):
            name = certain_version(leaf.relation)
            of, path = self._facts.origin(name, leaf.row) or (None, ())
            columns, shown = self._relations[leaf.relation].columns, self._secrets.row(name, leaf.row)
            masked = {columns[at].name for at, value in enumerate(leaf.row) if shown[at] != value}
            if not isinstance(of, Resource) or of.nested or path[:1] != ("properties",) or masked & _STEPS:
                continue
            for at, column in enumerate(columns):
                term, value = match.arguments[at], leaf.row[at]
                hidden = self._secrets.may_be_hidden(name, at) or isinstance(value, ResourceId)
                if term is None or column.name in _STEPS or hidden:
                    continue
                whole = path if column.name in ("value", "_value") else (*path, column.name)
                home = self._home(of.id)
                if home and str(whole[-1]).lower() not in IDENTIFYING:
                    yield _Cell(home.id, of, whole, value, _uses(step, term))

    def _offers(self, cell: _Cell) -> Iterator[_Offer]:
        """The values for which a test of the rules on the cell fails, as far as they are known."""
        for use in cell.uses:
            if isinstance(use.term, Const):
                if use.term.value is not None:
                    yield from self._other_values(cell)
                continue
            for premise in use.step.node.premises:
                yield from self._offers_of_premise(cell, use, premise)

    def _offers_of_premise(self, cell: _Cell, use: _Use, premise: Premise) -> Iterator[_Offer]:
        """The values that a premise requires instead of a variable's value."""
        node, term = use.step.node, use.term
        secret = self._secrets.values(node.rule, node.binding) if node.rule else ()
        match premise:
            case Compare(comparator, left, right) if term in (left, right) and not {left, right} & set(secret):
                other = right if term == left else left
                value = _value(other, node.binding)
                if isinstance(value, EllipsisType):
                    return
                if comparator == "=" and isinstance(other, Const) and value is not None and not use.network:
                    yield from self._other_values(cell)
                elif comparator == "!=" and not use.network:
                    yield _Offer(_Role.EXCEPTED if isinstance(other, Const) else _Role.LISTED, value)
                elif comparator not in ("=", "!="):
                    above = comparator in (">", ">=") if term == left else comparator in ("<", "<=")
                    bound = value
                    if isinstance(value, int) and len(comparator) == 2:
                        bound = value - 1 if above else value + 1
                    if not use.network:
                        yield _Offer(_Role.BOUND, bound)
                    elif above and isinstance(bound, int):
                        yield from _narrower(use.network, bound)
            case Without(body):
                for literal in body:
                    match literal:
                        case Match() if term in literal.arguments:
                            yield from (_Offer(_Role.LISTED, row) for row in self._column(literal, term))
                        case Call("cidr_contains", (outer, inner), ()) if inner == term and outer not in secret:
                            value = _value(outer, node.binding)
                            networks = [] if isinstance(value, EllipsisType) else [value]
                            for beside in body:
                                if isinstance(beside, Match) and outer in beside.arguments:
                                    networks += self._column(beside, outer)
                            yield from (_Offer(_Role.NETWORK, network) for network in networks)
            case Node(relation) if self._relations[relation].generated == "in":
                if any(leaf is premise and term in match.arguments for match, leaf in _rows(node)):
                    yield from self._other_values(cell)

    def _other_values(self, cell: _Cell) -> Iterator[_Offer]:
        """The other values that Heat allows there. The current value comes first: it shows that the rule is about a
        constant."""
        yield from (_Offer(_Role.CHOSEN, value) for value in (cell.value, *self._allowed(cell)))

    def _column(self, match: Match, term: Operand) -> list[Value]:
        """The values of a relation's first rows at the term's position in a literal."""
        at = match.arguments.index(term)
        if self._secrets.may_be_hidden(certain_version(match.relation), at):
            return []
        return [row[at] for row in sorted(self._model.rows(match.relation), key=row_key)[:OFFERS]]

    def _allowed(self, cell: _Cell) -> Iterator[Value]:
        """The values that Heat allows there, and the default. Without a default, leaving out a value is never a fix,
        since that may mean everything."""
        kind = self._rules.catalogue.type(cell.resource.type)
        if kind and (schema := property_at(kind, cell.path[1:])):
            yield from map(from_python, member_of(schema).allowed if schema.kind in ("list", "map") else schema.allowed)
            if schema.kind == "boolean":
                yield from (TRUE, FALSE)
            if schema.default is not None and not isinstance(schema.default, list | dict):
                yield from_python(schema.default)


def property_at(kind: ResourceType, steps: Sequence[str | int]) -> Property | None:
    """The schema of the property at the steps. List members have that of the list."""
    among, schema = kind.properties, None
    for step in steps:
        if isinstance(step, str):
            schema = next((candidate for candidate in among if candidate.name == step), None)
            among = schema.children if schema else ()
    return schema


def _has_word(text: str, word: str) -> bool:
    return bool(word) and re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def _count_findings(decision: Decision) -> Counter[tuple[str, object]]:
    """Count the violations, certain or not, by policy and row, and the errors by policy and message."""
    violations = (*decision.violations, *decision.undetermined)
    counts = Counter[tuple[str, object]](
        (policy, violation.row) for violation in violations for policy in violation.policies
    )
    counts.update((error.policy, error.message) for error in decision.errors)
    return counts


def _value(term: Pattern, binding: Mapping[Var, Value]) -> Value | EllipsisType:
    if isinstance(term, Const):
        return term.value
    return binding.get(term, ...) if term else ...


def _rows(node: Node) -> Iterator[tuple[Match, Node]]:
    """The rows that a row is derived from, each with its literal."""
    matches = [literal for literal in node.rule.body if isinstance(literal, Match)] if node.rule else []
    matches.sort(key=lambda match: match.span)
    return zip(matches, (premise for premise in node.premises if isinstance(premise, Node)), strict=True)


def _list_conditions(node: Node) -> Iterator[CheckedLiteral]:
    """The comparisons and builtin calls of a rule, including those in negations."""
    for premise in node.premises:
        match premise:
            case Compare() | Call():
                yield premise
            case Without(body):
                yield from body


def _uses(step: _Step, term: Operand) -> list[_Use]:
    """The terms with the value of a term, through copies up to the row of the finding."""
    uses = [_Use(step, term)]
    seen = {(id(step.node), term, "")}
    for at_step, source, network in uses:
        copies = list[_Use]()
        for literal in _list_conditions(at_step.node):
            match literal:
                case Compare("=", Var() as left, Var() as right) if source in (left, right):
                    copies.append(_Use(at_step, right if source == left else left, network))
                case Call(name, (first, *_), (Var() as output,)) if first == source and name in COPYING:
                    copies.append(_Use(at_step, output, network))
                case Call("cidr_host_count", (first,), (Var() as output,)) if first == source:
                    copies.append(_Use(at_step, output, str(_value(first, at_step.node.binding))))
        if at_step.above and at_step.match and at_step.node.rule:
            for at, argument in enumerate(at_step.node.rule.arguments):
                passed = at_step.match.arguments[at]
                if argument == source and passed is not None:
                    copies.append(_Use(at_step.above, passed, network))
        for use in copies:
            key = id(use.step.node), use.term, use.network
            if key not in seen:
                seen.add(key)
                uses.append(use)
    return uses


def _limits(premise: Premise) -> bool:
    """Whether a premise requires more than that a value is, or is not, a constant."""
    match premise:
        case Compare(comparator):
            return comparator not in ("=", "!=")
        case Without(body):
            relations = [certain_version(literal.relation) for literal in body if isinstance(literal, Match)]
            return bool(relations) and relations != [UNLOCKED]
    return False


def _narrower(network: str, most: int) -> Iterator[_Offer]:
    """Networks inside it with at most so many addresses, the largest first. If it contains all addresses, private
    ones."""
    whole = ip_network(network, strict=False)
    longest = whole.max_prefixlen
    if most <= 0:
        return
    for length in range(longest - most.bit_length() + 1, longest + 1, 8):
        if whole.prefixlen:
            yield _Offer(_Role.NETWORK, f"{whole.network_address}/{length}")
        else:
            example = f"{'10.0.0.0' if whole.version == 4 else 'fd00::'}/{length}"
            yield _Offer(_Role.NETWORK, example, f"a network of your own, at most a /{length}, such as {example}")


def _likeness(offer: _Offer, cell: _Cell) -> int:
    """The length of the common prefix, to sort values by; networks keep their order."""
    if offer.role == _Role.NETWORK:
        return 0
    pairs = zip(str(offer.value), str(cell.value), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
