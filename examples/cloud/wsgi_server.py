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
    waitress.serve(application, host="127.0.0.1", port=int(port), threads=8)


if __name__ == "__main__":
    main()
