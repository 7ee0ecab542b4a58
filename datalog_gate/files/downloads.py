"""`check --fetch`: reads files over HTTP and HTTPS."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.files.templates import MAX_BYTES

MOST_URLS = 64
"""The maximum number of URLs of one stack."""
SECONDS = 10.0
"""The maximum time of one download, and of a pause in it."""


def create_downloader() -> Callable[[str], str]:
    """A function that returns the text at a URL, which it gets once. It reads the `MOST_URLS` of one stack.
    Errors: UsageError without `requests`."""
    try:
        import requests
    except ImportError:
        raise UsageError("requests is missing: pip install 'datalog-gate[openstack]'") from None
    left = MOST_URLS

    @cache
    def download(url: str) -> str:
        nonlocal left
        left -= 1
        if left < 0:
            raise InputError.of(f"{url} was not read: the stack names more than {MOST_URLS} URLs", "too-large")
        end = time.monotonic() + SECONDS
        content = b""
        try:
            with requests.get(url, timeout=SECONDS, stream=True) as answer:
                answer.raise_for_status()
                for part in answer.iter_content(65536):
                    content += part
                    if len(content) > MAX_BYTES:
                        raise InputError.of(f"{url} has more than {MAX_BYTES} bytes", "too-large")
                    if time.monotonic() > end:
                        raise InputError.of(f"{url} can't be read: it took more than {SECONDS:.0f} seconds")
            return content.decode("utf-8-sig")
        except (requests.RequestException, UnicodeDecodeError) as error:
            status = error.response if isinstance(error, requests.RequestException) else None
            reason = f"{status.status_code} {status.reason}" if status is not None else type(error).__name__
            raise InputError.of(f"{url} can't be read: {reason}") from None

    return download
