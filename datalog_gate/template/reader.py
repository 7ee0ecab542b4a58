"""The reader of templates.

All errors of the tree are collected and raised as one InputError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from datalog_gate.base.diagnostics import Advice, Diagnostic, Span, suggest_name
from datalog_gate.base.errors import InputError
from datalog_gate.base.expression import Expression
from datalog_gate.base.gc import paused
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.unknown import call
from datalog_gate.base.values import Unknown, Value, to_json
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Data, EnvironmentFile, Locate, Parameter, Path, Stack
from datalog_gate.template.assumptions import Assumed, Assumptions
from datalog_gate.template.dialect import VERSION_KEYS, Dialect, dialect_of
from datalog_gate.template.document import MAX_STEPS, Document, Documents, Spend
from datalog_gate.template.environment import (
    SECTIONS,
    TEMPLATE_ENDINGS,
    Environment,
    Registry,
    WorkAccount,
    read_environments,
)
from datalog_gate.template.functions.attributes import TypeOf
from datalog_gate.template.held import Fetch, HeldStacks, fetch_held
from datalog_gate.template.nesting import find_size_limits
from datalog_gate.template.parameters import (
    Given,
    ParameterScope,
    declared_types,
    pseudo_parameters,
    read_parameters,
    steps_of_section,
)
from datalog_gate.template.resolver import Nesting, Scope
from datalog_gate.template.resources import Text, parsed, read_resource, read_resources
from datalog_gate.template.tree import Steps, Tree

_SECTIONS = ("description", "parameter_groups", "parameters", "resources", "outputs", "conditions")
_CFN_SECTIONS = ("Description", "Parameters", "Mappings", "Resources", "Outputs", "Conditions")
_GROUPED = ("OS::stack_id", "OS::project_id")
"""The parameters that Heat adds and that groups may have."""
_PER_NAME = 5
"""The steps of reading a condition or an output, besides its functions."""
_PER_SLOW_CHARACTER = 10
"""The steps of reading a character by the slower loader."""


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """The input for reading a stack, with cached files and documents. As in Heat `parameters` override the
    `environment` of the request, and the `environments` override both."""

    text: Text
    file: str
    stack_name: str
    environments: Sequence[tuple[str, Text]] = ()
    """Files with their texts; later ones override earlier ones."""
    environment: Text | None = None
    parameters: Mapping[str, Data] = field(default_factory=dict)
    masked: Iterable[tuple[str, str]] = ()
    """Entries of an environment, by section and name, whose value is unknown."""
    undeclared: bool = False
    """Whether undeclared parameters are ignored."""
    held: HeldStacks = field(default_factory=HeldStacks)
    """Nested stacks to be read from Heat's state."""
    has_base_url: bool = True
    """Whether files are relative to an environment's `base_url`. Heat's client uses it, and Heat does not."""
    assume: Assumed = ()
    """Values for unknowns."""
    type_of: TypeOf = SHIPPED.type
    name_of: Callable[[str], str] = str
    """The name of a file in facts."""
    sent: Collection[str] = ()
    """The names of the files in a request: those that nothing names count too where Heat merges environments."""
    fetched: dict[tuple[str, str], tuple[str, str] | None] = field(default_factory=dict)
    """The name and text of each file, by its name in a template and the file with that name."""
    documents: Documents = field(default_factory=Documents)
    expressions: dict[str, str] = field(default_factory=dict)
    """The expression at the start of each text of `assume`."""


@paused()
def read_template(source: TemplateSource, fetch: Fetch, strict: bool = True) -> Stack:
    """Read the stack of a template. Unless `strict`, some assumptions may be unused. Errors: InputError with all
    diagnostics of the template, its environments and nested templates."""

    fetch_file = fetch_held(source.held, fetch)

    def fetch_once(name: str, base: str) -> tuple[str, str] | None:
        if (name, base) not in source.fetched:
            source.fetched[name, base] = fetch_file(name, base)
        return source.fetched[name, base]

    while True:
        assumed = Assumptions(assumed=source.assume, expressions=source.expressions)
        tree = _make_tree(source, fetch_once, assumed, Steps(MAX_STEPS - source.documents.steps))
        try:
            stack = _read(source, tree)
        except InputError:
            if not assumed.incomplete:
                raise
        if not assumed.incomplete:
            break
    if wrong := list(tree.assumed.problems() if strict else ()):
        raise InputError(wrong, tree.sources)
    return replace(stack, source=source)


