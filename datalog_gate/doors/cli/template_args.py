"""The templates, or the stack in Heat, that command options name."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from datalog_gate.analysis.policy import CHANGING
from datalog_gate.base.diagnostics import Diagnostic, Severity
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.base.records import replace
from datalog_gate.doors.cli.downloads import create_downloader
from datalog_gate.doors.cli.tolerance import find_further_refusals
from datalog_gate.files.check_options import LIVE_PREFIX, rebase_path
from datalog_gate.files.configuration import Configuration
from datalog_gate.files.discovery import check_folder, discover_templates
from datalog_gate.files.templates import StackInputs, read_before, read_stack, read_text, resolve, root_name
from datalog_gate.files.url_sources import UrlSources
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Data, Stack

STANDARD_INPUT = "-"


class RootTemplate(NamedTuple):
    """A template to read as a root stack."""

    template: str
    """The path, or for `--stack` the name of a stack in Heat."""
    environments: tuple[str, ...]
    """Its own environments, which override the common ones."""
    name: str | None
    """The name of the stack; None to use its name in Heat."""
    assumptions: Sequence[str] = ()
    files_root: str | None = None
    """The folder in which the template was discovered."""
    may_be_empty: bool = False
    """Whether it was found in a folder with others and is judged by itself."""
    parameters: Mapping[str, Data] = {}
    """Its own parameters, which override the common ones."""
    unsaved: Mapping[Path, str] = {}
    """The text of standard input, if that is a template."""


def find_roots(options: argparse.Namespace) -> list[RootTemplate]:
    """Find the templates, including those in folders, then the modules. Names are unique if they are judged together.
    Errors: UsageError; InputError if standard input is a template and can't be read."""
    configuration, given = options.configuration, options.given
    named = options.template or given & {"stack", "module"}
    listed = _find_named(options.template) if named else _find_configured(configuration)
    templates = [*listed, *((*module, None) for module in options.module)]
    if options.against and (options.stack or len(templates) != 1):
        raise UsageError("check takes --against with one TEMPLATE")
    if options.against and options.action not in (None, *CHANGING):
        raise UsageError(f"check takes --against with the actions {' and '.join(CHANGING)}, not {options.action}")
    if options.stack:
        more = options.environment or options.parameter or options.assume or options.files_root
        if templates or more or options.stack[1:]:
            raise UsageError(
                "check takes one --stack, and then no template, environment, parameter, assumption or file"
            )
        return [RootTemplate(options.stack[0], (), options.stack_name)]
    if not templates:
        raise UsageError("check takes a TEMPLATE, a --module or a --stack, or templates of a datalog-gate.toml")
    names = _name_stacks([template for template, *_ in templates], options)
    several = len(templates) > 1 and not options.together
    sent = STANDARD_INPUT in options.template
    unsaved = {resolve(STANDARD_INPUT): read_text(STANDARD_INPUT, sys.stdin.buffer)} if sent else {}
    roots = [
        RootTemplate(
            template=template,
            environments=environments,
            name=name,
            assumptions=_assumptions(options.assume, {*names} - {name}),
            files_root=root,
            may_be_empty=several and root is not None,
            unsaved=unsaved,
        )
        for (template, environments, root), name in zip(templates, names, strict=True)
    ]
    return [_configure(root, configuration, given) for root in roots]


def _name_stacks(templates: Sequence[str], options: argparse.Namespace) -> list[str]:
    """The names of the stacks of templates, which are unique if they are judged together."""
    names: list[str] = []
    for template in templates:
        stem = options.stack_name or ("stack" if template == STANDARD_INPUT else root_name(Path(template)))
        candidates = chain([stem], (f"{stem}-{number}" for number in count(2)))
        names.append(next(name for name in candidates if not options.together or name not in names))
    return names


def _configure(root: RootTemplate, configuration: Configuration, given: Set[str]) -> RootTemplate:
    """The template with its configuration in the project, unless options override it."""
    entry = configuration.entry_of(root.template)
    if entry is None or configuration.file is None:
        return root
    return root._replace(
        environments=root.environments if "environment" in given else (*root.environments, *entry.environments),
        parameters={} if "parameter" in given else entry.parameters,
        files_root=rebase_path("", configuration.file.parent),
    )


