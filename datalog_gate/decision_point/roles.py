"""Who may break glass and grant services, by rules of oslo.policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_policy import policy

BREAK_GLASS = "datalog_gate:break_glass"
GRANT = "datalog_gate:grant"
MEMBER = "role:member or role:manager or role:admin"


def list_rules() -> list[Any]:
    """The rules with their defaults, for the sample generator of oslo.policy.

    Each enabled service also has a rule ``datalog_gate:grant:SERVICE``, which defaults to ``datalog_gate:grant``.
    """
    return [
        policy.RuleDefault(
            BREAK_GLASS, "role:admin", "Have a refused request pass while the operator has broken the glass."
        ),
        policy.RuleDefault(GRANT, MEMBER, "Grant an opt-in service that has no rule of its own."),
    ]


class Entitlements:
    """The rules of the host's policy file, checked against credentials that the host has verified."""

    def __init__(self, conf: Any, services: Sequence[str]) -> None:
        self._enforcer = policy.Enforcer(conf)
        self._enforcer.register_defaults(list_rules())
        self._services = tuple(services)
        for service in services:
            self._enforcer.register_default(policy.RuleDefault(f"{GRANT}:{service}", f"rule:{GRANT}"))

    def services(self, project: str, credentials: Mapping[str, object]) -> frozenset[str]:
        """The enabled services that the caller may grant."""
        return frozenset(
            service for service in self._services if self._allows(f"{GRANT}:{service}", project, credentials)
        )

    def may_break_glass(self, project: str, credentials: Mapping[str, object]) -> bool:
        """Whether the break-glass file may lift a refusal for the caller."""
        return self._allows(BREAK_GLASS, project, credentials)

    def _allows(self, rule: str, project: str, credentials: Mapping[str, object]) -> bool:
        return bool(self._enforcer.authorize(rule, {"project_id": project}, dict(credentials)))
