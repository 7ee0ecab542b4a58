"""The configuration of a project.

It gives defaults for `check`, and says how templates are judged. It is the table ``[tool.datalog-gate]`` of a
pyproject.toml, or a datalog-gate.toml, in a folder or above it. Its keys are the long option names of `check`,
`templates`, and `sources`: folders by the URLs whose files they hold. Paths are relative to its folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic, Span, closest, suggest_name
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, field
from datalog_gate.files.check_options import BY_NAME, CHECK_OPTIONS, CheckOption, read_list, read_pair, rebase_path
from datalog_gate.files.discovery import DiscoveredTemplate, discover_templates
from datalog_gate.files.templates import read_text
from datalog_gate.stack.model import Data

OWN_FILE = "datalog-gate.toml"
SHARED_FILE = "pyproject.toml"
TABLE = ("tool", "datalog-gate")
TEMPLATES = "templates"
SOURCES = "sources"
ENTRY_KEYS = ("path", "environment", "parameter")
"""The keys of an entry of `templates`."""
_HEADER = re.compile(r"\s*(?P<many>\[\[?)\s*(?P<key>[^\[\]]+?)\s*\]")
_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_KEY = re.compile(rf"\s*(?P<key>{_PART}(?:\s*\.\s*{_PART})*)\s*=")
KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ConfiguredValue:
    """The value of a key, converted as for the option of that name, and its place."""

    value: Any
    place: Span


@dataclass(frozen=True, slots=True)
class TemplateEntry:
    """An entry of `templates`: patterns of paths, and the inputs for the matching templates."""

    patterns: tuple[str, ...]
    """Patterns such as ``stacks/**/*.yaml``, relative to the configuration's folder; a folder means all below it."""
    environments: tuple[str, ...]
    parameters: Mapping[str, Data]
    place: Span


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration of a project; empty if it has no file."""

    file: Path | None = None
    values: Mapping[str, ConfiguredValue] = field(default_factory=dict)
    """By option name."""
    templates: tuple[TemplateEntry, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    """The values on the command line by option name, which replace those of the file."""

    def value(self, name: str) -> Any:
        """The value of an option by its name, or its default."""
        if name in self.given:
            return self.given[name]
        return self.values[name].value if name in self.values else BY_NAME[name].initial()

    @property
    def now(self) -> datetime:
        """The time to judge at: the given one, or the present, in UTC."""
        time: datetime = self.value("now") or datetime.now(UTC)
        return time.replace(tzinfo=UTC)

    def entry_of(self, template: str | Path) -> TemplateEntry | None:
        """The first entry that matches a template, or the folder of a template.yaml."""
        if self.file is None or not self.templates:
            return None
        written = os.path.relpath(template, self.file.parent)
        behind_links = os.path.relpath(os.path.realpath(template), os.path.realpath(self.file.parent))
        for path in dict.fromkeys((written.replace(os.sep, "/"), behind_links.replace(os.sep, "/"))):
            candidates = (path, f"{path}/template.yaml")
            for entry in self.templates:
                if any(_pattern(pattern).fullmatch(name) for pattern in entry.patterns for name in candidates):
                    return entry
        return None

    def names(self, template: Path) -> bool:
        """Whether the entry that matches a template names it without wildcards."""
        entry = self.entry_of(template)
        path = os.path.abspath(template)
        folder = self.file.parent if self.file else Path()
        return entry is not None and any(os.path.abspath(folder / pattern) == path for pattern in entry.patterns)

    def find_templates(self) -> list[DiscoveredTemplate]:
        """The templates that the entries match, in order, without duplicates. A pattern with wildcards matches only
        stacks of their own, as in a folder. Errors: InputError for a pattern without matches."""
        discovered: dict[str, DiscoveredTemplate] = {}
        wrong: list[Diagnostic] = []
        for entry in self.templates:
            for pattern in entry.patterns:
                templates = list(self._find(pattern))
                for template in templates:
                    discovered.setdefault(os.path.abspath(template.path), template)
                if not templates:
                    wrong.append(Diagnostic("bad-configuration", f"no template matches {pattern}", entry.place))
        if wrong:
            assert self.file is not None
            raise InputError(wrong, {wrong[0].span.file: read_text(self.file)} if wrong[0].span else {})
        return list(discovered.values())

    def _find(self, pattern: str) -> Iterator[DiscoveredTemplate]:
        assert self.file is not None
        parts = pattern.rstrip("/").split("/")
        fixed = next((at for at, part in enumerate(parts) if re.search(r"[*?[]", part)), len(parts))
        if os.path.exists(self.file.parent / pattern):
            fixed = len(parts)
        start = Path(rebase_path("/".join(parts[:fixed]) or ".", self.file.parent))
        if start.is_file():
            yield DiscoveredTemplate(str(start), (), {})
            return
        wanted = _pattern(pattern)
        discovery = discover_templates(start)
        unread = [DiscoveredTemplate(str(path), (), {}) for path in discovery.unreadable]
        for template in (*discovery.templates, *unread):
            path = os.path.relpath(template.path, self.file.parent).replace(os.sep, "/")
            if wanted.fullmatch(path) or (template in unread and os.path.isdir(template.path)):
                yield template  # reading a folder that can't be listed reports it


def load_configuration(folder: str | Path = ".") -> Configuration:
    """Load the configuration for a folder: its own, or that of the nearest folder above, up to the top of its
    repository. Errors: InputError with all problems of the file."""
    for parent in (top := Path(os.path.abspath(folder)), *top.parents):
        for name, path in ((OWN_FILE, ()), (SHARED_FILE, TABLE)):
            file = parent / name
            if file.is_file() and (name == OWN_FILE or TABLE[-1] in _text_of(file)):
                label = rebase_path(name, parent)
                text = read_text(file)
                document = _parse(text, label)
                table = _find_value(document, path)
                if isinstance(table, dict):
                    return _TableReader(file, label, text, path).read(table)
                if table is not None:
                    message, advice = f"{'.'.join(TABLE)} is not a table", f"write [{'.'.join(TABLE)}]"
                    diagnostic = Diagnostic("bad-configuration", message, Span(label, 1, 1, 1, 1), advice)
                    raise InputError([diagnostic])
        if (parent / ".git").exists():
            break
    return Configuration()


def _text_of(file: Path) -> str:
    """The text of a file that may belong to another tool; empty if it can't be read."""
    try:
        return read_text(file)
    except InputError:
        return ""


