"""The worker process of the pyDatalog engine (layer 3).

In: a pickled program and facts on stdin. Out: rows or a refusal, pickled. pyDatalog does the joins and the recursion,
one stratum at a time; what a stratum derives is asserted as facts before the next one starts, so that no negation meets
unfinished relations. Values are opaque codes to it. Comparisons, builtins, negation and aggregates are resolvers:
predicates that call back here; the last two ask pyDatalog about their body.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyDatalog import Logic, pyEngine

from datalog_gate.analysis.program import (
    Call,
    CheckedProgram,
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
from datalog_gate.engine.builtins import EvaluationError, aggregate, compare, compute, fits, holds
from datalog_gate.errors import EngineError
from datalog_gate.values import Row, Value

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
    try:
        for relation, given in rows.items():
            worker.assert_facts(worker.finished(relation), relation, given)
        for stratum in program.strata:
            rows.update(worker.stratum(stratum))
    except EvaluationError:
        raise EngineError("an expression of the rules fails: only the native engine tells where and for what") from None
    return rows


class _Worker:
    """The codes of values and the predicates made so far."""

    def __init__(self, arities: dict[str, int]) -> None:
        self.arities = arities
        self.codes: dict[Value, str] = {}
        self.values: dict[str, Value] = {}
        self.predicates: dict[str, str] = {}
        self.own: frozenset[str] = frozenset()
        self.made = 0

    def stratum(self, stratum: Stratum) -> dict[str, list[Row]]:
        """The rows of the stratum's relations, which are facts from then on."""
        self.own = frozenset(stratum.relations)
        for relation in stratum.relations:
            self.assert_facts(self.growing(relation), relation, ())
        for rule in stratum.rules:
            head = [self.term(one) for one in rule.arguments]
            body = scoped(rule.body, (one for one in rule.arguments if isinstance(one, Var)))
            self.clause(self.growing(rule.relation), head, body, frozenset())
        result = {name: self.ask(self.growing(name), (), self.arities[name]) for name in stratum.relations}
        for relation, found in result.items():
            self.assert_facts(self.finished(relation), relation, found)
        return result

    def clause(self, name: str, head: list[Any], body: Iterable[Scoped], bound: frozenset[Var]) -> None:
        """Assert ``name(head) :- body``, in an order that binds every variable before it is needed."""
        literals: list[Any] = []
        pending = list(body)
        while pending:
            ready = [one for one in pending if one.ready(bound)]
            one = next((one for one in ready if not isinstance(one.literal, Match)), ready[0])
            pending.remove(one)
            literals += self.literals(one, bound)
            bound |= binds(one.literal)
        pyEngine.assert_(pyEngine.Clause(pyEngine.Literal(name, [ALWAYS, *head]), literals))  # noqa: PT009

    def literals(self, one: Scoped, bound: frozenset[Var]) -> Iterator[Any]:
        match one.literal:
            case Match(relation, arguments):
                name = self.growing(relation) if relation in self.own else self.finished(relation)
                yield pyEngine.Literal(name, [ALWAYS, *map(self.term, arguments)])
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
            constant = isinstance(output, Const)
            yield self.resolver([target, output], None, lambda value, wanted: fits(value, wanted, constant))

    def body_of(self, literal: Without | Fold, needs: frozenset[Var]) -> tuple[str, list[Var]]:
        """A predicate for the literal's body, and what must be given to ask it; the terms of an aggregate follow."""
        name, given = self.fresh(), sorted(needs, key=lambda var: var.name)
        terms = literal.terms if isinstance(literal, Fold) else ()
        self.clause(name, [self.term(one) for one in (*given, *terms)], inner(literal, needs), needs)
        return name, given

    def resolver(self, inputs: Sequence[Operand], output: Var | None, function: Callable[..., object]) -> Any:
        """A literal that calls the function with the values of the inputs: for a truth, or for the output's values."""
        name, arity = self.fresh(), len(inputs) + 1 + (output is not None)

        def resolve(always: Any, *terms: Any) -> Iterator[tuple[str, ...]]:
            codes = tuple(term.id for term in terms[: len(inputs)])
            result = function(*(self.values[code] for code in codes))
            if isinstance(result, list):
                yield from ((always.id, *codes, self.code(value)) for value in result)
            elif result:
                yield (always.id, *codes)

        pyEngine.Python_resolvers[f"{name}/{arity}"] = resolve
        outputs = () if output is None else (output,)
        return pyEngine.Literal(name, [ALWAYS, *(self.term(one) for one in (*inputs, *outputs))])

    def ask(self, name: str, given: Sequence[Value], free: int) -> list[Row]:
        """The rows of the free columns, which come last."""
        wanted = [pyEngine.Const(self.code(value)) for value in given]
        wanted += [pyEngine.Var(f"answer{at}") for at in range(free)]
        found = pyEngine.Literal(name, [ALWAYS, *wanted]).ask()
        return [tuple(self.values[code] for code in row[1 + len(given) :]) for row in found]

    def assert_facts(self, name: str, relation: str, rows: Iterable[Row]) -> None:
        """Make the rows of a relation facts of the predicate `name`, which is known from then on even without any."""
        pyEngine.insert(pyEngine.Pred(name, self.arities[relation] + 1))
        for row in rows:
            literal = pyEngine.Literal(name, [ALWAYS, *(pyEngine.Const(self.code(value)) for value in row)])
            pyEngine.assert_(pyEngine.Clause(literal, []))  # noqa: PT009

    def term(self, pattern: Pattern) -> Any:
        match pattern:
            case Var(name):
                return pyEngine.Var(name)
            case Const(value):
                return pyEngine.Const(self.code(value))
            case None:
                return pyEngine.Var(self.fresh())

    def code(self, value: Value) -> str:
        code = self.codes.setdefault(value, f"v{len(self.codes)}")
        self.values[code] = value
        return code

    def finished(self, relation: str) -> str:
        """The predicate of a relation's rows as facts."""
        return self.predicates.setdefault(relation, f"f{len(self.predicates)}_")

    def growing(self, relation: str) -> str:
        """The predicate of a relation while its stratum is worked on."""
        return "g" + self.finished(relation)

    def fresh(self) -> str:
        """A new name. Where pyDatalog finds no resolver ``x1/2`` it tries ``x12/2``, hence the underscore."""
        self.made += 1
        return f"x{self.made}_"


if __name__ == "__main__":
    main()
