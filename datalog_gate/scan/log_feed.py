"""The stacks in a decision log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.scan.feed import Gone, Item, StackEntry, Unchanged, Unread, is_updated

REMOVING = ("delete", "abandon")
"""The actions after which a stack is no longer in Heat."""


class LogFeed:
    """The stacks in a decision log, each as its last successful operation left it. See `Feed`. The log may be joined
    from those of several hosts: the last operation is the one with the latest time. One that is older than that of the
    `known` listing changes nothing.

    A stack is named by project and name, ``p1/web``, since its id is not known before it is created. A stack counts as
    gone if its deletion passed, and never because the log does not have it: a log knows only its own time. What passed
    without being judged is unread, since its record has no definition. Lines that are no record are ignored.

    With `since` only stacks are yielded whose last operation was then or later.
    """

    whole = False

    def __init__(
        self,
        records: Iterable[object],
        known: Mapping[str, str | None],
        since: datetime | None = None,
    ) -> None:
        self._records, self._known, self._since = records, known, since
        self.total: int | None = None

    def __iter__(self) -> Iterator[Item]:
        last: dict[str, Mapping[str, Any]] = {}
        for record in self._records:
            if isinstance(record, Mapping) and _has_passed(record):
                root = f"{record['project']}/{record['stack_name']}"
                if root not in last or last[root]["time"] <= record["time"]:
                    last[root] = record
        if self._since:
            last = {root: record for root, record in last.items() if is_updated(record["time"], self._since)}
        self.total = len(last)
        for root, record in last.items():
            yield self._item(root, record)

    def _item(self, root: str, record: Mapping[str, Any]) -> Item:
        listing = f"{record['time']} {record['id']}"
        if (self._known.get(root) or "") >= listing:  # a listing begins with its time
            return Unchanged(root)
        if record["action"] in REMOVING:
            return Gone(root)
        if "inputs" not in record:
            return Unread(root, f"{record['action']} passed without being judged: {record.get('unjudged')}")
        inputs = record["inputs"]
        return StackEntry(
            root=root,
            name=inputs["stack_name"],
            project=record["project"],
            source=StackDefinition.from_json(inputs["definition"]),
            updated=record["time"],
            caller=inputs["caller"],
            listing=listing,
        )


def _has_passed(record: Mapping[str, Any]) -> bool:
    """Whether a record is of an operation that Heat was let do. One without a judgement that concerns no definition, as
    a suspension, says nothing of the stack."""
    if record["kind"] != "decision" or record["dry_run"]:
        return False
    if record["action"] in REMOVING:
        return bool(record["verdict"] == "allowed")
    return bool(record["verdict"] == "allowed" and ("inputs" in record or record.get("unjudged")))
