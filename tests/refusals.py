"""What a call that refuses its input says."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest

from datalog_gate.base.errors import InputError


def refusals(call: Callable[[], object], *fields: str) -> list[Any]:
    """The fields of each diagnostic, `code` or `span.line`: the one that is asked for, or a tuple of several."""
    with pytest.raises(InputError) as error:
        call()
    return [*map(attrgetter(*fields), error.value.diagnostics)]
