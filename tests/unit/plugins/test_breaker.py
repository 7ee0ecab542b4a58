"""The circuit breaker of calls to plugins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from datalog_gate.plugins.breaker import PAUSE, Guard, NotAskedError


def is_asked(guard: Guard) -> bool:
    """Whether a plugin that always fails is asked."""
    try:
        return guard(5.0, lambda: bool(1 / 0))
    except NotAskedError:
        return False
    except ZeroDivisionError:
        return True


def test_after_the_pause_one_of_many_threads_asks_until_a_call_succeeds() -> None:
    now = 100.0
    guard = Guard("edge", lambda: now)
    assert [is_asked(guard) for _ in range(6)] == [True] * 5 + [False]
    now += PAUSE - 0.1
    assert not is_asked(guard)
    now += 0.1
    with ThreadPoolExecutor(20) as pool:
        assert sorted(pool.map(is_asked, [guard] * 20)) == [False] * 19 + [True]
    now += PAUSE
    assert guard(5.0, lambda: "held") == "held"
    assert [is_asked(guard) for _ in range(5)] == [True] * 5
