"""Run Placement over HTTP: ``python server.py FOLDER PORT``.

The folder is empty or as it was left; the database and the log go there, and READY to stdout.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

CONF = """
[DEFAULT]
log_file = {folder}/placement.log
[api]
auth_strategy = noauth2
[placement]
allocation_conflict_retry_count = 1
[placement_database]
connection = sqlite:///{folder}/placement.db?timeout=30
sync_on_startup = true
"""
"""So few retries that conflicts of generations reach who asks."""


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 100


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None: ...


def main(folder: Path, port: int) -> None:
    """Answer for good."""
    (folder / "placement.conf").write_text(CONF.format(folder=folder))
    os.environ["OS_PLACEMENT_CONFIG_DIR"] = str(folder)
    from placement.wsgi import init_application

    server = make_server("127.0.0.1", port, init_application(), Server, Quiet)
    print("READY", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
