"""Files at URLs that templates name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from datalog_gate.base.records import dataclass, field


@dataclass(frozen=True, slots=True)
class UrlSources:
    """Where to read files at URLs: ``{"https://example.com/t/": "vendor/t"}`` reads those below the URL in the folder.

    Others are read by `download`, which returns the text at a URL, if there is one. Errors: InputError.
    """

    folders: Mapping[str, str] = field(default_factory=dict)
    download: Callable[[str], str] | None = None

    def find_local(self, url: str) -> tuple[str, str] | None:
        """The path of a URL's file, and its folder: that of the longest URL that the URL begins with."""
        known = [(prefix, folder) for prefix, folder in self.folders.items() if url.startswith(_as_folder(prefix))]
        if not known:
            return None
        prefix, folder = max(known, key=lambda entry: len(entry[0]))
        return os.path.join(folder, url.removeprefix(_as_folder(prefix))), folder


def _as_folder(url: str) -> str:
    return f"{url.rstrip('/')}/"
