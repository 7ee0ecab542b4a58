"""A policy server with scanned stacks, for browsers."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, make_server

from tests.unit.doors.server.test_pages import Browser

STACKS = 1000


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Site(Browser):
    """A server for its operator, and one for users of Keystone, whose tokens are their names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.servers = [make_server("127.0.0.1", 0, app, handler_class=_Quiet) for app in self.applications]
        for server in self.servers:
            Thread(target=server.serve_forever, daemon=True).start()
        self.url, self.url_of_users = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)

    def close(self) -> None:
        for server in self.servers:
            server.shutdown()
