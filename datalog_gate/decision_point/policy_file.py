"""Problems of the files of oslo.policy that the host reads.

oslo.policy treats a rule that it can't read, or that refers to nothing, as one that nobody satisfies. If a file is
missing, it uses the defaults.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from oslo_policy import policy

from datalog_gate.base.diagnostics import Span, closest
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass
from datalog_gate.decision_point.roles import BREAK_GLASS, GRANT, list_rules
from datalog_gate.files.templates import list_files, read_text
from datalog_gate.template.document import Document, read_document

OWN = "datalog_gate:"
"""The prefix of the gate's rules."""
PREVIOUS = "no service starts with this, and a running one keeps the previous rules"
HEAT_RULES = ("context_is_admin", "project_admin", "deny_stack_user", "deny_everybody", "allow_everybody")
"""The rules that other rules of Heat refer to (heat/policies/base.py), for hosts without Heat."""
ROLES = ("admin", "manager", "member", "reader", "service")
"""The initial roles of Keystone."""


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """A problem of a rule or a file, where it is, and what to write."""

    message: str
    place: Span | None
    fix: str
    certain: bool = True
    """Whether it is certainly wrong."""


def find_policy_problems(
    conf: Any, services: Sequence[str], has_break_glass: bool, roles: Set[str] | None
) -> Iterator[PolicyProblem]:
    """Find problems in the policy files of a host's configuration. `roles` are those of Keystone; None if they are not
    known. Errors: cfg.Error, ValueError for options."""
    logging.getLogger("oslo_policy").addHandler(logging.NullHandler())  # problems are reported here instead of its log
    own = {rule.name for rule in list_rules()} | {f"{GRANT}:{service}" for service in services}
    paths, missing = _find_files(conf)
    for file in missing:
        message = f"the policy file {file} is missing, so the defaults apply, also for Heat's own rules"
        command = f"oslopolicy-sample-generator --namespace heat --namespace datalog_gate --output-file {file}"
        yield PolicyProblem(message, None, f"correct policy_file under [oslo_policy], or write it: `{command}`")
    if not paths and not missing and (services or has_break_glass):
        rule = f'"{GRANT}:{services[0]}": "role:{services[0]}_user"' if services else f'"{BREAK_GLASS}": "role:admin"'
        who = "any member may grant every service" if services else "any admin may break the glass"
        message = f"policy.yaml is missing, so the defaults apply: {who}"
        yield PolicyProblem(message, None, f"write `{rule}` into policy.yaml beside heat.conf, or another rule", False)
    rules: dict[str, Any] = {}
    documents: dict[str, Document] = {}
    for path in paths:
        try:
            document = read_document(read_text(path), str(path), as_json=False)
        except InputError as error:
            [first, *_] = error.diagnostics
            message = f"the policy file is invalid: {first.message}"
            yield PolicyProblem(message, first.span, f"correct it: {PREVIOUS}")
            continue
        if not isinstance(document.data, dict | None):
            message = "the policy file is invalid: it holds no rules"
            yield PolicyProblem(
                message, document.place(()), 'write a line as `"datalog_gate:break_glass": "role:admin"`'
            )
            continue
        for name, text in (document.data or {}).items():
            rules[name], documents[name] = text, document
    checks = {name: policy.RuleDefault(str(name), text).check for name, text in rules.items() if _is_rule(text)}
    for name, text in rules.items():
        if name not in checks or (str(checks[name]) == "!" and text != "!"):
            message = f"the rule {name} is invalid, so nobody satisfies it: {text}"
            place = documents[name].place((name,))
            yield PolicyProblem(message, place, f'write a rule as `"{name}": "role:admin"`')
    known = own | rules.keys() | _heat_rules()
    for name, check in checks.items():
        yield from _check_names(name, check, documents[name], own, known, roles)
    yield from _check_circle(checks, documents)


