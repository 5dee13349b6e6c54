"""Runs the nodes of a graph, in their order, by their handlers or by the bodies of functions.

Names are looked up from the innermost graph outwards. What a node means is in the table of
handlers; an operator without one is run as the function that the model, or its schema, says it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.support.diagnostics import GraphcError, Note, fail
from graphc.support.source import Location
from graphc.tensor.program_builder import ProgramBuilder
from graphc.tensor.tensor import Tensor
from graphc_frontends.onnx.arrays import Arrays
from graphc_frontends.onnx.functions import Bodies, Function
from graphc_frontends.onnx.listing import Listing, operator_name
from graphc_frontends.onnx.operators import (
    COUNTED,
    NEVER,
    NEWEST_OPSET,
    NO_TEXTS,
    RANDOM,
    Handler,
    handler_of,
)
from graphc_frontends.onnx.parts import OF_A_PART, Part
from graphc_frontends.onnx.reading import onnx_package
from graphc_frontends.onnx.values import NeedsValue, mistake, settled, unsupported

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

MAX_DEPTH = 64
"""Graphs inside graphs, and functions that call functions."""

MAX_NAMED = 5
"""Nodes that a message names of each operator."""

SIZES_THAT_AGREE = (
    "where the sizes agree in every call, say so: `--dim height=512/32` of multiples of 32, "
    "`--dim mask=batch` of two names of one size, `--dim height=320!` of one size"
)
OF_TEXTS = " of texts"
TABLES_OF_TEXTS = ("pool_strings", "keys_strings", "values_strings")
TABLES = ("keys_tensor", "values_tensor")
"""Attributes that hold texts, and those that may."""

DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class Scope:
    """Names of values, inside those of a graph around it.

    opsets      the version of each domain
    attributes  those that the call of a function gave, for nodes that refer to them
    """

    opsets: Mapping[str, int]
    values: dict[str, object] = field(default_factory=dict[str, object])
    around: Scope | None = None
    attributes: Mapping[str, object] = field(default_factory=dict[str, object])
    depth: int = 0

    def find(self, name: str, *, reader: str = "") -> object:
        """The value of that name, for an operator that reads it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                value = scope.values[name]
                if isinstance(value, Part) and reader != "Concat":
                    raise unsupported(f"{OF_A_PART}, for anything but `Concat` with the rest,")
                return value
            scope = scope.around
        raise mistake("bad-model-file", f"reads `{name}`, which nothing before it gives")

    def inside(self) -> Scope:
        """A scope for a graph inside this one."""
        return Scope(self.opsets, {}, self, self.attributes, self.depth + 1)


@dataclass(frozen=True)
class Context:
    """The node that a handler is called for.

    outputs  how many outputs it has, up to the last that is named
    """

    reader: Reader
    node: NodeProto
    scope: Scope

    @property
    def outputs(self) -> int:
        named = [i for i, name in enumerate(self.node.output) if name]
        return named[-1] + 1 if named else 0

    def wants(self, output: int) -> bool:
        """Whether something can read that output."""
        return output < len(self.node.output) and bool(self.node.output[output])

    def count_name(self, axis: int) -> str:
        """What an axis of the first output is called whose size values decide."""
        return f"{self.node.output[0]}.{axis}"

    def count(self, axis: int) -> int | None:
        """The size that was given for it."""
        return self.reader.sizes.get(self.count_name(axis))

    @property
    def opset(self) -> int:
        """The version of the default domain."""
        return self.scope.opsets.get("", 1)

    @property
    def builder(self) -> ProgramBuilder:
        return self.reader.builder

    def run(
        self, name: str, *inputs: object, outputs: int = 1, **attributes: object
    ) -> tuple[object, ...]:
        """What another operator of the default domain gives."""
        return self.reader.call("", name, inputs, attributes, outputs, self.scope)


@dataclass(frozen=True)
class Body:
    """A graph that is an attribute of a node, to call."""

    reader: Reader
    graph: GraphProto
    scope: Scope

    @property
    def inputs(self) -> list[str]:
        return [given.name for given in self.graph.input]

    def repeated(self, *inputs: object) -> list[object]:
        """What a step of a loop gives, which is traced once for all of them."""
        self.reader.loops += 1
        try:
            return self(*inputs)
        finally:
            self.reader.loops -= 1

    def __call__(self, *inputs: object) -> list[object]:
        scope = self.scope.inside()
        scope.values.update(zip(self.inputs, inputs, strict=False))
        return self.reader.run_graph(self.graph, scope)


