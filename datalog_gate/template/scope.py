"""One template's own names, and its functions resolved among them (layer 2).

In: raw data of a template. Out: the same data with every function replaced by its value, unknowns where nobody knows it
yet. What is wrong is reported to the `Tree`, which all templates of one reading share and which bounds their size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as with_changes
from typing import Never

from datalog_gate.diagnostics import Diagnostic, Span, closest
from datalog_gate.errors import InputError
from datalog_gate.facts.stack import Data, Path, Resource
from datalog_gate.template.attributes import attribute
from datalog_gate.template.dialect import RESOURCE_KEYS, Dialect
from datalog_gate.template.document import Document, read_document, size_of
from datalog_gate.template.environment import Registry
from datalog_gate.template.expressions import unknown
from datalog_gate.template.functions import BadFunction, TooLarge, Undecided, function, repeat, same, select
from datalog_gate.values import ResourceId, Unknown

MAX_WORK = 2_000_000
"""Parts that all functions, members and nested stacks together may make; sixteen characters of text count as one."""
MAX_RESOURCES = 10_000
MAX_PROBLEMS = 100
OMITTED = object()
"""What an `if` without its third argument gives: its place is as if the template did not mention it."""

Fetch = Callable[[str, str], tuple[str, str] | None]
"""The file of a name in a template or environment, given as (name, file that names it): its own name and text. None if
there is none. Errors: InputError whose diagnostics have no place, for a file that may not be read."""


@dataclass(slots=True)
class Tree:
    """What the templates of one reading share."""

    fetch: Fetch
    problems: list[Diagnostic] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    resources: int = 0
    work: int = 0

    def report(self, code: str, message: str, span: Span | None, suggestion: str | None = None) -> None:
        """Keeps one diagnostic; all are raised together. Errors: InputError when they are `MAX_PROBLEMS`."""
        self.add(Diagnostic(code, message[:400], span, suggestion))

    def add(self, problem: Diagnostic) -> None:
        """Keeps one diagnostic, as `report` does."""
        self.problems.append(problem)
        if len(self.problems) >= MAX_PROBLEMS:
            raise InputError(self.problems, self.sources)

    def near(self, word: Data, candidates: Iterable[str]) -> str | None:
        """The suggestion for a name that is none of the candidates. Only the first problems are worth the search."""
        found = closest(word, candidates) if isinstance(word, str) and len(self.problems) < 10 else None
        return found and f"did you mean `{found}`?"

    def count(self, resources: int, span: Span | None) -> None:
        """Counts resources. Errors: InputError as soon as they are too many."""
        self.resources += resources
        if self.resources > MAX_RESOURCES:
            self.stop("too-large", f"the stack has more than {MAX_RESOURCES} resources", span)

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
    """The names of one template. `read` gives a resource by its name, None while that very resource is being read."""

    tree: Tree
    id: str
    depth: int
    document: Document
    base: str
    dialect: Dialect
    registry: Registry
    definitions: Mapping[str, Data]
    read: Callable[[Scope, str], Resource | None]
    facade: Mapping[str, Data] | None = None
    parameters: dict[str, Data] = field(default_factory=dict)
    conditions: Mapping[str, Data] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    requires: dict[str, str] = field(default_factory=dict)
    ancestors: tuple[str, ...] = ()
    done: dict[str, Resource | None] = field(default_factory=dict)
    decided: dict[str, bool | Unknown | None] = field(default_factory=dict)

    def resolve(self, data: Data, path: Path, names: frozenset[str] | None = None) -> Data:
        """The data with the functions in `names` (default: the dialect's) replaced by their values."""
        value = self._resolve(data, path, self.dialect.functions if names is None else names)
        return None if value is OMITTED else value

    def _resolve(self, data: Data, path: Path, known: frozenset[str]) -> Data:
        if isinstance(data, list):
            self.tree.spend(len(data))
            items = (self._resolve(item, (*path, at), known) for at, item in enumerate(data))
            return [item for item in items if item is not OMITTED]
        if not isinstance(data, dict):
            return data
        self.tree.spend(len(data))
        if len(data) == 1:
            [(name, arguments)] = data.items()
            if name in known:
                return self._call(name, arguments, (*path, name), known)
            if name in self.dialect.removed:
                self._wrong("bad-function", f"version {self.dialect.version} has no function {name}", path)
            elif name in self.dialect.functions:
                self._wrong("bad-function", f"a condition can't use the function {name}", path)
        values = {
            key: self._resolve(value, (*path, key), known) if isinstance(value, dict | list) else value
            for key, value in data.items()
        }
        return {key: value for key, value in values.items() if value is not OMITTED}

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
        if value not in self.decided:
            self.decided[value] = None
            self.decided[value] = self._defined(value)
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
        definition = self.definitions[name]
        key = self.dialect.key("condition")
        if not isinstance(definition, dict) or key not in definition or not self.dialect.conditional:
            return True
        return self.condition(definition[key], (self.dialect.key("resources"), name, key))

    def write(self, function: str, arguments: Data, path: Path) -> Unknown:
        """The unknown value of a function over resolved arguments."""
        return unknown(function, arguments, self.id, self.tree.secrets, self.document.place(path))

    def _call(self, name: str, raw: Data, path: Path, names: frozenset[str]) -> Data:
        arguments: Data = None
        try:
            if name in ("if", "Fn::If"):
                return self._if(name, raw, path, names)
            if name in _LOGIC:
                return self._logic(name, raw, path)
            arguments = self.resolve(raw, path, names)
            if name == "repeat":
                value = repeat(arguments, self.dialect.date, lambda inner, what: self.write(inner, what, path[:-1]))
            elif compute := function(name, self.dialect.date):
                value = compute(arguments)
            else:
                value = _OWN[name](self, arguments, path)
        except Undecided:
            return self.write(name, arguments, path[:-1])
        except TooLarge as error:
            self.tree.stop("too-large", f"`{name}` {error}", self.document.place(path[:-1]))
        except BadFunction as error:
            self._wrong("bad-function", f"`{name}` {error}", path[:-1])
            return None
        size = size_of(value)  # what functions put together can grow and nest without end
        if size is None:
            self.tree.stop("too-large", f"`{name}` gives too much, or too deep", self.document.place(path[:-1]))
        self.tree.spend(size + (len(value) // 16 if isinstance(value, str) else 0))
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
        resource = self.read(self, str(name))
        if resource is None or not keys:
            raise Undecided
        return attribute(resource, keys)

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
        return self.facade[names[arguments]]

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
