"""The oslo.config options of the section ``[datalog_gate_server]``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from oslo_config import cfg

from datalog_gate.decision_point.config_options import PLACES
from datalog_gate.plugins.plugin_settings import check_path
from datalog_gate.schema.resource_types import HEATS, NEWEST

GROUP = "datalog_gate_server"
OPTIONS = (
    cfg.StrOpt(
        "auth",
        default="token",
        choices=[
            ("token", "anyone with the token of the server may do everything: for one person on one machine"),
            ("keystone", "callers are authenticated by Keystone, as the section [keystone_authtoken] says"),
        ],
        help="How callers are authenticated.",
    ),
    cfg.StrOpt(
        "folder",
        default="~/.local/state/datalog-gate",
        help="The folder of the token, of the metrics of processes, and of the store if [datalog_gate] sets none.",
    ),
    cfg.StrOpt(
        "heat",
        default=NEWEST,
        choices=[(release, f"as openstack-heat {version} does") for release, version in HEATS.items()],
        help="The release of Heat by which templates are validated.",
    ),
    cfg.IntOpt("workers", default=1, min=1, help="Number of processes that answer requests."),
    cfg.IntOpt("threads", default=8, min=1, help="Number of requests that a process answers at the same time."),
    cfg.IntOpt(
        "body_limit", default=4 * 1024 * 1024, min=1024, help="Maximum size of the body of a request, in bytes."
    ),
    cfg.FloatOpt(
        "body_seconds",
        default=10.0,
        min=0.1,
        help="Timeout for receiving the head of a request, and then its body, in seconds.",
    ),
    cfg.IntOpt("stop_seconds", default=30, min=1, help="Seconds for which requests may go on when the server stops."),
    cfg.IntOpt(
        "keep_days", default=90, min=1, help="Days for which decisions, trials and the log of changes are kept."
    ),
    cfg.Opt(
        "scan_store",
        type=PLACES["database"],
        default="",
        secret=True,
        help="The store of `datalog-gate scan`, from which findings and stacks are read: a file of DuckDB on this "
        "host, or postgresql://USER:PASSWORD@HOST/DATABASE.",
    ),
)


def list_opts() -> list[tuple[str, list[Any]]]:
    """The options, for the sample generator of oslo.config."""
    return [(GROUP, list(OPTIONS))]


def register(conf: Any) -> None:
    conf.register_opts(OPTIONS, group=GROUP)


def find_folder(options: Any) -> Path:
    """The folder of the server; created if it is missing. Errors: OSError, ValueError."""
    folder = Path(check_path(os.path.expanduser(options.folder)))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
