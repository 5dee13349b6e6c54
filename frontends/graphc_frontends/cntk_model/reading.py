"""From the bytes of the toolkit's model file to records, each length checked before it is used.

    BCN  [BVersion version EVersion]  count
    BNodeList   count times: kind, name, own fields     ENodeList
    BRelation   count times: name, count, input names   ERelation
    BRootNodes  lists of names, one for each role       ERootNodes
    ECN

A file without BVersion is of version 1. Numbers are of one type all through, which the first matrix
tells; fields of that type may come before it, so it is looked for first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from graphc.support.diagnostics import GraphcError, fail
from graphc_frontends.binary import Bytes
from graphc_frontends.cntk_model.layouts import LAYOUTS, Field, Kind, Layout

VERSIONS = (1, 2)

ROOTS: Mapping[str, str] = {
    "FeatureNodes": "feature",
    "LabelNodes": "label",
    "CriteriaNodes": "criterion",
    "CriterionNodes": "criterion",
    "NodesReqMultiSeqHandling": "multiseq",
    "EvalNodes": "evaluation",
    "OutputNodes": "output",
    "PairNodes": "",
}
"""The lists of root nodes that a file may have, in any order, and the tag that each one gives."""

_SHOWN = 20  # kinds in a message
_LARGEST = 2**31 - 1
_NO_SIZE = 2**64 - 1  # the toolkit writes this for sizes that are not known


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node as the file has it: settings by name, and the matrix if it has one."""

    kind: str
    name: str
    layout: Layout
    settings: Mapping[str, object]
    value: np.ndarray | None = None
    is_computed: bool = True


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A whole file. `inputs` are names by a node's name, `roots` pairs of a tag and a name."""

    nodes: tuple[NodeRecord, ...]
    inputs: Mapping[str, tuple[str, ...]]
    roots: tuple[tuple[str, str], ...]


def read(data: bytes, file: str) -> ModelRecord:
    """The records of a file. GraphcError `bad-model-file` with the byte where it goes wrong;
    `not-supported` for later versions, and for all kinds of nodes at once that are not known."""
    reader = _Reader(data, file)
    reader.marker("BCN")
    version = reader.version()
    count = reader.count("the number of nodes", least=8)
    reader.marker("BNodeList")
    nodes = tuple(reader.node(version) for _ in range(count))
    reader.marker("ENodeList")
    reader.refuse_unknown()
    reader.marker("BRelation")
    inputs = dict(reader.relation() for _ in range(count))
    reader.marker("ERelation")
    roots = reader.roots()
    reader.marker("ECN")
    return ModelRecord(nodes, inputs, roots)


@dataclass
class _Fields:
    """The fields of a node as they are read."""

    settings: dict[str, object] = field(default_factory=dict[str, object])
    value: np.ndarray | None = None
    is_computed: bool = True


