"""The relations of stacks and requests, whatever the resource types.

Only a relation that something fills is declared, so that a rule which reads any other is an error, not silently empty.
"""

from __future__ import annotations

from datalog_gate.base.values import FALSE, Kind, ResourceId, Row
from datalog_gate.schema.declaration import Column, Relation

NAMESPACES = frozenset(
    ("heat", "os", "aws", "gate", "old", "builtin", "datalog_gate", "inventory", "neutron", "glance")
)
"""The first segments of names that modules must not use, beside those of an inventory."""

TRANSITION = frozenset({"heat:change", "heat:disruption", "gate:request"})
"""Relations that describe the operation, not the state after it."""
TIMELESS = TRANSITION | {"gate:caller", "gate:role", "gate:now", "gate:service"}
"""Relations of this page that have no older state: they tell of the request, or of the change itself."""
ONE_ROW = frozenset({"gate:now", "gate:request", "gate:caller"})
"""Relations that have one row at most."""

MAYBE_STRING = Kind.STRING | Kind.NULL
_SHARED = {
    column.name: column
    for column in (
        Column("id", Kind.RESOURCE, "The resource."),
        Column("stack", Kind.STRING, "The id of a stack."),
        Column("name", Kind.STRING, "The name in the template."),
        Column("path", Kind.STRING, r"The way to the value, `networks.0.port`; a dot in a key is written `\.`."),
        Column("value", Kind.ANY, "The value; a list or map where one is taken whole is its JSON text."),
        Column("service", Kind.STRING, "The name of a service."),
        Column("function", Kind.STRING, "The function's name."),
        Column("parameter", Kind.STRING, "The parameter's name."),
        Column("target", Kind.RESOURCE, "The resource referred to."),
    )
}
WRITTEN = Column(
    "path",
    Kind.STRING,
    "The way to the outermost function in the text of the properties, like `heat:property` says it; "
    "elsewhere in the definition it starts with a dot: `.metadata.tier`, `.condition`.",
)
GRANTED = Column("resource", Kind.RESOURCE, "A resource that the grant or service is for.")


def _one_of(name: str, allowed: str, meaning: str) -> Column:
    return Column(name, Kind.STRING, meaning, tuple(allowed.split()), closed=True)


def _relation(header: str, meaning: str, example: Row, *columns: Column) -> Relation:
    """A relation from ``heat:property(id*, path*, value)``: its name and columns, those of the key with a star.

    `columns` are those that are not in `_SHARED`, or differ from the one there.
    """
    name, _, written = header.removesuffix(")").partition("(")
    by_name = _SHARED | {column.name: column for column in columns}
    names = written.split(", ")
    key = tuple(column.rstrip("*") for column in names if column.endswith("*"))
    return Relation(name, tuple(by_name[column.rstrip("*")] for column in names), key, meaning, example=example)


