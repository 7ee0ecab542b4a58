"""Lifecycle plugins around the gate's that record Heat's objects.

Each call writes one line of JSON to a file.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from threading import Lock
from typing import Any

LOCK = Lock()


def install(environment: Any, path: Path) -> None:
    """Register both plugins in Heat's global environment."""
    for name, ordinal in (("before", 1), ("after", 1000)):
        environment.register_stack_lifecycle_plugin(f"witness_{name}", _witness(name, ordinal, path))


def lose_edges(environment: Any) -> None:
    """Let grants of stacks with this name fail to tell Heat what waits for them."""
    policy = environment.get_class("DatalogGate::Policy")
    tell = policy.add_dependencies

    def add_dependencies(self: Any, deps: Any) -> None:
        if "lost" in self.stack.name:
            raise ValueError("Heat passes over this")
        tell(self, deps)

    policy.add_dependencies = add_dependencies


def _witness(side: str, ordinal: int, path: Path) -> type:
    class Witness:
        def get_ordinal(self) -> int:
            return ordinal

        def do_pre_op(self, _cnxt: Any, stack: Any, current_stack: Any = None, action: str = "") -> None:
            self._write("pre", stack, current_stack, action)
            if side == "after" and "late-veto" in stack.name:
                raise ValueError("a later plugin stops it")

        def do_post_op(
            self, _cnxt: Any, stack: Any, current_stack: Any = None, action: str = "", _failure: bool = False
        ) -> None:
            self._write("post", stack, current_stack, action)

        def _write(self, when: str, stack: Any, current_stack: Any, action: str) -> None:
            new = stack if current_stack is None else current_stack
            line = {
                "stack": stack.name, "side": side, "when": when, "action": action, "status": stack.status,
                "old": _digest(stack), "new": _digest(new), "disable_rollback": new.disable_rollback,
            }  # fmt: skip
            with LOCK, path.open("a") as file:
                file.write(json.dumps(line) + "\n")

    return Witness


def _digest(stack: Any) -> str:
    files = {name: stack.t.files[name] for name in stack.t.files}
    state = [stack.t.t, files, stack.env.user_env_as_dict(), stack.name, stack.status, stack.status_reason]
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
