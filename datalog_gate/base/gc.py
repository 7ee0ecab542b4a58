"""A pause of Python's garbage collector.

It is for functions that make many values without cycles.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Collect no cycles meanwhile: a collection for every few hundred values walks over all that are there, which for a
    large stack is a third of the time. A thread that ends its pause ends that of all."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
