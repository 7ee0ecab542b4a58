"""Slices of programs and their cache."""

from __future__ import annotations

import gc
from dataclasses import replace
from weakref import ref

from datalog_gate.analysis.program import MAX_ENTRIES, CheckedProgram, CheckedRule, Match, ProgramCache, Stratum
from datalog_gate.analysis.slices import derivable, layers, slice_for, slice_over
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.schema.declaration import RelationRef
from tests.programs import X, Y, place, program


def reading(name: str, *read: str) -> Stratum:
    body = tuple(Match(relation, (X, Y), place(1)) for relation in read)
    return Stratum((name,), (CheckedRule(name, (X, Y), body, place(1)),), name in read)


WHOLE = program(reading("a", "edge"), reading("b", "a", "wide"), reading("c", "c", "a"), reading("d", "b", "c"),
                inputs={"edge": 2, "wide": 2})  # fmt: skip


def parts(part: CheckedProgram) -> tuple[list[RelationRef], set[RelationRef]]:
    return [name for stratum in part.strata for name in stratum.relations], set(part.inputs)


def test_a_slice_has_the_rules_that_relations_depend_on() -> None:
    assert parts(slice_for(WHOLE, frozenset(("c",)))) == (["a", "c"], {"edge"})
    assert parts(slice_for(WHOLE, frozenset(("d", "edge")))) == (["a", "b", "c", "d"], {"edge", "wide"})
    assert parts(slice_for(WHOLE, frozenset())) == ([], set())


def test_a_slice_has_the_rules_that_read_only_some_inputs() -> None:
    assert parts(slice_over(WHOLE, frozenset(("edge",)))) == (["a", "c"], {"edge"})
    assert parts(slice_over(WHOLE, frozenset(("wide",)))) == ([], {"wide"})


def test_relations_may_have_rows_if_some_inputs_have() -> None:
    assert derivable(WHOLE, ["edge"]) == {"edge", "a"}
    assert derivable(WHOLE, ["edge", "wide", "c"]) == {"edge", "wide", "c", "a", "b", "d"}
    text = """relation edge(x: number). relation wide(x: number).
    fact(1). both(x) :- edge(x), wide(x). none(x) :- edge(x), not wide(x).
    either(x) :- edge(x). either(x) :- wide(x). all(n) :- n = count{ x : wide(x) }. all(n) :- fact(n), both(n).
    @deny("p", "{x}") p(x) :- none(x), either(x), all(x). @deny("q", "{x}") q(x) :- both(x).
    """
    loaded = load([RuleFile("m", "m.dl", text)]).program
    derived = {str(name) for name in derivable(loaded, ["m:edge"]) if name not in loaded.inputs}
    assert derived == {"m:fact", "m:none", "m:either", "m:all", "m:p"}


def test_layers_derive_each_stratum_once() -> None:
    assert list(map(parts, layers(WHOLE, [frozenset(("c",)), frozenset(("b", "c"))]))) == [
        (["a", "c"], {"edge"}),
        (["b"], {"a", "c", "wide"}),
        (["d"], {"b", "c"}),
    ]
    assert list(map(parts, layers(WHOLE, [frozenset(("a",))])))[1] == (["b", "c", "d"], {"a", "wide"})


def test_slices_are_cached() -> None:
    assert slice_for(WHOLE, frozenset(("c",))) is slice_for(WHOLE, frozenset(("c",)))
    assert slice_over(WHOLE, frozenset(("edge",))) is slice_over(WHOLE, frozenset(("edge",)))


def test_cached_values_are_freed_with_their_program() -> None:
    cache = ProgramCache[CheckedProgram]()

    def cache_parts() -> list[ref[CheckedProgram]]:
        whole = replace(WHOLE)
        part = cache.get(whole, "part", lambda: replace(WHOLE))
        assert cache.get(whole, "part", lambda: WHOLE) is part
        assert cache.get(whole, "itself", lambda: whole) is whole
        return [ref(whole), ref(part)]

    gc.freeze()  # so that the collector does not visit the objects of other tests
    references = cache_parts()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_cache_is_limited_for_each_program() -> None:
    cache = ProgramCache[int]()
    values = [cache.get(WHOLE, at, lambda at=at: at) for at in range(MAX_ENTRIES + 1)]  # type: ignore[misc]
    assert values == list(range(MAX_ENTRIES + 1))
    assert cache.get(WHOLE, 0, lambda: -1) == -1
    assert cache.get(WHOLE, MAX_ENTRIES, lambda: -1) == MAX_ENTRIES
