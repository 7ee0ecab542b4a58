"""Strata: their order, and recursions that are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.strata import stratify
from datalog_gate.base.diagnostics import Diagnostic, Span

X, Y, Z, N = ir.Var("x"), ir.Var("y"), ir.Var("z"), ir.Var("n")


def at(line: int, column: int) -> Span:
    return Span("r.dl", line, column, line, column + 1)


def rule(text: str, line: int) -> ir.CheckedRule:
    """The rule of ``p: q, not r, count s``: all relations have one column. A literal stands at ten times its number."""
    head, _, body = text.partition(":")
    literals: list[ir.CheckedLiteral] = []
    for number, word in enumerate(body.split(","), 1):
        *through, name = word.split()
        match = ir.Match(name, (X,), at(line, 10 * number))
        match through:
            case ["not"]:
                literals.append(ir.Without((match,), match.span))
            case ["count"]:
                literals.append(ir.Fold("count", (X,), (match,), N, match.span))
            case _:
                literals.append(match)
    return ir.CheckedRule(head, (X,), tuple(literals), at(line, 1))


def rules(*texts: str) -> list[ir.CheckedRule]:
    return [rule(text, line) for line, text in enumerate(texts, 1)]


def test_the_message_of_a_long_cycle_is_cut() -> None:
    names = [f"p{at:03}" for at in range(200)]
    _, diagnostics = stratify(rules(*(f"{name}: not {names[at - 1]}" for at, name in enumerate(names))))
    steps = [f"p{(200 - at) % 200:03} on not p{199 - at:03} (r.dl:{(200 - at) % 200 + 1}:10)" for at in range(50)]
    message = ", ".join(steps).replace("p000 on", "p000 depends on", 1) + ", and so on, 150 steps more"
    assert [diagnostic.message for diagnostic in diagnostics] == [message]


def test_what_is_read_comes_first_and_what_reads_itself_is_recursive() -> None:
    top, base, loop, back = checked = rules("top: not loop, base", "base: given", "loop: back, base", "back: loop")
    assert stratify(checked) == (
        (
            ir.Stratum(("base",), (base,), False),
            ir.Stratum(("back", "loop"), (loop, back), True),
            ir.Stratum(("top",), (top,), False),
        ),
        (),
    )


CYCLES: dict[str, tuple[tuple[str, ...], tuple[tuple[str, Span], ...]]] = {
    "its own negation": (("p: not p",), (("p depends on not p (r.dl:1:10)", at(1, 10)),)),
    "its own aggregate": (("p: e, count p",), (("p depends on count of p (r.dl:1:20)", at(1, 20)),)),
    "one negation of two relations": (
        ("p: e, not q", "q: p"), (("p depends on not q (r.dl:1:20), q on p (r.dl:2:10)", at(1, 20)),)),
    "two negations of one cycle": (
        ("p: not q", "q: not p"), (("p depends on not q (r.dl:1:10), q on not p (r.dl:2:10)", at(1, 10)),)),
    "the shortest way back": (
        ("p: not q", "q: r", "r: s", "s: p", "q: s"),
        (("p depends on not q (r.dl:1:10), q on s (r.dl:5:10), s on p (r.dl:4:10)", at(1, 10)),)),
    "two cycles": (
        ("p: not q", "q: p", "r: not s, p", "s: r", "q: r"),
        (("p depends on not q (r.dl:1:10), q on p (r.dl:2:10)", at(1, 10)),
         ("r depends on not s (r.dl:3:10), s on r (r.dl:4:10)", at(3, 10)))),
    "a negation outside of the cycle": (("p: p, not e", "q: not p"), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", CYCLES)
def test_the_message_of_a_cycle_names_each_step(name: str) -> None:
    texts, expected = CYCLES[name]
    diagnostics = stratify(rules(*texts))[1]
    assert tuple((diagnostic.message, diagnostic.span) for diagnostic in diagnostics) == expected


PLUS = ir.Call("+", (X, ir.Const(1)), (Y,), at(1, 20))
COUNT = ir.Fold("count", (Z,), (ir.Match("e", (X, Z), at(1, 30)),), Y, at(1, 20))
LATER = ir.Match("e", (Z,), at(1, 30))
LOOP, OTHER = ir.Match("p", (X,), at(1, 10)), ir.Match("e", (X,), at(1, 10))
GROWING: dict[str, tuple[tuple[ir.CheckedLiteral, ...], ir.Var, str | None]] = {
    "a sum": ((LOOP, PLUS), Y, "+"),
    "a count": ((LOOP, COUNT), Y, "count"),
    "by an equation": ((LOOP, PLUS, ir.Compare("=", Z, Y, at(1, 30))), Z, "+"),
    "by two equations in any order": (
        (LOOP, PLUS, ir.Compare("=", N, Z, at(1, 40)), ir.Compare("=", Y, Z, at(1, 30))),
        N,
        "+",
    ),
    "by another builtin": ((LOOP, PLUS, ir.Call("abs", (Y,), (Z,), at(1, 20))), Z, "abs"),
    "not into the head": ((LOOP, PLUS), X, None),
    "not in a recursion": ((OTHER, PLUS), Y, None),
    "only tested": ((LOOP, PLUS, ir.Match("e", (Y,), at(1, 30))), Y, None),
    "compared, not made equal": ((LOOP, PLUS, LATER, ir.Compare("<", Y, Z, at(1, 40))), Z, None),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_computed_value_may_not_go_round(name: str) -> None:
    body, head, maker = GROWING[name]
    message = f"the result of {maker} feeds its own recursion, which may never end: p depends on p (r.dl:1:10)"
    advice = "compute it after the recursion, or match it in a relation that holds all values it can take"
    expected = (Diagnostic("value-growth", message, at(1, 20), advice),) if maker else ()
    assert stratify([ir.CheckedRule("p", (head,), body, at(1, 1))])[1] == expected


@pytest.mark.slow
def test_a_chain_of_ten_thousand_relations_is_no_depth() -> None:
    chain = [rule(f"p{number}: p{number + 1}", number + 1) for number in range(10_000)]
    strata, diagnostics = stratify(chain)
    assert ([stratum.relations for stratum in strata], diagnostics) == (
        [(f"p{number}",) for number in reversed(range(10_000))],
        (),
    )


@pytest.mark.slow
def test_a_cycle_of_ten_thousand_relations_is_one_stratum() -> None:
    cycle = [rule(f"p{number}: p{(number + 1) % 10_000}", number + 1) for number in range(10_000)]
    assert [len(stratum.relations) for stratum in stratify(cycle)[0]] == [10_000]


NAMES = "abcdef"
edges = st.lists(st.tuples(*[st.sampled_from(NAMES)] * 2, st.sampled_from(["", "not ", "count "])), max_size=12)


@given(edges)
def test_strata_are_the_components_in_order_of_what_they_read(edges: Sequence[tuple[str, str, str]]) -> None:
    defined = {head for head, _, _ in edges}
    steps = {(head, read): through for head, read, through in edges if read in defined}
    strata, wrong = stratify(rules(*(f"{head}: {through}{read}" for head, read, through in edges)))
    reached = _reached(defined, steps)
    assert sorted(name for stratum in strata for name in stratum.relations) == sorted(defined)
    for number, stratum in enumerate(strata):
        before = {name for earlier in strata[: number + 1] for name in earlier.relations}
        for name in stratum.relations:
            assert {other for other in defined if (name, other) in reached} <= before
            assert set(stratum.relations) == {name} | {
                other for other in defined if {(name, other), (other, name)} <= reached
            }
    assert bool(wrong) == any(through and (read, head) in reached | {(head, head)} for head, read, through in edges)


@given(st.data(), edges)
def test_the_order_of_rules_changes_nothing(data: st.DataObject, edges: Sequence[tuple[str, str, str]]) -> None:
    checked = rules(*(f"{head}: {through}{read}" for head, read, through in edges))
    assert stratify(data.draw(st.permutations(checked))) == stratify(checked)


def _reached(names: set[str], steps: Mapping[tuple[str, str], str]) -> set[tuple[str, str]]:
    reached = set(steps)
    for middle in sorted(names):
        reached |= {(name, other) for name in names for other in names if {(name, middle), (middle, other)} <= reached}
    return reached
