"""Completion, hover, names and outline in Heat templates."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from datalog_gate.base.errors import GateError
from datalog_gate.base.secrecy import MASK
from datalog_gate.base.values import Unknown
from datalog_gate.editing.answers import CallHelp, Completion, Hover, Symbol, TextProblem, TextRange
from datalog_gate.editing.workspace import JudgedTemplate, Workspace
from datalog_gate.editing.yaml_outline import OutlineEntry, Slot, entry_at, fit_slot, read_outline, slot_at
from datalog_gate.explain.fix import property_at
from datalog_gate.schema.declaration import Property, ResourceType, Status
from datalog_gate.schema.relations import SECTIONS, VERSIONS
from datalog_gate.schema.resource_types import member_of
from datalog_gate.template.dialect import CFN_VERSIONS, DELETION_POLICIES, VERSION_KEYS, Dialect, dialect_of
from datalog_gate.template.environment import TEMPLATE_ENDINGS
from datalog_gate.template.parameters import PSEUDO, list_parameter_keys, list_parameter_types

FUNCTIONS = {
    "get_param": ("NAME or [NAME, KEY...]", "The value of a parameter, or a part of it."),
    "get_resource": ("NAME", "The id of a resource of this template."),
    "get_attr": ("[RESOURCE, ATTRIBUTE, KEY...]", "An attribute of a resource, or a part of it."),
    "get_file": ("PATH", "The content of a file, relative to this template."),
    "list_join": ("[DELIMITER, LIST...]", "The members of lists as one text."),
    "str_replace": ("{template: TEXT, params: {NAME: VALUE}}", "A text with names replaced by values."),
    "str_replace_strict": ("{template: TEXT, params: {NAME: VALUE}}", "As `str_replace`; each name must occur."),
    "str_replace_vstrict": (
        "{template: TEXT, params: {NAME: VALUE}}",
        "As `str_replace_strict`; no value may be empty.",
    ),
    "str_split": ("[DELIMITER, TEXT, INDEX]", "A text taken apart, or one of its parts."),
    "resource_facade": (
        "metadata, deletion_policy or update_policy",
        "What the resource above says that nests this template.",
    ),
    "repeat": ("{template: X, for_each: {NAME: LIST}}", "A list of one value for each member."),
    "digest": ("[ALGORITHM, TEXT]", "The digest of a text."),
    "map_merge": ("[MAP...]", "Maps as one; later ones override earlier ones."),
    "map_replace": ("[MAP, {keys: {}, values: {}}]", "A map with keys and values replaced."),
    "yaql": ("{expression: TEXT, data: {}}", "What an expression of YAQL selects from data."),
    "if": ("[CONDITION, VALUE, OTHER]", "One of two values."),
    "filter": ("[VALUES, LIST]", "A list without some values."),
    "make_url": ("{scheme: TEXT, host: TEXT, port: N, path: TEXT}", "An address made of its parts."),
    "list_concat": ("[LIST...]", "Lists as one."),
    "list_concat_unique": ("[LIST...]", "Lists as one, each member once."),
    "contains": ("[VALUE, LIST]", "Whether a value is in a list."),
    "equals": ("[VALUE, VALUE]", "Whether two values are equal, for conditions."),
    "not": ("CONDITION", "The opposite of a condition."),
    "and": ("[CONDITION...]", "Whether all hold."),
    "or": ("[CONDITION...]", "Whether one holds."),
    "Ref": ("NAME", "The value of a parameter, or the id of a resource."),
    "Fn::GetAtt": ("[RESOURCE, ATTRIBUTE]", "An attribute of a resource."),
    "Fn::FindInMap": ("[MAP, KEY, NAME]", "A value of the section Mappings."),
    "Fn::Join": ("[DELIMITER, LIST]", "The members of a list as one text."),
    "Fn::Split": ("[DELIMITER, TEXT]", "A text taken apart."),
    "Fn::Select": ("[INDEX or KEY, LIST or MAP]", "One member of a list or map."),
    "Fn::Replace": ("[{NAME: VALUE}, TEXT]", "A text with names replaced by values."),
    "Fn::Base64": ("TEXT", "The text, which Heat encodes where it is used."),
    "Fn::GetAZs": ("REGION", "The availability zones."),
    "Fn::MemberListToMap": ("[KEY, VALUE, LIST]", "A map of a list such as `.member.0.Name=a`."),
    "Fn::ResourceFacade": (
        "Metadata, DeletionPolicy or UpdatePolicy",
        "What the resource above says that nests this template.",
    ),
    "Fn::If": ("[CONDITION, VALUE, OTHER]", "One of two values."),
    "Fn::Equals": ("[VALUE, VALUE]", "Whether two values are equal, for conditions."),
    "Fn::Not": ("[CONDITION]", "The opposite of a condition."),
    "Fn::And": ("[CONDITION...]", "Whether all hold."),
    "Fn::Or": ("[CONDITION...]", "Whether one holds."),
}
"""The functions of HOT and CFN, with their arguments and meaning."""
_NAMING: dict[object, tuple[str, ...]] = {
    **dict.fromkeys(("get_resource", "get_attr", "depends_on", "Fn::GetAtt"), ("resources",)),
    "get_param": ("parameters",),
    "Ref": ("parameters", "resources"),
}
"""Functions and keys whose value or first member is a name, and the sections that define it."""
_CONDITION_KEYS = ("if", "condition", "not", "and", "or", "Fn::If")
_MEMBERS = (("properties", "resource"), ("properties", "resource_def"))
"""The places where Heat's groups define the resource of their members."""
_PARAMETER = re.compile(r"[^,{}]+(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})?")
"""A parameter in the arguments of a function, with the map that it may be."""
Steps = tuple[str | int, ...]


