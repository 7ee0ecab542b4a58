"""Policies and unlocks, as the annotations of rules describe them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Literal as OneOf
from typing import get_args

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass

Level = OneOf["deny", "warn", "record"]
Action = OneOf["create", "update", "adopt", "restore", "delete", "suspend", "resume", "check", "snapshot", "rollback"]
LEVELS: tuple[Level, ...] = get_args(Level)
ACTIONS: tuple[Action, ...] = get_args(Action)
BUILDING = frozenset({"create", "update", "adopt", "restore"})
"""The actions that add or change resources. A policy judges these by default."""
CHANGING: tuple[Action, ...] = ("update", "restore")
"""The actions that change an existing stack."""
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
TEXTS = (
    "id", "message", "hint", "doc", "url", "owner", "subject", "worse", "preexisting", "on_unknown", "enforce_from",
)  # fmt: skip
LISTS = ("tags", "on", "key", "notify")
CHOICES = {"on": ACTIONS, "on_unknown": ("defer", "deny", "allow"), "preexisting": ("allow", "deny")}


@dataclass(frozen=True, slots=True)
class Policy:
    """A relation whose rows are violations."""

    id: str
    level: Level
    relation: str
    columns: tuple[str, ...]
    """The names of the head's variables, empty for another term."""
    message: str
    """The text with placeholders for columns: ``{server} is open``."""
    hint: str
    on: frozenset[str]
    on_unknown: str
    """What an undetermined violation does: defer, deny or allow."""
    subject: int | None
    """The position of the resource that is blamed; None if no column is a resource."""
    enforce_from: date | None
    """The first day on which it denies; it warns before."""
    texts: Mapping[str, str]
    lists: Mapping[str, tuple[str, ...]]
    """All attributes, by whether they are texts or lists."""
    span: Span
    """The head of the annotated rule."""


@dataclass(frozen=True, slots=True)
class Unlock:
    """A relation whose rows are the grants that unlock a service."""

    service: str
    relation: str
    span: Span
