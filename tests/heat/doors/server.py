"""Run Heat's API, CFN API and engine: ``python server.py FOLDER PORT CFN_PORT``.

The folder holds heat.conf and paste.ini; the database and the logs go there, and READY to stdout when it answers. The
transport is oslo.messaging's fake one.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import traceback
from pathlib import Path
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from heat import policies  # noqa: E402
from heat.common import config, context, messaging  # noqa: E402
from heat.db import api as database  # noqa: E402
from heat.db import models  # noqa: E402
from heat.engine import resources, service  # noqa: E402
from heat.engine.clients.os.heat_plugin import HeatClientPlugin  # noqa: E402
from heat.rpc import api as rpc_api  # noqa: E402
from heatclient.client import Client  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_log import log  # noqa: E402
from sqlalchemy import event  # noqa: E402

sys.path[:0] = [str(Path(__file__).parents[3]), sys.argv[1]]  # entry points of the tests are in the folder
from tests.heat.doors import recorder, witness  # noqa: E402


class Server(ThreadingMixIn, WSGIServer):
    """One thread for each request."""

    daemon_threads = True
    request_queue_size = 128


class Handler(WSGIRequestHandler):
    """Tells nothing of requests."""

    def log_message(self, *_args: object) -> None:
        """Nothing."""


def main(folder: Path, *ports: int) -> None:
    """Serve for good."""
    if not (folder / "policy.yaml").exists():  # noauth gives the role admin only
        names = (rule.name for rule in policies.list_rules())
        (folder / "policy.yaml").write_text("".join(f'"{name}": ""\n' for name in names))
    log.register_options(cfg.CONF)
    cfg.CONF(["--config-file", str(folder / "heat.conf")], project="heat", prog="heat-engine", version="test")
    log.setup(cfg.CONF, "heat")
    config.set_config_defaults()
    messaging.setup()
    if cfg.CONF.database.connection.startswith("sqlite"):
        with sqlite3.connect(folder / "heat.db") as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        event.listen(database.get_engine(), "before_cursor_execute", _write_at_once, retval=True)
    # Heat deletes such a row by an id that it remembers, and only SQLite would have given the id to another by then
    models.ResourcePropertiesData.__table__.dialect_options["sqlite"]["autoincrement"] = True
    models.BASE.metadata.create_all(database.get_engine())
    if "fake_keystoneclient" in (folder / "heat.conf").read_text():  # there is no Keystone to ask
        context.StoredContext._load_keystone_data = lambda _context: None
        HeatClientPlugin.does_endpoint_exist = lambda *_args, **_options: True
        HeatClientPlugin._create = lambda plugin: Client("1", endpoint=plugin.get_heat_url(), token="none")
    recorder.install(folder / "asked.jsonl")
    resources.initialise()
    witness.install(resources.global_env(), folder / "witness.jsonl")
    if cfg.CONF.plugin_dirs:
        witness.lose_edges(resources.global_env())
    service.EngineService(cfg.CONF.host, rpc_api.ENGINE_TOPIC).start()
    for name, port in zip(("heat-api", "heat-api-cfn"), ports, strict=True):
        server = make_server("127.0.0.1", port, config.load_paste_app(name), Server, Handler)
        Thread(target=server.serve_forever, name=name).start()
    print("READY", flush=True)


def _write_at_once(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> tuple[str, Any]:
    """Every transaction waits for its turn when it begins: one that begins with reading can't wait any more."""
    return "BEGIN IMMEDIATE" if statement == "BEGIN" else statement, parameters


try:
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
except BaseException:  # noqa: BLE001
    traceback.print_exc()
    os._exit(1)  # threads of Heat's would live on
