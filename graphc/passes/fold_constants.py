"""Computes operations whose operands are all constants.

    %0 = constant {type = tensor<4xf32>, value = [2.0]} : tensor<4xf32>
    %1 = constant {type = tensor<4xf32>, value = [3.0]} : tensor<4xf32>
    %2 = mul %0, %1 : tensor<4xf32>
 =>
    %2 = constant {type = tensor<4xf32>, value = [6.0]} : tensor<4xf32>

One value for all elements stays one value, whatever the extents. Leaves alone: arrays of more than
`max_elements` elements, several elements under dimensions that only the call knows, reductions over
such dimensions, and operations with regions. The constants that are left over go with `dce`.

The numbers are those of each operation's reference, so folding changes no bit of what `evaluate`
gives; a backend's own `exp` may differ from it in the last place. One walk in program order,
O(operations + elements).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphc.ir.codegen import Broadcast, Category, Elementwise, Extent, StridedCopy, View
from graphc.ir.context import Context
from graphc.ir.core import Array, Function, IRBuilder, Module, Operation, RegionKind, Trait, Value
from graphc.ir.elements import as_numbers, stored
from graphc.ir.evaluate import evaluate_operation
from graphc.ir.params import print_value, symbols_in
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import DType, Symbol
from graphc.ops.constant import CONSTANT, ConstantParams, ExtentParams
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome


def constant_of(value: Value) -> ConstantParams | None:
    """The constant behind `value`, if it is one."""
    op = value.op
    return op.params if op is not None and isinstance(op.params, ConstantParams) else None


def is_foldable(op: Operation) -> bool:
    """Whether `op` is pure and computes from constants alone."""
    if not op.opdef.has(Trait.PURE) or op.regions or op.opdef.reference is None:
        return False
    if isinstance(op.params, ExtentParams):
        return not isinstance(op.params.dim, Symbol)
    return bool(op.operands) and all(constant_of(v) is not None for v in op.operands)


def fold(function: Function, max_elements: int = 4096) -> int:
    """Fold what can be folded in `function`; how many operations were replaced."""
    if function.kind is not RegionKind.SSA or function.arena is not None:
        return 0
    folded = 0
    for op in [op for block in straight_blocks(function) for op in block]:
        elements = _fold_one(op, max_elements) if is_foldable(op) else None
        if elements is not None:
            params = ConstantParams(op.result.tensor, elements)
            op.replace_with([IRBuilder.before(op).emit_one(CONSTANT, params=params)])
            folded += 1
    return folded


def _fold_one(op: Operation, max_elements: int) -> tuple[bool | int | float, ...] | None:
    """The elements of the result (one for all of them), None where the pass leaves `op` alone."""
    constants = [c for v in op.operands if (c := constant_of(v)) is not None]
    category = op.opdef.codegen
    if all(len(c.value) == 1 for c in constants):
        if isinstance(category, Broadcast | View) or _only_moves(category, constants):
            return constants[0].value
        if isinstance(category, Elementwise | Extent):
            return _elements(_on_one_element(op, constants), op.result.tensor.dtype)
    types = [c.type for c in constants] + [op.result.tensor]
    if any(t.symbols() or t.bound_elements > max_elements for t in types):
        return None
    if any(symbols_in(op.params)):
        return None
    arrays = [_array(c) for c in constants]
    with np.errstate(all="ignore"):
        (result,) = evaluate_operation(op, arrays, {})
    return _elements(np.asarray(result), op.result.tensor.dtype)


def _only_moves(category: Category, constants: Sequence[ConstantParams]) -> bool:
    """Whether every element of the result is the one number that all operands hold."""
    if not isinstance(category, StridedCopy) or category.fill is not None:
        return False
    return len({print_value(c.value[0]) for c in constants}) == 1


def _on_one_element(op: Operation, constants: Sequence[ConstantParams]) -> Array:
    reference = op.opdef.reference
    assert reference is not None
    arrays = [stored(c.value[:1], c.type.dtype).reshape((1,) * c.type.rank) for c in constants]
    with np.errstate(all="ignore"):
        return np.asarray(reference(op.params, *arrays))


def _array(constant: ConstantParams) -> Array:
    shape = constant.type.shape({})
    values = stored(constant.value, constant.type.dtype)
    return np.full(shape, values[0]) if len(values) == 1 else values.reshape(shape)


def _elements(array: Array, dtype: DType) -> tuple[bool | int | float, ...]:
    convert = bool if dtype is DType.I1 else float if dtype.is_float else int
    values = tuple(convert(v) for v in as_numbers(array).ravel())
    if not values:
        return (convert(0),)
    first = print_value(values[0])
    return values[:1] if all(print_value(v) == first for v in values) else values


@dataclass(frozen=True)
class FoldConstants(Pass):
    """`max_elements`: the largest array that is computed element by element."""

    name: ClassVar[str] = "fold-constants"
    summary: ClassVar[str] = "compute operations whose operands are constants"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})
    max_elements: int = 4096

    def run(self, module: Module, context: Context) -> PassOutcome:
        folded = sum(fold(f, self.max_elements) for f in module.functions)
        return PassOutcome(changed=folded > 0, counters={"folded": folded})
