"""Requests that are generated from the description: none fails the server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.rig import serving
from tests.servers import free_ports

COMMAND = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
EXAMPLES = os.environ.get("DATALOG_GATE_EXAMPLES", "15")
"""How many requests there are for each endpoint and phase."""


@pytest.mark.skipif(not COMMAND, reason="schemathesis is not installed")
def test_no_generated_request_fails_the_server_or_gets_what_is_not_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert COMMAND
    monkeypatch.setenv("HOME", str(tmp_path))
    [port] = free_ports(1)
    with serving(tmp_path, port):
        token = (tmp_path / "stdout").read_text().removeprefix("token: ").strip()
        url, checks = f"http://127.0.0.1:{port}/v2/openapi.json", "not_a_server_error,response_schema_conformance"
        options = [
            "--max-examples",
            EXAMPLES,
            "--checks",
            checks,
            "--seed",
            "1",
            "--phases",
            "examples,coverage,fuzzing",
        ]
        run = [COMMAND, "run", url, "-H", f"X-Auth-Token: {token}", *options]
        done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "the server failed" not in (tmp_path / "stderr").read_text()
