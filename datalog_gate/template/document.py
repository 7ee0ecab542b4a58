"""YAML and JSON documents as plain data with places.

Scalars are as in Heat's own loader (heat/common/template_format.py). Depth, size and aliases are limited.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Unknown
from datalog_gate.stack.model import Data, Locate, Path

MAX_STEPS = 2_000_000
"""The maximum number of steps of a reading, each half a microsecond of work or a whole one: a part that a function
creates, sixteen characters of text, a look at a mapping of the registry. What takes longer counts as several."""
TOO_MUCH = f"too much work to read: more than {MAX_STEPS:,} steps"
MAX_CHARACTERS = 4_000_000
MAX_NODES = 500_000
"""The maximum number of parts of a document, with aliases expanded."""
MAX_DEPTH = 60
PER_EVENT, PER_VALUE = 4, 4
"""The steps of reading an event of YAML, and those more of a number or another scalar that is no text."""
PER_STEP = 64
"""The characters of JSON that are read in a step, besides its parts."""
BETWEEN_CHECKS = 1000
"""The number of steps after which the budget is looked at."""
PLACES = 1_000_000
"""The maximum number of steps of finding the places in a JSON text, which has none if it is larger."""
MAX_NUMBER = 400
"""The maximum number of characters of a number, since YAML's base 60 takes quadratic time."""

Spend = Callable[[int], None]
"""Takes steps from the budget of the reading. Errors: InputError if none are left."""
Node = tuple[int, int, int, int, Any]
"""Start line and column, end line and column (from 0), and what is within: the text of a scalar, a list of nodes, or a
dict from key to the nodes of key and value."""
_TAG = "tag:yaml.org,2002:"
_MERGE = object()


@dataclass(slots=True)
class Document:
    """Parsed text. `root` is its node; for JSON it is built only when a place is needed."""

    file: str
    text: str | None
    data: Data
    root: Node | None = None
    has_paths: bool = False
    """Whether data without text still has places: its paths."""
    repeated: tuple[Diagnostic, ...] = ()
    """Warnings of keys that a mapping has twice."""
    other_keys: bool = False
    """Whether YAML has keys that are no texts."""
    misspelt: dict[Path, str] = field(default_factory=dict, repr=False)
    """The keys as written, by the path with the key that was meant."""
    _asked: bool = field(default=False, repr=False)
    _same: Document | None = field(default=None, repr=False)
    """The document of the same text that has the nodes."""

    def named(self, file: str) -> Document:
        """The same document as that of another file."""
        if file == self.file:
            return self
        repeated = tuple(
            replace(warning, span=warning.span and warning.span._replace(file=file)) for warning in self.repeated
        )
        return Document(file, self.text, self.data, self.root, self.has_paths, repeated, self.other_keys, _same=self)

    def place(self, path: Path) -> Span | None:
        """The span of the deepest part of `path` that exists in the text."""
        return self._span(path, 1)

    def key_place(self, path: Path) -> Span | None:
        """The span of the key at the last step of `path`; if there is none, of the deepest part."""
        return self._span(path, 0)

    def below(self, path: Path) -> Locate:
        """Return a function for the places below `path`."""
        return lambda steps: self.place((*path, *steps))

    def _span(self, path: Path, part: int) -> Span | None:
        """The span of the key (0) or the node (1) at the path, or of the deepest existing node."""
        if self.misspelt:
            path = tuple(self.misspelt.get(path[: at + 1], step) for at, step in enumerate(path))
        if self.text is None:
            way = self._way(path) if self.has_paths else ""
            return Span(self.file, 0, 0, 0, 0, way) if way else None
        whole = self._node()
        if whole is None:
            return None
        pair = whole, whole
        for step in path:
            child = _child(pair[1], step)
            if child is None:
                part = 1
                break
            pair = child
        return _span(self.file, pair[part], self._way(path) if whole[0] == whole[2] else "")

    def _way(self, path: Path) -> str:
        """The existing part of the path, as text."""
        data: Any = self.data
        known = 0
        for step in path:
            if isinstance(data, dict):
                if step not in data:
                    break
            elif not (isinstance(data, list) and isinstance(step, int) and 0 <= step < len(data)):
                break
            data = data[step]
            known += 1
        return ".".join(map(str, path[:known]))

    def _node(self) -> Node | None:
        if self._same:
            return self._same._node()
        if self.root is None and self.text is not None and not self._asked:
            self._asked = True
            left = PLACES

            def spend(steps: int) -> None:
                nonlocal left
                left -= steps
                if left < 0:
                    raise InputError([])

            try:
                self.root = _Builder(self.text, self.file, spend).build()[1]
            except InputError:  # JSON that is too large, or not YAML (a surrogate pair): accepted without places
                return None
        return self.root


