"""The job of three rules in other engines.

Each engine takes the same JSON text and gives the same violations.

Each is loaded once and keeps its policy, as ours does. What it cannot keep between requests is built for each one.
An engine that is not installed is missing.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.job import Violation

Job = Callable[[str], set[Violation]]

REGO = """
package job

import rego.v1

resources := input.template.resources

servers := {name | some name, resource in resources; resource.type == "OS::Nova::Server"}

violations contains ["job.group", name] if {
	some name in servers
	not resources[name].properties.security_groups
}

violations contains ["job.many", count(servers)] if count(servers) > 100

violations contains ["job.zone", name] if {
	some name, resource in resources
	resource.type == "OS::Cinder::VolumeAttachment"
	server := resources[resource.properties.instance_uuid.get_resource]
	volume := resources[resource.properties.volume_id.get_resource]
	server.properties.availability_zone != volume.properties.availability_zone
}
"""

ASP = """
violation("job.group", Server) :- server(Server, _), not grouped(Server).
violation("job.many", N) :- N = #count { Server : server(Server, _) }, N > 100.
violation("job.zone", Attachment) :- attachment(Attachment, Server, Volume), server(Server, A), volume(Volume, B),
    A != B.
#show violation/2.
"""

TABLES = """
CREATE TABLE server (name TEXT PRIMARY KEY, zone TEXT, grouped INTEGER);
CREATE TABLE volume (name TEXT PRIMARY KEY, zone TEXT);
CREATE TABLE attachment (name TEXT PRIMARY KEY, server TEXT, volume TEXT);
"""
SQL = """
SELECT 'job.group', name FROM server WHERE NOT grouped
UNION ALL SELECT 'job.many', count(*) FROM server HAVING count(*) > 100
UNION ALL SELECT 'job.zone', attachment.name FROM attachment
  JOIN server ON server.name = attachment.server JOIN volume ON volume.name = attachment.volume
  WHERE server.zone != volume.zone
"""

OPA = "opa-golib-python-bindings"
LIBRARY = Path(sys.prefix) / "opa" / "opa_bindings" / "libopabridge.so"
"""OPA itself. Its package needs a newer Python than this one may be, but its library does not: see tox.ini."""


def plain() -> Job:
    """A script of three loops: the least cost of the job."""

    def job(text: str) -> set[Violation]:
        resources = json.loads(text)["template"]["resources"]
        violations: set[Violation] = set()
        servers = 0
        for name, resource in resources.items():
            properties = resource["properties"]
            if resource["type"] == "OS::Nova::Server":
                servers += 1
                if not properties.get("security_groups"):
                    violations.add(("job.group", name))
            elif resource["type"] == "OS::Cinder::VolumeAttachment":
                server = resources[properties["instance_uuid"]["get_resource"]]["properties"]
                volume = resources[properties["volume_id"]["get_resource"]]["properties"]
                if server["availability_zone"] != volume["availability_zone"]:
                    violations.add(("job.zone", name))
        if servers > 100:
            violations.add(("job.many", servers))
        return violations

    return job


def sqlite() -> Job:
    """Tables in memory, emptied after each request."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)

    def job(text: str) -> set[Violation]:
        with connection:
            rows = _rows(text)
            connection.executemany("INSERT INTO server VALUES (?, ?, ?)", rows["server"])
            connection.executemany("INSERT INTO volume VALUES (?, ?)", rows["volume"])
            connection.executemany("INSERT INTO attachment VALUES (?, ?, ?)", rows["attachment"])
            violations = set(connection.execute(SQL))
            for table in rows:
                connection.execute(f"DELETE FROM {table}")
        return violations

    return job


def opa() -> Job:
    """OPA's own engine. It prepares the query once, and takes the text as it is."""
    library = ctypes.CDLL(str(LIBRARY))
    library.OpaNew.restype = ctypes.c_uint64
    library.OpaFreeString.argtypes = [ctypes.c_void_p]
    library.OpaAddPolicy.restype = library.OpaEvalDocument.restype = ctypes.c_void_p
    library.OpaAddPolicy.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p]
    library.OpaEvalDocument.argtypes = [*library.OpaAddPolicy.argtypes, ctypes.c_int, ctypes.c_int]

    def taken(pointer: int) -> Any:
        answer = json.loads(ctypes.string_at(pointer))
        library.OpaFreeString(pointer)
        if answer.get("error"):
            raise RuntimeError(answer["error"])
        return answer.get("result")

    engine = library.OpaNew()
    taken(library.OpaAddPolicy(engine, b"job.rego", REGO.encode()))

    def job(text: str) -> set[Violation]:
        result = taken(library.OpaEvalDocument(engine, b"job.violations", text.encode(), 0, 0))
        return _pairs(result[0]["expressions"][0]["value"])

    return job


def regorus() -> Job:
    """A Rego engine in Rust."""
    import hobofan_regorus

    engine = hobofan_regorus.Engine()
    engine.add_policy("job.rego", REGO)

    def job(text: str) -> set[Violation]:
        engine.set_input_json(text)
        return _pairs(json.loads(engine.eval_rule_as_json("data.job.violations")))

    return job


