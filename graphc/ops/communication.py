"""What the members of a training share: sums of arrays over all of them.

Each member calls its own copy of a function with data of its own. Where the sum stands, all wait
for each other; after it they have the same numbers. No backend computes it: a function is cut there
in two, between which a communicator adds (`graphc/driver/members.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphc.ir.codegen import Collective
from graphc.ir.core import Array, IRBuilder, NotDifferentiable, OpDef, Value
from graphc.ir.params import Params
from graphc.ir.types import Type, TypeRuleError
from graphc.ops.rules import FLOATS, require_dtype, tensor
from graphc.support.diagnostics import InternalError


@dataclass(frozen=True)
class AllReduceParams(Params):
    """`members`: how many there are."""

    members: int


def all_reduce(b: IRBuilder, values: Iterable[Value], members: int) -> list[Value]:
    """The values' sums over all members."""
    return b.emit(ALL_REDUCE, values, AllReduceParams(members)).results


def _infer(types: Sequence[Type], params: AllReduceParams) -> Sequence[Type]:
    if params.members < 1:
        raise TypeRuleError(f"requires 1 member or more, got {params.members}", slug="bad-value")
    if not types:
        raise TypeRuleError("requires at least one operand")
    found = [tensor(type, i) for i, type in enumerate(types)]
    for operand, type in enumerate(found):
        require_dtype(type, FLOATS, operand)
        if type.dtype != found[0].dtype:
            raise TypeRuleError(
                f"requires one element type, got {found[0]} and {type}", operand=operand
            )
        if type.symbols():
            raise TypeRuleError(
                f"requires dims that are the same for all members, got {type}", operand=operand
            )
    return found


def _reference(params: AllReduceParams, *arrays: Array) -> tuple[Array, ...]:
    if params.members != 1:
        raise InternalError(f"one of {params.members} members has not what the others add")
    return arrays


ALL_REDUCE = OpDef(
    name="all_reduce",
    summary="sums over all members of a training, which call the same function on their own data",
    operands=("x*",),
    params=AllReduceParams,
    infer=_infer,
    reference=_reference,
    codegen=Collective(),
    vjp=NotDifferentiable.NONE,
    equation="y = Σ_member x",
)

OPS = (ALL_REDUCE,)
