"""The relations of stacks and requests, for all resource types.

Only relations that something fills are declared, so that a rule that reads any other is an error, not silently empty.
"""

from __future__ import annotations

from datalog_gate.base.values import Kind
from datalog_gate.schema.declaration import Column, Relation

NAMESPACES = frozenset(
    ("heat", "os", "aws", "gate", "old", "builtin", "datalog_gate", "inventory", "neutron", "glance")
)
"""The first segments of names that modules must not use, in addition to those of an inventory."""

UNLOCKED = "gate:unlocked"
EFFECTIVE = Relation(
    "gate:effective#",
    (Column("grant", Kind.RESOURCE),),
    meaning="Grants that are enabled and not expired.",
    generated="effective",
)

TRANSITION = frozenset({"heat:change", "heat:disruption", "gate:request"})
"""Relations about the operation, not the resulting state."""
TIMELESS = TRANSITION | {"gate:caller", "gate:role", "gate:now", "gate:service", "gate:inventory_age"}
"""Relations here without an older state: they describe the request, or the change itself."""
ONE_ROW = frozenset({"gate:now", "gate:request", "gate:caller"})
"""Relations with at most one row."""

VERSIONS = (
    "2013-05-23 2014-10-16 2015-04-30 2015-10-15 2016-04-08 2016-10-14 2017-02-24 2017-09-01 2018-03-02 2018-08-31 "
    "2021-04-16 newton ocata pike queens rocky wallaby 2010-09-09 2012-12-12"
)
SECTIONS = (
    "heat_template_version description parameter_groups parameters resources outputs conditions "
    "AWSTemplateFormatVersion HeatTemplateFormatVersion Description Parameters Mappings Resources Outputs Conditions"
)
ENVIRONMENT_SECTIONS = (
    "parameters parameter_defaults resource_registry parameter_merge_strategies encrypted_param_names event_sinks"
)
FUNCTIONS = (
    "get_param get_resource get_attr get_file list_join str_replace resource_facade repeat digest str_split map_merge "
    "yaql map_replace if filter str_replace_strict make_url list_concat list_concat_unique contains "
    "str_replace_vstrict equals not and or Ref Fn::GetAtt Fn::FindInMap Fn::If Fn::Equals Fn::Not Fn::And Fn::Or "
    "Fn::GetAZs Fn::Join Fn::Split Fn::Replace Fn::Base64 Fn::MemberListToMap Fn::ResourceFacade Fn::Select"
)
"""The functions of all template versions, separated by blanks; the template reader has them by version."""

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
        Column("function", Kind.STRING, "The function's name.", tuple(FUNCTIONS.split()), closed=True),
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


def _relation(header: str, meaning: str, rule: str, *columns: Column) -> Relation:
    """A relation from ``heat:property(id*, path*, value)``: its name and columns, with a star for those of the key.
    `rule` is an example that reads it; `columns` are those missing in `_SHARED`, or different there."""
    name, _, written = header.removesuffix(")").partition("(")
    by_name = _SHARED | {column.name: column for column in columns}
    names = written.split(", ")
    key = tuple(column.rstrip("*") for column in names if column.endswith("*"))
    return Relation(name, tuple(by_name[column.rstrip("*")] for column in names), key, meaning, rule=rule)