def read_assuming(stack: Stack, values: Mapping[Unknown, Value], steps: Steps) -> Stack:
    """Read the stack again with these values for unknowns, which may be unknown too; unknowns that no template created
    stay. Errors: InputError."""
    source = stack.source
    if not isinstance(source, TemplateSource):
        return stack

    def fetch_known(name: str, base: str) -> tuple[str, str] | None:
        if (name, base) not in source.fetched:
            raise InputError([Diagnostic("missing-file", f"{name} was not read")])
        return source.fetched[name, base]

    data = {key: value if isinstance(value, Unknown) else to_json(value) for key, value in values.items()}
    assumed = Assumptions(data, source.assume, source.expressions)
    return _read(source, _make_tree(source, fetch_known, assumed, steps))


def _make_tree(source: TemplateSource, fetch: Fetch, assumed: Assumptions, steps: Steps) -> Tree:
    """The state of a new reading."""
    return Tree(
        fetch,
        source.type_of,
        documents=source.documents,
        assumed=assumed,
        held=source.held,
        steps=steps,
        packs=source.has_base_url,
    )


def _read(source: TemplateSource, tree: Tree) -> Stack:
    try:
        body = parsed(tree, "<environment>", source.environment, as_json=False) if source.environment else None
        files = [parsed(tree, name, text, as_json=False) for name, text in source.environments]
        tree.name_of = source.name_of
        tree.environments = {file.file: file for file in (body, *files) if file}
        document = parsed(tree, source.file, source.text)
        given = _read_given(source, tree, document, body, files)
        name = source.stack_name
        inside = Nesting(name, name, None, 0, source.file, given.registry, given, (source.file,), _read_stack)
        stack = _read_stack(tree, document, inside, given.parameters)
    except RecursionError:
        tree.stop("too-large", "the references of the template are nested too deeply", None)
    except InputError as error:
        tree.mask_sources()
        raise InputError([*tree.problems, *error.diagnostics], {**tree.sources, **error.sources}) from None
    finally:
        tree.mask_sources()
    if stack:
        hidden = {parameter.name for part in stack.walk() for parameter in part.parameters if parameter.hidden}
        written = (
            EnvironmentFile(source.name_of(document.file), document.data, partial(_locate_open, document, hidden))
            for document in (body, *files)
            if document and isinstance(document.data, dict)
        )
        stack = replace(stack, environments=tuple(written), warnings=tuple(tree.warnings))
    if tree.problems or stack is None:
        refused = InputError(tree.problems, tree.sources)
        refused.stack = stack
        raise refused
    return stack


def _read_given(
    source: TemplateSource, tree: Tree, document: Document, body: Document | None, files: Sequence[Document]
) -> Environment:
    """What the environments give to the template of the document."""
    types = declared_types(document.data)
    different = {id(file): file for file in files}.values()
    if len(files) > 1 and not types.keys() >= {name for file in different for name in _named_defaults(file)}:
        silent = WorkAccount(lambda _: None, tree.spend)
        registry = read_environments(body, {}, files, types, silent, source.has_base_url).registry
        types = _types_below(tree, document, registry, source.sent) | types
    account = WorkAccount(tree.add, tree.spend)
    given = read_environments(body, source.parameters, files, types, account, source.has_base_url)
    for section, name in source.masked:
        target = given.parameters if section == "parameters" else given.defaults
        value = replace(call("get_param", name, source.stack_name, {}, None), unread=True)  # its user has chosen it
        target[name] = Given(tree.assumed.of(value), "environment")
    if source.undeclared:
        for name in given.parameters.keys() - types.keys():
            del given.parameters[name]
    return given