DB, PORT, GROUP, POLICY = map(ResourceId, ("web/db", "web/port", "web/group", "web/policy"))
"""The resources of the examples."""
_RELATIONS = (
    _relation(
        "heat:stack(id*, name, parent, depth, version, description)",
        "The stack and each nested stack.",
        ("web", "web", None, 0, "2021-04-16", "A web server."),
        Column("id", Kind.STRING, "The path of the stack, `web` or `web/db`."),
        Column("name", Kind.STRING, "The name of the stack."),
        Column("parent", Kind.RESOURCE | Kind.NULL, "The resource that holds the stack."),
        Column("depth", Kind.NUMBER, "0 for the root."),
        Column("version", Kind.STRING, "The template's version."),
        Column("description", MAYBE_STRING, "The template's description."),
    ),
    _relation(
        "heat:root(stack*)",
        "The roots of what is judged. No stack that nobody could read may be one, as `heat:stack` has to leave open.",
        ("web",),
    ),
    _relation(
        "heat:resource(id*, stack, name, type, declared)",
        "Every resource.",
        (DB, "web", "db", "OS::Nova::Server", "OS::Nova::Server"),
        Column("type", Kind.STRING, "The type after registry mapping."),
        Column("declared", Kind.STRING, "The type as the template says it."),
    ),
    _relation(
        "heat:property(id*, path*, value)", "Every scalar in the properties, typed.", (DB, "networks.0.port", PORT)
    ),
    _relation("heat:metadata(id*, path*, value)", "Every scalar in the metadata.", (DB, "tier", "back")),
    _relation(
        "heat:update_policy(id*, path*, value)",
        "Every scalar in the update policy.",
        (GROUP, "batch_create.max_batch_size", 2),
    ),
    _relation(
        "heat:deletion_policy(id*, policy)",
        "What becomes of a resource when it leaves the stack.",
        (DB, "Retain"),
        Column("policy", Kind.STRING, "Delete, Retain or Snapshot; Delete where the template is silent."),
    ),
    _relation(
        "heat:requires(id*, required*, why)",
        "The dependencies between the resources of a stack.",
        (DB, PORT, "reference"),
        Column("required", Kind.RESOURCE, "A resource that must be there before."),
        _one_of("why", "explicit reference attribute implicit", "How the template says so."),
    ),
    _relation(
        "heat:reference(id*, path*, target)", "The properties that hold a resource.", (DB, "networks.0.port", PORT)
    ),
    _relation(
        "heat:unknown(id*, path*, expression)",
        "The properties whose value nobody knows yet.",
        (DB, "name", "get_param [name] of web"),
        Column("expression", Kind.STRING, "What the value is the result of."),
    ),
    _relation(
        "heat:attribute(id, path, target, attribute)",
        "The attributes that the definition of a resource reads, as the template writes it.",
        (DB, "user_data", PORT, "mac_address"),
        WRITTEN,
        Column("attribute", MAYBE_STRING, "The attribute's name; null where all are read."),
    ),
    _relation(
        "heat:function(id, path, function)",
        "The functions in the definition of a resource, those within others and in its conditions too.",
        (DB, "user_data", "str_replace"),
        WRITTEN,
    ),
    _relation(
        "heat:nested_function(id, path, function, depth)",
        "How deep calls of one function stand within each other.",
        (DB, "name", "get_param", 2),
        WRITTEN,
        Column("depth", Kind.NUMBER, "From 2; a call with two within it, one in the other, is one of 3 and of 2."),
    ),
    _relation(
        "heat:text(id, path, text)",
        "The texts that functions put together in the definition of a resource, as far as they stand there.",
        (DB, "user_data", "#!/bin/sh\nexport TOKEN=$"),
        WRITTEN,
        Column(
            "text", Kind.STRING, "The text, with a $ for each part that comes from a parameter, a file or a resource."
        ),
    ),
    _relation(
        "heat:uses_parameter(id, path, parameter)",
        "The parameters that the definition of a resource and its conditions read.",
        (DB, ".condition", "environment"),
        WRITTEN,
    ),
    _relation(
        "heat:uses_file(id, path, file)",
        "The files that the definition of a resource reads by `get_file`.",
        (DB, "user_data", "setup.sh"),
        WRITTEN,
        Column("file", Kind.STRING, "The file's name as the template writes it."),
    ),
    _relation(
        "heat:parameter(stack*, name*, type, value, origin, hidden)",
        "The parameters with the values that are in force.",
        ("web", "key", "string", "ops", "environment", FALSE),
        Column("type", Kind.STRING, "The declared type."),
        _one_of("origin", "default environment parameters parent none", "Where the value comes from."),
        Column("hidden", Kind.BOOLEAN, "The value is a secret, which rules see and nobody is shown."),
    ),
    _relation(
        "heat:parameter_attribute(stack*, name*, attribute*, value)",
        "What a template declares of its parameters.",
        ("web", "key", "description", "The key pair."),
        Column("attribute", Kind.STRING, "The attribute, or the way into it, `tags.0`."),
    ),
    _relation(
        "heat:used_parameter(stack, parameter)",
        "The parameters that a template's text reads, in a resource, an output or a condition, whether these are there "
        "or not.",
        ("web", "key"),
    ),
    _relation("heat:output(stack*, name*, value)", "The outputs.", ("web", "size", 3)),
    _relation("heat:condition(stack*, name*, value)", "The conditions.", ("web", "large", FALSE)),
    _relation(
        "heat:file(stack*, path*, sha256, length)",
        "The files of a stack.",
        ("web", "setup.sh", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 4),
        Column("path", Kind.STRING, "The name by which the template reads the file."),
        Column("sha256", Kind.STRING, "The digest of its UTF-8 text."),
        Column("length", Kind.NUMBER, "The number of its bytes."),
    ),
    _relation(
        "heat:section(stack, section)",
        "The sections of a template.",
        ("web", "outputs"),
        Column("section", Kind.STRING, "The section's name as written, `resources` or `Resources`."),
    ),
    _relation(
        "heat:environment(file*, section*, key*, value)",
        "Every scalar of each environment file, as written. The values of hidden parameters are unknown.",
        ("env.yaml", "resource_registry", "resources.db.hooks", "pre-create"),
        Column("file", Kind.STRING, "The environment file's name."),
        Column("section", Kind.STRING, "The section of the environment."),
        Column("key", Kind.STRING, "The key in the section, or the way into it, `resources.web.hooks`."),
    ),
    _relation("heat:nested(id*, stack)", "The stack that a resource holds.", (GROUP, "web/group")),
    _relation(
        "heat:member(group, id*, index)",
        "The members of groups and chains.",
        (GROUP, ResourceId("web/group/0"), 0),
        Column("group", Kind.RESOURCE, "The group."),
        Column("id", Kind.RESOURCE, "The member."),
        Column("index", Kind.NUMBER, "The member's index, or else its position."),
    ),
    _relation(
        "heat:scaling(id*, min, max, desired)",
        "The bounds of autoscaling groups.",
        (GROUP, 1, 10, 2),
        Column("min", Kind.NUMBER | Kind.NULL, "The least number of members."),
        Column("max", Kind.NUMBER | Kind.NULL, "The greatest number of members."),
        Column("desired", Kind.NUMBER | Kind.NULL, "The number of members to begin with."),
    ),
    _relation(
        "heat:hook(id, hook)",
        "The breakpoints that the environments set.",
        (DB, "pre-create"),
        _one_of("hook", "pre-create pre-update pre-delete post-create post-update post-delete", "When Heat waits."),
    ),
    _relation(
        "heat:restricted(id, action)",
        "What the environments forbid to do to a resource.",
        (DB, "replace"),
        _one_of("action", "update replace", "The action that fails."),
    ),
    _relation(
        "heat:status(id*, action, status)",
        "How the resources of a live stack are; no rows for a template.",
        (DB, "CREATE", "COMPLETE"),
        _one_of(
            "action", "INIT CREATE DELETE UPDATE ROLLBACK SUSPEND RESUME ADOPT SNAPSHOT CHECK", "What was last done."
        ),
        _one_of("status", "IN_PROGRESS FAILED COMPLETE", "How it went."),
    ),
    _relation(
        "heat:physical(id*, physical_id)",
        "What the resources of a live stack are in the cloud; no rows for a template.",
        (DB, "5f0c2a1e-8f3c-4c57-9d3a-2f1d7d3a9b10"),
        Column("physical_id", Kind.STRING, "The id of what Heat made."),
    ),
    _relation(
        "heat:deployment(id*, config, server*, action*, digest)",
        "The software deployments, a row for each action that triggers one.",
        (
            ResourceId("web/setup"),
            ResourceId("web/config"),
            DB,
            "CREATE",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ),
        Column("config", Kind.RESOURCE | MAYBE_STRING, "The software configuration, or its id in the cloud."),
        Column("server", Kind.RESOURCE | MAYBE_STRING, "The server."),
        Column("action", Kind.STRING, "CREATE, UPDATE, DELETE, SUSPEND, RESUME, or one of the component's own."),
        Column("digest", Kind.STRING, "SHA-256 of group, configuration, options, inputs with their values, outputs."),
    ),
    _relation(
        "heat:change(id*, change)",
        "What becomes of each resource of the old stack and of the new one; no rows where there is no older state. "
        "A resource that holds a stack is at least updated, since Heat always passes the update on.",
        (DB, "replace"),
        _one_of("change", "create delete update replace unchanged", "What Heat does."),
    ),
    _relation(
        "heat:disruption(id*, kind*)",
        "What an update does to a running server that it keeps.",
        (DB, "resize"),
        _one_of("kind", "rebuild resize", "Either restarts it. No update of Heat merely reboots a server."),
    ),
    _relation(
        "gate:request(action)",
        "What is asked.",
        ("create",),
        _one_of("action", "create update adopt restore delete suspend resume check snapshot rollback", "The action."),
    ),
    _relation(
        "gate:caller(user, project, domain)",
        "Who asks, where the door knows.",
        ("u-81", "p-12", None),
        Column("user", MAYBE_STRING, "The user's id."),
        Column("project", MAYBE_STRING, "The project's id."),
        Column("domain", MAYBE_STRING, "The domain's id."),
    ),
    _relation(
        "gate:role(role)", "The roles of who asks.", ("member",), Column("role", Kind.STRING, "The role's name.")
    ),
    _relation(
        "gate:now(time)",
        "When it is asked.",
        ("2027-03-01T12:00:00+00:00",),
        Column("time", Kind.STRING, "The time in UTC."),
    ),
    _relation(
        "gate:service(name)", "The services enabled.", ("edge",), Column("name", Kind.STRING, "The name of a service.")
    ),
    _relation(
        "gate:grant(id*, service, expires)",
        "The grants of the template.",
        (POLICY, "edge", "2027-06-30"),
        Column("expires", MAYBE_STRING, "The day from which nothing new is granted."),
    ),
    _relation("gate:grant_scope(id, resource)", "The resources in the scope of a grant.", (POLICY, PORT), GRANTED),
    _relation("gate:grant_option(id*, path*, value)", "The options of a grant.", (POLICY, "ports.0", 443)),
    _relation("gate:unlocked(service, resource)", "What grants unlock.", ("edge", PORT), GRANTED),
)

FIXED: dict[str, Relation] = {relation.name: relation for relation in _RELATIONS}