_RELATIONS = (
    _relation(
        "heat:stack(id*, name, parent, depth, version, description)",
        "The stack and each nested stack.",
        "deep(stack, depth) :- heat:stack(id=stack, depth=depth), depth > 3.",
        Column("id", Kind.STRING, "The path of the stack, `web` or `web/db`."),
        Column("name", Kind.STRING, "The name of the stack."),
        Column("parent", Kind.RESOURCE | Kind.NULL, "The resource that holds the stack."),
        Column("depth", Kind.NUMBER, "0 for the root.", range=(0, None)),
        _one_of("version", VERSIONS, "The template's version."),
        Column("description", MAYBE_STRING, "The template's description."),
    ),
    _relation(
        "heat:root(stack*)",
        "The root stacks, one for each template that is judged. Those that they hold are in `heat:stack` alone.",
        "mute(stack) :- heat:root(stack=stack), heat:stack(id=stack, description=null).",
    ),
    _relation(
        "heat:resource(id*, stack, name, type, declared)",
        "Every resource.",
        'address(r) :- heat:resource(id=r, type="OS::Neutron::FloatingIP").',
        Column("type", Kind.STRING, "The type after registry mapping."),
        Column("declared", Kind.STRING, "The type as the template says it."),
    ),
    _relation(
        "heat:property(id*, path*, value)",
        "Every scalar in the properties, typed.",
        'named_prod(r) :- heat:property(id=r, path="name", value="prod").',
    ),
    _relation(
        "heat:metadata(id*, path*, value)",
        "Every scalar in the metadata.",
        'back(r) :- heat:metadata(id=r, path="tier", value="back").',
    ),
    _relation(
        "heat:update_policy(id*, path*, value)",
        "Every scalar in the update policy.",
        'one_by_one(r) :- heat:update_policy(id=r, path="rolling_update.max_batch_size", value=1).',
    ),
    _relation(
        "heat:deletion_policy(id*, policy)",
        "What becomes of a resource when it leaves the stack.",
        'kept(r) :- heat:deletion_policy(id=r, policy="Retain").',
        _one_of("policy", "Delete Retain Snapshot", "Delete where the template is silent."),
    ),
    _relation(
        "heat:requires(id*, required*, why)",
        "The dependencies between the resources of a stack.",
        'waits(r, required) :- heat:requires(id=r, required=required, why="explicit").',
        Column("required", Kind.RESOURCE, "A resource that must be there before."),
        _one_of("why", "explicit reference attribute implicit", "How the template says so."),
    ),
    _relation(
        "heat:reference(id*, path*, target)",
        "The properties that hold a resource.",
        "wired(r, net) :- heat:reference(id=r, target=net), os:neutron:net(_id=net).",
    ),
    _relation(
        "heat:unknown(id*, path*, expression)",
        "The properties whose value nobody knows yet.",
        'later(r, expression) :- heat:unknown(id=r, path="description", expression=expression).',
        Column("expression", Kind.STRING, "What the value is the result of."),
    ),
    _relation(
        "heat:attribute(id, path, target, attribute)",
        "The attributes that the definition of a resource reads, as the template writes it.",
        'watched(r, server) :- heat:attribute(id=r, target=server, attribute="console_urls").',
        WRITTEN,
        Column("attribute", MAYBE_STRING, "The attribute's name; null where all are read."),
    ),
    _relation(
        "heat:function(id, path, function)",
        "The functions in the definition of a resource, those within others and in its conditions too.",
        'clever(r, path) :- heat:function(id=r, path=path, function="yaql").',
        WRITTEN,
    ),
    _relation(
        "heat:nested_function(id, path, function, depth)",
        "How deep calls of one function stand within each other.",
        "tangled(r, function) :- heat:nested_function(id=r, function=function, depth=depth), depth > 3.",
        WRITTEN,
        Column(
            "depth",
            Kind.NUMBER,
            "From 2; a call with two within it, one in the other, is one of 3 and of 2.",
            range=(2, None),
        ),
    ),
    _relation(
        "heat:text(id, path, text)",
        "The texts that functions put together in the definition of a resource, as far as they stand there.",
        'secret(r, path) :- heat:text(id=r, path=path, text=text), contains(text, "PASSWORD=").',
        WRITTEN,
        Column(
            "text", Kind.STRING, "The text, with a $ for each part that comes from a parameter, a file or a resource."
        ),
    ),
    _relation(
        "heat:uses_parameter(id, path, parameter)",
        "The parameters that the definition of a resource and its conditions read.",
        'keyed(r) :- heat:uses_parameter(id=r, parameter="key").',
        WRITTEN,
    ),
    _relation(
        "heat:uses_file(id, path, file)",
        "The files that the definition of a resource reads by `get_file`.",
        'scripted(r, file) :- heat:uses_file(id=r, file=file), ends_with(file, ".sh").',
        WRITTEN,
        Column("file", Kind.STRING, "The file's name as the template writes it."),
    ),
    _relation(
        "heat:parameter(stack*, name*, type, value, origin, hidden)",
        "The parameters with the values that are in force.",
        'unset(stack, name) :- heat:parameter(stack=stack, name=name, origin="default", hidden=true).',
        _one_of(
            "type",
            "string number comma_delimited_list json boolean",
            "The declared type, by HOT's name in templates of CloudFormation too.",
        ),
        _one_of("origin", "default environment parameters parent none", "Where the value comes from."),
        Column("hidden", Kind.BOOLEAN, "The value is a secret, which rules see and nobody is shown."),
    ),
    _relation(
        "heat:parameter_attribute(stack*, name*, attribute*, value)",
        "What a template declares of its parameters.",
        'described(stack, name) :- heat:parameter_attribute(stack=stack, name=name, attribute="description").',
        Column("attribute", Kind.STRING, "The attribute, or the way into it, `tags.0`."),
    ),
    _relation(
        "heat:used_parameter(stack, parameter)",
        "The parameters that a template's text reads, in a resource, an output or a condition, whether these are there "
        "or not.",
        "idle(stack, p) :- heat:parameter(stack=stack, name=p), not heat:used_parameter(stack=stack, parameter=p).",
    ),
    _relation(
        "heat:output(stack*, name*, value)",
        "The outputs.",
        'public(stack, value) :- heat:output(stack=stack, name="address", value=value).',
    ),
    _relation(
        "heat:condition(stack*, name*, value)",
        "The conditions.",
        'small(stack) :- heat:condition(stack=stack, name="large", value=false).',
    ),
    _relation(
        "heat:file(stack*, path*, sha256, length)",
        "The files of a stack.",
        "long(stack, path) :- heat:file(stack=stack, path=path, length=bytes), bytes > 65535.",
        Column("path", Kind.STRING, "The path from the folder of the root template; in a request the name."),
        Column("sha256", Kind.STRING, "The digest of its UTF-8 text."),
        Column("length", Kind.NUMBER, "The number of its bytes.", range=(0, None)),
    ),
    _relation(
        "heat:section(stack, section)",
        "The sections of a template.",
        'no_outputs(stack) :- heat:root(stack=stack), not heat:section(stack=stack, section="outputs").',
        _one_of("section", SECTIONS, "The section's name as written, `resources` or `Resources`."),
    ),
    _relation(
        "heat:environment(file*, section*, key*, value)",
        "Every scalar of each environment file, as written. The values of hidden parameters are unknown.",
        'mapped(file, type) :- heat:environment(file=file, section="resource_registry", key=type).',
        Column("file", Kind.STRING, "The environment file's path from the folder of the root template."),
        _one_of("section", ENVIRONMENT_SECTIONS, "The section of the environment."),
        Column("key", Kind.STRING, "The key in the section, or the way into it, `resources.web.hooks`."),
    ),
    _relation(
        "heat:nested(id*, stack)",
        "The stack that a resource holds.",
        "within(r, inner) :- heat:nested(id=r, stack=stack), heat:resource(id=inner, stack=stack).",
    ),
    _relation(
        "heat:member(group, id*, index)",
        "The members of groups and chains.",
        "size(group, n) :- heat:nested(id=group), n = count{ m : heat:member(group=group, id=m) }.",
        Column("group", Kind.RESOURCE, "The group."),
        Column("id", Kind.RESOURCE, "The member."),
        Column("index", Kind.NUMBER, "The member's index, or else its position.", range=(0, None)),
    ),
    _relation(
        "heat:scaling(id*, min, max, desired)",
        "The bounds of autoscaling groups.",
        "wide(group, max) :- heat:scaling(id=group, max=max), max ?? 1000 > 20.",
        Column("min", Kind.NUMBER | Kind.NULL, "The least number of members."),
        Column("max", Kind.NUMBER | Kind.NULL, "The greatest number of members."),
        Column("desired", Kind.NUMBER | Kind.NULL, "The number of members to begin with."),
    ),
    _relation(
        "heat:hook(id, hook)",
        "The breakpoints that the environments set.",
        'stops(r) :- heat:hook(id=r, hook="pre-create").',
        _one_of("hook", "pre-create pre-update pre-delete post-create post-update post-delete", "When Heat waits."),
    ),
    _relation(
        "heat:restricted(id, action)",
        "What the environments forbid to do to a resource.",
        'kept(r) :- heat:restricted(id=r, action="replace").',
        _one_of("action", "update replace", "The action that fails."),
    ),
    _relation(
        "heat:leftover(id)",
        "What failed updates left in Heat beyond the template, until an update succeeds. These resources have rows in "
        "all other relations too. No rows for a template, or where a door can't see them.",
        "kept(server) :- heat:leftover(id=server), os:nova:server(_id=server).",
    ),
    _relation(
        "heat:status(id*, action, status)",
        "How the resources of a live stack are; no rows for a template.",
        'failed(r) :- heat:status(id=r, status="FAILED").',
        _one_of(
            "action", "INIT CREATE DELETE UPDATE ROLLBACK SUSPEND RESUME ADOPT SNAPSHOT CHECK", "What was last done."
        ),
        _one_of("status", "IN_PROGRESS FAILED COMPLETE", "How it went."),
    ),
    _relation(
        "heat:physical(id*, physical_id)",
        "What the resources of a live stack are in the cloud; no rows for a template.",
        "stands(r, host) :- heat:physical(id=r, physical_id=id), nova:servers(id=id, host_name=host).",
        Column("physical_id", Kind.STRING, "The id of what Heat made."),
    ),
    _relation(
        "heat:updated(id*, time)",
        "When Heat last changed the resources of a live stack; no rows for a template.",
        'new(r) :- heat:updated(id=r, time=time), gate:inventory(table="nova:servers", read=read), time > read ?? "".',
        Column("time", Kind.STRING, "The time, `2027-03-01T12:00:00Z`."),
    ),
    _relation(
        "heat:deployment(id*, config, server*, action*, digest)",
        "The software deployments, a row for each action that triggers one.",
        'at_end(r, server) :- heat:deployment(id=r, server=server, action="DELETE").',
        Column("config", Kind.RESOURCE | MAYBE_STRING, "The software configuration, or its id in the cloud."),
        Column("server", Kind.RESOURCE | MAYBE_STRING, "The server."),
        Column("action", Kind.STRING, "CREATE, UPDATE, DELETE, SUSPEND, RESUME, or one of the component's own."),
        Column("digest", Kind.STRING, "SHA-256 of group, configuration, options, inputs with their values, outputs."),
    ),
    _relation(
        "heat:change(id*, change)",
        "What becomes of each resource of the old stack and of the new one; no rows where there is no older state. "
        "A resource that holds a stack is at least updated, since Heat always passes the update on.",
        'lost(volume) :- heat:change(id=volume, change="replace"), os:cinder:volume(_id=volume).',
        _one_of("change", "create delete update replace unchanged", "What Heat does."),
    ),
    _relation(
        "heat:disruption(id*, kind*)",
        "What an update does to a running server that it keeps.",
        'resized(server) :- heat:disruption(id=server, kind="resize").',
        _one_of("kind", "rebuild resize", "Either restarts it. No update of Heat merely reboots a server."),
    ),
    _relation(
        "heat:tag(stack*, value*)",
        "The tags of a root stack, as the request gives them or Heat has them; no rows for a template.",
        'of_team(stack) :- heat:tag(stack=stack, value="team-a").',
        Column("value", Kind.STRING, "The tag."),
    ),
    _relation(
        "gate:request(action)",
        "The operation that is asked for.",
        'new(stack) :- heat:root(stack=stack), gate:request(action="create").',
        _one_of("action", "create update adopt restore delete suspend resume check snapshot rollback", "The action."),
    ),
    _relation(
        "gate:caller(user, project, domain)",
        "Who asks, where the door knows.",
        'of_lab(stack) :- heat:root(stack=stack), gate:caller(project="lab").',
        Column("user", MAYBE_STRING, "The user's id."),
        Column("project", MAYBE_STRING, "The project's id."),
        Column("domain", MAYBE_STRING, "The domain's id."),
    ),
    _relation(
        "gate:role(role)",
        "The roles of who asks.",
        'by_user(stack) :- heat:root(stack=stack), not gate:role(role="admin").',
        Column("role", Kind.STRING, "The role's name."),
    ),
    _relation(
        "gate:now(time)",
        "The time of the request.",
        'frozen(stack) :- heat:root(stack=stack), gate:now(time=now), starts_with(now, "2026-12-").',
        Column("time", Kind.STRING, "The time in UTC."),
    ),
    _relation(
        "gate:inventory_age(table*, seconds)",
        "How old the tables of the inventory are, at the time of the request.",
        'stale(stack) :- heat:root(stack=stack), gate:inventory_age(table="nova:servers", seconds=s), s > 3600.',
        Column("table", Kind.STRING, "The name of a relation, of which `gate:inventory` says when it was read."),
        Column("seconds", Kind.NUMBER, "The whole seconds since then."),
    ),
    _relation(
        "gate:service(name)",
        "The services enabled.",
        'no_edge(stack) :- heat:root(stack=stack), not gate:service(name="edge").',
        Column("name", Kind.STRING, "The name of a service."),
    ),
    _relation(
        "gate:grant(id*, service, expires)",
        "The grants of the template.",
        'asks(grant) :- gate:grant(id=grant, service="edge").',
        Column("expires", MAYBE_STRING, "The day from which nothing new is granted."),
    ),
    _relation(
        "gate:grant_scope(id, resource)",
        "The resources in the scope of a grant.",
        "for_port(grant, port) :- gate:grant_scope(id=grant, resource=port), os:neutron:port(_id=port).",
        GRANTED,
    ),
    _relation(
        "gate:grant_option(id*, path*, value)",
        "The options of a grant.",
        'asks(grant, value) :- gate:grant_option(id=grant, path="ports.0", value=value).',
    ),
    _relation(
        "gate:unlocked(service, resource)",
        "What grants unlock.",
        "locked(ip) :- os:neutron:floating_ip(_id=ip), not gate:unlocked(resource=ip).",
        GRANTED,
    ),
)

FIXED: dict[str, Relation] = {relation.name: relation for relation in _RELATIONS}
