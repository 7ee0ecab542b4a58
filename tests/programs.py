"""Strategies for checked programs and facts: recursion, negation, aggregates, nulls, kinds that look alike, unknowns
and builtins that fail."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

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
from datalog_gate.catalogue.schema import Column, Relation
from datalog_gate.diagnostics import Span
from datalog_gate.language.ast import AggregateFunction, Comparator
from datalog_gate.values import TRUE, Kind, ResourceId, Row, Unknown, Value

VALUES: tuple[Value, ...] = (None, TRUE, 1, 2, "1", "b", ResourceId("b"), Unknown("u"))
PLAIN: tuple[Value, ...] = (1, 2, "1")
INPUTS = {"edge": 2, "node": 1}
COMPARATORS: tuple[Comparator, ...] = ("=", "!=", "<", ">=")
FUNCTIONS: tuple[AggregateFunction, ...] = ("count", "sum", "min", "max", "avg", "list")
Facts = dict[str, list[Row]]
X, Y, Z = Var("x"), Var("y"), Var("z")


def relation(name: str, arity: int) -> Relation:
    """A relation whose columns take anything."""
    return Relation(name, tuple(Column(f"c{at}", Kind.ANY) for at in range(arity)))


def place(line: int, column: int = 1) -> Span:
    """A place in a rule file."""
    return Span("rules.dl", line, column, line, column + 1)


def program(*strata: Stratum, inputs: dict[str, int] = INPUTS) -> CheckedProgram:
    """A checked program of these strata."""
    arities = dict(inputs)
    for stratum in strata:
        arities.update({rule.relation: len(rule.arguments) for rule in stratum.rules})
    return CheckedProgram({name: relation(name, arity) for name, arity in arities.items()}, frozenset(inputs), strata)


@dataclass(frozen=True)
class Vocabulary:
    """What a generated body may speak of: `below` are finished relations, `own` those of its stratum."""

    below: dict[str, int]
    own: dict[str, int]
    values: tuple[Value, ...]
    positive: bool


@st.composite
def operands(draw: st.DrawFn, bound: tuple[Var, ...], words: Vocabulary) -> Operand:
    choices: list[Operand] = [*bound, *bound, *map(Const, words.values)]
    return draw(st.sampled_from(choices))


@st.composite
def matches(draw: st.DrawFn, names: dict[str, int], scope: tuple[Var, ...], words: Vocabulary, line: int) -> Match:
    name = draw(st.sampled_from(sorted(names)))
    terms: list[Pattern] = [*scope, *scope, None, Const(draw(st.sampled_from(words.values)))]
    return Match(name, tuple(draw(st.sampled_from(terms)) for _ in range(names[name])), place(line))


@st.composite
def inner_bodies(
    draw: st.DrawFn, bound: tuple[Var, ...], words: Vocabulary, line: int, depth: int
) -> tuple[CheckedLiteral, ...]:
    """The body of a negation or an aggregate: its first literal binds the local variable, which it needs no more."""
    local = Var(f"local#{line}.{depth}")
    name = draw(st.sampled_from(sorted(words.below)))
    rest: list[Pattern] = [*bound, None]
    arguments = (local, *(draw(st.sampled_from(rest)) for _ in range(words.below[name] - 1)))
    body: list[CheckedLiteral] = [Match(name, arguments, place(line, 10 * depth))]
    if draw(st.booleans()):
        left, right = local, draw(operands(bound, words))
        comparator = draw(st.sampled_from(COMPARATORS))
        body.append(Compare(comparator, left, right, place(line, 10 * depth + 1), draw(st.booleans())))
    if depth < 2 and draw(st.booleans()):
        nested = draw(inner_bodies((*bound, local), words, line, depth + 1))
        body.append(Without(nested, place(line, 10 * depth + 2)))
    return tuple(draw(st.permutations(body)))


@st.composite
def rules(draw: st.DrawFn, name: str, arity: int, words: Vocabulary, line: int) -> CheckedRule:
    scope = (X, Y, Z)
    everything = {**words.below, **words.own}
    body: list[CheckedLiteral] = [draw(matches(words.below, scope, words, line))]
    if draw(st.booleans()):
        body.append(draw(matches(everything, scope, words, line + 1)))
    matched = {one for literal in body if isinstance(literal, Match) for one in literal.arguments}
    bound = tuple(sorted((one for one in matched if isinstance(one, Var)), key=lambda var: var.name))
    from_rows = bound
    for at in range(line + 2, line + 2 + draw(st.integers(0, 3))):
        kind = draw(
            st.sampled_from(["compare", "test", "call", "equation", *(() if words.positive else ("not", "fold"))])
        )
        left, right = draw(operands(bound, words)), draw(operands(bound, words))
        unsure = draw(st.booleans())
        new = Var(f"v{at}")
        match kind:
            case "compare":
                comparator = draw(st.sampled_from(COMPARATORS))
                if comparator == "=" and not set(from_rows) >= {one for one in (left, right) if isinstance(one, Var)}:
                    comparator = "!="  # a value that is computed has no other equation that might bind it
                body.append(Compare(comparator, left, right, place(at), unsure))
            case "test":
                body.append(Call("starts_with", (left, right), (), place(at), unsure))
            case "call":
                output = draw(st.sampled_from([new, None, Const(2), *bound]))
                body.append(Call(draw(st.sampled_from(["+", "/", "??"])), (left, right), (output,), place(at)))
                bound = (*bound, new) if output == new else bound
            case "equation":
                first, second = (new, left) if draw(st.booleans()) else (left, new)
                body.append(Compare("=", first, second, place(at), unsure))
                bound = (*bound, new)
            case "not":
                body.append(Without(draw(inner_bodies(bound, words, at, 0)), place(at)))
            case "fold":
                inside = draw(inner_bodies(from_rows, words, at, 0))
                terms = draw(st.sampled_from([(Var(f"local#{at}.0"),), (Const(1), Var(f"local#{at}.0"))]))
                body.append(Fold(draw(st.sampled_from(FUNCTIONS)), terms, inside, new, place(at)))
                bound = (*bound, new)
    heads: list[Operand] = [*(from_rows if words.own else bound), Const(1)]
    arguments = tuple(draw(st.sampled_from(heads)) for _ in range(arity))
    return CheckedRule(name, arguments, tuple(draw(st.permutations(body))), place(line))


@st.composite
def programs(draw: st.DrawFn, values: tuple[Value, ...] = VALUES, positive: bool = False) -> CheckedProgram:
    """A stratified program over `INPUTS`. One that is `positive` has neither negation nor aggregates."""
    below = dict(INPUTS)
    strata: list[Stratum] = []
    line = 1
    for number in range(draw(st.integers(1, 3))):
        own = {f"p{number}": draw(st.integers(1, 2))}
        recursive = draw(st.booleans())
        if recursive and draw(st.booleans()):
            own[f"q{number}"] = 1
        words = Vocabulary(below, own if recursive else {}, values, positive)
        made: list[CheckedRule] = []
        for name, arity in own.items():
            for _ in range(draw(st.integers(1, 2))):
                made.append(draw(rules(name, arity, words, line)))
                line += 10
        strata.append(Stratum(tuple(own), tuple(made), recursive))
        below = {**below, **own}
    return program(*strata)


def facts(values: tuple[Value, ...] = VALUES) -> st.SearchStrategy[Facts]:
    """Rows of `INPUTS`."""
    value = st.sampled_from(values)
    return st.fixed_dictionaries(
        {name: st.lists(st.tuples(*[value] * arity), max_size=5) for name, arity in INPUTS.items()}
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
