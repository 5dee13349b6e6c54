"""Random tensor-level functions that are well typed and compute ordinary numbers.

Each operation is tried out on numbers while the function grows; one that gives an infinity, a nan
or something large is dropped again. So every comparison between backends or before and after a
pass means something. The same seed gives the same function.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np

from graphc.ir.codegen import Elementwise, Reduction
from graphc.ir.core import (
    Array,
    Function,
    IRBuilder,
    Level,
    Module,
    OpDef,
    RegionKind,
    ResultInfo,
    Value,
)
from graphc.ir.dims import dims_behind, is_never_negative, size_difference, sizes_with_made
from graphc.ir.evaluate import evaluate_operation
from graphc.ir.params import NoParams, Params, symbols_in
from graphc.ir.types import Dim, DType, Symbol, TensorType, TypeRuleError
from graphc.ops import ALL_OPS, bits, training_forms
from graphc.ops.constant import CONSTANT, EXTENT, IOTA, ConstantParams, ExtentParams, IotaParams
from graphc.ops.contraction import MATMUL, MatmulParams
from graphc.ops.control import RETURN
from graphc.ops.depthwise import (
    DEPTHWISE,
    DEPTHWISE_DATA_GRAD,
    DEPTHWISE_WEIGHT_GRAD,
    DepthwiseDataGradParams,
    DepthwiseParams,
    DepthwiseWeightGradParams,
)
from graphc.ops.elementwise import CAST, SELECT, CastParams
from graphc.ops.functions import ARCTAN
from graphc.ops.indexed import (
    GATHER,
    SCATTER_ADD,
    SPARSE_PRODUCT,
    TRANSPOSED_SPARSE_PRODUCT,
    LookupParams,
    OuterParams,
    ScatterParams,
)
from graphc.ops.indexed import OPS as INDEXED
from graphc.ops.movement import (
    CONCAT,
    PAD,
    RESHAPE,
    REVERSE,
    SLICE,
    TRANSPOSE,
    ConcatParams,
    PadParams,
    ReshapeParams,
    ReverseParams,
    SliceParams,
    TransposeParams,
)
from graphc.ops.patches import OVERLAP_ADD, PATCHES, OverlapAddParams, PatchesParams
from graphc.ops.reduction import BROADCAST, BroadcastParams, ExtremumParams, ReduceParams, Ties
from graphc.ops.selection import TOP_INDICES, TopParams
from tests.support.op_table import ROWS

LARGEST = 1e3
"""Results beyond this are dropped, so that nothing overflows and rounding errors stay small."""

LEFT_OUT = (*bits.OPS, ARCTAN, *training_forms.OPS)
"""Operations that the table alone tries, so that a seed's function stays what it was."""

SIMPLE_OPS = tuple(
    op
    for op in ALL_OPS
    if op.level is Level.TENSOR
    and isinstance(op.codegen, Elementwise)
    and op.params is NoParams
    and op not in LEFT_OUT
)
REDUCTIONS = tuple(op for op in ALL_OPS if isinstance(op.codegen, Reduction))
INEXACT = (*(row.op.name for row in ROWS if row.judge.bound is not None), "reduce_sum")
"""Operations whose last bits are a backend's own choice, as are those of products."""

FLOATS = (DType.F32, DType.F64)
COMPUTED = tuple(d for d in DType if d is d.computed)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 0.1)


class RandomFunction(NamedTuple):
    """A module with one function `f`, its arguments by name, and the sizes of its dims."""

    module: Module
    arguments: dict[str, Array]
    sizes: dict[str, int]

    @property
    def function(self) -> Function:
        return self.module.functions[0]


def make_function(
    seed: int, *, operations: int = 30, products: bool = True, exact: bool = False
) -> RandomFunction:
    """A function of about `operations` operations.

    products  whether there are matrix products
    exact     only operations whose every bit is defined; no products then
    """
    maker = _Maker(random.Random(seed), products and not exact, INEXACT if exact else ())
    return maker.make(operations)


