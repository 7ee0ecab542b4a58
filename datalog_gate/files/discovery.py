"""The search for the templates of a folder, with their environments.

A template is a file ``.yaml``, ``.yml``, ``.template`` or ``.json`` with a template version at its top, as Heat
requires. A template that another one, or its environment, nests or reads by `get_file` is judged as a part of it, not
by itself. A template ``web.yaml`` has the environments ``web.env`` and ``web.env.yaml`` beside it, if they exist; a
``template.yaml`` also ``env.yaml``. Hidden files and folders, and links to folders, are left out.

As in git's index, a file is not read again if its size, times and inode are those of its record. A program can set
`mtime` back, but not `ctime`.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, field
from datalog_gate.files.templates import MAX_BYTES, find_base, resolve, root_name, unreadable
from datalog_gate.stack.model import Data
from datalog_gate.template.dialect import VERSION_KEYS
from datalog_gate.template.document import read_document
from datalog_gate.template.environment import TEMPLATE_ENDINGS

ENDINGS = (".yaml", ".yml", ".template", ".json")
FOLDER_TEMPLATE = "template.yaml"
"""The template that represents its folder. Its stack gets the folder's name."""
FOLDER_ENVIRONMENT = "env.yaml"
"""Its environment, which `read_stack` reads with the folder."""
_VERSION = re.compile(rf"^(?:{'|'.join(VERSION_KEYS)})\s*:", re.MULTILINE)
_NAMES_FILES = ("get_file", ".yaml", ".template")
"""The words in texts that refer to files."""
GRAIN = 2_000_000_000
"""The grain of the coarsest clock of a file system, in nanoseconds: changes within it may leave the same times."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What a file held when it was read."""

    state: str
    """Its size, times and inode; empty if it had changed just before, since another change might leave the same."""
    digest: str
    """The SHA-256 of its bytes."""
    is_template: bool = False
    names: tuple[str, ...] | None = None
    """The names of files in its text; None if they were not needed."""


@dataclass(frozen=True, slots=True)
class DiscoveredTemplate:
    """A template in a folder that is a separate stack."""

    path: str
    environments: tuple[str, ...]
    """The environments for `read_stack`; later ones override earlier ones."""
    files: Mapping[str, str]
    """The SHA-256 of each file that it reads, including its own, by path."""

    @property
    def source(self) -> str:
        """The source for `read_stack`: the folder, for a ``template.yaml``."""
        folder, name = os.path.split(self.path)
        return folder or os.curdir if name == FOLDER_TEMPLATE else self.path

    @property
    def stack_name(self) -> str:
        """The name that its stack has by default."""
        return root_name(Path(self.source))


@dataclass(frozen=True, slots=True)
class Discovery:
    """The templates below a folder in order of path, and unreadable files or folders that may be, or contain, one."""

    templates: tuple[DiscoveredTemplate, ...]
    unreadable: tuple[Path, ...]
    records: Mapping[str, FileRecord] = field(default_factory=dict, compare=False)
    """The records of all files that matter, by path."""


def discover_templates(folder: Path, known: Mapping[str, FileRecord] = MappingProxyType({})) -> Discovery:
    """Find the templates below a folder that are stacks of their own. Files that are as in a `known` record are not
    read.

    Of templates that nest each other in a cycle, the first is one. A file that is not valid YAML is a template if it
    looks like one, and refers to no other file.
    """
    top = resolve(folder)  # templates name each other by other ways than the caller names their folder
    unlisted: list[Path] = []
    files = _Files(known)
    listed = _list_visible(top, unlisted)
    environments = {
        path: environments_of(path, beside) if beside else () for path, beside in listed if files.is_template(path)
    }
    own = {path: {path, *environments[path]} for path in environments}
    read = {path: files.closure(own[path]) for path in environments}
    nested = {name for path in environments for name in read[path] - own[path]}
    roots = [path for path in environments if path not in nested]
    covered = {name for path in roots for name in read[path]}
    for path in environments:  # the rest are in cycles
        if path not in covered:
            roots.append(path)
            covered |= read[path]

    above, is_absolute = os.path.join(top, ""), folder == top

    def restore(path: str) -> str:
        """The path as the caller writes it."""
        return path if is_absolute or not path.startswith(above) else str(folder / path.removeprefix(above))

    discovered = (
        DiscoveredTemplate(
            restore(path),
            tuple(restore(name) for name in environments[path] if os.path.basename(name) != FOLDER_ENVIRONMENT),
            {restore(name): files.digest(name) for name in sorted(read[path])},
        )
        for path in sorted(roots, key=lambda path: path.split(os.sep))
    )
    unread = (folder if path == top else Path(restore(str(path))) for path in (*unlisted, *files.unreadable))
    return Discovery(tuple(discovered), tuple(unread), files.records)


def is_template(text: str, file: str) -> bool:
    """Whether a file's text has a template version at its top."""
    if not any(version in text for version in VERSION_KEYS):
        return False
    if _VERSION.search(text):
        return True
    data = _read(text, file)  # JSON, or a quoted key; otherwise the version is part of another text
    return isinstance(data, dict) and any(version in data for version in VERSION_KEYS)


def check_folder(path: Path) -> None:
    """Check that a path is not a folder without a template. Errors: InputError."""
    if not os.path.isdir(path) or os.path.isfile(path / FOLDER_TEMPLATE):
        return
    try:
        os.listdir(path)
    except OSError as error:
        raise unreadable(path, error) from None
    message = f"{path} holds no template"
    raise InputError.of(message, suggestion=f"a template begins with its version, `{VERSION_KEYS[0]}: 2018-08-31`")


