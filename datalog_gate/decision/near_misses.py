"""Policies without a finding, though rows nearly match.

``flavor="M1.Huge"`` is a valid rule. Only a stack that asks for `m1.huge` shows that it is a mistake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import (
    LONGEST,
    constants,
    name_of,
    quoted,
    takes_given,
)
from datalog_gate.analysis.same_values import SameValues
from datalog_gate.base.diagnostics import Diagnostic, Span, in_order
from datalog_gate.base.values import Kind, ResourceId, Row, Value
from datalog_gate.decision.judgement import Judgement
from datalog_gate.decision.slips import (
    MOST_ROWS,
    Asked,
    Slip,
    find_conditions,
    find_exchanged,
    find_slip,
    find_stack,
    fold,
)
from datalog_gate.schema import cloud
from datalog_gate.schema.declaration import Relation, RelationRef, is_old

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
"""A relation, one of its columns if any, and another relation that may express the same, with its resource type."""
_NULL_OR_RESOURCE = Kind.NULL | Kind.RESOURCE
_BY_RELATION = ir.ProgramCache[dict[RelationRef, list[ir.CheckedRule]]]()
_READ = ir.ProgramCache[frozenset[RelationRef]]()
_NULL_JOINING = ir.ProgramCache[dict[int, bool]]()
_MATCHES = ir.ProgramCache[dict[int, tuple[ir.Match, ...]]]()
_RULES = ir.ProgramCache[list[ir.CheckedRule]]()
_ASKED = ir.ProgramCache["dict[tuple[int, ...], _Question]"]()
_OTHER_NAMES = ir.ProgramCache["dict[tuple[int, ...], list[_OtherName]]"]()
_JOINS = ir.ProgramCache[dict[tuple[int, ...], list[tuple[str, list[tuple[ir.Match, int]]]]]]()


def find_near_misses(judgement: Judgement) -> tuple[Diagnostic, ...]:
    """Warn about rules of policies without a finding or error if a row differs from what they require only by case,
    blanks or kind, if nulls would have to join, if they leave out resources of nested stacks, or if the stacks express
    what they read in another form."""
    review = _MissReview(judgement)
    known = {warning.span for warning in judgement.reader.rules.warnings}
    warnings = [warning for rule in review.find_rules() for warning in review.body(rule.body, ())]
    return in_order([*review.forms(), *(warning for warning in warnings if warning.span not in known)])


class _OtherName(NamedTuple):
    """A join with a literal's column `own`, beside which `other` names the same thing; `at` is the joined column."""

    literal: ir.Match
    own: str
    other: str
    own_at: int
    other_at: int
    at: int