@dataclass
class Reader:
    """Reads one model into the program that `builder` makes.

    sizes  of dims in every call, by name; of results too whose size values decide
    step   the input that says which random numbers a call draws; None: nothing draws any
    drawn  how many nodes have drawn
    loops  how many loops the node that is read is in
    """

    model: ModelProto
    builder: ProgramBuilder
    listing: Listing
    arrays: Arrays
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    step: object = None
    drawn: int = 0
    loops: int = 0

    def __post_init__(self) -> None:
        self.onnx = onnx_package()
        self.bodies = Bodies(self.onnx, self.model)
        self.opsets = opsets_of(self.model.opset_import)
        newest = self.opsets.get("", 0)
        if newest > NEWEST_OPSET:
            message = (
                f"{self.listing.file} is of version {newest} of ONNX's operators, "
                f"the newest that is known here is {NEWEST_OPSET}"
            )
            raise fail("not-supported", message)

    # --- before anything runs --------------------------------------------------------------------

    def check_operators(self) -> None:
        """GraphcError with every operator that nothing here says the meaning of."""
        missing: Counter[str] = Counter()
        names: dict[str, list[str]] = {}
        for node in _nodes(self.model.graph.node):
            operator = operator_name(node.domain, node.op_type)
            if self._is_of_texts(node):
                operator += OF_TEXTS
            if operator.endswith(OF_TEXTS) or self._meaning(node, self.opsets) is None:
                missing[operator] += 1
                names.setdefault(operator, []).append(node.name or node.output[0])
        if not missing:
            return
        listed = [
            f"{operator} (in {count}: {_listed(names[operator])})"
            for operator, count in missing.most_common()
        ]
        message = f"{self.listing.file} has operators that are not known here: {', '.join(listed)}"
        why = {name: NO_TEXTS if name.endswith(OF_TEXTS) else NEVER.get(name) for name in missing}
        reasons = [f"{name}: {reason}" for name, reason in why.items() if reason]
        raise fail("unknown-op", message, notes=[Note(reason) for reason in reasons])

    def _is_of_texts(self, node: NodeProto) -> bool:
        """Whether a table of a node of `ai.onnx.ml`, or the words that it counts, are texts."""
        texts = self.onnx.TensorProto.STRING
        return any(
            (a.name in TABLES_OF_TEXTS and len(a.strings) > 0)
            or (a.name in TABLES and a.t.data_type == texts)
            for a in node.attribute
        )

    def counts(self) -> list[str]:
        """The names of sizes that values decide."""
        return [
            f"{node.output[0]}.{COUNTED[node.op_type]}"
            for node in _nodes(self.model.graph.node)
            if node.op_type in COUNTED and node.domain in DEFAULT_DOMAINS
        ]

    def draws(self) -> bool:
        """Whether a node may draw random numbers."""
        bodies = [self.model.graph.node, *(f.node for f in self.model.functions)]
        return any(_may_draw(node) for nodes in bodies for node in _nodes(nodes))

    def _meaning(self, node: NodeProto, opsets: Mapping[str, int]) -> Handler | Function | None:
        domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
        local = self.bodies.of_model(node)
        if local is not None:
            return local
        version = self.bodies.version(domain, node.op_type, opsets.get(domain, 1))
        if version is None:
            return handler_of(domain, node.op_type, opsets.get(domain, 1))
        handler = handler_of(domain, node.op_type, version)
        return handler or self.bodies.of_schema(domain, node.op_type, opsets.get(domain, 1))

    # --- graphs and nodes ------------------------------------------------------------------------

    def run_graph(self, graph: GraphProto, scope: Scope) -> list[object]:
        """The outputs of a graph whose inputs are in the scope."""
        for tensor in graph.initializer:
            scope.values.setdefault(tensor.name, self.array(tensor))
        self.run_nodes(graph.node, scope)
        return [scope.find(output.name) for output in graph.output]

    def run_nodes(
        self,
        nodes: Sequence[NodeProto],
        scope: Scope,
        place: Callable[[int], Location] | None = None,
    ) -> None:
        """Every node in order. `place`: where they are; None: inside of what is being read."""
        if scope.depth > MAX_DEPTH:
            message = f"graphs and functions lie in each other deeper than {MAX_DEPTH}"
            raise mistake("limit", message)
        for index, node in enumerate(nodes):
            if place is None:
                self._run_node(node, scope)
            else:
                with self.builder.open(place(index)):
                    self._run_node(node, scope)

    def _run_node(self, node: NodeProto, scope: Scope) -> None:
        if node.op_type == "Constant" and node.output[0] in scope.values:
            return  # it is a parameter
        try:
            reader = node.op_type
            inputs = [scope.find(n, reader=reader) if n else None for n in node.input]
            made = self._outputs(node, inputs, scope)
        except NeedsValue as need:
            raise self._needs_value(node, need) from None
        except GraphcError as error:
            raise _noted(error, node, scope) from None
        scope.values.update(
            (name, value) for name, value in zip(node.output, made, strict=False) if name
        )

    def _outputs(self, node: NodeProto, inputs: list[object], scope: Scope) -> tuple[object, ...]:
        meaning = self._meaning(node, scope.opsets)
        attributes = self._attributes(node, scope)
        if isinstance(meaning, Handler):
            return self._handled(meaning, Context(self, node, scope), inputs, attributes)
        if meaning is None:
            name = operator_name(node.domain, node.op_type)
            raise mistake("unknown-op", f"the operator {name} is not known here")
        plain = self._with_attributes(node, attributes)
        return self._called(meaning.for_types(plain, inputs), inputs, attributes, scope)

    def _with_attributes(self, node: NodeProto, attributes: Mapping[str, object]) -> NodeProto:
        """The node with values in place of references to a function's attributes."""
        plain: NodeProto = self.onnx.NodeProto()
        plain.CopyFrom(node)
        del plain.attribute[:]
        for given in node.attribute:
            if not given.ref_attr_name:
                plain.attribute.append(given)
            elif given.name in attributes:
                made = self.onnx.helper.make_attribute(given.name, attributes[given.name])
                plain.attribute.append(made)
        return plain

    def _handled(
        self,
        handler: Handler,
        context: Context,
        inputs: list[object],
        attributes: Mapping[str, object],
    ) -> tuple[object, ...]:
        node = context.node
        domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
        opset = context.scope.opsets.get(domain, 1)
        named = {**self.bodies.defaults(domain, node.op_type, opset), **attributes}
        for name in attributes:
            if name not in handler.takes:
                default = self.bodies.defaults(domain, node.op_type, opset).get(name)
                if attributes[name] != default and attributes[name] not in ("", b"", None):
                    message = f"the attribute {name}={attributes[name]!r} is not supported"
                    raise mistake("not-supported", message)
        given = {name: value for name, value in named.items() if name in handler.takes}
        if handler.wants_context:
            given["context"] = context
        while inputs and inputs[-1] is None:
            inputs.pop()
        try:
            with np.errstate(all="ignore"):
                made = handler.function(*inputs, **given)
        except (TypeError, ValueError, IndexError, OverflowError) as problem:
            message = f"does not fit its inputs: {problem}"
            raise mistake("shape-mismatch", message) from problem
        results = made if isinstance(made, tuple) else (made,)
        return tuple(map(_kept, results))

    def _called(
        self,
        function: Function,
        inputs: Sequence[object],
        attributes: Mapping[str, object],
        scope: Scope,
    ) -> tuple[object, ...]:
        """The outputs of a function's body."""
        inner = Scope(
            {**scope.opsets, **opsets_of(function.opsets)},
            dict(zip(function.inputs, [*inputs, *[None] * len(function.inputs)], strict=False)),
            attributes={**function.defaults(self._attribute_value, scope), **attributes},
            depth=scope.depth + 1,
        )
        self.run_nodes(function.nodes, inner)
        return tuple(inner.values.get(name) for name in function.outputs)

    def call(
        self,
        domain: str,
        name: str,
        inputs: Sequence[object],
        attributes: Mapping[str, object],
        outputs: int,
        scope: Scope,
    ) -> tuple[object, ...]:
        """What an operator gives that no node of the file names."""
        node: NodeProto = self.onnx.NodeProto()
        node.op_type, node.domain = name, domain
        node.input.extend(f"x{i}" if x is not None else "" for i, x in enumerate(inputs))
        node.output.extend(f"y{i}" for i in range(outputs))
        meaning = self._meaning(node, scope.opsets)
        if isinstance(meaning, Handler):
            return self._handled(meaning, Context(self, node, scope), [*inputs], attributes)
        assert meaning is not None, name
        return self._called(meaning.for_types(node, inputs), inputs, attributes, scope)

    # --- attributes ------------------------------------------------------------------------------

    def _attributes(self, node: NodeProto, scope: Scope) -> dict[str, object]:
        found: dict[str, object] = {}
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name in scope.attributes:
                    found[attribute.name] = scope.attributes[attribute.ref_attr_name]
            else:
                found[attribute.name] = self._attribute_value(attribute, scope)
        return found

    def _attribute_value(self, attribute: AttributeProto, scope: Scope) -> object:
        kinds = attribute.AttributeType
        match attribute.type:
            case kinds.GRAPH:
                return Body(self, attribute.g, scope)
            case kinds.TENSOR:
                return self.array(attribute.t)
            case kinds.STRING:
                return attribute.s.decode()
            case kinds.STRINGS:
                return [s.decode() for s in attribute.strings]
            case kinds.SPARSE_TENSOR | kinds.TYPE_PROTO | kinds.GRAPHS:
                return attribute
            case _:
                return self.onnx.helper.get_attribute_value(attribute)

    def array(self, tensor: Any) -> np.ndarray[Any, Any]:
        """The array of a tensor in the file."""
        if any(n < 0 for n in tensor.dims):
            message = f"the array `{tensor.name}` has the sizes {[*tensor.dims]}"
            raise mistake("bad-model-file", message)
        try:
            return self.arrays.read(tensor)
        except (KeyError, TypeError, ValueError) as problem:
            message = f"the array `{tensor.name}` is damaged: {problem}"
            raise mistake("bad-model-file", message) from None

    # --- errors ----------------------------------------------------------------------------------

    def _needs_value(self, node: NodeProto, need: NeedsValue) -> GraphcError:
        names = self.builder.inputs_behind(need.value)
        operator = operator_name(node.domain, node.op_type)
        if not names:
            return mistake("not-supported", f"{need.what} of {operator} must not be computed")
        listed = ", ".join(f"`{name}`" for name in names)
        message = (
            f"{need.what} of {operator} has to be known when the model is compiled and is computed "
            f"from {listed}: give a value, `--fix {names[0]}=…` or values={{{names[0]!r}: …}}"
        )
        if need.count:
            message += f"; or the size of the result, `--dim {need.count}=…!`"
        return mistake("input", message)


