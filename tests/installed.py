"""A Heat with the gate, set up as docs/install.md says.

Its files are below a folder that stands for the root. `moved` puts the folder's paths into a text of the page, and a
command's output shows those of the page.
"""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from oslo_config import cfg

from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.operation import Operation
from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.doors.cli.doctor.engines import ENGINE_FOLDER
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.plugins.plugin_errors import RefusedError
from datalog_gate.services.approval import Approval
from datalog_gate.services.conformance import asked
from datalog_gate.services.journal import Journal
from tests.commands import read_conf
from tests.pages import DOCS
from tests.unit.doors.cli.test_doctor import PASTE

INSTALL = (DOCS / "install.md").read_text("utf-8")
FILE = re.compile(r"`(/etc/heat/[^`]*)`[^`\n]*(?:\n[^`\n]+)*\n\n```\w+\n(.*?)```", re.S)
"""A file that the page shows, after the paragraph that names it last."""
ROOT = re.compile(r"(?<!\w)/(?=(?:etc|var/log|var/lib)/heat)")
NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
MEMBER = {"user_id": "u-ann", "project_id": "p-shop", "roles": ["member"]}
TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  web: {type: OS::Nova::Server, properties: {image: debian, flavor: FLAVOR}}
"""


def install(folder: Path) -> cfg.ConfigOpts:
    """Write the files of the page and log two creations. Return the options of heat.conf."""
    files = dict(FILE.findall(INSTALL))
    files["/etc/heat/api-paste.ini"] += PASTE[PASTE.index("[app:") : PASTE.index("[filter:datalog_gate]")]
    (folder / "var/log/heat").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name[1:]
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_text(moved(content, folder))
        path.chmod(0o644)
    with (folder / "etc/heat/heat.conf").open("a") as heat_conf:  # what section 5 has its reader add
        heat_conf.write(f"[DEFAULT]\nplugin_dirs = {ENGINE_FOLDER}\n[datalog_gate]\n")
    conf = read_conf(folder / "etc/heat/heat.conf")
    point = DecisionPoint(build_settings(conf), Entitlements(conf, ()), now=lambda: NOW)
    for name, flavor in (("web", "m1.huge"), ("db", "m1.tiny")):
        definition = StackDefinition(TEMPLATE.replace("FLAVOR", flavor))
        point.judge(Operation("api", "create", name, "p-shop", lambda body=definition: body, MEMBER))  # type: ignore[misc]
    point.flush()
    return conf


def grant(folder: Path) -> None:
    """Add the services of the page to heat.conf and a request that awaits approval."""
    blocks = re.findall(r"```ini\n(.*?)```", INSTALL, re.S)
    [section] = [moved(block, folder) for block in blocks if "services = edge" in block]
    with (folder / "etc/heat/heat.conf").open("a") as conf:
        conf.write(section.partition("\n")[2])
    (folder / "var/lib/heat").mkdir(parents=True)
    [store] = re.findall(r"store = (.*)", section)
    Journal(str(folder / "var/lib/heat/journal"))
    with suppress(RefusedError):
        Approval({"store": store}).reserve(asked("approval", "u", "db", type="T"))


def moved(text: str, folder: Path) -> str:
    """Replace the root by the folder in the text."""
    return ROOT.sub(f"{folder}/", text)


def on_site(text: str, folder: Path) -> str:
    """As `moved`; a file that the text names is written."""
    if ROOT.search(text):
        install(folder)
        if text.startswith(("services", "store", "inventory")):
            grant(folder)
    return moved(text, folder)


def off_site(text: str, folder: Path) -> str:
    """Replace the folder by the root in an output."""
    return text.replace(str(folder), "").replace(f" {socket.gethostname()} has had ", " api-1 has had ")
