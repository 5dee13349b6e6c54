"""What operations on whole arrays become: constants, repeats, reductions, moves, products."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphc.artifacts.onnx.graph import Graph, Writer
from graphc.ir.core import OpDef, Operation
from graphc.ir.dims import size_product
from graphc.ir.elements import stored
from graphc.ir.types import Dim, DType
from graphc.ops import constant, contraction, movement, reduction

# --- without operands ----------------------------------------------------------------------------


def _constant(g: Graph, op: Operation) -> None:
    """One number stays one, in as many places as it may stand."""
    p, result = op.params_as(constant.ConstantParams), op.result
    if len(p.value) == 1:
        g.hold(result, g.number(p.value[0], p.type.dtype), ())
    else:
        shape = [d for d in p.type.dims if isinstance(d, int)]
        g.hold(result, g.array(stored(p.value, p.type.dtype).reshape(shape)))


def _iota(g: Graph, op: Operation) -> None:
    """Along its axis alone."""
    p = op.params_as(constant.IotaParams)
    dims: list[Dim] = [1] * p.type.rank
    dims[p.axis] = p.type.dims[p.axis]
    places = g.positions(dims[p.axis])
    if p.type.rank > 1:
        places = g.reshape(places, dims)
    if p.type.dtype is not DType.I64:
        places = g.cast(places, p.type.dtype)
    g.hold(op.result, places, dims)


def _extent(g: Graph, op: Operation) -> None:
    p = op.params_as(constant.ExtentParams)
    number = g.node("Squeeze", g.file.size(p.dim), g.sizes([0]))
    g.hold(op.result, g.cast(number, p.type.dtype), ())


# --- repeats and reductions ----------------------------------------------------------------------


def _broadcast(g: Graph, op: Operation) -> None:
    """Nothing yet: `Graph.whole` repeats it where that is needed."""
    held = g.held(op.operands[0])
    g.hold(op.result, held.name, held.dims)


def _reduction(name: str) -> Writer:
    def write(g: Graph, op: Operation) -> None:
        axes = op.params_as(reduction.ReduceParams).axes
        x = g.whole(op.operands[0])
        if axes:
            x = g.node(name, x, g.sizes(axes), keepdims=1)
        g.hold(op.result, x)

    return write


# --- moves ---------------------------------------------------------------------------------------


def _reshape(g: Graph, op: Operation) -> None:
    (x,) = op.operands
    if not g.held(x).dims:
        g.hold(op.result, g.held(x).name, ())
    else:
        g.hold(op.result, g.reshape(g.whole(x), op.result.tensor.dims))


def _transpose(g: Graph, op: Operation) -> None:
    """Of the array that there is, before it is repeated."""
    held, order = g.held(op.operands[0]), op.params_as(movement.TransposeParams).permutation
    if not held.dims:
        g.hold(op.result, held.name, ())
    else:
        g.hold(op.result, g.transpose(held.name, order), [held.dims[i] for i in order])


def _slice(g: Graph, op: Operation) -> None:
    p, x = op.params_as(movement.SliceParams), op.operands[0]
    dims = x.tensor.dims
    cuts = zip(dims, p.starts, p.stops, p.steps, strict=True)
    axes = [i for i, (d, a, z, s) in enumerate(cuts) if (a, z, s) != (0, d, 1)]
    made = g.whole(x)
    if axes:
        starts, stops = ([ends[i] for i in axes] for ends in (p.starts, p.stops))
        steps = [g.sizes([p.steps[i] for i in axes])] if any(p.steps[i] != 1 for i in axes) else []
        made = g.node("Slice", made, g.sizes(starts), g.sizes(stops), g.sizes(axes), *steps)
    g.hold(op.result, made)


def _pad(g: Graph, op: Operation) -> None:
    p, x = op.params_as(movement.PadParams), op.operands[0]
    dims, made = list(x.tensor.dims), g.whole(x)
    number = g.number(p.value, x.tensor.dtype)
    for axis, inner in enumerate(p.inner):
        extent = dims[axis]
        if inner and isinstance(extent, int) and extent > 1:
            made = _apart(g, made, dims, axis, inner, number)
            dims[axis] = extent + (extent - 1) * inner
    if any((*p.low, *p.high)):
        made = g.node("Pad", made, g.sizes([*p.low, *p.high]), number, mode="constant")
    g.hold(op.result, made)


def _apart(g: Graph, x: str, dims: list[Dim], axis: int, inner: int, number: str) -> str:
    """`x` with so many numbers between neighbours along an axis of a known extent: each element is
    followed by them on an axis of its own, and those behind the last one are cut off."""
    extent, before, after = dims[axis], dims[:axis], dims[axis + 1 :]
    assert isinstance(extent, int)
    cells = g.reshape(x, [*before, extent, 1, *after])
    ends = [0] * (2 * len(dims) + 2)
    ends[len(dims) + 1 + axis + 1] = inner
    cells = g.node("Pad", cells, g.sizes(ends), number, mode="constant")
    spread = g.reshape(cells, [*before, extent * (inner + 1), *after])
    return g.cut(spread, axis, 0, extent * (inner + 1) - inner)


def _concat(g: Graph, op: Operation) -> None:
    axis = op.params_as(movement.ConcatParams).axis
    g.hold(op.result, g.node("Concat", *map(g.whole, op.operands), axis=axis))


def _reverse(g: Graph, op: Operation) -> None:
    axes = op.params_as(movement.ReverseParams).axes
    made = g.whole(op.operands[0])
    if axes:
        last, before, back = ([n] * len(axes) for n in (-1, np.iinfo(np.int64).min + 1, -1))
        made = g.node("Slice", made, g.sizes(last), g.sizes(before), g.sizes(axes), g.sizes(back))
    g.hold(op.result, made)


# --- products ------------------------------------------------------------------------------------


def _matmul(g: Graph, op: Operation) -> None:
    """Matrices, of a group of dims each, and the batch in front of both."""
    p, (x, y) = op.params_as(contraction.MatmulParams), op.operands
    of = contraction.groups(p, x.tensor, y.tensor)
    dims = op.result.tensor.dims
    if 0 in of.inner:
        g.hold(op.result, g.number(0.0, op.result.tensor.dtype), ())
        return
    a, b = g.whole(x), g.whole(y)
    single = len(of.inner) == len(of.cols) == 1 and not of.batch
    if single and len(of.rows) == 1 and (p.transpose_a or p.transpose_b):
        turned = {"transA": int(p.transpose_a), "transB": int(p.transpose_b)}
        g.hold(op.result, g.node("Gemm", a, b, **turned))
        return
    if not (single and not p.transpose_a):  # else any number of rows is as good as one
        rows, inner, cols = (size_product(group) for group in (of.rows, of.inner, of.cols))
        a = _matrices(
            g, a, x.tensor.dims, of.batch, (inner, rows) if p.transpose_a else (rows, inner)
        )
        b = _matrices(
            g, b, y.tensor.dims, of.batch, (cols, inner) if p.transpose_b else (inner, cols)
        )
        a = _turned(g, a, len(of.batch)) if p.transpose_a else a
    b = _turned(g, b, len(of.batch)) if p.transpose_b else b
    made = g.node("MatMul", a, b)
    plain = len(of.rows) == len(of.cols) == 1 or (single and not p.transpose_a)
    g.hold(op.result, made if plain else g.reshape(made, dims))


def _matrices(
    g: Graph, x: str, dims: tuple[Dim, ...], batch: tuple[Dim, ...], sizes: tuple[Dim, Dim]
) -> str:
    wanted = (*batch, *sizes)
    return x if dims == wanted else g.reshape(x, wanted)


def _turned(g: Graph, x: str, batch: int) -> str:
    return g.transpose(x, [*range(batch), batch + 1, batch])


WRITERS: Mapping[OpDef, Writer] = {
    constant.CONSTANT: _constant,
    constant.IOTA: _iota,
    constant.EXTENT: _extent,
    reduction.BROADCAST: _broadcast,
    reduction.REDUCE_SUM: _reduction("ReduceSum"),
    reduction.REDUCE_MAX: _reduction("ReduceMax"),
    reduction.REDUCE_MIN: _reduction("ReduceMin"),
    movement.RESHAPE: _reshape,
    movement.TRANSPOSE: _transpose,
    movement.SLICE: _slice,
    movement.PAD: _pad,
    movement.CONCAT: _concat,
    movement.REVERSE: _reverse,
    contraction.MATMUL: _matmul,
}
