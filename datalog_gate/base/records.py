"""Dataclasses that take a tenth of the time to define.

The standard library compiles six functions for each class, a third of the time of all imports: a cold start takes 40 ms
longer with it. This module compiles only `__init__`, once for all classes that differ in nothing but the names of
fields. It does not import `dataclasses`, which brings `inspect` and `ast`; when that is used after all, its `fields`,
`replace` and `asdict` take these classes too. Structs of msgspec make no decision measurably faster, take 23 ms to
import, and can't leave a field out of the comparison.

A `frozen` record is frozen if the environment has DATALOG_GATE_FROZEN when this module is imported, as in all tests.
Elsewhere only the type checker sees to it: it would make each value slower to make.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from os import environ
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import Field as Field
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import replace as replace
else:
    MISSING = object()
    ENFORCED = "DATALOG_GATE_FROZEN" in environ
    """Whether frozen records are frozen."""

    class Field:
        """A field of a class: its name and type, and what `field` was given for it."""

        __slots__ = ("compare", "default", "default_factory", "init", "kw_only", "metadata", "name", "repr", "type")

        def __init__(self, default, default_factory, init, repr, compare, metadata, kw_only):
            self.default, self.default_factory, self.metadata = default, default_factory, metadata or {}
            self.init, self.repr, self.compare, self.kw_only = init, repr, compare, kw_only

    def field(
        *,
        default=MISSING,
        default_factory=MISSING,
        init=True,
        repr=True,
        compare=True,
        metadata=None,
        kw_only=MISSING,
    ):
        """`dataclasses.field`, but for `hash`."""
        return Field(default, default_factory, init, repr, compare, metadata, kw_only)

    def fields(record):
        """`dataclasses.fields`."""
        return tuple(_fields_of(record).values())

    def replace(record, /, **changes):
        """`dataclasses.replace`."""
        for name, described in _fields_of(record).items():
            if described.init and name not in changes:
                changes[name] = getattr(record, name)
        return record.__class__(**changes)

    def _fields_of(record):
        """The fields of a class of this module or of the standard library, by name."""
        return getattr(record, "__record_fields__", None) or record.__dataclass_fields__

    def dataclass(*, frozen=False, eq=True, slots=False, weakref_slot=False, kw_only=False):
        """`dataclasses.dataclass`, but for `order`, and for `frozen` as above."""

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
            if frozen and ENFORCED:
                methods |= {"__setattr__": _set_once, "__delattr__": _keep}
            members = {
                "__record_fields__": fields,
                "__dataclass_fields__": STANDARD,
                "__match_args__": tuple([field.name for field in given if field.init]),
                **{name: method for name, method in methods.items() if cls.__dict__.get(name) is None},
            }
            return _with_slots(cls, members, weakref_slot) if slots else _with_members(cls, members)

        return define

    def _collect(cls, kw_only):
        """The fields of a class and of those that it extends, by name."""
        fields = {}
        for base in reversed(cls.__mro__):
            fields |= base.__dict__.get("__record_fields__", {})
        for name, annotation in cls.__annotations__.items():
            if annotation == "KW_ONLY":
                kw_only = True
                continue
            value = cls.__dict__.get(name, MISSING)
            described = value if isinstance(value, Field) else field(default=value)
            described.name, described.type = name, annotation
            if described.kw_only is MISSING:
                described.kw_only = kw_only
            fields[name] = described
        return fields

    class _Standard:
        """The fields of a class as the standard library notes them."""

        def __get__(self, record, cls):
            return _to_standard(cls)

    STANDARD = _Standard()

    @cache
    def _to_standard(cls):
        import dataclasses

        described = []
        for field in cls.__record_fields__.values():
            given = {name: getattr(field, name) for name in ("init", "repr", "compare", "kw_only", "metadata")}
            for name in ("default", "default_factory"):
                given |= {name: getattr(field, name)} if getattr(field, name) is not MISSING else {}
            described.append((field.name, field.type, dataclasses.field(**given)))
        made = dataclasses.make_dataclass(cls.__name__, described, init=False, repr=False, eq=False)
        return made.__dataclass_fields__

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

    @cache
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

    def _set_once(self, name, value):
        """Give a field its first value, as `__init__` and `copy` do."""
        has_slot = isinstance(getattr(type(self), name, None), MemberDescriptorType)
        has_value = hasattr(self, name) if has_slot else name in self.__dict__
        if has_value or name not in self.__record_fields__:
            raise AttributeError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def _keep(self, name):  # noqa: ARG001
        raise AttributeError(f"cannot delete field {name!r}")

    def _with_slots(cls, members, weakref_slot):
        fields = members["__record_fields__"]
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
        for name, field in members["__record_fields__"].items():
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
