"""The unchanged client of Congress works with the server."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

pytestmark = pytest.mark.skipif(not find_spec("congressclient"), reason="python-congressclient is not installed")

BIN = Path(sys.executable).parent
BAD = (
    "error(server, flavor) :- nova:servers(id=server, flavor_id=f), nova:flavors(id=f, name=flavor),"
    " not offered(flavor)"
)
VOLUME = [
    "v1",
    5,
    "u",
    "in-use",
    "",
    "data",
    False,
    "2026-01-01",
    "ssd",
    False,
    "nova",
    "",
    False,
    None,
    None,
    None,
    "",
]
FLAVORS = [["f1", "small", 1, 2, 3, 0, 1], ["f2", "huge", 64, 2, 3, 0, 1]]
SERVERS = [{"id": "a", "flavor_id": "f2"}, {"id": "b", "flavor_id": "f1"}]
RULES = '@deny("length", "{r}") long(r) :- os:heat:random_string(_id=r, length=n), n > 64.\n'
STEPS: list[tuple[list[str], str]] = [
    (["version", "list"], "v1 SUPPORTED"),
    (["policy", "create", "flavors", "--description", "on offer"], "name flavors"),
    (["policy", "list"], "flavors operator nonrecursive on offer"),
    (["policy", "show", "flavors"], "description on offer"),
    (["datasource", "row", "update", "nova", "flavors", json.dumps(FLAVORS)], ""),
    (["datasource", "row", "update", "nova", "servers", json.dumps(SERVERS)], ""),
    (["policy", "rule", "create", "flavors", BAD, "--name", "bad", "--comment", "not on offer"], "name bad"),
    (["policy", "rule", "create", "flavors", "offered('small')", "--name", "small"], "rule offered('small')"),
    (["policy", "rule", "create", "flavors", "p(x) :- nova:servers(idd=x)"],
     "Syntax error for rule::1:22 nova:servers has no column idd: did you mean id? (HTTP 400)"),
    (["policy", "rule", "list", "flavors"], "// Name: small offered('small')"),
    (["policy", "rule", "show", "flavors", "bad"], "comment not on offer"),
    (["policy", "table", "list", "flavors"], "error nova:flavors nova:servers offered"),
    (["policy", "table", "show", "flavors", "error"], "id error"),
    (["policy", "row", "list", "flavors", "error"], "a huge"),
    (["policy", "row", "list", "flavors", "error", "--trace"], "no offered(huge)"),
    (["policy", "simulate", "flavors", "error(s, f)", "offered+('huge')", "action", "--delta"], 'error-("a", "huge")'),
    (["policy", "simulate", "flavors", "error(s, f)", "offered-('small')", "action", "--trace"],
     'error("a", "huge") error("b", "small") offered-("small"): offered-("small")'),
    (["policy", "rule", "delete", "flavors", "small"], ""),
    (["policy", "row", "list", "flavors", "error"], "a huge b small"),
    (["datasource", "create", "cinder", "vol", "--config", "cloud=x", "--description", "volumes"], "name vol"),
    (["datasource", "list"], "vol True cinder"),
    (["datasource", "status", "show", "nova"], "rows 4"),
    (["datasource", "table", "list", "nova"], "servers"),
    (["datasource", "table", "show", "nova", "servers"], "id servers"),
    (["datasource", "table", "schema", "show", "nova", "flavors"], "name"),
    (["datasource", "actions", "show", "nova"], ""),
    (["datasource", "row", "list", "nova", "flavors"], "f2 huge 64"),
    (["datasource", "row", "update", "vol", "volumes", json.dumps([VOLUME])], ""),
    (["datasource", "request-refresh", "nova"], ""),
    (["datasource", "delete", "vol"], ""),
    (["driver", "list"], "nova tables of nova"),
    (["driver", "config", "show", "nova"], "id nova"),
    (["policy", "delete", "flavors"], ""),
]  # fmt: skip
"""What is typed after `openstack congress`, and the words that its answer holds, without the lines of tables."""
BROKEN = [
    (["datasource", "schema", "show", "nova"], "'dict' object has no attribute 'iteritems'"),
    (["driver", "schema", "show", "nova"], "'dict' object has no attribute 'iteritems'"),
    (["policy", "create-from-file", "library.yaml"], "load_all() missing 1 required positional argument: 'Loader'"),
]
"""What fails in the client itself, with what it says."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A server with one token, and the settings of the client."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "rules").mkdir()
    (folder / "rules" / "words.dl").write_text(RULES)
    (folder / "library.yaml").write_text("name: lib\n")
    config = folder / "server.conf"
    config.write_text(f"[datalog_gate]\nrules = {folder}/rules\n[datalog_gate_server]\nfolder = {folder}/state\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(BIN / "datalog-gate"), "serve", "--config", str(config), "--port", str(port)]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            assert server.stdout
            token = server.stdout.readline().removeprefix("token: ").strip()
            url = f"http://127.0.0.1:{port}"
            for _ in range(300):
                try:
                    urlopen(url, timeout=5).close()
                    break
                except (URLError, OSError):
                    time.sleep(0.2)
            names = {"OS_AUTH_TYPE": "admin_token", "OS_TOKEN": token, "OS_ENDPOINT": url, "HOME": str(folder)}
            own = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
            yield own | names | {"PWD": str(folder)}
        finally:
            server.terminate()
            server.wait(60)


def test_each_verb_that_works_in_the_client_works(environment: dict[str, str]) -> None:
    answers = [(arguments, words, ask(environment, arguments)) for arguments, words in STEPS]
    assert [(arguments, answer) for arguments, words, answer in answers if words not in answer] == []


def test_what_is_broken_in_the_client_is_broken_there_alone(environment: dict[str, str]) -> None:
    answers = [(arguments, said, ask(environment, arguments)) for arguments, said in BROKEN]
    assert [(arguments, answer) for arguments, said, answer in answers if said not in answer] == []


def ask(environment: dict[str, str], arguments: list[str]) -> str:
    """The answer of a command in one line, without the lines of tables."""
    command = [str(BIN / "openstack"), "congress", *arguments]
    done = subprocess.run(command, env=environment, cwd=environment["PWD"], capture_output=True, text=True, timeout=120)
    shown = re.sub(r"[|+]|--+", " ", done.stdout + done.stderr)
    return " ".join(shown.split())
