"""Who asks (layer 6): the context that Heat's own filter made of a request, and whether anybody vouches for it.

In: the WSGI environ. Out: the values that oslo.policy compares. A context is verified if keystonemiddleware's authtoken
read a valid token before the context was made of it: in the `noauth` and `custombackend` pipelines the context says
what the client's own headers say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datalog_gate.doors.wsgi.routes import Environ


def context_of(environ: Environ) -> Any:
    """Heat's RequestContext (heat/common/context.py), which webob keeps in the environ; None if there is none."""
    return environ.get("webob.adhoc_attrs", {}).get("context")


def credentials(environ: Environ, allow_unverified: bool) -> Mapping[str, object] | None:
    """The values of the context, or None if nobody vouches for them. No client can write `keystone.token_info`, which
    authtoken sets for a valid token only, and a context made before that does not hold the same."""
    context, token = context_of(environ), environ.get("keystone.token_info")
    verified = bool(token) and getattr(context, "auth_token_info", None) is token
    if context is None or not (verified or allow_unverified):
        return None
    values = context.to_policy_values()
    return {name: values[name] for name in values if name not in ("auth_token_info", "user", "tenant")}


def project(environ: Environ, tenant: str) -> str:
    """The project that Heat works in: the context's, else that of the path."""
    return getattr(context_of(environ), "project_id", None) or tenant
