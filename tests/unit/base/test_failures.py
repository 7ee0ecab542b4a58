"""The log of unexpected exceptions."""

from __future__ import annotations

import logging
import re

import pytest

from datalog_gate.base.errors import EngineError
from datalog_gate.base.failures import log_failure

LOG = logging.getLogger(__name__)
SECRET = "hunter2"


def fail(error: Exception, cause: Exception | None = None) -> None:
    """Raise the error, because of the cause or while it is handled."""
    try:
        raise KeyError(SECRET)
    except KeyError:
        if cause:
            raise error from cause
        raise error  # noqa: B904 - the context is what is tested


@pytest.mark.parametrize(
    ("error", "cause", "expected"),
    [
        (ValueError(SECRET), None, ["KeyError", "ValueError"]),
        (ValueError(SECRET), TypeError(SECRET), ["TypeError", "ValueError"]),
        (OSError(28, "No space left on device", SECRET), None, ["KeyError", "OSError: No space left on device"]),
        (EngineError("the worker died"), None, ["KeyError", "EngineError: the worker died"]),
    ],
)
def test_a_failure_is_logged_with_its_frames_and_without_foreign_texts(
    caplog: pytest.LogCaptureFixture, error: Exception, cause: Exception | None, expected: list[str]
) -> None:
    try:
        fail(error, cause)
    except Exception:  # noqa: BLE001 - as its callers do
        log_failure(LOG, "the %s failed", "gate")
    head, *lines = caplog.messages[0].split("\n")
    assert (head, [line for line in lines if not line.startswith(" ")]) == ("the gate failed", expected)
    assert re.findall(r"in (\w+)\n", caplog.text)[-2:] == [
        "test_a_failure_is_logged_with_its_frames_and_without_foreign_texts",
        "fail",
    ]
    assert SECRET not in caplog.text