def read_document(text: str, file: str, as_json: bool = True, spend: Spend = lambda _: None) -> Document:
    """The document of a text: JSON if it is valid JSON, else YAML. `spend` takes the steps of reading it. Errors:
    InputError with one diagnostic.

    Environments are never read `as_json` (heat/common/environment_format.py:29), templates are whenever possible
    (heat/common/template_format.py:61). The results differ: 1e1 is a number in JSON, and a text in YAML.
    """
    if len(text) > MAX_CHARACTERS:
        raise _wrong("too-large", f"{file} has more than {MAX_CHARACTERS} characters", None)
    spend(len(text) // PER_STEP)
    if as_json and text.lstrip()[:1] == "{":
        repeats: list[bool] = []
        try:
            data = json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, repeats), parse_int=read_integer)
        except (ValueError, RecursionError):
            pass  # YAML or invalid, or a number is too long, or too deep: YAML's reader knows the place
        else:
            builder = _Builder(text, file, spend)
            if repeats:  # the YAML reader knows their places
                with suppress(InputError):
                    builder.build()
            spend(steps_of(data))
            return Document(file, text, _bounded(data, file), repeated=tuple(builder.repeated))
    builder = _Builder(text, file, spend)
    data, root = builder.build()
    data = {} if data is None else data
    return Document(file, text, data, root, repeated=tuple(builder.repeated), other_keys=builder.other_keys)


