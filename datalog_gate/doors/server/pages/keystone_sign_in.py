"""Keystone tokens for people who sign in with a password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datalog_gate.base.errors import UsageError

PATIENCE = 10
"""Seconds to wait for Keystone."""


def fetch_token(conf: Any, given: Mapping[str, str]) -> str:
    """Fetch a token for a user and a project, or with system scope. Errors: UsageError."""
    from keystoneauth1.exceptions import ClientException, Unauthorized
    from keystoneauth1.identity.v3 import Password
    from keystoneauth1.session import Session

    options = conf.keystone_authtoken
    scope: dict[str, Any] = {"system_scope": "all"}
    if given["project"]:
        scope = {"project_name": given["project"], "project_domain_name": given["project_domain"] or "Default"}
    password = Password(
        options.www_authenticate_uri,
        username=given["username"],
        password=given["password"],
        user_domain_name=given["user_domain"] or "Default",
        **scope,
    )
    session = Session(password, verify=options.cafile or not options.insecure, timeout=PATIENCE)
    try:
        return str(session.get_token())
    except Unauthorized:
        raise UsageError("Keystone does not accept the name, password, domain and project") from None
    except ClientException:
        raise UsageError("Keystone can't be reached now") from None
