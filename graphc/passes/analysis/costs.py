"""What an operation of the kernel level does in one call: arithmetic, and bytes moved.

flops  additions, multiplications, comparisons, choices and roots count one each, a call of a
       mathematical function (exp, tanh, …) one too, a multiply-add of a product two
bytes  each operand is read once and each result written once, whatever the caches do; of a table
       only the rows that are looked up

What is free to compute again (constants, indices, broadcasts) and views cost nothing, and a loop
nothing itself: its body's operations do, once for each of the loop's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from graphc.ir.codegen import (
    Contraction,
    Elementwise,
    IndexedSum,
    Rearrangement,
    Reduction,
    Selection,
    Terminator,
    View,
)
from graphc.ir.core import Block, Operation, Value
from graphc.ir.types import TensorType, size_of
from graphc.ops.contraction import MatmulParams, groups
from graphc.ops.loop import LOOP, LoopParams

Sizes = Mapping[str, int]
"""The size of every dim by its name."""


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


def cost(op: Operation, sizes: Sizes) -> Cost:
    """What one execution of `op` does, a loop without its body."""
    codegen = op.opdef.codegen
    if op.opdef is LOOP or isinstance(codegen, View | Terminator):
        return Cost()
    flops = _own_flops(op, sizes)
    for region in op.regions:
        flops += sum(_own_flops(inner, sizes) for inner in region.block)
    read = sum(_bytes(v, sizes) for v in dict.fromkeys(op.operands))
    if isinstance(codegen, IndexedSum):
        read = _looked_up_bytes(op, codegen, sizes)
    return Cost(flops, read, sum(_bytes(v, sizes) for v in op.results))


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
                assert isinstance(op.params, LoopParams)
                pending.append((inside, i + 1, times))
                pending.append((op.regions[0].block, 0, times * size_of(op.params.count, sizes)))
                break
            if not isinstance(op.opdef.codegen, View | Terminator):
                yield op, times, cost(op, sizes)


def total_cost(block: Block, sizes: Sizes) -> Cost:
    """Of a whole function's block in one call."""
    total = Cost()
    for _, times, one in walk_costs(block, sizes):
        total = total.plus(one.times(times))
    return total


def _own_flops(op: Operation, sizes: Sizes) -> int:
    match op.opdef.codegen:
        case Elementwise(rule):
            counter = _Counter()
            rule(counter, op.params, *(None for _ in op.operands))  # type: ignore[arg-type] # any word
            return counter.words * _elements(op.result, sizes)
        case Reduction():
            return _elements(op.operands[0], sizes)
        case Contraction():
            return 2 * _multiply_adds(op, sizes)
        case IndexedSum(subscripts):
            extents = _subscript_extents(op, subscripts(op.params), sizes)
            return 2 * prod(extents.get(letter, 1) for letter in "nkd")
        case Selection():
            return _elements(op.operands[0], sizes) * size_of(_tensor(op.result).dims[1], sizes)
        case Rearrangement(adds=True):
            return _elements(op.operands[0], sizes)
        case _:
            return 0


def _multiply_adds(op: Operation, sizes: Sizes) -> int:
    assert isinstance(op.params, MatmulParams)
    roles = groups(op.params, _tensor(op.operands[0]), _tensor(op.operands[1]))
    dims = (*roles.batch, *roles.rows, *roles.cols, *roles.inner)
    return prod(size_of(d, sizes) for d in dims)


def _looked_up_bytes(op: Operation, codegen: IndexedSum, sizes: Sizes) -> int:
    """The index, and of each operand what is read of it: of a table the rows looked up."""
    texts = codegen.subscripts(op.params)
    extents = _subscript_extents(op, texts, sizes)
    total = _bytes(op.operands[-1], sizes)
    for operand, text in zip(op.operands[:-1], texts[:-1], strict=True):
        whole = _bytes(operand, sizes)
        if "i" in text:
            walked = prod(extents.get(letter, 1) for letter in ("n", "k", *set(text) - {"i"}))
            whole = min(whole, walked * _tensor(operand).dtype.itemsize)
        total += whole
    return total


def _subscript_extents(op: Operation, texts: tuple[str, ...], sizes: Sizes) -> dict[str, int]:
    """The extent of each letter, n and k by the index."""
    found: dict[str, int] = {}
    values = [*op.operands[:-1], op.result]
    for text, value in zip(texts, values, strict=True):
        for letter, dim in zip(text, _tensor(value).dims, strict=True):
            found[letter] = size_of(dim, sizes)
    for letter, dim in zip("nk", _tensor(op.operands[-1]).dims, strict=False):
        found[letter] = size_of(dim, sizes)
    return found


def _elements(value: Value, sizes: Sizes) -> int:
    return prod(_tensor(value).shape(sizes))


def _bytes(value: Value, sizes: Sizes) -> int:
    return _elements(value, sizes) * _tensor(value).dtype.itemsize


def _tensor(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


class _Counter:
    """A `Scalars` that computes nothing and counts its words, casts and constants left out."""

    def __init__(self) -> None:
        self.words = 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        def word(*_: object) -> None:
            self.words += name not in ("cast", "literal")

        return word