class _Reader(Bytes):
    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data, name)
        self.width = _element_size(data)
        self.unknown: Counter[str] = Counter()

    # --- pieces ------------------------------------------------------------------------------

    def wide(self, what: str) -> str:
        return self.text("utf-16-le", what)

    def marker(self, name: str) -> None:
        start = self.at
        if not self.has_marker(name):
            self.at = start
            raise self.bad(f"the mark {name} is required")

    def has_marker(self, name: str) -> bool:
        """Take a mark if it comes."""
        expected = f"{name}\0".encode("utf-16-le")
        if self.data[self.at : self.at + len(expected)] != expected:
            return False
        self.at += len(expected)
        return True

    def count(self, what: str, least: int) -> int:
        """A number of things that need at least so many bytes each."""
        value = self.unsigned(what)
        if value * least > self.left:
            raise self.bad(f"{what} is {value}, and {self.left} bytes are left")
        return value

    def version(self) -> int:
        if not self.has_marker("BVersion"):
            return 1
        version = self.unsigned("the version")
        self.marker("EVersion")
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            message = f"models of the toolkit of version {known} can be read, this is {version}"
            raise fail("not-supported", f"{self.name}: {message}")
        return version

    # --- nodes -------------------------------------------------------------------------------

    def node(self, version: int) -> NodeRecord:
        kind = self.wide("a kind of node")
        name = self.wide("the name of a node")
        if not name:
            raise self.bad("the name of a node requires at least one character")
        layout = LAYOUTS.get(kind, Layout(None))
        if layout.op is None:
            self.unknown[kind] += 1
        fields = _Fields()
        for one in layout.fields:
            if version >= one.since:
                self.field(one, f"{one.name} of `{name}`", fields)
        return NodeRecord(kind, name, layout, fields.settings, fields.value, fields.is_computed)

    def field(self, one: Field, what: str, fields: _Fields) -> None:
        if one.kind == "matrix":
            fields.value = self.matrix(what)
            return
        value = self.scalar(one.kind, what)
        if one.name == "hasComputed":
            fields.is_computed = bool(value)
        elif one.setting is not None:
            fields.settings[one.setting] = value

    def scalar(self, kind: Kind, what: str) -> int | float | bool:
        if kind == "flag":
            return self.flag(what)
        if kind == "number":
            return self.floating(self.width, what)
        value = self.signed(what) if kind == "integer" else self.unsigned(what)
        if value == _NO_SIZE:
            return 0
        if not 0 <= value <= _LARGEST:
            raise self.bad(f"{what} requires a number from 0 to {_LARGEST}, got {value}")
        return value

    def matrix(self, what: str) -> np.ndarray:
        """(rows, cols), stored column after column."""
        kind = self.take(1, what)[0]
        if kind != ord("d"):
            stored = "sparse" if kind == ord("s") else f"of the unknown kind {kind}"
            raise fail("not-supported", f"{self.name}: {what} is {stored}, a dense one is required")
        self.marker("BMAT")
        width = self.unsigned(f"the element size of {what}")
        if width != self.width:
            raise self.bad(f"elements of {what} require {self.width} bytes, got {width}")
        self.wide(f"the matrix of {what}")
        if (form := self.signed(f"the format of {what}")) != 0:
            raise self.bad(f"the format of {what} requires 0, columns, got {form}")
        rows, cols = (self.unsigned(f"the size of {what}") for _ in range(2))
        if max(rows, cols) > _LARGEST:
            raise self.bad(f"{what} requires at most {_LARGEST} rows and columns")
        value = self.numbers(rows, cols, width, what)
        self.marker("EMAT")
        return np.ascontiguousarray(value.reshape(cols, rows).T)

    # --- what nodes read, what they are for ------------------------------------------------------

    def relation(self) -> tuple[str, tuple[str, ...]]:
        name = self.wide("the name of a node")
        return name, self.names(f"the inputs of `{name}`")

    def names(self, what: str) -> tuple[str, ...]:
        return tuple(self.wide(what) for _ in range(self.count(what, least=2)))

    def roots(self) -> tuple[tuple[str, str], ...]:
        self.marker("BRootNodes")
        found: list[tuple[str, str]] = []
        while not self.has_marker("ERootNodes"):
            title = next((title for title in ROOTS if self.has_marker(f"B{title}")), None)
            if title is None:
                raise self.bad("a list of root nodes or ERootNodes is required")
            names = self.names(title)
            self.marker(f"E{title}")
            found += [(ROOTS[title], name) for name in names if ROOTS[title]]
        return tuple(found)

    # --- kinds that are not known ----------------------------------------------------------------

    def bad(self, message: str) -> GraphcError:
        """The error; behind kinds that are not known, these are likely to be the reason."""
        if not self.unknown:
            return super().bad(message)
        return fail(
            "not-supported", f"{self.name}: {self.unknown_kinds()}; at byte {self.at} {message}"
        )

    def unknown_kinds(self) -> str:
        kinds = [f"{kind!r:.50} ({count})" for kind, count in self.unknown.items()]
        more = f", and {len(kinds) - _SHOWN} more" if len(kinds) > _SHOWN else ""
        return f"kinds of nodes that are not supported: {', '.join(kinds[:_SHOWN])}{more}"

    def refuse_unknown(self) -> None:
        if self.unknown:
            raise fail("not-supported", f"{self.name}: {self.unknown_kinds()}")


def _element_size(data: bytes) -> int:
    """4 or 8: the element size of the first matrix, 4 without any."""
    mark = "BMAT\0".encode("utf-16-le")
    at = data.find(mark)
    return 8 if at >= 0 and data[at + len(mark) :][:1] == b"\x08" else 4
