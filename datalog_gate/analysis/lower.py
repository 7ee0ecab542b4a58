"""Lowering: from the syntax tree to rules of simple literals.

``p(x + 1) :- q(x), (r(x) or s(x))`` => ``p(y) :- q(x), r(x), y = x + 1`` and ``p(y) :- q(x), s(x), y = x + 1``
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import renamed, variables
from datalog_gate.analysis.resolve import Names
from datalog_gate.analysis.single_variables import find_single_uses
from datalog_gate.base.diagnostics import Advice, Code, Diagnostic, Span, closest, format_count, suggest_name
from datalog_gate.base.patterns import find_problem
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import NO_KIND
from datalog_gate.language import ast
from datalog_gate.language.walk import shared
from datalog_gate.schema.declaration import Column, Relation, RelationRef
from datalog_gate.schema.relations import FIXED
from datalog_gate.schema.signatures import INTERPOLATE, PATTERN, Builtin

MOST_ALTERNATIVES = 1000
MOST_CONDITIONS = 1000  # of one conjunction, since ordering them takes quadratic time
MOST_LITERALS = 20_000  # of a rule with alternatives multiplied out, including inner bodies
LARGE, MOST_IN_ALL = 100, 100_000  # literals of a large rule, and of all such together
NOW = "gate:now"
Conjunction = tuple[ir.CheckedLiteral, ...]
Scope = Mapping[str, ir.Var]
Spans = Mapping[ir.Var, Span]
"""The first place of each variable of a rule."""


@dataclass(frozen=True, slots=True)
class WrittenSet:
    """An aggregate as it is written, with its terms and the alternatives of its body."""

    term: ast.Aggregate
    terms: tuple[ir.Operand, ...]
    bodies: tuple[Conjunction, ...]
    outside: frozenset[ir.Var]
    """The variables that occur around it."""


@dataclass(slots=True)
class Lowering:
    """The lowering of the rules of one program, whose bodies are then to be ordered. `relations` holds every relation
    that occurs."""

    names: Names
    rules: list[tuple[ir.CheckedRule, Spans]] = field(default_factory=list)
    relations: dict[RelationRef, Relation] = field(default_factory=dict)
    sets: list[WrittenSet] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _module: str = ""
    _spans: dict[ir.Var, Span] = field(default_factory=dict)
    _fresh: int = 0
    _literals: int = 0

    def lower(self, rule: ast.Rule, module: str) -> None:
        if self._literals > MOST_IN_ALL:
            return
        count, named, sets = len(self.diagnostics), len(self.names.diagnostics), len(self.sets)
        relation = self.names.head(rule.head, module)
        if len(relation.columns) != len(rule.head.arguments):
            return  # the names say so
        self.relations.setdefault(relation.name, relation)
        self._module, self._spans, self._fresh = module, {}, 0
        slips = find_single_uses(rule, partial(self.names.relation, module=module))
        in_congress = module in self.names.congress  # there a variable that occurs once is how to say "any"
        errors = [slip for slip in slips if slip.severity == "error"]
        self.diagnostics += [slip for slip in errors if slip.code == "negated-once" or not in_congress]
        scope = {name: ir.Var(name) for name in shared((rule.head, *rule.body))}
        arguments, extra = self._terms(rule.head.arguments, scope)
        if any(argument is None for argument in arguments):
            self._report("unsafe-variable", "`_` has no value in a head", rule.head.span, "name a bound variable")
        bodies = self._body(rule.body, scope, rule.span)
        diagnostics = (*self.diagnostics[count:], *self.names.diagnostics[named:])
        if any(diagnostic.severity == "error" for diagnostic in diagnostics):
            del self.sets[sets:]
            return
        size = sum(map(_size, bodies))
        self._literals += size if size > LARGE else 0
        if self._literals > MOST_IN_ALL:
            message = f"the large rules have more than {MOST_IN_ALL} conditions when their alternatives are multiplied"
            advice = "move alternatives into a separate relation with a rule for each"
            self._report("too-complex", f"{message} out", rule.span, advice)
            return
        head = tuple(argument for argument in arguments if argument is not None)
        spans = dict(self._spans)
        self.rules += [(ir.CheckedRule(relation.name, head, body + extra, rule.span), spans) for body in bodies]

    def _body(self, body: ast.Body, scope: Scope, span: Span) -> list[Conjunction]:
        alternatives: list[Conjunction] = [()]
        size = longest = 0
        for literal in body:
            choices = self._literal(literal, scope)
            longest += max(map(len, choices), default=0)
            size = size * len(choices) + len(alternatives) * sum(map(_size, choices))
            message = ""
            if longest > MOST_CONDITIONS:
                message = f"this rule has an alternative with more than {MOST_CONDITIONS} conditions"
            elif len(alternatives) * len(choices) > MOST_ALTERNATIVES:
                message = f"the alternatives of this rule multiply to more than {MOST_ALTERNATIVES}"
            elif size > MOST_LITERALS:
                message = f"the alternatives of this rule multiply to more than {MOST_LITERALS} conditions"
            if message:
                self._report("too-complex", message, span, "move some of them into a separate relation")
                return [()]
            alternatives = [alternative + choice for alternative in alternatives for choice in choices]
        return alternatives

    def _literal(self, literal: ast.Literal, scope: Scope) -> list[Conjunction]:
        match literal:
            case ast.Atom():
                return [self._atom(literal, scope)]
            case ast.Truth():
                return [()] if literal.truth else []
            case ast.Comparison():
                (left, right), extra = self._operands((literal.left, literal.right), scope)
                return [(*extra, ir.Compare(literal.comparator, left, right, literal.span))]
            case ast.Membership():
                return self._membership(literal, scope)
            case ast.Disjunction():
                bodies = (self._body(branch, scope, literal.span) for branch in literal.branches)
                return list(chain.from_iterable(bodies))
            case ast.Negation():
                inner = self._with_locals(literal.body, (), scope)
                negated = enumerate(self._body(literal.body, inner, literal.span))
                return [tuple(ir.Without(self._own_locals(body, scope, at), literal.span) for at, body in negated)]

    def _atom(self, atom: ast.Atom, scope: Scope) -> Conjunction:
        meaning = self.names.relation(atom, self._module)
        if meaning is None:
            return ()
        if isinstance(meaning, Builtin):
            return self._call(atom, meaning, scope)
        self.relations.setdefault(meaning.ref, meaning)
        written = self._columns(atom, meaning)
        patterns, extra = self._terms(tuple(term for _, term in written), scope)
        row: list[ir.Pattern] = [None] * len(meaning.columns)
        for (at, _), pattern in zip(written, patterns, strict=True):
            row[at] = pattern
        return (*extra, ir.Match(meaning.ref, tuple(row), atom.span))

    def _columns(self, atom: ast.Atom, relation: Relation) -> list[tuple[int, ast.Term]]:
        positional, wide = len(atom.arguments), len(relation.columns) - relation.all
        loose = relation.name in self.names.undeclared
        if relation.named_only and positional:
            first = relation.columns[0].name
            suggestion = Advice(f"write {relation.ref}({first}=...)", Code(f"{first}=", "column"))
            self._report("arity", f"{relation.ref} takes named columns only", atom.span, suggestion)
            return []
        if positional > wide or (loose and positional != wide and not atom.named):
            columns = ", ".join(column.name for column in relation.columns[:wide])
            message = f"{relation.ref} has {format_count(wide, 'column')}, found {positional}"
            self._report("arity", message, atom.span, f"write {atom.name}({columns}), with `_` for any value")
            return []
        written = dict(enumerate(atom.arguments))
        for named in atom.named:
            at = None if loose else relation.positions.get(named.column)
            if at is None:
                self._unknown_column(named, relation, loose)
            elif at in written:
                message = f"the column {named.column} is given twice"
                self._report("duplicate-column", message, named.span, "keep one of the two")
            else:
                written[at] = named.term
        return list(written.items())

    def _unknown_column(self, named: ast.NamedArgument, relation: Relation, loose: bool) -> None:
        suggestion: str | None
        if loose:
            suggestion = f"declare it: `relation {relation.name.rpartition(':')[2]}(...).`"
        elif self.names.catalogue.relation(inner := f"{relation.ref}.{named.column}"):
            suggestion = f"it is a list or a map: read {inner}(_id=...)"
        else:
            columns = "the columns are " + ", ".join(relation.positions)
            suggestion = suggest_name(closest(named.column, relation.positions), columns)
        message = f"{relation.ref} has no column {named.column}"
        self._report("unknown-column", message, named.span, suggestion)

    def _call(self, atom: ast.Atom, builtin: Builtin, scope: Scope) -> Conjunction:
        takes = len(atom.arguments) - len(builtin.outputs)
        if not builtin.accepts(takes) or atom.named:
            return self._refuse_arguments(builtin, atom, (*builtin.inputs, *builtin.outputs))
        outputs, extra = self._terms(atom.arguments[takes:], scope)
        return (*self._calls(atom, builtin, atom.arguments[:takes], outputs, scope), *extra)

    def _function(self, term: ast.Function, target: ir.Var, scope: Scope) -> Conjunction:
        builtin = self.names.function(term, self._module)
        if builtin is None:
            return ()
        if not builtin.accepts(len(term.arguments)):
            return self._refuse_arguments(builtin, term, builtin.inputs)
        return self._calls(term, builtin, term.arguments, (target,), scope)

    def _refuse_arguments(
        self, builtin: Builtin, term: ast.Atom | ast.Function, columns: Sequence[Column]
    ) -> Conjunction:
        names = ", ".join(column.name for column in columns)
        message = f"{builtin.name} takes {format_count(len(columns), 'argument')}"
        self._report("arity", message, term.span, f"write {builtin.name}({names})")
        return ()

    def _calls(
        self,
        term: ast.Atom | ast.Function,
        builtin: Builtin,
        arguments: tuple[ast.Term, ...],
        outputs: tuple[ir.Pattern, ...],
        scope: Scope,
    ) -> Conjunction:
        """The calls of a builtin, with the literals that compute its inputs."""
        inputs, extra = self._operands(arguments, scope)
        missing = len(builtin.inputs) - len(inputs)
        inputs += tuple(map(ir.Const, builtin.defaults[len(builtin.defaults) - missing :]))
        self._check_pattern(builtin, arguments, inputs)
        if builtin.timed:  # the time is a fact: no builtin reads a clock
            moment = self._temporary(term.span)
            self.relations.setdefault(NOW, FIXED[NOW])
            extra += (ir.Match(NOW, (moment,), term.span),)
            inputs += (moment,)
        given = iter(outputs)
        calls = ((name, tuple(islice(given, len(call.outputs)))) for name, call in builtin.calls().items())
        return (*extra, *(ir.Call(name, inputs, output, term.span) for name, output in calls))

    def _check_pattern(self, builtin: Builtin, arguments: tuple[ast.Term, ...], inputs: tuple[ir.Operand, ...]) -> None:
        columns = zip(builtin.inputs, inputs, strict=True)
        known = {column.name: term.value for column, term in columns if isinstance(term, ir.Const)}
        for column, argument in zip(builtin.inputs, arguments, strict=False):
            if column.name == PATTERN and (problem := find_problem(known.get(PATTERN), known.get("group"))):
                self._report("bad-pattern", problem[0], argument.span, problem[1])

    def _membership(self, literal: ast.Membership, scope: Scope) -> list[Conjunction]:
        (subject,), extra = self._operands((literal.term,), scope)
        constants = [item.value for item in literal.items if isinstance(item, ast.Constant) and item.value is not None]
        if len(constants) < max(2, len(literal.items)):
            alternatives = []
            for item in literal.items:
                (operand,), more = self._operands((item,), scope)
                alternatives.append((*extra, *more, ir.Compare("=", subject, operand, literal.span)))
            return alternatives
        name = self._relation("in", 1, literal.span)  # so that a long list becomes one literal, not many rules
        values = map(ir.Const, dict.fromkeys(constants))
        self.rules += [(ir.CheckedRule(name, (value,), (), literal.span), {}) for value in values]
        return [(*extra, ir.Match(name, (subject,), literal.span))]

    def _relation(self, what: str, width: int, span: Span) -> str:
        name = f"{self._module}:{what}#{span.line}.{span.column}"
        while name in self.relations:
            name += "'"
        self.relations[name] = Relation(name, tuple(Column(f"{at}", NO_KIND) for at in range(width)), generated=what)
        return name

    def _terms(self, terms: Iterable[ast.Term], scope: Scope) -> tuple[tuple[ir.Pattern, ...], Conjunction]:
        """Lower terms to arguments, and to the literals that compute them."""
        patterns: list[ir.Pattern] = []
        extra: list[ir.CheckedLiteral] = []
        for term in terms:
            match term:
                case ast.Wildcard():
                    patterns.append(None)
                case ast.Constant():
                    patterns.append(ir.Const(term.value))
                case ast.Variable():
                    patterns.append(self._variable(term, scope))
                case ast.BinaryOperation():
                    inputs, more = self._operands((term.left, term.right), scope)
                    target = self._temporary(term.span)
                    extra += [*more, ir.Call(term.operator, inputs, (target,), term.span)]
                    patterns.append(target)
                case ast.Aggregate():
                    target = self._temporary(term.span)
                    extra.append(self._fold(term, scope, target))
                    patterns.append(target)
                case ast.Function():
                    target = self._temporary(term.span)
                    extra += self._function(term, target, scope)
                    patterns.append(target)
                case ast.Interpolation():
                    text, more = self._interpolation(term, scope)
                    extra += more
                    patterns.append(text)
        return tuple(patterns), tuple(extra)

    def _interpolation(self, term: ast.Interpolation, scope: Scope) -> tuple[ir.Operand, Conjunction]:
        """``f"a{x}b"``: the text of "a" and x, and then of that and "b"."""
        parts = [ir.Const(part) if isinstance(part, str) else self._variable(part, scope) for part in term.parts]
        if not parts or isinstance(parts[0], ir.Var):
            parts.insert(0, ir.Const(""))
        text, calls = parts[0], list[ir.CheckedLiteral]()
        for part in parts[1:]:
            target = self._temporary(term.span)
            calls.append(ir.Call(INTERPOLATE, (text, part), (target,), term.span))
            text = target
        return text, tuple(calls)

    def _operands(self, terms: Iterable[ast.Term], scope: Scope) -> tuple[tuple[ir.Operand, ...], Conjunction]:
        """Lower terms that need a value: `_` is refused."""
        terms = tuple(terms)
        patterns, extra = self._terms(terms, scope)
        for pattern, term in zip(patterns, terms, strict=True):
            if pattern is None:
                self._report("unsafe-variable", "`_` has no value", term.span, "name a bound variable")
        return tuple(pattern or ir.Const(None) for pattern in patterns), extra

    def _fold(self, term: ast.Aggregate, scope: Scope, target: ir.Var) -> ir.Fold:
        inner = self._with_locals(term.body, term.terms, scope)
        terms, extra = self._operands(term.terms, inner)
        bodies = [body + extra for body in self._body(term.body, inner, term.span)]
        for written in term.terms:
            if isinstance(written, ast.Variable) and written.name in scope:
                message = f"{written.name} is aggregated, but also occurs outside the aggregate"
                self._report("aggregate-scope", message, written.span, "use another name in one of the two places")
        self.sets.append(WrittenSet(term, terms, tuple(bodies), frozenset(scope.values())))
        if len(bodies) != 1:
            bodies = [self._united(terms, bodies, scope, term.span)]
        return ir.Fold(term.function, terms, bodies[0], target, term.span)

    def _united(
        self, terms: tuple[ir.Operand, ...], bodies: list[Conjunction], scope: Scope, span: Span
    ) -> Conjunction:
        """Reduce the alternatives of an aggregate to a generated relation with a rule for each, and common tests."""
        outside = frozenset(scope.values())
        inside = [list(body) for body in bodies]
        beside: list[ir.CheckedLiteral] = []
        for literal in bodies[0] if bodies else ():
            is_test = not isinstance(literal, ir.Match) and outside.intersection(variables(literal))
            if is_test and all(literal in body for body in inside):
                beside.append(literal)
                for body in inside:
                    body.remove(literal)
        own = {term for term in terms if isinstance(term, ir.Var)}
        needed = outside.union(own, *map(variables, beside))
        inner = (var for body in inside for literal in body for var in variables(literal))
        columns = tuple(dict.fromkeys(var for var in (inner if bodies else own) if var in needed))
        for var in (column for column in columns if column in outside):
            if not all(any(_gives(literal, var) for literal in body) for body in inside):
                message = f"{var.name} groups this aggregate: each branch of `or` must bind it"
                advice = "aggregate over a relation that has a rule for each branch"
                self._report("unsafe-variable", message, span, advice)
                return ()
        name = self._relation("or", len(columns), span)
        spans = {var: at for var, at in self._spans.items() if var not in outside}
        self.rules += [(ir.CheckedRule(name, columns, tuple(body), span), spans) for body in inside]
        return (ir.Match(name, columns, span), *beside)

    def _with_locals(self, body: ast.Body, terms: tuple[ast.Term, ...], scope: Scope) -> Scope:
        """The scope inside a negation or an aggregate: a name that does not occur outside becomes a local variable."""
        self._fresh += 1
        return {**scope, **{name: ir.Var(name, str(self._fresh)) for name in shared(body, terms) if name not in scope}}

    def _own_locals(self, body: Conjunction, scope: Scope, alternative: int) -> Conjunction:
        own = {var for literal in body for var in variables(literal)}.difference(scope.values())
        names = {var: ir.Var(var.name, f"{var.generated}.{alternative}") for var in own if alternative}
        self._spans.update({new: self._spans[old] for old, new in names.items() if old in self._spans})
        return tuple(renamed(literal, names) for literal in body)

    def _variable(self, term: ast.Variable, scope: Scope) -> ir.Var:
        var = scope.get(term.name) or ir.Var(term.name)
        self._spans.setdefault(var, term.span)
        return var

    def _temporary(self, span: Span) -> ir.Var:
        self._fresh += 1
        var = ir.Var("", str(self._fresh))
        self._spans[var] = span
        return var

    def _report(self, code: str, message: str, span: Span, suggestion: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(code, message, span, suggestion))


def _size(body: Conjunction) -> int:
    return sum(1 for _ in ir.all_literals(body))


def _gives(literal: ir.CheckedLiteral, var: ir.Var) -> bool:
    match literal:
        case ir.Match():
            return var in literal.arguments
        case ir.Compare("=", left, right):
            has_constant = isinstance(left, ir.Const) or isinstance(right, ir.Const)
            return has_constant and not literal.null_test and var in (left, right)
    return False
