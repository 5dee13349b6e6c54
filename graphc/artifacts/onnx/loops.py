"""What a loop becomes: one of ONNX's cells where it is that, else a Scan, whose graph reads what
all steps share from around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphc.artifacts.onnx.cells import cell_of
from graphc.artifacts.onnx.graph import Body, Graph, Port, Writer
from graphc.artifacts.onnx.recurrent import write_cell
from graphc.ir.core import Block, OpDef, Operation, Value
from graphc.ir.types import DType
from graphc.ops.loop import LOOP, loop_parts

WriteBlock = Callable[[Graph, Block], None]


def loop_writers(write_block: WriteBlock) -> Mapping[OpDef, Writer]:
    """The table of this file; `write_block` writes the operations of a body."""

    def write(g: Graph, op: Operation) -> None:
        cell = cell_of(op, g.file.tables)
        if cell is not None:
            write_cell(g, op, cell)
        else:
            write_scan(g, op)

    def write_scan(g: Graph, op: Operation) -> None:
        parts, inner = loop_parts(op), g.inner()
        for argument, operand in zip(parts.shared, parts.invariants, strict=True):
            held = g.held(operand)
            inner.hold(argument, held.name, held.dims)
        inputs = [_port(inner, v) for v in (*parts.carry_in, *parts.elements)]
        sequences = [g.whole(v) for v in parts.sequences]
        initial = [g.whole(v) for v in parts.initial]
        if not sequences:  # a Scan goes through one: the numbers of the steps
            sequences = [g.positions(parts.params.count)]
            inputs.append(Port(g.file.fresh("step"), DType.I64, ()))
        write_block(inner, parts.block)
        inner.called = "yield"
        yields = (*parts.carry_out, *parts.stacked)
        # Each output is an array of its own, made in the graph
        outputs = [
            Port(inner.node("Identity", inner.whole(v)), v.tensor.dtype, v.tensor.dims)
            for v in yields
        ]
        way = int(parts.params.backward)
        made = g.several(
            "Scan",
            [*initial, *sequences],
            len(op.results),
            body=Body(inner.nodes, inputs, outputs),
            num_scan_inputs=len(sequences),
            **({"scan_input_directions": [way] * len(sequences)} if way else {}),
            **(
                {"scan_output_directions": [way] * len(parts.stacks)}
                if way and parts.stacks
                else {}
            ),
        )
        for result, name in zip(op.results, made, strict=True):
            g.hold(result, name)

    return {LOOP: write}


def _port(inner: Graph, argument: Value) -> Port:
    """An input of the body, which is all of what a step reads there."""
    name = inner.file.fresh(argument.called)
    inner.hold(argument, name)
    return Port(name, argument.tensor.dtype, argument.tensor.dims)
