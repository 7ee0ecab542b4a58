"""Forms of rules, equal for rules that only are written otherwise."""

from __future__ import annotations

import pytest

from datalog_gate.analysis.check import check
from datalog_gate.examples.rule_forms import describe_relations
from datalog_gate.language.parser import parse

DECLARED = (
    "relation server(id: resource, name: string or null, flavor: string). relation tag(id: resource, tag: string).\n"
)
SERVER = "server(s, n, f)"
RECURSIVE = "q(s) :- heat:member(_, s). q(s) :- q(t), heat:requires(s, t). p(s) :- q(s)."
SAME = {
    "names, and the order of literals": (
        f"p(s) :- {SERVER}, not tag(s, _), n = f.",
        "p(a) :- c = b, server(name=b, flavor=c, id=a), not tag(a, _).",
    ),
    "the sides of comparisons": (
        "p(s) :- server(s, _, f), len(f) < 9.",
        "p(s) :- server(s, _, f), 9 > len(f).",
    ),
    "functions as literals, and as terms": (
        f'p(s, t) :- {SERVER}, t = lower(f), starts_with(trim(f), "a"), len(f) = len(t), t = n ?? "x".',
        f'p(s, v) :- {SERVER}, lower(f, v), trim(f, x), starts_with(x, "a"), len(f, y), len(v, z), y = z, '
        'u = v, u = n ?? "x".',
    ),
    "functions in an inner body": (
        "p(s) :- server(s, _, f), not (tag(s, t), lower(t) = f).",
        "p(s) :- server(s, _, f), not (tag(s, t), lower(t, x), x = f).",
    ),
    "a default that may be null": (
        "p(s, x) :- server(s, n, _), server(_, i, _), x = n ?? i.",
        "p(s, n ?? i) :- server(s, n, _), server(_, i, _).",
    ),
    "the result of an aggregate": (
        "p(s) :- server(s, _, _), n = count{ t : tag(s, t) }, n > 1.",
        "p(s) :- server(s, _, _), count{ tag : tag(s, tag) } > 1.",
    ),
    "a list at another place": (
        'p(s) :- server(s, _, f), f in ["a", "b"].',
        'q(x) :- heat:root(x).\n\np(s) :- f in ["b", "a"], server(s, _, f).',
    ),
    "a helper of another name": (
        "p(s) :- q(s, _). q(s, n) :- server(s, n, _).",
        "r(s, n) :- server(s, n, _). p(s) :- r(s, _).",
    ),
    "recursion": (
        RECURSIVE,
        "p(s) :- r(s). r(s) :- heat:requires(s, t), r(t). r(s) :- heat:member(_, s).",
    ),
    "alternatives": (f"p(s) :- {SERVER}, (n = f or n = null).", f"p(s) :- (n = null or f = n), {SERVER}."),
    "what only names tell apart": (
        "p(x, z) :- heat:requires(x, a), heat:requires(a, z), heat:requires(x, b), heat:requires(b, z), a != b.",
        "p(x, z) :- heat:requires(x, a), heat:requires(b, z), heat:requires(a, z), heat:requires(x, b), b != a.",
    ),
}
OTHER = {
    "a joined variable": (
        "p(x) :- heat:requires(x, y), heat:requires(y, z), z != x.",
        "p(x) :- heat:requires(x, y), heat:requires(x, z), z != y.",
    ),
    "the order of a comparison": (
        "p(s) :- server(s, _, f), len(f) < 9.",
        "p(s) :- server(s, _, f), len(f) > 9.",
    ),
    "a join with what may be null": (
        "p(s, k) :- server(s, n, _), server(_, i, _), server(_, k, _), k = n ?? i.",
        "p(s, k) :- server(s, n, _), server(_, i, _), server(_, _, _), k = n ?? i.",
    ),
    "a test for null": (
        'p(s) :- server(s, n, _), n = n, lower("a") = "b".',
        'p(s) :- server(s, _, _), lower("a") = "b".',
    ),
    "the rules of a helper": (
        f"p(s) :- q(s). q(s) :- {SERVER}, n = f.",
        f"p(s) :- q(s). q(s) :- {SERVER}, n != f.",
    ),
    "an item": ('p(s) :- server(s, _, f), f in ["a", "b"].', 'p(s) :- server(s, _, f), f in ["a", "c"].'),
    "the start of a recursion": (RECURSIVE, RECURSIVE.replace("member(_, s)", "member(s, _)")),
}


def forms(texts: tuple[str, str]) -> list[str]:
    """The form of `p` in both."""
    return [describe_relations(check([parse(DECLARED + text, "m.dl", "m")[0]]).program)["m:p"] for text in texts]


@pytest.mark.parametrize("case", SAME)
def test_rules_that_are_written_otherwise_have_the_same_form(case: str) -> None:
    old, new = forms(SAME[case])
    assert old == new


@pytest.mark.parametrize("case", OTHER)
def test_rules_that_mean_something_else_have_another_form(case: str) -> None:
    old, new = forms(OTHER[case])
    assert old != new
