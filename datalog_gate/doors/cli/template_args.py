"""The templates, or the live stack, that a command line names, and their stacks (layer 6).

In: the options of a command. Out: its roots, which are read one by one or all together.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from datalog_gate.analysis.policy import CHANGING
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.files.templates import read_before, read_stack, root_name
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Data, Stack

LIVE = "stack:"
"""How an older state is named that Heat holds."""


class Root(NamedTuple):
    """A template to read as a root: with environments of its own, and the stack's name if it is not the usual one. One
    that is `live` is the name of a stack in Heat."""

    template: str
    environments: tuple[str, ...]
    name: str | None
    live: bool = False


def roots(options: argparse.Namespace) -> list[Root]:
    """The templates, then the modules. Of those that are judged together no two have one name: the second `web` is
    `web-2`."""
    given = [*((template, ()) for template in options.template), *options.module]
    if options.against and (options.stack or len(given) != 1):
        raise UsageError("check takes --against with one TEMPLATE")
    if options.against and options.action not in (None, *CHANGING):
        raise UsageError(f"check takes --against with the actions {' and '.join(CHANGING)}, not {options.action}")
    if options.stack:
        more = options.environment or options.parameter or options.assume or options.files_root
        if given or more or options.stack[1:]:
            raise UsageError(
                "check takes one --stack, and then no template, environment, parameter, assumption or file"
            )
        return [Root(options.stack[0], (), options.stack_name, live=True)]
    if not given:
        raise UsageError("check takes a TEMPLATE, a --module or a --stack")
    named: list[Root] = []
    for template, environments in given:
        name = options.stack_name
        if options.together:
            stem = name or root_name(Path(template))
            taken = {root.name for root in named}
            name = next(one for at in count(1) if (one := stem if at == 1 else f"{stem}-{at}") not in taken)
        named.append(Root(template, environments, name))
    return named


def read_all(roots: Sequence[Root], options: argparse.Namespace, catalogue: Catalogue) -> list[Stack]:
    """The stacks of all roots. Errors: InputError with what is wrong with any."""
    stacks: list[Stack] = []
    found: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for root in roots:
        try:
            stacks.append(read(root, options, catalogue))
        except InputError as error:
            found += error.diagnostics
            sources |= error.sources
    if found:
        raise InputError(found, sources)
    return stacks


def read(root: Root, options: argparse.Namespace, catalogue: Catalogue) -> Stack:
    """The stack of a root, which has a resource. Errors: InputError."""
    if root.live:
        from datalog_gate.doors.cli.heat_client import read_live

        return read_live(root.template, root.name, catalogue)
    stack = read_stack(
        Path(root.template),
        environments=(*options.environment, *root.environments),
        parameters=dict(options.parameter),
        files_root=options.files_root,
        stack_name=root.name,
        assume=_assumed(root, options),
        catalogue=catalogue,
    )
    if not any(one.resources for one in stack.walk()):
        message = (
            f"{root.template} leaves nothing to judge: it has no resource, or its conditions switch all of them off"
        )
        raise InputError([Diagnostic("no-resources", message, stack.place)], stack.sources)
    return stack


def _assumed(root: Root, options: argparse.Namespace) -> dict[str, Data]:
    """What is assumed of the root: all but what names the stack of another. Errors: InputError."""
    from datalog_gate.template.document import read_document

    own = root.name or root_name(Path(root.template))
    others = {root.name or root_name(Path(root.template)) for root in roots(options)} - {own}
    return {
        expression: read_document(text, "--assume").data if text else None
        for expression, text in options.assume
        if expression.rpartition(" in ")[2].partition("/")[0] not in others
    }


def read_older(root: Root, options: argparse.Namespace, catalogue: Catalogue) -> tuple[Stack, ...]:
    """The stack of a root as it was, if the command line says what that is: a template, or a stack in Heat. It has the
    root's name, and what is assumed of a scalar holds for it too where it uses that. Errors: InputError."""
    if not options.against:
        return ()
    name = root.name or root_name(Path(root.template))
    if options.against.startswith(LIVE):
        from datalog_gate.doors.cli.heat_client import read_live

        return (read_live(options.against.removeprefix(LIVE), name, catalogue),)
    scalars = {text: value for text, value in _assumed(root, options).items() if not isinstance(value, dict | list)}
    stack = read_before(
        Path(options.against),
        Path(root.template),
        environments=(*options.environment, *root.environments),
        parameters=dict(options.parameter),
        assume=scalars,
        files_root=options.files_root,
        stack_name=name,
        catalogue=catalogue,
    )
    return (stack,)


def caller_in(path: str | None) -> tuple[dict[str, object] | None, InputError | None]:
    """Who asks, checked before anything else is read; or that the file can't be read, which bad rules outweigh."""
    from datalog_gate.decision.request import read_caller
    from datalog_gate.files.templates import read_json

    if path is None:
        return None, None
    try:
        caller = read_json(Path(path))
    except InputError as error:
        return None, error
    if not isinstance(caller, dict):
        raise UsageError(f'{path} holds no object: write {{"user": ..., "roles": [...]}}')
    read_caller(caller)
    return caller, None
