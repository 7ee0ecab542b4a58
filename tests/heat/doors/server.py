"""Run Heat's APIs and engine in a forked process.

It is forked from one that has imported them, which takes ten times as long as the rest of a start. The transport is
oslo.messaging's fake one.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from oslo_service import backend

warnings.simplefilter("ignore")
backend.init_backend(backend.BackendType.THREADING)

from heat import api, policies  # noqa: E402
from heat.common import config, context, messaging, plugin_loader  # noqa: E402
from heat.db import api as database  # noqa: E402
from heat.db import models  # noqa: E402
from heat.engine import clients, resources, service  # noqa: E402
from heat.engine.clients.os.heat_plugin import HeatClientPlugin  # noqa: E402
from heat.rpc import api as rpc_api  # noqa: E402
from heatclient.client import Client  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_log import log  # noqa: E402
from sqlalchemy import event  # noqa: E402

from tests.heat.doors import recorder, witness  # noqa: E402

for package in (clients, resources, api):
    list(plugin_loader.load_modules(package))


class Server(ThreadingMixIn, WSGIServer):
    """One thread for each request."""

    daemon_threads = True
    request_queue_size = 128


class Handler(WSGIRequestHandler):
    """Tells nothing of requests."""

    def log_message(self, *_args: object) -> None:
        """Nothing."""


def serve(folder: Path, ports: Sequence[int], environment: Mapping[str, str], ready: Connection) -> None:
    """Serve for good.

    The folder holds heat.conf, paste.ini and entry points of the tests; the database and the logs go there. `ready`
    tells when it answers.
    """
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    others = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(Path(__file__).parents[3]), str(folder), *filter(None, others)]
    with (folder / "stderr").open("wb") as stderr:
        os.dup2(stderr.fileno(), 2)
    try:
        _start(folder, ports)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        os._exit(1)  # threads of Heat's would live on
    ready.send(True)


def _start(folder: Path, ports: Sequence[int]) -> None:
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


def _write_at_once(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> tuple[str, Any]:
    """Every transaction waits for its turn when it begins: one that begins with reading can't wait any more."""
    return "BEGIN IMMEDIATE" if statement == "BEGIN" else statement, parameters
