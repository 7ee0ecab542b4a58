"""Serves the API of a service: wsgi_server.py MODULE PORT [--config-file FILE]."""

from __future__ import annotations

import sys
from importlib import import_module

import waitress


def main() -> None:
    """Take module and port out of the arguments, so that the service reads the others as its own."""
    module, port = sys.argv[1:3]
    sys.argv = [module, *sys.argv[3:]]
    application = import_module(module).application
    threads = 1 if module.startswith("keystone.") else 8  # Keystone's threads now and then deny what its policy allows
    waitress.serve(application, host="127.0.0.1", port=int(port), threads=threads)


if __name__ == "__main__":
    main()