def _locate_open(document: Document, hidden: Collection[str], path: Path) -> Span | None:
    """The place in an environment, without a path into the value of a hidden parameter."""
    return document.place(path[:2] if len(path) > 1 and path[1] in hidden else path)


def _named_defaults(file: Document) -> Iterable[Data]:
    """The names of the defaults in an environment."""
    defaults = file.data.get("parameter_defaults") if isinstance(file.data, dict) else None
    return defaults if isinstance(defaults, dict) else ()


def _types_below(tree: Tree, document: Document, registry: Registry, sent: Collection[str]) -> dict[str, Data]:
    """The parameter types of all templates that were sent, or are named by the registry or, at any depth, under a key
    `type` or `get_file`. Heat's client sends these, and Heat merges by them (heat/engine/template.py:198). None if two
    differ. Errors: InputError for a sent file that Heat may read and we can't."""
    types: dict[str, Data] = {}
    names = [*registry.entries(), *((name, document.file) for name in (*_templates(document.data), *sent))]
    seen: set[str] = set()
    while names:
        (name, base), fetched = names.pop(), None
        try:
            fetched = tree.fetch(name, base)
            if fetched is None or fetched[0] in seen:
                continue
            seen.add(fetched[0])
            data = tree.documents.read_sent(fetched[1], fetched[0], True, tree.spend).data
        except InputError as error:  # reported when it is nested
            if name in sent and fetched and _is_template(fetched[1], error, tree.spend):
                raise
            continue
        if isinstance(data, dict) and not isinstance(dialect_of(data), str):
            tree.document(*fetched)
            for name, kind in declared_types(data).items():
                types[name] = kind if types.get(name, kind) == kind else None
            names += ((name, fetched[0]) for name in _templates(data))
    return types


def _is_template(text: str, error: InputError, spend: Spend) -> bool:
    """Whether Heat may take a sent text that we can't read for a template. After an error of its loader Heat tries a
    slower one, which takes other versions of YAML (heat/common/template_format.py:60)."""
    import yaml

    if error.diagnostics[0].code != "yaml":
        return True
    spend(_PER_SLOW_CHARACTER * len(text))
    try:
        data = yaml.load(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError):  # Heat skips it, or the request fails
        return False
    return isinstance(data, dict) and not data.keys().isdisjoint(VERSION_KEYS)


def _templates(data: Data) -> Iterator[str]:
    parts = [data]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            names = (part.get("type"), part.get("Type"))
            yield from (name for name in names if isinstance(name, str) and name.endswith(TEMPLATE_ENDINGS))
            if isinstance(file := part.get("get_file"), str):
                yield file
        parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()


def _read_stack(tree: Tree, document: Document, inside: Nesting, given: Mapping[str, Given]) -> Stack | None:
    data, dialect = document.data, _read_dialect(tree, document)
    if dialect is None or not isinstance(data, dict):
        return None
    data = tree.as_meant(data, document, (), dialect, _list_sections(dialect))
    scope = Scope(
        tree,
        document,
        dialect,
        inside,
        _section(tree, document, data, dialect.key("resources")),
        read_resource,
        conditions=_section(tree, document, data, dialect.key("conditions")) if dialect.conditional else {},
    )
    section = _section(tree, document, data, dialect.key("parameters"))
    outputs = _section(tree, document, data, dialect.key("outputs"))
    tree.spend(steps_of_section(section, given) + _PER_NAME * (len(scope.conditions) + len(outputs)))
    parameters = _read_parameters(scope, section, given)
    if groups := data.get("parameter_groups"):
        _check_groups(tree, document, groups, dict.fromkeys((*section, *_GROUPED)))
    description = data.get(dialect.key("description"))
    place = document.key_place((next(name for name in VERSION_KEYS if name in data),))
    return Stack(
        id=inside.id,
        name=inside.name,
        parent=inside.parent,
        depth=inside.depth,
        version=dialect.version,
        description=description if isinstance(description, str) else None,
        parameters=parameters,
        resources=read_resources(scope),
        outputs=_outputs(scope, inside, outputs),
        conditions={name: scope.condition(name, (dialect.key("conditions"), name)) for name in scope.conditions},
        files=scope.files,
        sections=tuple(map(str, data)),
        template=scope.template(outputs),
        sources=tree.sources,
        place=place,
        defined=partial(_locate_section, None if inside.hidden else document, dialect, place),
        hidden=scope.hidden_parts,
    )


