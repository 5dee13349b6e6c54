"""What operations do: arithmetic and bytes moved. Whoever decides or reports by these asks here;
how long they take is in `work.py`.

flops   additions, multiplications, comparisons, choices and roots count one each, a call of a
        mathematical function (exp, tanh, …) one too, a multiply-add of a product two
bytes   each operand is read once and each result written once, whatever the caches do; of a table
        only the rows that are looked up
weight  of a formula, relative to an addition: what a choice between formulas goes by

Extents are those of a call (`Sizes`), or at their bounds for None. What is free to compute again
(constants, indices, broadcasts) and views cost nothing, and a loop nothing itself: its body's
operations do, once for each of the loop's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from graphc.ir.codegen import (
    ChannelProduct,
    Contraction,
    Elementwise,
    FusedProduct,
    IndexedSum,
    Reduction,
    Selection,
    StridedCopy,
    Terminator,
    View,
    WindowProduct,
    WindowReduction,
)
from graphc.ir.core import Block, Operation, Value
from graphc.ir.params import Params
from graphc.ir.scalar import ScalarRule
from graphc.ir.types import Dim, bound_elements, size_of
from graphc.ops.contraction import Groups, MatmulParams, groups
from graphc.ops.convolution import conv_shape
from graphc.ops.depthwise import depthwise_shape
from graphc.ops.loop import LOOP, LoopParams
from graphc.ops.pooling import pool_shape

Sizes = Mapping[str, int]
"""The size of every dim by its name."""

SCALAR_COSTS = {
    "exp": 16,
    "expm1": 16,
    "log": 16,
    "log1p": 16,
    "tanh": 20,
    "sigmoid": 20,
    "erf": 32,
    "sin": 32,
    "cos": 32,
    "arctan": 32,
    "power": 64,
    "random_uniform": 64,
    "floor": 8,
    "round_bf16": 6,
    "left_shift": 4,
    "right_shift": 3,
    "div": 4,
    "sqrt": 4,
    "literal": 0,
}
"""Scalar ops of formulas that cost more than an addition, which is 1."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one execution."""

    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def bytes(self) -> int:
        """Read and written."""
        return self.bytes_read + self.bytes_written

    def times(self, count: int) -> Cost:
        """Of so many executions."""
        return Cost(self.flops * count, self.bytes_read * count, self.bytes_written * count)

    def plus(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )


# --- formulas -------------------------------------------------------------------------------------


class _Counter:
    """A `Scalars` that computes nothing and counts the scalar ops of a formula."""

    def __init__(self) -> None:
        self.flops = 0  # casts and constants left out
        self.weight = 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        def scalar_op(*_: object) -> None:
            self.flops += name not in ("cast", "literal")
            self.weight += SCALAR_COSTS.get(name, 1)

        return scalar_op


def _counted(rule: ScalarRule, params: Params, arguments: int) -> _Counter:
    counter = _Counter()
    # It only counts the scalar ops that the rule says; there are no values to say them of.
    rule(counter, params, *([None] * arguments))  # type: ignore[arg-type]
    return counter


def formula_cost(rule: ScalarRule, params: Params, arguments: int) -> int:
    """The cost of an element-wise formula of so many arguments."""
    return _counted(rule, params, arguments).weight


def is_light(op: Operation) -> bool:
    """Whether an operation is element-wise and weighs no more than an addition."""
    codegen = op.opdef.codegen
    if not isinstance(codegen, Elementwise):
        return False
    return formula_cost(codegen.rule, op.params, len(op.operands)) <= 1


# --- operations -----------------------------------------------------------------------------------


def multiply_adds(roles: Groups, sizes: Sizes | None = None) -> int:
    """Of a product of matrices."""
    return _elements((*roles.batch, *roles.rows, *roles.cols, *roles.inner), sizes)


def window_multiply_adds(op: Operation, sizes: Sizes | None = None) -> int:
    """Of one of the three products of a convolution."""
    shape = conv_shape(op.params, [v.type for v in op.operands])
    walked = (*shape.lead, *shape.output_positions, *shape.sizes)
    return _elements((*walked, *shape.channels, *shape.features), sizes)


def channel_multiply_adds(op: Operation, sizes: Sizes | None = None) -> int:
    """Of one of the three products of a depthwise convolution."""
    shape = depthwise_shape(op.params, [v.type for v in op.operands])
    return _elements((*shape.results, *shape.sizes), sizes)


def lookup_steps(op: Operation, sizes: Sizes | None = None) -> int:
    """Products that a sum of looked up products adds up."""
    codegen = op.opdef.codegen
    assert isinstance(codegen, IndexedSum)
    extents = _subscript_extents(op, codegen.subscripts(op.params), sizes)
    return prod(extents.get(letter, 1) for letter in "nkd")


