"""The worker process of the pyDatalog engine, which answers one pickled request.

pyDatalog does the joins and the recursion, one stratum at a time, on opaque codes of values. Comparisons, builtins,
negation and aggregates are resolvers: predicates that call back into this module.

It searches top down, and does not terminate if the queries of a recursion form a cycle of three or more. So all
relations of a stratum share one predicate, and each rule begins with one query for all its rows. Further matches of the
stratum read the rows known so far, and the query is repeated while their number grows.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pyDatalog import Logic, pyEngine

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.safety import Scoped, ScopedLiteral, scope
from datalog_gate.base.errors import EngineError
from datalog_gate.base.values import Row, Value
from datalog_gate.engine.builtins import EvaluationError, aggregate, compare, compute, fits, holds
from datalog_gate.schema.declaration import RelationRef

ALWAYS = pyEngine.Const("always")
"""The first term of every literal, since pyDatalog has no predicates without terms."""


def main() -> None:
    """Answer the request on stdin: write all rows by relation, or the text of an error, to stdout."""
    program, facts = pickle.load(sys.stdin.buffer)
    result: dict[RelationRef, list[Row]] | str
    try:
        result = answer(program, facts)
    except EngineError as error:
        result = str(error)
    sys.stdout.buffer.write(pickle.dumps(result))


def answer(program: ir.CheckedProgram, facts: Mapping[RelationRef, Collection[Row]]) -> dict[RelationRef, list[Row]]:
    """Compute all rows by relation. Errors: EngineError if an expression of the rules fails."""
    Logic()
    pyEngine.Python_resolvers.clear()
    worker = _Worker({name: len(relation.columns) for name, relation in program.relations.items()})
    rows = {name: list(facts.get(name, ())) for name in program.inputs}
    for relation, input_rows in rows.items():
        worker.assert_facts(relation, input_rows)
    for stratum in program.strata:
        rows.update(worker.evaluate(stratum))
    return rows


class _Worker:
    """The codes of values, the predicates, and the current stratum and rule."""

    def __init__(self, arities: dict[RelationRef, int]) -> None:
        self.arities = arities
        self.codes: dict[Value, str] = {}
        self.values: dict[str, Value] = {}
        self.known: dict[RelationRef, str] = {}
        """The predicates for rows that are facts: inputs, earlier strata, and earlier rounds of the current stratum."""
        self.own: Sequence[RelationRef] = ()
        self.width = 0
        self.growing = ""
        """The predicate of the current stratum: the relation, its row, and nulls up to the widest row."""
        self.rule: ir.CheckedRule | None = None
        self.names = 0

    def evaluate(self, stratum: ir.Stratum) -> dict[RelationRef, list[Row]]:
        self.own, self.growing = stratum.relations, self.fresh_name()
        self.width = max(self.arities[relation] for relation in self.own)
        pyEngine.insert(pyEngine.Pred(self.growing, self.width + 2))
        for relation in self.own:
            self.assert_facts(relation, ())
        for rule in stratum.rules:
            self.rule = rule
            nulls = [ir.Const(None)] * (self.width - len(rule.arguments))
            head = (ir.Const(str(rule.relation)), *rule.arguments, *nulls)
            self.assert_clause(self.growing, head, scope(rule), frozenset())
        result: dict[RelationRef, list[Row]] = {name: [] for name in self.own}
        repeat = any(len([literal for literal in rule.body if self.is_own(literal)]) > 1 for rule in stratum.rules)
        known: set[Row] = set()
        while new := set(self.query(self.growing, (), self.width + 1)) - known:
            known |= new
            for relation, rows in result.items():
                new_rows = [row[1 : 1 + self.arities[relation]] for row in new if row[0] == str(relation)]
                self.assert_facts(relation, new_rows)
                rows += new_rows
            if not repeat:
                break
        return result

    def is_own(self, literal: ir.CheckedLiteral) -> bool:
        return isinstance(literal, ir.Match) and literal.relation in self.own

    def assert_clause(self, name: str, head: Iterable[ir.Operand], body: Scoped, bound: frozenset[ir.Var]) -> None:
        """Assert ``name(head) :- body`` in an order that binds each variable before it is needed."""
        literals: list[Any] = []
        pending = list(body)
        while pending:
            own = [scoped for scoped in pending if self.is_own(scoped.literal)] if not literals else []
            ready = own or [scoped for scoped in pending if scoped.ready(bound)]
            best = min(ready, key=lambda scoped: _rank(scoped.literal, bound))
            pending.remove(best)
            literals += self.match_growing(best.literal) if own else self.literals(best, bound)
            bound |= best.binds
        pyEngine.assert_(pyEngine.Clause(self.literal(name, head), literals))  # noqa: PT009

    def literals(self, scoped: ScopedLiteral, bound: frozenset[ir.Var]) -> Iterator[Any]:
        match scoped.literal:
            case ir.Match(relation, arguments):
                yield self.literal(self.known[relation], arguments)
                for var in {argument for argument in arguments if isinstance(argument, ir.Var)}:
                    if var in bound or arguments.count(var) > 1:  # null never joins
                        yield self.resolver([var], None, lambda value: value is not None)
            case ir.Compare(comparator, left, right, _, when_unknown):
                for side, other in ((left, right), (right, left)):
                    if isinstance(side, ir.Var) and side not in bound:
                        yield self.resolver([other], side, lambda value: [value])
                        return
                test = partial(compare, comparator, when_unknown=when_unknown, null_test=scoped.literal.null_test)
                yield self.resolver([left, right], None, test)
            case ir.Call(builtin, inputs, (), _, when_unknown):
                yield self.resolver(inputs, None, lambda *values: holds(builtin, values, when_unknown))
            case ir.Call(builtin, inputs, (output,)):
                yield from self.binding_resolver(inputs, output, bound, lambda *values: [compute(builtin, values)])
            case ir.Without():
                name, needs = self.assert_body(scoped, ())
                yield self.resolver(needs, None, lambda *values: not self.query(name, values, 0))
            case ir.Fold(function, terms, _, target):
                name, needs = self.assert_body(scoped, terms)

                def aggregated(*values: Value) -> Sequence[Value]:
                    value = aggregate(function, self.query(name, values, len(terms)))
                    return [] if value is None else [value]

                yield from self.binding_resolver(needs, target, bound, aggregated)

    def match_growing(self, match: ir.CheckedLiteral) -> Iterator[Any]:
        """A query for all rows of the stratum, with tests that a row is of the relation and matches."""
        assert isinstance(match, ir.Match)
        terms: list[ir.Var] = []
        tests: list[tuple[ir.Var, ir.Operand]] = []
        relation = ir.Const(str(match.relation)) if len(self.own) > 1 else None
        for argument in (relation, *match.arguments, *[None] * (self.width - len(match.arguments))):
            if isinstance(argument, ir.Var) and argument not in terms:
                terms.append(argument)
                continue
            terms.append(ir.Var(self.fresh_name()))
            if argument is not None:
                tests.append((terms[-1], argument))
        yield self.literal(self.growing, terms)
        yield from (self.test_value(term, argument) for term, argument in tests)

    def test_value(self, var: ir.Var, wanted: ir.Operand) -> Any:
        constant = isinstance(wanted, ir.Const)
        return self.resolver([var, wanted], None, lambda value, other: fits(value, other, constant))

    def binding_resolver(
        self,
        inputs: Sequence[ir.Operand],
        output: ir.Pattern,
        bound: frozenset[ir.Var],
        function: Callable[..., Sequence[Value]],
    ) -> Iterator[Any]:
        """A resolver that binds its output, or tests it if it has a value already."""
        if isinstance(output, ir.Var) and output not in bound:
            yield self.resolver(inputs, output, function)
            return
        target = ir.Var(self.fresh_name())
        yield self.resolver(inputs, target, function)
        if output is not None:
            yield self.test_value(target, output)

    def assert_body(self, outer: ScopedLiteral, terms: Sequence[ir.Operand]) -> tuple[str, list[ir.Var]]:
        name, leading = self.fresh_name(), sorted(outer.needs, key=str)
        self.assert_clause(name, (*leading, *terms), outer.body, outer.needs)
        return name, leading

    def resolver(self, inputs: Sequence[ir.Operand], output: ir.Var | None, function: Callable[..., object]) -> Any:
        """A literal that calls the function with the values of the inputs, to test them or to compute an output."""
        name, arity = self.fresh_name(), len(inputs) + 1 + (output is not None)
        rule = self.rule
        assert rule

        def resolve(always: Any, *terms: Any) -> Iterator[tuple[RelationRef, ...]]:
            codes = tuple(term.id for term in terms[: len(inputs)])
            try:
                result = function(*(self.values[code] for code in codes))
            except EvaluationError:
                raise EngineError(
                    f"pyDatalog refuses the rule of {rule.relation} at {rule.span}: an expression in it fails; the "
                    "native engine (--engine native) shows where and why"
                ) from None
            if isinstance(result, list):
                yield from ((always.id, *codes, self.code(value)) for value in result)
            elif result:
                yield (always.id, *codes)

        pyEngine.Python_resolvers[f"{name}/{arity}"] = resolve
        return self.literal(name, inputs if output is None else (*inputs, output))

    def query(self, name: str, known: Sequence[Value], free: int) -> list[Row]:
        answers = self.literal(name, (*map(ir.Const, known), *[None] * free)).ask()
        return [tuple(self.values[code] for code in row[1 + len(known) :]) for row in answers]

    def assert_facts(self, relation: RelationRef, rows: Iterable[Row]) -> None:
        """Assert the rows as facts of the relation's predicate, which exists afterwards even without rows."""
        name = self.known.setdefault(relation, f"f{len(self.known)}_")
        pyEngine.insert(pyEngine.Pred(name, self.arities[relation] + 1))
        for row in rows:
            pyEngine.assert_(pyEngine.Clause(self.literal(name, map(ir.Const, row)), []))  # noqa: PT009

    def literal(self, name: str, patterns: Iterable[ir.Pattern]) -> Any:
        return pyEngine.Literal(name, [ALWAYS, *map(self.term, patterns)])

    def term(self, pattern: ir.Pattern) -> Any:
        match pattern:
            case ir.Var():
                return pyEngine.Var(str(pattern))
            case ir.Const(value):
                return pyEngine.Const(self.code(value))
            case None:
                return pyEngine.Var(self.fresh_name())

    def code(self, value: Value) -> str:
        code = self.codes.setdefault(value, f"v{len(self.codes)}")
        self.values[code] = value
        return code

    def fresh_name(self) -> str:
        """A new name. It ends with an underscore, since pyDatalog tries ``x12/2`` if there is no resolver ``x1/2``."""
        self.names += 1
        return f"x{self.names}_"


def _rank(literal: ir.CheckedLiteral, bound: frozenset[ir.Var]) -> int:
    """The rank of a literal, lower first. Literals that may fail come late, but before a product of rows."""
    match literal:
        case ir.Compare("=" | "!="):
            return 0
        case ir.Match(_, arguments):
            return 1 if not bound or bound.intersection(argument for argument in arguments if argument) else 3
        case _:
            return 2


if __name__ == "__main__":
    main()
