"""The names of one template, and the values of its functions.

Errors are reported to the `Tree`, which all templates of one reading share.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from datetime import date
from typing import Never

from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.unknown import LOGIC, call
from datalog_gate.base.values import ResourceId, Unknown, bases
from datalog_gate.stack.model import GROUPS, Data, Locate, Path, Resource, Stack, Template
from datalog_gate.template.dialect import RESOURCE_KEYS, Dialect
from datalog_gate.template.document import MAX_DEPTH, Document, size_of, steps_of
from datalog_gate.template.environment import Environment, Registry
from datalog_gate.template.functions.attributes import attribute, hides
from datalog_gate.template.functions.pure import BadFunction, TooLarge, Undecided, function, repeat, same, select
from datalog_gate.template.packing import pack
from datalog_gate.template.parameters import Given
from datalog_gate.template.tree import Hidden, Tree

MAX_READING = 30
"""The maximum depth of resources that read each other's attributes."""
_CONTAINERS = (dict, list)
SCALARS = frozenset({str, int, float, bool, type(None)})
OMITTED = object()
"""The result of an `if` without its third argument: its key or item is left out."""


ReadStack = Callable[[Tree, Document, "Nesting", Mapping[str, Given]], Stack | None]


@dataclass(frozen=True, slots=True)
class Nesting:
    """The position of a stack in the tree."""

    id: str
    """The path of the stack, ``web/db``."""
    name: str
    """Heat's name for it, ``web-db``."""
    parent: ResourceId | None
    """The resource that contains it; None for the root."""
    depth: int
    base: str
    """The file that file names in its template are relative to."""
    registry: Registry
    environment: Environment
    ancestors: tuple[str, ...]
    """The files of its template and of the outer ones, outermost first."""
    read_stack: ReadStack
    """Reads its nested stacks."""
    facade: Mapping[str, tuple[Data, bool]] | None = None
    """Parts of its parent resource, each with whether it came from a hidden parameter."""
    hidden: bool = False
    """Whether its template came from a hidden parameter."""


_OF_FUNCTIONS = ("bad-function", "newer-version")
"""What is wrong in the arguments of a function only if Heat computes it."""


