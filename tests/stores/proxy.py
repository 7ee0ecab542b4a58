"""A connection to a server that can be cut without a word."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """A TCP proxy on a free port. While it is `cut` it takes connections and bytes, and forwards nothing. What it took
    then is lost, as are the connections that had it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.cut = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        lost = False
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._target)) as server:
            peers = {client: server, server: client}
            while True:
                ready, _, _ = select.select(list(peers), [], [], 0.05)
                for peer in ready:
                    data = peer.recv(65536)
                    lost = lost or self.cut.is_set()
                    if not data and peer is client and lost:
                        threading.Event().wait()  # the server is told nothing
                    if not data:
                        return
                    if not lost:
                        peers[peer].sendall(data)


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    yield proxy
    proxy.close()