def _parse(text: str, label: str) -> dict[str, Any]:
    """The tables of a text. Errors: InputError if it is not TOML."""
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).rpartition(" (at ")  # before Python 3.14 the place is in the text alone
        numbers = [int(number) for number in re.findall(r"\d+", where)] or [text.count("\n") + 1, 1]
        span = Span(label, numbers[0], numbers[-1], numbers[0], numbers[-1] + 1)
        message = f"this is not TOML: {what[:1].lower()}{what[1:]}"
        raise InputError([Diagnostic("bad-configuration", message, span)], {label: text}) from None


def _find_value(table: Any, path: Sequence[str]) -> Any:
    """The value at a path of a table, or None."""
    for key in path:
        table = table.get(key) if isinstance(table, dict) else None
    return table


class _TableReader:
    """Reads the table of a file."""

    def __init__(self, file: Path, label: str, text: str, table: Sequence[str]) -> None:
        self._file = file
        self._text = text
        self._label = label
        self._places = {
            path[len(table) :]: place for path, place in _find_keys(text) if path[: len(table)] == (*table,)
        }
        self._wrong: list[Diagnostic] = []

    def read(self, table: Mapping[str, Any]) -> Configuration:
        """The configuration. Errors: InputError."""
        keys = [option.name for option in CHECK_OPTIONS] + [TEMPLATES, SOURCES]
        values = {}
        sources: dict[str, str] = {}
        entries: tuple[TemplateEntry, ...] = ()
        for key, value in table.items():
            if key == TEMPLATES:
                entries = tuple(self._entries(value))
            elif key == SOURCES:
                sources = dict(self._sources(value))
            elif key in BY_NAME:
                values[key] = ConfiguredValue(self._option(BY_NAME[key], value, (key,)), self._place((key,)))
            else:
                self._unknown(key, (key,), keys)
        if self._wrong:
            raise InputError(self._wrong, {self._label: self._text})
        return Configuration(self._file, values, entries, sources)

    def _sources(self, value: Any) -> Iterator[tuple[str, str]]:
        for url, folder in value.items() if isinstance(value, dict) else [("", value)]:
            path = (SOURCES, url) if url else (SOURCES,)
            if not url.startswith(("http://", "https://")) or not isinstance(folder, str):
                self._bad(f'`{SOURCES}` must be folders by URLs of HTTP, `"https://example.com/t/" = "t"`', path)
            elif not (self._file.parent / folder).is_dir():
                self._bad(f"there is no folder {folder}", path)
            else:
                yield url, rebase_path(folder, self._file.parent)

    def _entries(self, value: Any) -> Iterator[TemplateEntry]:
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list):
            self._bad(f"`{TEMPLATES}` must be a list of paths, or of tables with {', '.join(ENTRY_KEYS)}", (TEMPLATES,))
            return
        for at, item in enumerate(value):
            place = (TEMPLATES, at)
            entry = {"path": item} if isinstance(item, str) else item
            if not isinstance(entry, dict) or "path" not in entry:
                self._bad("a template must be a path, or a table with a `path`", place)
                continue
            for key in entry:
                if key not in ENTRY_KEYS:
                    self._unknown(key, (*place, key), ENTRY_KEYS)
            path = entry["path"]
            patterns = (path,) if isinstance(path, str) else tuple(path) if isinstance(path, list) else ()
            if not patterns or not all(isinstance(pattern, str) and pattern for pattern in patterns):
                self._bad("`path` must be a path with wildcards, or a list of them", (*place, "path"))
                continue
            more = {
                key: self._option(BY_NAME[key], entry.get(key, []), (*place, key))
                for key in ("environment", "parameter")
            }
            parameters = dict(more["parameter"] or ())
            patterns = tuple(os.path.relpath(self._file.parent / path, self._file.parent) for path in patterns)
            yield TemplateEntry(patterns, tuple(more["environment"] or ()), parameters, self._place(place))

    def _option(self, option: CheckOption, value: Any, path: KeyPath) -> Any:
        """The value of an option; None if it is wrong."""
        if option.read is read_pair and isinstance(value, dict):
            return list(value.items())
        try:
            if option.flag:
                if not isinstance(value, bool) and value not in option.choices:
                    words = ["true", "false", *(f'"{choice}"' for choice in option.choices)]
                    raise ValueError(f"`{option.name}` must be {', '.join(words[:-1])} or {words[-1]}")
                return value
            if option.many:
                texts = [value] if isinstance(value, str) else value
                if not isinstance(texts, list):
                    raise ValueError(f"`{option.name}` must be a list of strings")
                return [self._read_text(option, text) for text in texts]
            if option.read is read_list and isinstance(value, list):
                if not all(isinstance(word, str) for word in value):
                    raise ValueError(f"`{option.name}` must be a list of strings")
                return tuple(value)
            return self._read_text(option, value)
        except ValueError as error:
            self._bad(str(error), path)
            return None

    def _read_text(self, option: CheckOption, value: Any) -> object:
        if isinstance(value, date):  # a time is one too
            value = value.isoformat()
        if isinstance(value, int) and not isinstance(value, bool) and option.name == "jobs":
            value = str(value)
        if not isinstance(value, str) or not value:
            raise ValueError(
                f"`{option.name}` must be a string" if not option.many else f"`{option.name}` must be a list of strings"
            )
        if option.choices and value not in option.choices:
            raise ValueError(f"`{option.name}` must be one of {', '.join(option.choices)}")
        return option.read(option.rebase(value, self._file.parent))

    def _unknown(self, key: str, path: KeyPath, known: Sequence[str]) -> None:
        advice = suggest_name(closest(key, known), f"one of {', '.join(known)}")
        self._wrong.append(Diagnostic("bad-configuration", f"there is no key `{key}`", self._place(path), advice))

    def _bad(self, what: str, path: KeyPath) -> None:
        self._wrong.append(Diagnostic("bad-configuration", what, self._place(path)))

    def _place(self, path: KeyPath) -> Span:
        """The place of a key. In a table on one line it is the key's name, if that occurs only once there or below."""
        if path in self._places:
            line, column = self._places[path]
            return Span(self._label, line, column, line, column + len(str(path[-1])))
        outer = next((path[:end] for end in range(len(path), -1, -1) if path[:end] in self._places), ())
        line, column = self._places.get(outer, (1, 1))
        length = len(str(outer[-1])) if outer else 1
        name = re.compile(rf"""(?<![\w-]){re.escape(str(path[-1]))}(?=["']?\s*=)""")
        rows = enumerate(self._text.splitlines()[line - 1 :], line)
        inner = [(at, match.start() + 1) for at, row in rows for match in name.finditer(row)]
        if len(inner) == 1:  # otherwise it is not known which one
            [(line, column)], length = inner, len(str(path[-1]))
        return Span(self._label, line, column, line, column + length)