def _find_configured(configuration: Configuration) -> Iterator[tuple[str, tuple[str, ...], str | None]]:
    for template in configuration.find_templates():
        root = os.path.dirname(template.path) if template.files else None
        yield template.source, template.environments, root


def _find_named(paths: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...], str | None]]:
    """The path of each template, with its environments and the folder it was discovered in, once. Folders without
    templates and unreadable paths are returned unchanged, and reported when they are read."""
    known = {os.path.abspath(path) for path in paths if not os.path.isdir(path)}
    for path in paths:
        if not os.path.isdir(path):
            yield path, (), None
            continue
        discovery = discover_templates(Path(path))
        for template in discovery.templates:
            if (place := os.path.abspath(template.path)) not in known:
                known.add(place)
                yield template.source, template.environments, path
        yield from ((str(unread), (), None) for unread in discovery.unreadable)
        if not discovery.templates and not discovery.unreadable:
            yield path, (), None


def _assumptions(assumptions: Sequence[str], others: Set[str]) -> list[str]:
    """The assumptions for a root: all except those about the stack of another root."""
    return [
        text for text in assumptions if not any(f" in {other}{end}" in text for other in others for end in ("=", "/"))
    ]


def read_stacks(roots: Sequence[RootTemplate], options: argparse.Namespace, catalogue: Catalogue) -> list[Stack]:
    """Read the stacks of all roots. Errors: InputError with the diagnostics of all of them."""
    stacks: list[Stack] = []
    diagnostics: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for root in roots:
        try:
            stacks.append(read_root(root, options, catalogue))
        except InputError as error:
            diagnostics += [*error.diagnostics, *find_further_refusals(error, options, catalogue)]
            sources |= error.sources
    if diagnostics:
        for stack in stacks:
            diagnostics += stack.warnings
            sources |= stack.sources
        raise InputError(diagnostics, sources)
    return stacks


def read_root(root: RootTemplate, options: argparse.Namespace, catalogue: Catalogue) -> Stack:
    """Read the stack of a root. One without resources has an error among its warnings; a warning if it may be empty.
    Errors: InputError."""
    if options.stack:
        from datalog_gate.doors.cli.heat_client import read_live

        return read_live(root.template, root.name, catalogue)
    check_folder(Path(root.template))
    stack = read_stack(Path(root.template), **_inputs(root, options, catalogue))
    if not any(nested.resources for nested in stack.walk()):
        message = (
            f"{root.template} leaves nothing to judge: it has no resource, or its conditions switch all of them off"
        )
        severity: Severity = "warning" if root.may_be_empty else "error"
        empty = Diagnostic("no-resources", message, stack.place, severity=severity)
        stack = replace(stack, warnings=(*stack.warnings, empty))
    return stack


def read_old_stack(root: RootTemplate, options: argparse.Namespace, catalogue: Catalogue) -> tuple[Stack, ...]:
    """Read the older version of a root's stack, under the same name, if `--against` names one. Errors: InputError."""
    if not options.against:
        return ()
    if options.against.startswith(LIVE_PREFIX):
        from datalog_gate.doors.cli.heat_client import read_live

        return (read_live(options.against.removeprefix(LIVE_PREFIX), root.name, catalogue),)
    return (read_before(Path(options.against), Path(root.template), **_inputs(root, options, catalogue)),)


def _inputs(root: RootTemplate, options: argparse.Namespace, catalogue: Catalogue) -> StackInputs:
    return {
        "environments": (*options.environment, *root.environments),
        "parameters": {**dict(options.parameter), **root.parameters},
        "assume": root.assumptions,
        "files_root": options.files_root or root.files_root,
        "stack_name": root.name,
        "catalogue": catalogue,
        "unsaved": root.unsaved,
        "urls": UrlSources(options.configuration.sources, create_downloader() if options.fetch else None),
    }


def read_caller_file(path: str | None) -> tuple[dict[str, object] | None, InputError | None]:
    """Read and check the caller. An error is returned, since errors in rules are reported first."""
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
