"""Type rules and forward-mode rules that op families share, and the checks they are made of."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.core import InferRule, IRBuilder, NotDifferentiable, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import Dim, DType, TensorType, Type, TypeRuleError

FLOATS = (DType.F32, DType.F64)
NUMBERS = (DType.F32, DType.F64, DType.I32, DType.I64)


def tensor(type: Type, operand: int = 0) -> TensorType:
    """`type` as a tensor type."""
    if not isinstance(type, TensorType):
        raise TypeRuleError(f"requires tensors, got {type}", operand=operand)
    return type


def require_dtype(type: TensorType, allowed: Sequence[DType], operand: int = 0) -> None:
    if type.dtype not in allowed:
        names = ", ".join(d.value for d in allowed)
        raise TypeRuleError(f"requires elements of {names}, got {type}", operand=operand)


def require_axes(axes: Sequence[int], rank: int) -> None:
    """Axes within the rank, ascending, each once."""
    if any(not 0 <= a < rank for a in axes) or list(axes) != sorted(set(axes)):
        raise TypeRuleError(f"requires ascending axes below the rank {rank}, got {list(axes)}")


def same_types(allowed: Sequence[DType]) -> InferRule:
    """All operands of one type, which is the result's."""

    def infer(types: Sequence[Type], _params: Params) -> Sequence[Type]:
        first = tensor(types[0])
        require_dtype(first, allowed)
        for index, other in enumerate(types[1:], start=1):
            if other != first:
                raise TypeRuleError(
                    f"requires operands of one type, got {first} and {other}", operand=index
                )
        return [first]

    return infer


def comparison(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    """Two operands of one type; i1 of their shape."""
    (type,) = same_types((*NUMBERS, DType.I1))(types, _params)
    return [tensor(type).with_dtype(DType.I1)]


def dims_text(dims: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, dims))}]"


Tangents = Sequence[Value | None]


def diagonal_jvp(b: IRBuilder, op: Operation, tangents: Tangents) -> Sequence[Value]:
    """Of element-wise operations: the Jacobian is diagonal, so the vjp's factors are the jvp's."""
    assert not isinstance(op.opdef.vjp, NotDifferentiable)
    terms = [
        op.opdef.vjp(b, op, tangent)[index]
        for index, tangent in enumerate(tangents)
        if tangent is not None
    ]
    return [term for term in terms if term is not None]


def multilinear_jvp(b: IRBuilder, op: Operation, tangents: Tangents) -> Sequence[Value]:
    """Of operations linear in each operand alone: the product rule."""
    terms: list[Value] = []
    for index, tangent in enumerate(tangents):
        if tangent is not None:
            operands = [tangent if i == index else v for i, v in enumerate(op.operands)]
            terms.append(b.emit_one(op.opdef, *operands, params=op.params))
    return terms