class _MissReview:
    def __init__(self, judgement: Judgement) -> None:
        reader = judgement.reader
        self._program, self._evaluation, self._secrets = reader.rules.program, reader.evaluation, reader.secrets
        self._rows = reader.evaluation.facts.rows
        flagged = judgement.decision.flagged
        self._clean = [policy for policy in judgement.policies if policy.id not in flagged]
        self._by_relation = _BY_RELATION.get(self._program, None, lambda: _by_relation(self._program))
        self._questions = _ASKED.get(self._program, None, dict)
        self._joins = _JOINS.get(self._program, None, dict)
        self._other_names = _OTHER_NAMES.get(self._program, None, dict)
        self._read = _READ.get(self._program, None, lambda: _read_relations(self._program))
        self._matches = _MATCHES.get(self._program, None, lambda: _matches_of_rules(self._program))
        self._null_joining = _NULL_JOINING.get(self._program, None, dict)
        self._stacks = reader.stacks

    def find_rules(self) -> list[ir.CheckedRule]:
        """The rules that could have given a policy without a finding one, and that may warn. Cached by the set of these
        policies and relations."""
        key = frozenset(policy.relation for policy in self._clean), frozenset(self._rows)
        return _RULES.get(self._program, key, lambda: list(filter(self._may_warn, self._reaching)))

    @cached_property
    def _reaching(self) -> list[ir.CheckedRule]:
        """The rules that could have given a policy without a finding one; not those that a `not` reads."""
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

    def _may_warn(self, rule: ir.CheckedRule) -> bool:
        """Whether a rule reads existing facts, or joins columns that may be null. There are no warnings about other
        rules."""
        if any(match.relation in self._rows for match in self._matches[id(rule)]):
            return True
        if id(rule) not in self._null_joining:
            self._null_joining[id(rule)] = self._may_join_nulls(rule.body, ())
        return self._null_joining[id(rule)]

    def _may_join_nulls(self, body: Sequence[ir.CheckedLiteral], outer: Sequence[ir.CheckedLiteral]) -> bool:
        around = (*outer, *body)
        folds = [literal for literal in body if isinstance(literal, ir.Fold)]
        return len(around) <= LONGEST and (
            bool(self._joined_columns(body, around)) or any(self._may_join_nulls(fold.body, around) for fold in folds)
        )

    def body(
        self, body: Sequence[ir.CheckedLiteral], outer: Sequence[ir.CheckedLiteral], ids: tuple[int, ...] = ()
    ) -> Iterator[Diagnostic]:
        """Review a body inside outer ones; `ids` are the ids of these bodies."""
        around, ids = (*outer, *body), (*ids, id(body))  # the program keeps these objects alive
        if len(around) > LONGEST:
            return
        yield from self._null_joins(body, around, ids)
        for literal in body:
            if isinstance(literal, ir.Match):
                if not is_old(literal.relation) and literal.relation in self._rows:
                    yield from self._match(literal, around, ids)
                    for other in self._names_beside(literal, around, ids):
                        yield from self._other_name(literal, other)
            elif isinstance(literal, ir.Fold):
                yield from self.body(literal.body, around, ids)
                yield from self._root_alone(literal, around)

    def _match(
        self, match: ir.Match, around: Sequence[ir.CheckedLiteral], ids: tuple[int, ...]
    ) -> Iterator[Diagnostic]:
        relation = self._program.relations[match.relation]
        key = id(match), *ids
        if key not in self._questions:
            self._questions[key] = self._question(relation, match, around)
        columns, conditions = self._questions[key]
        if not columns and not conditions:
            return
        reported: set[tuple[Span, Value]] = set()
        for row in islice(self._rows[match.relation], MOST_ROWS):
            missed = [column for column in columns if row[column.at] not in column.given]
            slips: Sequence[Slip] = ()
            if len(missed) == 1:
                slips = missed[0].recall_slips(row[missed[0].at]) or self._named_slips(match, missed[0], row)
                slips = slips or list(find_stack(missed[0], relation, row))
            elif missed and not relation.named_only:
                slips = list(find_exchanged(missed, row))
            elif not missed:
                by_condition = (
                    find_slip(at, relation.columns[at], literal, row[at], bool(columns)) for at, literal in conditions
                )
                slips = [slip for slip in by_condition if slip]
            for slip in slips:
                shown = self._secrets.row(match.relation, row)[slip.at] == row[slip.at]
                if shown and (slip.span, slip.asked) not in reported:
                    reported.add((slip.span, slip.asked))
                    where = f" in {row[0].path}" if isinstance(row[0], ResourceId) else ""
                    yield _near_miss(f"{relation.columns[slip.at].name}{where} {slip.message}", slip.span, slip.advice)

    def _named_slips(self, match: ir.Match, missed: Asked, row: Row) -> list[Slip]:
        """The slip if the rule asks for a resource's name in the template instead of its property `name`, or vice
        versa."""
        resource = row[0]
        if missed.column.name != "name" or not isinstance(resource, ResourceId):
            return []
        if match.relation == "heat:resource":
            other = self._names.get(resource)
            what, advice = "the property name is", 'read its own relation, os:...(_id=x, name="{}")'
        elif str(match.relation).startswith("os:") and match.relation in self._rows:
            other, what, advice = resource.name, "its name in the template is", 'write heat:resource(id=x, name="{}")'
        else:
            return []
        if not isinstance(other, str) or other not in missed.given:
            return []
        message = f"is {quoted(row[missed.at])}: {what} {quoted(other)}"
        return [Slip(missed.at, other, missed.given[other], message, advice.format(other))]

    @cached_property
    def _names(self) -> Mapping[ResourceId, object]:
        """The property `name` of each resource that has one."""
        resources = (resource for root in self._stacks for stack in root.walk() for resource in stack.resources)
        return {
            resource.id: resource.properties.get("name")
            for resource in resources
            if not resource.hides(("properties", "name"), True)
        }

    def _question(self, relation: Relation, match: ir.Match, around: Sequence[ir.CheckedLiteral]) -> _Question:
        """What the body requires of the rows of a match. It is the same for all stacks."""
        columns = [Asked(at, relation.columns[at], self._given(term, match, around)) for at, term in match.column_terms]
        tests = [literal for literal in around if not isinstance(literal, ir.Match)]
        conditions = [
            (at, literal) for at, term in match.column_terms for literal in find_conditions(relation, at, term, tests)
        ]
        return [column for column in columns if column.given], conditions

    def _given(self, term: ir.Operand, match: ir.Match, around: Sequence[ir.CheckedLiteral]) -> dict[Value, Span]:
        """The values that the body requires of a column: constants, and the values of relations that hold only
        facts."""
        given = {constant.value: span for constant, span in constants(term, match.span, around)}
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

    def _names_beside(
        self, match: ir.Match, around: Sequence[ir.CheckedLiteral], ids: tuple[int, ...]
    ) -> list[_OtherName]:
        """The joins of a row of the stack that may have used the other name. They are the same for all stacks."""
        key = id(match), *ids
        if key not in self._other_names:
            of_stack = not cloud.relation(str(match.relation))
            self._other_names[key] = list(self._find_names_beside(match, around)) if of_stack else []
        return self._other_names[key]

    def _find_names_beside(self, match: ir.Match, around: Sequence[ir.CheckedLiteral]) -> Iterator[_OtherName]:
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
                if isinstance(term, ir.Var) and term in match.arguments and twin is not None:
                    yield _OtherName(literal, own, other[own], positions[own], twin, match.arguments.index(term))

    def _other_name(self, match: ir.Match, join: _OtherName) -> Iterator[Diagnostic]:
        """Warn about a join with the ids of an inventory table if the stack gives names, or vice versa; and about one
        with the names of resources if the stack refers to them."""
        at, relation, span = join.at, join.literal.relation, join.literal.span
        inventory = self._rows.get(relation, {})
        if not inventory:
            return
        known = {row[join.own_at] for row in inventory}
        folded = {fold(value): value for value in known if isinstance(value, str)}
        names = {row[join.other_at] for row in inventory if row[join.other_at] is not None}
        column = self._program.relations[match.relation].columns[at].name
        for row in islice(self._rows[match.relation], MOST_ROWS):
            shown = self._secrets.row(match.relation, row)[at] == row[at]
            value = row[at]
            if shown and isinstance(value, str) and value not in known and fold(value) in folded:
                message = f"{column} is {quoted(value)}, but {join.own} of {relation} is"
                message = f"{message} {quoted(folded[fold(value)])}"
                advice = f"join on lower case of both, `lower({column}, low)`"
                yield _near_miss(message, span, advice)
                break
            if shown and value in names and value not in known:
                message = f"{column} is {quoted(value)}, the {join.other} of a row of {relation}"
                advice = f"join it with {join.other} too: a template may use either"
                yield _near_miss(f"{message}, but the rule asks for the {join.own}", span, advice)
                break

    def _null_joins(
        self, body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral], ids: tuple[int, ...]
    ) -> Iterator[Diagnostic]:
        if ids not in self._joins:
            self._joins[ids] = self._joined_columns(body, around)
        for name, columns in self._joins[ids]:
            several = [literal for literal, at in columns if self._holds_null(literal, at)]
            if len(several) > 1:
                message = f"{name} is null on both sides, but null never joins null"
                yield Diagnostic(
                    "null-join", message, several[1].span, f'give both a default, `{name} ?? "none"`', "warning"
                )

    def _joined_columns(
        self, body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral]
    ) -> list[tuple[str, list[tuple[ir.Match, int]]]]:
        """The names of variables that join columns which may be null, with the columns. They are the same for all
        stacks."""
        nullable: list[tuple[ir.Var, ir.Match, int]] = []
        for literal in body:
            if isinstance(literal, ir.Match) and not is_old(literal.relation):
                columns = self._program.relations[literal.relation].columns
                for at, term in literal.column_terms:
                    if isinstance(term, ir.Var) and columns[at].kinds & _NULL_OR_RESOURCE == Kind.NULL:
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
        """Warn about an aggregate over the resources of the root stack if nested stacks hold more."""
        roots = {
            literal.arguments[0]
            for literal in around
            if isinstance(literal, ir.Match)
            and (literal.relation == "heat:root" or (literal.relation == "heat:stack" and _of_root(literal, around)))
        }
        if not roots:
            return
        for match in fold.body:
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
                where = f"its nested stacks have {rows} of {match.relation}"
                message = f"{fold.function} reads the root stack only, but {where}"
                advice = "remove the stack from it, or join it with `within` as docs/language.md shows"
                yield _near_miss(message, match.span, advice)

    def forms(self) -> Iterator[Diagnostic]:
        """Warn once about each form that stacks use and no rule reads."""
        for form, column, other, kind in FORMS:
            if other in self._read or (kind, other.partition(".")[2]) not in self._used_properties:
                continue
            matches = (match for rule in self._reaching for match in self._matches[id(rule)])
            reading = [match for match in matches if match.relation == form]
            if column:
                at = self._program.relations[form].positions[column] if reading else 0
                reading = [match for match in reading if match.arguments[at] is not None]
            if reading:
                message = f"the rules read {form}, but not {other}, which this stack has too"
                span = min(match.span for match in reading)
                yield Diagnostic("one-form", message, span, f"add a second rule that reads {other}", "warning")

    @cached_property
    def _used_properties(self) -> Set[tuple[str, str]]:
        """The types of the stacks' resources, each with "" and with its properties."""
        used: set[tuple[str, str]] = set()
        for stack in (stack for root in self._stacks for stack in root.walk()):
            resources = stack.apart
            for kind, alike in resources.types.items():
                used |= {(kind, name) for properties in alike.properties.values() for name in ("", *properties)}
            for resource in resources.others.values():
                used |= {(resource.type, name) for name in ("", *resource.properties)}
        return used


