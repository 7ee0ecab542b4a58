"""Strategies for checked programs and facts: recursion, negation, aggregates, nulls, kinds that look alike, unknowns
and builtins that fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar, get_args

from hypothesis import assume
from hypothesis import strategies as st

from datalog_gate.analysis.lowering import Draft, variables
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
from datalog_gate.analysis.safety import order
from datalog_gate.analysis.strata import stratify
from datalog_gate.catalogue.schema import Column, Relation
from datalog_gate.diagnostics import Span
from datalog_gate.language.ast import AggregateFunction, Comparator
from datalog_gate.values import TRUE, Kind, ResourceId, Row, Unknown, Value

VALUES: tuple[Value, ...] = (None, TRUE, 1, 2, "1", "b", ResourceId("b"), Unknown("u"))
INPUTS = {"edge": 2, "node": 1}
Facts = dict[str, list[Row]]
T = TypeVar("T")
X, Y, Z = Var("x"), Var("y"), Var("z")


def relation(name: str, arity: int) -> Relation:
    """A relation whose columns take anything."""
    return Relation(name, tuple(Column(f"c{at}", Kind.ANY) for at in range(arity)))


def place(line: int, column: int = 1) -> Span:
    """A place in a rule file."""
    return Span("rules.dl", line, column, line, column + 1)


def program(*strata: Stratum, inputs: Mapping[str, int] = INPUTS) -> CheckedProgram:
    """A checked program of these strata."""
    arities = dict(inputs)
    for stratum in strata:
        arities.update({rule.relation: len(rule.arguments) for rule in stratum.rules})
    return CheckedProgram({name: relation(name, arity) for name, arity in arities.items()}, frozenset(inputs), strata)


@dataclass(frozen=True)
class Vocabulary:
    """What a generated program may speak of. One that `fails` has literals that meet errors, and any `when_unknown`."""

    values: tuple[Value, ...]
    comparators: tuple[Comparator, ...]
    builtins: tuple[str, ...]
    functions: tuple[AggregateFunction, ...]
    inputs: Mapping[str, int]
    fails: bool = False
    positive: bool = False


EVERYTHING = Vocabulary(VALUES, ("=", "!=", "<", ">="), ("+", "/", "??"), get_args(AggregateFunction), INPUTS, True)


@dataclass
class Draw:
    """Draws bodies. `below` are finished relations, `own` those of the stratum."""

    draw: st.DrawFn
    words: Vocabulary
    below: dict[str, int]
    own: dict[str, int]
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def one(self, choices: Sequence[T]) -> T:
        return self.draw(st.sampled_from(choices))

    def place(self) -> Span:
        return place(next(self.numbers))

    def unsure(self) -> bool:
        return self.words.fails and self.draw(st.booleans())

    def match(self, scope: list[Var], names: Mapping[str, int]) -> Match:
        name = self.one(sorted(names))
        terms: list[Pattern] = [*scope, *scope, None, Const(self.one(self.words.values))]
        return Match(name, tuple(self.one(terms) for _ in range(names[name])), self.place())

    def body(self, bound: list[Var], depth: int) -> tuple[list[CheckedLiteral], list[Var]]:
        """A body in a safe order, and what it binds with what is bound."""
        known = list(bound)
        body: list[CheckedLiteral] = []
        scope = [*bound, *(Var(f"{name}{depth}.{next(self.numbers)}") for name in "xy")]
        kinds = ["compare", "alias", "call", "match"]
        kinds += ["test"] if self.words.fails else []
        kinds += ["not", "fold"] if depth < 2 and not self.words.positive else []

        def operand() -> Operand:
            choices: list[Operand] = [*known, *known, *map(Const, self.words.values)]
            return self.one(choices)

        for kind in ["match"] * self.one([1, 2]) + [self.one(kinds) for _ in range(self.one(range(4 - depth)))]:
            at, new = self.place(), Var(f"v{depth}.{next(self.numbers)}")
            match kind:
                case "match":
                    made = self.match(scope, self.below if depth else {**self.below, **self.own})
                    body.append(made)
                    known += dict.fromkeys(one for one in made.arguments if isinstance(one, Var) and one not in known)
                case "compare":
                    comparator = self.one(self.words.comparators)
                    body.append(Compare(comparator, operand(), operand(), at, self.unsure()))
                case "alias":
                    left, right = self.draw(st.permutations([new, operand()]))
                    body.append(Compare("=", left, right, at, self.unsure()))
                    scope.append(new)
                    known.append(new)
                case "test":
                    body.append(Call("starts_with", (operand(), operand()), (), at, self.unsure()))
                case "call":
                    outputs: list[Pattern] = [new, *known, *((None, Const(2)) if self.words.fails else ())]
                    target = self.one(outputs)
                    body.append(Call(self.one(self.words.builtins), (operand(), operand()), (target,), at))
                    known += [new] if target == new else []
                case "not":
                    body.append(Without(tuple(self.body(known, depth + 1)[0]), at))
                case "fold":
                    inner, inside = self.body(known, depth + 1)
                    local: list[Operand] = [Const(1), *(one for one in inside if one not in known)]
                    terms = tuple(self.one(local[-2:]) for _ in range(self.one([1, 2])))
                    used = {one for literal in inner for one in variables(literal)}
                    result = self.one([new, *(one for one in known if one not in used)])
                    body.append(Fold(self.one(self.words.functions), terms, tuple(inner), result, at))
                    known += [new] if result == new else []
        return body, known


@st.composite
def programs(draw: st.DrawFn, words: Vocabulary = EVERYTHING) -> CheckedProgram:
    """A program over the inputs, as the analysis would make it of its rules."""
    below = dict(words.inputs)
    drawn = Draw(draw, words, below, {})
    rules: list[CheckedRule] = []
    for name in ("p", "q", "r")[: draw(st.integers(1, 3))]:
        own = {name: draw(st.integers(1, 2)), **({name * 2: 1} if draw(st.booleans()) else {})}
        drawn.own = own if draw(st.booleans()) else {}
        for head_name in [one for one in own for _ in range(draw(st.integers(1, 2)))]:
            body, known = drawn.body([], 0)
            matched = {one for literal in body if isinstance(literal, Match) for one in literal.arguments}
            heads: list[Operand] = [one for one in known if not drawn.own or one in matched] or [Const(1)]
            head = tuple(drawn.one([*heads, *heads, Const(1)]) for _ in range(own[head_name]))
            rule = order(Draft(head_name, head, tuple(draw(st.permutations(body))), drawn.place(), {}), [])
            assume(rule)  # x = null, y = null, x = y is refused
            rules += [rule] if rule else []
        below.update(own)
    strata, wrong = stratify(rules)
    assert not wrong
    return program(*strata, inputs=words.inputs)


def facts(words: Vocabulary = EVERYTHING, more: tuple[Value, ...] = ()) -> st.SearchStrategy[Facts]:
    """Rows of the inputs."""
    value = st.sampled_from((*words.values, *more))
    return st.fixed_dictionaries(
        {name: st.lists(st.tuples(*[value] * arity), max_size=4) for name, arity in words.inputs.items()}
    )


@st.composite
def shuffled(draw: st.DrawFn, original: CheckedProgram) -> CheckedProgram:
    """The program with its rules and the literals of its bodies in another order."""

    def body(literals: tuple[CheckedLiteral, ...]) -> tuple[CheckedLiteral, ...]:
        inner = [
            replace(one, body=body(one.body)) if isinstance(one, Without | Fold) else one
            for one in draw(st.permutations(literals))
        ]
        return tuple(inner)

    strata = []
    for stratum in original.strata:
        changed = [replace(rule, body=body(rule.body)) for rule in draw(st.permutations(stratum.rules))]
        strata.append(replace(stratum, rules=tuple(changed)))
    return replace(original, strata=tuple(strata))


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Rules as text over e(_, _), n(_) and s(_): `or`, `not` and aggregates inside each other, and builtins. Many are
    refused when they are checked."""
    fresh = count(1)

    def one(*choices: str) -> str:
        return draw(st.sampled_from(choices))

    def literal(known: tuple[str, ...], depth: int) -> str:
        kinds = ["atom", "atom", "compare", "in", "builtin"] + ["not", "or", "fold"] * (depth > 0)
        x, y = one(*known), one(*known, "z", "_", "1")
        match one(*kinds):
            case "atom":
                return one(f"e({x}, {y})", f"e({y}, {x})", f"n({y})", f"s({x})")
            case "compare":
                return f"{x} {one('=', '!=', '<')} {one(*known, 'null', '1')}"
            case "in":
                return f'{x} in [{one("1", "null")}, "a"]'
            case "builtin":
                return one(
                    f'unpack_date({x} ?? "2027-03-01", {y}, z, _)',
                    f'matches({x} ?? "b", "a|0")',
                    f"z = {x} ?? 1",
                    f"{x} != null, z = {x} + 1",
                )
            case "not":
                return f"not ({body(known, depth - 1)})"
            case "or":
                return f"({body(known, depth - 1)} or {body(known, depth - 1)})"
        local, result = f"v{next(fresh)}", one(*known, f"w{next(fresh)}")
        inner = f"{one('n', 's')}({local}), {body((*known, local), depth - 1)}"
        return f"{result} = {one('count', 'sum', 'min', 'list')}{{ {local} : {inner} }}"

    def body(known: tuple[str, ...], depth: int) -> str:
        return ", ".join(literal(known, depth) for _ in range(draw(st.integers(1, 2))))

    return "\n".join(f"{name}(x, y) :- e(x, y), {body(('x', 'y'), 3)}." for name in ("p", "q"))