def _find_files(conf: Any) -> tuple[list[Path], list[str]]:
    """The policy files, and the missing files that the configuration names."""
    file = policy.Enforcer(conf).policy_file
    path = conf.find_file(file)
    is_set = conf.get_location("policy_file", "oslo_policy").location.name == "user"
    paths = [Path(path)] if path else []
    for folder in filter(None, map(conf.find_file, conf.oslo_policy.policy_dirs)):
        paths += [path for path in list_files(Path(folder)) if path.parent == Path(folder) and path.name[0] != "."]
    return paths, [file] if is_set and not path else []


def _is_rule(text: object) -> bool:
    return isinstance(text, str | list)


def _heat_rules() -> set[str]:
    """The names of the rules that Heat's code defines."""
    for entry_point in entry_points(group="oslo.policy.policies", name="heat"):
        try:
            return {rule.name for rule in entry_point.load()()}
        except Exception:  # noqa: BLE001 - a Heat that does not load tells us nothing
            break
    return set(HEAT_RULES)


def _check_names(
    name: str,
    check: Any,
    document: Document,
    own: Set[str],
    known: Set[str],
    roles: Set[str] | None,
) -> Iterator[PolicyProblem]:
    """Check that the rule exists, and the rules and roles that it refers to."""
    place = document.key_place((name,))
    if name.startswith(OWN) and name not in own:
        service = name.removeprefix(f"{GRANT}:")
        near = closest(name, {rule for rule in own if service == name or rule.startswith(f"{GRANT}:")})
        fix = f"write {near} in place of {name}" if near else "remove it"
        if service == name:
            yield PolicyProblem(f"the gate has no rule {name}: it has no effect", place, fix)
        else:
            message = f"the rule {name} is for {service}, which is not an enabled service"
            has_others = len(own) > len(list_rules())  # otherwise it may be meant for later use
            yield PolicyProblem(message, place, f"{fix}, or add {service} to `services`", has_others)
    for kind, other in sorted(set(_references(check))):
        if kind == "rule" and other not in known and (name.startswith(OWN) or ":" not in other):
            near = closest(other, known)
            message = f"{name} refers to the rule {other}, which does not exist: nobody satisfies it"
            fix = f"write rule:{near} in place of rule:{other}" if near else f'write a rule "{other}"'
            yield PolicyProblem(message, place, fix)
        elif kind == "role" and "%" not in other:
            yield from _check_role(name, other, place, roles)


def _check_role(name: str, role: str, place: Span | None, roles: Set[str] | None) -> Iterator[PolicyProblem]:
    known = {known.lower() for known in (ROLES if roles is None else roles)}
    if role.lower() in known:
        return
    near = closest(role, known)
    fix = f"write role:{near} in place of role:{role}" if near else f"`openstack role create {role}`, or write another"
    if roles is not None:
        message = f"{name} requires the role {role}, which does not exist in Keystone: nobody satisfies it"
        yield PolicyProblem(message, place, fix)
    elif near:
        message = f"{name} requires the role {role}, and Keystone was not asked whether it exists"
        yield PolicyProblem(message, place, f"{fix} if that is meant", False)


def _references(check: Any) -> Iterator[tuple[str, str]]:
    """The rules and roles that a check refers to, with their kinds."""
    kind = getattr(check, "kind", None)
    if kind in ("rule", "role"):
        yield kind, check.match
    for part in (*getattr(check, "rules", ()), *filter(None, (getattr(check, "rule", None),))):
        yield from _references(part)


def _check_circle(checks: Mapping[str, Any], documents: Mapping[str, Document]) -> Iterator[PolicyProblem]:
    graph = {name: {other for kind, other in _references(check) if kind == "rule"} for name, check in checks.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        names = list(reversed(error.args[1]))
        message = f"these rules refer to each other in a circle: {' -> '.join(names)}"
        place = documents[names[0]].key_place((names[0],))
        yield PolicyProblem(message, place, f"let {names[0]} refer to a role")


def policy_paths(conf: Any) -> list[Path]:
    """The policy files of a host's configuration."""
    return [path for path in _find_files(conf)[0] if os.path.exists(path)]