@dataclass(slots=True)
class Scope:
    """The names of one template, and their resolved values."""

    tree: Tree
    document: Document
    dialect: Dialect
    inside: Nesting
    definitions: Mapping[str, Data]
    """The resources as written."""
    read: Callable[[Scope, str], Resource | None]
    """Reads the resource with a name; None if its condition is false, or while it is being read."""
    parameters: dict[str, Data] = field(default_factory=dict)
    """The parameter values, including those that Heat adds."""
    given: dict[str, Locate] = field(default_factory=dict)
    """Where the user wrote the value of each parameter."""
    conditions: Mapping[str, Data] = field(default_factory=dict)
    """The conditions as written."""
    attributes: dict[Path, tuple[str, Sequence[Data]]] = field(default_factory=dict)
    """As `Template.attributes`."""
    files: dict[str, str] = field(default_factory=dict)
    """The texts read by `get_file`, by file name."""
    requires: dict[str, str] = field(default_factory=dict)
    """The resources required by the current one, each with the reason."""
    done: dict[str, Resource | None] = field(default_factory=dict)
    """The resources that were read; None while one is being read."""
    decided: dict[str, bool | Unknown | None] = field(default_factory=dict)
    """The resolved conditions; None while one is being resolved."""
    hidden: Hidden = field(default_factory=Hidden)
    """The paths of results that came from a hidden value."""
    hidden_parts: set[Path] = field(default_factory=set)
    """As `Stack.hidden`."""
    touched: int = 0
    """The number of reads of hidden values. If it grows during a function call, the result is hidden."""
    missing: int = 0
    """The number of references to nothing in outputs that Heat builds without a value."""
    reading: int = 0
    """The number of resources being read."""

    def sure(self, name: str) -> ResourceId | None:
        """The id of a resource that the template defines without a condition."""
        if name not in self.definitions:
            return None
        definition = self.definitions[name]
        conditional = type(definition) is dict and ("condition" if self.dialect.hot else "Condition") in definition
        return None if conditional else ResourceId(f"{self.inside.id}/{name}")

    def resolve(self, data: Data, path: Path, names: frozenset[str] | None = None) -> Data:
        """The data with the functions in `names` (default: the dialect's) replaced by their values. Data without
        functions is returned unchanged, so that large plain data is not copied."""
        value = self._resolve(data, path, self.dialect.functions if names is None else names)
        return None if value is OMITTED else value

    def _resolve(self, data: Data, path: Path, known: frozenset[str]) -> Data:
        items: Iterable[tuple[str | int, Data]]
        if isinstance(data, dict):
            if len(data) == 1:
                [(name, arguments)] = data.items()
                if name in known:
                    self.tree.spend(_PER_CALL)
                    if name == "get_resource" and isinstance(arguments, str) and (own := self.sure(arguments)):
                        self.requires.setdefault(arguments, "reference")
                        return own
                    touched = self.touched
                    value = self._call(name, arguments, (*path, name), known)
                    if self.touched != touched:
                        self.hidden.add(path)
                        self.tree.hide(value, self.inside.id)
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
        steps = self.tree.steps
        steps.left -= _PER_PART + len(data)
        if steps.left < 0:
            self.tree.spend(0)
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
                self.hidden.add(path)  # its items have other places than in the text
            return [item for at, old in enumerate(data) if (item := changed.get(at, old)) is not OMITTED]
        return {key: value for key, value in {**data, **changed}.items() if value is not OMITTED}

    def _plain(self, data: Data, path: Path, names: frozenset[str]) -> Data:
        """Convert data that is not in JSON, in a template given as data."""
        match data:
            case date():
                return data.isoformat()
            case tuple() if not isinstance(data, ResourceId):
                return self._resolve(list(data), path, names)
            case bool() | int() | float() | str() | ResourceId() | Unknown():
                return data
        self._wrong("yaml", f"a template can't contain a {type(data).__name__}", path)
        return None

    def condition(self, data: Data, path: Path) -> bool | Unknown:
        """The truth of a condition: a boolean, a name, a function, or null, which always holds. Invalid ones are
        reported, and hold, so that what they decide is checked."""
        value = self.resolve(data, path, self.dialect.conditional)
        if value is None:
            return True
        if isinstance(value, bool | Unknown):
            return value
        if not isinstance(value, str) or value not in self.conditions:
            message = f"there is no condition `{self.hidden.show(path, value)}`"
            self._wrong("bad-reference", message, path, self.conditions, value)
            return True
        touched = self.touched
        if value not in self.decided:
            self.decided[value] = None
            self.decided[value] = self._defined(value)
        if self.touched != touched or ("conditions", value) in self.hidden_parts:
            self.hidden_parts.add(("conditions", value))
            self.touched += 1
        truth = self.decided[value]
        if truth is None:
            message = f"the condition `{self.hidden.show(path, value)}` depends on itself"
            self._wrong("bad-reference", message, path)
            return True
        return truth

    def _defined(self, name: str) -> bool | Unknown:
        """The definition of the condition with that name, in which another condition's name is not allowed."""
        path: Path = (self.dialect.key("conditions"), name)
        value = self.resolve(self.conditions[name], path, self.dialect.conditional)
        if isinstance(value, bool | Unknown):
            return value
        known = sorted(self.dialect.conditional)
        word = next(iter(value), None) if isinstance(value, dict) else value
        message = f"the condition `{name}` must be true, false, or one of {', '.join(known)}"
        self._wrong("bad-template", message, path, known, word)
        return True

    def exists(self, name: str) -> bool | Unknown:
        """The condition of a resource in the template."""
        definition, key = self.definitions[name], "condition" if self.dialect.hot else "Condition"
        if not isinstance(definition, dict) or key not in definition or not self.dialect.conditional:
            return True
        touched = self.touched
        exists = self.condition(definition[key], (self.dialect.resources, name, key))
        self.touched = touched  # no value
        return exists

    def template(self, outputs: Mapping[str, Data]) -> Template:
        """The template with these outputs, for readers of its text."""
        functions = self.dialect.functions | self.dialect.conditional
        parts = self.definitions, self.conditions, functions, outputs, self.attributes, self.given
        return Template(self.inside.id, *parts)

    def unknown(self, function: str, arguments: Data, path: Path) -> Unknown:
        """The unknown value of a function over resolved arguments."""
        steps = (_PER_PART_OF_UNKNOWN + len(self.tree.secrets) // 8) * steps_of(arguments)
        self.tree.spend(_PER_UNKNOWN + len(self.inside.id) // 16 + steps)
        return call(function, arguments, self.inside.id, self.tree.secrets, self.document.place(path))

    def write(self, function: str, arguments: Data, path: Path) -> Data:
        """As `unknown`, with an assumed value if there is one."""
        return self.tree.assumed.of(self.unknown(function, arguments, path))

    def known(self, function: str, arguments: Data) -> None:
        """Record that nothing can be assumed for the function's value."""
        if self.tree.assumed.assumed:
            self.tree.assumed.note_known(self.unknown(function, arguments, ()))

    def _call(self, name: str, raw: Data, path: Path, names: frozenset[str]) -> Data:
        arguments: Data = None
        if name == "get_attr" and isinstance(raw, str) and len(raw) == 1 and self.dialect.date >= "2015-10-15":
            raw = [raw]  # for Heat a text is a list of letters
        try:
            if name in ("if", "Fn::If"):
                return self._if(name, raw, path, names)
            if name in LOGIC:
                return self._logic(name, raw, path)
            if name == "filter" and isinstance(raw, list) and len(raw) == 2:
                whole, problems = self.resolve(raw[1], (*path, 1), names), self.tree.problems
                before, newer = len(problems), {*self.tree.newer}
                arguments = [self.resolve(raw[0], (*path, 0), names), whole]
                if not whole and not isinstance(whole, Unknown):  # what is left out of nothing, Heat ignores
                    looked_at = (problem for problem in problems[before:] if problem.code not in _OF_FUNCTIONS)
                    problems[before:], self.tree.newer = looked_at, newer
                    return whole
            elif name in ("contains", "list_join") and isinstance(raw, list):
                arguments = [self.resolve(part, (*path, at), names) for at, part in enumerate(raw)]
            else:
                arguments = self.resolve(raw, path, names) if isinstance(raw, _CONTAINERS) else raw
                if name in _APART and isinstance(raw, dict) and isinstance(arguments, dict):
                    arguments = {key: arguments.get(key) for key in raw}
            value = self._compute(name, arguments, path)
        except Undecided as undecided:
            value = self.write(name, arguments, path[:-1])
            return replace(value, of=bases(undecided.args)) if isinstance(value, Unknown) and undecided.args else value
        except TooLarge as error:
            self.tree.stop("too-large", f"`{name}` {error}", self.document.place(path[:-1]))
        except BadFunction as error:
            if not self._needs_newer(raw, path):
                known = _ARGUMENTS.get(name, ())
                wrong = [key for key in arguments if key not in known] if isinstance(arguments, dict) else []
                message = f"`{name}` {error}".replace("{}", self.hidden.show(path, error.part))
                self._wrong("bad-function", message, path[:-1], known, wrong[0] if wrong else None)
            return self.unknown(name, arguments, path[:-1])
        if not isinstance(value, Unknown):
            self.known(name, arguments)
        return self._measured(value, path[:-1])

    def _compute(self, name: str, arguments: Data, path: Path) -> Data:
        """The value of a function. Errors: Undecided, TooLarge, BadFunction."""
        if own := _OWN.get(name):
            return own(self, arguments, path)
        if compute := function(name, self.dialect.date, self.tree.spend):
            return compute(arguments)
        at = path[:-1]
        return repeat(arguments, self.dialect.date, lambda inner, what: self.write(inner, what, at), self.tree.spend)

    def _needs_newer(self, raw: Data, path: Path) -> bool:
        """Report a function in the arguments that this version does not have yet. Return whether there is one."""
        match raw:
            case dict() if len(raw) == 1 and self.dialect.newer(name := next(iter(raw))):
                return self.tree.report_newer(name, self.dialect, self.document.file, self.document.place(path))
            case dict():
                return any(self._needs_newer(part, (*path, key)) for key, part in raw.items())
            case list():
                return any(self._needs_newer(part, (*path, at)) for at, part in enumerate(raw))
        return False

    def _measured(self, value: Data, path: Path) -> Data:
        """The value of a function, after checking its size, since functions can build results of any size and depth."""
        if isinstance(value, _CONTAINERS):
            if size_of(value) is None:
                self.tree.stop(
                    "too-large", "the result of this function is too large or too deep", self.document.place(path)
                )
            self.tree.spend(steps_of(value))
        elif isinstance(value, str):
            self.tree.spend(len(value) // 16)
        return value

    def _wrong(self, code: str, message: str, path: Path, known: Iterable[str] = (), word: Data = None) -> None:
        self.tree.report(code, message, self.document.place(path), self._near(path, word, known))

    def _near(self, path: Path, word: Data, known: Iterable[str]) -> str | None:
        """A suggestion for a name that came from that path."""
        return None if self.hidden.holds(path, True) else self.tree.near(word, known)

    def _miss(self, kind: str, name: Data, path: Path, known: Iterable[str]) -> Never:
        """Report a reference to nothing. In an output Heat refuses only what it reads when it validates, attributes and
        conditions, a name that can't be one, and nothing in a stack that exists. Else it builds the stack, and the
        output has no value. In a resource it refuses all but parameters where it does not read them."""
        message = f"there is no {kind} `{self.hidden.show(path, name)}`"
        calls = [(name, path[at + 1 : at + 2]) for at, name in enumerate(path) if name in self.dialect.functions]
        decides = any(name in _CHOICES and at == (0,) for name, at in calls)
        read = decides or isinstance(name, _CONTAINERS) or any(call in _ATTRIBUTES for call, _ in calls)
        is_value = path[:1] + path[2:3] == (self.dialect.key("outputs"), self.dialect.key("value"))
        if is_value and not (read and self.inside.id not in self.tree.held.stacks):
            self.missing += 1
            effect = "in Heat the output has no value"
        elif kind == "resource" or decides or "get_resource" in path or not (effect := self._say_unread(path)):
            self._wrong("bad-reference", message, path, known, name)
            raise Undecided
        self.tree.warn(f"{message}: {effect}", self.document.place(path), self._near(path, name, known))
        raise Undecided

    def _say_unread(self, path: Path) -> str:
        """Why Heat's validation reads no parameter in a part of a resource; empty if it does."""
        section, name, part, *_ = (*path, None, None, None)
        definition = self.definitions.get(str(name)) if section == self.dialect.resources else None
        if not isinstance(definition, dict):
            return ""
        key = self.dialect.parts.get(str(part))
        if key in ("metadata", "update_policy"):
            return "Heat finds this only when it creates the resource"
        declared = str(definition.get(self.dialect.key("type")))
        resolved = self.inside.registry.resolve(declared, str(name), self.tree.type_of, self.tree.spend)
        kind = self.tree.type_of(resolved.type)
        is_unread = definition.get("external_id") or (kind and kind.is_placeholder)
        return "Heat does not read it" if key == "properties" and is_unread else ""

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

    def _logic(self, name: str, raw: Data, path: Path) -> Data:
        """The result of a condition function. As in Heat, arguments are resolved only if needed."""
        function_name = name.removeprefix("Fn::").lower()
        if function_name == "equals":
            return self._equals(name, raw, path)
        parts = [raw] if name == "not" else raw
        if not isinstance(parts, list) or (len(parts) != 1 if function_name == "not" else len(parts) < 2):
            raise BadFunction("takes one condition" if function_name == "not" else "takes a list of conditions")
        if parts == [None] and name == "not":
            raise BadFunction("takes a condition")
        if function_name == "not":
            truth = self.condition(parts[0], path if name == "not" else (*path, 0))
            return self.write(name, truth, path[:-1]) if isinstance(truth, Unknown) else not truth
        open_truths: list[Data] = []
        self.tree.spend(_PER_CONDITION * len(parts))
        values = self.resolve(parts, path, self.dialect.conditional)  # Heat calls all functions before it reads a name
        for at, part in enumerate(values if isinstance(values, list) else []):
            truth = self.condition(part, (*path, at))
            if truth is (function_name == "or"):  # it decides, and Heat stops reading
                return truth
            open_truths += [truth] if isinstance(truth, Unknown) else []
        return self.write(name, open_truths, path[:-1]) if open_truths else function_name == "and"

    def _equals(self, name: str, raw: Data, path: Path) -> Data:
        if not isinstance(raw, list) or len(raw) != 2:
            raise BadFunction("takes [value, value]")
        values = self.resolve(raw, path, self.dialect.conditional)
        equal = same(*values) if isinstance(values, list) and len(values) == 2 else None
        if equal is None:
            return self.write(name, values, path[:-1])
        self.known(name, values)
        return equal

    def _get_param(self, arguments: Data, path: Path) -> Data:
        name, *steps = arguments if isinstance(arguments, list) and arguments else [arguments]
        if not isinstance(name, str):
            raise BadFunction("takes a parameter's name, or [name, key, ...]")
        if name not in self.parameters:
            self._miss("parameter", name, path, self.parameters)
        self.touched += ("parameters", name) in self.hidden_parts
        try:
            return select(self.parameters[name], steps, parse=True)
        except (LookupError, ValueError, TypeError):
            return ""
        except Undecided:
            whole = self.parameters[name]
            if isinstance(whole, Unknown) and whole != self.unknown("get_param", name, path):  # the parent's value
                return self.write("get_param", [whole, *steps], path[:-1])
            raise

    def _get_resource(self, arguments: Data, path: Path) -> Data:
        if not self._names_resource(arguments, path, "reference"):
            return None
        return ResourceId(f"{self.inside.id}/{arguments}")

    def _get_attr(self, arguments: Data, path: Path) -> Data:
        least = 1 if self.dialect.date >= "2015-10-15" else 2
        if not isinstance(arguments, list) or len(arguments) < least or (not self.dialect.hot and len(arguments) > 2):
            raise BadFunction(f"takes [resource, attribute{', key, ...' if self.dialect.hot else ''}]")
        name, *keys = arguments
        if not self._names_resource(name, path, "attribute"):
            return None
        whole = keys[:1] if self.dialect.date == "2013-05-23" else keys  # there the path selects from the whole value
        named = isinstance(whole[0], str | Unknown | ResourceId) or (whole[0] is None and least == 1) if whole else True
        if not named or any(isinstance(key, _CONTAINERS) for key in whole):
            raise BadFunction("takes a text as the attribute, and texts or numbers as keys")
        if not self.hidden.holds(path, True):
            self.attributes[path] = name, whole
        if self.reading >= MAX_READING and name not in self.done:  # so that long chains need no recursion
            for other in _in_order(self.definitions, str(name), self.done):
                self.read(self, other)
        touched = self.touched
        resource = self.read(self, str(name))
        self.touched = touched
        if resource is None or not keys:
            raise Undecided
        self.tree.spend(self._steps_of_attribute(resource))
        value = self.tree.assumed.within(attribute(resource, whole, self.tree.type_of))
        try:
            value = select(value, keys[len(whole) :])
        except (LookupError, ValueError, TypeError):
            value = None
        self.touched += hides(resource, keys)
        return value

    def _steps_of_attribute(self, resource: Resource) -> int:
        """The steps of reading an attribute of a resource: of all members, if it is a group."""
        if resource.nested is None:
            kind = self.tree.type_of(resource.type)
            return steps_of(dict(resource.properties)) if kind and kind.moved else 0
        members = resource.nested.resources
        steps = _PER_MEMBER * len(members) + len(resource.nested.outputs)
        return steps + sum(map(self._steps_of_attribute, members)) if resource.type in GROUPS else steps

    def _names_resource(self, name: Data, path: Path, why: str) -> bool:
        """Whether the name is that of a possible resource, which is recorded as required."""
        if isinstance(name, Unknown | ResourceId):
            raise Undecided
        if not isinstance(name, str) or name not in self.definitions:
            self._miss("resource", name, path, self.definitions)
        if self.exists(name) is False:
            # in Heat an output that refers to it has no value
            if path[0] != self.dialect.key("outputs") or why == "attribute":
                message = f"the condition of the resource `{self.hidden.show(path, name)}` is false"
                self._wrong("bad-reference", message, path)
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
        is_hidden = self.hidden.holds(path, True)
        fetched = self.tree.file(arguments, self.inside.base, self.document.place(path), is_hidden)
        if fetched is None:
            raise Undecided
        file, text = fetched
        if self.tree.packs:
            text = pack(file, text, self.inside.ancestors[0], self.tree.documents, self.tree.spend)
        self.tree.sent[text] = fetched
        name = self.tree.name_of(file)
        self.files[name] = text
        if is_hidden:
            self.hidden_parts.add(("files", name))
        return text

    def _resource_facade(self, arguments: Data, path: Path) -> Data:
        keys = ("metadata", "deletion_policy", "update_policy")
        names = {key if path[-1] == "resource_facade" else RESOURCE_KEYS[key]: key for key in keys}
        if not isinstance(arguments, str) or arguments not in names:
            raise BadFunction(f"takes {', '.join(names)}")
        if self.inside.facade is None:  # not nested yet
            if path[0] == self.dialect.resources and path[2] != self.dialect.key("metadata"):
                message = f"`{path[-1]}` has a value only in a template that another nests: Heat refuses it here"
                self.tree.warn(message, self.document.place(path[:-1]))
            raise Undecided
        value, hidden = self.inside.facade[names[arguments]]
        self.touched += hidden
        return value

    def _yaql(self, arguments: Data, _path: Path) -> Data:
        if not isinstance(arguments, dict) or "expression" not in arguments or arguments.keys() - _YAQL:
            raise BadFunction("takes a map of `expression` and `data`")
        expression = arguments["expression"]
        if isinstance(expression, Unknown | ResourceId):
            raise Undecided
        if not isinstance(expression, str):
            raise BadFunction("takes a text as `expression`")
        from datalog_gate.template.functions.yaql import answer  # few templates use it

        return answer(expression, arguments.get("data", {}), self.tree.queries, self.tree.spend)

    def _find_in_map(self, arguments: Data, _path: Path) -> Data:
        if not isinstance(arguments, list) or len(arguments) != 3:
            raise BadFunction("takes [map, key, key]")
        sections = self.document.data
        try:
            return select(sections.get("Mappings") if isinstance(sections, dict) else None, arguments)
        except (LookupError, ValueError, TypeError):
            raise BadFunction("finds nothing under these keys") from None


def _in_order(definitions: Mapping[str, Data], start: str, done: Container[str]) -> list[str]:
    """The resources whose attributes `start` reads, except `done` ones, each after those it reads itself."""
    order: list[str] = []
    seen: set[str] = set()
    pending = [(start, False)]
    while pending:
        name, left = pending.pop()
        if left:
            order.append(name)
        elif name not in seen:
            seen.add(name)
            pending.append((name, True))
            named = (other for other in _mentioned(definitions[name]) if other in definitions and other not in done)
            pending += [(other, False) for other in named if other not in seen]
    return order


def _mentioned(definition: Data) -> list[str]:
    """The names in the position of an attribute's resource."""
    names, pending = [], [definition]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            for key in ("get_attr", "Fn::GetAtt"):
                named = part.get(key)
                first = named[0] if isinstance(named, list) and named else named
                if isinstance(first, str):
                    names.append(first.split(".", 1)[0] if isinstance(named, str) else first)
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return names


_PER_MEMBER, _PER_PART, _PER_CALL, _PER_CONDITION = 10, 2, 4, 1
"""The steps of reading an attribute of a group, for each member, of a list or map besides its items, of a function
besides its arguments and its result, and of a condition that `and` or `or` takes."""
_PER_UNKNOWN, _PER_PART_OF_UNKNOWN = 20, 4
"""The steps of an unknown value, and of each part of its function's arguments."""
_ATTRIBUTES, _CHOICES = ("get_attr", "Fn::GetAtt"), ("if", "Fn::If")
_YAQL = {"expression", "data"}
_ARGUMENTS: Mapping[str, Collection[str]] = {
    **dict.fromkeys(("str_replace", "str_replace_strict", "str_replace_vstrict"), ("template", "params")),
    "repeat": ("template", "for_each", "permutations"),
    "yaql": _YAQL,
}
"""The names of arguments that a function takes in a map."""
_APART = {"yaql", "repeat"}
"""Functions whose arguments Heat resolves one by one, so that one that is left out is null."""
_OWN: dict[str, Callable[[Scope, Data, Path], Data]] = {
    "get_param": Scope._get_param,
    "get_resource": Scope._get_resource,
    "get_attr": Scope._get_attr,
    "get_file": Scope._get_file,
    "resource_facade": Scope._resource_facade,
    "yaql": Scope._yaql,
    "Ref": Scope._ref,
    "Fn::GetAtt": Scope._get_attr,
    "Fn::FindInMap": Scope._find_in_map,
    "Fn::ResourceFacade": Scope._resource_facade,
}
