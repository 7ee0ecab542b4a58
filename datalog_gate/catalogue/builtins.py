"""The builtins' signatures (layer 1): what the analysis checks a call against; `engine.builtins` computes them."""

from __future__ import annotations

from dataclasses import dataclass

from datalog_gate.catalogue.schema import Column
from datalog_gate.values import Kind


@dataclass(frozen=True, slots=True)
class Builtin:
    """A builtin: inputs first, outputs last; one without outputs is a test.

    `total` ones never raise on a kind and take null (``??``); all others need their inputs non-null and of the kinds
    that the columns name.
    """

    name: str
    inputs: tuple[Column, ...]
    outputs: tuple[Column, ...]
    meaning: str
    total: bool = False
