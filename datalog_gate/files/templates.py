"""The reader of templates, environments and what they name, and of facts (layer 5).

In: paths, or the parts of a request's body. Out: texts and `Stack` values. A template's files are read only below
`files_root`, symbolic links resolved; addresses are never fetched. Errors are InputError.
"""

from __future__ import annotations

import json
import os
from base64 import encodebytes
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.stack.model import Data, Stack

if TYPE_CHECKING:
    from datalog_gate.facts.lines import FactLine

MAX_BYTES = 4_000_000


def read_stack(
    source: str | Path | Mapping[str, Data] | None = None,
    /,
    *,
    template: str | Mapping[str, Data] | None = None,
    environments: Iterable[str | Path] = (),
    environment: str | Mapping[str, Data] | None = None,
    parameters: Mapping[str, Data] | None = None,
    files: Mapping[str, str] | None = None,
    environment_files: Iterable[str] = (),
    masked: Iterable[tuple[str, str]] = (),
    undeclared: bool = False,
    assume: Mapping[str, Data] | Sequence[str] | None = None,
    strict: bool = True,
    files_root: str | Path | None = None,
    stack_name: str | None = None,
    catalogue: Catalogue = SHIPPED,
) -> Stack:
    """The stack of a template with its environments, later over earlier, the body's last. As in Heat a body alone
    yields to the parameters, but environments' files do not.

    `template` is the template itself, as a request's body holds it: then only `files` are there, and no other file is
    ever read. `source` is the path of a file, or a folder with a `template.yaml` and perhaps an `env.yaml`; a mapping,
    or a text of several lines or of JSON, is the template here too. `environment_files` are names of `files`, over the
    parameters; `masked` entries of an environment have a value that nobody here may know. With `undeclared`, parameters
    that the template does not declare are passed over, as Heat passes over those that a stack has from an update ago.
    What is unknown has the value that `assume` gives to its expression, as findings print it, in a mapping or in texts
    `EXPRESSION=VALUE`; unless `strict`, the template need not use all of these.

    Errors: InputError; UsageError unless one is given.
    """
    from datalog_gate.template.reader import read_template
    from datalog_gate.template.resources import Text

    given: list[tuple[str, Text]] = []
    paths = [Path(path) for path in environments]
    root: Path | None = None
    body: Text
    if (source is None) == (template is None):
        raise UsageError("read_stack takes either a path or a template")
    if isinstance(source, Path) or (isinstance(source, str) and _names_file(source)):
        path = Path(source)
        name = root_name(path)
        if path.is_dir():
            paths = [path / "env.yaml", *paths] if (path / "env.yaml").is_file() else paths
            path = path / "template.yaml"
        body, label, root = read_text(path), str(path), Path(files_root or path.parent).resolve()
    else:
        body, label, name = source or template or "", "<template>", "stack"
    given += [(str(path), read_text(path)) for path in paths]
    if given and environment:
        given.append(("<environment>", environment))
    given += [(name, (files or {})[name]) for name in environment_files]

    def fetch(wanted: str, base: str) -> tuple[str, str] | None:
        if files and wanted in files:
            return wanted, files[wanted]
        return None if root is None else _local(wanted, base, root)

    chosen = stack_name or name
    return read_template(
        body,
        label,
        fetch=fetch,
        stack_name=chosen,
        environments=given,
        environment=None if given else environment,
        parameters=parameters,
        masked=masked,
        undeclared=undeclared,
        assume=assume or (),
        strict=strict,
        type_of=catalogue.type,
    )


def read_before(
    source: str | Path | Mapping[str, Data],
    after: str | Path | Mapping[str, Data],
    *,
    environments: Sequence[str | Path] = (),
    environment: str | Mapping[str, Data] | None = None,
    parameters: Mapping[str, Data] | None = None,
    assume: Mapping[str, Data] | Sequence[str] | None = None,
    files_root: str | Path | None = None,
    stack_name: str | None = None,
    catalogue: Catalogue = SHIPPED,
) -> Stack:
    """The stack as it was before it became that of `after`: with the environments and parameters of the new one, as
    far as its template declares these; a folder with an `env.yaml` has that alone. The name is the new one's. What lies
    outside `files_root` is its own root. Errors: those of `read_stack`."""
    own = isinstance(source, Path) and (source / "env.yaml").is_file()
    if isinstance(after, Path) and (after / "env.yaml").is_file():
        environments = [after / "env.yaml", *environments]
    inside = isinstance(source, Path) and files_root and source.resolve().is_relative_to(Path(files_root).resolve())
    return read_stack(
        source,
        environments=() if own else environments,
        environment=None if own else environment,
        parameters=None if own else parameters,
        undeclared=True,
        assume=assume,
        strict=False,
        files_root=files_root if inside else None,
        stack_name=stack_name,
        catalogue=catalogue,
    )


def read_catalogue(*paths: str | Path, upgrade: bool = True) -> Catalogue:
    """The catalogue with the types of an operator's files, each in the place of a shipped one of its name. What
    `schema/data/harvest.py` printed of another Heat stands for all shipped types of Heat; without `upgrade` it is
    left out. Errors: InputError."""
    from datalog_gate.schema.operator_files import read_catalogue

    if not paths:
        return SHIPPED
    return read_catalogue([(str(path), read_text(path)) for path in paths], upgrade)


def root_name(path: Path) -> str:
    """What the root stack of a template is named if nobody names it: the stem of its file, or its folder's name."""
    return path.resolve().name if path.is_dir() else path.stem


def read_text(path: str | Path) -> str:
    """The text of a file of UTF-8. Errors: InputError (`unreadable`, `encoding`, `too-large`)."""
    content = _content(Path(path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        span = Span(str(path), line, column, line, column + 1)
        raise InputError([Diagnostic("encoding", f"byte {error.start} of the file is not UTF-8", span)]) from None


def _names_file(source: str) -> bool:
    return "\n" not in source and not source.lstrip().startswith("{")


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError([Diagnostic("unreadable", f"{path} can't be read: {reason}")]) from None
    if len(content) > MAX_BYTES:
        raise InputError([Diagnostic("too-large", f"{path} has more than {MAX_BYTES} bytes")])
    return content


def _local(wanted: str, base: str, root: Path) -> tuple[str, str] | None:
    """The file below `root` that a name in the file `base` means; None if there is none, or the name is an address.
    What is not UTF-8 becomes base64, as Heat's client sends it."""
    scheme = urlsplit(wanted).scheme if "://" in wanted else ""
    if scheme not in ("", "file"):
        return None
    name = unquote(urlsplit(wanted).path) if scheme else wanted
    label = os.path.normpath(os.path.join(os.path.dirname(base), name))
    try:
        path = Path(label).resolve()
        inside, there = path.is_relative_to(root), path.is_file()
    except (OSError, ValueError, RuntimeError):  # a name too long, with a NUL, or a loop of links
        return None
    if not inside:
        raise InputError([Diagnostic("outside-root", f"{name} lies outside {root}, the folder that may be read")])
    if not there:
        return None
    content = _content(path)
    try:
        return label, content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return label, encodebytes(content).decode()


def read_facts(path: Path) -> list[FactLine]:
    """The facts of a file of lines. Errors: InputError."""
    from datalog_gate.facts.lines import read

    return read(read_text(path), str(path))


def read_json(path: Path) -> object:
    """The data of a JSON file. Errors: InputError."""
    try:
        data: object = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError([Diagnostic("unreadable", f"{path} is no JSON: {error}")]) from None
    return data