def opa_eval() -> Job:
    """The same engine in another package."""
    import opa_eval

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.rego"
        path.write_text(REGO)
        engine = opa_eval.OpaEval(str(path), query="data.job.violations")
    return lambda text: _pairs(json.loads(engine.evaluate(text)))


def clingo() -> Job:
    """An answer set solver. Facts can't be removed, so each request has a solver of its own."""
    import clingo

    def facts(rows: dict[str, list[Any]]) -> Iterator[str]:
        for name, zone, grouped in rows["server"]:
            yield f"server({_quoted(name, zone)})."
            if grouped:
                yield f"grouped({_quoted(name)})."
        for relation in ("volume", "attachment"):
            for row in rows[relation]:
                yield f"{relation}({_quoted(*row)})."

    def job(text: str) -> set[Violation]:
        control = clingo.Control(["--warn=none"])
        control.add("base", [], ASP + "\n".join(facts(_rows(text))))
        control.ground([("base", [])])
        violations: set[Violation] = set()

        def take(model: Any) -> None:
            for atom in model.symbols(shown=True):
                policy, blamed = atom.arguments
                number = blamed.type == clingo.SymbolType.Number
                violations.add((policy.string, blamed.number if number else blamed.string))

        control.solve(on_model=take)
        return violations

    return job


def pydatalog() -> Job:
    """pyDatalog, with rules and facts as objects of its engine, since it would run text as Python. Python counts."""
    from pyDatalog import Logic, pyEngine

    def literal(name: str, *terms: object) -> Any:
        """Terms that start with a capital letter in a rule are its variables."""
        return pyEngine.Literal(
            name, [pyEngine.Var(term) if str(term).isupper() else pyEngine.Const(term) for term in terms]
        )

    def clause(head: Any, *body: Any) -> None:
        pyEngine.assert_(pyEngine.Clause(head, list(body)))  # noqa: PT009

    def job(text: str) -> set[Violation]:
        Logic()
        rows = _rows(text)
        for relation in ("volume", "attachment"):
            for row in rows[relation]:
                clause(literal(relation, *row))
        for name, zone, grouped in rows["server"]:
            clause(literal("server", name, zone))
            if grouped:
                clause(literal("grouped", name))
        clause(literal("open", "S"), literal("server", "S", "Z"), literal("~grouped", "S"))
        clause(
            literal("apart", "N"),
            literal("attachment", "N", "S", "V"),
            literal("server", "S", "A"),
            literal("volume", "V", "B"),
            literal("!=", "A", "B"),
        )
        violations: set[Violation] = {("job.group", name) for (name,) in literal("open", "S").ask() or ()}
        violations |= {("job.zone", name) for (name,) in literal("apart", "N").ask() or ()}
        servers = len(literal("server", "S", "Z").ask() or ())
        return violations | ({("job.many", servers)} if servers > 100 else set())

    return job


PEERS: dict[str, tuple[str, Callable[[], Job]]] = {
    "plain Python": ("", plain),
    "SQLite": ("", sqlite),
    "OPA": (OPA, opa),
    "regorus (hobofan-regorus)": ("hobofan_regorus", regorus),
    "regorus (opa-eval)": ("opa_eval", opa_eval),
    "clingo": ("clingo", clingo),
    "pyDatalog": ("pyDatalog", pydatalog),
}
"""The package of each peer, and the function that loads it."""


def installed() -> dict[str, Job | None]:
    """Load the peers; None for a missing one."""
    jobs: dict[str, Job | None] = {}
    for name, (package, load) in PEERS.items():
        is_installed = LIBRARY.is_file() if package == OPA else not package or importlib.util.find_spec(package)
        jobs[name] = load() if is_installed else None
    return jobs


def version_of(name: str) -> str:
    """The version of a peer's package."""
    package = PEERS[name][0]
    if name == "SQLite":
        return sqlite3.sqlite_version
    if not package:
        return sys.version.split()[0]
    try:
        return version(package)
    except PackageNotFoundError:
        beside = LIBRARY.parents[1].glob(f"{OPA.replace('-', '_')}-*.dist-info")
        return next((path.name.split("-")[1].removesuffix(".dist") for path in beside), "?")


def _rows(text: str) -> dict[str, list[Any]]:
    """The rows of three tables, for engines that do not read documents."""
    rows: dict[str, list[Any]] = {"server": [], "volume": [], "attachment": []}
    for name, resource in json.loads(text)["template"]["resources"].items():
        properties = resource["properties"]
        match resource["type"]:
            case "OS::Nova::Server":
                grouped = int(bool(properties.get("security_groups")))
                rows["server"].append((name, properties["availability_zone"], grouped))
            case "OS::Cinder::Volume":
                rows["volume"].append((name, properties["availability_zone"]))
            case "OS::Cinder::VolumeAttachment":
                server, volume = properties["instance_uuid"], properties["volume_id"]
                rows["attachment"].append((name, server["get_resource"], volume["get_resource"]))
    return rows


def _quoted(*names: str) -> str:
    return ",".join(map(json.dumps, names))


def _pairs(pairs: Iterable[Any]) -> set[Violation]:
    return {(policy, blamed) for policy, blamed in pairs}
