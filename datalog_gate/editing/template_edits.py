"""Edits of a template's text that write a proved change.

An edit replaces one value, or adds one key, which may be a resource, or one member of a list, or removes a key. All
else stays as it is, byte for byte: comments, order, quotes, anchors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from datalog_gate.base.errors import InputError
from datalog_gate.base.records import replace
from datalog_gate.editing.answers import TextEdit, TextRange
from datalog_gate.editing.source_text import source_text
from datalog_gate.editing.yaml_outline import OutlineEntry, Path, read_outline
from datalog_gate.explain.template_change import TemplateChange
from datalog_gate.template.dialect import Dialect, dialect_of
from datalog_gate.template.document import Document, read_document

NEW = -1
"""The last step of the path of a new first member of a list."""
OF_PROPERTY = 4
"""The number of steps to a property of a resource."""


def apply_edits(sources: Mapping[str, str], edits: Iterable[TextEdit]) -> dict[str, str]:
    """The texts with the edits, which must not overlap."""
    texts = dict(sources)
    for edit in sorted(edits, key=lambda edit: edit.range, reverse=True):
        text = texts[edit.range.file]
        texts[edit.range.file] = text[: edit.range.start] + edit.text + text[edit.range.end :]
    return texts


def write_change(text: str, file: str, change: TemplateChange, only_there: bool = False) -> Iterator[TextEdit]:
    """The edits of a template that write a change, the best first: where the value of a property stands, which may be
    the default of a parameter or the definition of a group's members, and in the resource itself; or a new resource, or
    the allowed values of a parameter. With `only_there` the edit changes nothing else than what was tried. A function
    stays, unless the change is one of the text that is read again."""
    if change.place is None or change.place.file != file:
        return
    outline = {entry.path: entry for entry in read_outline(text)}
    document = read_document(text, file)
    dialect = dialect_of(document.data) if isinstance(document.data, dict) else ""
    if isinstance(dialect, str):
        return
    value, targets = _find_targets(document, outline, dialect, change)
    if only_there and change.path and not change.limited:
        targets = [target for target in targets if target == change.find_path(dialect)]
    for target in targets:
        if value is None:
            edit = _remove_key(document, text, target)
            expected: object = change.put_in(document.data) if edit else None
        else:
            way, whole = _with_maps(document.data, target, value)
            edit, expected = _write_value(document, text, outline, way, whole), _put(document.data, way, whole)
        if edit and _read_data(apply_edits({file: text}, [edit])[file]) == expected:
            yield edit


def _find_targets(
    document: Document, outline: Mapping[Path, OutlineEntry], dialect: Dialect, change: TemplateChange
) -> tuple[object, list[Path]]:
    """The value to write, None to remove what is there, and the paths where it may be written, the best first."""
    new, value = change.resource, change.value
    if change.limited:
        return _limit(document.data, (dialect.key("parameters"), *change.path[1:]), value, dialect.hot)
    if not change.path:
        added = (dialect.resources, new.name)
        others = [path for path in outline if path[:-1] == added[:1] and document.key_place(path) == change.place]
        value = {dialect.key("type"): new.type, dialect.key("properties"): dict(new.properties)}
        return value, [added] if others and added not in outline else []
    own = change.find_path(dialect)
    if change.is_read_again:
        return value, [own]
    targets = [path for path in outline if path != own and _is_scalar(document, path, change)]
    if own[:2] not in outline:
        targets += _find_members(document, outline, own[2], change)
    elif not isinstance(_get(document.data, own), dict):
        targets.append(own)
    return value, targets


def _with_maps(data: object, target: Path, value: object) -> tuple[Path, object]:
    """The path and the value to write with the maps of a property that are missing above it."""
    while len(target) > OF_PROPERTY and isinstance(target[-1], str) and _get(data, target[:-1]) in (None, {}):
        target, value = target[:-1], {target[-1]: value}
    return target, value


def _limit(data: object, parameter: Path, allowed: object, is_hot: bool) -> tuple[object, list[Path]]:
    """The value and the path to write, for a parameter to have these allowed values."""
    if not is_hot:
        return allowed, [(*parameter, "AllowedValues")]
    entry = {"allowed_values": allowed}
    constraints = _get(data, (*parameter, "constraints"))
    if not isinstance(constraints, list):
        return [entry], [(*parameter, "constraints")]
    before = [at for at, written in enumerate(constraints) if isinstance(written, dict) and "allowed_values" in written]
    if before:
        return allowed, [(*parameter, "constraints", before[0], "allowed_values")]
    return entry, [(*parameter, "constraints", NEW)]


def _is_scalar(document: Document, path: Path, change: TemplateChange) -> bool:
    """Whether a single value is written there, at the place of the change."""
    return document.place(path) == change.place and not isinstance(_get(document.data, path), dict | list)


def _find_members(
    document: Document, outline: Iterable[Path], properties: str | int, change: TemplateChange
) -> Iterator[Path]:
    """The paths of the property in definitions of members, which are at the place of the change without it."""
    for path in outline:
        if path[-1] == properties and change.place in (document.place(path), document.place(path[:-1])):
            yield (*path, *change.path[1:])


def _write_value(
    document: Document, text: str, outline: Mapping[Path, OutlineEntry], target: Path, value: object
) -> TextEdit | None:
    """The edit that replaces the value at a path, or adds its key."""
    is_json = text.lstrip()[:1] == "{"
    place = document.place(target)
    if target[-1] == NEW:
        return _new_member(text, document.file, outline.get((*target[:-1], 0)), value)
    if target not in outline or place is None:
        return _new_key(text, document.file, outline, target, value)
    where = source_text(document.file, text).range(place)
    end = where.start + len(text[where.start : where.end].rstrip())  # of a block the end of its last line too
    old = text[where.start : end]
    quote = old[0] if isinstance(value, str) and old[:1] in ("'", '"') and len(old) > 1 and old[-1] == old[0] else ""
    written = f"{quote}{value}{quote}" if quote and _is_plain(str(value)) else _flow(value, is_json)
    return TextEdit(replace(where, end=end), written)


def _new_key(text: str, file: str, outline: Mapping[Path, OutlineEntry], whole: Path, value: object) -> TextEdit | None:
    """A new key, before the first key of its mapping."""
    *parent, name = whole
    sibling = next(
        (entry for way, entry in outline.items() if way[:-1] == tuple(parent) and entry.end > entry.start), None
    )
    if sibling is None or isinstance(name, int):
        return None
    line_end = "\r\n" if "\r\n" in text else "\n"
    end = f"{line_end}{' ' * sibling.column}" if sibling.column >= 0 else ", "
    start = _skip_comments(text, sibling.start - (text[sibling.start - 1] in "\"'"))
    is_json = text.lstrip()[:1] == "{"
    return TextEdit(TextRange(file, start, start), f"{_scalar(name, is_json)}: {_flow(value, is_json)}{end}")


def _new_member(text: str, file: str, first: OutlineEntry | None, value: object) -> TextEdit | None:
    """A new member of a list, before the first one."""
    if first is None:
        return None
    line_end = "\r\n" if "\r\n" in text else "\n"
    written = _flow(value, text.lstrip()[:1] == "{")
    new = f"{written}, "
    if first.column >= 0:
        new = f"- {written[1:-1] if isinstance(value, dict) else written}{line_end}{' ' * first.column}"
    return TextEdit(TextRange(file, first.start, first.start), new)


def _remove_key(document: Document, text: str, target: Path) -> TextEdit | None:
    """The removal of a key and its value: of their lines, or within brackets or beside a dash of one of a list."""
    siblings = _get(document.data, target[:-1])
    if not isinstance(siblings, dict) or target[-1] not in siblings or len(siblings) == 1:
        return None
    names = list(siblings)
    source, at = source_text(document.file, text), names.index(target[-1])

    def find(name: object) -> tuple[int, int]:
        """The start of a key, and the end of its value."""
        path = (*target[:-1], str(name))
        value = source.range(document.place(path))
        lines = text[value.start : value.end].rstrip().split("\n")
        while isinstance(siblings[str(name)], dict | list) and lines[-1].strip()[:1] in ("", "#"):
            lines.pop()  # comments behind a block are about what comes next
        return source.range(document.key_place(path)).start, value.start + len("\n".join(lines))

    start, end = find(names[at])
    line_start = text.rfind("\n", 0, start) + 1
    rest = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)").match(text, end)
    if rest and not text[line_start:start].strip():
        start, end = line_start, rest.end()
    elif names[at + 1 :]:
        end, _ = find(names[at + 1])
    else:
        _, start = find(names[at - 1])
    return TextEdit(TextRange(document.file, start, end), "")


def _skip_comments(text: str, key: int) -> int:
    """Where a line can be put before a key, and before the comments about it that are above and as far indented."""
    start = text.rfind("\n", 0, key) + 1
    indent = text[start:key]
    lines = text[:start].splitlines(keepends=True)
    while not indent.strip() and lines and lines[-1].startswith(f"{indent}#"):
        key -= len(lines.pop())
    return key


def _get(data: object, path: Path) -> object:
    """The data at a path; None if there is none."""
    for step in path:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def _put(data: object, path: Sequence[str | int], value: object) -> object:
    """Data with another value at a path."""
    if not path:
        return value
    first, *rest = path
    if isinstance(data, list):
        new = [value] if first == NEW else []
        return [*new, *(_put(item, rest, value) if at == first else item for at, item in enumerate(data))]
    section = data if isinstance(data, dict) else {}
    return {**section, first: _put(section.get(first), rest, value)}


def _read_data(text: str) -> object:
    """The data of a text; None if it is no YAML any more."""
    try:
        return read_document(text, "").data
    except InputError:
        return None


def _is_plain(text: str) -> bool:
    """Whether a text means the same between quotes of either kind."""
    return re.fullmatch(r"[A-Za-z0-9][\w.:/-]*", text) is not None


def _flow(value: object, is_json: bool) -> str:
    """Data on one line."""
    match value:
        case dict():
            return (
                f"{{{', '.join(f'{_scalar(name, is_json)}: {_flow(part, is_json)}' for name, part in value.items())}}}"
            )
        case list():
            return f"[{', '.join(_flow(part, is_json) for part in value)}]"
    return _scalar(value, is_json)


def _scalar(value: object, is_json: bool) -> str:
    """A value as JSON, or as YAML without quotes if it means the same."""
    bare = str(value)
    if not is_json and isinstance(value, str) and _is_plain(bare) and read_document(bare, "", False).data == value:
        return bare
    return json.dumps(value, ensure_ascii=False)
