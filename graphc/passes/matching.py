"""What patterns look at: what made a value, its type, the one number that a constant holds."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.core import OpDef, Operation, Value
from graphc.ir.elements import as_numbers, stored
from graphc.ir.params import print_value
from graphc.ops.constant import ConstantParams

Result = Sequence[Value] | None
"""What a rule gives: the values to use instead, None where it does not apply."""


def splat(value: Value) -> bool | int | float | None:
    """The one number that every element of a constant is, as its element type holds it."""
    op = value.op
    if op is None or not isinstance(op.params, ConstantParams):
        return None
    first, *rest = op.params.value
    if any(print_value(v) != print_value(first) for v in rest):
        return None
    return as_numbers(stored([first], op.params.type.dtype))[0].item()


def is_number(value: Value, number: float) -> bool:
    """Whether `value` is `number` in every element; 0.0 and -0.0 are different numbers."""
    found = splat(value)
    if found is None or isinstance(found, bool):
        return False
    return print_value(float(found)) == print_value(float(number))


def is_float(value: Value) -> bool:
    """Whether the elements are floats."""
    return value.tensor.dtype.is_float


def made_by(value: Value, opdef: OpDef) -> Operation | None:
    """The operation that makes `value`, where it is an `opdef`."""
    return value.op if value.op is not None and value.op.opdef is opdef else None


def operand_of(value: Value, opdef: OpDef) -> Value | None:
    """The operand of the unary `opdef` that makes `value`."""
    op = made_by(value, opdef)
    return op.operands[0] if op is not None else None
