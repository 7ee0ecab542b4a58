"""The unchanged client of Congress works with the server."""

from __future__ import annotations

import json
import re

from congressclient.v1.client import Client

from tests.server.rig import USERS, Site, open_session
from tests.test_congress_api import BAD, VOLUME

FLAVORS = [["f1", "small", 1, 2, 3, 0, 1], ["f2", "huge", 64, 2, 3, 0, 1]]
SERVERS = [{"id": "a", "flavor_id": "f2"}, {"id": "b", "flavor_id": "f1"}]
STEPS: list[tuple[list[str], str]] = [
    (["version", "list"], "v1 SUPPORTED"),
    (["policy", "create", "flavors", "--description", "on offer"], "name flavors"),
    (["policy", "list"], "nonrecursive on offer"),
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


def test_each_verb_that_works_in_the_client_works(site: Site) -> None:
    answers = [(arguments, words, ask(site, arguments)) for arguments, words in STEPS]
    assert [(arguments, answer) for arguments, words, answer in answers if words not in answer] == []


def test_what_is_broken_in_the_client_is_broken_there_alone(site: Site) -> None:
    (site.folder / "library.yaml").write_text("name: lib\n")
    answers = [(arguments, said, ask(site, arguments)) for arguments, said in BROKEN]
    assert [(arguments, answer) for arguments, said, answer in answers if said not in answer] == []


def test_the_call_of_murano_is_answered(site: Site) -> None:
    """Murano calls the client's library: it sends the objects of an environment as facts with blanks between them."""
    objects = "murano:objects(obj, env, t), murano:properties(obj, 'flavor', 'huge')"
    client = Client(session=open_session(site.identity, "adam", **USERS["adam"][0]), service_type="policy")
    for name in ("murano_system", "murano"):
        client.create_policy({"name": name})
    rule = f"predeploy_errors(env, obj, 'too large') :- {objects}"
    client.create_policy_rule("murano_system", {"rule": rule})
    sequence = " ".join(
        f'murano:objects+("{name}", "env", "io.Instance") murano:properties+("{name}", "flavor", "{flavor}")'
        for name, flavor in (("o1", "huge"), ("o2", "small"))
    )
    query = {"query": "predeploy_errors(env, obj, msg)", "action_policy": "action", "sequence": sequence}
    answer = client.execute_policy_action("murano_system", "simulate", False, False, query)
    assert answer == {"result": ['predeploy_errors("env", "o1", "too large")']}


def ask(site: Site, arguments: list[str]) -> str:
    """The answer of a command in one line, without the lines of tables."""
    done = site.openstack("adam", "congress", *arguments)
    shown = re.sub(r"[|+]|--+", " ", done.stdout + done.stderr)
    return " ".join(shown.split())
