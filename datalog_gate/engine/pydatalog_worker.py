"""The worker process of the pyDatalog engine (layer 3).

In: a pickled program and facts on stdin. Out: rows or a refusal, pickled. pyDatalog does the joins and the recursion,
one stratum at a time; what a stratum derives is asserted as facts before the next one starts, so that no negation meets
unfinished relations. Values are opaque codes to it. Comparisons, builtins, negation and aggregates are resolvers:
predicates that call back here; the last two ask pyDatalog about their body.

pyDatalog searches top down. Where a recursion makes it ask itself questions that wait for each other in a circle of
three or more, it goes round for ever; unless the recursion is left-linear, the data tell which questions there are. So
all relations of a stratum are one predicate, and each rule begins by asking for all its rows: that is one question,
waits for itself only, and ends when no row is new. A rule that matches its stratum again reads there what is known so
far, and the question is put again for as long as that grows.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyDatalog import Logic, pyEngine

from datalog_gate.analysis.program import (
    Call,
    CheckedLiteral,
    CheckedProgram,
    CheckedRule,
    Compare,
    Const,
    Fold,
    Match,
    Operand,
    Pattern,
    Stratum,
    Var,
    Without,
)
from datalog_gate.analysis.safety import Scoped, binds, inner, scoped
from datalog_gate.base.errors import EngineError
from datalog_gate.base.values import Row, Value
from datalog_gate.engine.builtins import EvaluationError, aggregate, compare, compute, fits, holds

ALWAYS = pyEngine.Const("always")
"""The first term of every literal: pyDatalog takes no predicate without terms."""


def main() -> None:
    """Answer the one question on stdin."""
    program, facts = pickle.load(sys.stdin.buffer)
    result: dict[str, list[Row]] | str
    try:
        result = answer(program, facts)
    except EngineError as refusal:
        result = str(refusal)
    sys.stdout.buffer.write(pickle.dumps(result))


def answer(program: CheckedProgram, facts: Mapping[str, Collection[Row]]) -> dict[str, list[Row]]:
    """All rows by relation. Errors: EngineError if an expression of the rules fails."""
    Logic()
    pyEngine.Python_resolvers.clear()
    worker = _Worker({name: len(relation.columns) for name, relation in program.relations.items()})
    rows = {name: list(facts.get(name, ())) for name in program.inputs}
    for relation, given in rows.items():
        worker.assert_facts(relation, given)
    for stratum in program.strata:
        rows.update(worker.stratum(stratum))
    return rows


class _Worker:
    """The codes of values, the predicates made so far, and the stratum and rule at work."""

    def __init__(self, arities: dict[str, int]) -> None:
        self.arities = arities
        self.codes: dict[Value, str] = {}
        self.values: dict[str, Value] = {}
        self.known: dict[str, str] = {}
        """The predicates of the rows that are facts: of inputs, of strata before, and of this one in rounds before."""
        self.own: Sequence[str] = ()
        self.width = 0
        self.growing = ""
        """The predicate of the stratum at work: the relation, its row, and nulls up to the width of the widest."""
        self.rule: CheckedRule | None = None
        self.made = 0

    def stratum(self, stratum: Stratum) -> dict[str, list[Row]]:
        """The rows of the stratum's relations, which are facts from then on."""
        self.own, self.growing = stratum.relations, self.fresh()
        self.width = max(self.arities[one] for one in self.own)
        pyEngine.insert(pyEngine.Pred(self.growing, self.width + 2))
        for relation in self.own:
            self.assert_facts(relation, ())
        for rule in stratum.rules:
            self.rule = rule
            body = scoped(rule.body, (argument for argument in rule.arguments if isinstance(argument, Var)))
            nulls = [Const(None)] * (self.width - len(rule.arguments))
            self.clause(self.growing, (Const(rule.relation), *rule.arguments, *nulls), body, frozenset())
        result: dict[str, list[Row]] = {name: [] for name in self.own}
        again = any(len([literal for literal in rule.body if self.asks(literal)]) > 1 for rule in stratum.rules)
        known: set[Row] = set()
        while new := set(self.ask(self.growing, (), self.width + 1)) - known:
            known |= new
            for relation, rows in result.items():
                found = [row[1 : 1 + self.arities[relation]] for row in new if row[0] == relation]
                self.assert_facts(relation, found)
                rows += found
            if not again:
                break
        return result

    def asks(self, literal: CheckedLiteral) -> bool:
        """Whether the literal reads the stratum at work."""
        return isinstance(literal, Match) and literal.relation in self.own

    def clause(self, name: str, head: Iterable[Operand], body: Iterable[Scoped], bound: frozenset[Var]) -> None:
        """Assert ``name(head) :- body``, in an order that binds every variable before it is needed."""
        literals: list[Any] = []
        pending = list(body)
        while pending:
            asking = [one for one in pending if not literals and self.asks(one.literal)]
            one = min(asking or [one for one in pending if one.ready(bound)], key=lambda one: _rank(one.literal, bound))
            pending.remove(one)
            literals += self.any_row(one.literal) if asking else self.literals(one, bound)
            bound |= binds(one.literal)
        pyEngine.assert_(pyEngine.Clause(self.literal(name, head), literals))  # noqa: PT009

    def literals(self, one: Scoped, bound: frozenset[Var]) -> Iterator[Any]:
        match one.literal:
            case Match(relation, arguments):
                yield self.literal(self.known[relation], arguments)
                for var in {argument for argument in arguments if isinstance(argument, Var)}:
                    if var in bound or arguments.count(var) > 1:  # null never joins
                        yield self.resolver([var], None, lambda value: value is not None)
            case Compare(comparator, left, right, _, when_unknown):
                for side, other in ((left, right), (right, left)):
                    if isinstance(side, Var) and side not in bound:
                        yield self.resolver([other], side, lambda value: [value])
                        return
                null = one.literal.null_test
                yield self.resolver([left, right], None, lambda a, b: compare(comparator, a, b, when_unknown, null))
            case Call(builtin, inputs, (), _, when_unknown):
                yield self.resolver(inputs, None, lambda *values: holds(builtin, values, when_unknown))
            case Call(builtin, inputs, (output,)):
                yield from self.giving(inputs, output, bound, lambda *values: [compute(builtin, values)])
            case Without() as without:
                name, needs = self.body_of(without, one.needs)
                yield self.resolver(needs, None, lambda *values: not self.ask(name, values, 0))
            case Fold(function, terms, _, target) as fold:
                name, needs = self.body_of(fold, one.needs)

                def folded(*values: Value) -> Sequence[Value]:
                    value = aggregate(function, self.ask(name, values, len(terms)))
                    return [] if value is None else [value]

                yield from self.giving(needs, target, bound, folded)

    def any_row(self, match: CheckedLiteral) -> Iterator[Any]:
        """Any row of the stratum, and the tests that it fits the match."""
        assert isinstance(match, Match)
        terms: list[Var] = []
        tested: list[tuple[Var, Operand]] = []
        relation = Const(match.relation) if len(self.own) > 1 else None
        for argument in (relation, *match.arguments, *[None] * (self.width - len(match.arguments))):
            if isinstance(argument, Var) and argument not in terms:
                terms.append(argument)
                continue
            terms.append(Var(self.fresh()))
            if argument is not None:
                tested.append((terms[-1], argument))
        yield self.literal(self.growing, terms)
        for term, argument in tested:
            yield self.fitting(term, argument)

    def fitting(self, var: Var, wanted: Operand) -> Any:
        """The test that the variable has the wanted value."""
        constant = isinstance(wanted, Const)
        return self.resolver([var, wanted], None, lambda value, other: fits(value, other, constant))

    def giving(
        self,
        inputs: Sequence[Operand],
        output: Pattern,
        bound: frozenset[Var],
        function: Callable[..., Sequence[Value]],
    ) -> Iterator[Any]:
        """A resolver that binds its output, and the test that it fits where that had a value."""
        if isinstance(output, Var) and output not in bound:
            yield self.resolver(inputs, output, function)
            return
        target = Var(self.fresh())
        yield self.resolver(inputs, target, function)
        if output is not None:
            yield self.fitting(target, output)

    def body_of(self, literal: Without | Fold, needs: frozenset[Var]) -> tuple[str, list[Var]]:
        """A predicate for the literal's body, and what must be given to ask it; the terms of an aggregate follow."""
        name, given = self.fresh(), sorted(needs, key=str)
        terms = literal.terms if isinstance(literal, Fold) else ()
        self.clause(name, (*given, *terms), inner(literal, needs), needs)
        return name, given

    def resolver(self, inputs: Sequence[Operand], output: Var | None, function: Callable[..., object]) -> Any:
        """A literal that calls the function with the values of the inputs: for a truth, or for the output's values."""
        name, arity = self.fresh(), len(inputs) + 1 + (output is not None)
        rule = self.rule
        assert rule

        def resolve(always: Any, *terms: Any) -> Iterator[tuple[str, ...]]:
            codes = tuple(term.id for term in terms[: len(inputs)])
            try:
                result = function(*(self.values[code] for code in codes))
            except EvaluationError:
                raise EngineError(
                    f"pyDatalog refuses the rule of {rule.relation} at {rule.span}: an expression in it fails; the "
                    "native engine (--engine native) tells where and for what"
                ) from None
            if isinstance(result, list):
                yield from ((always.id, *codes, self.code(value)) for value in result)
            elif result:
                yield (always.id, *codes)

        pyEngine.Python_resolvers[f"{name}/{arity}"] = resolve
        return self.literal(name, inputs if output is None else (*inputs, output))

    def ask(self, name: str, given: Sequence[Value], free: int) -> list[Row]:
        """The rows of the free columns, which come last."""
        found = self.literal(name, (*map(Const, given), *[None] * free)).ask()
        return [tuple(self.values[code] for code in row[1 + len(given) :]) for row in found]

    def assert_facts(self, relation: str, rows: Iterable[Row]) -> None:
        """Make the rows facts of the relation's predicate, which is known from then on even without any."""
        name = self.known.setdefault(relation, f"f{len(self.known)}_")
        pyEngine.insert(pyEngine.Pred(name, self.arities[relation] + 1))
        for row in rows:
            pyEngine.assert_(pyEngine.Clause(self.literal(name, map(Const, row)), []))  # noqa: PT009

    def literal(self, name: str, patterns: Iterable[Pattern]) -> Any:
        return pyEngine.Literal(name, [ALWAYS, *map(self.term, patterns)])

    def term(self, pattern: Pattern) -> Any:
        match pattern:
            case Var():
                return pyEngine.Var(str(pattern))
            case Const(value):
                return pyEngine.Const(self.code(value))
            case None:
                return pyEngine.Var(self.fresh())

    def code(self, value: Value) -> str:
        code = self.codes.setdefault(value, f"v{len(self.codes)}")
        self.values[code] = value
        return code

    def fresh(self) -> str:
        """A new name. Where pyDatalog finds no resolver ``x1/2`` it tries ``x12/2``, hence the underscore."""
        self.made += 1
        return f"x{self.made}_"


def _rank(literal: CheckedLiteral, bound: frozenset[Var]) -> int:
    """The lower, the sooner in a body: what can fail comes late, since it must not where another literal is false, but
    before a product of rows."""
    match literal:
        case Compare("=" | "!="):
            return 0
        case Match(_, arguments):
            return 1 if not bound or bound.intersection(argument for argument in arguments if argument) else 3
        case _:
            return 2


if __name__ == "__main__":
    main()
