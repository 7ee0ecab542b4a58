"""A pause of Python's garbage collector.

It is for functions that make many values without cycles.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Pause the collector of cycles. It runs for every few hundred values and visits all existing ones, which takes a
    third of the time for a large stack. If a thread ends its pause, it ends that of all threads."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
