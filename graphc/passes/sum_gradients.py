"""The sum of what two readers of a value send back to it.

What slices send back are paddings. Where they are of different places along one axis, as those of
the gates in one product, nothing is added:

    %a = pad %i {low = [0, 0], high = [0, 8], inner = [0, 0]} : tensor<4x16xf32>
    %b = pad %f {low = [0, 8], high = [0, 0], inner = [0, 0]} : tensor<4x16xf32>
    %s = add %a, %b : tensor<4x16xf32>
 =>
    %s = concat %i, %f {axis = 1} : tensor<4x16xf32>

Only the sign of zeros may differ: -0 stays what it is, where a sum with padding would be 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import fixed_size
from graphc.ops.constant import CONSTANT, ConstantParams, constant
from graphc.ops.elementwise import add
from graphc.ops.movement import CONCAT, PAD, ConcatParams, PadParams, concat, pad
from graphc.passes.matching import made_by


@dataclass(frozen=True, slots=True)
class _Piece:
    """What stands from `start` on along an axis."""

    start: int
    value: Value

    def stop(self, axis: int) -> int:
        return self.start + fixed_size(self.value.tensor.dims[axis])


def sum_of(b: IRBuilder, x: Value, y: Value) -> Value:
    """`x + y`, joined where one has zeros wherever the other has more."""
    axis = _axis(x)
    if axis is None or axis != _axis(y):
        return add(b, x, y)
    pieces = sorted([*_pieces(x, axis), *_pieces(y, axis)], key=lambda p: p.start)
    stops = [p.stop(axis) for p in pieces]
    if not pieces or any(p.start < stop for p, stop in zip(pieces[1:], stops, strict=False)):
        return add(b, x, y)
    return _joined(b, pieces, axis, x)


def _axis(value: Value) -> int | None:
    """The axis along which zeros stand beside a value or between its parts; None for no zeros."""
    if joined := made_by(value, CONCAT):
        axis = joined.params_as(ConcatParams).axis
        return axis if _is_fixed(value, axis) else None
    padded = made_by(value, PAD)
    if padded is None:
        return None
    params = padded.params_as(PadParams)
    axes = [i for i, ends in enumerate(zip(params.low, params.high, strict=True)) if any(ends)]
    if len(axes) != 1 or any(params.inner) or params.value != 0:
        return None
    return axes[0] if _is_fixed(value, axes[0]) else None


def _is_fixed(value: Value, axis: int) -> bool:
    """Whether no call decides where anything is along the axis."""
    sizes = [value.tensor.dims[axis]]
    if padded := made_by(value, PAD):
        params, (value,) = padded.params_as(PadParams), padded.operands
        sizes += [params.low[axis], params.high[axis], value.tensor.dims[axis]]
    if joined := made_by(value, CONCAT):
        sizes += [part.tensor.dims[axis] for part in joined.operands]
    return all(isinstance(size, int) for size in sizes)


def _pieces(value: Value, axis: int) -> list[_Piece]:
    """What is not zeros along the axis, from the first on."""
    start = 0
    if padded := made_by(value, PAD):
        start = fixed_size(padded.params_as(PadParams).low[axis])
        (value,) = padded.operands
    joined = made_by(value, CONCAT)
    if joined is None or joined.params_as(ConcatParams).axis != axis:
        return [_Piece(start, value)]
    pieces: list[_Piece] = []
    for part in joined.operands:
        piece = _Piece(start, part)
        if not _is_zeros(part):
            pieces.append(piece)
        start = piece.stop(axis)
    return pieces


def _is_zeros(value: Value) -> bool:
    made = made_by(value, CONSTANT)
    return made is not None and set(made.params_as(ConstantParams).value) == {0.0}


def _joined(b: IRBuilder, pieces: list[_Piece], axis: int, whole: Value) -> Value:
    """The pieces at their places in an array like `whole`, and zeros elsewhere."""
    type = whole.tensor
    end = first = pieces[0].start
    parts: list[Value] = []
    for piece in pieces:
        if piece.start > end:
            dims = [piece.start - end if i == axis else d for i, d in enumerate(type.dims)]
            parts.append(constant(b, 0.0, type.with_dims(dims)))
        parts.append(piece.value)
        end = piece.stop(axis)
    low, high = [0] * type.rank, [0] * type.rank
    low[axis], high[axis] = first, fixed_size(type.dims[axis]) - end
    return pad(b, concat(b, parts, axis), low, high)
