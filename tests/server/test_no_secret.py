"""No log, answer, page or file of a server has planted secrets."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import requests

from datalog_gate.doors.cli.main import main
from tests.server.rig import PATIENCE, serving
from tests.servers import free_ports
from tests.stores.database_servers import DatabaseServer, MariaDB, PostgreSQL

HIDDEN, LOST = "pl4nted-parameter", "pl4nted-token"
TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "parameters": {"secret": {"type": "string", "hidden": True}},
    "resources": {
        "word": {"type": "OS::Heat::RandomString", "properties": {"length": {"get_param": "secret"}}},
        "value": {"type": "OS::Heat::Value", "properties": {"value": {"get_param": "secret"}}},
    },
}
CONF = """
[datalog_gate]
rules = {folder}/rules
store = {store}
decision_log = {folder}/decisions
[datalog_gate_server]
folder = {folder}/server
scan_store = postgresql://gate:pl4nted/scan@password@127.0.0.1:1/gate
[DEFAULT]
debug = true
"""
ASKED = (
    ("GET", "/pages/stacks"), ("GET", "/pages/policies"), ("GET", "/v2/findings"),
    ("GET", "/metrics"), ("GET", "/healthcheck"), ("GET", f"/v2/policies?marker={LOST}"), ("GET", "/v2/decisions"),
)  # fmt: skip


@pytest.mark.parametrize("kind", [PostgreSQL, MariaDB])
def test_no_output_log_or_page_has_a_planted_secret(
    kind: type[DatabaseServer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/a.dl").write_text(
        '@warn("long", "{r}")\nlong(r) :- os:heat:random_string(_id=r, length=n), n > 1.\n'
    )
    conf, texts, [port] = tmp_path / "server.conf", list[str](), free_ports(1)
    with closing(kind()) as server:
        store = server.database("gate")
        conf.write_text(CONF.format(folder=tmp_path, store=store))
        main(["store", "upgrade", "--heat-conf", str(conf)])
        with serving(tmp_path, port, "--config", str(conf)):
            token = (tmp_path / "server/token").read_text().strip()
            session = requests.Session()
            url = f"http://127.0.0.1:{port}"

            def ask(method: str, path: str, **request: object) -> requests.Response:
                answer = session.request(method, f"{url}{path}", timeout=PATIENCE, **request)  # type: ignore[arg-type]
                texts.append(f"{answer.headers} {answer.text}")
                return answer

            def ask_all() -> None:
                body = {"template": TEMPLATE, "parameters": {"secret": HIDDEN}}
                made = ask("POST", "/v2/decisions", json=body, headers={"X-Auth-Token": token})
                if made.status_code == 201:
                    ask("GET", f"/pages/decisions/{made.json()['id']}")
                for method, path in ASKED:
                    ask(method, path, headers={"X-Auth-Token": token})
                ask("GET", "/v2/policies", headers={"X-Auth-Token": LOST})
                ask("POST", "/v2/decisions", data=f'{{"{LOST}', headers={"X-Auth-Token": f"{LOST} é".encode()})

            ask("POST", "/pages/sign-in", data={"token": token})
            ask_all()
            main(["store", "export", "--heat-conf", str(conf)])
            main(["store", "check", "--heat-conf", str(conf)])
            server.stop()
            ask_all()
            main(["store", "check", "--heat-conf", str(conf)])
            main(["scan", "history", "--store", store.replace("+psycopg", "").replace("mysql+pymysql", "postgresql")])
            main(["doctor", "--heat-conf", str(conf)])
    out, err = capsys.readouterr()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path not in (conf, tmp_path / "server/token")]
    kept = {str(path): path.read_text("utf-8", "replace") for path in files}
    kept["stdout"] = kept.pop(str(tmp_path / "stdout")).partition("\n")[
        2
    ]  # the first line gives the new token to its owner
    assert "decision:create" in kept[str(tmp_path / "stderr")]
    everything = {**kept, "answers": "\n".join(texts), "out": out, "err": err}
    planted = (token, HIDDEN, LOST, "hush/hush@", "hush%2Fhush%40", "hush", "pl4nted")
    found = [(name, text) for name, content in everything.items() for text in planted if text in content]
    assert found == []
