"""Servers for the time of a test, in a thread or process."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import HTTPServer
from pathlib import Path
from random import SystemRandom
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
    """Ports that nobody listens on. They are below those that the system gives to connections, which may take one of
    these while its server still starts."""
    ports = set[int]()
    while len(ports) < number:
        port = SystemRandom().randrange(15000, 32768)
        with suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            ports.add(port)
    return list(ports)
