"""Writing the files that a command is told to write (layer 6). Errors: UsageError."""

from __future__ import annotations

import os
from pathlib import Path

from datalog_gate.base.errors import UsageError


def write(path: Path, text: str) -> None:
    """Put a text in a file."""
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None


def replace(path: Path, text: str) -> None:
    """Put a text in the place of a file, whole or not at all; its mode stays, and a link still leads to it."""
    from shutil import copymode
    from tempfile import NamedTemporaryFile

    target = path.resolve()
    try:
        target.touch()
        with NamedTemporaryFile("w", encoding="utf-8", newline="", dir=target.parent, delete=False) as file:
            try:
                file.write(text)
                file.close()
                copymode(target, file.name)
                os.replace(file.name, target)
            except OSError:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None
