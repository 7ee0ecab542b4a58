"""Compares the catalogue of rules with the Heat that is installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from datalog_gate.base.diagnostics import Span
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor import CheckResult
from datalog_gate.files.templates import read_catalogue
from datalog_gate.schema.resource_types import HEATS, NEWEST


def check_catalogue(settings: Settings, place: Span) -> Iterator[CheckResult]:
    """Compare the catalogue with the installed Heat. Errors: InputError."""
    try:
        installed = version("openstack-heat")
    except PackageNotFoundError:
        return
    release = installed.partition(".")[0]
    if release == NEWEST or not read_catalogue(*settings.catalogue).is_shipped:
        return
    message = f"Heat {installed} is installed here, and rules know the resource types of Heat {HEATS[NEWEST]}"
    advice = "give authors of templates its types for check --catalogue, as docs/catalogue.md shows"
    if release in HEATS:
        advice = f'check templates with --heat {release}, or `heat = "{release}"` in the configuration of projects'
    yield CheckResult("note", "catalogue", message, place, advice)