def _read_dialect(tree: Tree, document: Document) -> Dialect | None:
    """The dialect of a template; None, which is reported, for anything else."""
    data = document.data
    dialect = dialect_of(data) if isinstance(data, dict) else "this is not a template: it is not a map of sections"
    if not isinstance(dialect, str):
        return dialect
    at = next((name for name in VERSION_KEYS if isinstance(data, dict) and name in data), None)
    is_environment = isinstance(data, dict) and data and data.keys() <= set(SECTIONS)
    advice = f"it may be an environment: give it with -e {document.file}" if is_environment else None
    place = document.place((at,) if at else ())
    if place is None and document.text is not None:  # it is empty
        place = Span(document.file, 1, 1, 1, 1)
    tree.report("not-a-template", dialect, place, advice)
    return None


def _list_sections(dialect: Dialect) -> Sequence[str]:
    """The sections that a template may have, and the keys of its version."""
    sections = _SECTIONS if dialect.hot else _CFN_SECTIONS
    return (*VERSION_KEYS, *(sections if dialect.conditional else sections[:-1]))


def _read_parameters(scope: Scope, section: Mapping[str, Data], given: Mapping[str, Given]) -> tuple[Parameter, ...]:
    """The parameters of a template, whose values the scope takes."""
    tree, document, dialect, inside = scope.tree, scope.document, scope.dialect, scope.inside

    def report(code: str, message: str, name: str, suggestion: str | None, place: Span | None) -> None:
        defined = document.key_place((dialect.key("parameters"), name)) if name in section else None
        if place and inside.depth > 1 and name in section:  # as Heat validates what is in a nested stack
            tree.warn(f"{message} (Heat finds this only when it creates the resource)", place, suggestion, code)
        else:
            tree.report(code, message, place or defined, suggestion)

    parameter_scope = ParameterScope(
        dialect,
        given,
        inside.environment.defaults,
        report,
        lambda name: scope.unknown("get_param", name, (dialect.key("parameters"), name)),
        tree.assumed,
        find_size_limits(scope.definitions) if section and inside.registry.is_empty else {},
    )
    parameters = read_parameters(section, parameter_scope)
    if inside.hidden:
        scope.hidden.add(())
        scope.hidden_parts.add(())
        tree.sources.pop(document.file, None)
    _take_parameters(scope, parameters, given)
    return parameters


def _check_groups(tree: Tree, document: Document, groups: Data, names: Collection[str]) -> None:
    """Report what is wrong in the groups of the parameters with these names (heat/engine/parameter_groups.py)."""
    if not isinstance(groups, list):
        place = document.key_place(("parameter_groups",))
        tree.report("bad-template", "the section `parameter_groups` must be a list", place)
        return
    grouped: set[str] = set()
    for at, group in enumerate(groups):
        path: Path = ("parameter_groups", at)
        members = group.get("parameters") if isinstance(group, dict) else None
        if not isinstance(members, list):
            is_meant = isinstance(group, dict) and "parameters" not in group
            near = tree.near("parameters", group) if is_meant else None
            message = "a group of parameters needs `parameters`, a list of their names"
            if isinstance(near, Advice):
                message, path = f"a group of parameters has no key `{near.meant}`", (*path, near.meant)
            tree.report(
                "bad-template", message, document.key_place(path), near and suggest_name("parameters", mark="`")
            )
            continue
        for index, name in enumerate(members):
            place = document.place((*path, "parameters", index))
            if not isinstance(name, str) or name not in names:
                tree.report("bad-reference", f"there is no parameter `{name}`", place, tree.near(name, names))
            elif name in grouped:
                tree.report("bad-template", f"the parameter `{name}` is in a group already", place, "leave it out here")
            else:
                grouped.add(name)
        tree.spend(len(members))


