"""The same input for us and for Heat, with seeded parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from heat.common import template_format
from heatclient.common import template_utils

from datalog_gate.base.errors import InputError
from datalog_gate.files.templates import read_stack
from datalog_gate.stack.model import Stack
from tests.heat.comparison import Report, compare
from tests.heat.heat_side import SHAPES, resolve

template_utils.template_format.parse = template_format.parse  # the client's own drops a text's last line break
_TEXTS = (
    "seed",
    "10.0.0.0/24",
    "10.0.0.7",
    "seed.example.com",
    "Seed1234",
    "5",
    "true",
    "2001:db8::1",
    "Seed-1234!",
    "seed/",
    f"{'A' * 38}==",
)


class Request(NamedTuple):
    """What Heat's client sends of a template in files, with a value for each parameter."""

    body: dict[str, Any]
    files: dict[str, str]
    environment: dict[str, Any]
    filled: dict[str, Any]
    """The values of the parameters that had none."""


def send(template: Path, environments: list[Path]) -> Request:
    """What Heat's own client makes of a template in files."""
    files, body = template_utils.get_template_contents(template_file=str(template))
    more, environment = template_utils.process_multiple_environments_and_files(
        [str(environment) for environment in environments]
    )
    files = {name: text.decode() if isinstance(text, bytes) else text for name, text in {**files, **more}.items()}
    defaults = environment.get("parameter_defaults") or {}
    filled = fill(body, {**defaults, **(environment.get("parameters") or {})})
    nested = [_template(text) for text in files.values()]
    own = {
        name: parameter["default"]
        for part in (*nested, body)
        for name, parameter in _parameters(part).items()
        if "default" in parameter
    }
    for part in nested:  # what it nests may need values too; what is a default elsewhere suits best
        defaults = {name: own.get(name, value) for name, value in fill(part, defaults).items()} | defaults
    environment |= {"parameters": (environment.get("parameters") or {}) | filled, "parameter_defaults": defaults}
    return Request(body, files, environment, filled)


def compare_files(template: Path, environments: list[Path], root: Path) -> Report:
    """Both sides' answers for a template in files: ours reads them, Heat gets what its own client makes of them."""
    body, files, environment, filled = send(template, environments)
    data = {"parameters": filled, "parameter_defaults": environment["parameter_defaults"]}
    ours = ours_of(template, environments=environments, environment=data, files_root=root)
    return compare(ours, _heat(json.dumps(body), files, environment))


def _template(text: str) -> Mapping[str, Any]:
    try:
        parsed: dict[str, Any] = template_format.parse(text)
        return parsed
    except ValueError:
        return {}


def compare_body(text: str, environment: Mapping[str, Any], files: Mapping[str, str]) -> Report:
    """Both sides' answers for the parts of a request's body."""
    ours = ours_of(template=text, environment=environment, files=files)
    return compare(ours, _heat(text, files, environment))


def ours_of(*source: Path, **inputs: Any) -> Stack | list[str]:
    """What `read_stack` says: the stack, or the diagnostics in words."""
    try:
        return read_stack(*source, stack_name="web", **inputs)
    except InputError as error:
        return [f"{diagnostic.code}: {diagnostic.message}" for diagnostic in error.diagnostics]


def _heat(text: str, files: Mapping[str, str], environment: Mapping[str, Any]) -> Any:
    return {shape: resolve(text, files, environment, shape) for shape in SHAPES}


def fill(template: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A value for every parameter that has neither one nor a default, by its type and constraints."""
    return {
        name: _seed(name, definition)
        for name, definition in _parameters(template).items()
        if name not in values and "default" not in definition and "Default" not in definition
    }


def _parameters(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return template.get("parameters") or template.get("Parameters") or {}


def _seed(name: str, definition: Mapping[str, Any]) -> Any:
    limits: dict[str, Any] = {}
    for constraint in definition.get("constraints") or []:
        limits |= constraint
    allowed = limits.get("allowed_values") or definition.get("AllowedValues")
    pattern = limits.get("allowed_pattern") or definition.get("AllowedPattern") or ""
    length = limits.get("length") or {}
    if allowed:
        return allowed[0]
    match str(definition.get("type") or definition.get("Type")).lower():
        case "number":
            return (limits.get("range") or {}).get("min", definition.get("MinValue", 7))
        case "comma_delimited_list" | "commadelimitedlist":
            return ["one", f"{name}-two"]
        case "json":
            return {"seed": name, "list": [1, "two"]}
        case "boolean":
            return True
    least = int(length.get("min") or definition.get("MinLength") or 0)
    most = int(length.get("max") or definition.get("MaxLength") or 999)
    texts = [(text + "x" * (least - len(text)))[:most] for text in (f"{name}-seed", *_TEXTS)]
    return next((text for text in texts if re.match(pattern + r"\Z", text)), texts[0])
