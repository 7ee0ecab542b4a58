"""One template's own names, and its functions resolved among them (layer 2).

In: raw data of a template. Out: the same data with every function replaced by its value, unknowns where nobody knows it
yet. What is wrong is reported to the `Tree`, which all templates of one reading share and which bounds their size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as with_changes
from datetime import date
from typing import Never

from datalog_gate.diagnostics import Diagnostic, Span, closest
from datalog_gate.errors import InputError
from datalog_gate.facts.stack import Data, Locate, Path, Resource, Template
from datalog_gate.template.attributes import TypeOf, attribute, hides
from datalog_gate.template.dialect import RESOURCE_KEYS, Dialect
from datalog_gate.template.document import MAX_DEPTH, Document, read_document, size_of
from datalog_gate.template.environment import Registry
from datalog_gate.template.expressions import leaves, unknown
from datalog_gate.template.functions import BadFunction, TooLarge, Undecided, function, repeat, same, select
from datalog_gate.template.order import in_order
from datalog_gate.values import ResourceId, Unknown

MAX_WORK = 2_000_000
"""Parts that all functions, members and nested stacks together may make; sixteen characters of text count as one."""
MAX_RESOURCES = 10_000
MAX_PROBLEMS = 100
MAX_READING = 30
"""Resources that are being read at once, each for an attribute of the next."""
_CONTAINERS = (dict, list)
SCALARS = frozenset({str, int, float, bool, type(None)})
OMITTED = object()
"""What an `if` without its third argument gives: its place is as if the template did not mention it."""

Fetch = Callable[[str, str], tuple[str, str] | None]
"""The file of a name in a template or environment, given as (name, file that names it): its own name and text. None if
there is none. Errors: InputError whose diagnostics have no place, for a file that may not be read."""


@dataclass(slots=True)
class Hidden:
    """The paths in a document whose values came from a hidden parameter, and all paths above them, which do in part."""

    paths: dict[Path, bool] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """Note a path."""
        path = tuple(map(str, path))
        for at in range(len(path)):
            self.paths.setdefault(path[:at], False)
        self.paths[path] = True

    def holds(self, path: Path, partly: bool) -> bool:
        """Whether all below the path came from a hidden parameter, or with `partly` some of it."""
        if not self.paths:
            return False
        path = tuple(map(str, path))
        return (partly and path in self.paths) or any(self.paths.get(path[:at]) for at in range(len(path) + 1))


@dataclass(slots=True)
class Tree:
    """What the templates of one reading share."""

    fetch: Fetch
    type_of: TypeOf
    problems: list[Diagnostic] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    veiled: list[Span | None] = field(default_factory=list)
    documents: dict[str, Document] = field(default_factory=dict)
    resources: int = 0
    work: int = 0

    def report(self, code: str, message: str, span: Span | None, suggestion: str | None = None) -> None:
        """Keeps one diagnostic; all are raised together. Errors: InputError when they are `MAX_PROBLEMS`."""
        self.add(Diagnostic(code, self.covered(message)[:400], span, suggestion))

    def add(self, problem: Diagnostic) -> None:
        """Keeps one diagnostic, as `report` does."""
        self.problems.append(problem)
        if len(self.problems) >= MAX_PROBLEMS:
            raise InputError(self.problems, self.sources)

    def near(self, word: Data, candidates: Iterable[str]) -> str | None:
        """The suggestion for a name that is none of the candidates. Only the first problems are worth the search."""
        found = closest(word, candidates) if isinstance(word, str) and len(self.problems) < 10 else None
        return found and f"did you mean `{found}`?"

    def hide(self, value: Data, home: str, written: str | None = None) -> None:
        """Keeps the texts of a hidden value, so that nothing written about the stack of that id shows them: they are
        written as `written`, else each as a number of its own, for equal texts must stay equal values."""
        for leaf in leaves(value, keys=True):
            if isinstance(leaf, str | int | float) and not isinstance(leaf, bool) and leaf != "":
                self.secrets.setdefault(str(leaf), written or f"{{hidden: {len(self.secrets)}}} in {home}")

    def covered(self, message: str) -> str:
        """The message without the hidden texts that stand in it as words."""
        for secret in sorted((one for one in self.secrets if one in message), key=len, reverse=True):
            message = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", message)
        return message

    def redact(self) -> None:
        """Cuts hidden values out of the texts that excerpts are made of: from where they begin to the end of the line,
        and all lines that they go on over."""
        for span in self.veiled:
            if span and span.file in self.sources:
                rows = self.sources[span.file].splitlines()
                first, last = span.line - 1, span.end_line - (span.end_column == 1)
                rows[first:last] = [rows[first][: span.column - 1] + "***", *["***"] * (last - first - 1)]
                self.sources[span.file] = "\n".join(rows)

    def count(self, resources: int, locate: Locate) -> None:
        """Counts resources. Errors: InputError as soon as they are too many."""
        self.resources += resources
        if self.resources > MAX_RESOURCES:
            self.stop("too-large", f"the stack has more than {MAX_RESOURCES} resources", locate(()))

    def spend(self, work: int) -> None:
        """Counts work. Errors: InputError as soon as it is too much."""
        self.work += work
        if self.work > MAX_WORK:
            self.stop("too-large", f"the stack has more than {MAX_WORK} parts when its functions are resolved", None)

    def stop(self, code: str, message: str, span: Span | None) -> Never:
        """Errors: InputError with this and all that was reported."""
        self.report(code, message, span)
        raise InputError(self.problems, self.sources)

    def file(self, name: str, base: str, span: Span | None) -> tuple[str, str] | None:
        """The file of that name; a missing one is reported, but not an http(s) address."""
        try:
            found = self.fetch(name, base)
        except InputError as error:
            for one in error.diagnostics:
                self.add(with_changes(one, span=one.span or span))
            return None
        if found is None and not is_remote(name):
            self.report("missing-file", f"there is no file {name}", span)
        return found

    def document(self, file: str, text: str) -> Document:
        """The parsed document of a file, once for all who nest it. Errors: InputError."""
        self.sources[file] = text
        if file not in self.documents:
            self.documents[file] = read_document(text, file)
        return self.documents[file]


def is_remote(name: str) -> bool:
    """Whether a file's name is an address that is never fetched."""
    return name.startswith(("http://", "https://"))