def value_bytes(value: Value, sizes: Sizes | None = None) -> int:
    """Of all elements."""
    type = value.tensor
    return _elements(type.dims, sizes) * type.dtype.itemsize


def cost(op: Operation, sizes: Sizes | None = None) -> Cost:
    """What one execution of `op` does, a loop without its body."""
    codegen = op.opdef.codegen
    if op.opdef is LOOP or isinstance(codegen, View | Terminator):
        return Cost()
    flops = _own_flops(op, sizes)
    for region in op.regions:
        flops += sum(_own_flops(inner, sizes) for inner in region.block)
    read = sum(value_bytes(v, sizes) for v in dict.fromkeys(op.operands))
    if isinstance(codegen, IndexedSum):
        read = _looked_up_bytes(op, codegen, sizes)
    return Cost(flops, read, sum(value_bytes(v, sizes) for v in op.results))


def walk_costs(block: Block, sizes: Sizes) -> Iterator[tuple[Operation, int, Cost]]:
    """Every operation that costs something, in order: it, how often it runs in one call of the
    block, and the cost of one of these. Goes into loops."""
    pending: list[tuple[Block, int, int]] = [(block, 0, 1)]
    while pending:
        inside, first, times = pending.pop()
        operations = list(inside)
        for i in range(first, len(operations)):
            op = operations[i]
            if op.opdef is LOOP:
                pending.append((inside, i + 1, times))
                steps = size_of(op.params_as(LoopParams).count, sizes)
                pending.append((op.regions[0].block, 0, times * steps))
                break
            if not isinstance(op.opdef.codegen, View | Terminator):
                yield op, times, cost(op, sizes)


def total_cost(block: Block, sizes: Sizes) -> Cost:
    """Of a whole function's block in one call."""
    total = Cost()
    for _, times, one in walk_costs(block, sizes):
        total = total.plus(one.times(times))
    return total


def _own_flops(op: Operation, sizes: Sizes | None) -> int:
    match op.opdef.codegen:
        case Elementwise(rule):
            flops = _counted(rule, op.params, len(op.operands)).flops
            return flops * _elements(op.result.tensor.dims, sizes)
        case Reduction():
            return _elements(op.operands[0].tensor.dims, sizes)
        case Contraction() | FusedProduct():
            a, b = (v.tensor for v in op.operands[:2])
            roles = groups(op.params_as(MatmulParams), a, b)
            return 2 * multiply_adds(roles, sizes)
        case WindowProduct():
            return 2 * window_multiply_adds(op, sizes)
        case ChannelProduct():
            return 2 * channel_multiply_adds(op, sizes)
        case WindowReduction():
            shape = pool_shape(op.params, [v.type for v in op.operands])
            return _elements((*shape.narrow, *shape.sizes), sizes)
        case IndexedSum():
            return 2 * lookup_steps(op, sizes)
        case Selection():
            x, y = op.operands[0].tensor, op.result.tensor
            return _elements((*x.dims, y.dims[1]), sizes)
        case StridedCopy(adds=True):
            return _elements(op.operands[0].tensor.dims, sizes)
        case _:
            return 0


def _looked_up_bytes(op: Operation, codegen: IndexedSum, sizes: Sizes | None) -> int:
    """The index, and of each operand what is read of it: of a table the rows looked up."""
    texts = codegen.subscripts(op.params)
    extents = _subscript_extents(op, texts, sizes)
    total = value_bytes(op.operands[-1], sizes)
    for operand, text in zip(op.operands[:-1], texts[:-1], strict=True):
        whole = value_bytes(operand, sizes)
        if "i" in text:
            walked = prod(extents.get(letter, 1) for letter in ("n", "k", *set(text) - {"i"}))
            whole = min(whole, walked * operand.tensor.dtype.itemsize)
        total += whole
    return total


def _subscript_extents(
    op: Operation, texts: tuple[str, ...], sizes: Sizes | None
) -> dict[str, int]:
    """The extent of each letter, n and k by the index."""
    found: dict[str, int] = {}
    values = [*op.operands[:-1], op.result]
    for text, value in zip(texts, values, strict=True):
        for letter, dim in zip(text, value.tensor.dims, strict=True):
            found[letter] = _elements((dim,), sizes)
    for letter, dim in zip("nk", op.operands[-1].tensor.dims, strict=False):
        found[letter] = _elements((dim,), sizes)
    return found


def _elements(dims: Iterable[Dim], sizes: Sizes | None) -> int:
    return bound_elements(dims) if sizes is None else prod(size_of(d, sizes) for d in dims)
