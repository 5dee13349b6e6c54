"""The only door into the compiler for front ends: makes nodes by name, collects mistakes.

A front end (NDL, the Python builder, …) calls `GraphBuilder.apply` for every node. Nothing here
raises for a bad network: mistakes go to `sink`, so that all of them can be reported at once, and
`apply` still returns a node so that the front end can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from graphc.driver.cache_key import default_cache
from graphc.driver.editor import Editor as Editor
from graphc.driver.editor import atomic, transaction
from graphc.driver.onnx_export import export_model
from graphc.driver.options import CompileOptions, parse_precision
from graphc.driver.prepare import prepare
from graphc.driver.statistics import precompute
from graphc.ir.core import Module, OpDef, Operation
from graphc.ir.params import ParamsError, make_params
from graphc.ir.types import MatrixType, TypeRuleError
from graphc.model.editing import PROPERTIES as PROPERTIES
from graphc.model.editing import is_abbreviation as is_abbreviation
from graphc.model.editing import property_named as property_named
from graphc.model.editing import remove_nodes, set_tag
from graphc.model.factorise import Factorised as Factorised
from graphc.model.model import Model, Parameters
from graphc.model.patterns import by_name
from graphc.ops import op_table
from graphc.ops.nodes import NODE_FUNCTIONS as NODE_FUNCTIONS
from graphc.ops.nodes.interface import NodeFunction as NodeFunction
from graphc.ops.nodes.interface import Number as Number
from graphc.ops.nodes.layout import (
    TAG_SPELLINGS,
    TAGS,
    display_name,
    node_params,
    node_type,
    operand_types,
    tag_of,
)
from graphc.ops.nodes.plugged import plugged_function as plugged_function
from graphc.ops.nodes.plugged import plugged_method as plugged_method
from graphc.ops.nodes.plugged import plugged_names as plugged_names
from graphc.ops.nodes.plugged import plugged_spellings as plugged_spellings
from graphc.passes.infer_shapes import with_sizes_so_far
from graphc.support import arguments
from graphc.support.diagnostics import Diagnostic, DiagnosticSink, Note, fail, suggestion
from graphc.support.files import staged
from graphc.support.source import UNKNOWN, Location


class Node:
    """A handle on a node of the network."""

    def __init__(self, operation: Operation, builder: GraphBuilder) -> None:
        self.operation = operation
        self.builder = builder

    @property
    def name(self) -> str:
        return self.operation.result.name or ""

    @property
    def op(self) -> str:
        """The node's function, as `times` or `past_value`."""
        return self.operation.opdef.name.removeprefix("node.")

    @property
    def location(self) -> Location:
        return self.operation.location

    @property
    def tags(self) -> tuple[str, ...]:
        return node_params(self.operation).tags

    @property
    def type(self) -> MatrixType:
        """Rows and columns, as far as the network says by now what they are."""
        return self.builder._type_of(self)

    @property
    def rows(self) -> int | None:
        """How many rows the node has; None where that does not follow from the network yet."""
        return self.type.rows

    @property
    def cols(self) -> int | str | None:
        """How many columns: a number, "*" with one for each sample ("2*": two), None as `rows`."""
        cols = self.type.cols
        return cols if isinstance(cols, int | None) else str(cols)

    def __reduce__(self) -> tuple[object, ...]:
        """For `pickle` and `copy.deepcopy`: the network goes with it."""
        if self.operation.block is None:
            raise fail("not-supported", f"node `{self.name}` was removed: it cannot be pickled")
        return _handle_of, (self.builder, self.name)

    def __repr__(self) -> str:
        return f"<Node {self.name}: {display_name(self.operation.opdef)} {self.type}>"


@dataclass(frozen=True)
class Workshop:
    """What a front end that edits networks works with.

    new         makes an empty network
    open        reads one from a file
    models      networks that are there from the start, by name
    only_check  look at the text alone: read and change nothing
    """

    new: Callable[[], GraphBuilder]
    open: Callable[[Path], GraphBuilder]
    models: Mapping[str, GraphBuilder]
    only_check: bool = False