def _locate_section(document: Document | None, dialect: Dialect, place: Span | None, path: Path) -> Span | None:
    """The place of a section or a name in it; for a hidden template, which has no document here, its own."""
    whole = (dialect.key(str(path[0])) if path[1:] else path[0], *path[1:])
    return document.key_place(whole) if document else place


def _take_parameters(scope: Scope, parameters: Iterable[Parameter], given: Mapping[str, Given]) -> None:
    """Pass the parameters to the functions of the template, and record which are hidden and their places."""
    tree, document, dialect, inside = scope.tree, scope.document, scope.dialect, scope.inside
    own_name = inside.name if inside.depth == 0 else None
    pseudo = pseudo_parameters(dialect, inside.id, own_name, inside.environment.defaults)
    scope.parameters |= {name: tree.assumed.within(value) for name, value in pseudo.items()}
    for parameter in parameters:
        name = parameter.name
        scope.parameters[name] = parameter.value
        default = (dialect.key("parameters"), name, dialect.key("default"))
        outside = [source for source in (given.get(name), inside.environment.defaults.get(name)) if source]
        if chosen := next((source for source in outside if source.value is not None), None):
            scope.given[name] = chosen.locate
        elif parameter.origin == "default":
            scope.given[name] = document.below(default)
        if parameter.hidden:
            if locate := scope.given.get(name):
                scope.given[name] = partial(_locate_whole, locate)  # a path into the value would reveal its keys
            tree.hidden_spans += [place for source in outside for place in source.written]
            tree.hidden_spans += [place for place in [document.place(default)] if place != document.place(default[:-1])]
        passed_secret = name in given and given[name].hidden
        if (parameter.hidden or passed_secret) and not isinstance(parameter.value, Unknown):
            scope.hidden_parts.add(("parameters", name))
            whole = not isinstance(parameter.value, dict | list)
            tree.hide(parameter.value, inside.id, Expression("get_param", name, inside.id) if whole else None)


def _locate_whole(locate: Locate, _path: Path) -> Span | None:
    """The place of the whole value, for any path inside."""
    return locate(())


def _section(tree: Tree, document: Document, data: Mapping[str, Data], name: str) -> Mapping[str, Data]:
    section = data.get(name, {})
    if not section and name not in ("conditions", "Conditions"):  # heat/engine/template_common.py:145
        section = {}
    if not isinstance(section, dict):
        tree.report("bad-template", f"the section `{name}` must be a map", document.key_place((name,)))
        return {}
    wrong = [key for key in section if not isinstance(key, str)]
    for key in wrong:
        place = document.key_place((name, key))
        tree.report(
            "bad-template", f"the name `{key}` is not a string", place, Advice("write it in quotes", in_quotes=True)
        )
    return {key: value for key, value in section.items() if key not in wrong} if wrong else section


def _outputs(scope: Scope, inside: Nesting, section: Mapping[str, Data]) -> dict[str, Data]:
    outputs: dict[str, Data] = {}
    for name, definition in section.items():
        path = (scope.dialect.key("outputs"), name)
        key, condition = scope.dialect.key("value"), scope.dialect.key("condition")
        if not isinstance(definition, dict) or key not in definition:
            scope.tree.report("bad-template", f"the output `{name}` needs a `{key}`", scope.document.key_place(path))
            continue
        touched, missing = scope.touched, scope.missing
        given = condition in definition and scope.dialect.conditional
        truth = scope.condition(definition[condition], (*path, condition)) if given else True
        value = scope.resolve(definition[key], (*path, key)) if truth is not False else None
        if scope.touched != touched or inside.hidden:
            scope.hidden_parts.add(("outputs", name))
        if scope.missing != missing:
            value = None
        outputs[name] = scope.write("if", [truth, value, None], path) if isinstance(truth, Unknown) else value
    return outputs
