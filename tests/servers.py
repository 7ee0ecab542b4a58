"""Servers for the time of a test, in a thread or process."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import HTTPServer
from pathlib import Path
from threading import Thread


@contextmanager
def serving(server: HTTPServer) -> Iterator[None]:
    """Serve in a thread."""
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serving_process(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server that prints READY once it answers, and kill it in the end. What it says on stderr is in the
    folder."""
    errors = folder / "stderr"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, cwd=folder) as server,
    ):
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"READY\n", errors.read_text()[-4000:]
            yield server
        finally:
            server.kill()


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
