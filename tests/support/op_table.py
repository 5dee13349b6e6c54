"""One row per tensor operation: which shapes and settings to try, and how exact a backend must be.

A new operation needs a row here (`tests/architecture/test_op_table.py`); conformance and gradient
tests go over the table, so a row is all the testing that an operation needs on every backend.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphc.ir.core import OpDef
from graphc.ir.params import NoParams, Params, make_params, print_params
from graphc.ir.types import Dim, DType, Symbol, TensorType
from graphc.ops import (
    bits,
    constant,
    contraction,
    depthwise,
    elementwise,
    functions,
    indexed,
    movement,
    patches,
    random,
    reduction,
    selection,
    training_forms,
)
from tests.support import depthwise_cases, movement_cases
from tests.support.judges import (
    EXACT,
    SAME_NUMBERS,
    Judge,
    lookups,
    near,
    products,
    sums,
    ulps,
    window_sums,
)

Dims = tuple[Dim, ...]

N = Symbol("N", 8)
FLOATS = (DType.F32, DType.F64)
NUMBERS = (DType.F32, DType.F64, DType.I32, DType.I64)
ALL = (*NUMBERS, DType.I1)
MOVED = (*ALL, DType.U8, DType.F16)
"""With elements of one and two bytes, which are only stored."""


@dataclass(frozen=True)
class Case:
    """One use of an operation.

    types    of its operands
    given    dims of the arguments; those that differ from the operand's are broadcast to it
    samples  the value of N in the call
    """

    name: str
    types: tuple[TensorType, ...]
    params: Params = NoParams()  # noqa: RUF009  # frozen
    given: tuple[Dims, ...] | None = None
    samples: int = 5

    @property
    def argument_types(self) -> tuple[TensorType, ...]:
        dims = self.given or tuple(t.dims for t in self.types)
        return tuple(t.with_dims(d) for t, d in zip(self.types, dims, strict=True))


MakeCases = Callable[[DType], Iterable[Case]]
Smoothness = Literal["smooth", "kinked", "none"]


@dataclass(frozen=True)
class Row:
    """How an operation is tested.

    dtypes      element types of its first operand (of its result, if it has no operands)
    judge       how near the reference a backend must be; it carries its reason
    smoothness  "none" for operations without a gradient
    domain      where gradients are tried: operands between these, kinks excluded
    """

    op: OpDef
    dtypes: tuple[DType, ...]
    cases: MakeCases
    judge: Judge
    smoothness: Smoothness = "none"
    domain: tuple[float, float] = (-2.0, 2.0)


SHAPES: dict[str, Dims] = {
    "rank 0": (),
    "one element": (1,),
    "no element": (0,),
    "prime": (7,),
    "longer than a vector": (37,),
    "many vectors and a rest": (1031,),
    "matrix": (3, 5),
    "one row": (1, 19),
    "one column": (19, 1),
    "no row": (0, 4),
    "no column": (4, 0),
    "rank 3": (2, 3, 5),
    "rank 4": (2, 1, 3, 4),
    "more than one block": (2000, 40),
    "fewer samples than the bound": (N, 5),
    "samples alone": (N,),
    "samples inside": (3, N),
    "samples in the middle": (2, N, 3),
}

BROADCASTS: dict[str, tuple[Dims, Dims, Dims]] = {
    "broadcast left": ((1, 5), (3, 5), (3, 5)),
    "broadcast right": ((3, 5), (3, 1), (3, 5)),
    "broadcast both": ((4, 1), (1, 7), (4, 7)),
    "broadcast over samples": ((N, 5), (1, 5), (N, 5)),
    "broadcast one element": ((1, 1), (N, 5), (N, 5)),
    "broadcast over blocks": ((2000, 40), (1, 40), (2000, 40)),
}


def _with_samples(case: Case) -> Iterable[Case]:
    """The case, and with symbols also without a sample, with one and at the bound."""
    yield case
    if any(t.symbols() for t in case.types) or _mentions_symbol(case.params):
        for samples in (0, 1, N.bound):
            yield Case(f"{case.name}, N = {samples}", case.types, case.params, case.given, samples)


def _mentions_symbol(params: Params) -> bool:
    return any(
        (isinstance(v, TensorType) and bool(v.symbols())) or isinstance(v, Symbol)
        for v in vars(params).values()
    )


def _elementwise(op: OpDef, settings: Params | None = None) -> MakeCases:
    def cases(dtype: DType) -> Iterable[Case]:
        params = settings or NoParams()
        for name, dims in SHAPES.items():
            yield from _with_samples(Case(name, _operand_types(op, dims, dtype), params))
        if len(op.operands) < 2:
            return
        for name, (left, right, whole) in BROADCASTS.items():
            types = _operand_types(op, whole, dtype)
            given = (whole, left, right)[-len(types) :]
            yield from _with_samples(Case(name, types, params, given))

    return cases


def _operand_types(op: OpDef, dims: Dims, dtype: DType) -> tuple[TensorType, ...]:
    return tuple(
        TensorType(dims, DType.I1 if name == "condition" else dtype) for name in op.operands
    )


def _casts(dtype: DType) -> Iterable[Case]:
    for target in (*ALL, DType.U32, DType.F16):
        for case in _elementwise(elementwise.CAST, elementwise.CastParams(target))(dtype):
            yield Case(f"{case.name}, to {target}", case.types, case.params, None, case.samples)


def _bitcasts(dtype: DType) -> Iterable[Case]:
    for target in NUMBERS:
        if target.numpy.itemsize == dtype.numpy.itemsize:
            for case in _elementwise(bits.BITCAST, bits.BitcastParams(target))(dtype):
                yield Case(f"{case.name}, to {target}", case.types, case.params, None, case.samples)


def _reductions(op: OpDef) -> MakeCases:
    def cases(dtype: DType) -> Iterable[Case]:
        for name, dims in SHAPES.items():
            rank = len(dims)
            for count in range(1, rank + 1):
                for axes in itertools.combinations(range(rank), count):
                    types = (TensorType(dims, dtype),)
                    params = make_params(op.params, {"axes": axes})
                    yield from _with_samples(Case(f"{name} over {axes}", types, params))

    return cases


def _broadcasts(dtype: DType) -> Iterable[Case]:
    pairs: list[tuple[Dims, Dims]] = [
        ((1,), (7,)),
        ((1,), (0,)),
        ((1, 5), (3, 5)),
        ((3, 1), (3, 5)),
        ((1, 1), (4, 37)),
        ((1, 5), (N, 5)),
        ((N, 1), (N, 5)),
        ((1, 1), (N, 1)),
        ((3, 1), (3, N)),
        ((1, 1, 1), (2, 3, 5)),
        ((2, 1, 5), (2, 3, 5)),
        ((2, 1, 3, 1), (2, 4, 3, 5)),
        ((1, 40), (5000, 40)),
        ((5000, 1), (5000, 40)),
    ]
    for before, after in pairs:
        case = Case(
            f"{_text(before)} to {_text(after)}",
            (TensorType(before, dtype),),
            reduction.BroadcastParams(after),
        )
        yield case
        if N in after:
            for samples in (0, 1, N.bound):
                name = f"{case.name}, N = {samples}"
                yield Case(name, case.types, case.params, None, samples)


def _reshapes(dtype: DType) -> Iterable[Case]:
    pairs: list[tuple[Dims, Dims]] = [
        ((), (1,)),
        ((1, 1), ()),
        ((7,), (1, 7)),
        ((7,), (7, 1)),
        ((2, 3, 5), (6, 5)),
        ((6, 5), (2, 15)),
        ((30,), (2, 3, 5)),
        ((0, 4), (4, 0)),
        ((32, 1), (1, 32)),
        ((N, 6), (N, 2, 3)),
        ((N, 1), (1, N)),
        ((2, N), (N, 2)),
        ((1031,), (1, 1031, 1)),
    ]
    for before, after in pairs:
        name = f"{_text(before)} to {_text(after)}"
        types = (TensorType(before, dtype),)
        yield from _with_samples(Case(name, types, movement.ReshapeParams(after)))


def _transposes(dtype: DType) -> Iterable[Case]:
    for name, dims in SHAPES.items():
        for order in itertools.permutations(range(len(dims))):
            if len(dims) == 4 and order[0] == 0:
                continue  # enough of 24 orders
            params = movement.TransposeParams(order)
            types = (TensorType(dims, dtype),)
            yield from _with_samples(Case(f"{name}, order {order}", types, params))


def _moves(uses: movement_cases.Uses) -> MakeCases:
    def cases(dtype: DType) -> Iterable[Case]:
        for operands, params in uses(N):
            name = f"{', '.join(map(_text, operands))}{print_params(params)}"
            types = tuple(TensorType(dims, dtype) for dims in operands)
            yield from _with_samples(Case(name, types, params))

    return cases


def _products(dtype: DType) -> Iterable[Case]:
    sizes: list[tuple[Dim, Dim, Dim]] = [
        (1, 1, 1),
        (3, 5, 7),
        (0, 4, 3),
        (3, 0, 4),
        (3, 4, 0),
        (1, 37, 1),
        (1, 7, 64),
        (64, 1, 7),
        (17, 33, 65),
        (13, 300, 31),
        (N, 5, 7),
        (N, 64, 10),
        (6, N, 7),
        (6, 7, N),
        (N, 3, N),
    ]
    for m, k, n in sizes:
        for ta, tb in itertools.product((False, True), repeat=2):
            a = TensorType((k, m) if ta else (m, k), dtype)
            b = TensorType((n, k) if tb else (k, n), dtype)
            name = f"{m}x{k}x{n}{', a transposed' * ta}{', b transposed' * tb}"
            params = contraction.MatmulParams(ta, tb)
            yield from _with_samples(Case(name, (a, b), params))
    yield from _grouped_products(dtype)


def _grouped_products(dtype: DType) -> Iterable[Case]:
    roles: list[tuple[Dims, Dims, Dims, Dims]] = [  # batch, rows, inner, columns
        ((3,), (4,), (5,), (6,)),
        ((N,), (4,), (5,), (6,)),
        ((2, N), (3,), (2,), (17,)),
        ((), (2, 3), (4,), (5,)),
        ((), (2,), (3, 4), (5,)),
        ((), (N, 3), (2,), (4,)),
        ((), (N, 2), (3, 5), (2, 3)),
        ((), (3,), (N, 2), (4,)),
        ((2,), (2, 3), (2, 5), (3,)),
        ((), (N,), (2, 3, 4), (5, 7)),
        ((0,), (2,), (3,), (4,)),
        ((2,), (3,), (0,), (4,)),
        ((2,), (0,), (3,), (4,)),
        ((2,), (3,), (4,), (0,)),
        ((), (2, 0), (3,), (4,)),
        ((5,), (1,), (9,), (1,)),
        ((3,), (13,), (40,), (33,)),
    ]
    for batch, rows, inner, cols in roles:
        for ta, tb in itertools.product((False, True), repeat=2):
            a = TensorType((*batch, *((*inner, *rows) if ta else (*rows, *inner))), dtype)
            b = TensorType((*batch, *((*cols, *inner) if tb else (*inner, *cols))), dtype)
            name = " ".join(map(_text, (batch, rows, inner, cols)))
            name += f"{', a transposed' * ta}{', b transposed' * tb}"
            params = contraction.MatmulParams(ta, tb, len(inner), len(batch))
            yield from _with_samples(Case(name, (a, b), params))


LOOKUPS: list[tuple[Dim, Dim, Dim, Dim]] = [  # n, k, the looked up axis, d
    (1, 1, 1, 1),
    (3, 2, 5, 4),
    (4, 3, 7, 1),
    (2, 5, 3, 17),
    (7, 3, 11, 37),
    (5, 2, 20, 64),
    (3, 4, 9, 131),
    (1, 300, 10, 7),
    (3, 0, 4, 5),
    (0, 2, 4, 5),
    (3, 2, 0, 4),
    (3, 2, 4, 0),
    (N, 3, 6, 5),
    (6, N, 4, 3),
    (5, 2, N, 3),
    (4, 2, 3, N),
    (N, 2, N, 4),
]


def _takes(dtype: DType) -> Iterable[Case]:
    for n, k, size, _ in LOOKUPS:
        types = (TensorType((n, size), dtype), TensorType((n, k), DType.I32))
        yield from _with_samples(Case(f"{n}x{k} of {size}", types))


def _selections(dtype: DType) -> Iterable[Case]:
    sizes: list[tuple[Dim, int, int]] = [
        *((1, 1, 1), (3, 5, 1), (3, 5, 2), (3, 5, 5), (7, 64, 3), (2, 300, 40), (0, 4, 2)),
        *((N, 5, 1), (N, 5, 3), (N, 1, 1)),
    ]
    for rows, columns, count in sizes:
        types = (TensorType((rows, columns), dtype),)
        params = selection.TopParams(count)
        yield from _with_samples(Case(f"{count} of {rows}x{columns}", types, params))


def _puts(dtype: DType) -> Iterable[Case]:
    for n, k, size, _ in LOOKUPS:
        types = (TensorType((n, k), dtype), TensorType((n, k), DType.I32))
        yield from _with_samples(Case(f"{n}x{k} into {size}", types, indexed.ScatterParams(size)))


def _lookups(op: OpDef) -> MakeCases:
    def cases(dtype: DType) -> Iterable[Case]:
        for (n, k, size, d), columns in itertools.product(LOOKUPS, (False, True)):
            table: Dims = (d, size) if columns else (size, d)
            params: Params = indexed.LookupParams(columns)
            dims: list[Dims] = [(n, k), table]
            if op is indexed.SAMPLED_PRODUCT:
                dims = [(n, d), table]
            if op is indexed.TRANSPOSED_SPARSE_PRODUCT:
                dims, params = [(n, k), (n, d)], indexed.OuterParams(size, columns)
            types = (*(TensorType(x, dtype) for x in dims), TensorType((n, k), DType.I32))
            name = f"{n}x{k} of {size}x{d}{', columns' * columns}"
            yield from _with_samples(Case(name, types, params))

    return cases


def _constants(dtype: DType) -> Iterable[Case]:
    one = True if dtype is DType.I1 else 1.5 if dtype.is_float else -3
    for name, dims in SHAPES.items():
        type = TensorType(dims, dtype)
        yield from _with_samples(Case(name, (), constant.ConstantParams(type, (one,))))
    for dims in ((7,), (3, 5), (2, 3, 5), (300,)):
        type = TensorType(dims, dtype)
        values = tuple(
            bool(i % 3) if dtype is DType.I1 else i * 0.1 - 2 if dtype.is_float else i - 9
            for i in range(type.bound_elements)
        )
        params = constant.ConstantParams(type, values)
        yield Case(f"every element of {_text(dims)}", (), params)
    if dtype.is_float:
        specials = tuple(map(float, ("0", "-0", "inf", "-inf", "nan", "1e-310", "1e-40")))
        params = constant.ConstantParams(TensorType((7,), dtype), specials)
        yield Case("special values", (), params)


def _positions(dtype: DType) -> Iterable[Case]:
    for name, dims in SHAPES.items():
        for axis in range(len(dims)):
            params = constant.IotaParams(TensorType(dims, dtype), axis)
            yield from _with_samples(Case(f"{name}, axis {axis}", (), params))


def _extents(dtype: DType) -> Iterable[Case]:
    for dims in ((), (1,), (1, 1), (1, 1, 1)):
        for dim in (0, 1, 7, 1000, N):
            params = constant.ExtentParams(dim, TensorType(dims, dtype))
            yield from _with_samples(Case(f"{dim} as {_text(dims)}", (), params))


def _text(dims: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _arithmetic(op: OpDef, dtypes: tuple[DType, ...], smoothness: Smoothness) -> Row:
    return Row(op, dtypes, _elementwise(op), EXACT, smoothness)


_FUNCTION = ulps(4, "each backend has its own function; their errors may point apart")


def _function(op: OpDef, domain: tuple[float, float] = (-2.0, 2.0)) -> Row:
    return Row(op, FLOATS, _elementwise(op), _FUNCTION, "smooth", domain)


_GELU = near(lambda _v, x: 10 * np.abs(x), "10 u |x|", "1 + erf(x / √2) cancels below 0")


_e, _f, _t = elementwise, functions, training_forms
ROWS: tuple[Row, ...] = (
    _arithmetic(_e.ADD, NUMBERS, "smooth"),
    _arithmetic(_e.SUB, NUMBERS, "smooth"),
    _arithmetic(_e.MUL, NUMBERS, "smooth"),
    Row(_e.DIV, NUMBERS, _elementwise(_e.DIV), EXACT, "smooth", (0.5, 2.0)),
    _arithmetic(_e.NEG, NUMBERS, "smooth"),
    _arithmetic(_e.ABS, NUMBERS, "kinked"),
    _function(_f.EXP),
    _function(_f.EXPM1),
    _function(_f.LOG, (0.5, 3.0)),
    _function(_f.LOG1P, (-0.5, 2.0)),
    Row(_f.SQRT, FLOATS, _elementwise(_f.SQRT), EXACT, "smooth", (0.5, 3.0)),
    _function(_f.TANH),
    _function(_f.SIGMOID),
    _function(_f.ERF),
    _function(_f.SIN),
    _function(_f.COS),
    _function(_f.ARCTAN),
    _function(_f.POWER, (0.5, 3.0)),
    _function(_f.ELU),
    _function(_f.SOFTPLUS),
    Row(_f.GELU, FLOATS, _elementwise(_f.GELU), _GELU, "smooth"),
    Row(_f.FLOOR, FLOATS, _elementwise(_f.FLOOR), EXACT),
    Row(random.RANDOM_UNIFORM, (DType.I64,), _elementwise(random.RANDOM_UNIFORM), EXACT),
    Row(_e.MAXIMUM, NUMBERS, _elementwise(_e.MAXIMUM), SAME_NUMBERS, "kinked"),
    Row(_e.MINIMUM, NUMBERS, _elementwise(_e.MINIMUM), SAME_NUMBERS, "kinked"),
    Row(_e.CLIP, NUMBERS, _elementwise(_e.CLIP), SAME_NUMBERS, "kinked"),
    Row(_e.SELECT, ALL, _elementwise(_e.SELECT), EXACT, "smooth"),
    *(
        Row(op, ALL, _elementwise(op), EXACT)
        for op in (_e.EQUAL, _e.NOT_EQUAL, _e.LESS, _e.LESS_EQUAL, _e.GREATER, _e.GREATER_EQUAL)
    ),
    *(
        Row(op, (DType.I1,), _elementwise(op), EXACT)
        for op in (_e.LOGICAL_AND, _e.LOGICAL_OR, _e.LOGICAL_NOT)
    ),
    Row(_e.CAST, ALL, _casts, EXACT, "smooth"),
    *(Row(op, bits.INTEGERS, _elementwise(op), EXACT) for op in bits.OPS if op is not bits.BITCAST),
    Row(bits.BITCAST, NUMBERS, _bitcasts, EXACT),
    Row(_e.ROUND_BF16, (DType.F32,), _elementwise(_e.ROUND_BF16), EXACT),
    Row(_t.DROP, FLOATS, _elementwise(_t.DROP, _t.DropParams(0.5)), EXACT, "smooth"),
    Row(
        _t.RUNNING_STATISTIC,
        FLOATS,
        _elementwise(_t.RUNNING_STATISTIC, _t.RunningStatisticParams(0.9)),
        EXACT,
        "smooth",
    ),
    Row(_e.STOP_GRADIENT, ALL, _elementwise(_e.STOP_GRADIENT), EXACT),
    Row(constant.CONSTANT, ALL, _constants, EXACT),
    Row(constant.IOTA, NUMBERS, _positions, EXACT),
    Row(constant.EXTENT, FLOATS, _extents, EXACT),
    Row(reduction.BROADCAST, ALL, _broadcasts, EXACT, "smooth"),
    Row(reduction.REDUCE_SUM, NUMBERS, _reductions(reduction.REDUCE_SUM), sums(), "smooth"),
    Row(reduction.REDUCE_MAX, NUMBERS, _reductions(reduction.REDUCE_MAX), SAME_NUMBERS, "kinked"),
    Row(reduction.REDUCE_MIN, NUMBERS, _reductions(reduction.REDUCE_MIN), SAME_NUMBERS, "kinked"),
    Row(movement.RESHAPE, ALL, _reshapes, EXACT, "smooth"),
    Row(movement.TRANSPOSE, MOVED, _transposes, EXACT, "smooth"),
    Row(movement.SLICE, ALL, _moves(movement_cases.slices), EXACT, "smooth"),
    Row(movement.PAD, MOVED, _moves(movement_cases.pads), EXACT, "smooth"),
    Row(movement.CONCAT, MOVED, _moves(movement_cases.concats), EXACT, "smooth"),
    Row(movement.REVERSE, ALL, _moves(movement_cases.reverses), EXACT, "smooth"),
    Row(patches.PATCHES, ALL, _moves(movement_cases.patches), EXACT, "smooth"),
    Row(patches.OVERLAP_ADD, NUMBERS, _moves(movement_cases.overlap_adds), EXACT, "smooth"),
    *(
        Row(op, FLOATS, _moves(uses), window_sums(), "smooth")
        for op, uses in (
            (depthwise.DEPTHWISE, depthwise_cases.results),
            (depthwise.DEPTHWISE_DATA_GRAD, depthwise_cases.data_grads),
            (depthwise.DEPTHWISE_WEIGHT_GRAD, depthwise_cases.weight_grads),
        )
    ),
    Row(contraction.MATMUL, FLOATS, _products, products(), "smooth"),
    Row(selection.TOP_INDICES, FLOATS, _selections, EXACT),
    Row(indexed.GATHER, FLOATS, _takes, SAME_NUMBERS, "smooth"),
    Row(indexed.SCATTER_ADD, FLOATS, _puts, lookups(), "smooth"),
    *(
        Row(op, FLOATS, _lookups(op), lookups(), "smooth")
        for op in (
            indexed.SPARSE_PRODUCT,
            indexed.SAMPLED_PRODUCT,
            indexed.TRANSPOSED_SPARSE_PRODUCT,
        )
    ),
)
