"""Strategies for checked programs and their facts.

They draw recursion, negation, aggregates, nulls, kinds that look alike, unknowns and builtins that fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import TypeVar, get_args

from hypothesis import assume
from hypothesis import strategies as st

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import variables
from datalog_gate.analysis.safety import order
from datalog_gate.analysis.strata import stratify
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import TRUE, Kind, ResourceId, Row, Value
from datalog_gate.engine.budget import Budget
from datalog_gate.language.ast import AggregateFunction, Comparator
from datalog_gate.schema.declaration import Column, Relation, RelationRef
from tests.expressions import worded

VALUES: tuple[Value, ...] = (1, 2, None, TRUE, "1", "b", ResourceId("b"), worded("u"))
INPUTS = {"edge": 2, "node": 1}
WIDER = {**INPUTS, "flag": 0, "triple": 3, "wide": 5}
MOST_ROWS = 8
Choose = Callable[[int], int]
"""Chooses a number from 0 to below the one given; the lower, the simpler."""
Facts = dict[RelationRef, list[Row]]
T = TypeVar("T")
X, Y, Z = ir.Var("x"), ir.Var("y"), ir.Var("z")


def relation(name: str, arity: int) -> Relation:
    """A relation whose columns take any kind."""
    return Relation(name, tuple(Column(f"c{at}", Kind.ANY) for at in range(arity)))


def place(line: int, column: int = 1) -> Span:
    """A place in a rule file."""
    return Span("rules.dl", line, column, line, column + 1)


HERE = place(1)


def match(name: RelationRef, *arguments: ir.Pattern) -> ir.Match:
    """A match in line 1."""
    return ir.Match(name, arguments, HERE)


node, edge = partial(match, "node"), partial(match, "edge")


def program(*strata: ir.Stratum, inputs: Mapping[str, int] = INPUTS) -> ir.CheckedProgram:
    """A checked program of these strata."""
    arities: dict[RelationRef, int] = dict(inputs.items())
    for stratum in strata:
        arities.update({rule.relation: len(rule.arguments) for rule in stratum.rules})
    return ir.CheckedProgram(
        {name: relation(str(name), arity) for name, arity in arities.items()}, frozenset(inputs), strata
    )


@dataclass(frozen=True)
class Vocabulary:
    """The names and values of generated programs. With `fails` literals may meet errors, and have any
    `when_unknown`."""

    values: tuple[Value, ...]
    comparators: tuple[Comparator, ...]
    builtins: tuple[str, ...]
    functions: tuple[AggregateFunction, ...]
    inputs: Mapping[str, int]
    fails: bool = False

    @property
    def often(self) -> tuple[Value, ...]:
        """The values, with the first two most of the time, so that rows join."""
        return (*self.values[:2] * 6, *self.values)


EVERYTHING = Vocabulary(VALUES, ("=", "!=", "<", ">="), ("+", "/", "??"), get_args(AggregateFunction), WIDER, True)


@dataclass
class Draw:
    """Draw bodies. `below` are finished relations, `own` those of the stratum."""

    choose: Choose
    words: Vocabulary
    below: dict[str, int]
    own: dict[str, int]
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.choose(len(choices))]

    def place(self) -> Span:
        return place(next(self.numbers))

    def unsure(self) -> bool:
        return self.words.fails and self.pick((False, True))

    def match(self, known: Sequence[ir.Var], names: Mapping[str, int]) -> ir.Match:
        """Draw a match that mostly joins or has new variables; at times a variable twice, a constant, or anything."""
        name = self.pick(
            [*sorted(names), *sorted(names.keys() & {*INPUTS, *self.own}), *sorted(names.keys() & self.own) * 4]
        )
        terms: list[ir.Pattern] = []
        for _ in range(names[name]):
            bound_terms = [*known, *known, *(term for term in terms if isinstance(term, ir.Var))]
            new = ir.Var(f"x.{next(self.numbers)}")
            rare = self.pick([None, ir.Const(self.pick(self.words.often))])
            terms.append(self.pick([new] * 7 + ([self.pick(bound_terms)] * 4 if bound_terms else []) + [rare]))
        return ir.Match(name, tuple(terms), self.place())

    def body(self, bound: list[ir.Var], depth: int) -> tuple[list[ir.CheckedLiteral], list[ir.Var]]:
        """Draw a body in a safe order; return it with the variables that are bound after it."""
        known = list(bound)
        body: list[ir.CheckedLiteral] = []
        kinds = ["compare", "alias", "call", "match"]
        kinds += ["test"] if self.words.fails else []
        kinds += ["not", "fold"] if depth < 2 else []

        def operand() -> ir.Operand:
            choices: list[ir.Operand] = [*known, *known, *known, ir.Const(self.pick(self.words.often))]
            return self.pick(choices)

        more = self.pick((0, 1, 0, 1, 0, 2, 3 - depth))
        for kind in ["match"] * self.pick([1, 2]) + [self.pick(kinds) for _ in range(more)]:
            at, new = self.place(), ir.Var(f"v{depth}.{next(self.numbers)}")
            match kind:
                case "match":
                    new_match = self.match(known, self.below if depth else {**self.below, **self.own})
                    body.append(new_match)
                    known += dict.fromkeys(
                        argument
                        for argument in new_match.arguments
                        if isinstance(argument, ir.Var) and argument not in known
                    )
                case "compare":
                    comparator = self.pick(self.words.comparators)
                    body.append(ir.Compare(comparator, operand(), operand(), at, self.unsure()))
                case "alias":
                    left, right = self.pick([(new, operand()), (operand(), new)])
                    body.append(ir.Compare("=", left, right, at))  # one that holds of unknowns never binds
                    known.append(new)
                case "test":
                    body.append(ir.Call("starts_with", (operand(), operand()), (), at, self.unsure()))
                case "call":
                    outputs: list[ir.Pattern] = [*[new] * 8, *known, *((None, ir.Const(2)) if self.words.fails else ())]
                    target = self.pick(outputs)
                    body.append(ir.Call(self.pick(self.words.builtins), (operand(), operand()), (target,), at))
                    known += [new] if target == new else []
                case "not":
                    body.append(ir.Without(tuple(self.body(known, depth + 1)[0]), at))
                case "fold":
                    inner, inside = self.body(known, depth + 1)
                    local: list[ir.Operand] = [ir.Const(1), *(var for var in inside if var not in known)]
                    terms = tuple(self.pick(local[-2:]) for _ in range(self.pick([1, 2])))
                    used = {variable for literal in inner for variable in variables(literal)}
                    result = self.pick([new] * 8 + [var for var in known if var not in used])
                    body.append(ir.Fold(self.pick(self.words.functions), terms, tuple(inner), result, at))
                    known += [new] if result == new else []
        return body, known


def draw_program(choose: Choose, words: Vocabulary = EVERYTHING) -> ir.CheckedProgram | None:
    """Draw a program over the inputs, as the analysis would make it; None if the analysis refuses it."""
    below = dict(words.inputs)
    drawn = Draw(choose, words, below, {})
    rules: list[ir.CheckedRule] = []
    for name in ("p", "q", "r", "s")[: 1 + choose(4)]:
        own = {relation: drawn.pick((1, 2, 2, 1, 3, 0, 5)) for relation in (name, name * 2)[: 1 + choose(2)]}
        recursive = choose(2)
        for head_name, at in [(relation, at) for relation in own for at in range(drawn.pick((1, 2, 3)))]:
            drawn.own = own if recursive and (at or not choose(4)) else {}  # most begin with a rule that is not
            body, known = drawn.body([], 0)
            matched = {argument for literal in body if isinstance(literal, ir.Match) for argument in literal.arguments}
            heads: list[ir.Operand] = [var for var in known if not recursive or var in matched] or [ir.Const(1)]
            head = tuple(
                drawn.pick([*heads, *heads, ir.Const(drawn.pick(words.values))]) for _ in range(own[head_name])
            )
            shuffled_body = tuple(body.pop(choose(len(body))) for _ in range(len(body)))
            rule = order(ir.CheckedRule(head_name, head, shuffled_body, drawn.place()), {}, [])
            if rule is None:  # x = null, y = null, x = y
                return None
            rules.append(rule)
        below.update(own)
    strata, wrong = stratify(rules)
    assert not wrong
    return program(*strata, inputs=words.inputs)


def draw_facts(choose: Choose, words: Vocabulary = EVERYTHING, more: tuple[Value, ...] = ()) -> Facts:
    """Draw rows of the inputs."""
    values = (*words.often, *more)
    return {
        name: [tuple(values[choose(len(values))] for _ in range(arity)) for _ in range(choose(MOST_ROWS + 1))]
        for name, arity in words.inputs.items()
    }


def _chooser(draw: st.DrawFn) -> Choose:
    return lambda size: draw(st.integers(0, size - 1))


@st.composite
def programs(draw: st.DrawFn) -> ir.CheckedProgram:
    """A program over the inputs."""
    case = draw_program(_chooser(draw))
    assume(case)
    assert case
    return case


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    """Rows of the inputs."""
    return draw_facts(_chooser(draw))


@st.composite
def shuffled(draw: st.DrawFn, original: ir.CheckedProgram) -> ir.CheckedProgram:
    """The program with its rules and the literals of its bodies in another order."""

    def body(literals: tuple[ir.CheckedLiteral, ...]) -> tuple[ir.CheckedLiteral, ...]:
        inner = [
            replace(literal, body=body(literal.body)) if isinstance(literal, ir.Without | ir.Fold) else literal
            for literal in draw(st.permutations(literals))
        ]
        return tuple(inner)

    strata = []
    for stratum in original.strata:
        changed = [replace(rule, body=body(rule.body)) for rule in draw(st.permutations(stratum.rules))]
        strata.append(replace(stratum, rules=tuple(changed)))
    return replace(original, strata=tuple(strata))


def short_budget() -> Budget:
    """The budget of a generated program.

    A rule that joins a relation with itself three times over says nothing more, and takes minutes.
    """
    return Budget(seconds=0.4)


def written(program: ir.CheckedProgram, facts: Facts) -> str:
    """Write the program and its facts as text, with the place of each literal."""
    rules = [f"{rule.span.line}: {_rule(rule)}" for stratum in program.strata for rule in stratum.rules]
    return "\n".join(["", *rules, *(f"{name}{row}" for name, rows in facts.items() for row in rows)])


def _rule(rule: ir.CheckedRule) -> str:
    return f"{rule.relation}({_terms(rule.arguments)}) :- {_body(rule.body)}."


def _body(body: Sequence[ir.CheckedLiteral]) -> str:
    return ", ".join(map(_literal, body))


def _literal(literal: ir.CheckedLiteral) -> str:
    match literal:
        case ir.Match(relation, arguments):
            return f"{relation}({_terms(arguments)})"
        case ir.Compare(comparator, left, right):
            return f"{_terms([left])} {comparator} {_terms([right])}{'  # ?' if literal.when_unknown else ''}"
        case ir.Call(builtin, inputs, outputs):
            return f"{_terms(outputs)} = {builtin}({_terms(inputs)})"
        case ir.Without(body):
            return f"not ({_body(body)})"
        case ir.Fold(function, terms, body, target):
            return f"{target.name} = {function}{{ {_terms(terms)} : {_body(body)} }}"


def _terms(terms: Sequence[ir.Pattern]) -> str:
    return ", ".join(
        "_" if term is None else term.name if isinstance(term, ir.Var) else repr(term.value) for term in terms
    )
