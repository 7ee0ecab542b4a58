"""Reads stacks from templates and environments, and other input files.

Files of a template are read only below `files_root`, with symbolic links resolved. URLs are read only as `UrlSources`
say. Errors are InputError.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypedDict, Unpack
from urllib.parse import unquote, urljoin, urlsplit

from datalog_gate.base.diagnostics import SENT, Diagnostic, Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.base.records import dataclass
from datalog_gate.files.url_sources import UrlSources
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.stack.model import Data, Stack

MAX_BYTES = 4_000_000
FilesRoot = str | Path | Sequence[str | Path]
"""The folder, or folders, that files may be read from."""


class StackInputs(TypedDict, total=False):
    """What a stack is read with, besides its template: the keyword arguments of `read_stack`."""

    environments: Iterable[str | Path]
    """Paths. Later environments override earlier ones."""
    environment: str | Mapping[str, Data] | None
    """The environment in the body of a request, which comes after them."""
    parameters: Mapping[str, Data] | None
    """As in Heat, these override the environment of a body alone, but not environment files."""
    files: Mapping[str, str] | None
    """The files in the body of a request, by name."""
    undeclared: bool
    """Whether undeclared parameters are ignored, as Heat ignores those left by a previous update."""
    assume: Mapping[str, Data] | Sequence[str] | None
    """Values of unknowns by their expressions as findings print them, or texts `EXPRESSION=VALUE`."""
    strict: bool
    """Whether the template must use all of these, as by default."""
    files_root: FilesRoot | None
    """Where files may be read; by default in the folder of the template."""
    stack_name: str | None
    """By default the stem of the template, or the name of its folder."""
    catalogue: Catalogue
    unsaved: Mapping[Path, str]
    """Texts of an editor, which replace the files with these absolute paths."""
    urls: UrlSources
    """Where to read files at URLs; without it nothing of them is known."""


def read_stack(
    source: str | Path | Mapping[str, Data] | None = None,
    /,
    *,
    template: str | Mapping[str, Data] | None = None,
    **inputs: Unpack[StackInputs],
) -> Stack:
    """Read the stack of a template with its environments.

    `source` is the path of a template, or of a folder with a ``template.yaml`` and perhaps an ``env.yaml``. A mapping,
    or a text of several lines or of JSON, is the template itself. `template` is the template in the body of a request:
    then only `files` are read, not the disk.

    Errors: InputError; UsageError unless exactly one of `source` and `template` is given.
    """
    from datalog_gate.template.reader import TemplateSource, read_template

    root = _find_root(source, template, inputs)
    unsaved, sent = inputs.get("unsaved", {}), inputs.get("files") or {}
    paths = [*root.environments, *map(Path, inputs.get("environments", ()))]
    texts: list[tuple[str, str | Mapping[str, Data]]] = [(str(path), _text_of(path, unsaved)) for path in paths]
    environment = inputs.get("environment")
    if texts and environment:
        texts.append(("<environment>", environment))
    found = TemplateSource(
        text=root.text,
        file=root.label,
        stack_name=inputs.get("stack_name") or root.name,
        environments=texts,
        environment=None if texts else environment,
        parameters=inputs.get("parameters") or {},
        undeclared=inputs.get("undeclared", False),
        has_base_url=bool(root.folders),
        assume=inputs.get("assume") or (),
        type_of=inputs.get("catalogue", SHIPPED).type,
        sent=sent,
        name_of=partial(_name_in, resolve(root.label).parent, frozenset(sent)) if root.folders else str,
    )
    bases = {name: find_base(name) for name in (root.label, *map(str, paths)) if root.folders}
    files = _NamedFiles(sent, root.folders, bases, inputs.get("urls", UrlSources()), unsaved)
    return read_template(found, files.fetch, inputs.get("strict", True))


class _Root(NamedTuple):
    """The template of a root stack."""

    text: str | Mapping[str, Data]
    label: str
    name: str
    """The default name of its stack."""
    environments: Sequence[Path] = ()
    """Those of its folder."""
    folders: tuple[Path, ...] = ()
    """Where files may be read; nowhere for one that was sent."""


def _find_root(
    source: str | Path | Mapping[str, Data] | None, template: str | Mapping[str, Data] | None, inputs: StackInputs
) -> _Root:
    """The template that `read_stack` is to read. Errors: InputError, UsageError; TypeError for other inputs."""
    if unknown := inputs.keys() - StackInputs.__optional_keys__:
        raise TypeError(f"read_stack has no argument {', '.join(sorted(unknown))}")
    if (source is None) == (template is None):
        raise UsageError("read_stack takes either a path or a template")
    if not isinstance(source, Path) and not (isinstance(source, str) and _is_path(source)):
        return _Root(source or template or "", SENT, "stack")
    name = root_name(Path(source))
    path, environments = _find_template(Path(source))
    text = _text_of(path, inputs.get("unsaved", {}))
    folders = _resolve_roots(inputs.get("files_root") or resolve(path).parent)
    return _Root(text, str(path), name, environments, folders)


def _resolve_roots(files_root: FilesRoot) -> tuple[Path, ...]:
    return tuple(map(resolve, [files_root] if isinstance(files_root, str | Path) else files_root))


def _name_in(folder: Path, sent: Collection[str], file: str) -> str:
    """The name of a file in facts, relative to the template's folder however it is written, unless it was sent."""
    return (
        file
        if file in sent or file.startswith(("<", "http://", "https://"))
        else os.path.relpath(resolve(file), folder)
    )


