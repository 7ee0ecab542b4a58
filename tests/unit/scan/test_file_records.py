"""A folder with recorded files is read as one without."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from datalog_gate.base.errors import InputError
from datalog_gate.engine.sql.database import open_database
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.lines import write
from datalog_gate.files.discovery import FileRecord
from datalog_gate.scan.feed import Item, StackEntry, Unchanged, read
from datalog_gate.scan.folder_feed import FolderFeed
from datalog_gate.scan.scan_run import Judges, run
from datalog_gate.scan.scan_store import TABLES, ScanStore
from datalog_gate.schema.catalogue import SHIPPED
from tests.sampling import sample
from tests.unit.scan.test_scan import request

HOT = "heat_template_version: 2018-08-31\n"
RULE = '@warn("any", "{server} is {flavor}")\nany(server, flavor) :- os:nova:server(_id=server, flavor=flavor).\n'
SERVER = f"{HOT}parameters: {{p: {{type: string, default: d}}}}\nresources: {{vm: {{type: OS::Nova::Server, "
CONTENTS = {
    "web.yaml": [
        SERVER + "properties: {flavor: {get_param: p}, user_data: {get_file: run.sh}}}}",
        SERVER + "properties: {flavor: {get_param: p}, user_data: {get_file: run.zz}}}}",
        f"{HOT}resources: {{part: {{type: part.yaml}}}}",
        f"{HOT}resources: {{part: {{type: Site}}}}",
        "resources: [",
    ],
    "web.env": ["parameters: {p: one}", "parameters: {p: two}", "resource_registry: {Site: deep/part.yaml}"],
    "part.yaml": [SERVER + "properties: {flavor: a}}}", SERVER + "properties: {flavor: b}}}", "no: template"],
    "run.sh": ["one", "two", "more"],
}
CONTENTS |= {
    "run.zz": CONTENTS["run.sh"],
    "deep/part.yaml": CONTENTS["part.yaml"],
    "deep/web.yaml": CONTENTS["web.yaml"],
}
HIDDEN = (".first", ".second")
"""What stands, or stood, in the place of the folder `deep`: one of them is missing while that is no link."""
PAUSES = (0, 0, 10**6, 3 * 10**8, 9 * 10**8, 10**9, 25 * 10**8, 10**10, 10**11)
SECOND = 1_000_000_000


@dataclass
class Disk:
    """A folder on a file system whose clock has a grain, in nanoseconds as all times."""

    folder: Path
    grain: int
    now: int = 1_800_000_000 * SECOND
    times: dict[int, tuple[int, int]] = field(default_factory=dict)
    """`mtime` and `ctime` by inode."""

    def status(self, real: os.stat_result) -> os.stat_result:
        mtime, ctime = self.times.get(real.st_ino, (0, 0))
        return os.stat_result(real[:10], {"st_mtime_ns": mtime, "st_ctime_ns": ctime})

    def touch(self, path: Path, mtime: int | None = None) -> None:
        now = self.now // self.grain * self.grain
        self.times[path.stat().st_ino] = now if mtime is None else mtime, now

    def change(self, random: Random) -> None:
        """Do something to a file or a folder, then wait."""
        name = random.choice([*CONTENTS])
        path, other = self.folder / name, self.folder / random.choice([*CONTENTS])
        text = random.choice(CONTENTS[name])
        match random.randrange(9):
            case 0 | 1 if not path.is_symlink() or path.exists():
                path.write_text(text)
                self.touch(path)
            case 2 if path.exists():
                before, _ = self.times[path.stat().st_ino]
                path.write_text(text)
                self.touch(path, random.choice([before, before, self.now + 10**12]))
            case 3:
                new = self.folder / "new"
                new.write_text(text)
                self.touch(new)
                new.replace(path)
            case 4 if path.exists() and not path.is_symlink():
                inode_keeps_its_times = random.random() < 0.3
                path.replace(other)
                if not inode_keeps_its_times:
                    self.touch(other, self.times[other.stat().st_ino][0])
            case 5:
                path.unlink(missing_ok=True)
                path.symlink_to(os.path.relpath(other, path.parent))
            case 6 if other.is_file() and other != path and not other.is_symlink():
                path.unlink(missing_ok=True)
                path.hardlink_to(other)
                self.touch(other, self.times[other.stat().st_ino][0])
            case 7:
                path.unlink(missing_ok=True)
            case 8:
                self.exchange_folders(random)
        self.now += random.choice(PAUSES)

    def exchange_folders(self, random: Random) -> None:
        """Put one of the hidden folders, or a link to it, in the place of the other folder."""
        folder, hidden = self.folder / "deep", [self.folder / name for name in HIDDEN]
        if folder.is_symlink():
            folder.unlink()
        else:
            folder.rename(next(path for path in hidden if not path.exists()))
        if random.random() < 0.5:
            folder.symlink_to(random.choice(HIDDEN))
        else:
            random.choice(hidden).rename(folder)


@dataclass
class Memory:
    """What is known of a folder: the listing of each root, what its facts are or why it can't be read, and records."""

    roots: dict[str, tuple[str | None, list[str]]] = field(default_factory=dict)
    records: dict[str, FileRecord] = field(default_factory=dict)
    trusted: int = 0

    def scan(self, folder: Path) -> None:
        feed = FolderFeed(folder, {root: listing for root, (listing, _) in self.roots.items()}, {}, self.records)
        found = {item.root: self.roots[item.root] if isinstance(item, Unchanged) else judge(item) for item in feed}
        self.roots = found
        self.trusted += len(self.records.keys() - feed.changed.keys())
        self.records = {name: record for name, record in {**self.records, **feed.changed}.items() if record}


