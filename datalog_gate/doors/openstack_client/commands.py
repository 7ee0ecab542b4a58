"""The commands of `openstack gate`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cliff.columns import FormattableColumn
from osc_lib.cli.format_columns import DictColumn, ListColumn, ListDictColumn
from osc_lib.command import command

from datalog_gate.base.errors import UsageError
from datalog_gate.doors.openstack_client import gate_client

EXITS = {"deny": 1, "indeterminate": 4}
"""The exit codes of outcomes, as in `datalog-gate check`."""
Columns = tuple[Sequence[str], Sequence[Any]]


class FindingsColumn(FormattableColumn):  # type: ignore[misc, unused-ignore]
    """Findings: one line each for people, complete for programs."""

    def human_readable(self) -> str:
        return "\n".join(map(_format_finding, self._value))

    def machine_readable(self) -> Any:
        return self._value


def _format_finding(finding: Mapping[str, Any]) -> str:
    place = finding.get("place") or {}
    where = f"{place['line']}:{place['column']}: " if place.get("line") else ""
    hint = f" ({finding['hint']})" if finding.get("hint") else ""
    return f"{where}{finding['level']}[{finding['policy']}] {finding['message']}{hint}"


class _Show(command.ShowOne):  # type: ignore[misc, unused-ignore]
    """Shows an object with an id."""

    kind: str

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("id", metavar="<id>", help="its id")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return _list_columns(gate_client.show(self.app.client_manager.gate, self.kind, parsed_args.id))


class _List(command.Lister):  # type: ignore[misc, unused-ignore]
    """Lists objects, with filters."""

    kind: str
    columns: tuple[str, ...]
    filters: tuple[tuple[str, str], ...]
    """The parameters, each with the help of its option."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        for name, text in self.filters:
            parser.add_argument(f"--{name}", metavar=f"<{name}>", help=text)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        filters = {name: getattr(parsed_args, name) for name, _ in self.filters}
        entries = gate_client.walk(self.app.client_manager.gate, self.kind, **filters)
        return self.columns, [[_make_cell(name, entry.get(name)) for name in self.columns] for entry in entries]