def _find_template(path: Path) -> tuple[Path, list[Path]]:
    """The template at a path, and the environments of its folder. Errors: InputError for a file of rules."""
    own: list[Path] = []
    if os.path.isdir(path):
        own = [path / "env.yaml"] if os.path.isfile(path / "env.yaml") else []
        path = path / "template.yaml"
    if path.suffix.lower() == ".dl":
        message, advice = f"{path} is a file of rules, not a template", f"give it with --rules {path}"
        raise InputError([Diagnostic("not-a-template", message, None, advice)])
    return path, own


def read_before(
    source: str | Path | Mapping[str, Data], after: str | Path | Mapping[str, Data], **inputs: Unpack[StackInputs]
) -> Stack:
    """Read the older version of the stack `after`. Errors: those of `read_stack`.

    It has the name, environments and parameters of the new stack, if its template declares them. A folder with an
    ``env.yaml`` has only that environment. A template outside `files_root` is its own root. Assumptions need not be
    used.
    """
    inputs |= {"undeclared": True, "strict": False}
    if isinstance(source, Path) and os.path.isfile(source / "env.yaml"):
        inputs |= {"environments": (), "environment": None, "parameters": None}
    elif isinstance(after, Path) and os.path.isfile(after / "env.yaml"):
        inputs["environments"] = [after / "env.yaml", *inputs.get("environments", ())]
    roots = _resolve_roots(inputs.get("files_root") or ())
    if not (isinstance(source, Path) and any(map(resolve(source).is_relative_to, roots))):
        inputs["files_root"] = None
    return read_stack(source, **inputs)


def read_catalogue(*paths: str | Path, heat_defaults: Mapping[str, str] | None = None) -> Catalogue:
    """Read the catalogue with the resource types of an operator's files, which replace shipped types of the same name.

    A file that `contrib/harvest.py` printed for another Heat replaces all shipped types of Heat. `heat_defaults` are
    options of Heat that are defaults of properties. Errors: InputError.
    """
    from datalog_gate.schema.operator_files import read_catalogue

    catalogue = read_catalogue([(str(path), read_text(path)) for path in paths]) if paths else SHIPPED
    if not heat_defaults:
        return catalogue
    from datalog_gate.schema.heat_defaults import apply_defaults

    return apply_defaults(catalogue, heat_defaults)


def root_name(path: Path) -> str:
    """The default name of a root stack: the stem of its template, or the name of its folder."""
    return resolve(path).name if os.path.isdir(path) else path.stem


def resolve(path: str | Path) -> Path:
    """The absolute path without links; dangling or circular links are not followed. Errors: InputError for a NUL."""
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:
        raise unreadable(path, error) from None


def find_base(path: str) -> str:
    """The path beside which the files are that a template or environment names: for one behind a link, that of its
    target, as in Heat's client since 5.2.0 (heatclient/common/utils.py:430)."""
    target = str(resolve(path))
    if target == os.path.abspath(path):
        return path
    return target if os.path.isabs(path) else os.path.relpath(target)


