"""How the work of a kernel-level operation is cut into parts: its `split`, a dim and a length.

    kernel … {split = [0, 16]}        16 indices of axis 0 a part
    gemm … {split = ["rows", 64]}     64 rows of the product a part, or "cols"; also `gemm.fused`
    conv … {split = ["images", 4]}    4 images a part; also `conv.image` and `pool`, `pool.*`
    conv.weights … {split = ["rows", 40]}   40 rows of the weights a part, of one column of a window

Threads share the parts. What a part computes depends on the split and the sizes of the call alone,
so results have the same bits for any number of threads. `split-work` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphc.ir.codegen import Reduction
from graphc.ir.core import Operation, Value
from graphc.ir.types import TensorType
from graphc.ops.contraction import MatmulParams
from graphc.ops.reduction import ReduceParams

Setting = tuple[int | str, ...]
"""The parameter: nothing, or what is cut and the length of a part."""


@dataclass(frozen=True, slots=True)
class Split:
    """`where` is an axis of a kernel, or a word for what is cut of another operation."""

    where: int | str
    length: int


def split_of(op: Operation) -> Split | None:
    """How the operation is cut; None for one piece."""
    setting: Setting = getattr(op.params, "split", ())
    if len(setting) != 2 or not isinstance(setting[1], int):
        return None
    return Split(setting[0], setting[1])


def check_split(op: Operation) -> Iterable[str]:
    """What is wrong with the split of `op`, a kernel (axes) or a product (rows or columns)."""
    setting: Setting = getattr(op.params, "split", ())
    if not setting:
        return
    split = split_of(op)
    if split is None or split.length < 1:
        yield f"a split is what is cut and the length of a part, at least 1, got {list(setting)}"
        return
    if isinstance(op.params, MatmulParams):
        if split.where not in ("rows", "cols"):
            yield f'a split of a product cuts "rows" or "cols", got {split.where!r}'
        if getattr(op.params, "batch", 0):
            yield "a product over a batch cannot be cut"
    elif not isinstance(split.where, int) or not 0 <= split.where < _rank(op):
        yield f"a split of a kernel cuts one of {_rank(op)} axes, got {split.where!r}"
    elif split.where in folded_axes(op):
        yield f"axis {split.where} cannot be cut: something is folded over it"


def check_images(op: Operation) -> Iterable[str]:
    """What is wrong with the split of an operation that is cut by images, if it is."""
    return check_windows(op, "images")


def check_windows(op: Operation, what: str) -> Iterable[str]:
    """What is wrong with the split of an operation over windows that cuts `what`, if it is."""
    setting: Setting = getattr(op.params, "split", ())
    split = split_of(op)
    if setting and (split is None or split.length < 1):
        yield f"a split is what is cut and the length of a part, at least 1, got {list(setting)}"
    elif split is not None and split.where != what:
        yield f'a split cuts "{what}", got {split.where!r}'
    elif split is not None and len(op.results) > 1:
        yield "an operation with zeros around its images cannot be cut: there is room for one"


def folded_axes(kernel: Operation) -> frozenset[int]:
    """The axes that some reduction in the body folds."""
    found: set[int] = set()
    for region in kernel.regions:
        for op in region.block:
            if isinstance(op.opdef.codegen, Reduction) and isinstance(op.params, ReduceParams):
                dims = _dims(op.operands[0])
                found.update(a for a in op.params.axes if dims[a] != 1)
    return frozenset(found)


def _rank(op: Operation) -> int:
    return len(_dims(op.results[0])) if op.results else 0


def _dims(value: Value) -> tuple[object, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.dims
