"""Texts with unknown parts that differ whatever these are."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalog_gate.base.text_parts import differ
from datalog_gate.base.unknown import call
from datalog_gate.base.values import Unknown, Value
from datalog_gate.template.functions.pure import function
from tests.expressions import worded

E, F = (call("get_param", name, "web", {}, None) for name in "ef")


def join(*items: object, separator: str = "") -> Unknown:
    return call("list_join", [separator, [*items]], "web", {}, None)


def insert(template: str, **params: object) -> Unknown:
    return call("str_replace", {"template": template, "params": params}, "web", {}, None)


@pytest.mark.parametrize(
    ("left", "right", "different"),
    [
        (join("left", E, separator="-"), join("right", E, separator="-"), True),
        (join("left", E, separator="-"), join("right", F, separator="-"), True),
        (join(E, "-left"), join(F, "-right"), True),
        (join(E, "-a-", F), join(E, "-b-", F), True),
        (join(E, "-a-", F), join(F, "-b-", E), False),
        (join("a", E), join(E, "a"), False),
        (join("a", E), join(E, "aa"), True),
        (join("a", E), join(join(E), "a", F, "b"), True),
        (join("a", E), "b", True),
        (join("a", E, "a"), "a", True),
        (join("a", E, "a"), "aa", False),
        (insert("left-X", X=E), join("right-", F), True),
        (insert("XY-left", X=E, Y="Z"), join("right-", F), False),
        (insert("left-X", X=join("a", E)), join("left-b", F), True),
        (join("a", None, E), join("ab", E), True),
        (join("1", E), join(1, E), False),
        (join("a", E), 1, False),
        (join("a", E), E, False),
        (worded("u"), "a", False),
    ],
)
def test_texts_differ_if_no_unknown_part_can_make_them_equal(left: Value, right: Value, different: bool) -> None:
    assert (differ(left, right), differ(right, left)) == (different, different)


TEXTS = st.lists(st.sampled_from(["a", "b", "ab", E, F]), min_size=1, max_size=4)


@given(TEXTS, TEXTS)
def test_texts_that_differ_are_equal_for_no_value(left: list[object], right: list[object]) -> None:
    if differ(join(*left), join(*right)):
        compute = function("list_join", "2021-04-16", lambda _steps: None)
        assert compute
        for values in product(["", "a", "b", "aab"], repeat=2):
            known = dict(zip((E, F), values, strict=True))
            texts = [compute(["", [known.get(part, part) for part in parts]]) for parts in (left, right)]  # type: ignore[call-overload]
            assert texts[0] != texts[1]