def list_files(folder: Path) -> list[Path]:
    """List the files below a folder in order, without following links to folders. Errors: InputError for a folder that
    can't be read, since its files would silently be missing."""
    files: list[Path] = []
    failures: list[OSError] = []
    for parent, folders, names in os.walk(folder, onerror=failures.append):
        links = (name for name in folders if os.path.islink(os.path.join(parent, name)))
        path = Path(parent)
        files += [path / name for name in (*names, *links)]
    if failures:
        raise InputError(
            [diagnostic for error in failures for diagnostic in unreadable(error.filename, error).diagnostics]
        )
    return sorted(files, key=attrgetter("parts"))


def unreadable(path: str | Path, error: Exception) -> InputError:
    """The error for a path that can't be read, with the system's reason."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError.of(f"{path} can't be read: {reason}")


def read_text(path: str | Path, file: BinaryIO | None = None) -> str:
    """Read a file of UTF-8, which may be open. Errors: InputError (`unreadable`, `encoding`, `too-large`)."""
    content = _read_bytes(Path(path), file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        span = Span(str(path), line, column, line, column + 1)
        raise InputError([Diagnostic("encoding", f"byte {error.start} of the file is not UTF-8", span)]) from None


def _is_path(source: str) -> bool:
    return "\n" not in source and not source.lstrip().startswith("{")


def _text_of(path: Path, unsaved: Mapping[Path, str]) -> str:
    text = unsaved.get(resolve(path)) if unsaved else None
    return read_text(path) if text is None else text


def _read_bytes(path: Path, file: BinaryIO | None = None) -> bytes:
    try:
        with nullcontext(file) if file else path.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if len(content) > MAX_BYTES:
        raise InputError([Diagnostic("too-large", f"{path} has more than {MAX_BYTES} bytes")])
    return content


@dataclass(frozen=True, slots=True)
class _NamedFiles:
    """The files that a template and its environments name."""

    sent: Mapping[str, str]
    roots: tuple[Path, ...]
    """The folders that files may be read from; without one only those that were sent are known."""
    bases: Mapping[str, str]
    """The paths beside which the files of a template or environment are, by its own path."""
    urls: UrlSources
    unsaved: Mapping[Path, str]

    def fetch(self, name: str, base: str) -> tuple[str, str] | None:
        """The label and text of the file, or URL, that a name in the file `base` refers to; None if there is none."""
        from datalog_gate.template.tree import is_remote

        if name in self.sent:
            return name, self.sent[name]
        if not self.roots:
            return None
        base = self.bases.get(base, base)
        if is_remote(base):
            name = urljoin(base, name)
        if not is_remote(name):
            roots = self.roots
            for folder in map(resolve, self.urls.folders.values()):
                if not any(map(folder.is_relative_to, roots)) and resolve(base).is_relative_to(folder):
                    roots = (folder,)
            return self._read(name, base, roots)
        if (found := self.urls.find_local(name)) and (text := self._read(found[0], "", (resolve(found[1]),))):
            return text
        return (name, self.urls.download(name)) if self.urls.download else None

    def _read(self, name: str, base: str, roots: tuple[Path, ...]) -> tuple[str, str] | None:
        """Read the file below one of `roots` that a name in the file `base` refers to. None if there is none, or the
        name is an address. A file that is not UTF-8 becomes base64, as Heat's client sends it."""
        scheme = urlsplit(name).scheme if "://" in name else ""
        if scheme not in ("", "file"):
            return None
        name = unquote(urlsplit(name).path) if scheme else name
        label = os.path.normpath(os.path.join(os.path.dirname(base), name))
        try:
            path = Path(label).resolve()
            inside, is_file = any(map(path.is_relative_to, roots)), path.is_file()
        except (OSError, ValueError, RuntimeError):  # a name that is too long or has a NUL, or a loop of links
            return None
        if not inside:
            folders = " and ".join(map(str, roots))
            message = f"{name} is outside {folders}, the {'folders' if roots[1:] else 'folder'} that may be read"
            advice = f"give --files-root {os.path.relpath(os.path.commonpath([*roots, path.parent]))}"
            raise InputError([Diagnostic("outside-root", message, None, advice)])
        if path in self.unsaved:
            return label, self.unsaved[path]
        if not is_file:
            return None
        content = _read_bytes(path)
        try:
            return label, content.decode("utf-8-sig")
        except UnicodeDecodeError:
            import base64  # few files are no text

            return label, base64.encodebytes(content).decode()


def read_json(path: Path) -> object:
    """Read the data of a JSON file. Errors: InputError."""
    try:
        data: object = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError.of(f"{path} is not JSON: {error}") from None
    return data
