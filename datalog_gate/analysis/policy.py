"""Policies and unlocks, as the annotations of rules describe them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Literal as OneOf
from typing import get_args

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Row, Value

Level = OneOf["deny", "warn", "record"]
Action = OneOf["create", "update", "adopt", "restore", "delete", "suspend", "resume", "check", "snapshot", "rollback"]
LEVELS: tuple[Level, ...] = get_args(Level)
ACTIONS: tuple[Action, ...] = get_args(Action)
BUILDING = frozenset({"create", "update", "adopt", "restore"})
"""The actions that add or change resources. A policy judges these by default."""
CHANGING: tuple[Action, ...] = ("update", "restore")
"""The actions that change an existing stack."""
PLACEHOLDERS = {"message": re.compile(r"\{([^{}]*)\}"), "hint": re.compile(r"\{([A-Za-z_]\w*)\}")}
"""The names in the attributes that interpolate. A hint may also hold YAML, ``{get_param: size}``."""
TEXTS = {
    "id": "The id of the policy, `net.open_ssh`.",
    "message": "What is wrong, with `{column}` for columns of the head.",
    "hint": "What to change, with `{column}` too.",
    "doc": "Why there is the policy.",
    "url": "A page about it.",
    "owner": "Who answers for it.",
    "subject": "The column with the resource that is blamed (default: the first one of that kind).",
    "worse": "A column, and `up` or `down`: when a finding that was there is worse.",
    "preexisting": "`allow` or `deny` what an older state had already.",
    "on_unknown": "What an undetermined finding does: `defer`, `deny` or `allow`.",
    "enforce_from": "The day from which it denies, `2027-03-01`; it warns before.",
}
"""The attributes that are texts, with their meaning."""
LISTS = {
    "tags": "Words to select it by.",
    "on": "The actions that it judges (default: those that add or change resources).",
    "key": "The columns that say which finding it is.",
    "notify": "Who is told.",
}
"""The attributes that are lists of texts, with their meaning."""
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

    def only_warns_at(self, now: datetime) -> bool:
        """Whether `enforce_from` is still to come."""
        return self.enforce_from is not None and now.date() < self.enforce_from

    def format(self, attribute: OneOf["message", "hint"], row: Row, word: Callable[[Value], str]) -> str:
        """The message or hint for a row; `word` writes a value."""
        text = self.message if attribute == "message" else self.hint
        return PLACEHOLDERS[attribute].sub(lambda name: word(row[self.columns.index(name[1])]), text)


@dataclass(frozen=True, slots=True)
class Unlock:
    """A relation whose rows are the grants that unlock a service."""

    service: str
    relation: str
    span: Span
