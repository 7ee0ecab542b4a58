"""A cache on disk of policy sets: rules are checked once.

A file holds the result of `load` as JSON: texts, numbers and constructors of a fixed list of classes. Its name is the
digest of the rules, the code and the catalogue. Invalid files, and those of other users, are ignored. Pickle would run
code of a file, and a damaged file of marshal can crash the process.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

from datalog_gate import __version__
from datalog_gate.analysis import column_reads
from datalog_gate.analysis.policy import Policy, Unlock
from datalog_gate.analysis.program import (
    Call,
    CheckedProgram,
    CheckedRule,
    Compare,
    Const,
    Fold,
    Match,
    Stratum,
    Var,
    Without,
)
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.gc import paused
from datalog_gate.base.records import fields
from datalog_gate.base.values import FALSE, TRUE, Boolean, Kind
from datalog_gate.decision.policy_set import PolicySet, RuleFile, texts
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import Column, Relation, RelationVersion

FORMAT = "datalog-gate/rules-cache/1"
MOST_FILES = 8
"""The maximum number of files; the oldest are deleted."""
ROOMS = ("analysis", "base", "decision", "language", "schema", "files")
"""The packages whose code determines the content of a file."""
CLASSES: tuple[type, ...] = (
    Span,
    Var,
    Const,
    Match,
    Compare,
    Call,
    Without,
    Fold,
    CheckedRule,
    Stratum,
    CheckedProgram,
    Column,
    Relation,
    RelationVersion,
    Policy,
    Unlock,
    Diagnostic,
)
"""The classes that a file may contain. An object is the number of its class and the fields for its constructor."""
TUPLE, FROZENSET, DICT, BOOLEAN, DECIMAL, DATE, KIND = range(-7, 0)
STORED = ("program", "policies", "unlocks", "warnings", "silenced", "digest", "reads", "cloud_wide", "inputs_alone")
"""The stored fields of a policy set; the others are the input."""


def find_cache_folder() -> Path | None:
    """The cache folder according to XDG; None without a home."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "datalog-gate" if os.path.isabs(base) else None


def load_cached(files: Sequence[RuleFile], load: Callable[[], PolicySet], folder: Path | None) -> PolicySet:
    """The policy set of rule files with the shipped catalogue, from the cache or loaded and stored there. Errors: those
    of `load`; none of the cache."""
    if folder is None:
        return load()
    path = folder / f"{_digest(files)}.json"
    text = _read_own(path)
    if text is not None:
        with suppress(ValueError, TypeError, LookupError, ArithmeticError, AssertionError, RecursionError):
            return decode(text, files)
    rules = load()
    with suppress(OSError, ValueError):
        _write(path, encode(rules))
    return rules


def _digest(files: Sequence[RuleFile]) -> str:
    parts = [FORMAT, __version__, sys.version, *_describe_code()]
    for file in files:
        given = (file.module, file.file, file.text, file.congress, file.title)
        parts.append(repr((*given, file.entries is None, file.limits_file, file.limits_text)))
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _describe_code() -> list[str]:
    """The size and time of each file of code and data involved. Python detects stale .pyc files in the same way."""
    package = Path(__file__).parents[1]
    described = []
    for room in ROOMS:
        for parent, _, names in os.walk(package / room):
            for name in sorted(names):
                if not name.endswith(".pyc"):
                    status = os.stat(os.path.join(parent, name))
                    described.append(f"{parent}/{name} {status.st_size} {status.st_mtime_ns}")
    return sorted(described)


def encode(rules: PolicySet) -> str:
    """A policy set as text. Errors: ValueError for data that a file can't hold."""
    encoder = _Encoder()
    root = [encoder.number(getattr(rules, name)) for name in STORED]
    root.append(encoder.number(dict(column_reads.read_columns(rules.program))))
    body = json.dumps([encoder.items, root], separators=(",", ":"))
    return f"{sha256(body.encode()).hexdigest()}\n{body}"