@dataclass(slots=True)
class Documents:
    """The documents of a request by text, each parsed once."""

    steps: int = 0
    """The steps that were taken before the stack is read."""
    parsed: dict[tuple[str, bool], Document] = field(default_factory=dict)
    """By text, and whether it may be JSON."""
    sent: dict[tuple[str, bool], Document] = field(default_factory=dict)
    """As Heat builds from them."""

    def read(self, text: str, file: str, as_json: bool = True, spend: Spend | None = None) -> Document:
        """As `read_document`. Without `spend` the steps count for the reading that follows."""
        document = self.parsed.get((text, as_json))
        if document is None:
            document = self.parsed[text, as_json] = read_document(text, file, as_json, spend or self.spend)
        return document.named(file)

    def read_sent(self, text: str, file: str, as_json: bool, spend: Spend) -> Document:
        """As `read`, as Heat builds from it."""
        document = self.sent.get((text, as_json))
        if document is None:
            document = self.sent[text, as_json] = as_sent(self.read(text, file, as_json, spend))
        return document.named(file)

    def spend(self, steps: int) -> None:
        """Take steps of the reading that follows. Errors: InputError if none are left."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise InputError.of(TOO_MUCH, "too-large")


def as_sent(document: Document) -> Document:
    """The document as Heat builds from it: as JSON, in which all keys are texts (``1: a`` is ``"1": a``).

    Sections and the names in them are left as they are.
    """
    if document.root is None or not document.other_keys:
        return document
    repeated = list(document.repeated)
    data, root = _with_text_keys(document, document.data, document.root, 0, {}, repeated)
    return Document(document.file, document.text, data, root, repeated=tuple(repeated))


def _with_text_keys(
    document: Document,
    data: Data,
    node: Node,
    level: int,
    done: dict[tuple[int, int], tuple[Data, Node]],
    repeated: list[Diagnostic],
) -> tuple[Data, Node]:
    known = (id(data), min(level, 2))
    if known in done:
        return done[known]
    inner = node[4]
    if isinstance(data, list):
        items = [_with_text_keys(document, *pair, level + 1, done, repeated) for pair in zip(data, inner, strict=True)]
        done[known] = [item for item, _ in items], (*node[:4], [place for _, place in items])
    elif isinstance(data, dict):
        texts: dict[Any, Data] = {}
        nodes: dict[Any, tuple[Node, Node]] = {}
        for key, value in data.items():
            name = key if level < 2 or isinstance(key, str) else json.dumps(key)
            at, below = inner[key]
            changed, place = _with_text_keys(document, value, below, level + 1, done, repeated)
            if name in texts and repr(texts[name]) != repr(changed):
                repeated.append(_repeated(name, document.file, nodes[name][0], at))
            texts[name], nodes[name] = changed, (at, place)
        done[known] = texts, (*node[:4], nodes)
    else:
        return data, node
    return done[known]


def data_document(body: Mapping[str, Data], file: str, has_paths: bool) -> Document:
    """The document of JSON data in a request; resources are limited later. Errors: InputError."""
    try:
        rest = {name: section for name, section in body.items() if name not in ("resources", "Resources")}
        text = json.dumps(rest, default=_date)
        return Document(file, None, {**body, **_bounded(json.loads(text), file)}, has_paths=has_paths)  # type: ignore[dict-item]
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong("yaml", f"{file} is not plain data: {error}", None) from None


def read_integer(text: str) -> int:
    """Read an integer in JSON. Errors: ValueError if it is too long."""
    if len(text) > MAX_NUMBER:
        raise ValueError(f"it has a number of more than {MAX_NUMBER} digits")
    return int(text)


def size_of(data: Data) -> int | None:
    """The number of parts of the data, with shared parts counted at each use; None beyond the limits."""
    level, nodes, depth = [data], 0, 0
    while level:
        nodes, depth = nodes + len(level), depth + 1
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            return None
        inner = [part for part in level if isinstance(part, dict | list)]
        level = [child for part in inner for child in (part.values() if isinstance(part, dict) else part)]
    return nodes


def steps_of(data: Data) -> int:
    """The steps of reading or copying data: one for a part, sixteen characters, and an unknown that a part rests on."""
    steps, parts = 0, [data]
    while parts and steps < MAX_NODES:
        part = parts.pop()
        steps += 1
        if isinstance(part, str):
            steps += len(part) // 16
        elif isinstance(part, dict):
            parts += part.values()
            steps += sum([len(key) for key in part if isinstance(key, str)]) // 16
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, Unknown):
            steps += len(part.of)
    return steps + len(parts)


def _bounded(data: Data, file: str) -> Data:
    if size_of(data) is None:
        raise _wrong("too-large", f"{file} has more than {MAX_NODES} parts or {MAX_DEPTH} levels", None)
    return data


def _object(pairs: list[tuple[str, Data]], repeats: list[bool]) -> dict[str, Data]:
    """The object with these pairs; the last value of a key counts, and duplicate keys are recorded."""
    if len(unique := dict(pairs)) < len(pairs):
        repeats.append(True)
    return unique


def _date(value: object) -> str:
    from datetime import date

    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _repeated(key: object, file: str, first: Node, at: Node) -> Diagnostic:
    """The warning of a key that a mapping has twice."""
    message = f"`{key}` is a key of this mapping already, at {first[0] + 1}:{first[1] + 1}: Heat takes the last"
    return Diagnostic("duplicate-key", message, _span(file, at), "remove one of them", "warning")


def _span(file: str, node: Node, path: str = "") -> Span:
    return Span(file, node[0] + 1, node[1] + 1, node[2] + 1, node[3] + 1, path)


def _child(node: Node, step: str | int) -> tuple[Node, Node] | None:
    inner = node[4]
    if isinstance(inner, dict):
        pair: tuple[Node, Node] | None = inner.get(step)
        return pair
    if isinstance(inner, list) and isinstance(step, int) and 0 <= step < len(inner):
        return inner[step], inner[step]
    return None


def _wrong(code: str, message: str, span: Span | None, text: str | None = None) -> InputError:
    return InputError([Diagnostic(code, message, span)], {span.file: text} if span and text is not None else {})


_Pair = tuple[Node, Any, Any]
"""The node of a key, the key and its value."""


class _Open:
    __slots__ = ("anchor", "data", "key", "merged", "nodes", "size", "start")

    def __init__(self, data: Any, nodes: Any, event: Any) -> None:
        self.data, self.nodes, self.anchor, self.start = data, nodes, event.anchor, event.start_mark
        self.key: tuple[Any, Node] | None = None
        self.merged: list[list[tuple[Any, Any]]] = []
        """For each merge key the merged mappings, in text order, with the nodes of their keys."""
        self.size = 1


_TOO_DEEP = "while increasing flow level"
"""The context of libyaml 0.2.6's error at 1,000 brackets, which it reads ahead of the events."""


