"""README's picture of a terminal shows what commands print."""

from __future__ import annotations

import re
import shutil
import sys
from html import escape
from pathlib import Path

import pytest

from datalog_gate.doors.cli.colours import CYAN, GREEN, MAGENTA, RED, YELLOW
from datalog_gate.doors.cli.main import main
from tests.pages import assert_written
from tests.sources import ROOT

PICTURE = ROOT / "docs" / "pictures" / "check.svg"
WIDTH, HEIGHT, MARGIN = 8.43, 20, 16
"""Of a character and a line, and around them, in pixels."""
TYPING, READING, PAUSE = 0.04, 3.0, 0.5
"""Seconds for a letter of a command, and before the next command if one printed something, or nothing."""
FILLS = {RED: "#ff7b72", GREEN: "#7ee787", YELLOW: "#e3b341", MAGENTA: "#d2a8ff", CYAN: "#79c0ff"}
_PAINTED = re.compile("\x1b\\[1;(\\d+)m(.*?)\x1b\\[0m")
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">
<title>datalog-gate denies a template, and allows it once its hint is followed</title>
<style>
text {{ font: 14px ui-monospace, monospace; fill: #c9d1d9; white-space: pre }}
g {{ animation: show 0s both }}
@keyframes show {{ from {{ opacity: 0 }} }}
@media (prefers-reduced-motion) {{ g {{ animation: none }} }}
</style>
<rect width="100%" height="100%" rx="6" fill="#0d1117"/>
"""


def test_the_picture_shows_what_the_commands_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    web = Path("bastion.yaml")
    shutil.copyfile(ROOT / "fixtures" / "stacks" / "bastion" / "template.yaml", web)
    shown = []
    for command, edit in (
        (f"datalog-gate check {web}", None),
        (f"sed -i s,0.0.0.0/0,10.0.0.0/16, {web}", ("0.0.0.0/0", "10.0.0.0/16")),
        (f"datalog-gate check {web}", None),
    ):
        if edit:
            web.write_text(web.read_text().replace(*edit))
        else:
            main([*command.split()[1:], "--rules", str(ROOT / "rules")])
        shown.append((command, capsys.readouterr().out))
    assert_written(PICTURE, draw(shown))


def draw(commands: list[tuple[str, str]]) -> str:
    """Draw commands with what each printed, which appear one after the other."""
    began, lines = 0.5, []
    for command, printed in commands:
        lines.append((began, f"$ {escape(command)}"))
        began += len(command) * TYPING
        lines += [(began, _PAINTED.sub(paint, escape(line, quote=False))) for line in printed.splitlines()]
        began += READING if printed else PAUSE
    rows = [
        f'<g style="animation-delay: {at:.1f}s"><text x="{MARGIN}" y="{MARGIN + HEIGHT * number}">{line}</text></g>\n'
        for number, (at, line) in enumerate(lines, 1)
    ]
    longest = max(
        len(line) for command, printed in commands for line in (command, *_PAINTED.sub(r"\2", printed).splitlines())
    )
    head = HEAD.format(width=WIDTH * longest + 2 * MARGIN, height=HEIGHT * (len(rows) + 1) + MARGIN)
    return f"{head}{''.join(rows)}</svg>\n"


def paint(match: re.Match[str]) -> str:
    """Paint what the terminal shows in a colour."""
    return f'<tspan fill="{FILLS[int(match[1])]}" font-weight="bold">{match[2]}</tspan>'
