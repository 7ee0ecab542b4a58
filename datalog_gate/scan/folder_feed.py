"""The templates in a folder, as stacks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from datalog_gate.base.errors import InputError
from datalog_gate.files.discovery import discover_templates
from datalog_gate.files.templates import resolve, root_name
from datalog_gate.scan.feed import Item, StackEntry, TemplateFiles, Unchanged, Unread


class FolderFeed:
    """The templates below a folder by their paths in it, as `files/discovery.py` finds them. See `Feed`.

    `known` is the listing that the store has of each root: the digest of all that the template reads. A folder that
    can't be listed is yielded as unread, and then no stack counts as gone. So is a root that the store has from one of
    the `others`, a folder in which it still is. Errors: InputError without a folder.
    """

    def __init__(self, folder: Path, known: Mapping[str, str | None], others: Mapping[str, str] = {}) -> None:
        self._given, self._folder, self._known, self._others = folder, resolve(folder), known, others
        self.total: int | None = None
        self.whole = False

    def __iter__(self) -> Iterator[Item]:
        if not self._folder.is_dir():
            raise InputError.of(f"{self._given} is not a folder")
        discovery = discover_templates(self._folder)
        self.total = len(discovery.templates) + len(discovery.unreadable)
        above = os.path.join(self._folder, "")
        for template in discovery.templates:
            root = template.path.removeprefix(above)
            if other := self._others.get(root):
                why = f"the store has the template of this name in {other}: give each folder a --store of its own"
                yield Unread(root, why)
                continue
            listing = sha256(json.dumps(template.files, sort_keys=True).encode()).hexdigest()
            if self._known.get(root) == listing:
                yield Unchanged(root)
                continue
            source = TemplateFiles(
                template=template.source,
                environments=template.environments,
                files_root=str(self._folder),
                texts=dict(template.files),
            )
            yield StackEntry(root, root_name(Path(template.source)), None, source, listing=listing)
        for path in discovery.unreadable:
            why = "the file can't be read" if path.is_file() else "the folder can't be listed"
            yield Unread(path.relative_to(self._folder).as_posix(), why)
        self.whole = not discovery.unreadable