class _Builder:
    """A single reading of a text, from the events of PyYAML's parser."""

    def __init__(self, text: str, file: str, spend: Spend) -> None:
        self.text, self.file, self.spend = text, file, spend
        self.steps = 0
        self.texts: set[str] = set()
        """The plain scalars that are texts."""
        self.anchors: dict[str, tuple[Any, Node, int]] = {}
        self.open: list[_Open] = []
        self.pairs: dict[int, tuple[Any, list[_Pair]]] = {}
        """By the id of a mapping with merge keys: the mapping, and its pairs in PyYAML 6.0.4."""
        self.repeated: list[Diagnostic] = []
        """Warnings of keys that a mapping has twice."""
        self.other_keys = False
        """Whether a mapping has a key that is no text."""
        self.result: tuple[Any, Node | None] = (None, None)
        self.size = 0

    def build(self) -> tuple[Data, Node | None]:
        import yaml

        loader, documents = self._open(), 0
        try:
            while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
                self.steps += PER_EVENT
                if self.steps > BETWEEN_CHECKS:
                    self._spend()
                match event:
                    case yaml.ScalarEvent():
                        self._add(self._scalar(loader, event), _node(event, event, event.value), 1, event.anchor)
                    case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                        self._start(event, mapping=isinstance(event, yaml.MappingStartEvent))
                    case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                        self._end(event)
                    case yaml.AliasEvent():
                        self._alias(event)
                    case yaml.DocumentStartEvent():
                        documents += 1
                        if documents > 1:
                            raise self._error("yaml", "the text holds more than one document", event)
        except yaml.MarkedYAMLError as error:
            raise self._explain_marked(error) from None
        except yaml.YAMLError as error:
            character = yaml.reader.Reader.NON_PRINTABLE.search(self.text)
            before = self.text[: character.start() if character else 0]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            span = Span(self.file, line, column, line, column + 1)
            raise _wrong("yaml", f"this is not YAML: {str(error).splitlines()[0]}", span, self.text) from None
        finally:
            loader.dispose()
        self._spend()
        return self.result

    def _open(self) -> Any:
        """The parser of the text. Errors: InputError."""
        import yaml

        try:
            return getattr(yaml, "CSafeLoader", yaml.SafeLoader)(self.text)
        except UnicodeEncodeError as error:
            line = self.text.count("\n", 0, error.start) + 1
            column = error.start - self.text.rfind("\n", 0, error.start)
            span = Span(self.file, line, column, line, column + 1)
            what = f"unacceptable character #x{ord(self.text[error.start]):04x}: half a surrogate pair"
            raise _wrong("yaml", f"this is not YAML: {what}", span, self.text) from None

    def _explain_marked(self, error: Any) -> InputError:
        """The error of a text that is not YAML, at the mark of the parser's error."""
        mark = error.problem_mark or error.context_mark
        span = mark and Span(self.file, mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 2)
        if error.context == _TOO_DEEP:
            return _wrong("too-large", f"nested deeper than {MAX_DEPTH} levels", span, self.text)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        return _wrong("yaml", f"this is not YAML: {what}", span, self.text)

    def _spend(self) -> None:
        self.spend(self.steps)
        self.steps = 0

    def _scalar(self, loader: Any, event: Any) -> Any:
        import yaml

        if event.tag is None and (not event.implicit[0] or event.value in self.texts):
            return event.value
        known = event.tag not in (None, "!")
        tag = event.tag if known else loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag in (_TAG + "str", _TAG + "timestamp", _TAG + "value"):
            if event.tag is None:
                self.texts.add(event.value)
            return event.value
        self.steps += PER_VALUE
        if tag == _TAG + "merge" and self.open and isinstance(self.open[-1].data, dict) and not self.open[-1].key:
            return _MERGE
        if tag not in (_TAG + "null", _TAG + "bool", _TAG + "int", _TAG + "float"):
            raise self._error("yaml", "a template can't use this tag", event)
        try:
            if len(event.value) > MAX_NUMBER:
                raise ValueError
            return loader.construct_object(yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark))
        except (ValueError, LookupError):
            raise self._error("yaml", f"this can't be read as {tag.removeprefix(_TAG)}", event) from None

    def _start(self, event: Any, mapping: bool) -> None:
        if event.tag not in (None, "!", _TAG + ("map" if mapping else "seq")):
            raise self._error("yaml", "a template can't use this tag", event)
        if len(self.open) >= MAX_DEPTH:
            raise self._error("too-large", f"nested deeper than {MAX_DEPTH} levels", event)
        if event.anchor:
            self.anchors.pop(event.anchor, None)
        self.open.append(_Open({}, {}, event) if mapping else _Open([], [], event))

    def _end(self, event: Any) -> None:
        done = self.open.pop()
        node = _node(done, event, done.nodes)
        if done.merged:  # the mapping's own keys override merged ones
            data: dict[Any, Any] = {}
            nodes: dict[Any, Any] = {}
            # the first mapping of a list wins, and the last merge key
            merged = [part for parts in done.merged for part in reversed(parts)]
            for part, places in [*merged, (done.data, done.nodes)]:
                data.update(part)
                nodes.update(places)
            node = _node(done, event, nodes)
            self._check_merge(done, data, node)
            done.data = data
        self._add(done.data, node, done.size, done.anchor)

    def _check_merge(self, done: _Open, data: dict[Any, Any], node: Node) -> None:
        """Refuse a mapping that PyYAML 6.0.4 reads differently from earlier versions, which read `data`.

        It drops pairs whose keys are the same string object (those of one node, and of one character), and takes the
        last remaining pair, while earlier versions take the first mapping of a list.
        """
        pairs: dict[object, _Pair] = {}
        for part, places in (part for parts in done.merged for part in parts):
            for pair in self._pairs_of(part, places):
                text = pair[0][4]
                pairs.setdefault(text if len(text) < 2 and text < "\u0100" else pair[0][:2], pair)
        flat = [*pairs.values(), *self._pairs_of(done.data, done.nodes)]
        newer = {key: value for _, key, value in flat}
        keys = {key: key for _, key, _ in reversed(flat)}  # a mapping keeps the first of equal keys, as of 1 and true
        for key, value in data.items():
            same = value is newer.get(key, _MERGE) or repr(value) == repr(newer.get(key, _MERGE))
            if not same or repr(key) != repr(keys[key]):
                message = f"versions of PyYAML take `{key}` from different mappings of those that are merged here"
                raise self._error("duplicate-key", message, node)
        self.pairs[id(data)] = (data, flat)

    def _pairs_of(self, data: Any, nodes: Any) -> list[_Pair]:
        if known := self.pairs.get(id(data)):
            return known[1]
        return [(nodes[key][0], key, value) for key, value in data.items()]

    def _alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            # its name, or that of a tag, is not shown: it may be an unquoted password
            raise self._error("yaml", "this alias has no anchor, or refers to itself", event)
        data, node, size = self.anchors[event.anchor]
        self._add(data, node, size, None, event)

    def _add(self, data: Any, node: Node, size: int, anchor: str | None, alias: Any = None) -> None:
        if anchor:
            self.anchors[anchor] = (data, node, size)
        self.size += size if alias else 1
        if self.size > MAX_NODES:
            raise self._error("too-large", f"more than {MAX_NODES} parts, with aliases written out", node)
        if not self.open:
            self.result = (data, node)
            return
        top = self.open[-1]
        top.size += size
        if isinstance(top.data, list):
            top.data.append(data)
            top.nodes.append(node)
        elif top.key is None:
            if isinstance(data, dict | list):
                raise self._error("yaml", "a key must be a scalar", node)
            top.key = (data, node)
            if type(data) is not str and data is not _MERGE:
                self.other_keys = True
        elif top.key[0] is _MERGE:
            parts = list(zip(data, node[4], strict=True)) if isinstance(data, list) else [(data, node)]
            for part, at in parts:
                if not isinstance(part, dict):
                    raise self._error("yaml", "only mappings can be merged", at)
            top.merged.append([(part, places[4]) for part, places in parts])
            top.key = None
        else:
            key = top.key[0]
            if key in top.data and repr(top.data[key]) != repr(data):  # an identical repetition changes nothing
                in_merge = any(outer.key and outer.key[0] is _MERGE for outer in self.open[-3:-1])
                if in_merge or top.anchor:  # versions of PyYAML differ for what is merged, or may be
                    raise self._error("duplicate-key", f"`{key}` is already a key of this mapping", top.key[1])
                self.repeated.append(_repeated(key, self.file, top.nodes[key][0], top.key[1]))
            top.data[key], top.nodes[key] = data, (top.key[1], node)
            top.key = None

    def _error(self, code: str, message: str, at: Any) -> InputError:
        node = at if isinstance(at, tuple) else _node(at, at, None)
        return _wrong(code, message, _span(self.file, node), self.text)


def _node(first: Any, last: Any, inner: Any) -> Node:
    start = first.start if isinstance(first, _Open) else first.start_mark
    return start.line, start.column, last.end_mark.line, last.end_mark.column, inner