@paused()
def decode(text: str, files: Sequence[RuleFile]) -> PolicySet:
    """The policy set in a text. Errors: ValueError, TypeError, LookupError if it is invalid."""
    checksum, _, body = text.partition("\n")
    if sha256(body.encode()).hexdigest() != checksum:
        raise ValueError("the cache is damaged")
    items, root = json.loads(body)
    values = _decode(items)
    *stored, columns = [values[at] for at in root]
    rules = PolicySet(**dict(zip(STORED, stored, strict=True)), sources=texts(files), catalogue=SHIPPED)
    column_reads.remember(rules.program, columns)
    return rules


def _decode(items: Sequence[Any]) -> list[Any]:
    """The values of items: atoms, and objects built from earlier values."""
    values: list[Any] = []
    add, value_at = values.append, values.__getitem__
    for item in items:
        if type(item) is not list:
            add(item)
            continue
        code, *parts = item
        if code >= 0:
            add(CLASSES[code](*map(value_at, parts)))
        elif code == TUPLE:
            add(tuple(map(value_at, parts)))
        elif code == FROZENSET:
            add(frozenset(map(value_at, parts)))
        elif code == DICT:
            add({values[key]: values[value] for key, value in zip(parts[::2], parts[1::2], strict=True)})
        else:
            add(_PLAIN[code](parts[0]))
    return values


_PLAIN: Mapping[int, Callable[[Any], object]] = {
    BOOLEAN: (FALSE, TRUE).__getitem__,
    DECIMAL: Decimal,
    DATE: date.fromisoformat,
    KIND: Kind,
}
"""The constructors of the other objects, which have one part."""


class _Encoder:
    """Lists atoms and objects once, each after its parts."""

    def __init__(self) -> None:
        self.items: list[object] = []
        self._numbers: dict[object, int] = {}
        """By type and value, or by id."""
        self._kept: list[object] = []
        """The objects numbered by id, kept alive so that ids stay unique."""

    def number(self, value: Any) -> int:
        """The number of a value in the list. Errors: ValueError."""
        kind = type(value)
        if value is None or kind in (str, int, bool):
            key: object = (kind, value)
            item: object = value
        elif (key := id(value)) in self._numbers:
            return self._numbers[key]
        else:
            self._kept.append(value)
            item = self._take_apart(value)
        if key not in self._numbers:
            self._numbers[key] = len(self.items)
            self.items.append(item)
        return self._numbers[key]

    def _take_apart(self, value: Any) -> list[object]:
        kind = type(value)
        if kind in _CODES:
            names = getattr(value, "_fields", ()) or [part.name for part in fields(value) if part.init]
            return [_CODES[kind], *[self.number(getattr(value, name)) for name in names]]
        if kind is tuple:
            return [TUPLE, *map(self.number, value)]
        if kind is frozenset:
            return [FROZENSET, *map(self.number, value)]
        if kind is dict:
            return [DICT, *[self.number(part) for pair in value.items() for part in pair]]
        match value:
            case Boolean():
                return [BOOLEAN, int(value.truth)]
            case Kind():
                return [KIND, int(value)]
            case Decimal():
                return [DECIMAL, str(value)]
            case date():
                return [DATE, value.isoformat()]
        raise ValueError(f"{kind.__name__} has no place in the cache")


_CODES = {cls: code for code, cls in enumerate(CLASSES)}


def _read_own(path: Path) -> str | None:
    """The text of a file that only this user can write; else None."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), encoding="ascii") as file:
            status = os.fstat(file.fileno())
            if (
                status.st_uid != os.geteuid()
                or stat.S_IMODE(status.st_mode) & 0o077
                or not stat.S_ISREG(status.st_mode)
            ):
                return None
            return file.read()
    except (OSError, ValueError):
        return None


def _write(path: Path, text: str) -> None:
    """Write a file atomically, readable only by this user, and delete the oldest files beyond `MOST_FILES`."""
    from tempfile import NamedTemporaryFile

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile("w", encoding="ascii", dir=path.parent, suffix=".tmp", delete=False) as file:
        try:
            file.write(text)  # a temporary file has the mode 0600
            file.close()
            os.replace(file.name, path)
        except OSError:
            os.unlink(file.name)
            raise
    kept = sorted(path.parent.glob("*.json"), key=lambda old: old.stat().st_mtime_ns, reverse=True)
    for old in kept[MOST_FILES:]:
        old.unlink(missing_ok=True)
