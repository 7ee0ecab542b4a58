"""The relations that do not depend on resource types: the stack's and the request's (layer 1).

`FIXED` holds each by its name. A relation is declared here when something fills it, so that a rule which reads one
that is never filled is an error and not silently empty.
"""

from __future__ import annotations

from datalog_gate.catalogue.schema import Column, Relation
from datalog_gate.values import Kind

NAMESPACES = frozenset(
    {
        *("heat", "os", "aws", "gate", "old", "builtin", "datalog_gate", "inventory"),
        *("nova", "neutron", "neutronv2", "neutronv2_qos", "cinder", "keystone", "keystonev3", "glance", "glancev2"),
        *("swift", "ironic", "monasca", "aodh", "mistral", "tacker"),
    }
)
"""The first segments of names that are not the author's: of the catalogue, or of an inventory."""

MAYBE_STRING = Kind.STRING | Kind.NULL
ID = Column("id", Kind.RESOURCE, "The resource.")
STACK = Column("stack", Kind.STRING, "The id of a stack.")
NAME = Column("name", Kind.STRING, "The name in the template.")
PATH = Column("path", Kind.STRING, r"The way to the value, `networks.0.port`; a dot in a key is written `\.`.")
VALUE = Column("value", Kind.ANY, "The value; a list or map where one is taken whole is its JSON text.")
SERVICE = Column("service", Kind.STRING, "The name of a service.")
TARGET = Column("resource", Kind.RESOURCE, "A resource that the grant or service is for.")


def _one_of(name: str, allowed: str, meaning: str) -> Column:
    return Column(name, Kind.STRING, meaning, tuple(allowed.split()), closed=True)


def _relation(name: str, meaning: str, *columns: Column, key: str = "") -> Relation:
    return Relation(name, columns, tuple(key.split()), meaning)


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
    ),
    _relation(
        "heat:resource",
        "Every resource.",
        *(ID, STACK, NAME),
        Column("type", Kind.STRING, "The type after registry mapping."),
        Column("declared", Kind.STRING, "The type as the template says it."),
        key="id",
    ),
    _relation("heat:property", "Every scalar in the properties, typed.", ID, PATH, VALUE, key="id path"),
    _relation("heat:metadata", "Every scalar in the metadata.", ID, PATH, VALUE, key="id path"),
    _relation("heat:update_policy", "Every scalar in the update policy.", ID, PATH, VALUE, key="id path"),
    _relation(
        "heat:deletion_policy",
        "What becomes of a resource when it leaves the stack.",
        ID,
        Column("policy", Kind.STRING, "Delete, Retain or Snapshot; Delete where the template is silent."),
        key="id",
    ),
    _relation(
        "heat:requires",
        "The dependencies between the resources of a stack.",
        ID,
        Column("required", Kind.RESOURCE, "A resource that must be there before."),
        _one_of("why", "explicit reference attribute implicit", "How the template says so."),
        key="id required",
    ),
    _relation(
        "heat:reference",
        "The properties that hold a resource.",
        *(ID, PATH),
        Column("target", Kind.RESOURCE, "The resource referred to."),
        key="id path",
    ),
    _relation(
        "heat:unknown",
        "The properties whose value nobody knows yet.",
        *(ID, PATH),
        Column("expression", Kind.STRING, "What the value is the result of."),
        key="id path",
    ),
    _relation(
        "heat:parameter",
        "The parameters with the values that are in force.",
        *(STACK, NAME),
        Column("type", Kind.STRING, "The declared type."),
        VALUE,
        _one_of("origin", "default environment parameters parent none", "Where the value comes from."),
        Column("hidden", Kind.BOOLEAN, "The value is a secret, and unknown to rules."),
        key="stack name",
    ),
    _relation(
        "heat:parameter_attribute",
        "What a template declares of its parameters.",
        *(STACK, NAME),
        Column("attribute", Kind.STRING, "The attribute, or the way into it, `tags.0`."),
        VALUE,
        key="stack name attribute",
    ),
    _relation("heat:output", "The outputs.", STACK, NAME, VALUE, key="stack name"),
    _relation("heat:condition", "The conditions.", STACK, NAME, VALUE, key="stack name"),
    _relation(
        "heat:file",
        "The files of a stack.",
        STACK,
        Column("path", Kind.STRING, "The name by which the template reads the file."),
        Column("sha256", Kind.STRING, "The digest of its UTF-8 text."),
        Column("length", Kind.NUMBER, "The number of its bytes."),
        key="stack path",
    ),
    _relation("heat:nested", "The stack that a resource holds.", ID, STACK, key="id"),
    _relation(
        "heat:member",
        "The members of groups and chains.",
        Column("group", Kind.RESOURCE, "The group."),
        Column("id", Kind.RESOURCE, "The member."),
        Column("index", Kind.NUMBER, "The member's index, or else its position."),
        key="id",
    ),
    _relation(
        "gate:request",
        "What is asked.",
        _one_of("action", "create update adopt restore delete suspend resume check snapshot rollback", "The action."),
    ),
    _relation(
        "gate:caller",
        "Who asks, where the door knows.",
        Column("user", MAYBE_STRING, "The user's id."),
        Column("project", MAYBE_STRING, "The project's id."),
        Column("domain", MAYBE_STRING, "The domain's id."),
    ),
    _relation("gate:role", "The roles of who asks.", Column("role", Kind.STRING, "The role's name.")),
    _relation("gate:now", "When it is asked.", Column("time", Kind.STRING, "The time in UTC.")),
    _relation("gate:service", "The services enabled.", Column("name", Kind.STRING, "The name of a service.")),
    _relation(
        "gate:grant",
        "The grants of the template.",
        *(ID, SERVICE),
        Column("expires", MAYBE_STRING, "The day from which nothing new is granted."),
        key="id",
    ),
    _relation("gate:grant_scope", "The resources in the scope of a grant.", ID, TARGET),
    _relation("gate:grant_option", "The options of a grant.", ID, PATH, VALUE, key="id path"),
    _relation("gate:unlocked", "What grants unlock.", SERVICE, TARGET),
)

FIXED: dict[str, Relation] = {relation.name: relation for relation in _RELATIONS}