def _find_keys(text: str) -> Iterator[tuple[KeyPath, tuple[int, int]]]:
    """The keys and headers of TOML at the start of lines, with line and column, which Python's TOML reader does not
    record. A line inside a multi-line text may look like a key; at worst a place is wrong."""
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.match(line):
            *outer, last = _split(match["key"])
            table = ()
            for part in outer:  # the last entry of each list of tables that it stands in
                table = (*table, part)
                table = (*table, counts[table]) if table in counts else table
            table = (*table, last)
            if match["many"] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, (number, match.start("key") + 1)
        elif match := _KEY.match(line):
            yield (*table, *_split(match["key"])), (number, match.start("key") + 1)


def _split(key: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, key))


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    """A regular expression for a pattern: ``*`` and ``?`` match no slash, ``**`` any folders, a folder everything
    below. The literal name matches too, as for ``a[1].yaml``."""

    def translate(match: re.Match[str]) -> str:
        match match[0]:
            case "**/":
                return "(?:[^/]+/)*"
            case "*" | "**":
                return "[^/]*"
            case "?":
                return "[^/]"
            case text if len(text) > 1:
                negation = "^" if text[1] == "!" else ""
                members = re.escape(text[1:-1].removeprefix("!")).replace("\\-", "-")
                return f"[{negation}{members}]"
            case text:
                return re.escape(text)

    path = os.path.normpath(pattern).replace(os.sep, "/")
    if path == ".":
        return re.compile(".*")
    regular = re.sub(r"\*\*/|\*\*|\[!?[^\]]+\]|.", translate, path)
    return re.compile(f"(?:{regular}|{re.escape(path)})(?:/|$).*")
