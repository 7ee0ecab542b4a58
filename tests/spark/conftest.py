"""Stacks that Apache Spark judges, in the environment `spark` alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from datalog_gate.engine.sql.database import Database
from tests.scan.conftest import server  # noqa: F401

collect_ignore_glob = [] if os.environ.get("DATALOG_GATE_SPARK") else ["test_*.py"]


@pytest.fixture(scope="session")
def session() -> Iterator[object]:
    """Spark in two threads of a JVM."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("no Java runtime is here: apt-get install default-jre-headless")
    from datalog_gate.engine.sql.spark import open_session

    with open_session(2) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session


@pytest.fixture
def database(session: object) -> Iterator[Database]:
    from datalog_gate.engine.sql.spark import Spark

    with Spark(session) as database:
        yield database
