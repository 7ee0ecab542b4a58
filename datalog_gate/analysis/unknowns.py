"""Certain and possible versions of relations, for facts with unknowns.

The certain version `p` holds the rows that are there whatever the unknowns turn out to be. The possible version `p?`
holds every row that is there for some outcome, with an unknown where a value depends on it::

    p(x) :- q(x, 1).                       =>    p(x) :- q(x, 1).
    (q holds an unknown in column 2)             p?(x) :- q(x, y), y = 1 or may be 1.

- In a certain version an unknown equals only itself, the same expression; in a possible one any value it can have.
- Under ``not`` each version reads the other one.
- An aggregate becomes a call that computes its value or bounds from the certain and the possible tuples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import renamed, variables
from datalog_gate.analysis.strata import reads
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.expression import phrase
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Unknown
from datalog_gate.schema.declaration import RelationRef, certain_version, possible_version

MAY_FAIL = ("min", "max", "avg")
"""Aggregates that have no value for an empty set."""


def split(
    program: ir.CheckedProgram,
    unknown_columns: Mapping[RelationRef, frozenset[int]],
    maybe: Collection[RelationRef],
    certain_only: Collection[RelationRef] = (),
) -> ir.CheckedProgram:
    """Rewrite the program to certain and possible versions; return the program itself if no rule reads an unknown.

    `unknown_columns` are the columns that hold an unknown in some row, by input; `maybe` are the inputs with uncertain
    rows. The result has the inputs `p`, with the certain rows, and `p?`, with all rows. Of `certain_only` relations,
    possible versions read only the certain rows too.
    """
    reach = _Reach(
        {name: set(columns) for name, columns in unknown_columns.items() if name in program.inputs},
        {name for name in maybe if name in program.inputs} - set(certain_only),
        frozenset(certain_only),
    )
    if not reach.size():
        return program
    strata = tuple(version for stratum in program.strata for version in _versions(stratum, reach))
    if strata == program.strata:
        return program
    used = set[RelationRef]().union(*(rule.mentioned for stratum in strata for rule in stratum.rules))
    possible_inputs = {possible_version(name) for name in program.inputs} & used
    derived = {name for stratum in strata for name in stratum.relations}
    described = {
        name: program.relations[certain_version(name)]
        for name in sorted((possible_inputs | derived) - program.relations.keys(), key=str)
    }
    return ir.CheckedProgram({**program.relations, **described}, program.inputs | possible_inputs, strata)


def possible(relation: RelationRef, program: ir.CheckedProgram) -> RelationRef:
    """The possible version of a relation in a split program: the relation itself if it has only one version."""
    version = possible_version(relation)
    return version if version in program.relations else relation


@dataclass(frozen=True, slots=True)
class _Reach:
    """The columns that may hold an unknown, by relation, and the relations with two versions."""

    columns: dict[RelationRef, set[int]]
    versions: set[RelationRef]
    certain_only: frozenset[RelationRef]

    def touches(self, rule: ir.CheckedRule) -> bool:
        return any(
            match.relation in self.versions
            or any(match.arguments[at] is not None for at in self.columns.get(match.relation, ()))
            for _, match in reads(rule.body)
        )

    def size(self) -> int:
        return len(self.versions) + sum(map(len, self.columns.values()))


def _versions(stratum: ir.Stratum, reach: _Reach) -> Iterator[ir.Stratum]:
    """Yield the stratum of the certain versions, and that of the possible ones if there are any; extend `reach`."""
    size = -1
    pairs: list[tuple[ir.CheckedRule, ir.CheckedRule]] = []
    while size < reach.size():
        size = reach.size()
        pairs = [_pair(rule, reach) for rule in stratum.rules]
        if not stratum.recursive:
            break
    yield replace(stratum, rules=tuple(certain for certain, _ in pairs))
    if two := tuple(possible_version(name) for name in stratum.relations if name in reach.versions):
        rules = (replace(checked_rule, relation=possible_version(checked_rule.relation)) for _, checked_rule in pairs)
        yield ir.Stratum(two, tuple(rule for rule in rules if rule.relation in two), stratum.recursive)


def _pair(rule: ir.CheckedRule, reach: _Reach) -> tuple[ir.CheckedRule, ir.CheckedRule]:
    if not reach.touches(rule):
        return rule, rule
    certain, possible = _rewritten(rule, reach, False), _rewritten(rule, reach, True)
    if certain != possible and rule.relation not in reach.certain_only:
        reach.versions.add(rule.relation)
    return certain, possible


def _rewritten(rule: ir.CheckedRule, reach: _Reach, possible: bool) -> ir.CheckedRule:
    body = _Body(reach, possible, False, count(), {}, {})
    body.take(rule.body)
    arguments = tuple(body.value(argument) for argument in rule.arguments)
    unsure = {at for at, term in enumerate(arguments) if body.unsure(term)}
    if unsure:
        reach.columns.setdefault(rule.relation, set()).update(unsure)
    rewritten = replace(rule, arguments=arguments, body=tuple(body.literals))
    return rule if rewritten == rule else rewritten


@dataclass(slots=True)
class _Body:
    """The rewriting of one conjunction.

    If unknowns make no difference, both versions get the same literals. A variable that gets its value from an equation
    alone is replaced by that value (`equal`): an equation that holds of an unknown must not choose a binding.
    """

    reach: _Reach
    possible: bool
    """Whether this is a possible version."""
    loose: bool
    """Whether an unknown may stand for several values and differ from itself, as in a possible version."""
    numbers: Iterator[int]
    """The numbers of generated variables."""
    bound: dict[ir.Var, bool]
    """The variables that have a value, each with whether it may be an unknown."""
    equal: dict[ir.Var, ir.Operand]
    literals: list[ir.CheckedLiteral] = field(default_factory=list)

    def take(self, body: Sequence[ir.CheckedLiteral]) -> None:
        """Rewrite a body, matches first, so that variables get their values from columns without unknowns if
        possible."""
        self._matches([literal for literal in body if isinstance(literal, ir.Match)])
        for literal in body:
            match literal:
                case ir.Compare():
                    self._compare(literal)
                case ir.Call():
                    self._call(literal)
                case ir.Without():
                    inner = self._inner(literal.body, not self.possible)
                    self.literals.append(replace(literal, body=tuple(inner.literals)))
                case ir.Fold():
                    self._fold(literal)

    def value(self, operand: ir.Operand) -> ir.Operand:
        return self.equal.get(operand, operand) if isinstance(operand, ir.Var) else operand

    def unsure(self, operand: ir.Operand) -> bool:
        return isinstance(operand, ir.Var) and self.bound[operand]

    def _matches(self, matches: Sequence[ir.Match]) -> None:
        bound_before = set(self.bound)
        for match in matches:
            columns = self.reach.columns.get(match.relation, ())
            for at, argument in enumerate(match.arguments):
                if isinstance(argument, ir.Var) and argument not in bound_before and argument not in self.equal:
                    self.bound[argument] = at in columns and self.bound.get(argument, True)
        tests: list[ir.CheckedLiteral] = []
        for match in matches:
            soft = () if match.relation in self.reach.certain_only else self.reach.columns.get(match.relation, ())
            patterns: list[ir.Pattern] = []
            for at, argument in enumerate(match.arguments):
                pattern = argument and self.value(argument)
                first = isinstance(pattern, ir.Var) and self.bound[pattern] and pattern not in bound_before
                if self.possible and pattern and not first and (at in soft or self.unsure(pattern)):
                    pattern = self._same(pattern, match.span, tests)
                elif isinstance(pattern, ir.Var):
                    bound_before.add(pattern)
                patterns.append(pattern)
            two = self.possible and match.relation in self.reach.versions
            name = possible_version(match.relation) if two else match.relation
            self.literals.append(replace(match, relation=name, arguments=tuple(patterns)))
        self.literals += tests

    def _compare(self, literal: ir.Compare) -> None:
        left, right = self.value(literal.left), self.value(literal.right)
        for term, other in ((left, right), (right, left)):
            if isinstance(term, ir.Var) and term not in self.bound:
                if other == ir.Const(None):  # a constant null equals null: it can't replace a variable elsewhere
                    self.bound[term] = False
                    break
                self.equal[term] = other
                return
        answer = literal.when_unknown
        if self.unsure(left) or self.unsure(right):
            answer = self.possible
            if left == right:  # one value, even of an unknown that stands for several
                answer = literal.comparator in ("=", "<=", ">=")
            elif literal.comparator == "=" and self.loose and self.unsure(left) and self.unsure(right):
                self.literals.append(self._equal(left, right, literal.span))
                return
        self.literals.append(replace(literal, left=left, right=right, when_unknown=answer))

    def _call(self, literal: ir.Call) -> None:
        inputs = tuple(map(self.value, literal.inputs))
        unsure = any(map(self.unsure, inputs))
        tests: list[ir.CheckedLiteral] = []
        outputs = tuple(self._output(output, unsure, literal.span, tests) for output in literal.outputs)
        answer = self.possible if unsure and not outputs else literal.when_unknown
        self.literals += [replace(literal, inputs=inputs, outputs=outputs, when_unknown=answer), *tests]

    def _fold(self, literal: ir.Fold) -> None:
        """Rewrite an aggregate to a call over certain and possible tuples, named by its place and its groups."""
        possible, certain = self._inner(literal.body, True), self._inner(literal.body, False)
        terms = tuple(map(possible.value, literal.terms))
        alike = certain.literals == possible.literals
        unsure = not alike or any(map(possible.unsure, terms))
        tests: list[ir.CheckedLiteral] = []
        target = self._output(literal.target, unsure, literal.span, tests)
        inside = {variable: self.value(variable) for variable in variables(literal) if variable != literal.target}
        assert target
        if isinstance(target, ir.Const) or target in inside.values():  # it can't also be a group of the aggregate
            target = self._same(target, literal.span, tests)
        if unsure:
            group = {var: by for var, by in inside.items() if isinstance(by, ir.Const) or by in self.bound}
            known_by = f"the set at {literal.span}"
            if group:
                known_by += f" by {', '.join(var.name for var in group)}"
            some = self._tuples(terms, possible.literals, literal.span)
            sure = some
            if not alike:
                own = {var: self._new(var.name) for literal in certain.literals for var in variables(literal)}
                names = {var: new for var, new in own.items() if var not in self.bound}
                sure = self._tuples(renamed(terms, names), renamed(tuple(certain.literals), names), literal.span)
            inputs = (ir.Const(Unknown(phrase(known_by))), *group.values(), sure, some)
            self.literals.append(ir.Call(literal.function, inputs, (target,), literal.span))
            if literal.function in MAY_FAIL:
                size = self._new()
                self.literals.append(ir.Call("count", inputs, (size,), literal.span))
                self.literals.append(ir.Compare(">", size, ir.Const(0), literal.span, self.possible))
        else:
            self.literals.append(replace(literal, terms=terms, body=tuple(possible.literals), target=target))
        self.literals += tests

    def _tuples(self, terms: tuple[ir.Operand, ...], body: Sequence[ir.CheckedLiteral], span: Span) -> ir.Var:
        new = self._new()
        self.literals.append(ir.Fold("tuples", terms, tuple(body), new, span))
        return new

    def _inner(self, body: Sequence[ir.CheckedLiteral], possible: bool) -> _Body:
        loose = self.possible or self.loose
        inner = _Body(self.reach, possible, loose, self.numbers, dict(self.bound), dict(self.equal))
        inner.take(body)
        return inner

    def _output(self, pattern: ir.Pattern, unsure: bool, span: Span, tests: list[ir.CheckedLiteral]) -> ir.Pattern:
        """The pattern for an output: itself if it gets its value here, or if neither it nor the result is an
        unknown."""
        pattern = pattern and self.value(pattern)
        if isinstance(pattern, ir.Var) and pattern not in self.bound:
            self.bound[pattern] = unsure
            return pattern
        if pattern and (unsure or self.unsure(pattern)):
            return self._same(pattern, span, tests)
        return pattern

    def _same(self, operand: ir.Operand, span: Span, tests: list[ir.CheckedLiteral]) -> ir.Var:
        """Return a new variable; a test that it equals the operand, or may, is added to the tests."""
        new = self._new()
        tests.append(self._equal(new, operand, span))
        return new

    def _equal(self, left: ir.Operand, right: ir.Operand, span: Span) -> ir.CheckedLiteral:
        """The test that both are equal, or in a possible version may be."""
        if self.loose and not self.possible:
            return ir.Without((ir.Compare("!=", left, right, span, True),), span)
        return ir.Compare("=", left, right, span, self.possible)

    def _new(self, name: str = "?") -> ir.Var:
        return ir.Var(name, f"?{next(self.numbers)}")
