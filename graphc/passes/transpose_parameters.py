"""Takes parameters transposed where what reads them wants rows; for code that they are part of.

    func @f(%x: tensor<Nx64xf32> input, %W: tensor<10x64xf32> parameter) -> (…) {
      %y = matmul %x, %W {transpose_b = true} : tensor<Nx10xf32>
 =>
    func @f(%x: tensor<Nx64xf32> input, %W.transposed: tensor<64x10xf32> transposed) -> (…) {
      %y = matmul %x, %W.transposed : tensor<Nx10xf32>

The function then reads rows of a matrix one after the other, and nothing is transposed in a call:
whoever binds the function turns the matrix once. The numbers keep their bits.

    %y = index.sparse_product %x, %E, %words {columns = true} : tensor<Nx50xf32>
 =>
    %y = index.sparse_product %x, %E.transposed, %words : tensor<Nx50xf32>

Tables whose columns are looked up likewise: a word's numbers then lie side by side.

Leaves alone: a parameter that anything else reads or that the function updates, one with a single
row or column, products over a batch. O(arguments and their uses).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, Module, Operation, RegionKind, Value
from graphc.ops.contraction import MatmulParams
from graphc.ops.indexed import LookupParams
from graphc.ops.movement import TransposeParams
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

SUFFIX = ".transposed"
"""Of the argument's name, as the signature of a function knows it."""
MATRIX_TRANSPOSED = TransposeParams((1, 0))


def transpose_parameters(function: Function) -> int:
    """Change the arguments of `function`; how many are transposed."""
    if function.kind is not RegionKind.SSA:
        return 0
    updated = {result.updates for result in function.results}
    count = 0
    for argument, role in zip(function.arguments, function.roles, strict=True):
        name = f"{argument.name}{SUFFIX}"
        is_free = argument.name not in updated and function.argument(name) is None
        if role == "parameter" and is_free and _is_read_transposed(argument):
            _transpose(argument, name)
            function.roles[argument.index] = "transposed"
            count += 1
    return count


def _is_read_transposed(argument: Value) -> bool:
    """Whether it is a matrix that everything reads transposed."""
    if argument.tensor.rank != 2 or 1 in argument.tensor.dims or not argument.has_uses:
        return False
    return all(_transposes(op, place) for op, place in argument.uses)


def _transposes(op: Operation, place: int) -> bool:
    if isinstance(op.params, MatmulParams):
        is_plain = (op.params.contract, op.params.batch) == (1, 0)
        return is_plain and op.params.transpose_b and place == 1
    if isinstance(op.params, LookupParams):
        return op.params.columns and place == 1
    return op.params == MATRIX_TRANSPOSED


def _transpose(argument: Value, name: str) -> None:
    """Give the argument its other form, to all that read it."""
    argument.name = name
    argument.type = replace(argument.tensor, dims=argument.tensor.dims[::-1])
    for op, _ in argument.uses:
        if isinstance(op.params, MatmulParams):
            op.params = replace(op.params, transpose_b=False)
        elif isinstance(op.params, LookupParams):
            op.params = replace(op.params, columns=False)
        else:
            op.replace_with([argument])


@dataclass(frozen=True)
class TransposeParameters(Pass):
    name: ClassVar[str] = "transpose-parameters"
    summary: ClassVar[str] = "take matrices of the model as products and lookups read them"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    def run(self, module: Module, context: Context) -> PassOutcome:
        count = sum(transpose_parameters(f) for f in module.functions)
        return PassOutcome(changed=count > 0, counters={"transposed": count})