def complete(workspace: Workspace, path: Path, offset: int) -> tuple[TextRange, list[Completion]]:
    """The completions at an offset, and the word that they replace."""
    text = workspace.text(path).text
    slot = slot_at(text, offset)
    offered = _View(workspace, path, text).completions(slot, text[slot.start : offset])
    return fit_slot(slot, path, text, offset, offered)


def hover(workspace: Workspace, path: Path, offset: int, problems: Sequence[TextProblem] = ()) -> Hover | None:
    """The description of the thing at an offset, and why a finding there holds."""
    text = workspace.text(path).text
    view = _View(workspace, path, text)
    near = entry_at(text, offset)
    about = view.describe(*near) if near else ""
    entry, on_value = near if near else (None, False)
    at = TextRange(str(path), offset, offset)
    if entry:
        at = TextRange(str(path), *((entry.value_start, entry.value_end) if on_value else (entry.start, entry.end)))
    parts = [about] if about else []
    judged = workspace.judged.get(path)
    for problem in problems:
        if problem.index is not None and problem.range.start <= offset <= problem.range.end:
            parts.append(_finding(judged, problem, workspace.root) if judged and judged.text == text else problem.text)
    return Hover(at, "\n\n".join(parts)) if parts else None


def definitions(workspace: Workspace, path: Path, offset: int) -> list[TextRange]:
    """The definition of the parameter, resource or condition named at an offset, or the file."""
    text = workspace.text(path).text
    near = entry_at(text, offset)
    if near is None:
        return []
    entry, on_value = near
    view = _View(workspace, path, text)
    if on_value and (file := view.file(entry)):
        return [TextRange(str(file), 0, 0)]
    sections = view.sections_named(entry.path) if on_value else ()
    targets = (view.entries.get((name, entry.value)) for lower in sections for name in (lower, lower.capitalize()))
    return [TextRange(str(path), target.start, target.end) for target in targets if target]


def references(workspace: Workspace, path: Path, offset: int) -> list[TextRange]:
    """The places of the parameter, resource or condition named at an offset, its definition first."""
    text = workspace.text(path).text
    view = _View(workspace, path, text)
    found = definitions(workspace, path, offset) or [TextRange(str(path), offset, offset)]
    near = entry_at(text, found[0].start)
    if near is None or near[1] or len(near[0].path) != 2:
        return []
    definition = near[0]
    section, name = (str(step) for step in definition.path)
    uses = [
        TextRange(str(path), entry.value_start, entry.value_end)
        for entry in view.entries.values()
        if entry.value == name and section.lower() in view.sections_named(entry.path)
    ]
    return [TextRange(str(path), definition.start, definition.end), *uses]


def outline(text: str, path: Path) -> list[Symbol]:
    """The sections of a template, and what is named in them: a resource with its type."""
    entries = read_outline(text)
    kinds = {entry.path[:2]: entry.value for entry in entries if entry.path[2:] in (("type",), ("Type",))}
    return [
        Symbol(str(entry.path[-1]), kinds.get(entry.path, ""), block, TextRange(str(path), entry.start, entry.end))
        for entry, block in blocks(text, path)
        if len(entry.path) <= 2 and entry.end > entry.start
    ]


