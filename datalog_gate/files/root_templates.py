"""The templates, or the stack in Heat, that options name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from datalog_gate.analysis.policy import CHANGING
from datalog_gate.base.diagnostics import Diagnostic, Severity
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.base.records import replace
from datalog_gate.files.check_options import LIVE_PREFIX, rebase_path
from datalog_gate.files.configuration import Configuration
from datalog_gate.files.discovery import check_folder, discover_templates
from datalog_gate.files.downloads import create_downloader
from datalog_gate.files.templates import StackInputs, read_before, read_stack, read_text, resolve, root_name
from datalog_gate.files.tolerated_findings import find_further_refusals
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


def find_roots(paths: Sequence[str], configuration: Configuration) -> list[RootTemplate]:
    """Find the templates at the paths, including those in folders, then the modules. Names are unique if they are
    judged together. Errors: UsageError; InputError if standard input is a template and can't be read."""
    named = paths or configuration.given.keys() & {"stack", "module"}
    listed = _find_named(paths) if named else _find_configured(configuration)
    templates = [*listed, *((*module, None) for module in configuration.value("module"))]
    _check_against(configuration, len(templates))
    if stacks := configuration.value("stack"):
        more = any(configuration.value(name) for name in ("environment", "parameter", "assume", "files-root"))
        if templates or more or stacks[1:]:
            raise UsageError(
                "check takes one --stack, and then no template, environment, parameter, assumption or file"
            )
        return [RootTemplate(stacks[0], (), configuration.value("stack-name"))]
    if not templates:
        raise UsageError("check takes a TEMPLATE, a --module or a --stack, or templates of a datalog-gate.toml")
    names = _name_stacks([template for template, *_ in templates], configuration)
    several = len(templates) > 1 and not configuration.value("together")
    unsaved = {resolve(STANDARD_INPUT): read_text(STANDARD_INPUT, sys.stdin.buffer)} if STANDARD_INPUT in paths else {}
    roots = [
        RootTemplate(
            template=template,
            environments=environments,
            name=name,
            assumptions=_assumptions(configuration.value("assume"), {*names} - {name}),
            files_root=root,
            may_be_empty=several and root is not None,
            unsaved=unsaved,
        )
        for (template, environments, root), name in zip(templates, names, strict=True)
    ]
    return [_configure(root, configuration) for root in roots]


def _check_against(configuration: Configuration, number: int) -> None:
    """Check that an older stack, if one is given, fits this number of templates. Errors: UsageError."""
    action = configuration.value("action")
    if configuration.value("against") and (configuration.value("stack") or number != 1):
        raise UsageError("check takes --against with one TEMPLATE")
    if configuration.value("against") and action not in (None, *CHANGING):
        raise UsageError(f"check takes --against with the actions {' and '.join(CHANGING)}, not {action}")


def _name_stacks(templates: Sequence[str], configuration: Configuration) -> list[str]:
    """The names of the stacks of templates, which are unique if they are judged together."""
    names: list[str] = []
    given, together = configuration.value("stack-name"), configuration.value("together")
    for template in templates:
        stem = given or ("stack" if template == STANDARD_INPUT else root_name(Path(template)))
        candidates = chain([stem], (f"{stem}-{number}" for number in count(2)))
        names.append(next(name for name in candidates if not together or name not in names))
    return names


def _configure(root: RootTemplate, configuration: Configuration) -> RootTemplate:
    """The template with its configuration in the project, unless options override it."""
    entry = configuration.entry_of(root.template)
    if entry is None or configuration.file is None:
        return root
    given = configuration.given
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


def _assumptions(assumptions: Sequence[str], others: Collection[str]) -> list[str]:
    """The assumptions for a root: all except those about the stack of another root."""
    return [
        text for text in assumptions if not any(f" in {other}{end}" in text for other in others for end in ("=", "/"))
    ]


def read_versions(
    roots: Sequence[RootTemplate],
    configuration: Configuration,
    catalogue: Catalogue,
    read_live: Callable[[str, str | None, Catalogue], Stack],
) -> tuple[list[Stack], tuple[Stack, ...]]:
    """Read the stacks of all roots, and the older version that `--against` names. `read_live` reads a stack in Heat.
    Errors: InputError with the diagnostics of all of them."""
    against, root = configuration.value("against") or "", roots[0]
    if configuration.value("stack"):
        return [read_live(root.template, root.name, catalogue)], ()
    stacks = _read_roots(roots, configuration, catalogue)
    if against.startswith(LIVE_PREFIX):
        return stacks, (read_live(against.removeprefix(LIVE_PREFIX), root.name, catalogue),)
    if not against:
        return stacks, ()
    return stacks, (read_before(Path(against), Path(root.template), **_inputs(root, configuration, catalogue)),)


def _read_roots(roots: Sequence[RootTemplate], configuration: Configuration, catalogue: Catalogue) -> list[Stack]:
    """Read the stacks of all roots. Errors: InputError with the diagnostics of all of them."""
    stacks: list[Stack] = []
    diagnostics: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for root in roots:
        try:
            stacks.append(read_root(root, configuration, catalogue))
        except InputError as error:
            diagnostics += [*error.diagnostics, *find_further_refusals(error, configuration, catalogue)]
            sources |= error.sources
    if diagnostics:
        for stack in stacks:
            diagnostics += stack.warnings
            sources |= stack.sources
        raise InputError(diagnostics, sources)
    return stacks


def read_root(root: RootTemplate, configuration: Configuration, catalogue: Catalogue) -> Stack:
    """Read the stack of a root. One without resources has an error among its warnings; a warning if it may be empty.
    Errors: InputError."""
    check_folder(Path(root.template))
    stack = read_stack(Path(root.template), **_inputs(root, configuration, catalogue))
    if not any(nested.resources for nested in stack.walk()):
        message = (
            f"{root.template} leaves nothing to judge: it has no resource, or its conditions switch all of them off"
        )
        severity: Severity = "warning" if root.may_be_empty else "error"
        empty = Diagnostic("no-resources", message, stack.place, severity=severity)
        stack = replace(stack, warnings=(*stack.warnings, empty))
    return stack


def _inputs(root: RootTemplate, configuration: Configuration, catalogue: Catalogue) -> StackInputs:
    return {
        "environments": (*configuration.value("environment"), *root.environments),
        "parameters": {**dict(configuration.value("parameter")), **root.parameters},
        "assume": root.assumptions,
        "files_root": configuration.value("files-root") or root.files_root,
        "stack_name": root.name,
        "catalogue": catalogue,
        "unsaved": root.unsaved,
        "urls": UrlSources(configuration.sources, create_downloader() if configuration.value("fetch") else None),
    }
