"""The search for the templates of a folder, with their environments.

A template is a file ``.yaml``, ``.yml``, ``.template`` or ``.json`` with a template version at its top, as Heat
requires. A template that another one, or its environment, nests or reads by `get_file` is judged as a part of it, not
by itself. A template ``web.yaml`` has the environments ``web.env`` and ``web.env.yaml`` beside it, if they exist; a
``template.yaml`` also ``env.yaml``. Hidden files and folders, and links to folders, are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass
from datalog_gate.files.templates import MAX_BYTES, find_base, unreadable
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


@dataclass(frozen=True, slots=True)
class Discovery:
    """The templates below a folder in order of path, and unreadable files or folders that may be, or contain, one."""

    templates: tuple[DiscoveredTemplate, ...]
    unreadable: tuple[Path, ...]


def discover_templates(folder: Path) -> Discovery:
    """Find the templates below a folder that are stacks of their own.

    Of templates that nest each other in a cycle, the first is one. A file that is not valid YAML is a template if it
    looks like one, and refers to no other file.
    """
    unlisted: list[Path] = []
    files = _Files()
    listed = _list_visible(folder, unlisted)
    environments = {path: environments_of(path, beside) for path, beside in listed if files.is_template(path)}
    own = {path: {path, *environments[path]} for path in environments}
    read = {path: files.closure(own[path]) for path in environments}
    nested = {name for path in environments for name in read[path] - own[path]}
    roots = [path for path in environments if path not in nested]
    covered = {name for path in roots for name in read[path]}
    for path in environments:  # the rest are in cycles
        if path not in covered:
            roots.append(path)
            covered |= read[path]
    discovered = (
        DiscoveredTemplate(
            path,
            tuple(name for name in environments[path] if os.path.basename(name) != FOLDER_ENVIRONMENT),
            {name: files.digest(name) for name in sorted(read[path])},
        )
        for path in sorted(roots, key=lambda path: path.split(os.sep))
    )
    return Discovery(tuple(discovered), (*unlisted, *files.unreadable))


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
    """The files below a folder that may be templates, in order, each with the names of all files beside it. Folders
    that can't be listed are appended to the list."""

    def note(error: OSError) -> None:
        unlisted.append(Path(error.filename))

    for parent, folders, names in os.walk(folder, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        beside = frozenset(names)
        start = os.path.join(parent, "").removeprefix(os.path.join(os.curdir, ""))  # as templates name each other
        paths = (start + name for name in sorted(names) if name.endswith(ENDINGS) and name[0] != ".")
        yield from ((path, beside) for path in paths if os.path.isfile(path))  # reading from a pipe would block


def environments_of(template: str, beside: Set[str] | None = None) -> tuple[str, ...]:
    """The environments of a template; later ones override earlier ones. `beside` are the file names of its folder, if
    known."""
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

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._named: dict[str, list[str]] = {}
        self.unreadable: list[Path] = []

    def is_template(self, name: str) -> bool:
        """Whether a file has a template version at its top."""
        try:
            text = self._present_text(name)
        except (OSError, ValueError):
            self.unreadable.append(Path(name))
            return False
        if is_named := is_template(text, name):
            self._named[name] = _present_files(text, name)
        return is_named

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
        """The SHA-256 of a file when it was first read; for a missing file, that of no data."""
        if name not in self._digests:
            self._text(name)
        return self._digests[name]

    def _references(self, name: str) -> list[str]:
        """The existing files that a template or environment refers to."""
        if name not in self._named:
            text = self._text(name) if name.endswith((*ENDINGS, ".env")) else ""
            self._named[name] = _present_files(text, name)
        return self._named[name]

    def _text(self, name: str) -> str:
        try:
            return self._present_text(name)
        except (OSError, ValueError):
            self._digests.setdefault(name, sha256(b"").hexdigest())
            return ""

    def _present_text(self, name: str) -> str:
        with open(name, "rb") as file:
            content = file.read(min(os.fstat(file.fileno()).st_size, MAX_BYTES) + 1)
        self._digests.setdefault(name, sha256(content).hexdigest())
        return content.decode("utf-8-sig", "replace")


def _present_files(text: str, name: str) -> list[str]:
    """The existing files that the text of a template or environment refers to."""
    if not any(part in text for part in _NAMES_FILES):
        return []
    names = sorted(set(_named_files(_read(text, name))))
    bases = {name, find_base(name)} if os.path.islink(name) else {name}  # it may be nested under its own name too
    paths = {os.path.normpath(os.path.join(os.path.dirname(base), file)) for base in bases for file in names}
    return sorted(path for path in paths if os.path.isfile(path))


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