def blocks(text: str, path: Path) -> list[tuple[OutlineEntry, TextRange]]:
    """The entries of a text, each with the stretch that it and what is within it take."""
    found: list[tuple[OutlineEntry, TextRange]] = []
    open_: list[OutlineEntry] = []
    entries = read_outline(text)
    for following in (*entries, OutlineEntry((), len(text), len(text))):
        while open_ and following.path[: len(open_[-1].path)] != open_[-1].path:
            entry = open_.pop()
            end = entry.start + len(text[entry.start : following.start].rstrip())
            found.append((entry, TextRange(str(path), entry.start, max(end, entry.end))))
        open_.append(following)
    return sorted(found, key=lambda block: (block[1].start, -block[1].end))


def describe_call(workspace: Workspace, path: Path, offset: int) -> CallHelp | None:
    """The function of a template whose arguments are being written."""
    text = workspace.text(path).text
    slot, view = slot_at(text, offset), _View(workspace, path, text)
    known = view.dialect.functions | view.dialect.conditional
    at = next((at for at in range(len(slot.path) - 1, -1, -1) if slot.path[at] in known), None)
    if at is None:
        return None
    arguments, meaning = FUNCTIONS[str(slot.path[at])]
    parameters = tuple(map(str.strip, _PARAMETER.findall(arguments[1:-1]))) if arguments[0] in "[{" else (arguments,)
    step = slot.path[at + 1] if slot.path[at + 1 :] else 0
    active = min(step, len(parameters) - 1) if isinstance(step, int) else len(parameters)
    names = [parameter.partition(":")[0] for parameter in parameters]
    return CallHelp(
        f"{slot.path[at]}: {arguments}",
        parameters,
        active=names.index(step) if isinstance(step, str) and step in names else active,
        documentation=meaning,
    )


def _finding(judged: JudgedTemplate, problem: TextProblem, root: Path) -> str:
    """A finding with its explanation, and the change that fixes it. Files are named relative to the root."""
    assert problem.index is not None
    lines = [f"**{problem.code}**: {problem.message}"]
    if problem.help:
        lines.append(f"hint: {problem.help}")
    try:
        explained = judged.decision.explanation.of(judged.findings[problem.index])
    except GateError:
        return "\n\n".join(lines)
    why = [*explained.format_why(), *([f"  fix   {explained.fix.text}"] if explained.fix else [])]
    text = "\n".join(["```text", *why, "```"]).replace(f"{root}{os.sep}", "")
    return "\n\n".join([*lines, text])


