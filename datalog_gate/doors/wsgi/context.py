"""The caller of a request, from Heat's request context.

A filter of Heat makes the context. It is verified if the authtoken filter of keystonemiddleware read a valid token
before the context was made. In the `noauth` and `custombackend` pipelines the context says what the headers of the
client say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datalog_gate.doors.wsgi.routes import Environ


def find_context(environ: Environ) -> Any:
    """Find Heat's RequestContext (heat/common/context.py), which webob keeps in the environ; None if there is none."""
    return environ.get("webob.adhoc_attrs", {}).get("context")


def read_credentials(environ: Environ, allow_unverified: bool) -> Mapping[str, object] | None:
    """Read the credentials for oslo.policy from the context; None if they are not verified.

    No client can write `keystone.token_info`, which authtoken sets only for a valid token, and a context that was made
    before does not hold the same object.
    """
    context, token = find_context(environ), environ.get("keystone.token_info")
    verified = bool(token) and getattr(context, "auth_token_info", None) is token
    if context is None or not (verified or allow_unverified):
        return None
    values = context.to_policy_values()
    return {name: values[name] for name in values if name not in ("auth_token_info", "user", "tenant")}


def find_project(environ: Environ, tenant: str) -> str:
    """Find the project that Heat works in: that of the context, else that of the path."""
    return getattr(find_context(environ), "project_id", None) or tenant