_Question = tuple[Sequence[Asked], Sequence[tuple[int, ir.Call | ir.Compare]]]


def _by_relation(program: ir.CheckedProgram) -> dict[RelationRef, list[ir.CheckedRule]]:
    rules: dict[RelationRef, list[ir.CheckedRule]] = {}
    for rule in program.rules:
        rules.setdefault(rule.relation, []).append(rule)
    return rules


def _read_relations(program: ir.CheckedProgram) -> frozenset[RelationRef]:
    return frozenset[RelationRef]().union(*(rule.mentioned for rule in program.rules))


def _matches_of_rules(program: ir.CheckedProgram) -> dict[int, tuple[ir.Match, ...]]:
    """The matches of each rule outside of a `not`, by the rule's id."""
    return {id(rule): tuple(_matches(rule.body)) for rule in program.rules}


def _matches(body: Sequence[ir.CheckedLiteral]) -> Iterator[ir.Match]:
    """The matches of a body and its aggregates."""
    for literal in body:
        if isinstance(literal, ir.Match):
            yield literal
        elif isinstance(literal, ir.Fold):
            yield from _matches(literal.body)


def _of_root(stack: ir.Match, around: Sequence[ir.CheckedLiteral]) -> bool:
    """Whether a match of `heat:stack` is one of roots: of no parent, or of depth 0."""
    _, _, parent, depth = stack.arguments[:4]
    return any(
        constant.value == value
        for term, value in ((parent, None), (depth, 0))
        for constant, _ in constants(term, stack.span, around)
    )


def _near_miss(message: str, span: Span, suggestion: str) -> Diagnostic:
    return Diagnostic("near-miss", message, span, suggestion, "warning")
