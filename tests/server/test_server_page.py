"""The commands, the program and the configuration of docs/server.md work."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from datalog_gate.doors.server.policy_server import create_server
from datalog_gate.doors.server.serving import read_config
from datalog_gate.services.approval import Approvals
from tests.ledger import request
from tests.pages import DOCS
from tests.server.rig import BIN, Site, serving
from tests.servers import free_ports

PAGE = (DOCS / "server.md").read_text("utf-8")
SCRIPTS = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
[CONF] = re.findall(r"```ini\n(.*?)```", PAGE, re.S)
[PROGRAM] = re.findall(r"```python\n(.*?)```", PAGE, re.S)
WEB = """\
heat_template_version: 2018-08-31
parameters: {key: {type: string, default: ''}}
resources:
  web: {type: OS::Heat::RandomString, properties: {length: 9}}
"""


def run(script: str, environment: dict[str, str], folder: Path) -> str:
    """Run a script, whose commands must all succeed, and return its stdout."""
    done = subprocess.run(
        ["bash", "-ec", script], env=environment, cwd=folder, capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_two_commands_lead_to_a_decision(tmp_path: Path) -> None:
    start, ask = SCRIPTS[:2]
    assert start == "datalog-gate serve\n"
    (tmp_path / "fixtures").symlink_to(DOCS.parent / "fixtures")
    (tmp_path / "rules").symlink_to(DOCS.parent / "rules")
    [port] = free_ports(1)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("OS_")}
    environment |= {"HOME": str(tmp_path), "PATH": f"{BIN}:{environment['PATH']}"}
    with serving(tmp_path, port, environment=environment):
        token = (tmp_path / "stdout").read_text().removeprefix("token: ").strip()
        printed = run(
            ask.replace("1789", str(port)).replace("OS_TOKEN=...", f"OS_TOKEN={token}"), environment, tmp_path
        )
    assert "deny[net.open_ssh] security group bastion_sg lets 0.0.0.0/0 reach port 22" in printed
    assert "denied" in printed.splitlines()
    assert '"status": "ok"' in printed


def test_a_server_loads_the_configuration(tmp_path: Path, site: Site) -> None:
    (tmp_path / "rules").symlink_to(site.folder / "rules")
    replaced = {
        "/etc/datalog-gate": str(tmp_path),
        "/var/lib/datalog-gate": str(tmp_path / "var"),
        "/var/log/datalog-gate": str(tmp_path),
        "postgresql+psycopg://gate:PASSWORD@db.example.com/gate": f"sqlite:///{tmp_path}/store",
    }
    text = CONF
    for before, after in replaced.items():
        assert before in text
        text = text.replace(before, after)
    (tmp_path / "server.conf").write_text(text)
    (tmp_path / "policy.yaml").write_text('"datalog_gate:policy:list": "role:auditor"\n')
    server = create_server(read_config(tmp_path / "server.conf"))
    assert (server.options.auth, server.options.workers, server.point.settings.waivers) == ("keystone", 4, "store")
    allows = server.point.entitlements.allows
    assert [allows("datalog_gate:policy:list", {}, {"roles": [role]}) for role in ("reader", "auditor")] == [
        False,
        True,
    ]


def test_the_commands_for_operators_work(site: Site) -> None:
    folder = site.folder / "page"
    folder.mkdir(exist_ok=True)
    (folder / "web.yaml").write_text(WEB)
    (folder / "web-before.yaml").write_text(WEB.replace("9", "8"))
    (folder / "small.yaml").write_text("parameters: {}\n")
    store = f"sqlite:///{site.folder}/store"
    approvals = Approvals(store)
    name = approvals.use(request("page", "seat", stack="page"), 1_900_000_000.0, 1e9)[1]
    assert name
    replaced = {
        "/etc/datalog-gate/server.conf": str(site.folder / "server.conf"),
        "http://127.0.0.1:1789": site.url,
        "approve A-1": f"approve {name.name}",
        "waiver create net.open_ssh": "waiver create length",
        "--key group=": "--key r=",
        "waiver delete S-1": "waiver delete $(openstack gate waiver list -f value -c id | tail -1)",
        "service create": "--os-username admin --os-project-name admin service create",
        "endpoint create --region RegionOne policy": "--os-username admin --os-project-name admin endpoint create gate",
        "https://gate.example.com": site.url,
    }
    scripts = "\n".join(SCRIPTS[2:])
    for before, after in replaced.items():
        assert before in scripts
        scripts = scripts.replace(before, after)
    printed = run(scripts, site.environment("adam"), folder)
    assert '"datalog_gate:waiver:create": "role:admin"' in printed
    assert "datalog_gate_api_requests_total" in printed
    environment = site.environment("adam")
    assert run(f"python - <<'END'\n{PROGRAM}END\n", environment, folder).startswith("allow ['length'")
