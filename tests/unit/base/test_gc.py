"""Pausing the garbage collector restores its state."""

from __future__ import annotations

import gc

import pytest

from datalog_gate.base.gc import paused


@pytest.mark.parametrize("on", [True, False])
def test_a_pause_leaves_the_collector_as_it_was(on: bool) -> None:
    states = []

    @paused()
    def failing() -> None:
        states.append(gc.isenabled())
        raise LookupError

    try:
        (gc.enable if on else gc.disable)()
        with pytest.raises(LookupError):
            failing()
        assert [*states, gc.isenabled()] == [False, on]
    finally:
        gc.enable()
