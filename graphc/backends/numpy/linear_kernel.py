"""A kernel's body linearised: its computations in order, with broadcasts already gone.

numpy repeats extents of 1 by itself, so a broadcast is just its operand, and an item's dims are
the joined dims of what it is computed from. What does not vary along a dim is so computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from graphc.ir.codegen import Broadcast, Elementwise, Extent, Fill, Position, Reduction
from graphc.ir.core import Operation, Trait, Value
from graphc.ir.scalar import Scalars
from graphc.ir.types import Dim, DType
from graphc.ops.constant import ConstantParams, ExtentParams, IotaParams
from graphc.ops.parts import Part, part_taken, parts_joined, walked_values
from graphc.ops.reduction import ReduceParams, identity_of

Dims = tuple[Dim, ...]


@dataclass(frozen=True, eq=False)
class Item:
    """A value in the linearised kernel; items are told apart by identity. Extent 1: does not vary
    there."""

    dims: Dims
    dtype: DType


@dataclass(frozen=True, eq=False)
class Input(Item):
    """Argument `index` of the kernel, or a part of it."""

    index: int
    part: Part | None = None


@dataclass(frozen=True, eq=False)
class Constant(Item):
    """One number (all extents 1), or one per element."""

    values: tuple[bool | int | float, ...]


@dataclass(frozen=True, eq=False)
class Index(Item):
    """0, 1, 2, … along `axis`, the only dim in which it varies."""

    axis: int


@dataclass(frozen=True, eq=False)
class Size(Item):
    """The size of `of` as a number."""

    of: Dim


@dataclass(frozen=True, eq=False)
class ScalarOp(Item):
    """A scalar op on `args`."""

    name: str
    args: tuple[Item, ...]

    @staticmethod
    def of(name: str, dtype: DType, args: tuple[Item, ...]) -> ScalarOp:
        return ScalarOp(join(a.dims for a in args), dtype, name, args)


@dataclass(frozen=True, eq=False)
class Fold(Item):
    """`source`, seen with the dims `over`, folded along `axes` by the scalar op `name`."""

    name: str
    source: Item
    over: Dims
    axes: tuple[int, ...]
    identity: float | int


Computed = ScalarOp | Fold
"""Items that need memory."""


@dataclass(frozen=True)
class Output:
    """What result `index` of the kernel is, or a part of it."""

    index: int
    item: Item
    part: Part | None = None


@dataclass(frozen=True)
class LinearKernel:
    """The computed items in order, every leaf that they read, and what the kernel hands out."""

    space: Dims
    steps: tuple[Computed, ...]
    results: tuple[Output, ...]


def join(shapes: Iterable[Dims]) -> Dims:
    """The broadcast of dims: in each position the one that is not 1."""
    columns = list(zip(*shapes, strict=True))
    return tuple(next((d for d in column if d != 1), 1) for column in columns)


def operands_of(item: Item) -> tuple[Item, ...]:
    match item:
        case ScalarOp():
            return item.args
        case Fold():
            return (item.source,)
        case _:
            return ()


MakeRecorder = Callable[[Callable[[ScalarOp], Item]], Scalars[Item]]


def record(kernel: Operation, make_recorder: MakeRecorder) -> LinearKernel:
    """The body of a `kernel` operation, linearised."""
    return _Recording(make_recorder).run(kernel)


class _Recording:
    def __init__(self, make_recorder: MakeRecorder) -> None:
        self._steps: list[Computed] = []
        self._items: dict[Value, Item] = {}
        self._scalars = make_recorder(self._add)

    def run(self, kernel: Operation) -> LinearKernel:
        block = kernel.regions[0].block
        for index, argument in enumerate(block.arguments):
            t = argument.tensor
            self._items[argument] = Input(t.dims, t.dtype, index)
        outputs: list[Output] = []
        for op in block:
            if op.opdef.has(Trait.TERMINATOR):
                outputs = [o for i, v in enumerate(op.operands) for o in self._outputs(i, v)]
            elif not parts_joined(op):
                self._items[op.result] = self._item(op, [self._items[v] for v in op.operands])
        walked = [v.tensor.dims for v in walked_values(block)]
        space = join(walked) if walked else ()
        used = _needed([o.item for o in outputs])
        return LinearKernel(space, tuple(s for s in self._steps if s in used), tuple(outputs))

    def _outputs(self, index: int, result: Value) -> list[Output]:
        """What is stored of a result: all of it, or its parts."""
        parts = parts_joined(result.op) if result.op is not None else ()
        if not parts:
            return [Output(index, self._items[result])]
        pairs = zip(result.definition.operands, parts, strict=True)
        return [Output(index, self._items[v], part) for v, part in pairs]

    def _add(self, scalar_op: ScalarOp) -> ScalarOp:
        self._steps.append(scalar_op)
        return scalar_op

    def _item(self, op: Operation, operands: Sequence[Item]) -> Item:
        t = op.result.tensor
        ones: Dims = (1,) * t.rank
        if part := part_taken(op):
            (whole,) = operands
            assert isinstance(whole, Input)
            return Input(t.dims, t.dtype, whole.index, part)
        match op.opdef.codegen:
            case Elementwise(rule):
                return rule(self._scalars, op.params, *operands)
            case Broadcast():
                return operands[0]
            case Reduction() as reduction:
                return self._fold(op, operands[0], reduction, op.params_as(ReduceParams).axes)
            case Fill():
                values = op.params_as(ConstantParams).value
                return Constant(ones if len(values) == 1 else t.dims, t.dtype, values)
            case Position():
                axis = op.params_as(IotaParams).axis
                along = tuple(d if i == axis else 1 for i, d in enumerate(t.dims))
                return Index(along, t.dtype, axis)
            case Extent():
                return Size(ones, t.dtype, op.params_as(ExtentParams).dim)
            case other:
                raise AssertionError(f"{other} cannot stand in a kernel")

    def _fold(self, op: Operation, source: Item, how: Reduction, axes: tuple[int, ...]) -> Item:
        over = op.operands[0].tensor.dims
        if not axes:
            return source
        # What does not vary along a dim that stays needs no repetition there.
        seen = tuple(
            o if i in axes else d for i, (o, d) in enumerate(zip(over, source.dims, strict=True))
        )
        dims = tuple(1 if i in axes else d for i, d in enumerate(seen))
        fold = Fold(
            dims, source.dtype, how.scalar_op, source, seen, axes, identity_of(how, source.dtype)
        )
        self._steps.append(fold)
        return fold


def _needed(results: Sequence[Item]) -> set[Item]:
    """The items that the results are computed from, themselves included."""
    needed: set[Item] = set()
    work = list(results)
    while work:
        item = work.pop()
        if item not in needed:
            needed.add(item)
            work.extend(operands_of(item))
    return needed
