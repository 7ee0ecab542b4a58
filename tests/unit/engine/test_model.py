"""Tables: rows in order of arrival, and their indexes."""

from __future__ import annotations

import pytest

from datalog_gate.base.values import Row
from datalog_gate.engine.least_model import Constants, IndexedTable

ROWS: list[Row] = [("a", 1, None), ("b", 1, 2), ("a", 2, 2), (None, 1, 2)]
LATER: list[Row] = [("b", 1, 3), (None, 1, 3)]


@pytest.mark.parametrize(
    ("constants", "keys", "expected"),
    [
        ((), (0,), {"a": [ROWS[0], ROWS[2]], "b": [ROWS[1], LATER[0]]}),
        ((), (1, 2), {(1, 2): [ROWS[1], ROWS[3]], (2, 2): [ROWS[2]], (1, 3): LATER}),
        (((1, 1),), (0,), {"a": [ROWS[0]], "b": [ROWS[1], LATER[0]]}),
        (((2, None),), (), [ROWS[0]]),
        (((0, None), (1, 1)), (2,), {2: [ROWS[3]], 3: [LATER[1]]}),
        (((0, "c"),), (1,), {}),
        ((), (), [*ROWS, *LATER]),
    ],
)
def test_an_index_leaves_out_nulls_and_takes_up_rows_that_come_later(
    constants: Constants, keys: tuple[int, ...], expected: object
) -> None:
    grown, whole = IndexedTable(ROWS), IndexedTable([*ROWS, *LATER])
    grown.index(constants, keys)
    grown.rows.update(dict.fromkeys(LATER))
    grown.extend(LATER)
    assert (grown.index(constants, keys), whole.index(constants, keys)) == (expected, expected)
    assert grown.indexed == {(constants, keys)}


@pytest.mark.parametrize(
    ("columns", "key", "expected"),
    [
        ((), (), ROWS),
        ((0,), ("a",), [ROWS[0], ROWS[2]]),
        ((0,), (None,), [ROWS[3]]),
        ((0, 1), (None, 1), [ROWS[3]]),
        ((0, 2), ("a", None), [ROWS[0]]),
        ((0, 1, 2), ROWS[1], [ROWS[1]]),
        ((0,), ("c",), []),
    ],
)
def test_a_lookup_finds_rows_by_what_they_hold_a_null_too(
    columns: tuple[int, ...], key: Row, expected: list[Row]
) -> None:
    assert list(IndexedTable(ROWS).lookup(columns, key)) == expected
