"""One use of a node under test: its operands' sizes, settings and numbers, and networks with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.builder import GraphBuilder, Node
from graphc.ir.core import Array, OpDef
from graphc.ir.params import ParamsError, make_params
from graphc.ops.nodes.layout import display_name, node_type
from graphc.ops.nodes.plugged import with_origin
from graphc.support import arguments
from graphc.support.diagnostics import fail
from graphc.tensor.node_type import NodeType

Size = tuple[int, int | None]
Draw = Callable[[np.random.Generator, int, int], Array]

DTYPES: Mapping[str, Any] = {"f32": np.float32, "f64": np.float64}


@dataclass(frozen=True)
class NodeCase:
    """The node in one use."""

    opdef: OpDef
    sizes: Sequence[Size]
    settings: Mapping[str, object]
    draws: Sequence[Draw]
    seed: int

    @property
    def names(self) -> list[str]:
        return [f"x{i}" for i in range(len(self.sizes))]

    def operands(self, samples: int, precision: str) -> list[Array]:
        """Matrices, rows x columns, in f64, that the precision has exactly."""
        rng = np.random.default_rng((self.seed, samples))
        found: list[Array] = []
        for draw, (rows, columns) in zip(self.draws, self.sizes, strict=True):
            shape = (rows, samples if columns is None else columns)
            made = np.asarray(draw(rng, *shape))
            if made.shape != shape or made.dtype.kind not in "fiub":
                got = f"{made.dtype}{list(made.shape)}"
                raise fail("input", f"draw requires numbers of shape {shape}, got {got}")
            found.append(made.astype(DTYPES[precision]).astype(np.float64))
        return found

    def reference(self, operands: Sequence[Array]) -> Array:
        assert self.opdef.reference is not None
        params = make_params(self.opdef.params, self.settings)
        return np.asarray(self.opdef.reference(params, *operands), np.float64)

    def leaf(self, net: GraphBuilder, index: int) -> Node:
        """The operand as an input, or a parameter where its columns are no samples."""
        rows, columns = self.sizes[index]
        name = self.names[index]
        if columns is None:
            return net.apply("input", settings={"rows": rows}, name=name)
        return net.apply("parameter", settings={"rows": rows, "cols": columns}, name=name)

    def network(self) -> GraphBuilder:
        """The node `y` of its operands, and `s`, the sum of its elements times those of `c`.

        A first operand of samples has the column `bias` added, by default 0.
        """
        net = self._empty()
        operands = [self.leaf(net, i) for i in range(len(self.sizes))]
        rows, columns = self.sizes[0] if self.sizes else (0, 0)
        if columns is None:
            zero = {"rows": rows, "cols": 1, "init": "fixed_value", "value": 0.0}
            bias = net.apply("parameter", settings=zero, name="bias")
            operands[0] = net.apply("plus", [operands[0], bias])
        y = self.node(net, operands)
        type = node_type(y.operation)
        settings = {"rows": type.rows or 0}
        if type.has_samples:
            c = net.apply("input", settings=settings, name="c")
        else:
            c = net.apply("parameter", settings={**settings, "cols": type.cols}, name="c")
        net.apply("sum_elements", [net.apply("element_times", [c, y])], name="s")
        return net

    def cycle(self) -> GraphBuilder:
        """The node `y` in a cycle: its first operand is moved by P times what it was before."""
        net = self._empty()
        leaves = [self.leaf(net, i) for i in range(len(self.sizes))]
        rows, _ = self.sizes[0]
        before = net.apply("past_value", [None], {"default_hidden_activity": 0.0}, name="before")
        p = net.apply("parameter", settings={"rows": rows, "cols": 0}, name="p")
        moved = net.apply("plus", [leaves[0], net.apply("times", [p, before])])
        y = self.node(net, [moved, *leaves[1:]])
        net.set_operand(before, 0, y)
        return net

    def _empty(self) -> GraphBuilder:
        net = GraphBuilder()
        net._know(self.opdef)
        return net

    def node(self, net: GraphBuilder, operands: Sequence[Node]) -> Node:
        op = self.opdef.name.removeprefix("node.")
        made = net.apply(op, operands, self.settings, name="y")
        net.sink.raise_if_errors()
        return made


def node_case(
    node: object, sizes: Sequence[object], settings: object, draw: object, seed: object
) -> NodeCase:
    """The case that `check_node` was asked for. GraphcError for arguments of another kind."""
    opdef = node.opdef if isinstance(node, NodeType) else node
    opdef = arguments.instance(opdef, OpDef, "node", "a gc.NodeType or an OpDef")
    if opdef.expand is None or opdef.reference is None:
        what = "check_node requires a node that is an expansion"
        raise fail("argument-type", f"{what}, got {display_name(opdef)}")
    if not opdef.accepts_count(len(sizes)):
        message = f"check_node requires a size for each of {', '.join(opdef.operands)}"
        raise fail("argument-count", f"{message}, got {len(sizes)}")
    return NodeCase(
        opdef if opdef.origin else with_origin(opdef, "check_node"),
        [_size(size, i) for i, size in enumerate(sizes)],
        _settings(opdef, settings),
        _draws(draw, len(sizes)),
        arguments.whole(seed, "seed"),
    )


def _size(given: object, operand: int) -> Size:
    what = f"the size of operand {operand}"
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise arguments.kind_error(what, "(rows, columns), columns None for samples", given)
    rows, columns = given
    whole = None if columns is None else arguments.whole(columns, what)
    return arguments.whole(rows, what), whole


def _settings(opdef: OpDef, given: object) -> Mapping[str, object]:
    """The settings, which the node has."""
    found = {} if given is None else arguments.table(given, "settings", "values")
    try:
        make_params(opdef.params, found)
    except ParamsError as problem:
        raise fail("bad-value", f"{display_name(opdef)}: {problem}") from None
    return found


def _draws(given: object, count: int) -> list[Draw]:
    """A function for each operand."""
    if given is None:
        return [_normal] * count
    if not isinstance(given, tuple | list):
        return [arguments.function(given, "draw")] * count
    if len(given) != count:
        raise fail("argument-count", f"draw requires {count} functions, got {len(given)}")
    return [arguments.function(draw, "each of draw") for draw in given]


def _normal(rng: np.random.Generator, rows: int, columns: int) -> Array:
    return rng.standard_normal((rows, columns))
