"""What a loop's body adds up: products with inputs and states, biases, peepholes, and where the
numbers they are made of lie around the loop.

    %p = matmul %h, %w : tensor<Sx8xf32>          gate 1 of 2, of 4 units:
    %q = add %xt, %p : tensor<Sx8xf32>      =>    columns 4 to 8 of %w by %h, of the weights
    %g = slice %q {starts = [0, 4], …}            that make %xt by its input
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from graphc.ir.core import Value
from graphc.ops.contraction import MATMUL, MatmulParams
from graphc.ops.elementwise import ADD, MUL
from graphc.ops.loop import LoopParts
from graphc.ops.movement import (
    CONCAT,
    RESHAPE,
    SLICE,
    TRANSPOSE,
    ConcatParams,
    SliceParams,
    TransposeParams,
)
from graphc.ops.reduction import BROADCAST
from graphc.passes.matching import is_number, made_by


@dataclass(frozen=True, slots=True)
class Part:
    """Elements start to stop along an axis of an array around the loop: rows of a matrix with that
    axis turned to the front, or a vector whose other dims are 1."""

    value: Value
    axis: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum, for each sample a row.

    inputs     (array around the loop, weights by which its rows are multiplied)
    products   the same of values in the body: of states, and of what is made there
    biases     vectors
    peepholes  (value in the body, vector by which its elements are multiplied)
    others     any other values of the body
    """

    inputs: list[tuple[Value, tuple[Part, ...]]] = field(default_factory=list)
    products: list[tuple[Value, tuple[Part, ...]]] = field(default_factory=list)
    biases: list[tuple[Part, ...]] = field(default_factory=list)
    peepholes: list[tuple[Value, tuple[Part, ...]]] = field(default_factory=list)
    others: list[Value] = field(default_factory=list)


Summands = list[tuple[Value, int, int]]
"""Columns of values that are added up."""


class Body:
    """The body of a loop, and the arrays around it that its arguments are."""

    def __init__(self, parts: LoopParts) -> None:
        self._elements = dict(zip(parts.elements, parts.sequences, strict=True))
        self._shared = dict(zip(parts.shared, parts.invariants, strict=True))
        self._block = parts.block

    def outside(self, value: Value) -> Value:
        """The array around the loop of which the body reads all, or one element a step."""
        return self._elements.get(value) or self._shared.get(value) or value

    def is_inside(self, value: Value) -> bool:
        """Whether the body makes it, or carries it."""
        owner = value.owner
        return owner is self._block or (value.op is not None and value.op.block is self._block)

    def affine(self, value: Value) -> Affine | None:
        """What is added up for the value, None where that is not of these kinds."""
        width = value.tensor.dims[-1] if value.tensor.rank else None
        if not isinstance(width, int):
            return None
        found, pending = Affine(), [(value, 0, width)]
        while pending:
            term, start, stop = pending.pop()
            more = self._summands(self.outside(term), start, stop, found)
            if more is None:
                return None
            pending += reversed(more)
        return found

    def _summands(self, value: Value, start: int, stop: int, found: Affine) -> Summands | None:
        """The values of which these columns are the sum, or nothing for a term of `found`."""
        op = value.op
        if op is not None:
            if is_number(value, 0.0):
                return []
            if op.opdef is ADD:
                return [(v, start, stop) for v in op.operands]
            if op.opdef in (SLICE, CONCAT, RESHAPE):
                moved = _columns(value, start, stop)
                if moved is not None:
                    return [moved]
            if (row := _repeated_row(value)) is not None:
                return [(row, start, stop)]
            if op.opdef is MATMUL:
                return self._product(value, start, stop, found)
        vector = self.vector(value, start, stop)
        if vector is not None:
            found.biases.append(vector)
            return []
        return self._last(value, start, stop, found)

    def _product(self, value: Value, start: int, stop: int, found: Affine) -> Summands | None:
        op = value.definition
        p, (x, w) = op.params_as(MatmulParams), op.operands
        if p.transpose_a or p.batch or p.contract != 1 or w.tensor.rank != 2:
            return None
        weights = self.parts(w, 0 if p.transpose_b else 1, start, stop)
        if weights is None:
            return None
        source = self.outside(x)
        if self.is_inside(source):
            found.products.append((source, weights))
        else:
            found.inputs.append((_root(source), weights))
        return []

    def _last(self, value: Value, start: int, stop: int, found: Affine) -> Summands | None:
        """A peephole, or anything else that the body makes."""
        if not self.is_inside(value) or (start, stop) != (0, value.tensor.dims[-1]):
            return None
        op = made_by(value, MUL)
        for x, d in (op.operands, op.operands[::-1]) if op is not None else ():
            vector = self.vector(d, start, stop)
            if vector is not None and self.is_inside(x):
                found.peepholes.append((x, vector))
                return []
        found.others.append(value)
        return []

    # --- arrays around the loop ------------------------------------------------------------------

    def vector(self, value: Value, start: int, stop: int) -> tuple[Part, ...] | None:
        """These elements of a value that repeats one row in all of them."""
        value = self.outside(value)
        while (row := _repeated_row(value)) is not None:
            value = self.outside(row)
        return self.parts(value, value.tensor.rank - 1, start, stop) if _is_row(value) else None

    def parts(self, value: Value, axis: int, start: int, stop: int) -> tuple[Part, ...] | None:
        """Where the elements along an axis come from, None where the body makes them."""
        found: list[Part] = []
        pending = [Part(value, axis, start, stop)]
        while pending:
            part = pending.pop()
            part = replace(part, value=self.outside(part.value))
            more = _behind(part)
            if more is not None:
                pending += reversed(more)
            elif self.is_inside(part.value):
                return None
            else:
                found.append(part)
        return tuple(found)


