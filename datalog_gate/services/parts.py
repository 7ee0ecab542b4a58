"""The read-only view of a stack that services get.

It is a deep, frozen copy: services can change neither the judged data nor the data of other services. It holds no
secrets. Values of hidden parameters, and values computed from them, are masked. Tokens of the caller are left out, and
so are the texts of template, environment and files, which may contain such values anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from datalog_gate.base.values import SECRET, ResourceId
from datalog_gate.stack.model import Data, Path, Stack

CALLER = (
    *("user_id", "project_id", "user_domain_id", "project_domain_id", "domain_id", "system_scope"),
    *("roles", "is_admin", "is_admin_project"),
)
"""The credentials of oslo.policy that a service sees. Heat's context also holds tokens and a password."""


@dataclass(frozen=True, slots=True)
class Part:
    """A resource of the stack or of a nested one. `id` is its path ``web/db``, `type` its type after registry mapping.
    Data is plain, with mappings and tuples for maps and lists, a `ResourceId` for a reference, an `Unknown` for an
    unknown value, and `SECRET` for a hidden one. `maybe` says that its condition is undecided, `open` that it is a
    group that may have more members than the parts show."""

    id: str
    type: str
    properties: Mapping[str, Data]
    metadata: Data
    requires: frozenset[str]
    maybe: bool
    open: bool


def view_credentials(credentials: Mapping[str, object]) -> Mapping[str, Data]:
    """The known members of `CALLER`."""
    return MappingProxyType({name: _frozen(credentials[name], _open, ()) for name in CALLER if name in credentials})


def view_parameters(stack: Stack) -> Mapping[str, Data]:
    """The parameters of the root, by name."""
    return MappingProxyType(
        {
            parameter.name: SECRET if parameter.hidden else _frozen(parameter.value, _open, ())
            for parameter in stack.parameters
        }
    )


def parts(stack: Stack, maybe: bool = False) -> Iterator[Part]:
    """The resources of the stack, each before those inside it."""
    for resource in stack.resources:
        hides = resource.hides if resource.hides((), True) else _open
        properties = _frozen(resource.properties, hides, ("properties",))
        yield Part(
            resource.id.path,
            resource.type,
            properties if isinstance(properties, Mapping) else MappingProxyType({}),
            _frozen(resource.metadata, hides, ("metadata",)),
            frozenset(resource.requires),
            maybe or resource.maybe is not None,
            resource.open_members is not None,
        )
        if resource.nested:
            yield from parts(resource.nested, maybe or resource.maybe is not None)


def _frozen(data: Data, hides: Callable[[Path, bool], bool], path: Path) -> Data:
    """A frozen copy, with values of a hidden parameter masked, item by item in maps and lists."""
    if hides(path, False):
        return SECRET
    match data:
        case ResourceId():
            return data
        case dict():
            return MappingProxyType({str(key): _frozen(value, hides, (*path, key)) for key, value in data.items()})
        case list() | tuple():
            return tuple(_frozen(value, hides, (*path, at)) for at, value in enumerate(data))
    return SECRET if hides(path, True) else data


def _open(_path: Path, _partly: bool) -> bool:
    """Nothing is hidden."""
    return False
