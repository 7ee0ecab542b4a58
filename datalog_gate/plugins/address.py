"""The address of a server that decides (layer 5): in, what the operator set; out, the same, if it may be asked."""

from __future__ import annotations

from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""The only hosts that may be asked without TLS: elsewhere anybody on the way could answer."""


def checked_address(name: str, url: str) -> str:
    """The URL without a slash at its end. Errors: ValueError, which names the setting."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{name} must be one of a server, with http or https")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError(f"{name} must begin with https")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(f"{name} must hold no user, query or fragment")
    return url.rstrip("/")


def seconds(name: str, text: str) -> float:
    """A time. Errors: ValueError."""
    time = float(text)
    if not 0 < time <= 300:
        raise ValueError(f"{name} must be more than 0 seconds, and 300 at most")
    return time