@dataclass(frozen=True)
class Edited:
    """What a front end that edits networks gives back: the networks that there are at the end, the
    files that it has written, and the warnings."""

    networks: dict[str, GraphBuilder]
    files: tuple[Path, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


class GraphBuilder:
    """Builds a network node by node; see the module docstring."""

    node_class: type[Node] = Node

    def __init__(self, model: Model | None = None) -> None:
        self.model = model or Model()
        self.sink = DiagnosticSink()
        self._ops = op_table()
        self._by_name = by_name(self.model.graph.block)
        self._handles: dict[Operation, Node] = {}
        self._unnamed = 0
        self._is_edited = False

    # --- for front ends ----------------------------------------------------------------------

    def apply(
        self,
        op: str,
        operands: Sequence[Node | None] = (),
        settings: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        tags: Sequence[str] = (),
        location: Location = UNKNOWN,
    ) -> Node:
        """Add a node. An operand None is a forward reference, to be bound by `set_operand`.

        Reports an unknown op, a wrong operand count, an unknown or bad setting, a name in use.
        """
        opdef = self._find_op(op, location)
        if not opdef.accepts_count(len(operands)):
            self.sink.error(
                "argument-count",
                f"{display_name(opdef)} takes {len(opdef.operands)} nodes "
                f"({', '.join(opdef.operands) or 'none'}), got {len(operands)}",
                location,
            )
            operands = [*operands, *([None] * len(opdef.operands))][: len(opdef.operands)]
        operation = self._make(opdef, dict(settings or {}), tags, location)
        operation.result.name = self._free_name(name, location)
        self._by_name[operation.result.name.lower()] = operation
        self.model.graph.block.append(operation)
        # A node that waits for an operand reads itself until it is bound.
        sources = [n.operation if n is not None else operation for n in operands]
        operation.set_operands(s.result for s in sources)
        waiting = ((operation, index) for index, n in enumerate(operands) if n is None)
        self.model.unset.update(waiting)
        self._infer(operation)
        return self._handle(operation)

    def set_operand(self, node: Node, index: int, operand: Node) -> None:
        """Bind operand `index` of a node."""
        node.operation.set_operand(index, operand.operation.result)
        self.model.unset.discard((node.operation, index))
        self.model.has_old_sizes = True
        self._infer(node.operation)

    def rename(self, node: Node, name: str, location: Location = UNKNOWN) -> None:
        """Give a node another name; reports a name in use."""
        old = node.name
        self._by_name.pop(old.lower(), None)
        node.operation.result.name = self._free_name(name, location)
        self._by_name[node.name.lower()] = node.operation
        self.model.rename_values({old: node.name})

    def remove(self, *nodes: Node) -> None:
        """Take out nodes that no other node reads."""
        for node in nodes:
            self._by_name.pop(node.name.lower(), None)
            self._handles.pop(node.operation, None)
        remove_nodes(self.model, [node.operation for node in nodes])

    def add_tag(self, node: Node, tag: str, location: Location = UNKNOWN) -> None:
        """Add a tag, in any of its spellings; a node keeps each once."""
        known = self._known_tag(tag, location)
        if known is not None:
            set_tag(self.model, node.operation, known, True)

    def operand_name(self, op: str, index: int) -> str:
        """What messages call an operand of a kind of node."""
        return self._ops[f"node.{op}"].operand_name(index)

    def _type_of(self, node: Node) -> MatrixType:
        """A node's size, as far as it is told by now, by nodes that are not complete too."""
        found = node_type(node.operation)
        if node.operation.block is None or (found.is_known and not self.model.has_old_sizes):
            return found
        sized = zip(self.model.graph.block, with_sizes_so_far(self.model.graph).block, strict=True)
        return next(node_type(copy) for op, copy in sized if op is node.operation)

    def find(self, name: str) -> Node | None:
        """The node of that name, in any case."""
        operation = self._by_name.get(arguments.text(name, "find").lower())
        return self._handle(operation) if operation is not None else None

    @contextmanager
    def edited(self, *, complete: bool = True, where: Location = UNKNOWN) -> Generator[Editor]:
        """Edits that happen together or not at all: after any error nothing has changed.

        In here the network may have inputs without a node. The outermost of several says whether it
        may have them at its end too (`complete`), which whoever computes or saves it refuses.
        """
        is_outermost, self._is_edited = not self._is_edited, True
        try:
            edits = transaction(self.model, complete=complete, where=where)
            with edits if is_outermost else atomic(self.model):
                yield Editor(self.model, where)
                self._find_names()
        finally:
            self._is_edited = not is_outermost
            self._find_names()

    @contextmanager
    def kept_on_error(self) -> Generator[None]:
        """After an error in here the network is what it was; nothing else is checked."""
        try:
            with atomic(self.model):
                yield
        finally:
            self._find_names()

    def _find_names(self) -> None:
        """Know the nodes by the names that they have now."""
        self._by_name = by_name(self.model.graph.block)
        if not self._is_edited:
            gone = [op for op in self._handles if op.block is None]
            for op in gone:
                del self._handles[op]

    # --- for users ---------------------------------------------------------------------------

    @property
    def parameters(self) -> Parameters:
        """The values of parameters and computed statistics, by node name."""
        if self.model.missing_values():
            prepare(self.model)
        return Parameters(self.model)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, in the order of the network."""
        return tuple(self._handle(op) for op in self.model.graph.block)

    def precompute(self, **inputs: object) -> None:
        """Compute every Mean and InvStdDev node over a whole data set.

        Each input is (samples, rows), or a list of sequences (steps, rows); a sparse one as `train`
        takes it. Nodes that have their value keep it.
        """
        precompute(self.model, inputs, CompileOptions(cache=default_cache()))

    def save(self, path: str | Path) -> None:
        """Write a model file; `graphc.load` reads it back."""
        with self.staged_save(arguments.path(path, "save")) as put_into_place:
            put_into_place()

    @contextmanager
    def staged_save(self, path: Path) -> Generator[Callable[[], None]]:
        """As `save`, up to the moment where the new file replaces the old one: when what this gives
        is called."""
        prepare(self.model)
        with staged(path, self.model.writer(path)) as put_into_place:
            yield put_into_place

    def export_onnx(
        self,
        path: str | Path,
        outputs: str | Sequence[str] = (),
        *,
        precision: str = CompileOptions.precision.value,
        batch: int = CompileOptions.batch,
        time: int = CompileOptions.time,
        sequences: int = CompileOptions.sequences,
    ) -> list[Path]:
        """Write `outputs`, by default the output nodes, as an ONNX file (docs/onnx.md).

        precision               "f32" or "f64", of all floating-point numbers of the file
        batch, time, sequences  as in `graphc.compile`: what `gc.load_program` takes for the bounds

        The files written: the values of more than 1 GB of parameters lie in a second one.
        GraphcError for a bad network or option, and where the `onnx` package is missing.
        """
        dtype = parse_precision(precision)
        options = CompileOptions(precision=dtype, batch=batch, time=time, sequences=sequences)
        names = arguments.texts(outputs, "outputs")
        return export_model(self.model, arguments.path(path, "export_onnx"), names, options)

    def __str__(self) -> str:
        """The network as text (docs/ir.md), with sizes as far as they are told by now."""
        module = self.model.module
        return str(Module([with_sizes_so_far(self.model.graph)], module.dims))

    def __repr__(self) -> str:
        count = len(self.model.graph.block)
        return f"<{type(self).__name__} of {count} node{'s' * (count != 1)}>"

    def _repr_svg_(self) -> str | None:
        """The picture that notebooks show, with sizes as far as they are told by now."""
        from graphc.model.picture import network_drawing, shown_svg  # only notebooks draw

        return shown_svg(network_drawing(with_sizes_so_far(self.model.graph)))

    # --- inside ------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[object, ...]:
        """For `pickle` and `copy.deepcopy`: the model, and what a class of the user's adds."""
        own = vars(GraphBuilder()).keys()
        added = {name: value for name, value in vars(self).items() if name not in own}
        return _builder_of, (type(self), self.model), added

    def _know(self, opdef: OpDef) -> None:
        """Let `apply` make nodes of this kind, without a distribution that has it."""
        self._ops.add(opdef)

    def _handle(self, operation: Operation) -> Node:
        if operation not in self._handles:
            self._handles[operation] = self.node_class(operation, self)
        return self._handles[operation]

    def _find_op(self, op: str, location: Location) -> OpDef:
        opdef = self._ops.get(f"node.{op}")
        if opdef is None:
            known = [n.removeprefix("node.") for n in self._ops if n.startswith("node.")]
            near = suggestion(op, known)
            self.sink.error("unknown-function", f"no node is called `{op}`{near}", location)
            return self._ops["node.constant"]
        return opdef

    def _make(
        self, opdef: OpDef, settings: dict[str, object], tags: Sequence[str], location: Location
    ) -> Operation:
        given = [self._known_tag(tag, location) for tag in tags]
        known = tuple(t for t in TAGS if t in given)
        try:
            params = make_params(opdef.params, {**settings, "tags": known})
        except ParamsError as problem:
            self.sink.error("bad-value", f"{display_name(opdef)}: {problem}", location)
            params = make_params(opdef.params, {**_FALLBACK.get(opdef.name, {}), "tags": known})
        return Operation(opdef, (), [MatrixType(None, None)], params, location=location)

    def _known_tag(self, text: str, location: Location) -> str | None:
        """The tag that a spelling means; reports one that means none."""
        tag = tag_of(text)
        if tag is None:
            near = suggestion(text, TAG_SPELLINGS)
            self.sink.error("unknown-tag", f"no tag is called `{text}`{near}", location)
        return tag

    def _infer(self, operation: Operation) -> None:
        """The node's size where those of its operands are known; infer-shapes does the rest.

        A size guessed from half of them could turn out wrong, and mistakes are not reported here.
        """
        if not all(t.is_known for t in operand_types(operation)):
            return
        try:
            (type,) = operation.opdef.infer(operand_types(operation), operation.params)
        except TypeRuleError:
            return
        operation.result.type = type

    def _free_name(self, name: str | None, location: Location) -> str:
        if name is not None and name.lower() not in self._by_name:
            return name
        if name is not None:
            first = self._by_name[name.lower()]
            self.sink.error(
                "duplicate-name",
                f"the name `{name}` is taken by another node",
                location,
                notes=[Note("the first is defined here", first.location.span)],
            )
        while (fresh := f"unnamed{self._unnamed}") in self._by_name:
            self._unnamed += 1
        self._unnamed += 1
        return fresh


def _builder_of(kind: type[GraphBuilder], model: Model) -> GraphBuilder:
    builder = kind.__new__(kind)
    GraphBuilder.__init__(builder, model)
    return builder


def _handle_of(builder: GraphBuilder, name: str) -> Node | None:
    return builder.find(name)


_FALLBACK: dict[str, dict[str, object]] = {
    "node.input": {"rows": 1},
    "node.parameter": {"rows": 1},
    "node.constant": {"value": 0.0},
}
"""Settings that stand in for bad ones, so that building can go on after the error."""
