"""The cache of what is made of programs."""

from __future__ import annotations

import gc
from dataclasses import replace
from weakref import ref

from datalog_gate.analysis.program import MAX_ENTRIES, CheckedProgram, ProgramCache
from tests.programs import program

WHOLE = program()


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