class _View:
    """A template's text with the names in it."""

    def __init__(self, workspace: Workspace, path: Path, text: str) -> None:
        self.workspace, self.path, self.text = workspace, path, text
        self.entries: dict[Steps, OutlineEntry] = {entry.path: entry for entry in read_outline(text)}
        versions: dict[object, object] = {way[0]: entry.value for way, entry in self.entries.items() if len(way) == 1}
        written = [name for name in CFN_VERSIONS if name in versions]
        newest = dialect_of({name: CFN_VERSIONS[name] for name in written[:1]} or {"heat_template_version": "wallaby"})
        assert isinstance(newest, Dialect)
        dialect = dialect_of(versions)
        self.dialect = newest if isinstance(dialect, str) else dialect
        self.is_new = versions.keys().isdisjoint(VERSION_KEYS)

    def names(self, section: str) -> list[str]:
        sections = (section, section.capitalize())
        return [str(way[1]) for way in self.entries if len(way) == 2 and way[0] in sections]

    def definition(self, path: Steps) -> tuple[Steps, Steps]:
        """The resource definition that contains a path, and the rest of the path. Inside a group, that of its
        member."""
        depth = 2
        while path[depth : depth + 2] in _MEMBERS and self.type_name(path[:depth]).startswith("OS::Heat::"):
            depth += 2
        return path[:depth], path[depth:]

    def type_name(self, definition: Steps) -> str:
        entry = self.entries.get((*definition, self.dialect.key("type")))
        return entry.value if entry else ""

    def type(self, definition: Steps) -> ResourceType | None:
        return self.workspace.heat_types.type(self.type_name(definition))

    def completions(self, slot: Slot, written: str) -> Iterator[Completion]:
        path = slot.path
        if slot.is_value and (sections := self.sections_named(path)):
            pseudo = PSEUDO if "parameters" in sections and self.dialect.hot else ()
            for section in sections:
                yield from (Completion(name, "value", section[:-1]) for name in self.names(section))
            yield from (Completion(name, "value", "parameter") for name in pseudo)
            return
        if slot.is_value and path[-2:-1] in (("get_attr",), ("Fn::GetAtt",)) and path[-1] == 1:
            if owner := self.entries.get((*path[:-1], 0)):
                definition = (self.dialect.resources, owner.value)
                kind = self.type(definition)
                names = (
                    self._nested_names(definition, "outputs")
                    if kind is None
                    else [name for name in kind.attributes if not _is_hidden(kind.attribute_status.get(name, ()))]
                )
                yield from (Completion(name, "value", "attribute") for name in names)
            return
        match [str(step).lower() if at == 0 else step for at, step in enumerate(path)]:
            case []:
                of_kind = (name for name in SECTIONS.split() if name[0].islower() == self.dialect.hot)
                own = VERSION_KEYS if self.is_new else tuple(of_kind)
                yield from (Completion(name, "keyword", "section", insert=f"{name}:") for name in own)
            case ["heat_template_version"]:
                versions = (name for name in VERSIONS.split() if name not in CFN_VERSIONS.values())
                yield from (Completion(name, "value") for name in versions)
            case ["awstemplateformatversion" | "heattemplateformatversion"]:
                yield Completion(CFN_VERSIONS[str(path[0])], "value")
            case ["parameters", _] if slot.is_key:
                keys = list_parameter_keys(self.dialect.hot)
                yield from (Completion(name, "keyword", insert=f"{name}: ") for name in keys)
            case ["parameters", _, "type" | "Type"]:
                yield from (Completion(name, "value") for name in list_parameter_types(self.dialect.hot))
            case ["resources", _, *_]:
                yield from self._in_definition(slot, written)
            case ["outputs", _, "value" | "Value", *_] if slot.is_key:
                yield from _offer_functions(self.dialect.functions)
            case ["conditions", _, *_] if slot.is_key:
                yield from _offer_functions(self.dialect.conditional)

    def _in_definition(self, slot: Slot, written: str) -> Iterator[Completion]:
        definition, rest = self.definition(slot.path)
        match [self.dialect.parts.get(str(step), "") if at == 0 else step for at, step in enumerate(rest)]:
            case [] if slot.is_key:
                yield from (Completion(name, "keyword", insert=f"{name}: ") for name in self.dialect.parts)
            case ["type"]:
                kinds = map(self.workspace.heat_types.type, self.workspace.heat_types.types())
                yield from (Completion(kind.name, "type") for kind in kinds if kind and not _is_hidden(kind.status))
                yield from self.workspace.offer_files(self.path, written, "type")
            case ["deletion_policy"]:
                yield from (Completion(name, "value") for name in DELETION_POLICIES)
            case ["metadata", *_] if slot.is_key:
                yield from _offer_functions(self.dialect.functions)
            case ["condition", *_] if slot.is_key:
                yield from _offer_functions(self.dialect.conditional)
            case ["properties", *steps]:
                yield from self._in_properties(slot, definition, steps)

    def _in_properties(self, slot: Slot, definition: Steps, steps: Sequence[str | int]) -> Iterator[Completion]:
        if not steps:
            names = self._nested_names(definition, "parameters")
            yield from (Completion(name, "property", "parameter", insert=f"{name}: ") for name in names)
        kind = self.type(definition)
        schema = property_at(kind, steps) if kind else None
        if slot.is_value and schema:
            member = member_of(schema) if steps and isinstance(steps[-1], int) else schema
            values = [
                _format_value(value)
                for value in (*member.allowed, *((True, False) if member.kind == "boolean" else ()))
            ]
            yield from (Completion(value, "value") for value in sorted(values, key=str.isdigit))
        if slot.is_key and kind:
            children = schema.children if schema else kind.properties if not steps else ()
            for child in (child for child in children if not _is_hidden(child.status)):
                yield Completion(child.name, "property", _brief(child), _about(child), f"{child.name}: ")
        if slot.is_key and steps and not (schema and schema.children):
            yield from _offer_functions(self.dialect.functions)

    def _nested_names(self, definition: Steps, section: str) -> list[str]:
        """The names in a section of the template that a resource nests."""
        file = self.file(self.entries.get((*definition, self.dialect.key("type"))))
        paths = [entry.path for entry in read_outline(self.workspace.text(file).text)] if file else []
        return [str(path[1]) for path in paths if len(path) == 2 and str(path[0]).lower() == section]

    def sections_named(self, path: Steps) -> tuple[str, ...]:
        """The sections that may define the name at a path."""
        *_, last = path or ("",)
        owner = path[-2] if len(path) > 1 and isinstance(last, int) else last
        if owner in ("get_param", "get_attr", "Fn::GetAtt") and last not in (owner, 0):
            return ()
        owner = self.dialect.parts.get(str(owner), owner)
        if isinstance(owner, str) and owner in _NAMING and (owner != "depends_on" or len(path) in (3, 4)):
            return _NAMING[owner]
        if owner not in _CONDITION_KEYS or (owner in ("if", "Fn::If") and last != 0):
            return ()
        return ("conditions",) if owner != "condition" or len(path) == 3 else ()

    def file(self, entry: OutlineEntry | None) -> Path | None:
        """The file that a value names: a nested template, or what `get_file` reads."""
        if entry is None or not entry.value:
            return None
        named = entry.path[-1] == "get_file" or (entry.path[-1] == "type" and entry.value.endswith(TEMPLATE_ENDINGS))
        if not named or "://" in entry.value.removeprefix("file://"):
            return None
        file = Path(os.path.normpath(self.path.parent / entry.value.removeprefix("file://")))
        return file if file.is_file() or file in self.workspace.unsaved else None

    def describe(self, entry: OutlineEntry, on_value: bool) -> str:
        """The description of a key or value, in Markdown."""
        path, name = entry.path, entry.value if on_value else str(entry.path[-1])
        sections = self.sections_named(path) if on_value else ()
        section = str(path[0]).lower()
        if ("parameters" in sections or (section == "parameters" and len(path) == 2)) and self._parameter(name):
            return self._parameter(name)
        if "resources" in sections or (section == "resources" and len(path) == 2 and not on_value):
            kind_name = self.type_name((self.dialect.resources, name))
            return f"`{name}`: {kind_name or 'a resource without a type'}"
        if not on_value and name in self.dialect.functions | self.dialect.conditional:
            return f"`{name}: {FUNCTIONS[name][0]}`\n\n{FUNCTIONS[name][1]}"
        definition, rest = self.definition(path)
        if section != "resources" or not rest:
            return ""
        part = self.dialect.parts.get(str(rest[0]))
        if on_value and part == "type" and (kind := self.workspace.heat_types.type(name)):
            required = [child.name for child in kind.properties if child.required]
            needs = f" Required: {', '.join(f'`{child}`' for child in required)}." if required else ""
            return f"**{name}**: `{kind.relation}` in rules. {len(kind.properties)} properties.{needs}"
        if not on_value and part == "properties" and rest[1:] and (owner := self.type(definition)):
            schema = property_at(owner, rest[1:])
            return f"**{name}**: {_brief(schema)}\n\n{_about(schema)}".strip() if schema else ""
        return ""

    def _parameter(self, name: str) -> str:
        section = self.dialect.key("parameters")
        written = [self.entries.get((section, name, key)) for key in ("hidden", "NoEcho")]
        hidden = any(entry and str(entry.value).lower() in ("true", "yes", "on") for entry in written)
        parts = [
            f"{key}: {MASK if hidden and key == 'default' else entry.value}"
            for key in ("type", "default", "description")
            if (entry := self.entries.get((section, name, self.dialect.key(key)))) and entry.value
        ]
        judged = self.workspace.judged.get(self.path)
        for parameter in judged.stack.parameters if judged else ():
            if parameter.name == name and not parameter.hidden and not isinstance(parameter.value, Unknown):
                parts.append(f"here: {_format_value(parameter.value)} ({parameter.origin})")
        return f"The parameter `{name}`, " + ", ".join(parts) if parts else ""