class _Maker:
    def __init__(self, choose: random.Random, products: bool, without: Sequence[str]) -> None:
        self._choose = choose
        self._products = products
        self._simple_ops = [op for op in SIMPLE_OPS if op.name not in without]
        self._reductions = [op for op in REDUCTIONS if op.name not in without]
        self._dims = (Symbol("N", 6), Symbol("M", 4))
        self.sizes = {
            d.name: choose.choice((0, 1, d.bound, choose.randint(2, d.bound))) for d in self._dims
        }
        self._made: list[Symbol] = []  # dims that follow from these
        self._function = Function("f", RegionKind.SSA)
        self._builder = IRBuilder(self._function.block)
        self._numbers: dict[Value, Array] = {}
        self._space = self._random_dims(choose.choice((0, 1, 2, 2, 2, 2, 3)))

    def _random_dims(self, rank: int) -> tuple[Dim, ...]:
        some: tuple[Dim, ...] = (*self._dims, 1, 2, 3, 5, 17)
        dims = [self._choose.choice(some) for _ in range(rank)]
        if self._choose.random() < 0.03 and dims:
            dims[self._choose.randrange(rank)] = 0
        return tuple(dims)

    def _part_of(self, dims: Sequence[Dim]) -> tuple[Dim, ...]:
        return tuple(1 if self._choose.random() < 0.3 else d for d in dims)

    def make(self, operations: int) -> RandomFunction:
        for index in range(self._choose.randint(1, 4)):
            self._argument(f"x{index}")
        made = 0
        for _ in range(20 * operations):
            made += self._operation()
            if made >= operations:
                break
        self._results()
        module = Module([self._function], (*self._dims, *self._made))
        arguments = {a.name or "": self._numbers[a] for a in self._function.arguments}
        return RandomFunction(module, arguments, self.sizes)

    # --- leaves ---------------------------------------------------------------------------------

    def _argument(self, name: str) -> None:
        dims = self._part_of(self._space)
        if self._choose.random() < 0.2:
            dims = self._random_dims(2)
        dtype = self._choose.choice((DType.F32,) * 6 + COMPUTED)
        type = TensorType(dims, dtype)
        role = self._choose.choice(("input", "parameter", "state", "hyperparameter"))
        value = self._function.add_argument(name, type, role)
        self._numbers[value] = self._random_array(type)

    def _random_array(self, type: TensorType) -> Array:
        generator = np.random.default_rng(self._choose.getrandbits(32))
        shape = type.shape(self.sizes)
        if type.dtype is DType.I1:
            return generator.integers(0, 2, shape).astype(np.bool_)
        if not type.dtype.is_float:
            return generator.integers(-5, 6, shape).astype(type.dtype.numpy)
        numbers = generator.uniform(-2, 2, shape)
        special = generator.choice(NUMBERS, shape)
        return np.where(generator.random(shape) < 0.3, special, numbers).astype(type.dtype.numpy)

    # --- operations ------------------------------------------------------------------------------

    def _operation(self) -> bool:
        """Append one operation if the choice turns out to be possible; whether it was."""
        kinds = [self._simple] * 8 + [self._broadcast] * 3 + [self._reduce] * 2
        kinds += [self._reshape, self._transpose, self._cast, self._constant, self._constant]
        kinds += [self._slice, self._pad, self._concat, self._reverse]
        kinds += [self._windows, self._overlap_add]
        kinds += [self._iota, self._extent, self._top_indices]
        if self._products:
            kinds += [self._matmul, self._matmul, self._look_up, self._depthwise]
        made = self._choose.choice(kinds)()
        return made is not None

    def _emit(self, opdef: OpDef, operands: Sequence[Value], params: Params) -> Value | None:
        try:
            value = self._builder.emit_one(opdef, *operands, params=params)
        except TypeRuleError:
            return None
        assert isinstance(value.type, TensorType) and value.op is not None
        symbols = (*value.type.symbols(), *symbols_in(params))
        made = [d for s in symbols for d in dims_behind(s) if d.name not in self.sizes]
        sizes = sizes_with_made(self.sizes, made)
        if value.type.bound_elements > 2000 or min(sizes.values()) < 0:
            value.op.erase()
            return None
        with np.errstate(all="ignore"):
            arrays = [self._numbers[v] for v in operands]
            (result,) = evaluate_operation(value.op, arrays, sizes)
        if result.dtype.kind in "fi" and not (np.abs(result) <= LARGEST).all():
            value.op.erase()
            return None
        self._numbers[value] = result
        self._made += dict.fromkeys(made)
        self.sizes.update(sizes)
        return value

    def _any(self) -> Value:
        """Any value, the latest ones more often."""
        values = list(self._numbers)
        return values[max(self._choose.randrange(len(values)) for _ in range(2))]

    def _like(self, type: TensorType) -> Value | None:
        """A value of this type: one that exists, a broadcast of one, a constant."""
        values = [v for v in self._numbers if v.type == type]
        if values and self._choose.random() < 0.7:
            return self._choose.choice(values)
        for value in self._choose.sample(list(self._numbers), min(6, len(self._numbers))):
            if _type(value).dtype is type.dtype and _type(value).rank == type.rank:
                made = self._emit(BROADCAST, [value], BroadcastParams(type.dims))
                if made is not None:
                    return made
        return self._constant(type)

    def _simple(self) -> Value | None:
        opdef = self._choose.choice(self._simple_ops)
        count = len(opdef.operands)
        first = self._any()
        if opdef is SELECT:
            condition = self._like(_type(first).with_dtype(DType.I1))
            other = self._like(_type(first))
            if condition is None or other is None:
                return None
            return self._emit(opdef, [condition, first, other], NoParams())
        operands = [first]
        while len(operands) < count:
            other = self._like(_type(first))
            if other is None:
                return None
            operands.insert(self._choose.randint(0, 1), other)
        return self._emit(opdef, operands, NoParams())

    def _cast(self) -> Value | None:
        return self._emit(CAST, [self._any()], CastParams(self._choose.choice(COMPUTED)))

    def _broadcast(self) -> Value | None:
        x = self._any()
        if _type(x).rank != len(self._space):
            return None
        dims = tuple(
            full if own == 1 and self._choose.random() < 0.7 else own
            for own, full in zip(_type(x).dims, self._space, strict=True)
        )
        if dims == _type(x).dims and self._choose.random() < 0.9:
            return None
        return self._emit(BROADCAST, [x], BroadcastParams(dims))

    def _reduce(self) -> Value | None:
        x = self._any()
        rank = _type(x).rank
        axes = [i for i in range(rank) if self._choose.random() < 0.5]
        if rank and self._choose.random() < 0.4:
            axes = [rank - 1]
        op = self._choose.choice(self._reductions)
        if op.params is ReduceParams:
            return self._emit(op, [x], ReduceParams(tuple(axes)))
        ties = self._choose.choice(get_args(Ties))
        return self._emit(op, [x], ExtremumParams(tuple(axes), ties))

    def _reshape(self) -> Value | None:
        x = self._any()
        dims = [d for d in _type(x).dims if d != 1 or self._choose.random() < 0.5]
        if self._choose.random() < 0.5:
            dims.insert(self._choose.randint(0, len(dims)), 1)
        if len(dims) > 1 and isinstance(dims[-1], int) and isinstance(dims[-2], int):
            dims[-2:] = [dims[-2] * dims[-1]]
        return self._emit(RESHAPE, [x], ReshapeParams(tuple(dims))) if len(dims) < 4 else None

    def _transpose(self) -> Value | None:
        x = self._any()
        order = list(range(_type(x).rank))
        self._choose.shuffle(order)
        return self._emit(TRANSPOSE, [x], TransposeParams(tuple(order)))

    def _slice(self) -> Value | None:
        x = self._any()
        cuts: list[tuple[Dim, Dim, int]] = []
        for dim in _type(x).dims:
            if self._choose.random() < 0.3:
                cuts.append((0, dim, 1))
            elif isinstance(dim, Symbol):
                some: list[tuple[Dim, Dim, int]] = [
                    *((0, dim, 1), (1, dim, 1), (0, dim - 1, 1), (dim - 2, dim, 1)),
                    *((0, 2, 1), (0, dim, 2), (dim // 2, dim, 1)),
                ]
                cuts.append(self._choose.choice(some))
            else:
                start = self._choose.randint(0, dim)
                stop = self._choose.randint(start, dim)
                cuts.append((start, stop, self._choose.choice((1, 1, 2, 3))))
        starts, stops = tuple(c[0] for c in cuts), tuple(c[1] for c in cuts)
        rest = map(size_difference, _type(x).dims, stops)
        behind = tuple(0 if is_never_negative(size) else size for size in rest)
        params = SliceParams(starts, stops, tuple(c[2] for c in cuts), behind)
        return self._emit(SLICE, [x], params)

    def _pad(self) -> Value | None:
        x = self._any()
        dims = _type(x).dims
        low, high, inner = (
            tuple(self._choose.choice((0, 0, 1, 2)) for _ in dims) for _ in range(3)
        )
        inner = tuple(0 if isinstance(d, Symbol) else n for d, n in zip(dims, inner, strict=True))
        value = float(self._number(DType.F32))
        return self._emit(PAD, [x], PadParams(low, high, inner, value))

    def _concat(self) -> Value | None:
        x = self._any()
        if not _type(x).rank:
            return None
        axis = self._choose.randrange(_type(x).rank)
        others = [v for v in self._numbers if _agree(_type(v), _type(x), axis)]
        if not others:  # not even itself, along a dimension of samples
            return None
        parts = [x, *self._choose.choices(others, k=self._choose.randint(0, 2))]
        self._choose.shuffle(parts)
        return self._emit(CONCAT, parts, ConcatParams(axis))

    def _reverse(self) -> Value | None:
        x = self._any()
        axes = tuple(i for i in range(_type(x).rank) if self._choose.random() < 0.5)
        return self._emit(REVERSE, [x], ReverseParams(axes))

    def _windows(self) -> Value | None:
        x = self._any()
        axis, extents = self._walk(x)
        sizes = tuple(self._choose.randint(1, max(e, 1)) for e in extents)
        strides = tuple(self._choose.randint(1, 3) for _ in extents)
        if not extents or _type(x).rank + len(extents) > 5:
            return None
        return self._emit(PATCHES, [x], PatchesParams(axis, sizes, strides))

    def _overlap_add(self) -> Value | None:
        x = self._any()
        axis, numbers = self._walk(x)
        count = len(numbers) // 2
        if not count or 0 in numbers:
            return None
        strides = tuple(self._choose.randint(1, 3) for _ in range(count))
        walked = zip(numbers[:count], numbers[count : 2 * count], strides, strict=True)
        extents = tuple((o - 1) * t + s + self._choose.randrange(t) for o, s, t in walked)
        return self._emit(OVERLAP_ADD, [x], OverlapAddParams(axis, extents, strides))

    def _depthwise(self) -> Value | None:
        """One of the three products of a depthwise convolution, over one axis or two."""
        x, walked = self._any(), self._choose.randint(1, 2)
        type, axis = _type(x), _type(x).rank - walked - 1
        inner = [d for d in type.dims[axis:] if isinstance(d, int)] if axis >= 0 else []
        if type.dtype not in FLOATS or len(inner) <= walked or 0 in inner:
            return None
        strides, dilations, low, high, sizes = (
            tuple(self._choose.randint(least, 2) for _ in range(walked))
            for least in (1, 1, 0, 0, 1)
        )
        numbers = list(zip(inner, strides, dilations, low, high, sizes, strict=False))
        kind = self._choose.choice(("result", "data_grad", "weight_grad"))
        if kind == "weight_grad":
            places = [(e + a + z - (s - 1) * d - 1) // t + 1 for e, t, d, a, z, s in numbers]
            if min(places) < 1:
                return None
            other = self._like(type.with_dims((*type.dims[:axis], *places, inner[-1])))
            params: Params = DepthwiseWeightGradParams(axis, sizes, strides, low, high, dilations)
        else:
            other = self._like(type.with_dims((*sizes, inner[-1])))
            params = DepthwiseParams(axis, strides, low, high, dilations)
        if kind == "data_grad":
            extents = tuple((n - 1) * t + (s - 1) * d + 1 - a - z for n, t, d, a, z, s in numbers)
            if min(extents) < 1:
                return None
            params = DepthwiseDataGradParams(axis, extents, strides, low, high, dilations)
        opdef = {
            "result": DEPTHWISE,
            "data_grad": DEPTHWISE_DATA_GRAD,
            "weight_grad": DEPTHWISE_WEIGHT_GRAD,
        }[kind]
        return None if other is None else self._emit(opdef, [x, other], params)

    def _walk(self, x: Value) -> tuple[int, list[int]]:
        """An axis and the fixed extents from there on, up to one of the samples."""
        dims = _type(x).dims
        axis = self._choose.randint(0, len(dims))
        fixed = itertools.takewhile(lambda d: isinstance(d, int), dims[axis:])
        return axis, [d for d in fixed if isinstance(d, int)]

    def _matmul(self) -> Value | None:
        matrices = [v for v in self._numbers if _type(v).rank == 2 and _type(v).dtype in FLOATS]
        if not matrices:
            return None
        for _ in range(8):
            x, y = self._choose.choice(matrices), self._choose.choice(matrices)
            flags = MatmulParams(self._choose.random() < 0.4, self._choose.random() < 0.4)
            made = self._emit(MATMUL, [x, y], flags)
            if made is not None:
                return made
        return self._grouped_matmul()

    def _grouped_matmul(self) -> Value | None:
        """A product with a batch or of more dims; of a value with itself, for their dims agree."""
        tensors = [v for v in self._numbers if _type(v).rank > 2 and _type(v).dtype in FLOATS]
        if not tensors:
            return None
        x = self._choose.choice(tensors)
        batch = self._choose.randint(0, _type(x).rank - 2)
        contract = self._choose.randint(1, _type(x).rank - batch - 1)
        first = self._choose.random() < 0.5
        return self._emit(MATMUL, [x, x], MatmulParams(first, not first, contract, batch))

    def _look_up(self) -> Value | None:
        """Any of the sums with an index, of matrices of one element type that fit it."""
        matrices = [v for v in self._numbers if _type(v).rank == 2]
        factors = [v for v in matrices if _type(v).dtype in FLOATS]
        if not factors:
            return None
        index = self._emit(CAST, [self._choose.choice(matrices)], CastParams(DType.I32))
        if index is None:
            return None
        for _ in range(8):
            opdef = self._choose.choice(INDEXED)
            operands = [self._choose.choice(factors) for _ in opdef.operands[1:]]
            if opdef in (SCATTER_ADD, SPARSE_PRODUCT, TRANSPOSED_SPARSE_PRODUCT):
                wanted = _type(index).with_dtype(_type(operands[-1]).dtype)
                operands[0] = self._like(wanted) or operands[0]
            size = self._choose.choice((3, 5, *self._dims))
            columns = self._choose.random() < 0.5
            params: Params = NoParams()
            if opdef is SCATTER_ADD:
                params = ScatterParams(size)
            elif opdef is TRANSPOSED_SPARSE_PRODUCT:
                params = OuterParams(size, columns)
            elif opdef is not GATHER:
                params = LookupParams(columns)
            made = self._emit(opdef, [*operands, index], params)
            if made is not None:
                return made
        return None

    def _top_indices(self) -> Value | None:
        """Of an argument: where backends round apart, so may the order of what is computed."""
        given = [v for v in self._function.block.arguments if _type(v).rank == 2]
        if not given:
            return None
        return self._emit(TOP_INDICES, [self._choose.choice(given)], TopParams(1))

    def _constant(self, type: TensorType | None = None) -> Value | None:
        if type is None:
            dtype = self._choose.choice((DType.F32, *COMPUTED))
            type = TensorType(self._part_of(self._space), dtype)
        count = 1
        if not type.symbols() and 0 < type.bound_elements <= 64 and self._choose.random() < 0.4:
            count = type.bound_elements
        values = tuple(self._number(type.dtype) for _ in range(count))
        return self._emit(CONSTANT, [], ConstantParams(type, values))

    def _number(self, dtype: DType) -> bool | int | float:
        number = self._choose.choice(NUMBERS)
        if dtype is DType.I1:
            return self._choose.random() < 0.5
        return float(dtype.numpy.type(number)) if dtype.is_float else int(number)

    def _iota(self) -> Value | None:
        dims = self._part_of(self._space)
        if not dims:
            return None
        dtype = self._choose.choice((DType.F32, DType.F64, DType.I32, DType.I64))
        params = IotaParams(TensorType(dims, dtype), self._choose.randrange(len(dims)))
        return self._emit(IOTA, [], params)

    def _extent(self) -> Value | None:
        dim: Dim = self._choose.choice((*self._dims, 4))
        type = TensorType((1,) * len(self._space), self._choose.choice(FLOATS))
        return self._emit(EXTENT, [], ExtentParams(dim, type))

    # --- the end ----------------------------------------------------------------------------

    def _results(self) -> None:
        returned = [self._any() for _ in range(self._choose.randint(1, 5))]
        free = list(self._function.arguments)
        for index, value in enumerate(returned):
            same = [a for a in free if a.type == value.type]
            updates = None
            if same and self._choose.random() < 0.6:
                updates = self._choose.choice(same)
                free.remove(updates)
            name = None if updates is None else updates.name
            self._function.results.append(ResultInfo(f"r{index}", name))
        self._builder.emit(RETURN, returned)


def _type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _agree(a: TensorType, b: TensorType, axis: int) -> bool:
    """Whether the two can be joined along an axis."""
    if a.dtype is not b.dtype or a.rank != b.rank:
        return False
    return all(i == axis or d == b.dims[i] for i, d in enumerate(a.dims))
