"""What the hint of a policy says to write or to remove."""

from __future__ import annotations

import re
from typing import NamedTuple

from datalog_gate.base.secrecy import MASK
from datalog_gate.stack.model import Data
from datalog_gate.template.document import read_document

_WRITES = re.compile(r"(?:write )?(\w+): (\{(?:get_param|Ref): \w+\}|\w[\w./-]*)(?: in \S+)?")
_REMOVES = re.compile(r"(?:leave (\w+) out|remove the (\w+))(?:: .*|(, and set .*))?")


class Instruction(NamedTuple):
    """A key, and the value to write for it as the hint has it; without a value the key is to be removed."""

    key: str
    text: str = ""
    value: Data = None
    also: str = ""
    """What its user does beside a removal, as the hint goes on."""


def read_instruction(hint: str) -> Instruction | None:
    """The one thing that a hint says to write, ``write ha: true``, or to remove, ``leave port out``; None if it is not
    so plain, offers a choice, or hides a value."""
    if MASK in hint or "..." in hint:
        return None
    if written := _WRITES.fullmatch(hint):
        value = read_document(written[2], "", False).data
        is_as_written = written[2].startswith("{") or isinstance(value, bool) or str(value) == written[2]
        return Instruction(written[1], written[2], value) if is_as_written else None
    removed = _REMOVES.fullmatch(hint)
    return Instruction(removed[1] or removed[2], also=removed[3] or "") if removed else None
