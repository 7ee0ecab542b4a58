"""The circuit breaker of calls to plugins."""

from __future__ import annotations

from threading import Thread

from datalog_gate.plugins.breaker import PAUSE, Breaker


def test_after_the_pause_one_of_many_threads_is_admitted() -> None:
    now = 100.0
    breaker = Breaker(lambda: now, limit=2)
    for _ in range(2):
        assert breaker.admits()
        breaker.failed()
    now += PAUSE - 0.1
    assert not breaker.admits()
    now += 0.1
    admitted: list[bool] = []
    threads = [Thread(target=lambda: admitted.append(breaker.admits())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(admitted) == [False] * 19 + [True]
    now += PAUSE  # it never said how it ended
    assert [breaker.admits(), breaker.admits()] == [True, False]
    breaker.succeeded()
    assert [breaker.admits(), breaker.admits()] == [True, True]
