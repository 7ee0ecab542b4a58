"""Policies that found nothing, beside rows that they were probably meant to find.

``flavor="M1.Huge"`` is a rule without fault until a stack asks for `m1.huge`: only the rows of a run can tell.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import (
    LONGEST,
    TESTS,
    constants,
    is_within,
    name_of,
    quoted,
    read_network,
    takes_given,
    twins,
)
from datalog_gate.analysis.patterns import searcher
from datalog_gate.analysis.same_values import SameValues
from datalog_gate.base.diagnostics import Diagnostic, Slips, Span, in_order
from datalog_gate.base.values import Boolean, Kind, ResourceId, Row, Value, kind_of
from datalog_gate.decision.judgement import Judgement
from datalog_gate.schema import cloud
from datalog_gate.schema.declaration import Column, Relation, RelationRef, is_old

FORMS: Sequence[tuple[str, str, str, str]] = (
    ("os:neutron:security_group.rules", "", "aws:ec2:security_group.SecurityGroupIngress", "AWS::EC2::SecurityGroup"),
    ("os:neutron:security_group_rule", "", "aws:ec2:security_group.SecurityGroupIngress", "AWS::EC2::SecurityGroup"),
    ("os:nova:server", "", "aws:ec2:instance", "AWS::EC2::Instance"),
    ("os:cinder:volume", "", "aws:ec2:volume", "AWS::EC2::Volume"),
    ("os:neutron:net", "", "os:neutron:provider_net", "OS::Neutron::ProviderNet"),
    ("os:neutron:floating_ip", "", "os:nova:floating_ip", "OS::Nova::FloatingIP"),
    ("os:neutron:floating_ip", "", "aws:ec2:eip", "AWS::EC2::EIP"),
    (
        "os:neutron:floating_ip", "port_id", "os:neutron:floating_ip_association",
        "OS::Neutron::FloatingIPAssociation",
    ),
    ("os:cinder:volume_attachment", "", "os:nova:server.block_device_mapping_v2", "OS::Nova::Server"),
)  # fmt: skip
"""What a rule reads, a column that it reads if any, and another relation that may say the same, with its type."""
GUARDS = {"is_string": Kind.STRING, "is_number": Kind.NUMBER, "is_boolean": Kind.BOOLEAN}
_BY_RELATION = ir.ProgramCache[dict[RelationRef, list[ir.CheckedRule]]]()
_READ = ir.ProgramCache[frozenset[RelationRef]]()
_RELATIONS = ir.ProgramCache[dict[int, tuple[frozenset[RelationRef], bool]]]()
_MATCHES = ir.ProgramCache[dict[int, tuple[ir.Match, ...]]]()
_ASKED = ir.ProgramCache["dict[tuple[int, ...], _Question]"]()
_JOINS = ir.ProgramCache[dict[tuple[int, ...], list[tuple[str, list[tuple[ir.Match, int]]]]]]()
NUMBERS = re.compile(r"\d+").findall
ENDINGS = ("yaml", "yml", "json", "template")
"""How the names of templates' files end."""
WORLD = ("0.0.0.0/0", "::/0")
MOST_ROWS = 1000
"""How many rows of a relation are looked at."""


def find_near_misses(judgement: Judgement) -> tuple[Diagnostic, ...]:
    """Warn of the rules of policies without a finding or error where a row differs from what they ask for by case,
    blanks or kind alone, where nulls would have to join, where resources of nested stacks are left out, or where the
    stacks say in another form what they read."""
    review = _Review(judgement)
    known = {warning.span for warning in judgement.reader.rules.warnings}
    rules = [rule for rule in review.rules if review.may_warn(rule)]
    warnings = [warning for rule in rules for warning in review.body(rule.body, ())]
    return in_order([*review.forms(), *(warning for warning in warnings if warning.span not in known)])


