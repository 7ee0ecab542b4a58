"""Files at URLs: from folders, over HTTP, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from tests.commands import run, write_files
from tests.servers import serving

HEAD = "heat_template_version: 2018-08-31\nresources: "
SERVED = {
    "/t/web.yaml": HEAD + "{s: {type: sub/net.yaml}, f: {type: OS::Heat::Value, properties: {value: {get_file: f}}}}",
    "/t/sub/net.yaml": HEAD + "{n: {type: OS::Neutron::Net, properties: {name: far}}}",
    "/t/f": "text",
    "/t/large.yaml": HEAD + "{}" + "\n" * 500,
    "/t/binary.yaml": "\udcff",
}
NETS = ["facts", "t.yaml", "--relation", "os:neutron:net"]
FOUND = "os:neutron:net(_id=t/w/s/n, "


class Handler(BaseHTTPRequestHandler):
    requested: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requested.append(self.path)
        text = SERVED.get(self.path)
        self.send_response(404 if text is None else 200)
        self.end_headers()
        self.wfile.write((text or "").encode("utf-8", "surrogateescape"))

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server, which the template names."""
    monkeypatch.chdir(tmp_path)
    Handler.requested.clear()
    server = HTTPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        address = f"http://127.0.0.1:{server.server_port}/t"
        write_template(f"{address}/web.yaml")
        yield address


def write_template(url: str) -> None:
    Path("t.yaml").write_text(f"{HEAD}{{w: {{type: '{url}'}}}}\n")


def test_a_url_is_read_only_if_that_is_asked_for(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "check", "t.yaml")[1]
    assert f"the template at {url}/web.yaml was not read" in out
    assert [word in out for word in ("--fetch", "[sources]")] == [True, True]
    assert Handler.requested == []
    assert run(capsys, *NETS, "--fetch")[1].startswith(FOUND)
    assert sorted(Handler.requested) == ["/t/f", "/t/sub/net.yaml", "/t/web.yaml"]


def test_a_folder_holds_the_files_of_a_url(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    vendored = {f"vendor{name}": text for name, text in SERVED.items() if "binary" not in name}
    vendored["vendor/t/sub/net.yaml"] += "\n# here\n"
    write_files(Path(), {**vendored, "app/t.yaml": Path("t.yaml").read_text(), "datalog-gate.toml": "[sources]\n"
                f'"http://127.0.0.1" = "app"\n"{url.removesuffix("/t")}" = "app"\n"{url}" = "vendor/t"\n'})  # fmt: skip
    code, out, err = run(capsys, "facts", "app/t.yaml", "--relation", "os:neutron:net")
    assert (code, out.split("   ")[-1], err) == (0, "vendor/t/sub/net.yaml:2:53\n", "")
    assert Handler.requested == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.yaml", "can't be read: 404 Not Found"),
        ("binary.yaml", "can't be read: UnicodeDecodeError"),
        ("large.yaml", "has more than 400 bytes"),
    ],
)
def test_what_a_url_does_not_give_is_an_error_at_its_name(
    name: str, message: str, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datalog_gate.files.downloads.MAX_BYTES", 400)
    write_template(f"{url}/{name}")
    code, out, err = run(capsys, "check", "t.yaml", "--fetch")
    assert (code, out, "t.yaml:2:" in err, f"{url}/{name} {message}" in err) == (3, "", True, True)


@pytest.mark.usefixtures("url")
def test_a_stack_reads_only_so_many_urls(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datalog_gate.files.downloads.MOST_URLS", 2)
    code, _, err = run(capsys, "check", "t.yaml", "--fetch")
    assert (code, "was not read: the stack names more than 2 URLs" in err) == (3, True)
    assert len(Handler.requested) == 2


def test_a_download_ends_after_ten_seconds(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datalog_gate.files.downloads.time", SimpleNamespace(monotonic=count(step=11).__next__))
    code, _, err = run(capsys, "check", "t.yaml", "--fetch")
    assert (code, f"{url}/web.yaml can't be read: it took more than 10 seconds" in err) == (3, True)


def test_https_needs_a_server_with_a_certificate(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"{url}/web.yaml".replace("http:", "https:")
    write_template(address)
    code, _, err = run(capsys, "check", "t.yaml", "--fetch")
    assert (code, f"{address} can't be read: SSLError" in err, Handler.requested) == (3, True, [])
