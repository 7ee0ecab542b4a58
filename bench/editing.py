"""Measure what an edit in an editor costs.

A template is judged by all packs, a rule file checked with what it reads.

python -m bench.editing [EDITS]
"""

from __future__ import annotations

import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path

import yaml

from bench.run import ROOT
from bench.templates import attached
from datalog_gate.editing.workspace import Workspace

WARM = 20
"""Edits before those that count."""


def main(edits: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        shutil.copytree(ROOT / "rules", root / "rules")
        template = root / "template.yaml"
        template.write_text(large_template(100))
        rules = sorted((root / "rules").rglob("*.dl"), key=lambda path: path.stat().st_size)
        workspace = Workspace(root)
        print(
            f"| {edits} edits, each with its check | CPU median ms | max ms | MB more at the end |\n|---|---|---|---|"
        )
        measure("a template of 100 resources", [template], edits, workspace, workspace.judge)
        measure("the files of all packs in turn", rules, edits, workspace, workspace.check_pack)
        largest = f"the largest of them, {rules[-1].relative_to(root)}"
        measure(largest, rules[-1:], edits, workspace, workspace.check_pack)


def large_template(resources: int) -> str:
    """A template of servers and volumes."""
    body = attached(resources)
    return yaml.safe_dump(body | {"resources": dict(islice(body["resources"].items(), resources))}, sort_keys=False)


def measure(
    title: str, paths: Sequence[Path], edits: int, workspace: Workspace, check: Callable[[Path], object]
) -> None:
    """Print the times of edits that each write a letter into a word of the next file, and what memory they leave."""
    texts = {path: path.read_text() for path in paths}
    chance = random.Random(0)
    times, before = [], 0
    for number, path in zip(range(WARM + edits), cycle(paths), strict=False):
        text = texts[path]
        at = chance.choice([at for at, letter in enumerate(text) if letter.isalpha()])
        began = time.process_time()
        workspace.edit(path, f"{text[:at]}x{text[at:]}")
        check(path)
        times.append((time.process_time() - began) * 1000)
        workspace.edit(path, text)
        if number == WARM:
            before = peak()
    counted = times[WARM:]
    print(f"| {title} | {statistics.median(counted):.1f} | {max(counted):.1f} | {(peak() - before) / 1024:.1f} |")


def peak() -> int:
    """The most memory that the process held, in KB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