class Check(command.ShowOne):  # type: ignore[misc, unused-ignore]
    """Judge a stack before it is built; exit 1 if it is denied, 4 if it is not decided

    The template is read with its files and environments as `openstack stack create` reads them.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("template", metavar="<template>", help="path of the template")
        parser.add_argument("-e", "--environment", metavar="<file>", action="append", help="may be repeated")
        parser.add_argument("-P", "--parameter", metavar="<key=value>", action="append", help="may be repeated")
        parser.add_argument("--stack-name", metavar="<name>", help="by default the name of the file")
        parser.add_argument("--action", metavar="<action>", help="by default update with --against, else create")
        parser.add_argument(
            "--against", metavar="<template>", help="the template before; its environments and parameters are the same"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        template, files = read_template(parsed_args.template)
        environment_files, environment = read_environments(parsed_args.environment)
        parameters = dict(map(_split_pair, parsed_args.parameter or ()))
        against = None
        if parsed_args.against:
            before, before_files = read_template(parsed_args.against)
            against = {"template": before, "files": before_files | environment_files}
            against |= {"environment": environment, "parameters": parameters}
        decision = gate_client.judge(
            self.app.client_manager.gate,
            template,
            files=files | environment_files,
            environment=environment,
            parameters=parameters,
            stack_name=parsed_args.stack_name or Path(parsed_args.template).stem,
            action=parsed_args.action,
            against=against,
        )
        self.outcome = decision["outcome"]
        return _list_columns(decision)

    def run(self, parsed_args: argparse.Namespace) -> int:
        code = super().run(parsed_args)
        return code or EXITS.get(self.outcome, 0)


def read_template(path: str) -> tuple[Any, dict[str, str]]:
    """The template and its files. It is text unless files must be renamed in it, so that findings have lines."""
    from heatclient.common import template_format, template_utils

    files, template = template_utils.process_template_path(path)
    if "://" not in path:
        text = Path(path).read_text("utf-8")
        if template_format.parse(text) == template:
            return text, _decode(files)
    return template, _decode(files)


def read_environments(paths: Sequence[str] | None) -> tuple[dict[str, str], dict[str, Any] | None]:
    """The files that environments name, and the environments merged into one."""
    from heatclient.common import template_utils

    files, environment = template_utils.process_multiple_environments_and_files(paths or ())
    return _decode(files), environment or None


def _decode(files: Mapping[str, str | bytes]) -> dict[str, str]:
    """Files as texts. heatclient reads bytes; those that are not UTF-8 become base64."""
    return {name: text if isinstance(text, str) else text.decode() for name, text in files.items()}


class DecisionShow(_Show):
    """Show a decision of the server"""

    kind = "decisions"


class PolicyList(_List):
    """List the policies in force"""

    kind, columns = "policies", ("id", "level", "mode", "on", "message")
    filters = (("level", "deny, warn or record"),)


class PolicyShow(_Show):
    """Show a policy"""

    kind = "policies"


class FindingList(_List):
    """List the findings of the last scan"""

    kind, columns = "findings", ("policy", "root", "level", "state", "message", "project", "first_seen", "resolved_at")
    filters = (
        ("policy", "only those of this policy"),
        ("project", "only those of this project, by id"),
        ("stack", "only those of the stack with this root"),
        ("since", "only those first seen at this time, in ISO 8601, or later"),
        ("state", "open, as by default, or all"),
    )


class ScanList(_List):
    """List the stacks of the last scan"""

    kind, columns = "stacks", ("root", "name", "project", "outcome", "findings", "decision")
    filters = (("project", "only those of this project, by id"), ("outcome", "only those with this outcome"))


class ScanShow(_Show):
    """Show a stack of the last scan with its open findings"""

    kind = "stacks"


class ApprovalList(_List):
    """List requests for approval"""

    kind, columns = "approvals", ("id", "state", "project", "stack_name", "grant", "asked", "until")
    filters = (("state", "awaiting, approved, refused, used, superseded or expired"), ("project", "by id"))


class ApprovalShow(_Show):
    """Show a request for approval"""

    kind = "approvals"


class ApprovalApprove(_Show):
    """Approve a request of a grant"""

    verdict = "approved"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--why", metavar="<text>", default="", help="the reason, which the user reads")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        gate = self.app.client_manager.gate
        return _list_columns(gate_client.answer_approval(gate, parsed_args.id, self.verdict, parsed_args.why))


class ApprovalRefuse(ApprovalApprove):
    """Refuse a request of a grant"""

    verdict = "refused"


class WaiverList(_List):
    """List the waivers"""

    kind, columns = "waivers", ("id", "policy", "project", "subject", "expires", "in_force", "owner", "reason")
    filters = (("project", "only those of this project, by id"),)


class WaiverShow(_Show):
    """Show a waiver"""

    kind = "waivers"


class WaiverCreate(command.ShowOne):  # type: ignore[misc, unused-ignore]
    """Waive what a policy finds until a day"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("policy", metavar="<policy>", help="id of the policy")
        parser.add_argument("--reason", metavar="<text>", required=True, help="why it is waived")
        parser.add_argument(
            "--expires", metavar="<day>", required=True, help="the first day on which it no longer holds, in ISO 8601"
        )
        parser.add_argument("--project", metavar="<id>", help="whose stacks it is for")
        parser.add_argument("--subject", metavar="<resource>", help="the resource that it is for")
        parser.add_argument("--key", metavar="<column=value>", action="append", help="may be repeated; JSON, or a text")
        parser.add_argument("--owner", metavar="<name>", help="the person responsible; by default the one who gives it")
        parser.add_argument("--ticket", metavar="<text>", help="where it was agreed")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        names = "policy", "reason", "expires", "project", "subject", "owner", "ticket"
        entry = {name: getattr(parsed_args, name) for name in names}
        key = {name: _parse_value(text) for name, text in map(_split_pair, parsed_args.key or ())}
        return _list_columns(gate_client.create_waiver(self.app.client_manager.gate, **entry, key=key or None))


class WaiverDelete(_Show):
    """End a waiver that was given at the server"""

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return _list_columns(gate_client.delete_waiver(self.app.client_manager.gate, parsed_args.id))


def _list_columns(entry: Mapping[str, Any]) -> Columns:
    return tuple(entry), tuple(_make_cell(name, value) for name, value in entry.items())


def _make_cell(name: str, value: Any) -> Any:
    if name in ("violations", "undetermined", "waived", "open"):
        return FindingsColumn(value)
    if isinstance(value, dict):
        return DictColumn(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ListColumn(value)
    return ListDictColumn(value) if isinstance(value, list) else value


def _split_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{text} is not KEY=VALUE")
    return name, value


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