def judge(item: Item) -> tuple[str | None, list[str]]:
    assert isinstance(item, StackEntry)
    try:
        return item.listing, list(write(flatten(read(item), SHIPPED)))
    except InputError as error:
        return item.listing, [repr(diagnostic) for diagnostic in error.diagnostics]


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Disk]]:
    """A function that makes the disk of a seed the only one."""
    stat, fstat = os.stat, os.fstat

    def make(seed: int) -> Disk:
        disk = Disk(tmp_path / str(seed), Random(seed).choice([1, 4_000_000, SECOND, 2 * SECOND]))
        for name in ("deep", HIDDEN[0]):
            (disk.folder / name).mkdir(parents=True)
        patched.setattr(os, "stat", lambda path, **more: disk.status(stat(path, **more)))
        patched.setattr(os, "fstat", lambda file: disk.status(fstat(file)))
        patched.setattr(time, "time_ns", lambda: disk.now)
        return disk

    with monkeypatch.context() as patched:
        yield make


@pytest.mark.sampled
@pytest.mark.timeout(300)
def test_after_any_history_a_folder_is_known_as_after_a_reading_from_nothing(disks: Callable[[int], Disk]) -> None:
    trusted = 0
    for seed in range(sample(3000)):
        random, disk, memory, fresh = Random(seed), disks(seed), Memory(), Memory()
        for _ in range(random.randrange(2, 6)):
            for _ in range(random.randrange(1, 5)):
                disk.change(random)
            memory.scan(disk.folder)
        fresh.scan(disk.folder)
        assert memory.roots == fresh.roots, seed
        trusted += memory.trusted
        rmtree(disk.folder)
    assert trusted > sample(3000) / 2  # or the records would be of no use


def test_a_file_that_one_of_its_size_and_times_replaces_is_read_again(disks: Callable[[int], Disk]) -> None:
    disk, memory, fresh = disks(0), Memory(), Memory()
    for name, text in zip(("web.yaml", "part.yaml"), CONTENTS["part.yaml"], strict=False):
        (disk.folder / name).write_text(text)
        disk.touch(disk.folder / name)
    disk.now += 10 * SECOND
    memory.scan(disk.folder)
    (disk.folder / "part.yaml").replace(disk.folder / "web.yaml")
    memory.scan(disk.folder)
    fresh.scan(disk.folder)
    assert memory.roots == fresh.roots


@pytest.mark.sampled
@pytest.mark.timeout(300)
def test_after_any_history_the_store_is_that_of_a_run_from_nothing(disks: Callable[[int], Disk]) -> None:
    for seed in range(sample(60)):
        random, disk = Random(seed), disks(seed)
        with open_database() as first, open_database() as second:
            store, fresh = ScanStore(first), ScanStore(second)
            for _ in range(3):
                for _ in range(random.randrange(1, 5)):
                    disk.change(random)
                scan(disk.folder, store)
            scan(disk.folder, fresh)
            assert contents(store) == contents(fresh), seed


def scan(folder: Path, store: ScanStore) -> None:
    asked = request(text=RULE)
    known = {root: stack.listing for root, stack in store.known("folder").items()}
    feed = FolderFeed(folder, known, {}, store.file_records("folder"))
    run(feed, "folder", store, Judges(asked, 1), asked)
    store.write_file_records("folder", feed.changed)


def contents(store: ScanStore) -> dict[str, list[str]]:
    """All that a store has, but for resolved findings, and for what it keeps of stacks that can't be read now."""
    definitions = store.database.connection.execute("FROM definition").fetchall()
    unread = {row[0] for row in definitions if row[[*TABLES["definition"]].index("unread")]}
    rows = {
        "definition": definitions,
        "finding": [finding for finding in store.findings() if finding.root not in unread],
        "unfit": [row for row in store.unfit() if row[0] not in unread],
        **{name: [row for row in store.facts(name) if row[0] not in unread] for name in store.relations()},
    }
    return {name: sorted(map(repr, found)) for name, found in rows.items() if found}