@dataclass(slots=True)
class Scope:
    """The names of one template. `read` gives a resource by its name, None while that very resource is being read;
    `reading` of them are. `ids` are those of the resources without a condition.

    `touched` counts how often a hidden value was read: what a function gives came from one if it grew on the way.
    `hidden` are the paths of such results, `veiled` the values of the stack as `Stack.hidden`."""

    tree: Tree
    id: str
    depth: int
    document: Document
    base: str
    dialect: Dialect
    registry: Registry
    definitions: Mapping[str, Data]
    read: Callable[[Scope, str], Resource | None]
    facade: Mapping[str, tuple[Data, bool]] | None = None
    parameters: dict[str, Data] = field(default_factory=dict)
    given: dict[str, Locate] = field(default_factory=dict)
    conditions: Mapping[str, Data] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    requires: dict[str, str] = field(default_factory=dict)
    ancestors: tuple[str, ...] = ()
    done: dict[str, Resource | None] = field(default_factory=dict)
    decided: dict[str, bool | Unknown | None] = field(default_factory=dict)
    hidden: Hidden = field(default_factory=Hidden)
    veiled: set[Path] = field(default_factory=set)
    touched: int = 0
    reading: int = 0
    ids: dict[str, ResourceId] = field(init=False)

    def __post_init__(self) -> None:
        key = "condition" if self.dialect.hot else "Condition"
        self.ids = {
            name: ResourceId(f"{self.id}/{name}")
            for name, definition in self.definitions.items()
            if not isinstance(definition, dict) or key not in definition
        }

    def resolve(self, data: Data, path: Path, names: frozenset[str] | None = None) -> Data:
        """The data with the functions in `names` (default: the dialect's) replaced by their values. Data that has none
        is given back itself, so that what is large and plain is neither copied nor held twice."""
        value = self._resolve(data, path, self.dialect.functions if names is None else names)
        return None if value is OMITTED else value

    def _resolve(self, data: Data, path: Path, known: frozenset[str]) -> Data:
        items: Iterable[tuple[str | int, Data]]
        if isinstance(data, dict):
            if len(data) == 1:
                [(name, arguments)] = data.items()
                if name in known:
                    if name == "get_resource" and isinstance(arguments, str) and arguments in self.ids:
                        self.requires.setdefault(arguments, "reference")
                        return self.ids[arguments]
                    touched = self.touched
                    value = self._call(name, arguments, (*path, name), known)
                    if self.touched != touched:
                        self.hidden.add(path)
                        self.tree.hide(value, self.id)
                    return value
                if name in self.dialect.removed:
                    self._wrong("bad-function", f"version {self.dialect.version} has no function {name}", path)
                elif name in self.dialect.functions:
                    self._wrong("bad-function", f"a condition can't use the function {name}", path)
            items = data.items()
        elif isinstance(data, list):
            items = enumerate(data)
        else:
            return data if type(data) in SCALARS else self._plain(data, path, known)
        self.tree.work += len(data)
        if len(path) > MAX_DEPTH:
            self.tree.stop("too-large", f"nested deeper than {MAX_DEPTH} levels", self.document.place(path))
        changed: dict[str | int, Data] = {}
        for key, value in items:
            if type(value) not in SCALARS:
                resolved = self._resolve(value, (*path, key), known)
                if resolved is not value:
                    changed[key] = resolved
        if not changed:
            return data
        if isinstance(data, list):
            if OMITTED in changed.values() and self.hidden.holds(path, True):
                self.hidden.add(path)  # its items do not stand where the text has them
            return [item for at, one in enumerate(data) if (item := changed.get(at, one)) is not OMITTED]
        return {key: value for key, value in {**data, **changed}.items() if value is not OMITTED}

    def _plain(self, data: Data, path: Path, names: frozenset[str]) -> Data:
        """What a template given as data may hold besides that which JSON has."""
        match data:
            case date():
                return data.isoformat()
            case tuple() if not isinstance(data, ResourceId):
                return self._resolve(list(data), path, names)
            case bool() | int() | float() | str() | ResourceId() | Unknown():
                return data
        self._wrong("yaml", f"a template holds no {type(data).__name__}", path)
        return None

    def condition(self, data: Data, path: Path) -> bool | Unknown:
        """The truth of a condition: a boolean, a name of the section, a function, or null, which always holds. A wrong
        one is reported."""
        value = self.resolve(data, path, self.dialect.conditional)
        if value is None:
            return True
        if isinstance(value, bool | Unknown):
            return value
        if not isinstance(value, str) or value not in self.conditions:
            self._wrong("bad-reference", f"there is no condition `{value}`", path, self.conditions, value)
            return False
        touched = self.touched
        if value not in self.decided:
            self.decided[value] = None
            self.decided[value] = self._defined(value)
        if self.touched != touched or ("conditions", value) in self.veiled:
            self.veiled.add(("conditions", value))
            self.touched += 1
        truth = self.decided[value]
        if truth is None:
            self._wrong("bad-reference", f"the condition `{value}` depends on itself", path)
            return False
        return truth

    def _defined(self, name: str) -> bool | Unknown:
        """What the section says of the condition of that name: there, another's name is no condition."""
        path: Path = (self.dialect.key("conditions"), name)
        value = self.resolve(self.conditions[name], path, self.dialect.conditional)
        if isinstance(value, bool | Unknown):
            return value
        self._wrong("bad-template", f"the condition `{name}` must be a boolean or one of the functions", path)
        return False

    def exists(self, name: str) -> bool | Unknown:
        """The condition of a resource that the template defines."""
        definition, key = self.definitions[name], "condition" if self.dialect.hot else "Condition"
        if not isinstance(definition, dict) or key not in definition or not self.dialect.conditional:
            return True
        touched = self.touched
        exists = self.condition(definition[key], (self.dialect.resources, name, key))
        self.touched = touched  # no value
        return exists

    def template(self) -> Template:
        """The names of the template, for those who read its text."""
        return Template(self.id, self.definitions, self.conditions, self.dialect.functions | self.dialect.conditional)

    def write(self, function: str, arguments: Data, path: Path) -> Unknown:
        """The unknown value of a function over resolved arguments."""
        self.tree.spend(len(self.tree.secrets))
        return unknown(function, arguments, self.id, self.tree.secrets, self.document.place(path))

    def _call(self, name: str, raw: Data, path: Path, names: frozenset[str]) -> Data:
        arguments: Data = None
        try:
            if name in ("if", "Fn::If"):
                return self._if(name, raw, path, names)
            if name in _LOGIC:
                return self._logic(name, raw, path)
            if (
                name == "filter" and isinstance(raw, list) and len(raw) == 2
            ):  # what is left out of nothing, Heat ignores
                whole = self.resolve(raw[1], (*path, 1), names)
                before = len(self.tree.problems)
                arguments = [self.resolve(raw[0], (*path, 0), names), whole]
                if not whole and not isinstance(whole, Unknown):
                    said = self.tree.problems[before:]
                    self.tree.problems[before:] = [one for one in said if one.code != "bad-function"]
                    return whole
            else:
                arguments = self.resolve(raw, path, names) if isinstance(raw, _CONTAINERS) else raw
            if own := _OWN.get(name):
                value = own(self, arguments, path)
            elif compute := function(name, self.dialect.date):
                value = compute(arguments)
            else:
                value = repeat(arguments, self.dialect.date, lambda inner, what: self.write(inner, what, path[:-1]))
        except Undecided:
            return self.write(name, arguments, path[:-1])
        except TooLarge as error:
            self.tree.stop("too-large", f"`{name}` {error}", self.document.place(path[:-1]))
        except BadFunction as error:
            self._wrong("bad-function", f"`{name}` {error}", path[:-1])
            return None
        return self._measured(value, path[:-1])

    def _measured(self, value: Data, path: Path) -> Data:
        """The value of a function, after its size: what functions put together can grow and nest without end."""
        if isinstance(value, _CONTAINERS):
            size = size_of(value)
            if size is None:
                self.tree.stop("too-large", "this function gives too much, or too deep", self.document.place(path))
            self.tree.spend(size)
        elif isinstance(value, str):
            self.tree.spend(len(value) // 16)
        return value

    def _wrong(self, code: str, message: str, path: Path, known: Iterable[str] = (), word: Data = None) -> None:
        self.tree.report(code, message, self.document.place(path), self.tree.near(word, known))

    def _if(self, name: str, raw: Data, path: Path, names: frozenset[str]) -> Data:
        least = 2 if self.dialect.date >= "2021-04-16" else 3
        if not isinstance(raw, list) or not least <= len(raw) <= 3:
            raise BadFunction("takes [condition, value if true, value if false]")
        truth = self.condition(raw[0], (*path, 0))
        if not isinstance(truth, Unknown):
            at = 1 if truth else 2
            return self._resolve(raw[at], (*path, at), names) if at < len(raw) else OMITTED
        choices = [self._resolve(raw[at], (*path, at), names) for at in range(1, len(raw))]
        if len(choices) == 2 and OMITTED not in choices and same(*choices):
            return choices[0]
        shown = [{"omitted": True} if choice is OMITTED else choice for choice in choices]
        return self.write(name, [truth, *shown], path[:-1])

    def _logic(self, name: str, raw: Data, path: Path) -> bool | Unknown:
        function = name.removeprefix("Fn::").lower()
        if function == "equals":
            if not isinstance(raw, list) or len(raw) != 2:
                raise BadFunction("takes [value, value]")
            values = self.resolve(raw, path, self.dialect.conditional)
            equal = same(*values) if isinstance(values, list) and len(values) == 2 else None
            return self.write(name, values, path[:-1]) if equal is None else equal
        parts = [raw] if name == "not" else raw
        if not isinstance(parts, list) or (len(parts) != 1 if function == "not" else len(parts) < 2):
            raise BadFunction("takes one condition" if function == "not" else "takes a list of conditions")
        if parts == [None] and name == "not":
            raise BadFunction("takes a condition")
        if function == "not":
            truth = self.condition(parts[0], path if name == "not" else (*path, 0))
            return self.write(name, truth, path[:-1]) if isinstance(truth, Unknown) else not truth
        open_ones: list[Data] = []
        values = self.resolve(parts, path, self.dialect.conditional)  # Heat calls all functions before it reads a name
        for at, part in enumerate(values if isinstance(values, list) else []):
            truth = self.condition(part, (*path, at))
            if truth is (function == "or"):  # it decides, and Heat reads no further
                return truth
            open_ones += [truth] if isinstance(truth, Unknown) else []
        return self.write(name, open_ones, path[:-1]) if open_ones else function == "and"

    def _get_param(self, arguments: Data, path: Path) -> Data:
        name, *steps = arguments if isinstance(arguments, list) and arguments else [arguments]
        if not isinstance(name, str):
            raise BadFunction("takes a parameter's name, or [name, key, ...]")
        if name not in self.parameters:
            self._wrong("bad-reference", f"there is no parameter `{name}`", path, self.parameters, name)
            return None
        self.touched += ("parameters", name) in self.veiled
        try:
            return select(self.parameters[name], steps, parse=True)
        except (LookupError, ValueError, TypeError):
            return ""
        except Undecided:
            whole = self.parameters[name]
            if isinstance(whole, Unknown) and whole != self.write("get_param", name, path):  # what the parent passed
                return self.write("get_param", [whole, *steps], path[:-1])
            raise

    def _get_resource(self, arguments: Data, path: Path) -> Data:
        if not self._names_resource(arguments, path, "reference"):
            return None
        return ResourceId(f"{self.id}/{arguments}")

    def _get_attr(self, arguments: Data, path: Path) -> Data:
        least = 1 if self.dialect.date >= "2015-10-15" else 2
        if not isinstance(arguments, list) or len(arguments) < least or (not self.dialect.hot and len(arguments) > 2):
            raise BadFunction(f"takes [resource, attribute{', key, ...' if self.dialect.hot else ''}]")
        name, *keys = arguments
        if not self._names_resource(name, path, "attribute"):
            return None
        if self.reading >= MAX_READING and name not in self.done:  # so that a long chain nests no calls
            for other in in_order(self.definitions, str(name), self.done):
                self.read(self, other)
        touched = self.touched
        resource = self.read(self, str(name))
        self.touched = touched
        if resource is None or not keys:
            raise Undecided
        value = attribute(resource, keys, self.tree.type_of)
        self.touched += hides(resource, keys)
        return value

    def _names_resource(self, name: Data, path: Path, why: str) -> bool:
        """Whether the name is that of a resource which may exist, noted as required."""
        if isinstance(name, Unknown | ResourceId):
            raise Undecided
        if not isinstance(name, str) or name not in self.definitions:
            self._wrong("bad-reference", f"there is no resource `{name}`", path, self.definitions, name)
            return False
        if self.exists(name) is False:
            if (
                path[0] != self.dialect.key("outputs") or why == "attribute"
            ):  # Heat shows such an output without a value
                self._wrong("bad-reference", f"the condition of the resource `{name}` is false", path)
            return False
        self.requires.setdefault(name, why)
        return True

    def _ref(self, arguments: Data, path: Path) -> Data:
        if isinstance(arguments, list):
            raise BadFunction("takes the name of a parameter or a resource")
        named = isinstance(arguments, str) and arguments in self.definitions
        return self._get_resource(arguments, path) if named else self._get_param(arguments, path)

    def _get_file(self, arguments: Data, path: Path) -> Data:
        if isinstance(arguments, Unknown | ResourceId):
            raise Undecided
        if not isinstance(arguments, str):
            raise BadFunction("takes a file's name")
        found = self.tree.file(arguments, self.base, self.document.place(path))
        if found is None:
            if is_remote(arguments):
                raise Undecided
            return None
        self.files[found[0]] = found[1]
        return found[1]

    def _resource_facade(self, arguments: Data, path: Path) -> Data:
        keys = ("metadata", "deletion_policy", "update_policy")
        names = {key if path[-1] == "resource_facade" else RESOURCE_KEYS[key]: key for key in keys}
        if not isinstance(arguments, str) or arguments not in names:
            raise BadFunction(f"takes {', '.join(names)}")
        if self.facade is None:  # nobody nests this template yet
            raise Undecided
        value, hidden = self.facade[names[arguments]]
        self.touched += hidden
        return value

    def _find_in_map(self, arguments: Data, _path: Path) -> Data:
        if not isinstance(arguments, list) or len(arguments) != 3:
            raise BadFunction("takes [map, key, key]")
        sections = self.document.data
        try:
            return select(sections.get("Mappings") if isinstance(sections, dict) else None, arguments)
        except (LookupError, ValueError, TypeError):
            raise BadFunction("finds nothing under these keys") from None


_LOGIC = ("equals", "not", "and", "or", "Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or")
_OWN: dict[str, Callable[[Scope, Data, Path], Data]] = {
    "get_param": Scope._get_param,
    "get_resource": Scope._get_resource,
    "get_attr": Scope._get_attr,
    "get_file": Scope._get_file,
    "resource_facade": Scope._resource_facade,
    "Ref": Scope._ref,
    "Fn::GetAtt": Scope._get_attr,
    "Fn::FindInMap": Scope._find_in_map,
    "Fn::ResourceFacade": Scope._resource_facade,
}
