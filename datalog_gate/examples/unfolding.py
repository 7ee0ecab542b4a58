"""Unfolds a rule backwards to rows and conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from datalog_gate.analysis.constants import takes_given
from datalog_gate.analysis.program import (
    NULL,
    Call,
    CheckedLiteral,
    CheckedProgram,
    CheckedRule,
    Compare,
    Const,
    Fold,
    FoldFunction,
    Match,
    Operand,
    Pattern,
    Var,
    Without,
    group_rules,
    renamed,
    variables,
)
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Value
from datalog_gate.examples.conditions import Bindings, Condition, propagate, resolve, unify
from datalog_gate.examples.effort import Effort
from datalog_gate.schema.declaration import Column, RelationRef, RelationVersion, relation_name

MAX_DEPTH = 12
"""The maximum number of rules between the policy and a row."""
MOST_COUNTED = 3
"""The maximum number that a count of what several rules derive has."""
EMPTY: Mapping[FoldFunction, Value] = {"count": 0, "sum": 0, "list": ""}
"""What aggregates over nothing give; the others have no value."""


class InputRow(NamedTuple):
    """A row that the stack, or another input, must have."""

    relation: RelationRef
    terms: tuple[Operand, ...]


class Repeat(NamedTuple):
    """An aggregate over the rows from `first` to `last`, which may be repeated."""

    function: FoldFunction
    target: Var
    terms: tuple[Operand, ...]
    first: int
    last: int
    groups: frozenset[Pattern]
    """The variables that other literals have too."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """What an unfolding asks for."""

    rows: tuple[InputRow, ...] = ()
    bindings: Bindings = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    negated: tuple[Without, ...] = ()
    """The negations, which are left to the judge."""
    met: int = 0
    """The number of literals that were unfolded."""
    rules: frozenset[int] = frozenset()
    """The rules that were unfolded, by their number in the program."""


class Goal(NamedTuple):
    """A literal to be met, with the ids of the rules around it. With `first`, it is an aggregate whose rows, from that
    one, are there; other literals have its `groups` too."""

    literal: CheckedLiteral
    rules: tuple[int, ...]
    first: int | None = None
    groups: frozenset[Pattern] = frozenset()


Step = tuple[tuple[Goal, ...], Sketch]


class Unfolder:
    """Unfolds the rules of a program, depth first, in a limited number of steps.

    With another `seed` it prefers other alternatives: values in place of nulls, rows that are there in place of new
    ones. The `fixed` relations have no other rows than those of their rules.
    """

    def __init__(self, program: CheckedProgram, effort: Effort, fixed: Collection[RelationRef] = ()) -> None:
        self.program = program
        self.effort = effort
        self.rules = list(program.rules)
        self.ids = {id(rule): at for at, rule in enumerate(self.rules)}
        self.groups = group_rules(rule for rule in self.rules if not (takes_given(rule) and rule.relation in fixed))
        self.uses = dict.fromkeys(range(len(self.rules)), 0)
        self.furthest: tuple[int, CheckedLiteral | None] = (0, None)
        self._fresh = 0
        self._seed = 0
        self._goals: Mapping[int, CheckedRule] = {}
        self._instead: Mapping[int, CheckedRule] = {}
        self._preferred: frozenset[int] = frozenset()
        self._leading: frozenset[RelationRef] = frozenset()
        self._reached: dict[RelationRef, frozenset[int]] = {}

    def columns(self, relation: RelationRef) -> tuple[Column, ...]:
        return self.program.relations[relation].columns

    def keys(self, relation: RelationRef) -> list[int]:
        """The positions of the key columns, or of all columns if there is no key."""
        key, columns = self.program.relations[relation].key, self.columns(relation)
        return [at for at, column in enumerate(columns) if column.name in key] or list(range(len(columns)))

    def unfold(
        self,
        top: int,
        seed: int,
        goals: Mapping[int, CheckedRule],
        preferred: frozenset[int] = frozenset(),
        through: Mapping[int, CheckedRule] = MappingProxyType({}),
    ) -> Iterator[Sketch]:
        """The sketches of a rule in which one of the `goals` stands for the rule of that number, until it takes too
        many steps. Where there is a choice, the `preferred` rules come first. Rules that a goal is reached `through`
        may stand for others too."""
        self._seed, self._goals, self._preferred = seed, goals, preferred
        self._instead = {**through, **goals}
        self._leading = frozenset(
            relation for relation in self.groups if not self._instead.keys().isdisjoint(self.reach(relation))
        )
        rule = self._instead.get(top, self.rules[top])
        body, _ = self._renamed(rule)
        start = tuple(Goal(literal, (top,)) for literal in body), Sketch(rules=frozenset({top}))
        stack: list[Iterator[Step]] = [iter([start])]
        while stack and self.effort.spend():
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
                continue
            left, sketch = step
            if self._goals.keys().isdisjoint(sketch.rules) and not any(self._leads(goal.literal) for goal in left):
                continue
            if not left:
                yield sketch
            else:
                stack.append(self._advance(left, sketch))

    def reach(self, relation: RelationRef) -> frozenset[int]:
        """The rules that may add rows to a relation, by number, but for those through negations."""
        if relation not in self._reached:
            found: dict[RelationRef, None] = {relation: None}
            waiting = [relation]
            while waiting:
                for rule in self.groups.get(waiting.pop(), ()):
                    for literal in list_matches(rule.body):
                        if literal.relation not in found:
                            found[literal.relation] = None
                            waiting.append(literal.relation)
            self._reached[relation] = frozenset(
                self.ids[id(rule)] for name in found for rule in self.groups.get(name, ())
            )
        return self._reached[relation]

    def reach_of(self, body: Iterable[CheckedLiteral]) -> set[int]:
        """The rules that may add rows to the relations of a body."""
        return {number for match in list_matches(body) for number in self.reach(match.relation)}

    def leading_to(self, number: int) -> frozenset[int]:
        """A rule, and those that read what it derives."""
        return frozenset(at for at, rule in enumerate(self.rules) if number in self.reach_of(rule.body)) | {number}

    def _leads(self, literal: CheckedLiteral) -> bool:
        return any(match.relation in self._leading for match in list_matches((literal,)))

    def _advance(self, goals: Sequence[Goal], sketch: Sketch) -> Iterator[Step]:
        goal, *rest = goals
        if sketch.met >= self.furthest[0] and isinstance(goal.literal, Match | Compare | Call):
            self.furthest = sketch.met, goal.literal
        sketch = replace(sketch, met=sketch.met + 1)
        for more, after in self._alternatives(goal, rest, sketch):
            settled = _settle(after)
            if settled is not None:
                yield (*more, *rest), settled

    def _alternatives(self, goal: Goal, rest: Sequence[Goal], sketch: Sketch) -> Iterator[Step]:
        literal = goal.literal
        match literal:
            case Match() if literal.relation in self.groups:
                yield from self._by_rules(goal, literal, sketch)
            case Match():
                yield from self._by_rows(literal, sketch)
            case Compare("=", left, right) if literal.null_test or Condition(literal).decide(sketch.bindings) is None:
                yield from _bound(sketch, unify(left, right, sketch.bindings))
            case Call("??", (value, default), (output,)) if output is not None:
                yield from self._by_default(literal, (value, default, output), sketch)
            case Compare() | Call():
                yield (), replace(sketch, conditions=(*sketch.conditions, Condition(literal)))
            case Without((Compare() | Call() as test,)) if not getattr(test, "outputs", ()):
                yield (), replace(sketch, conditions=(*sketch.conditions, Condition(test, False)))
            case Without():
                calls, tests = _split_tests(literal.body, _list_outer(rest, sketch))
                if tests:
                    yield from self._by_tests(goal, calls, tests, sketch)
                else:
                    yield from self._by_negation(goal, literal, sketch)
            case Fold():
                yield from self._by_aggregate(goal, literal, rest, sketch)
                if literal.function == "count" and goal.first is None:
                    yield from self._by_several(goal, literal, rest, sketch)

    def _by_tests(
        self, goal: Goal, calls: Sequence[CheckedLiteral], tests: Sequence[CheckedLiteral], sketch: Sketch
    ) -> Iterator[Step]:
        """Of the tests of a negation one is false, and those before it are true."""
        for at, test in enumerate(tests):
            parts = (*calls, *tests[:at], Without((test,), test.span))
            yield tuple(Goal(part, goal.rules) for part in parts), sketch

    def _by_negation(self, goal: Goal, literal: Without, sketch: Sketch) -> Iterator[Step]:
        """Nothing that the negation asks for; or, if it is that nothing is without something, one that has it."""
        conditions = (*sketch.conditions, *self._differences(literal))
        after = replace(sketch, conditions=conditions, negated=(*sketch.negated, literal))
        parts = [part.body if isinstance(part, Without) else (part,) for part in literal.body]
        has_all = len(literal.body) > 1 and any(isinstance(part, Without) for part in literal.body)
        goals = tuple(Goal(part, goal.rules) for body in parts for part in body)
        steps: list[Step] = [((), after), *([(goals, after)] if has_all else [])]
        yield from reversed(steps) if self._seed & 1 else steps

    def _differences(self, literal: Without) -> Iterator[Condition]:
        """If the negation is of one variable in a relation with facts: that the variable is in none of them."""
        for match in literal.body if len(literal.body) == 1 else ():
            if not isinstance(match, Match) or len(match.column_terms) != 1:
                continue
            ((at, term),) = match.column_terms
            facts = (rule.arguments[at] for rule in self.groups.get(match.relation, ()) if not rule.body)
            yield from (Condition(Compare("!=", term, value, match.span)) for value in facts)

    def _by_rules(self, goal: Goal, literal: Match, sketch: Sketch) -> Iterator[Step]:
        if len(goal.rules) > MAX_DEPTH:
            return
        own = sorted((self.ids[id(rule)] for rule in self.groups[literal.relation]), key=self._rank)
        for at in own:
            if goal.rules.count(at) > 1:
                continue
            body, head = self._renamed(self._instead.get(at, self.rules[at]))
            bindings: Bindings | None = sketch.bindings
            for column, term in literal.column_terms:
                bindings = bindings if bindings is None else unify(term, head[column], bindings)
            if bindings is not None:
                self.uses[at] += 1
                goals = tuple(Goal(inner, (*goal.rules, at)) for inner in body)
                yield goals, replace(sketch, bindings=bindings, rules=sketch.rules | {at})

    def _rank(self, at: int) -> tuple[bool, bool, tuple[int, bool, bool, int, int]]:
        leads = at in self._instead or any(map(self._leads, self.rules[at].body))
        return at not in self._preferred, not leads, self._cost(at)

    def _cost(self, at: int) -> tuple[int, bool, bool, int, int]:
        """Rules that were used little come first; of these those of relations that are not given as facts, and not
        those for CloudFormation."""
        rule = self.rules[at]
        old_form = any(str(relation).startswith("aws:") for relation in rule.mentioned)
        given = any(isinstance(relation, RelationVersion) and relation.given for relation in rule.mentioned)
        return self.uses[at] // 8, given, old_form, len(rule.body), at

    def _by_rows(self, literal: Match, sketch: Sketch) -> Iterator[Step]:
        columns = self.columns(literal.relation)
        terms = tuple(
            self._variable(columns[at].name) if term is None else term for at, term in enumerate(literal.arguments)
        )
        if relation_name(literal.relation) == "heat:stack":
            names = {column.name: at for at, column in enumerate(columns)}
            bindings = unify(terms[names["id"]], terms[names["name"]], sketch.bindings)
            if bindings is None:
                return
            sketch = replace(sketch, bindings=bindings)
        keys = self.keys(literal.relation)
        joined: list[Step] = []
        for row in sketch.rows:
            if row.relation != literal.relation:
                continue
            bindings = _unify_all(row.terms, terms, sketch.bindings)
            same = all(resolve(row.terms[at], sketch.bindings) == resolve(terms[at], sketch.bindings) for at in keys)
            steps = list(_bound(sketch, bindings))
            if same:
                yield from steps
                return
            joined += steps
        new: Step = (), replace(sketch, rows=(*sketch.rows, InputRow(literal.relation, terms)))
        yield from [new, *joined] if self._seed & 2 else [*joined, new]

    def _by_default(self, literal: Call, terms: tuple[Operand, Operand, Operand], sketch: Sketch) -> Iterator[Step]:
        value, default, output = terms
        by_null = unify(value, NULL, sketch.bindings)
        by_null = None if by_null is None else unify(output, default, by_null)
        not_null = Condition(Compare("!=", value, NULL, literal.span))
        by_value = _bound(
            replace(sketch, conditions=(*sketch.conditions, not_null)), unify(output, value, sketch.bindings)
        )
        steps = [*_bound(sketch, by_null), *by_value]
        yield from reversed(steps) if self._seed & 1 else steps

    def _by_aggregate(self, goal: Goal, literal: Fold, rest: Sequence[Goal], sketch: Sketch) -> Iterator[Step]:
        if goal.first is None:
            inner = tuple(Goal(part, goal.rules) for part in literal.body)
            groups = frozenset(variables(literal)) & _list_outer(rest, sketch)
            yield (*inner, goal._replace(first=len(sketch.rows), groups=groups)), sketch
            if literal.function in EMPTY:
                yield from _bound(sketch, unify(literal.target, Const(EMPTY[literal.function]), sketch.bindings))
            return
        repeat = Repeat(literal.function, literal.target, literal.terms, goal.first, len(sketch.rows), goal.groups)
        sketch = replace(sketch, repeats=(*sketch.repeats, repeat))
        if literal.function != "count":
            yield from _bound(sketch, unify(literal.target, literal.terms[0], sketch.bindings))
        else:
            yield (), sketch

    def _by_several(self, goal: Goal, literal: Fold, rest: Sequence[Goal], sketch: Sketch) -> Iterator[Step]:
        """A count of what several rules derive, which may differ in constants."""
        if all(len(self.groups.get(match.relation, ())) < 2 for match in list_matches(literal.body)):
            return
        outer = _list_outer(rest, sketch)
        parts: list[Fold] = []
        goals: list[CheckedLiteral] = []
        for times in range(1, MOST_COUNTED + 1):
            self._fresh += 1
            local = set(variables(literal)) - outer
            names = {variable: Var(variable.name, f"{variable.generated}@{self._fresh}") for variable in local}
            part: Fold = renamed(literal, names)
            goals += (*part.body, *(Compare("!=", other.terms[0], part.terms[0], literal.span) for other in parts))
            parts.append(part)
            if times > 1:
                steps = _bound(sketch, unify(literal.target, Const(times), sketch.bindings))
                yield from ((tuple(Goal(inner, goal.rules) for inner in goals), after) for _, after in steps)

    def _renamed(self, rule: CheckedRule) -> tuple[tuple[CheckedLiteral, ...], tuple[Operand, ...]]:
        """The body and the head of a rule, with new variables."""
        self._fresh += 1
        names: dict[Var, Operand] = {
            variable: Var(variable.name, f"{variable.generated}@{self._fresh}")
            for variable in (
                *(variable for literal in rule.body for variable in variables(literal)),
                *(term for term in rule.arguments if isinstance(term, Var)),
            )
        }
        return renamed(rule.body, names), renamed(rule.arguments, names)

    def _variable(self, name: str) -> Var:
        self._fresh += 1
        return Var(name, f"@{self._fresh}")


def _list_outer(rest: Sequence[Goal], sketch: Sketch) -> set[Pattern]:
    """The variables of other literals than one: of the `rest`, and of those that were unfolded."""
    tests = (condition.literal for condition in sketch.conditions)
    outer: set[Pattern] = {
        variable for literal in (*(goal.literal for goal in rest), *tests) for variable in variables(literal)
    }
    return outer.union(*(row.terms for row in sketch.rows), sketch.bindings, sketch.bindings.values())


def _split_tests(
    body: Sequence[CheckedLiteral], outer: Collection[Pattern]
) -> tuple[list[CheckedLiteral], list[CheckedLiteral]]:
    """The calls of a body that always give a result, and its tests; nothing if it has other literals."""
    calls: list[CheckedLiteral] = []
    tests: list[CheckedLiteral] = []
    for literal in body:
        if isinstance(literal, Call) and literal.outputs and literal.outputs[0] not in outer:
            calls.append(literal)
        elif isinstance(literal, Compare) or (isinstance(literal, Call) and not literal.outputs):
            tests.append(literal)
        else:
            return [], []
    return calls, tests


def list_matches(body: Iterable[CheckedLiteral]) -> Iterator[Match]:
    """The matches of a body, also inside of aggregates, but for those in negations."""
    for literal in body:
        if isinstance(literal, Match):
            yield literal
        elif isinstance(literal, Fold):
            yield from list_matches(literal.body)


def _bound(sketch: Sketch, bindings: Bindings | None) -> Iterator[Step]:
    if bindings is not None:
        yield (), replace(sketch, bindings=bindings)


def _unify_all(left: Sequence[Operand], right: Sequence[Operand], bindings: Bindings) -> Bindings | None:
    for side, other in zip(left, right, strict=True):
        unified = unify(side, other, bindings)
        if unified is None:
            return None
        bindings = unified
    return bindings


def _settle(sketch: Sketch) -> Sketch | None:
    """The sketch without conditions that are met; None if one can't be."""
    settled = propagate(sketch.conditions, sketch.bindings)
    return replace(sketch, bindings=settled[0], conditions=settled[1]) if settled else None
