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

MAYBE_STRING = Kind.STRING | Kind.NULL
ID = Column("id", Kind.RESOURCE, "The resource.")
STACK = Column("stack", Kind.STRING, "The id of a stack.")
NAME = Column("name", Kind.STRING, "The name in the template.")
PATH = Column("path", Kind.STRING, r"The way to the value, `networks.0.port`; a dot in a key is written `\.`.")
VALUE = Column("value", Kind.ANY, "The value; a list or map where one is taken whole is its JSON text.")
SERVICE = Column("service", Kind.STRING, "The name of a service.")
TARGET = Column("target", Kind.RESOURCE, "The resource referred to.")
WRITTEN = Column(
    "path",
    Kind.STRING,
    "The way to the outermost function in the text of the properties, like `heat:property` says it; "
    "elsewhere in the definition it starts with a dot: `.metadata.tier`, `.condition`.",
)
GRANTED = Column("resource", Kind.RESOURCE, "A resource that the grant or service is for.")


def _one_of(name: str, allowed: str, meaning: str) -> Column:
    return Column(name, Kind.STRING, meaning, tuple(allowed.split()), closed=True)


def _relation(name: str, meaning: str, *columns: Column, example: Row, key: str = "") -> Relation:
    return Relation(name, columns, tuple(key.split()), meaning, example=example)


