"""Turns rows of inputs into a case as in a `test.yaml`."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from datalog_gate.analysis.program import Const, Var
from datalog_gate.base.values import Boolean, ResourceId, Value
from datalog_gate.examples.conditions import Bindings, resolve
from datalog_gate.examples.example_properties import (
    PLACEHOLDER_TYPE,
    Data,
    Step,
    complete,
    find_usual_type,
    get,
    list_tables,
    plain,
    put,
    sample,
    split_path,
    write_value,
)
from datalog_gate.examples.unfolding import Sketch, Unfolder
from datalog_gate.examples.valuation import PORT, RESOURCE_TABLES, ROOT
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import RelationRef, is_all, is_old, relation_name
from datalog_gate.schema.resource_types import TypeTable

Case = dict[str, Any]
"""A case as in a `test.yaml`, without name and expectations."""
Row = Mapping[str, Value]
NOW = "2027-03-01T10:00:00Z"
VERSION = "2018-08-31"
MOST_REPEATED = 300
GROUP, SCALING = "OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup"
GRANT = "DatalogGate::Policy"
FUNCTIONS = {"heat:uses_parameter": 1, "heat:nested_function": 2}
"""The relations whose rows are written after others, with their order."""
BREAKPOINTS = {"hooks": "pre-create", "restricted_actions": "update"}
SERVER, DEPLOYMENT = "OS::Nova::Server", "OS::Heat::SoftwareDeployment"
VALUES: Mapping[str, Data] = {"string": "x", "number": 1, "boolean": True, "json": {"key": "x"}}
"""Values of parameters by type."""


def build_case(
    unfolder: Unfolder, catalogue: Catalogue, sketch: Sketch, bindings: Bindings, from_nothing: bool = False
) -> Case:
    """The case of a sketch with values. Its older state is like the new one, or has only what the sketch asks for."""
    rows = _repeated(sketch, _valued(unfolder, sketch, bindings), bindings)
    builder = _CaseBuilder(catalogue)
    for old in (False, True):
        some = [(reference, row) for reference, row in rows if is_old(reference) is old]
        some.sort(key=lambda entry: FUNCTIONS.get(relation_name(entry[0]), 0))
        if old and some:
            builder.begin_older(from_nothing)
        for late in (False, True):
            for reference, row in some:
                builder.add(reference, row, old, late)
    return builder.finish()


def _valued(unfolder: Unfolder, sketch: Sketch, bindings: Bindings) -> list[tuple[RelationRef, dict[str, Value]]]:
    rows = []
    for relation, terms in sketch.rows:
        row = {}
        for column, term in zip(unfolder.columns(relation), terms, strict=True):
            term = resolve(term, bindings)
            if isinstance(term, Const):
                row[column.name] = term.value
        rows.append((relation, row))
    return rows


def _repeated(
    sketch: Sketch, rows: list[tuple[RelationRef, dict[str, Value]]], bindings: Bindings
) -> list[tuple[RelationRef, dict[str, Value]]]:
    """The rows, those of a count as often as it says, with other resources and keys each time."""
    more = []
    for function, target, terms, first, last, groups in sketch.repeats:
        wanted = resolve(target, bindings)
        if function != "count" or not isinstance(wanted, Const) or not isinstance(wanted.value, int):
            continue
        counted = {term.value for term in (resolve(term, bindings) for term in terms) if isinstance(term, Const)}
        resources = {value for value in counted if isinstance(value, ResourceId)}
        open_ = {resolve(term, sketch.bindings) for term in terms}
        places = [
            at
            for at, (_, row) in enumerate(rows)
            if first <= at < last
            or resources & set(row.values())
            or any(resolve(term, sketch.bindings) in open_ for term in sketch.rows[at].terms if isinstance(term, Var))
        ]
        own = [rows[at] for at in places]
        outer = {value for at, (_, row) in enumerate(rows) if at not in places for value in row.values()}
        outer |= {term.value for term in (resolve(group, bindings) for group in groups) if isinstance(term, Const)}
        changing: set[Value] = {
            value for _, row in own for value in row.values() if isinstance(value, ResourceId) and value not in outer
        }
        changing |= {value for value in counted if isinstance(value, str)}
        for number in range(2, min(wanted.value, MOST_REPEATED) + 1):
            for relation, row in own:
                other = {key: _numbered(value, number) if value in changing else value for key, value in row.items()}
                at = other.get("_index")
                if isinstance(at, int) and other.get("_id") in outer:
                    other["_index"] = at + number - 1
                more.append((relation, other))
    return rows + more


def _numbered(value: Value, number: int) -> Value:
    if isinstance(value, ResourceId):
        return ResourceId(f"{value.stack}/{number - 1}" if value.name.isdigit() else f"{value.path}_{number}")
    return f"{value}{number}"


class _CaseBuilder:
    """A case under construction. Rows are added twice: at first the resources, then with `late` their properties."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._stacks: dict[str, Data] = {}
        self._older: Data = None
        self._changes: list[tuple[ResourceId, str]] = []
        self._case: Case = {}

    def begin_older(self, from_nothing: bool) -> None:
        new = None if from_nothing else self._stacks.get(ROOT)
        self._older = copy.deepcopy(new) or _empty_template()

    def add(self, reference: RelationRef, row: Row, old: bool, late: bool) -> None:
        name = relation_name(reference)
        project = row.get("_project")
        if is_all(reference) and isinstance(project, str):
            identifier = next(iter(row.values()))
            path = identifier.path if isinstance(identifier, ResourceId) else str(identifier)
            self._put("projects", path.partition("/")[0], project)
        if name.startswith(RESOURCE_TABLES):
            self._add_properties(name, row, old, late)
        elif name.startswith(("gate:grant", "gate:effective")):
            self._add_grant(name, row, old, late)
        elif name.startswith("gate:") and name != "gate:inventory":
            self._add_request(name, row)
        elif name.startswith("heat:") and name != "heat:stacks":
            subject = row.get("id")
            if isinstance(subject, ResourceId):
                self._add_to_resource(name, subject, row, old, late)
            else:
                self._add_to_stack(name, row, old, late)
        elif late:
            inventory = self._case.setdefault("inventory", {}).setdefault(name, [])
            inventory.append({key: plain(value) for key, value in row.items() if value is not None})

    def _add_properties(self, name: str, row: Row, old: bool, late: bool) -> None:
        subject = row.get("_id")
        found = self._table(name)
        if not found or not isinstance(subject, ResourceId):
            return
        owner, table = found
        properties = self._resource(subject, old, owner)["properties"]
        path: list[Step] = []
        keys = [value for key, value in row.items() if key.startswith("_index")]
        for step in table.steps:
            path.append(step.name)
            if step.kind == "list":
                at = keys.pop(0) if keys else 0
                path.append(at if isinstance(at, int) else 0)
        if not late:
            return
        if table.shape == "value":
            put(properties, path, write_value(row.get("_value", "x")))
        elif table.shape == "free":
            put(properties, [*path, *split_path(row.get("_key", "key"))], write_value(row.get("_value", "x")))
        else:
            if path:
                _ensure(properties, path)
            for key, value in row.items():
                if not key.startswith("_") and value is not None:
                    put(properties, [*path, key], write_value(value))

    def _table(self, name: str) -> tuple[str, TypeTable] | None:
        owner = self._catalogue.owner(name.partition(".")[0])
        tables = list_tables(self._catalogue, owner) if owner else ()
        return next(((str(owner), table) for table in tables if table.relation.name == name), None)

    def _add_to_resource(self, name: str, subject: ResourceId, row: Row, old: bool, late: bool) -> None:
        kind = row.get("type")
        types = {"heat:scaling": SCALING, "heat:nested": GROUP, "heat:deployment": DEPLOYMENT}
        resource = self._resource(subject, old, str(kind) if kind else types.get(name))
        match name:
            case "heat:property" if late:
                path = split_path(row.get("path", "name"))
                schema = self._catalogue.type(resource["type"] or "")
                declared = schema.parts.get(str(path[0])) if schema and len(path) == 1 else None
                value = row.get("value", "x")
                put(resource["properties"], path, sample(declared) if declared and value == "x" else write_value(value))
            case "heat:metadata" | "heat:update_policy" if late:
                section = resource.setdefault(name.removeprefix("heat:"), {})
                put(section, split_path(row.get("path", "key")), write_value(row.get("value", "x")))
            case "heat:deletion_policy":
                resource["deletion_policy"] = row.get("policy")
            case "heat:requires" | "heat:reference":
                self._add_reference(resource, row, old, late)
            case "heat:scaling" if late:
                for key, column in (("min_size", "min"), ("max_size", "max"), ("desired_capacity", "desired")):
                    if row.get(column) is not None:
                        resource["properties"][key] = plain(row[column])
                sizes = [size for size in (row.get("min"), row.get("desired")) if isinstance(size, int)]
                resource["properties"].setdefault("max_size", max([1, *sizes]))
                resource["properties"].setdefault("resource", {"type": SERVER, "properties": {}})
            case "heat:hook" | "heat:restricted":
                section = "hooks" if name == "heat:hook" else "restricted_actions"
                value = row.get("hook") or row.get("action")
                path = ["environment", "resource_registry", "resources", *subject.path.split("/")[1:], section]
                put(self._case, path, value)
            case "heat:physical" | "heat:status" | "heat:updated":
                self._add_live(subject, row)
            case "heat:change" | "heat:disruption" if late:
                self._changes.append((subject, str(row.get("change") or row.get("kind") or "update")))
            case "heat:attribute" if late:
                self._add_attribute(resource, row, old)
            case "heat:uses_parameter" | "heat:function" | "heat:nested_function" | "heat:text" if late:
                self._add_function(name, subject, row, old)
            case "heat:deployment":
                self._add_deployment(resource, row, old)

    def _add_reference(self, resource: Data, row: Row, old: bool, late: bool) -> None:
        target = row.get("target") or row.get("required")
        if not isinstance(target, ResourceId):
            return
        self._resource(target, old)
        if "required" in row and not late:
            resource.setdefault("depends_on", []).append(target.name)
        elif "target" in row and late:
            put(resource["properties"], split_path(row.get("path", "value")), write_value(target))

    def _add_attribute(self, resource: Data, row: Row, old: bool) -> None:
        target = row.get("target")
        if isinstance(target, ResourceId):
            self._resource(target, old)
            steps = [target.name, row.get("attribute") or "show"]
            put(resource["properties"], split_path(row.get("path", "name")), {"get_attr": steps})

    def _add_live(self, subject: ResourceId, row: Row) -> None:
        live = self._case.setdefault("live", {}).setdefault(subject.path, {"status": "CREATE_COMPLETE"})
        if row.get("physical_id"):
            live["id"] = row["physical_id"]
        if row.get("time"):
            live["updated"] = row["time"]
        if "status" in row:
            live["status"] = f"{row.get('action', 'CREATE')}_{row.get('status') or 'COMPLETE'}"

    def _add_function(self, name: str, subject: ResourceId, row: Row, old: bool) -> None:
        function, parameter = str(row.get("function", "")), str(row.get("parameter") or "size")
        value: Data = {"get_param": parameter}
        template = self._template(subject.path, old)
        if name == "heat:text":
            value = {"str_replace": {"template": row.get("text", "x"), "params": {"zzz": "y"}}}
        elif function.startswith("str_replace"):
            value = {function: {"template": "$a_b", "params": {"$a": "y"}}}
        elif function == "list_join":
            value = {function: ["", ["a", "b"]]}
        elif function in ("get_attr", "get_resource"):
            other = self._resource(ResourceId(f"{subject.stack}/other"), old)
            other["type"] = other["type"] or PLACEHOLDER_TYPE
            value = {function: ["other", "show"] if function == "get_attr" else "other"}
        else:
            template.setdefault("parameters", {}).setdefault(parameter, {"type": "string", "default": "x"})
        path, resource = str(row.get("path", "name")), self._resource(subject, old)
        holder, steps = resource if path.startswith(".") else resource["properties"], split_path(path.lstrip("."))
        given = get(holder, steps)
        is_map = isinstance(given, dict) and not any(str(key).startswith("get_") for key in given)
        if is_map and "get_param" in value:
            template["parameters"][parameter].update(type="json", default=given)
        elif name == "heat:nested_function" and "get_param" in value:
            template["parameters"]["values"] = {"type": "comma_delimited_list", "default": "a,b"}
            value = given if isinstance(given, dict) and not is_map else value
            for _ in range(int(str(row.get("depth", 2))) - 1):
                value = {"get_param": ["values", value]}
        put(holder, steps, value)

    def _add_deployment(self, resource: Data, row: Row, old: bool) -> None:
        properties = resource["properties"]
        server = row.get("server") or ResourceId(f"{ROOT}/server")
        properties["server"] = write_value(server)
        if isinstance(server, ResourceId):
            self._resource(server, old, SERVER)
        properties["config"] = write_value(row.get("config") or "config-1")
        action = row.get("action")
        if action and action not in properties.setdefault("actions", []):
            properties["actions"].append(action)

    def _add_to_stack(self, name: str, row: Row, old: bool, late: bool) -> None:
        template = self._template(str(row.get("stack") or row.get("id") or ROOT), old)
        match name:
            case "heat:stack":
                if row.get("description") is not None:
                    template["description"] = row["description"]
                if row.get("version"):
                    template["heat_template_version"] = row["version"]
            case "heat:section" if row.get("section") in ("outputs", "parameters", "conditions"):
                template.setdefault(str(row["section"]), {})
            case "heat:parameter":
                self._add_parameter(template, row)
            case "heat:parameter_attribute" if late:
                parameter = template.setdefault("parameters", {}).setdefault(row.get("name", "size"), {})
                parameter.setdefault("type", "string")
                put(parameter, split_path(row.get("attribute", "label")), plain(row.get("value", "x")))
            case "heat:used_parameter" if late:
                parameter = row.get("parameter", "size")
                template.setdefault("parameters", {}).setdefault(parameter, {"type": "string", "default": "x"})
                template.setdefault("outputs", {})["used"] = {"value": {"get_param": parameter}}
            case "heat:output":
                template.setdefault("outputs", {})[row.get("name", "result")] = {
                    "value": write_value(row.get("value", "x"))
                }
            case "heat:condition":
                template.setdefault("conditions", {})[row.get("name", "large")] = plain(row.get("value", True))
            case "heat:environment" if late:
                self._add_environment(template, row)

    def _add_parameter(self, template: Data, row: Row) -> None:
        name, kind = row.get("name", "size"), str(row.get("type") or "string")
        parameter = template.setdefault("parameters", {}).setdefault(name, {})
        parameter["type"] = kind
        hidden = row.get("hidden")
        if isinstance(hidden, Boolean) and hidden.truth:
            parameter["hidden"] = True
        value = plain(row.get("value"))
        fits = {"string": str, "number": int | float, "boolean": bool}.get(kind)
        if value is None and "value" in row and row.get("origin") != "default":
            return
        if value is None or not fits or not isinstance(value, fits):
            value = VALUES.get(kind, "a,b")
        if row.get("origin", "default") in ("default", "none"):
            parameter["default"] = value
        else:
            put(self._case, ["environment", "parameters", str(name)], value)

    def _add_environment(self, template: Data, row: Row) -> None:
        section, key = str(row.get("section", "parameters")), str(row.get("key", "size"))
        value = plain(row.get("value"))
        steps: list[Step] = [key]
        if section == "resource_registry" and key.startswith("resources."):
            steps = list(key.split("."))
        for at, step in enumerate(steps):
            if step in BREAKPOINTS:
                steps, value = steps[: at + 1], BREAKPOINTS[str(step)]
        put(self._case, ["environment", section, *steps], value or "x")
        if section == "parameters":
            template.setdefault("parameters", {}).setdefault(key, {"type": "string"})

    def _add_request(self, name: str, row: Row) -> None:
        match name:
            case "gate:request":
                self._case["action"] = row.get("action")
            case "gate:now":
                self._case["now"] = row.get("time")
            case "gate:caller":
                given = {key: value for key, value in row.items() if value is not None}
                self._case.setdefault("caller", {}).update(given)
            case "gate:role":
                self._case.setdefault("caller", {}).setdefault("roles", []).append(row.get("role"))
            case "gate:service":
                self._add_service(row.get("name"))

    def _add_grant(self, name: str, row: Row, old: bool, late: bool) -> None:
        subject = row.get("id") or row.get("grant")
        if not isinstance(subject, ResourceId):
            return
        properties = self._resource(subject, old, GRANT)["properties"]
        resource = row.get("resource")
        if name == "gate:grant" and row.get("service"):
            properties["service"] = row["service"]
            self._add_service(row["service"])
            if row.get("expires"):
                properties["expires"] = row["expires"]
        elif name == "gate:grant_scope" and isinstance(resource, ResourceId) and not late:
            properties.setdefault("scope", []).append(resource.name)
        elif name == "gate:grant_option" and late:
            put(properties, ["options", *split_path(row.get("path", "key"))], write_value(row.get("value", "x")))

    def _add_service(self, name: Value) -> None:
        services = self._case.setdefault("services", [])
        if name and name not in services:
            services.append(name)

    def _put(self, section: str, key: str, value: Data) -> None:
        self._case.setdefault(section, {})[key] = value

    def _template(self, path: str, old: bool) -> Data:
        return self._older if old else self._stacks.setdefault(path.partition("/")[0], _empty_template())

    def _resource(self, subject: ResourceId, old: bool, kind: str | None = None) -> Data:
        """The definition of a resource. A member of a group is in that of the group."""
        _, name, *members = [*subject.path.split("/"), "resource"][: max(2, subject.path.count("/") + 1)]
        resources = self._template(subject.path, old)["resources"]
        resource = resources.setdefault(name, {"type": None, "properties": {}})
        for member in members:
            resource = _member(resource, member)
        if kind and not resource["type"]:
            resource["type"] = kind
        return resource

    def finish(self) -> Case:
        self._stacks.setdefault(ROOT, _empty_template())
        for subject, change in self._changes:
            self._apply_change(subject, change)
        for template in (*self._stacks.values(), *([self._older] if self._older else ())):
            complete(self._catalogue, template)
        modules = {name: template for name, template in self._stacks.items() if name != ROOT}
        case = {"stack": self._stacks[ROOT], "now": NOW, **self._case}
        if modules:
            case["modules"] = modules
        if self._older:
            case["against"] = self._older
        return case

    def _apply_change(self, subject: ResourceId, change: str) -> None:
        """Make the older state differ so that an update changes the resource."""
        new = self._template(subject.path, False)["resources"]
        if self._older is None:
            self._older = copy.deepcopy(self._template(subject.path, False))
        old, name = self._older["resources"], subject.local_path
        if change == "create":
            old.pop(name, None)
        elif change == "delete":
            old.setdefault(name, copy.deepcopy(new.get(name)))
            new.pop(name, None)
        elif name in new and change != "unchanged":
            old.setdefault(name, copy.deepcopy(new[name]))
            given = new[name]["properties"]
            usual = find_usual_type(self._catalogue, given) if given else SERVER
            kind = new[name]["type"] = old[name]["type"] = new[name]["type"] or old[name]["type"] or usual
            changed = self._changing_property(kind, change)
            if change == "replace" and kind == PORT:
                old[name]["properties"]["replacement_policy"] = given["replacement_policy"] = "REPLACE_ALWAYS"
            elif changed:
                old[name]["properties"][changed] = "older"
                given.setdefault(changed, "newer")

    def _changing_property(self, kind: str, change: str) -> str | None:
        if change in ("rebuild", "resize"):
            return {"rebuild": "image", "resize": "flavor"}[change]
        schema = self._catalogue.type(kind)
        for declared in schema.properties if schema else ():
            plain_text = declared.kind == "string" and not declared.allowed and not declared.custom
            if plain_text and declared.update_allowed == (change == "update"):
                return declared.name
        return None


def _member(group: Data, member: str) -> Data:
    """The definition of the members of a group, which has at least as many as the index says."""
    group["type"] = group["type"] or GROUP
    properties = group["properties"]
    if group["type"] == SCALING:
        properties.setdefault("min_size", 1)
        properties.setdefault("max_size", 1)
        return _definition(properties, "resource")
    count = properties.get("count", 1)
    least = int(member) + 1 if member.isdigit() else 1
    properties["count"] = max(count, least) if isinstance(count, int) else least
    return _definition(properties, "resource_def")


def _definition(properties: Data, key: str) -> Data:
    properties.setdefault(key, {"type": None, "properties": {}})
    return properties[key]


def _ensure(properties: Data, path: Sequence[Step]) -> None:
    """An empty map at a path, if there is nothing yet."""
    data = properties
    for step in path:
        if isinstance(data, dict):
            data = data.get(str(step))
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            data = None
    if not isinstance(data, dict):
        put(properties, path, {})


def _empty_template() -> Data:
    return {"heat_template_version": VERSION, "resources": {}}


def templates_of(case: Case) -> Iterable[Data]:
    """The templates of a case."""
    yield case["stack"]
    yield from case.get("modules", {}).values()
    if "against" in case:
        yield case["against"]
