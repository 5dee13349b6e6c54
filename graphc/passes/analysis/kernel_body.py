"""The body of a kernel over its axes: along which each value varies, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from graphc.ir.codegen import Broadcast, Elementwise, Extent, Fill, Position, Reduction
from graphc.ir.core import Operation, Value
from graphc.ir.types import Dim, DType, TensorType
from graphc.ops.constant import ConstantParams, ExtentParams, IotaParams
from graphc.ops.control import YIELD
from graphc.ops.elementwise import STOP_GRADIENT, SUB
from graphc.ops.parts import Part, part_taken, parts_joined, walked_values
from graphc.ops.reduction import ReduceParams, identity_of
from graphc.passes.analysis.loopnest import (
    Apply,
    ArrayAccess,
    ExtentOf,
    Index,
    Load,
    Number,
    Reduce,
    Work,
)
from graphc.support.diagnostics import InternalError


@dataclass(frozen=True, slots=True)
class BodyItem:
    """A body value in terms of the kernel's axes.

    axes     where it really varies (a broadcast does not make it vary)
    space    every axis that has to be walked to compute it, reduced ones included
    reduced  axes that a reduction folds
    part     where it stands in the array, for a part of an argument
    source   the operation of the body, -1 for its arguments
    is_below_maximum  as of a `Statement`
    """

    work: Work
    args: tuple[int, ...]
    dtype: DType
    axes: frozenset[int]
    space: frozenset[int]
    reduced: frozenset[int] = frozenset()
    access_dims: tuple[Dim, ...] = ()
    part: Part | None = None
    is_below_maximum: bool = False
    source: int = -1


@dataclass(frozen=True, slots=True)
class BodyRoot:
    """A result, or a part of one: the item that it takes, the whole space of its computation.

    type  of the part
    """

    item: int
    result: int
    type: TensorType
    space: frozenset[int]
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class KernelBody:
    """What is computed, in order; what of it are results; the size of each axis that is walked."""

    items: tuple[BodyItem, ...]
    roots: tuple[BodyRoot, ...]
    extents: dict[int, Dim]


class _BodyReader:
    """Collects the items of a kernel's block."""

    def __init__(self) -> None:
        self.items: list[BodyItem] = []
        self.number: dict[Value, int] = {}
        self.constants = 0
        self.source = -1
        self.maximum_of: dict[int, int] = {}

    def add(self, value: Value, item: BodyItem) -> None:
        self.number[value] = len(self.items)
        self.items.append(replace(item, source=self.source))

    def argument(self, value: Value, index: int) -> None:
        self.add(value, _access_item("operand", index, value.tensor))

    def operation(self, op: Operation) -> None:
        value = op.result
        if part := part_taken(op):
            taken = self.items[self.number[op.operands[0]]].work
            assert isinstance(taken, Load)
            item = _access_item("operand", taken.access.index, value.tensor)
            self.add(value, replace(item, part=part))
            return
        args = tuple(self.number[v] for v in op.operands)
        match op.opdef.codegen:
            case Broadcast():
                self.number[value] = args[0]
            case Elementwise(rule):
                is_below = op.opdef is SUB and self.maximum_of.get(args[1]) == args[0]
                self._plain(value, Apply(rule, op.params), args, is_below_maximum=is_below)
                if op.opdef is STOP_GRADIENT and args[0] in self.maximum_of:
                    self.maximum_of[self.number[value]] = self.maximum_of[args[0]]
            case Reduction() as reduction:
                self._reduction(op, reduction, args[0])
            case Fill():
                self._constant(op)
            case Position():
                axis, type = op.params_as(IotaParams).axis, value.tensor
                if axes := walked_axes(type) & {axis}:
                    item = BodyItem(Index(axis), (), type.dtype, axes, axes)
                    self.add(value, item)
                else:
                    self._plain(value, Number(0), ())
            case Extent():
                self._plain(value, ExtentOf(op.params_as(ExtentParams).dim), ())
            case _:
                raise InternalError(f"`{op.opdef.name}` cannot stand in a kernel")

    def _plain(
        self, value: Value, work: Work, args: tuple[int, ...], *, is_below_maximum: bool = False
    ) -> None:
        axes = frozenset[int]().union(*(self.items[a].axes for a in args))
        space = frozenset[int]().union(*(self.items[a].space for a in args))
        dtype = value.tensor.dtype
        item = BodyItem(work, args, dtype, axes, space, is_below_maximum=is_below_maximum)
        self.add(value, item)

    def _reduction(self, op: Operation, reduction: Reduction, arg: int) -> None:
        type = op.operands[0].tensor
        reduced = walked_axes(type).intersection(op.params_as(ReduceParams).axes)
        if not reduced:
            self.number[op.result] = arg
            return
        source = self.items[arg]
        work = Reduce(reduction.scalar_op, identity_of(reduction, type.dtype))
        axes, space = source.axes - reduced, source.space | reduced
        self.add(op.result, BodyItem(work, (arg,), type.dtype, axes, space, reduced))
        if reduction.scalar_op == "maximum":
            self.maximum_of[self.number[op.result]] = arg

    def roots(self, index: int, result: Value) -> list[BodyRoot]:
        """What is stored of a result: all of it, or its parts."""
        parts = parts_joined(result.op) if result.op is not None else ()
        stored = zip(result.definition.operands, parts, strict=True) if parts else [(result, None)]
        roots: list[BodyRoot] = []
        for value, part in stored:
            item = self.number[value]
            space = self.items[item].space | walked_axes(value.tensor)
            roots.append(BodyRoot(item, index, value.tensor, space, part))
        return roots

    def _constant(self, op: Operation) -> None:
        params = op.params_as(ConstantParams)
        if len(params.value) == 1:
            self._plain(op.result, Number(params.value[0]), ())
            return
        self.add(op.result, _access_item("constant", self.constants, params.type))
        self.constants += 1


def read_body(kernel: Operation) -> KernelBody:
    """The body of a kernel or of an epilogue."""
    block = kernel.regions[0].block
    reader = _BodyReader()
    extents: dict[int, Dim] = {}
    roots: list[BodyRoot] = []
    for index, argument in enumerate(block.arguments):
        reader.argument(argument, index)
    for position, op in enumerate(block):
        reader.source = position
        if op.opdef is YIELD:
            for index, value in enumerate(op.operands):
                roots += reader.roots(index, value)
        elif not parts_joined(op):
            reader.operation(op)
    for value in walked_values(block):
        for axis, dim in enumerate(value.tensor.dims):
            if dim != 1:
                extents[axis] = dim
    return KernelBody(tuple(reader.items), tuple(roots), extents)


def walked_axes(type: TensorType) -> frozenset[int]:
    """The axes along which a dense array of this type has more, or fewer, than one element."""
    return frozenset(axis for axis, dim in enumerate(type.dims) if dim != 1)


def _access_item(kind: Literal["operand", "constant"], index: int, type: TensorType) -> BodyItem:
    axes = walked_axes(type)
    access = ArrayAccess(
        kind, index, type.dtype, ()
    )  # strides follow when the nest's dims are known
    return BodyItem(Load(access), (), type.dtype, axes, axes, access_dims=type.dims)
