"""The templates in a folder, as stacks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import chain
from pathlib import Path

from datalog_gate.base.errors import InputError
from datalog_gate.files.discovery import FileRecord, discover_templates
from datalog_gate.files.templates import resolve
from datalog_gate.scan.feed import Item, StackEntry, TemplateFiles, Unchanged, Unread


class FolderFeed:
    """The templates below a folder by their paths in it, as `files/discovery.py` finds them. See `Feed`.

    `known` is the listing that the store has of each root: the digest of all that the template reads. `records` are
    those that the store has of files; after the last item, `changed` has those to store instead, or None. A folder that
    can't be listed is yielded as unread, and then no stack counts as gone. So is a root that the store has from one of
    the `others`, a folder in which it still is. Errors: InputError without a folder.
    """

    def __init__(
        self,
        folder: Path,
        known: Mapping[str, str | None],
        others: Mapping[str, str] = {},
        records: Mapping[str, FileRecord] = {},
    ) -> None:
        self._given, self._folder, self._known, self._others = folder, resolve(folder), known, others
        self._records = records
        self.changed: dict[str, FileRecord | None] = {}
        self._parents: dict[str, str] = {}
        self.total: int | None = None
        self.whole = False

    def __iter__(self) -> Iterator[Item]:
        if not self._folder.is_dir():
            raise InputError.of(f"{self._given} is not a folder")
        discovery = discover_templates(self._folder, self._records)
        self.changed = dict.fromkeys(self._records.keys() - discovery.records.keys())
        for name, record in discovery.records.items():
            if record is not self._records.get(name):
                self.changed[name] = record if record.state else None
        self.total = len(discovery.templates) + len(discovery.unreadable)
        above = os.path.join(self._folder, "")
        for template in discovery.templates:
            root = template.path.removeprefix(above)
            if other := self._others.get(root):
                why = f"the store has the template of this name in {other}: give each folder a --store of its own"
                yield Unread(root, why)
                continue
            texts = {name: self._describe(name, digest) for name, digest in template.files.items()}
            parts = chain.from_iterable(sorted(texts.items()))
            listing = sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
            if self._known.get(root) == listing:
                yield Unchanged(root)
                continue
            source = TemplateFiles(
                template=template.source,
                environments=template.environments,
                files_root=str(self._folder),
                texts=texts,
            )
            yield StackEntry(root, template.stack_name, None, source, listing=listing)
        for path in discovery.unreadable:
            why = "the file can't be read" if path.is_file() else "the folder can't be listed"
            yield Unread(path.relative_to(self._folder).as_posix(), why)
        self.whole = not discovery.unreadable

    def _describe(self, path: str, digest: str) -> str:
        """The digest of a file, and what a link to it leads to, which places and names in facts depend on."""
        folder, name = os.path.split(path)
        if folder not in self._parents:
            self._parents[folder] = os.path.realpath(folder)
        if os.path.islink(path):
            return f"{digest} {os.path.realpath(path)}"
        return digest if self._parents[folder] == folder else f"{digest} {os.path.join(self._parents[folder], name)}"