class _Review:
    def __init__(self, judgement: Judgement) -> None:
        reader = judgement.reader
        self._program, self._evaluation, self._secrets = reader.rules.program, reader.evaluation, reader.secrets
        self._rows = reader.evaluation.facts.rows
        flagged = judgement.decision.flagged
        self._clean = [policy for policy in judgement.policies if policy.id not in flagged]
        self._by_relation = _BY_RELATION.get(self._program, None, lambda: _by_relation(self._program))
        self._questions = _ASKED.get(self._program, None, dict)
        self._joins = _JOINS.get(self._program, None, dict)
        self._read = _READ.get(self._program, None, lambda: _read_relations(self._program))
        self._matches = _MATCHES.get(self._program, None, lambda: _matches_of_rules(self._program))
        self._relations = _RELATIONS.get(self._program, None, dict)
        self._stacks = reader.stacks

    @cached_property
    def rules(self) -> list[ir.CheckedRule]:
        """The rules that could give a policy without a finding one, if they held: none that a `not` reads."""
        rules = []
        waiting: list[RelationRef] = [policy.relation for policy in self._clean]
        seen = set(waiting)
        while waiting:
            for rule in self._by_relation.get(waiting.pop(), ()):
                rules.append(rule)
                for match in self._matches[id(rule)]:
                    if match.relation not in seen:
                        seen.add(match.relation)
                        waiting.append(match.relation)
        return rules

    def may_warn(self, rule: ir.CheckedRule) -> bool:
        """Whether a rule reads facts that there are, or joins columns that may be null: of others nothing is said."""
        known = self._relations.get(id(rule))
        if known is None:
            read = frozenset(match.relation for match in self._matches[id(rule)])
            known = self._relations[id(rule)] = read, self._may_join_nulls(rule.body, ())
        return known[1] or not known[0].isdisjoint(self._rows)

    def _may_join_nulls(self, body: Sequence[ir.CheckedLiteral], outer: Sequence[ir.CheckedLiteral]) -> bool:
        around = (*outer, *body)
        folds = [literal for literal in body if isinstance(literal, ir.Fold)]
        return len(around) <= LONGEST and (
            bool(self._joined_columns(body, around)) or any(self._may_join_nulls(fold.body, around) for fold in folds)
        )

    def body(self, body: Sequence[ir.CheckedLiteral], outer: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
        around = (*outer, *body)
        if len(around) > LONGEST:
            return
        yield from self._null_joins(body, around)
        for literal in body:
            if isinstance(literal, ir.Match):
                if not is_old(literal.relation) and literal.relation in self._rows:
                    yield from self._match(literal, around)
                    if not cloud.relation(str(literal.relation)):
                        yield from self._other_names(literal, around)
            elif isinstance(literal, ir.Fold):
                yield from self.body(literal.body, around)
                yield from self._root_alone(literal, around)

    def _match(self, match: ir.Match, around: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
        relation = self._program.relations[match.relation]
        key = id(match), *map(id, around)  # the program, with which these are freed, holds all of them
        if key not in self._questions:
            self._questions[key] = self._question(relation, match, around)
        asked, conditions = self._questions[key]
        if not asked and not conditions:
            return
        reported: set[tuple[Span, Value]] = set()
        for row in islice(self._rows[match.relation], MOST_ROWS):
            missed = [column for column in asked if row[column.at] not in column.given]
            slips: Sequence[_Slip] = ()
            if len(missed) == 1:
                slips = missed[0].recall_slips(row[missed[0].at]) or self._named_slips(match, missed[0], row)
                slips = slips or list(_of_stack(missed[0], relation, row))
            elif missed and not relation.named_only:
                slips = list(_exchanged(missed, row))
            elif not missed:
                found = (_slip(at, relation.columns[at], literal, row[at], bool(asked)) for at, literal in conditions)
                slips = [slip for slip in found if slip]
            for slip in slips:
                shown = self._secrets.row(match.relation, row)[slip.at] == row[slip.at]
                if shown and (slip.span, slip.asked) not in reported:
                    reported.add((slip.span, slip.asked))
                    where = f" in {row[0].path}" if isinstance(row[0], ResourceId) else ""
                    yield _near_miss(f"{relation.columns[slip.at].name}{where} {slip.message}", slip.span, slip.advice)

    def _named_slips(self, match: ir.Match, missed: _Asked, row: Row) -> list[_Slip]:
        """The slip where the rule asks for what a resource is called in the template, and not for its property `name`,
        or the other way round."""
        resource = row[0]
        if missed.column.name != "name" or not isinstance(resource, ResourceId):
            return []
        if match.relation == "heat:resource":
            other = self._names.get(resource)
            what, advice = "the property name is", 'read its own relation, os:...(_id=x, name="{}")'
        elif str(match.relation).startswith("os:") and match.relation in self._rows:
            other, what, advice = resource.name, "the template calls it", 'write heat:resource(id=x, name="{}")'
        else:
            return []
        if not isinstance(other, str) or other not in missed.given:
            return []
        message = f"is {quoted(row[missed.at])}: {what} {quoted(other)}"
        return [_Slip(missed.at, other, missed.given[other], message, advice.format(other))]

    @cached_property
    def _names(self) -> Mapping[ResourceId, object]:
        """The property `name` of the resources that have one."""
        resources = (resource for root in self._stacks for stack in root.walk() for resource in stack.resources)
        return {
            resource.id: resource.properties.get("name")
            for resource in resources
            if not resource.hides(("properties", "name"), True)
        }

    def _question(self, relation: Relation, match: ir.Match, around: Sequence[ir.CheckedLiteral]) -> _Question:
        """What the body asks of the rows of a match, which is the same for all stacks."""
        asked = [_Asked(at, relation.columns[at], self._given(term, match, around)) for at, term in match.column_terms]
        conditions = [
            (at, literal) for at, term in match.column_terms for literal in _conditions(relation, at, term, around)
        ]
        return [column for column in asked if column.given], conditions

    def _given(self, term: ir.Operand, asked: ir.Match, around: Sequence[ir.CheckedLiteral]) -> dict[Value, Span]:
        """The values that the body asks of a column: constants, and those of a relation that holds facts alone."""
        given = {constant.value: span for constant, span in constants(term, asked.span, around)}
        for literal in around:
            match literal:
                case ir.Call("??", (value, ir.Const()), (ir.Var() as result,)) if value == term:
                    given |= {constant.value: span for constant, span in constants(result, literal.span, around)}
        for literal in around:
            if isinstance(literal, ir.Match) and isinstance(term, ir.Var) and term in literal.arguments:
                rules = self._by_relation.get(literal.relation, ())
                at = literal.arguments.index(term)
                if rules and not any(rule.body for rule in rules if not takes_given(rule)):
                    for fact in rules:
                        if not fact.body and isinstance(argument := fact.arguments[at], ir.Const):
                            given[argument.value] = fact.span
        return given

    def _other_names(self, match: ir.Match, around: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
        """Warn of a join with the ids of an inventory's table where the stack gives names, or the other way round; and
        with the names of resources where it refers to them."""
        for literal in around:
            if not isinstance(literal, ir.Match) or literal is match:
                continue
            positions = self._program.relations[literal.relation].positions
            if cloud.relation(str(literal.relation)):
                other = {"id": "name", "name": "id"}
            elif "_id" in positions:
                other = {"name": "_id"}
            else:
                continue
            for own in other.keys() & positions.keys():
                term, twin = literal.arguments[positions[own]], positions.get(other[own])
                if not isinstance(term, ir.Var) or term not in match.arguments or twin is None:
                    continue
                at = match.arguments.index(term)
                inventory = self._rows.get(literal.relation, {})
                known = {row[positions[own]] for row in inventory}
                folded = {_fold(value): value for value in known if isinstance(value, str)}
                names = {row[twin] for row in inventory if row[twin] is not None}
                for row in islice(self._rows[match.relation], MOST_ROWS):
                    shown = self._secrets.row(match.relation, row)[at] == row[at]
                    value = row[at]
                    if shown and isinstance(value, str) and value not in known and _fold(value) in folded:
                        column = self._program.relations[match.relation].columns[at].name
                        message = f"{column} is {quoted(value)}, and {own} of {literal.relation} is"
                        message = f"{message} {quoted(folded[_fold(value)])}"
                        advice = f"join what lower gives of both, `lower({column}, low)`"
                        yield _near_miss(message, literal.span, advice)
                        break
                    if shown and row[at] in names and row[at] not in known:
                        column = self._program.relations[match.relation].columns[at].name
                        message = f"{column} is {quoted(row[at])}, the {other[own]} of a row of {literal.relation}"
                        advice = f"join it with {other[own]} too: either may stand in a template"
                        yield _near_miss(f"{message}, and the rule asks for the {own}", literal.span, advice)
                        break

    def _null_joins(
        self, body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral]
    ) -> Iterator[Diagnostic]:
        key = tuple(map(id, around))
        if key not in self._joins:
            self._joins[key] = self._joined_columns(body, around)
        for name, columns in self._joins[key]:
            several = [literal for literal, at in columns if self._holds_null(literal, at)]
            if len(several) > 1:
                message = f"{name} is null in rows of both sides, and two nulls never join"
                yield Diagnostic(
                    "null-join", message, several[1].span, f'give both a default, `{name} ?? "none"`', "warning"
                )

    def _joined_columns(
        self, body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral]
    ) -> list[tuple[str, list[tuple[ir.Match, int]]]]:
        """The names of variables that join columns which may be null, with these; it is the same for all stacks."""
        nullable: list[tuple[ir.Var, ir.Match, int]] = []
        for literal in body:
            if isinstance(literal, ir.Match) and not is_old(literal.relation):
                columns = self._program.relations[literal.relation].columns
                for at, term in literal.column_terms:
                    if isinstance(term, ir.Var) and columns[at].kinds & (Kind.NULL | Kind.RESOURCE) == Kind.NULL:
                        nullable.append((term, literal, at))
        if len(nullable) < 2:
            return []
        same = SameValues(around)
        places: dict[ir.Operand, list[tuple[ir.Match, int]]] = {}
        for var, match, at in nullable:
            places.setdefault(same.of(var), []).append((match, at))
        tested = {
            same.of(side)
            for literal in around
            if isinstance(literal, ir.Compare) and literal.null_test
            for side in (literal.left, literal.right)
        }
        joins = ((var, columns) for var, columns in places.items() if len(columns) > 1 and var not in tested)
        return [(name_of(var), columns) for var, columns in joins]

    def _holds_null(self, match: ir.Match, at: int) -> bool:
        rows: Collection[Row] = self._rows.get(match.relation, ())
        if match.relation in self._by_relation:
            rows = self._evaluation.model.rows(match.relation)
        return any(row[at] is None for row in rows)

    def _root_alone(self, fold: ir.Fold, around: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
        """Warn of an aggregate over the resources that the root itself lists, where nested stacks hold more."""
        roots = {
            literal.arguments[0]
            for literal in around
            if isinstance(literal, ir.Match)
            and (literal.relation == "heat:root" or (literal.relation == "heat:stack" and _of_root(literal, around)))
        }
        for match in fold.body if roots else ():
            if not isinstance(match, ir.Match) or match.relation not in self._rows:
                continue
            positions = self._program.relations[match.relation].positions
            at = positions.get("_stack", positions["stack"] if match.relation == "heat:resource" else None)
            if at is None or match.arguments[at] is None or match.arguments[at] not in roots:
                continue
            root_ids = {stack.id for stack in self._stacks}
            deeper = sum(row[at] not in root_ids for row in self._rows[match.relation])
            if deeper:
                rows = f"{deeper} rows" if deeper > 1 else "one row"
                where = f"stacks within it hold {rows} of {match.relation}"
                message = f"{fold.function} takes what the root itself lists, and {where}"
                advice = "leave the stack out of it, or join it with `within` as docs/language.md shows"
                yield _near_miss(message, match.span, advice)

    def forms(self) -> Iterator[Diagnostic]:
        """Warn once of each thing that stacks say in another form, which no rule reads."""
        for form, column, other, kind in FORMS:
            if other in self._read or (kind, other.partition(".")[2]) not in self._said:
                continue
            matches = (match for rule in self.rules for match in self._matches[id(rule)])
            reading = [match for match in matches if match.relation == form]
            if column:
                at = self._program.relations[form].positions[column] if reading else 0
                reading = [match for match in reading if match.arguments[at] is not None]
            if reading:
                message = f"the rules read {form}, and this stack has {other} too, which they don't read"
                span = min(match.span for match in reading)
                yield Diagnostic("one-form", message, span, f"read {other} too, in a second rule", "warning")

    @cached_property
    def _said(self) -> Set[tuple[str, str]]:
        """The types of the stacks' resources, each with "" and with the properties that one has."""
        said: set[tuple[str, str]] = set()
        for stack in (stack for root in self._stacks for stack in root.walk()):
            resources = stack.apart
            for kind, alike in resources.types.items():
                said |= {(kind, name) for properties in alike.properties.values() for name in ("", *properties)}
            for resource in resources.others.values():
                said |= {(resource.type, name) for name in ("", *resource.properties)}
        return said


class _Slip(NamedTuple):
    """How the value of a column differs from what a rule asks of it: the rest of a message that begins with the
    column."""

    at: int
    asked: Value
    span: Span
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class _Asked:
    """A column of a literal, and the values that the body asks of it, each with its place."""

    at: int
    column: Column
    given: Mapping[Value, Span]
    recalled: dict[str, list[_Slip]] = field(default_factory=dict)
    """The slips of texts that were looked at: stacks have few of them, again and again."""

    def recall_slips(self, value: Value) -> list[_Slip]:
        """As `slips`, of a text once."""
        if not isinstance(value, str):
            return list(self.slips(value))
        if value not in self.recalled:
            if len(self.recalled) >= MOST_ROWS:
                self.recalled.clear()
            self.recalled[value] = list(self.slips(value))
        return self.recalled[value]

    def slips(self, value: Value) -> Iterator[_Slip]:
        """The values that probably mean this one."""
        name = self.column.name.strip("_")
        for given, span in self.given.items():
            message = f"is {quoted(value)}, and the rule asks for {quoted(given)}"
            match given, value:
                case str(), None if not given or (given in WORLD and self.column.name == "remote_ip_prefix"):
                    message = "is left out, which lets everyone in" if given else "is left out, which is null"
                    advice = f'give it that default, `{name} ?? "{given}"`'
                case str(), str() if _is_file_of(given, value):
                    advice = f"write {quoted(value)}: a stack's name is no file's"
                case str(), str() if _fold(given) == _fold(value) or _is_part(given, value):
                    advice = f"write {quoted(value)} beside it, or in its place"
                case str(), str() if (
                    name != "path" and _letters(given) == _letters(value) != "" and NUMBERS(given) == NUMBERS(value)
                ):
                    advice = f"write {quoted(value)} beside it, or in its place"
                case str(), str() if sorted(given) == sorted(value) and Slips([value]).of(given):
                    advice = f"write {quoted(value)}: two letters are swapped"
                case str(), str() if name == "path" and value == re.sub(r"[/\[\]]+", ".", given).strip("."):
                    advice = f"write {quoted(value)}"
                case str(), str() if name == "path" and value.startswith(f"{given}."):
                    message, advice = (
                        f"is {quoted(value)}, below {quoted(given)}",
                        f"write {quoted(value)}, or starts_with",
                    )
                case str(), str() if self.column.custom and _lies_in(value, given):
                    message = f"is {quoted(value)}, which lies in {quoted(given)}"
                    advice = f'write cidr_contains("{given}", {name})'
                case str(), str() if value != given and value in re.split(r"[,;|\s]+", given):
                    advice = f"state each by itself, {quoted(value)} among them"
                case str(), ResourceId() if given == value.path or _fold(given) == _fold(value.name):
                    advice = f'join it: `heat:resource(id={name}, name="{value.name}")`'
                case _ if value in twins(given) or given in twins(value):
                    advice = f"write `{name} in [{quoted(value)}, {quoted(given)}]`"
                case _:
                    continue
            yield _Slip(self.at, None if value is None else given, span, message, advice)


_Question = tuple[Sequence[_Asked], Sequence[tuple[int, ir.Call | ir.Compare]]]


def _by_relation(program: ir.CheckedProgram) -> dict[RelationRef, list[ir.CheckedRule]]:
    rules: dict[RelationRef, list[ir.CheckedRule]] = {}
    for rule in program.rules:
        rules.setdefault(rule.relation, []).append(rule)
    return rules


def _read_relations(program: ir.CheckedProgram) -> frozenset[RelationRef]:
    return frozenset(match.relation for rule in program.rules for match in _matches(rule.body))


def _matches_of_rules(program: ir.CheckedProgram) -> dict[int, tuple[ir.Match, ...]]:
    """What each rule matches outside of a `not`, by the rule's id."""
    return {id(rule): tuple(_matches(rule.body, negated=False)) for rule in program.rules}


def _exchanged(missed: Sequence[_Asked], row: Row) -> Iterator[_Slip]:
    """Constants that stand in each other's columns: ``heat:metadata(x, "front", "tier")``."""
    columns = {column.at: next((other for other in missed if row[column.at] in other.given), None) for column in missed}
    places = {other.at for other in columns.values() if other}
    if len(places) == len(missed):
        first = missed[0]
        other = next(column for column in missed if row[column.at] in first.given)
        span = next(iter(first.given.values()))
        message = f"is {quoted(row[first.at])}, and the rule asks for that as {other.column.name}"
        yield _Slip(
            first.at, None, span, message, f"name the columns, {first.column.name}=..., {other.column.name}=..."
        )


def _of_stack(missed: _Asked, relation: Relation, row: Row) -> Iterator[_Slip]:
    """The name or path of something where its stack is asked for: ``heat:resource(x, "server")``."""
    if missed.column.name not in ("stack", "_stack"):
        return
    given = {_fold(text): text for text in missed.given if isinstance(text, str)}
    for column, value in zip(relation.columns, row, strict=True):
        names = (value.name, value.path) if isinstance(value, ResourceId) else (value,) if column.name == "name" else ()
        for name in (name for name in names if isinstance(name, str) and _fold(name) in given):
            asked = given[_fold(name)]
            own = value.name if isinstance(value, ResourceId) else name
            message = f"is {quoted(row[missed.at])}, and {quoted(name)} is {'the name' if name == own else 'a path'}"
            joined = relation.named_only and isinstance(value, ResourceId)
            advice = f'join it: `heat:resource(id=x, name="{own}")`' if joined else f'write name="{own}"'
            yield _Slip(missed.at, asked, missed.given[asked], message, advice)
            return


def _matches(body: Sequence[ir.CheckedLiteral], negated: bool = True) -> Iterator[ir.Match]:
    """The matches of a body and its aggregates, and if `negated` those that a `not` holds."""
    for literal in body:
        if isinstance(literal, ir.Match):
            yield literal
        elif isinstance(literal, ir.Fold) or (negated and isinstance(literal, ir.Without)):
            yield from _matches(literal.body, negated)


def _conditions(
    relation: Relation, at: int, term: ir.Operand, around: Sequence[ir.CheckedLiteral]
) -> Iterator[ir.Call | ir.Compare]:
    """What the body says of a column, or of its value where it is not null, that `_slip` can judge."""
    column = relation.columns[at]
    twin = column.name.replace("min", "max") if "min" in column.name else column.name.replace("max", "min")
    is_bound = twin != column.name and twin in relation.positions
    names = {term} | {
        literal.outputs[0]
        for literal in around
        if isinstance(literal, ir.Call) and literal.builtin == "??" and literal.inputs[0] == term
    }
    for literal in around:
        match literal:
            case ir.Call(name, (ir.Var() as text, ir.Const(str()))) if name in TESTS and text in names:
                yield literal
            case ir.Call(name, (ir.Var() as value,)) if name in GUARDS and value == term and column.kinds == Kind.ANY:
                yield literal
            case ir.Compare("!=", left, right) if is_bound and literal.null_test and term in (left, right):
                yield literal


def _slip(at: int, column: Column, literal: ir.Call | ir.Compare, value: Value, placed: bool) -> _Slip | None:
    """How the value fails the condition, if it is by case, by its kind, or by being left out. `placed` says that the
    rule names a place in a map, whose value is to have one kind."""
    match literal, value:
        case ir.Call(name, (text, ir.Const(str() as part))), str() if _differs_in_case(name, value, part):
            message = f"is {quoted(value)}: {name} with {quoted(part)} minds case"
            folded = f'lower({name_of(text)}, low), {name}(low, "{part.lower()}")'
            advice = f'write "(?i){part}"' if name == "matches" else f"write {folded}"
            return _Slip(at, part, literal.span, message, advice)
        case ir.Call("matches", (_, ir.Const(str() as pattern))), str() if meant := _other_pattern(pattern, value):
            message = f"is {quoted(value)}, which {quoted(pattern)} does not match, and {quoted(meant)} does"
            return _Slip(at, pattern, literal.span, message, f'write "{meant}"')
        case ir.Call(name, (ir.Var(),)), str() | int() | Boolean() if placed and not kind_of(value) & GUARDS[name]:
            kind = kind_of(value).describe()
            message = f"is {quoted(value)}, a {kind}, which {name} leaves out"
            return _Slip(at, name, literal.span, message, f"write a second rule with is_{kind}")
        case ir.Compare(), None:
            wide = 0 if "min" in column.name else 65535
            advice = f"give it the widest default, `{column.name} ?? {wide}`, in place of `!= null`"
            return _Slip(at, None, literal.span, "is left out, which means no bound", advice)
    return None


def _of_root(stack: ir.Match, around: Sequence[ir.CheckedLiteral]) -> bool:
    """Whether a match of `heat:stack` is one of roots: of no parent, or of depth 0."""
    _, _, parent, depth = stack.arguments[:4]
    return any(
        constant.value == value
        for term, value in ((parent, None), (depth, 0))
        for constant, _ in constants(term, stack.span, around)
    )


def _differs_in_case(builtin: str, text: str, part: str) -> bool:
    with suppress(ValueError):  # a text that is too long for the pattern
        if TESTS[builtin](text, part):
            return False
        if builtin == "matches":
            return searcher(part, ignore_case=True)(text)
        return TESTS[builtin](text.casefold(), part.casefold())
    return False


def _is_file_of(name: str, stack: str) -> bool:
    """Whether it is the name of a file whose template gives a stack that name."""
    stem, _, ending = name.rpartition(".")
    return ending.lower() in ENDINGS and stem.lower() == stack.lower()


def _other_pattern(pattern: str, text: str) -> str | None:
    """The pattern that was meant in the place of one which does not match the text: without the slashes around it,
    with `.*` for a shell's `*`, with one backslash for two."""
    with suppress(ValueError):
        if searcher(pattern)(text):
            return None
    for meant in (
        re.sub("^/(.*)/$", r"\1", pattern), re.sub(r"(?<=[\w-]{2})\*", ".*", pattern), pattern.replace(2 * "\\", "\\"),
    ):  # fmt: skip
        with suppress(ValueError):
            if meant != pattern and searcher(meant)(text):
                return meant
    return None


def _is_part(given: str, value: str) -> bool:
    """Whether the value is a network and the text its address, or a path in a stack and the text its end."""
    head, _, tail = value.rpartition("/")
    return (given == head and tail.isdigit() and given[-1:] in "0123456789:") or value.endswith(f"/{given}")


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def _lies_in(text: str, around: str) -> bool:
    """Whether both are networks, and the first lies in the other, which is not all there is."""
    network = read_network(around)
    inner = read_network(text) if network and network.prefixlen else None
    return inner is not None and network is not None and is_within(inner, network)


def _fold(text: str) -> str:
    return "_".join(text.casefold().replace("-", " ").replace("_", " ").split())


def _near_miss(message: str, span: Span, suggestion: str) -> Diagnostic:
    return Diagnostic("near-miss", message, span, suggestion, "warning")