def _is_hidden(status: Status) -> bool:
    """Whether Heat accepts something, but shows it nowhere."""
    return "hidden" in status[:1]


def _offer_functions(names: frozenset[str]) -> Iterator[Completion]:
    for name, (arguments, meaning) in FUNCTIONS.items():
        if name in names:
            yield Completion(name, "keyword", arguments, meaning, f"{name}: ")


def _brief(schema: Property) -> str:
    """The kind of a property, and whether it is required."""
    return f"{schema.kind}, required" if schema.required else schema.kind


def _about(schema: Property) -> str:
    """The other information about a property in the catalogue."""
    parts = []
    if schema.default is not None:
        parts.append(f"default: {json.dumps(schema.default)}")
    if schema.allowed:
        parts.append(f"one of {', '.join(map(_format_value, schema.allowed))}")
    if schema.range != (None, None):
        bounds = zip(("from", "to"), schema.range, strict=True)
        parts.append(" ".join(f"{word} {bound}" for word, bound in bounds if bound is not None))
    if schema.custom:
        parts.append(f"names a {schema.custom}" if "." in schema.custom else f"is checked as {schema.custom}")
    parts.append("changes in place" if schema.update_allowed else "a change replaces the resource")
    return "; ".join(parts)


def _format_value(value: object) -> str:
    """A value as a template writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
