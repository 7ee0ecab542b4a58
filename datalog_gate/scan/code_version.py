"""The versions of the code that reads and judges stacks.

They are digests of modules without comments on lines of their own and without docstrings, so that a stack is not judged
again after an edit that changes no meaning. A test holds the lists against what the modules import, and what counts as
prose against Python's parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path

from datalog_gate.schema.catalogue import Catalogue

PACKAGE = Path(__file__).parents[1]
FACT_MODULES = (
    *("base/*", "schema/*", "stack/*", "template/**/*", "facts/*", "engine/sql/tables"),
    *("files/stack_definition", "files/templates", "files/url_sources", "scan/feed", "scan/stored_facts"),
)
"""The modules that make the facts of a stack."""
JUDGING_MODULES = (
    "language/**/*",
    "analysis/**/*",
    "engine/*",
    "decision/*",
    "files/inputs",
    "scan/batch",
    "scan/code_version",
)
"""The other modules that judge a stack by itself."""
_PROSE = re.compile(r'^(?P<indent>[ \t]*)(?:#[^\n]*\n|r?"""(?:[^"\\]|\\.|"(?!""))*"""(?=\n))', re.MULTILINE | re.DOTALL)


@cache
def facts_version(catalogue: Catalogue) -> str:
    """The digest of all that determines how a stack is read and flattened, besides the stack: the code, the types, and
    the relations that it fills."""
    texts = [code_digest(PACKAGE, FACT_MODULES)]
    for name in catalogue.names():
        columns = catalogue.declared(name).columns
        texts.append(f"{name} {' '.join(f'{column.name}:{int(column.kinds)}' for column in columns)}")
    texts += [repr(catalogue.type(name)) for name in catalogue.types()]
    return sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


@cache
def judging_version() -> str:
    """The digest of the code that determines the findings in facts."""
    return code_digest(PACKAGE, JUDGING_MODULES)


def code_digest(package: Path, patterns: Iterable[str]) -> str:
    """The digest of the modules below a folder that match a pattern, without their prose."""
    paths = sorted({path for pattern in patterns for path in package.glob(f"{pattern}.py")})
    texts = [f"{path.relative_to(package)}\n{strip_prose(path.read_text('utf-8'))}" for path in paths]
    return sha256("\n".join(texts).encode()).hexdigest()


def strip_prose(text: str) -> str:
    """The text of a module with empty docstrings, and without comments on lines of their own."""
    return _PROSE.sub(lambda match: "" if match[0].lstrip().startswith("#") else f'{match["indent"]}""', text)
