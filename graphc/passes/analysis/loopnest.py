"""Loop nests as data: what is computed in which loop, what is kept, what is written how.

    dims      the kernel's axes without extents of 1, neighbours merged where everything walks both
    lanes     the last dim; a backend puts it on vector lanes or threads, the others are loops
    level     how many lane reductions stand before a value; a sweep over the lanes serves one level
    store     a value written to a result, or combined into it when an outer dim is reduced

One kernel gives one nest for each distinct space its results iterate over, the largest first, so
that nothing is computed or updated more often than its result has elements.

Softmax over rows: `max` is a lane reduction (sweep 0); `exp(x - max)` and its sum are level 1
(sweep 1), the quotient level 2. The light difference is computed again where it is needed, the
heavy exponential is kept, here in the result's own row.

`nestplan.nests_of` makes these records from a kernel; backends write code from them. Nothing here
knows a backend or its text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from graphc.ir.core import Operation
from graphc.ir.params import Params
from graphc.ir.scalar import ScalarRule
from graphc.ir.types import Dim, DType, Symbol, TensorType
from graphc.ops.constant import ConstantParams

ScalarOp = Literal["add", "maximum", "minimum"]


@dataclass(frozen=True, slots=True)
class Size:
    """A number of elements: an integer times the sizes of some dimensions of the call."""

    factor: int = 1
    symbols: tuple[str, ...] = ()

    @staticmethod
    def of(dims: Iterable[Dim]) -> Size:
        dims = tuple(dims)
        symbols = sorted(d.name for d in dims if isinstance(d, Symbol))
        return Size(math.prod(d for d in dims if isinstance(d, int)), tuple(symbols))

    def __mul__(self, other: Size) -> Size:
        return Size(self.factor * other.factor, tuple(sorted(self.symbols + other.symbols)))


def product_of(sizes: Iterable[Size]) -> Size:
    """The elements of all these extents together."""
    whole = Size()
    for size in sizes:
        whole *= size
    return whole


@dataclass(frozen=True, slots=True)
class ArrayAccess:
    """Memory that a nest reads or writes: a dense array or a part of one, addressed by `strides`
    per dim.

    A stride of None: the array has no such dim, the same element serves all of it. A "chain" is
    a backend's own, where it adds up a part of a sum.

    offset  of the first element, for a part
    """

    kind: Literal["operand", "result", "constant", "chain"]
    index: int
    dtype: DType
    strides: tuple[Size | None, ...]
    offset: Size = Size(0)  # frozen

    @property
    def dims(self) -> frozenset[int]:
        return frozenset(d for d, stride in enumerate(self.strides) if stride is not None)


@dataclass(frozen=True, slots=True)
class Load:
    """The element of `access` at the current place."""

    access: ArrayAccess


@dataclass(frozen=True, slots=True)
class Apply:
    """An element-wise formula of the arguments."""

    rule: ScalarRule
    params: Params


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: bool | int | float


@dataclass(frozen=True, slots=True)
class Index:
    """The position along a dim."""

    dim: int


@dataclass(frozen=True, slots=True)
class ExtentOf:
    """The size of a dimension of the call."""

    dim: Dim


@dataclass(frozen=True, slots=True)
class Reduce:
    """The argument folded over the lanes."""

    scalar_op: ScalarOp
    identity: float | int


Work = Load | Apply | Number | Index | ExtentOf | Reduce


@dataclass(frozen=True, slots=True)
class Statement:
    """One value. `args` are indices of earlier statements, `dims` those it varies in.

    source            the operation of the body that it comes from, -1 for none
    is_below_maximum  a number less the largest of those it is among, as in a softmax: 0 or less
    """

    work: Work
    args: tuple[int, ...]
    dtype: DType
    dims: frozenset[int]
    level: int
    weight: int
    is_below_maximum: bool = False
    source: int = field(default=-1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Store:
    """A value written to `access`, or combined into what is there, which starts as the identity."""

    value: int
    access: ArrayAccess
    combine: Reduce | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    """Where a value of the current row waits for a later sweep; no access: a buffer of one row."""

    value: int
    access: ArrayAccess | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """One pass over the lanes of a row.

    reload   kept values that this sweep reads back
    compute  lane statements in order, reductions not among them
    keep     values to be put where `Nest.keeps` says
    reduce   reductions (statements) that this sweep folds
    store    lane stores (indices of `Nest.stores`)
    """

    reload: tuple[int, ...]
    compute: tuple[int, ...]
    keep: tuple[int, ...]
    reduce: tuple[int, ...]
    store: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chunking:
    """A nest computed in chunks of `length` indices each along an axis of this extent.

    dim   the nest's dim that begins with the axis
    step  elements of the dim for one index of the axis
    """

    dim: int
    step: Size
    extent: Size
    length: int


@dataclass(frozen=True, slots=True)
class Rows:
    """What happens once a row, between sweeps: statements in order, then stores."""

    compute: tuple[int, ...]
    store: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops over all dims but the last; in them `rows[0]`, sweep 0, `rows[1]`, sweep 1, …

    heads      statements without lanes and without reductions before them, by the loop depth at
               which they are computed; the last entry belongs to the row
    bounds     the largest extent of each dim
    reach      the most indices of each dim that one call computes: less where work is cut into
               chunks
    chunking   how its work is cut into chunks, None for one piece
    axes       the kernel's axes in each dim
    """

    dims: tuple[Size, ...]
    bounds: tuple[int, ...]
    reach: tuple[int, ...]
    statements: tuple[Statement, ...]
    stores: tuple[Store, ...]
    heads: tuple[tuple[int, ...], ...]
    rows: tuple[Rows, ...]
    sweeps: tuple[Sweep, ...]
    keeps: tuple[Keep, ...]
    chunking: Chunking | None = None
    axes: tuple[tuple[int, ...], ...] = field(default=(), compare=False, repr=False)

    @property
    def lane(self) -> int:
        """The index of the lane dim, -1 for a nest of one element."""
        return len(self.dims) - 1

    @property
    def bound(self) -> int:
        """The largest extent of the lanes, 1 when there are no dims at all."""
        return self.bounds[-1] if self.bounds else 1

    def has_lanes(self, statement: int) -> bool:
        """Whether the value differs from lane to lane."""
        return self.lane >= 0 and self.lane in self.statements[statement].dims

    def can_chunk(self, dim: int) -> bool:
        """Whether chunks of the dim can be computed apart: nothing is folded over it."""
        if not 0 <= dim <= self.lane or any(dim not in s.access.dims for s in self.stores):
            return False
        return dim < self.lane or not any(isinstance(s.work, Reduce) for s in self.statements)

    def symbols(self) -> tuple[str, ...]:
        """Names of the dimensions of the call that the nest asks for, sorted."""
        sizes = [*self.dims]
        for access in self.accesses():
            sizes.extend(s for s in (*access.strides, access.offset) if s is not None)
        names = {name for size in sizes for name in size.symbols}
        for statement in self.statements:
            work = statement.work
            if isinstance(work, ExtentOf) and isinstance(work.dim, Symbol):
                names.add(work.dim.name)
        return tuple(sorted(names))

    def accesses(self) -> tuple[ArrayAccess, ...]:
        loads = [s.work.access for s in self.statements if isinstance(s.work, Load)]
        return (*loads, *(store.access for store in self.stores))


def constants_of(kernel: Operation) -> tuple[ConstantParams, ...]:
    """The constants of several elements, which a backend lays out in memory: accesses by index."""
    params = (op.params for op in kernel.regions[0].block)
    return tuple(p for p in params if isinstance(p, ConstantParams) and len(p.value) > 1)


def copy_nest(type: TensorType) -> Nest:
    """One operand written to one result, element by element in memory order."""
    size = Size.of(type.dims)
    strides = (Size(),)
    load = Load(ArrayAccess("operand", 0, type.dtype, strides))
    statement = Statement(load, (), type.dtype, frozenset((0,)), 0, 1)
    store = Store(0, ArrayAccess("result", 0, type.dtype, strides))
    sweep = Sweep((), (0,), (), (), (0,))
    rows = (Rows((), ()), Rows((), ()))
    bounds = (type.bound_elements,)
    return Nest((size,), bounds, bounds, (statement,), (store,), ((),), rows, (sweep,), ())
