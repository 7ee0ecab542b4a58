"""Measure recursion: the closure of an acyclic graph, and a long chain.

The module holds the rules, the facts and SQLite's query.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable

from datalog_gate.base.values import Row

CLOSURE = """
relation edge(a: number, b: number).
path(a, b) :- edge(a, b).
path(a, c) :- path(a, b), edge(b, c).
"""
CHAIN = """
relation edge(a: number, b: number).
reached(b) :- edge(0, b).
reached(c) :- reached(b), edge(b, c).
"""
SELECT = """
WITH RECURSIVE reached(b) AS (
  SELECT b FROM edge WHERE a = 0 UNION SELECT edge.b FROM reached JOIN edge ON edge.a = reached.b
) SELECT b FROM reached
"""


def graph(nodes: int = 2000, edges: int = 6000, reach: int = 45, seed: int = 49) -> list[Row]:
    """Random edges, each from a node to one of the next few, so that nearly every node reaches all later ones."""
    draw = random.Random(seed)
    graph: dict[Row, None] = {}
    while len(graph) < edges:
        a = draw.randrange(nodes)
        b = a + draw.randint(1, reach)
        if b < nodes:
            graph[a, b] = None
    return list(graph)


def chain(length: int = 10_000) -> list[Row]:
    """A chain of edges from node 0."""
    return [(at, at + 1) for at in range(length)]


def database(edges: Iterable[Row]) -> sqlite3.Connection:
    """The edges in SQLite, with the index that the query needs."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE edge (a INTEGER, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID")
    connection.executemany("INSERT INTO edge VALUES (?, ?)", edges)
    return connection


def reached(edges: sqlite3.Connection) -> list[Row]:
    """The nodes that SQLite reaches from 0."""
    return edges.execute(SELECT).fetchall()
