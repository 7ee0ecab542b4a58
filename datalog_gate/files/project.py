"""A project, whose configuration says how templates are judged."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datalog_gate.base.records import dataclass
from datalog_gate.decision.policy_set import RuleFile
from datalog_gate.files.baseline import Baseline, read_baseline
from datalog_gate.files.check_options import LIVE_PREFIX
from datalog_gate.files.configuration import Configuration, load_configuration
from datalog_gate.files.discovery import FOLDER_ENVIRONMENT, FOLDER_TEMPLATE, environments_of
from datalog_gate.files.rules import default_rules, read_rules
from datalog_gate.files.templates import read_before, read_catalogue, read_json, read_stack, resolve
from datalog_gate.files.url_sources import UrlSources
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Stack


@dataclass(frozen=True, slots=True)
class Project:
    """The configuration for a folder with files that it names."""

    configuration: Configuration
    catalogue: Catalogue
    rules: tuple[Path, ...]
    """Folders and files of the rules that judge templates, and names of packs."""
    baseline: Baseline | None
    caller: Mapping[str, object] | None

    def value(self, name: str) -> Any:
        """The value of an option of `check`."""
        return self.configuration.value(name)

    @property
    def heat_types(self) -> Catalogue:
        """The resource types of the Heat that templates are written for."""
        return self.catalogue.of_heat(self.value("heat"))

    def read(self, path: Path, template: Path, unsaved: Mapping[Path, str]) -> Stack:
        """Read the stack of the template at a path, which the configuration may know as another `template`, with the
        texts of an editor. Errors: InputError."""
        return read_stack(path, unsaved=unsaved, **self._inputs(template))

    def read_before(self, path: Path, template: Path, stack: Stack) -> tuple[Stack, ...]:
        """Read the stack before an update, if the configuration names a file. No cloud is queried. Errors:
        InputError."""
        old = self.value("against")
        if not old or old.startswith(LIVE_PREFIX):
            return ()
        return (read_before(Path(old), path, **{**self._inputs(template), "stack_name": stack.name}),)

    def _inputs(self, template: Path) -> dict[str, Any]:
        """The inputs for reading a template, as arguments of `read_stack`."""
        entry = self.configuration.entry_of(template)
        file = self.configuration.file
        beside = environments_of(str(template))
        folders = [path for path in beside if os.path.basename(path) == FOLDER_ENVIRONMENT]
        named = [] if self.configuration.names(template) else [path for path in beside if path not in folders]
        own = entry.environments if entry else ()
        own_name = template.parent.name if template.name == FOLDER_TEMPLATE else template.stem
        return {
            "environments": [resolve(Path(path)) for path in (*folders, *self.value("environment"), *named, *own)],
            "parameters": {**dict(self.value("parameter")), **(entry.parameters if entry else {})},
            "assume": self.value("assume"),
            "files_root": self.value("files-root") or (file.parent if entry and file else None),
            "stack_name": self.value("stack-name") or own_name,
            "catalogue": self.catalogue,
            "urls": UrlSources(self.configuration.sources),
        }

    def request(self) -> dict[str, Any]:
        """The inputs for judging a template, as arguments of `check`, without the inventory."""
        names = ("services", "now", "mode")
        return {name: self.value(name) for name in names} | {
            "caller": self.caller,
            "waivers": self.value("waivers") or (),
        }

    def read_rules(self) -> list[RuleFile]:
        """Read the rules on disk. Errors: RulesError."""
        return read_rules(self.rules, self.value("congress"))


def load_project(root: Path) -> Project:
    """Load the project of a folder. Errors: InputError, also for a file that the configuration names."""
    configuration = load_configuration(root)
    local = root / "rules"
    named = [Path(path) for path in configuration.value("rules")] or [local if local.is_dir() else default_rules()]
    paths = [resolve(path) if path.exists() else path for path in named]  # others are names of packs
    caller = configuration.value("caller")
    baseline = configuration.value("baseline")
    data = read_json(Path(caller)) if caller else None
    return Project(
        configuration=configuration,
        catalogue=read_catalogue(*configuration.value("catalogue")),
        rules=tuple(paths),
        baseline=read_baseline(baseline) if baseline else None,
        caller=data if isinstance(data, dict) else None,
    )
