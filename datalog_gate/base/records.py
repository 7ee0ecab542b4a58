"""Dataclasses that take a fourth of the time to define.

That of the standard library compiles six functions for each class, which was a third of the time of all imports. Here
it compiles `__init__` alone.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen=False, eq=True, **options):
        """`dataclasses.dataclass`, but for `order`. Only the type checker sees to it that a `frozen` one stays as it
        is: the functions for it were the most to compile, and made each value slower to make."""

        def define(cls):
            cls = dataclasses.dataclass(cls, eq=False, repr=False, **options)
            fields = dataclasses.fields(cls)
            methods = {"__repr__": _write([field.name for field in fields if field.repr])}
            if eq:
                compared = _reader([field.name for field in fields if field.compare])
                methods["__eq__"] = _compare(compared)
                methods["__hash__"] = (lambda self: hash(compared(self))) if frozen else None
            for name, method in methods.items():
                if name not in cls.__dict__ or cls.__dict__[name] is None:
                    setattr(cls, name, method)
            return cls

        return define

    def _reader(names):
        return attrgetter(*names) if names else lambda _: ()

    def _compare(compared):
        def __eq__(self, other):  # noqa: N807
            return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

        return __eq__

    def _write(names):
        def __repr__(self):  # noqa: N807
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

        return __repr__
