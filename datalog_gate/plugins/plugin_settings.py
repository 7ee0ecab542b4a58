"""Checks of plugin settings, whose ValueErrors name the setting."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import urlsplit


class UnknownSettingError(ValueError):
    """Settings that a plugin does not have."""

    def __init__(self, unknown: Iterable[str], known: Iterable[str]) -> None:
        names = sorted(unknown)
        self.name, self.known = names[0], frozenset(known)
        super().__init__(f"there is no setting {', '.join(names)}")


LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""The only hosts for plain HTTP, since elsewhere others on the network could answer."""


def check_address(name: str, url: str) -> str:
    """The URL of a server, without a trailing slash."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{name} must be the address of a server, with http or https")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError(f"{name} must begin with https")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(f"{name} must not contain a user, query or fragment")
    return url.rstrip("/")


def check_path(path: str) -> str:
    """A path, or an empty text. Services run in different folders, so it must be absolute. Errors: ValueError."""
    if path and not os.path.isabs(path):
        raise ValueError(f"{path} is not an absolute path, and services run in different folders")
    return path


def check_store(url: str) -> str:
    """The URL of a database, or the path of an SQLite file, or an empty text. Errors: ValueError as `check_path`."""
    scheme, separator, path = url.partition(":///")
    check_path(path if scheme.partition("+")[0] == "sqlite" and separator else "" if "://" in url else url)
    return url


def read_seconds(name: str, text: str) -> float:
    """A time of at most 300 seconds."""
    seconds = float(text)
    if not 0 < seconds <= 300:
        raise ValueError(f"{name} must be more than 0 seconds, and 300 at most")
    return seconds


def check_prefix(prefix: str) -> str:
    """The prefix of custom resource classes of Placement."""
    if not re.fullmatch(r"CUSTOM_[A-Z0-9_]*", prefix):
        raise ValueError("prefix must begin with CUSTOM_, and contain only capitals, digits and _")
    return prefix