def _is_row(value: Value) -> bool:
    """Whether only its last dim is not 1."""
    dims = value.tensor.dims
    return bool(dims) and isinstance(dims[-1], int) and all(d == 1 for d in dims[:-1])


def _repeated_row(value: Value) -> Value | None:
    """The row that all rows of the value are."""
    op = made_by(value, BROADCAST)
    if op is None or op.operands[0].tensor.dims[-1:] != value.tensor.dims[-1:]:
        return None
    return op.operands[0] if _is_row(op.operands[0]) else None


def _root(value: Value) -> Value:
    """The array whose rows these are too."""
    while (op := made_by(value, RESHAPE)) is not None:
        if op.operands[0].tensor.dims[-1:] != value.tensor.dims[-1:]:
            break
        value = op.operands[0]
    return value


def _columns(value: Value, start: int, stop: int) -> tuple[Value, int, int] | None:
    """The operand of a move that has these columns, and where."""
    op, last = value.definition, value.tensor.rank - 1
    if op.opdef is RESHAPE:
        (x,) = op.operands
        same = x.tensor.rank and x.tensor.dims[-1] == value.tensor.dims[-1]
        return (x, start, stop) if same else None
    moved = _behind(Part(value, last, start, stop))
    if moved is None or len(moved) != 1:
        return None
    return moved[0].value, moved[0].start, moved[0].stop


def _behind(part: Part) -> list[Part] | None:
    """What a move makes the part of; None where no move makes it."""
    op, value = part.value.op, part.value
    if op is None:
        return None
    rule = _MOVES.get(op.opdef)
    return rule(part, value) if rule is not None else None


def _behind_transpose(part: Part, value: Value) -> list[Part] | None:
    op = value.definition
    order = op.params_as(TransposeParams).permutation
    return [replace(part, value=op.operands[0], axis=order[part.axis])]


def _behind_slice(part: Part, value: Value) -> list[Part] | None:
    op = value.definition
    p, dims = op.params_as(SliceParams), op.operands[0].tensor.dims
    cuts = zip(p.starts, p.stops, p.steps, dims, strict=True)
    for axis, (start, stop, step, dim) in enumerate(cuts):
        if step != 1 or (axis != part.axis and (start, stop) != (0, dim)):
            return None
    at = p.starts[part.axis]
    if not isinstance(at, int):
        return None
    return [replace(part, value=op.operands[0], start=part.start + at, stop=part.stop + at)]


def _behind_concat(part: Part, value: Value) -> list[Part] | None:
    op = value.definition
    if op.params_as(ConcatParams).axis != part.axis:
        return None
    found, at = list[Part](), 0
    for x in op.operands:
        size = x.tensor.dims[part.axis]
        if not isinstance(size, int):
            return None
        start, stop = max(part.start, at), min(part.stop, at + size)
        if start < stop:
            found.append(Part(x, part.axis, start - at, stop - at))
        at += size
    return found


def _behind_reshape(part: Part, value: Value) -> list[Part] | None:
    """Of one that puts extents of 1 before or away; the axis is the only one of its extent."""
    (x,) = value.definition.operands
    of_value, of_x = ([i for i, d in enumerate(v.tensor.dims) if d != 1] for v in (value, x))
    if [value.tensor.dims[i] for i in of_value] != [x.tensor.dims[i] for i in of_x]:
        return None
    if part.axis in of_value:
        return [replace(part, value=x, axis=of_x[of_value.index(part.axis)])]
    if of_value or not x.tensor.rank:  # an extent of 1 beside others could be any of them
        return None
    return [replace(part, value=x, axis=0)]


_MOVES: dict[object, Callable[[Part, Value], list[Part] | None]] = {
    TRANSPOSE: _behind_transpose,
    SLICE: _behind_slice,
    CONCAT: _behind_concat,
    RESHAPE: _behind_reshape,
}
