"""Dataclasses that take a sixth of the time to define.

The standard library compiles six functions for each class, a third of the time of all imports. This one compiles only
`__init__`, once for all classes with the same number of fields, unless a field has a default factory.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen=False, eq=True, **options):
        """`dataclasses.dataclass`, but for `order`. Only the type checker sees to it that a `frozen` one stays as it
        is: the functions for it were the most to compile, and made each value slower to make."""

        def define(cls):
            is_plain = _is_plain(cls)
            cls = dataclasses.dataclass(cls, init=not is_plain, eq=False, repr=False, **options)
            fields = dataclasses.fields(cls)
            methods = {"__repr__": _write([field.name for field in fields if field.repr])}
            if is_plain:
                methods["__init__"] = _fill(cls, fields)
            if eq:
                compared = _reader([field.name for field in fields if field.compare])
                methods["__eq__"] = _compare(compared)
                methods["__hash__"] = (lambda self: hash(compared(self))) if frozen else None
            for name, method in methods.items():
                if name not in cls.__dict__ or cls.__dict__[name] is None:
                    setattr(cls, name, method)
            return cls

        return define

    def _is_plain(cls):
        """Whether `__init__` only takes each field."""
        fields = [field for base in cls.__mro__ for field in getattr(base, "__dataclass_fields__", {}).values()]
        fields += [value for value in vars(cls).values() if isinstance(value, dataclasses.Field)]
        taken = all(field.init and field.default_factory is dataclasses.MISSING for field in fields)
        return taken and not hasattr(cls, "__post_init__") and "__init__" not in vars(cls)

    def _fill(cls, fields):
        taken, named = ([field for field in fields if field.kw_only is kw_only] for kw_only in (False, True))
        names = tuple([field.name for field in (*taken, *named)])
        code = _filling(len(names)).replace(
            co_names=names, co_varnames=("self", *names), co_argcount=1 + len(taken), co_kwonlyargcount=len(named)
        )
        defaults = tuple([field.default for field in taken if field.default is not dataclasses.MISSING])
        method = FunctionType(code, {}, "__init__", defaults)
        method.__kwdefaults__ = {
            field.name: field.default for field in named if field.default is not dataclasses.MISSING
        }
        method.__qualname__ = f"{cls.__qualname__}.__init__"
        return method

    @lru_cache
    def _filling(count):
        """The code of ``self.a = a`` for that many fields, of any names."""
        names = [f"f{at}" for at in range(count)]
        methods = {"__doc__": "Else it would be the signature, which takes as long."}
        record = dataclasses.make_dataclass("_", names, namespace=methods, eq=False, repr=False)
        return record.__init__.__code__

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
