"""Dataclasses that take a tenth of the time to define.

The standard library compiles six functions for each class, a third of the time of all imports. This module compiles
only `__init__`, once for all classes that differ in nothing but the names of fields. The fields are those of the
standard library, so that its `fields`, `replace` and `asdict` take these classes too.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field
from functools import lru_cache
from operator import attrgetter
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    EXAMPLE = dataclasses.make_dataclass("EXAMPLE", ["field"], namespace={"__doc__": "Else it is generated."})
    """What the standard library notes on a class, beside its fields, is that of this one."""

    def dataclass(*, frozen=False, eq=True, slots=False, weakref_slot=False, kw_only=False):
        """`dataclasses.dataclass`, but for `order`. Only the type checker sees to it that a `frozen` one stays as it
        is: the functions for it were the most to compile, and made each value slower to make."""

        def define(cls):
            fields = _collect(cls, kw_only)
            given = [field for field in fields.values() if not field.kw_only]
            named = [field for field in fields.values() if field.kw_only]
            methods = {
                "__init__": _fill(cls, given, named),
                "__repr__": _write([field.name for field in fields.values() if field.repr]),
            }
            if eq:
                compared = _reader([field.name for field in fields.values() if field.compare])
                methods["__eq__"] = _compare(compared)
                methods["__hash__"] = (lambda self: hash(compared(self))) if frozen else None
            members = {
                "__dataclass_fields__": fields,
                "__dataclass_params__": EXAMPLE.__dataclass_params__,
                "__match_args__": tuple([field.name for field in given if field.init]),
                **{name: method for name, method in methods.items() if cls.__dict__.get(name) is None},
            }
            return _with_slots(cls, members, weakref_slot) if slots else _with_members(cls, members)

        return define

    def _collect(cls, kw_only):
        """The fields of a class and of those that it extends, by name."""
        kind = EXAMPLE.__dataclass_fields__["field"]._field_type
        fields = {}
        for base in reversed(cls.__mro__):
            fields |= base.__dict__.get("__dataclass_fields__", {})
        for name, annotation in cls.__annotations__.items():
            if annotation == "KW_ONLY":
                kw_only = True
                continue
            value = cls.__dict__.get(name, MISSING)
            field = value if isinstance(value, Field) else dataclasses.field(default=value)
            field.name, field.type, field._field_type = name, annotation, kind
            if field.kw_only is MISSING:
                field.kw_only = kw_only
            fields[name] = field
        return fields

    def _fill(cls, given, named):
        """An `__init__` that takes some fields by position, and some by name only."""
        fields = [*given, *named]
        given, named = ({field.name: field for field in part if field.init} for part in (given, named))
        generic = {field.name: f"f{at}" for at, field in enumerate(fields)}
        taken = [*[generic[name] for name in given], *(["*"] if named else ()), *[generic[name] for name in named]]
        known = {"missing": MISSING}
        lines = [line for field in fields if (line := _assign(field, generic[field.name], known))]
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        code = _compile(f"def __init__(self, {', '.join(taken)}): {'; '.join(lines) or 'pass'}")
        real = {short: name for name, short in generic.items()}
        code = code.replace(
            co_names=tuple([real.get(name, name) for name in code.co_names]),
            co_varnames=tuple([real.get(name, name) for name in code.co_varnames]),
        )
        method = FunctionType(code, known, "__init__", tuple(_defaults(given).values()))
        method.__kwdefaults__ = _defaults(named)
        method.__qualname__ = f"{cls.__qualname__}.__init__"
        return method

    def _assign(field, name, known):
        """The statement that sets a field of a generic name, whose default is added to the names that are known."""
        if field.default_factory is not MISSING:
            known[f"make_{name}"] = field.default_factory
            return f"self.{name} = make_{name}()" + (f" if {name} is missing else {name}" if field.init else "")
        if field.init:
            return f"self.{name} = {name}"
        if field.default is not MISSING:
            known[f"default_{name}"] = field.default
            return f"self.{name} = default_{name}"
        return ""

    @lru_cache
    def _compile(source):
        """The code of a function, the same for all classes that differ only in the names of fields."""
        return compile(source, "<record>", "exec").co_consts[0]

    def _defaults(fields):
        """The defaults of parameters. The one of a factory is that none is given."""
        return {
            name: field.default
            for name, field in fields.items()
            if field.default is not MISSING or field.default_factory is not MISSING
        }

    def _with_slots(cls, members, weakref_slot):
        fields = members["__dataclass_fields__"]
        inherited = {
            name
            for base in cls.__mro__
            for name, value in base.__dict__.items()
            if isinstance(value, MemberDescriptorType)
        }
        names = [name for name in fields if name not in inherited]
        members = {**cls.__dict__, **members, "__slots__": (*names, "__weakref__") if weakref_slot else names}
        for name in (*fields, "__dict__", "__weakref__"):
            members.pop(name, None)
        made = type(cls)(cls.__name__, cls.__bases__, members)
        made.__qualname__ = cls.__qualname__
        return made

    def _with_members(cls, members):
        for name, value in members.items():
            setattr(cls, name, value)
        for name, field in members["__dataclass_fields__"].items():
            if isinstance(cls.__dict__.get(name), Field):
                delattr(cls, name)
                if field.default is not MISSING:
                    setattr(cls, name, field.default)
        return cls

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