def _kept(made: object) -> object:
    """What a handler gives, with known numbers as arrays."""
    if made is None or isinstance(made, Tensor | list | Part):
        return made
    return settled(np.asarray(made))


def opsets_of(imports: Any) -> dict[str, int]:
    """The version of each domain."""
    return {("" if i.domain in DEFAULT_DOMAINS else i.domain): int(i.version) for i in imports}


def _nodes(nodes: Any) -> Iterator[NodeProto]:
    """The nodes, and those of graphs inside of them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g.node)
            for graph in attribute.graphs:
                yield from _nodes(graph.node)


def _may_draw(node: NodeProto) -> bool:
    if node.op_type == "Dropout":
        return len(node.input) > 2
    return node.op_type in RANDOM


def _listed(names: Sequence[str]) -> str:
    more = ["…"] if len(names) > MAX_NAMED else []
    return ", ".join([*(f"`{name}`" for name in names[:MAX_NAMED]), *more])


def _noted(error: GraphcError, node: NodeProto, scope: Scope) -> GraphcError:
    """The error with the node that it is about, once."""
    name = operator_name(node.domain, node.op_type)
    domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
    what = f"in {name} of version {scope.opsets.get(domain, '?')}"
    if node.name:
        what += f', node "{node.name}"'
    notes = [Note(what)]
    if any(d.slug == "shape-mismatch" for d in error.diagnostics) and _has_open_sizes(node, scope):
        notes.append(Note(SIZES_THAT_AGREE))
    return GraphcError([replace(d, notes=(*d.notes, *notes)) for d in error.diagnostics])


def _has_open_sizes(node: NodeProto, scope: Scope) -> bool:
    """Whether calls decide a size of what the node reads."""
    inputs = [scope.find(name, reader=node.op_type) for name in node.input if name]
    return any(isinstance(x, Tensor) and any(map(_is_open, x.shape)) for x in inputs)


def _is_open(size: object) -> bool:
    return not isinstance(size, int)
