"""The prompt on a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.editor.conftest import COMMAND


def test_ctrl_c_ends_a_query_and_not_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text("named(1).\n")
    terminal, side = pty.openpty()
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "EDITOR": "sh -c 'kill -INT $PPID; sleep 1'",
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }
    command = [*COMMAND[:-1], "repl", "--rules", "m.dl"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs behind itself ignores it
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=side, stdout=side, stderr=side)
    signal.signal(signal.SIGINT, before)
    os.close(side)
    shown = ""
    for line in (":rules m.dl\r", "named(n)\r", "\x04"):
        start = len(shown)
        while "?2004h" not in shown[start:]:  # the prompt takes a line
            shown += os.read(terminal, 4096).decode()
        os.write(terminal, line.encode())
    with suppress(OSError):  # the terminal ends with the process
        while part := os.read(terminal, 4096):
            shown += part.decode()
    assert (process.wait(timeout=30), "interrupted" in shown, "1 row" in shown) == (0, True, True), shown
