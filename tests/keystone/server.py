"""Run Keystone over HTTP: ``python server.py FOLDER PORT PASSWORD``.

The folder is empty at the start; the database, keys and logs go there, with an administrator who has the password, and
READY goes to stdout.
"""

from __future__ import annotations

import getpass
import grp
import os
import sys
from pathlib import Path

CONF = """
[DEFAULT]
log_file = {folder}/keystone.log
[database]
connection = sqlite:///{folder}/keystone.db
[fernet_tokens]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[identity]
password_hash_rounds = 4
"""
"""Its passwords are hashed in few rounds: those of a service take most of a request for a token."""


def prepare(folder: Path, port: int, password: str) -> None:
    """What an operator does once."""
    from keystone import conf as options
    from keystone.cmd import cli

    (folder / "keystone.conf").write_text(CONF.format(folder=folder))
    owner = ["--keystone-user", getpass.getuser(), "--keystone-group", grp.getgrgid(os.getgid()).gr_name]
    address = f"http://127.0.0.1:{port}/v3"
    administrator = f"bootstrap --bootstrap-password {password}".split()
    urls = f"--bootstrap-public-url {address} --bootstrap-internal-url {address}".split()
    setup = (["db_sync"], ["fernet_setup", *owner], ["credential_setup", *owner], [*administrator, *urls])
    for command in setup:
        options.CONF.reset()
        cli.main(["keystone-manage", "--config-file", str(folder / "keystone.conf"), *command], None)


def serve(port: int) -> None:
    """Answer for good."""
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIServer, make_server

    from keystone.server import wsgi

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    sys.argv = ["keystone"]  # or it would read our arguments
    server = make_server("127.0.0.1", port, wsgi.initialize_public_application(), Server)
    print("READY", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    prepare(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = f"{sys.argv[1]}/keystone.conf"
    # options that commands have registered would be read as a service's: a new process has none
    os.execv(sys.executable, [sys.executable, "-W", "ignore", __file__, "serve", sys.argv[2]])
