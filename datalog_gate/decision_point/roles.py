"""Who may use break-glass and grant services, by oslo.policy rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_policy import policy

from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.watched_files import WatchedFiles, read_states

BREAK_GLASS = "datalog_gate:break_glass"
GRANT = "datalog_gate:grant"
MEMBER = "role:member or role:manager or role:admin"


def list_rules() -> list[Any]:
    """The rules with their defaults, for the sample generator of oslo.policy.

    Each enabled service also has a rule ``datalog_gate:grant:SERVICE``, which defaults to ``datalog_gate:grant``.
    """
    return [
        policy.RuleDefault(
            BREAK_GLASS, "role:admin", "Let a refused request pass while the break-glass file is in force."
        ),
        policy.RuleDefault(GRANT, MEMBER, "Grant an opt-in service that has no rule of its own."),
    ]


def create_enforcer(conf: Any, services: Sequence[str], defaults: Sequence[Any] = ()) -> Any:
    """Create an enforcer with all rules loaded, which checks no files later, since threads share it. Errors:
    InputError."""
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults((*list_rules(), *defaults))
    for service in services:
        enforcer.register_default(policy.RuleDefault(f"{GRANT}:{service}", f"rule:{GRANT}"))
    try:
        enforcer.load_rules(force_reload=True)
    except cfg.NotInitializedError:  # the configuration is not read yet: the first check loads it
        return enforcer
    except (cfg.Error, OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError.of(f"{enforcer.policy_path or 'the policy file'} can't be read: {error}") from None
    enforcer.use_conf = False
    return enforcer


class Entitlements:
    """The rules of the host's policy files, checked against credentials that the host has verified. `defaults` are
    additional rules of a door. Errors on creation: InputError."""

    def __init__(self, conf: Any, services: Sequence[str], defaults: Sequence[Any] = ()) -> None:
        self._conf, self._defaults = conf, defaults
        self._services = tuple(services)
        self._policy_file = policy.Enforcer(conf).policy_file
        self.enforcers = WatchedFiles[Any](partial(read_states, self._paths), self._load)
        """The enforcer of the rules, with the policy files that it is loaded from."""

    def services(self, project: str, credentials: Mapping[str, object]) -> frozenset[str]:
        """The enabled services that the caller may grant."""
        return frozenset(
            service
            for service in self._services
            if self.allows(f"{GRANT}:{service}", {"project_id": project}, credentials)
        )

    def may_break_glass(self, project: str, credentials: Mapping[str, object]) -> bool:
        """Whether the break-glass file may lift a refusal for the caller."""
        return self.allows(BREAK_GLASS, {"project_id": project}, credentials)

    def allows(self, rule: str, target: Mapping[str, object], credentials: Mapping[str, object]) -> bool:
        """Whether a rule allows the caller this action on a target."""
        return bool(self.enforcers.value.authorize(rule, dict(target), dict(credentials)))

    def _load(self, before: Any) -> Any:
        if before and before.policy_path and not Path(before.policy_path).exists():
            raise InputError.of(f"{before.policy_path} is missing now")
        return create_enforcer(self._conf, self._services, self._defaults)

    def _paths(self) -> Iterator[Path]:
        names = (self._policy_file, *self._conf.oslo_policy.policy_dirs)
        with suppress(cfg.NotInitializedError):
            for path in map(Path, filter(None, map(self._conf.find_file, names))):
                yield path
                if path.is_dir():
                    yield from sorted(path.iterdir())