def _list_visible(folder: Path, unlisted: list[Path]) -> Iterator[tuple[str, Set[str]]]:
    """The paths below a folder that may be templates, in order, each with the names of all files beside it that may be
    environments. Folders that can't be listed are appended to the list."""

    def note(error: OSError) -> None:
        unlisted.append(Path(error.filename))

    for parent, folders, names in os.walk(folder, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        beside = frozenset(name for name in names if name.endswith((".env", "env.yaml")))
        start = os.path.join(parent, "")
        yield from ((start + name, beside) for name in sorted(names) if name.endswith(ENDINGS) and name[0] != ".")


def environments_of(template: str, beside: Set[str] | None = None) -> tuple[str, ...]:
    """The environments of a template, later ones overriding earlier ones, among the names `beside` it, if known."""
    folder, name = os.path.split(template)
    stem = os.path.splitext(name)[0]
    names = [f"{stem}.env", f"{stem}.env.yaml"]
    if name == FOLDER_TEMPLATE:
        names.insert(0, FOLDER_ENVIRONMENT)
    if beside is not None:
        names = [name for name in names if name in beside]
    return tuple(path for name in names if os.path.isfile(path := os.path.join(folder, name)))


class _Files:
    """The files of a folder. Their contents are not stored, since a folder may exceed the memory."""

    def __init__(self, known: Mapping[str, FileRecord]) -> None:
        self._known = known
        self.records: dict[str, FileRecord] = {}
        self.unreadable: list[Path] = []

    def is_template(self, name: str) -> bool:
        """Whether a path is that of a file with a template version at its top."""
        try:
            status = os.stat(name)
        except (OSError, ValueError):  # a link to nothing
            return False
        if not stat.S_ISREG(status.st_mode):  # reading from a pipe would block
            return False
        try:
            return self._find(name, status).is_template
        except (OSError, ValueError):
            self.unreadable.append(Path(name))
            return False

    def closure(self, names: Iterable[str]) -> set[str]:
        """The files, and all files that they refer to, directly or indirectly."""
        waiting, reached = list(names), set[str]()
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += self._references(name)
        return reached

    def digest(self, name: str) -> str:
        """The SHA-256 of a file when it was read; for a missing file, that of no data."""
        try:
            return self._find(name).digest
        except (OSError, ValueError):
            return sha256(b"").hexdigest()

    def _references(self, name: str) -> list[str]:
        """The existing files that a template or environment refers to."""
        if not name.endswith((*ENDINGS, ".env")):
            return []
        try:
            record = self._find(name)
            if record.names is None:
                record = self.records[name] = _read_record(name, is_named=True)
        except (OSError, ValueError):
            return []
        names, bases = record.names or (), {name}
        if names and os.path.islink(name):  # it may be nested under its own name too
            bases.add(find_base(name))
        paths = {os.path.normpath(os.path.join(os.path.dirname(base), file)) for base in bases for file in names}
        return sorted(path for path in paths if os.path.isfile(path))

    def _find(self, name: str, status: os.stat_result | None = None) -> FileRecord:
        """The record of a file, which is read if need be. Errors: OSError, ValueError."""
        if name not in self.records:
            known = self._known.get(name)
            is_known = known is not None and known.state == _state(status or os.stat(name))
            self.records[name] = known if known and is_known else _read_record(name)
        return self.records[name]


def _read_record(name: str, is_named: bool = False) -> FileRecord:
    """Read the record of a file, with the names in it if a template or `is_named`. Errors: OSError, ValueError."""
    began = time.time_ns()
    with open(name, "rb") as file:
        status = os.fstat(file.fileno())
        content = file.read(min(status.st_size, MAX_BYTES) + 1)
    text = content.decode("utf-8-sig", "replace")
    own = name.endswith(ENDINGS) and is_template(text, name)
    settled = max(status.st_mtime_ns, status.st_ctime_ns) + GRAIN < began
    return FileRecord(
        state=_state(status) if settled else "",
        digest=sha256(content).hexdigest(),
        is_template=own,
        names=_find_names(text, name) if own or is_named else None,
    )


def _state(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _find_names(text: str, name: str) -> tuple[str, ...]:
    """The names of files in the text of a template or environment."""
    if not any(part in text for part in _NAMES_FILES):
        return ()
    return tuple(sorted(set(_named_files(_read(text, name)))))


def _read(text: str, name: str) -> Data:
    """The data of a text; None if it is invalid, which is reported when it is judged."""
    try:
        return read_document(text, name).data
    except InputError:
        return None


def _named_files(data: Data) -> Iterator[str]:
    """The file names in a template or environment: arguments of `get_file`, and types that are templates."""
    if isinstance(data, dict) and isinstance(registry := data.get("resource_registry"), dict):
        base = _local(str(registry.get("base_url") or ""))
        texts = (text for _, text in _texts(registry) if text.endswith(TEMPLATE_ENDINGS))
        yield from (os.path.join(base, _local(text)) for text in texts)
    for key, text in _texts(data):
        if key == "get_file" or (key in ("type", "Type") and text.endswith(TEMPLATE_ENDINGS)):
            yield _local(text)


def _texts(data: Data) -> Iterator[tuple[Data, str]]:
    """The texts of data that have a key, with their keys."""
    waiting = [data]
    while waiting:
        match waiting.pop():
            case dict() as section:
                waiting += section.values()
                yield from ((key, value) for key, value in section.items() if isinstance(value, str))
            case list() as items:
                waiting += items


def _local(name: str) -> str:
    """The path of a file URL."""
    return unquote(urlsplit(name).path) if name.startswith("file://") else name
