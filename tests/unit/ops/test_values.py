"""A few hand-computed values per operation: what the references themselves are held to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphc.ir.core import Function, IRBuilder, OpDef, RegionKind
from graphc.ir.params import NoParams, Params, make_params
from graphc.ir.types import DType, TensorType
from graphc.ops import contraction, movement, reduction
from graphc.ops import elementwise as e
from graphc.ops import functions as f
from graphc.ops.constant import ConstantParams, constant

INF, NAN = math.inf, math.nan
I32 = np.iinfo(np.int32)
POWERS = [1.4142135623730951, -8, NAN, INF, -INF, 1]


def reference(
    op: OpDef, *operands: object, dtype: str = "f8", params: Params | None = None
) -> list:
    assert op.reference is not None
    arrays = [x if isinstance(x, np.ndarray) else np.array(x, dtype) for x in operands]
    with np.errstate(all="ignore"):
        result = op.reference(params or NoParams(), *arrays)
    assert isinstance(result, np.ndarray)
    return result.tolist()


@pytest.mark.parametrize(
    ("op", "operands", "wanted"),
    [
        (e.ADD, ([1, -0.0, INF], [2, -0.0, -INF]), [3, -0.0, NAN]),
        (e.SUB, ([1, INF], [2, INF]), [-1, NAN]),
        (e.MUL, ([3, 0, -2], [-2, INF, 0]), [-6, NAN, -0.0]),
        (e.DIV, ([1, 0, -1, 7], [4, 0, 0, INF]), [0.25, NAN, -INF, 0]),
        (e.NEG, ([0, -3, INF],), [-0.0, 3, -INF]),
        (e.ABS, ([-0.0, -3, -INF],), [0, 3, INF]),
        (f.EXP, ([0, -INF, INF, 1],), [1, 0, INF, 2.718281828459045]),
        (f.LOG, ([1, 0, INF, -1],), [0, -INF, INF, NAN]),
        (f.EXPM1, ([0, -0.0, 1e-10, -INF, INF],), [0, -0.0, 1.00000000005e-10, -1, INF]),
        (
            f.LOG1P,
            ([0, -0.0, 1e-10, -1, INF, -2],),
            [0, -0.0, 9.999999999500001e-11, -INF, INF, NAN],
        ),
        (f.ERF, ([-0.0, 0.5, -1, INF],), [-0.0, 0.5204998778130465, -0.8427007929497149, 1]),
        (f.SQRT, ([4, -0.0, 2, -1],), [2, -0.0, 1.4142135623730951, NAN]),
        (f.TANH, ([0, INF, -INF],), [0, 1, -1]),
        (f.SIGMOID, ([0, INF, -INF, -1000, 1000],), [0.5, 1, 0, 0, 1]),
        (f.SIN, ([0, -0.0, 1, INF],), [0, -0.0, 0.8414709848078965, NAN]),
        (f.COS, ([0, 1, -INF],), [1, 0.5403023058681398, NAN]),
        (f.ARCTAN, ([-0.0, 1, -INF, 1e-3],), [-0.0, math.pi / 4, -math.pi / 2, math.atan(1e-3)]),
        (f.POWER, ([2, -2, -2, 0, -0.0, NAN], [0.5, 3, 0.5, -1, -3, 0]), POWERS),
        (f.FLOOR, ([1.5, -1.5, -0.0, INF, -0.5],), [1, -2, -0.0, INF, -1]),
        (e.MAXIMUM, ([1, NAN, -INF], [2, 1, 0]), [2, NAN, 0]),
        (e.MINIMUM, ([1, 1, INF], [2, NAN, 0]), [1, NAN, 0]),
        (e.EQUAL, ([1, NAN, 0], [1, NAN, -0.0]), [True, False, True]),
        (e.NOT_EQUAL, ([1, NAN], [1, NAN]), [False, True]),
        (e.LESS, ([1, 2, NAN], [2, 2, 0]), [True, False, False]),
        (e.LESS_EQUAL, ([1, 2, NAN], [2, 2, NAN]), [True, True, False]),
        (e.GREATER, ([1, 2, NAN], [0, 2, 0]), [True, False, False]),
        (e.GREATER_EQUAL, ([1, 2, NAN], [2, 2, NAN]), [False, True, False]),
    ],
    ids=lambda v: v.name if isinstance(v, OpDef) else "",
)
def test_floating_point_operations(
    op: OpDef, operands: tuple[list[float], ...], wanted: list[float]
) -> None:
    np.testing.assert_array_equal(reference(op, *operands), wanted)


def test_a_quotient_of_integers_goes_towards_zero() -> None:
    assert reference(e.DIV, [7, -7, 7, -7], [2, 2, -2, -2], dtype="i4") == [3, -3, -3, 3]


def test_a_quotient_of_integers_by_zero_is_zero_and_the_smallest_by_minus_1_wraps() -> None:
    assert reference(e.DIV, [7, I32.min, 0], [0, -1, 0], dtype="i4") == [0, I32.min, 0]


def test_sums_of_integers_wrap() -> None:
    assert reference(e.ADD, [I32.max], [1], dtype="i4") == [I32.min]


def test_the_negative_and_the_absolute_of_the_smallest_integer_are_itself() -> None:
    assert reference(e.NEG, [I32.min], dtype="i4") == [I32.min]
    assert reference(e.ABS, [I32.min], dtype="i4") == [I32.min]


def test_a_cast_to_an_integer_cuts_saturates_and_takes_nan_to_0() -> None:
    params = e.CastParams(DType.I32)
    given = [2.9, -2.9, NAN, INF, -INF, 3e9, 2147483646.5]
    wanted = [2, -2, 0, I32.max, I32.min, I32.max, 2147483646]
    assert reference(e.CAST, given, params=params) == wanted


def test_a_cast_to_a_truth_value_asks_whether_it_is_zero() -> None:
    params = e.CastParams(DType.I1)
    assert reference(e.CAST, [0, -0.0, NAN, 0.1], params=params) == [False, False, True, True]


def test_select_takes_its_first_choice_where_the_condition_holds() -> None:
    condition = np.array([True, False, True])
    assert reference(e.SELECT, condition, [1, 2, 3], [4, 5, 6]) == [1, 5, 3]


def test_logic() -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert reference(e.LOGICAL_AND, a, b) == [False, False, False, True]
    assert reference(e.LOGICAL_OR, a, b) == [False, True, True, True]
    assert reference(e.LOGICAL_NOT, a) == [True, True, False, False]


@pytest.mark.parametrize(
    ("op", "axes", "wanted"),
    [
        (reduction.REDUCE_SUM, (0,), [[5, 7, 9]]),
        (reduction.REDUCE_SUM, (1,), [[6], [15]]),
        (reduction.REDUCE_SUM, (0, 1), [[21]]),
        (reduction.REDUCE_MAX, (1,), [[3], [6]]),
        (reduction.REDUCE_MIN, (0,), [[1, 2, 3]]),
    ],
)
def test_reductions_keep_the_rank(op: OpDef, axes: tuple[int, ...], wanted: list) -> None:
    params = make_params(op.params, {"axes": axes})
    assert reference(op, [[1, 2, 3], [4, 5, 6]], params=params) == wanted


def test_a_reduction_over_nothing_is_its_identity() -> None:
    nothing = np.zeros((0, 2))
    params = reduction.ExtremumParams((0,))
    assert reference(reduction.REDUCE_SUM, nothing, params=params) == [[0, 0]]
    assert reference(reduction.REDUCE_MAX, nothing, params=params) == [[-INF, -INF]]
    assert reference(reduction.REDUCE_MIN, nothing.astype("i4"), params=params) == [[I32.max] * 2]


def test_a_maximum_with_nan_is_nan() -> None:
    params = reduction.ExtremumParams((0,))
    np.testing.assert_array_equal(
        reference(reduction.REDUCE_MAX, [1, NAN, 2], params=params), [NAN]
    )


def test_a_broadcast_repeats() -> None:
    params = reduction.BroadcastParams((2, 3))
    assert reference(reduction.BROADCAST, [[1], [2]], params=params) == [[1] * 3, [2] * 3]


def test_transpose_and_reshape() -> None:
    x = [[1, 2, 3], [4, 5, 6]]
    order = movement.TransposeParams((1, 0))
    assert reference(movement.TRANSPOSE, x, params=order) == [[1, 4], [2, 5], [3, 6]]
    dims = movement.ReshapeParams((3, 2))
    assert reference(movement.RESHAPE, x, params=dims) == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(
    ("ta", "tb", "wanted"),
    [
        (False, False, [[19, 22], [43, 50]]),
        (True, False, [[26, 30], [38, 44]]),
        (False, True, [[17, 23], [39, 53]]),
        (True, True, [[23, 31], [34, 46]]),
    ],
)
def test_products(ta: bool, tb: bool, wanted: list) -> None:
    params = contraction.MatmulParams(ta, tb)
    assert (
        reference(contraction.MATMUL, [[1, 2], [3, 4]], [[5, 6], [7, 8]], params=params) == wanted
    )


def test_a_product_with_itself_has_the_bits_of_one_with_an_equal_matrix() -> None:
    """numpy has another function for it; `fold-constants` makes one array of two."""
    x = np.random.default_rng(0).standard_normal((17, 33)).astype(np.float32)
    of = contraction.MATMUL.reference
    assert of is not None
    for flag in ("transpose_a", "transpose_b"):
        params = contraction.MatmulParams(**{flag: True})
        assert np.array_equal(of(params, x, x), of(params, x, x.copy()))


def test_a_constant_beyond_its_type_is_infinite() -> None:
    builder = IRBuilder(Function("f", RegionKind.SSA).block)
    made = constant(builder, 1e300, TensorType((1,), DType.F32))
    assert made.op is not None
    assert made.op.params == ConstantParams(TensorType((1,), DType.F32), (INF,))