_RELATIONS = (
    _relation(
        "heat:stack",
        "The stack and each nested stack.",
        Column("id", Kind.STRING, "The path of the stack, `web` or `web/db`."),
        Column("name", Kind.STRING, "The name of the stack."),
        Column("parent", Kind.RESOURCE | Kind.NULL, "The resource that holds the stack."),
        Column("depth", Kind.NUMBER, "0 for the root."),
        Column("version", Kind.STRING, "The template's version."),
        Column("description", MAYBE_STRING, "The template's description."),
        key="id",
        example=("web", "web", None, 0, "2021-04-16", "A web server."),
    ),
    _relation(
        "heat:root",
        "The roots of what is judged. No stack that nobody could read may be one, as `heat:stack` has to leave open.",
        STACK,
        key="stack",
        example=("web",),
    ),
    _relation(
        "heat:resource",
        "Every resource.",
        *(ID, STACK, NAME),
        Column("type", Kind.STRING, "The type after registry mapping."),
        Column("declared", Kind.STRING, "The type as the template says it."),
        key="id",
        example=(ResourceId("web/db"), "web", "db", "OS::Nova::Server", "OS::Nova::Server"),
    ),
    _relation(
        "heat:property",
        "Every scalar in the properties, typed.",
        *(ID, PATH, VALUE),
        key="id path",
        example=(ResourceId("web/db"), "networks.0.port", ResourceId("web/port")),
    ),
    _relation(
        "heat:metadata",
        "Every scalar in the metadata.",
        *(ID, PATH, VALUE),
        key="id path",
        example=(ResourceId("web/db"), "tier", "back"),
    ),
    _relation(
        "heat:update_policy",
        "Every scalar in the update policy.",
        *(ID, PATH, VALUE),
        key="id path",
        example=(ResourceId("web/group"), "batch_create.max_batch_size", 2),
    ),
    _relation(
        "heat:deletion_policy",
        "What becomes of a resource when it leaves the stack.",
        ID,
        Column("policy", Kind.STRING, "Delete, Retain or Snapshot; Delete where the template is silent."),
        key="id",
        example=(ResourceId("web/db"), "Retain"),
    ),
    _relation(
        "heat:requires",
        "The dependencies between the resources of a stack.",
        ID,
        Column("required", Kind.RESOURCE, "A resource that must be there before."),
        _one_of("why", "explicit reference attribute implicit", "How the template says so."),
        key="id required",
        example=(ResourceId("web/db"), ResourceId("web/port"), "reference"),
    ),
    _relation(
        "heat:reference",
        "The properties that hold a resource.",
        *(ID, PATH, TARGET),
        key="id path",
        example=(ResourceId("web/db"), "networks.0.port", ResourceId("web/port")),
    ),
    _relation(
        "heat:unknown",
        "The properties whose value nobody knows yet.",
        *(ID, PATH),
        Column("expression", Kind.STRING, "What the value is the result of."),
        key="id path",
        example=(ResourceId("web/db"), "name", "get_param [name] of web"),
    ),
    _relation(
        "heat:attribute",
        "The attributes that the definition of a resource reads, as the template writes it.",
        *(ID, WRITTEN, TARGET),
        Column("attribute", MAYBE_STRING, "The attribute's name; null where all are read."),
        example=(ResourceId("web/db"), "user_data", ResourceId("web/port"), "mac_address"),
    ),
    _relation(
        "heat:function",
        "The functions in the definition of a resource, those within others and in its conditions too.",
        *(ID, WRITTEN),
        Column("function", Kind.STRING, "The function's name."),
        example=(ResourceId("web/db"), "user_data", "str_replace"),
    ),
    _relation(
        "heat:nested_function",
        "How deep calls of one function stand within each other.",
        *(ID, WRITTEN),
        Column("function", Kind.STRING, "The function's name."),
        Column("depth", Kind.NUMBER, "From 2; a call with two within it, one in the other, is one of 3 and of 2."),
        example=(ResourceId("web/db"), "name", "get_param", 2),
    ),
    _relation(
        "heat:text",
        "The texts that functions put together in the definition of a resource, as far as they stand there.",
        *(ID, WRITTEN),
        Column(
            "text", Kind.STRING, "The text, with a $ for each part that comes from a parameter, a file or a resource."
        ),
        example=(ResourceId("web/db"), "user_data", "#!/bin/sh\nexport TOKEN=$"),
    ),
    _relation(
        "heat:uses_parameter",
        "The parameters that the definition of a resource and its conditions read.",
        *(ID, WRITTEN),
        Column("parameter", Kind.STRING, "The parameter's name."),
        example=(ResourceId("web/db"), ".condition", "environment"),
    ),
    _relation(
        "heat:uses_file",
        "The files that the definition of a resource reads by `get_file`.",
        *(ID, WRITTEN),
        Column("file", Kind.STRING, "The file's name as the template writes it."),
        example=(ResourceId("web/db"), "user_data", "setup.sh"),
    ),
    _relation(
        "heat:parameter",
        "The parameters with the values that are in force.",
        *(STACK, NAME),
        Column("type", Kind.STRING, "The declared type."),
        VALUE,
        _one_of("origin", "default environment parameters parent none", "Where the value comes from."),
        Column("hidden", Kind.BOOLEAN, "The value is a secret, which rules see and nobody is shown."),
        key="stack name",
        example=("web", "key", "string", "ops", "environment", FALSE),
    ),
    _relation(
        "heat:parameter_attribute",
        "What a template declares of its parameters.",
        *(STACK, NAME),
        Column("attribute", Kind.STRING, "The attribute, or the way into it, `tags.0`."),
        VALUE,
        key="stack name attribute",
        example=("web", "key", "description", "The key pair."),
    ),
    _relation(
        "heat:used_parameter",
        "The parameters that a template's text reads, in a resource, an output or a condition, whether these are there "
        "or not.",
        STACK,
        Column("parameter", Kind.STRING, "The parameter's name."),
        example=("web", "key"),
    ),
    _relation("heat:output", "The outputs.", STACK, NAME, VALUE, key="stack name", example=("web", "size", 3)),
    _relation(
        "heat:condition", "The conditions.", STACK, NAME, VALUE, key="stack name", example=("web", "large", FALSE)
    ),
    _relation(
        "heat:file",
        "The files of a stack.",
        STACK,
        Column("path", Kind.STRING, "The name by which the template reads the file."),
        Column("sha256", Kind.STRING, "The digest of its UTF-8 text."),
        Column("length", Kind.NUMBER, "The number of its bytes."),
        key="stack path",
        example=("web", "setup.sh", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 4),
    ),
    _relation(
        "heat:section",
        "The sections of a template.",
        STACK,
        Column("section", Kind.STRING, "The section's name as written, `resources` or `Resources`."),
        example=("web", "outputs"),
    ),
    _relation(
        "heat:environment",
        "Every scalar of each environment file, as written. The values of hidden parameters are unknown.",
        Column("file", Kind.STRING, "The environment file's name."),
        Column("section", Kind.STRING, "The section of the environment."),
        Column("key", Kind.STRING, "The key in the section, or the way into it, `resources.web.hooks`."),
        VALUE,
        key="file section key",
        example=("env.yaml", "resource_registry", "resources.db.hooks", "pre-create"),
    ),
    _relation(
        "heat:nested",
        "The stack that a resource holds.",
        *(ID, STACK),
        key="id",
        example=(ResourceId("web/group"), "web/group"),
    ),
    _relation(
        "heat:member",
        "The members of groups and chains.",
        Column("group", Kind.RESOURCE, "The group."),
        Column("id", Kind.RESOURCE, "The member."),
        Column("index", Kind.NUMBER, "The member's index, or else its position."),
        key="id",
        example=(ResourceId("web/group"), ResourceId("web/group/0"), 0),
    ),
    _relation(
        "heat:scaling",
        "The bounds of autoscaling groups.",
        ID,
        Column("min", Kind.NUMBER | Kind.NULL, "The least number of members."),
        Column("max", Kind.NUMBER | Kind.NULL, "The greatest number of members."),
        Column("desired", Kind.NUMBER | Kind.NULL, "The number of members to begin with."),
        key="id",
        example=(ResourceId("web/group"), 1, 10, 2),
    ),
    _relation(
        "heat:hook",
        "The breakpoints that the environments set.",
        ID,
        _one_of("hook", "pre-create pre-update pre-delete post-create post-update post-delete", "When Heat waits."),
        example=(ResourceId("web/db"), "pre-create"),
    ),
    _relation(
        "heat:restricted",
        "What the environments forbid to do to a resource.",
        ID,
        _one_of("action", "update replace", "The action that fails."),
        example=(ResourceId("web/db"), "replace"),
    ),
    _relation(
        "heat:status",
        "How the resources of a live stack are; no rows for a template.",
        ID,
        _one_of(
            "action", "INIT CREATE DELETE UPDATE ROLLBACK SUSPEND RESUME ADOPT SNAPSHOT CHECK", "What was last done."
        ),
        _one_of("status", "IN_PROGRESS FAILED COMPLETE", "How it went."),
        key="id",
        example=(ResourceId("web/db"), "CREATE", "COMPLETE"),
    ),
    _relation(
        "heat:physical",
        "What the resources of a live stack are in the cloud; no rows for a template.",
        ID,
        Column("physical_id", Kind.STRING, "The id of what Heat made."),
        key="id",
        example=(ResourceId("web/db"), "5f0c2a1e-8f3c-4c57-9d3a-2f1d7d3a9b10"),
    ),
    _relation(
        "heat:deployment",
        "The software deployments, a row for each action that triggers one.",
        ID,
        Column("config", Kind.RESOURCE | MAYBE_STRING, "The software configuration, or its id in the cloud."),
        Column("server", Kind.RESOURCE | MAYBE_STRING, "The server."),
        Column("action", Kind.STRING, "CREATE, UPDATE, DELETE, SUSPEND, RESUME, or one of the component's own."),
        Column("digest", Kind.STRING, "SHA-256 of group, configuration, options, inputs with their values, outputs."),
        key="id server action",
        example=(
            ResourceId("web/setup"),
            ResourceId("web/config"),
            ResourceId("web/db"),
            "CREATE",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ),
    ),
    _relation(
        "heat:change",
        "What becomes of each resource of the old stack and of the new one; no rows where there is no older state. "
        "A resource that holds a stack is at least updated, since Heat always passes the update on.",
        ID,
        _one_of("change", "create delete update replace unchanged", "What Heat does."),
        key="id",
        example=(ResourceId("web/db"), "replace"),
    ),
    _relation(
        "heat:disruption",
        "What an update does to a running server that it keeps.",
        ID,
        _one_of("kind", "rebuild resize", "Either restarts it. No update of Heat merely reboots a server."),
        key="id kind",
        example=(ResourceId("web/db"), "resize"),
    ),
    _relation(
        "gate:request",
        "What is asked.",
        _one_of("action", "create update adopt restore delete suspend resume check snapshot rollback", "The action."),
        example=("create",),
    ),
    _relation(
        "gate:caller",
        "Who asks, where the door knows.",
        Column("user", MAYBE_STRING, "The user's id."),
        Column("project", MAYBE_STRING, "The project's id."),
        Column("domain", MAYBE_STRING, "The domain's id."),
        example=("u-81", "p-12", None),
    ),
    _relation(
        "gate:role", "The roles of who asks.", Column("role", Kind.STRING, "The role's name."), example=("member",)
    ),
    _relation(
        "gate:now",
        "When it is asked.",
        Column("time", Kind.STRING, "The time in UTC."),
        example=("2027-03-01T12:00:00+00:00",),
    ),
    _relation(
        "gate:service",
        "The services enabled.",
        Column("name", Kind.STRING, "The name of a service."),
        example=("edge",),
    ),
    _relation(
        "gate:grant",
        "The grants of the template.",
        *(ID, SERVICE),
        Column("expires", MAYBE_STRING, "The day from which nothing new is granted."),
        key="id",
        example=(ResourceId("web/policy"), "edge", "2027-06-30"),
    ),
    _relation(
        "gate:grant_scope",
        "The resources in the scope of a grant.",
        *(ID, GRANTED),
        example=(ResourceId("web/policy"), ResourceId("web/port")),
    ),
    _relation(
        "gate:grant_option",
        "The options of a grant.",
        *(ID, PATH, VALUE),
        key="id path",
        example=(ResourceId("web/policy"), "ports.0", 443),
    ),
    _relation("gate:unlocked", "What grants unlock.", SERVICE, GRANTED, example=("edge", ResourceId("web/port"))),
)

FIXED: dict[str, Relation] = {relation.name: relation for relation in _RELATIONS}
