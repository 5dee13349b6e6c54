"""Every scalar op on LLVM vectors, against numpy and the protocol's sentences."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import TARGETS, X86_64, Target, host_target
from graphc.backends.llvm.text import Code, Module
from graphc.backends.loops.arithmetic import is_number
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import Val, constant, lane_type
from graphc.ir.scalar import WORDS
from graphc.ir.types import DType
from tests.support.llvm_probe import Formula, probe, probe_text

FLOATS = [DType.F32, DType.F64]
INTEGERS = [DType.I32, DType.I64]
RUNNABLE = [X86_64, host_target()]
TARGET_IDS = ["baseline", "host"]


def scalar_op(name: str) -> Formula:
    return lambda s, *args: getattr(s, name)(*args)


def values(dtype: DType) -> np.ndarray:
    if dtype is DType.I1:
        return np.array([False, True])
    if dtype.is_float:
        info = np.finfo(dtype.numpy)
        listed = [0.0, -0.0, 1.0, -1.5, 3e-3, np.inf, -np.inf, np.nan, info.max, info.min]
        return np.array([*listed, info.tiny, info.smallest_subnormal], dtype.numpy)
    info = np.iinfo(dtype.numpy)
    return np.array([0, 1, -1, 2, -7, 100, info.max, info.min], dtype.numpy)


def pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(values(dtype), values(dtype))
    return a.ravel(), b.ravel()


def quietly(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(function(*arrays))


NUMPY_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
COMPARISONS = {n for n in NUMPY_BINARY if n.startswith(("equal", "not", "less", "greater"))}


@pytest.mark.parametrize("target", RUNNABLE, ids=TARGET_IDS)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("name", NUMPY_BINARY)
def test_binary_words_agree_with_numpy_on_all_pairs(
    name: str, dtype: DType, target: Target
) -> None:
    output = DType.I1 if name in COMPARISONS else dtype
    a, b = pairs(dtype)
    got = probe(target, scalar_op(name), [dtype, dtype], output)(a, b)
    np.testing.assert_array_equal(got, quietly(NUMPY_BINARY[name], a, b))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_division_follows_ieee(dtype: DType) -> None:
    a, b = pairs(dtype)
    got = probe(host_target(), scalar_op("div"), [dtype, dtype], dtype)(a, b)
    np.testing.assert_array_equal(got, quietly(np.divide, a, b))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("lanes", [1, 4])
def test_integer_division_never_traps_and_truncates(dtype: DType, lanes: int) -> None:
    a, b = pairs(dtype)
    got = probe(host_target(), scalar_op("div"), [dtype, dtype], dtype, lanes)(a, b)
    wrap = 1 << (8 * dtype.itemsize)
    smallest = int(np.iinfo(dtype.numpy).min)
    for x, y, quotient in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        exact = 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        assert quotient == (exact - smallest) % wrap + smallest, (x, y)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize(("name", "numpy"), [("neg", np.negative), ("abs", np.abs)])
def test_sign_words_agree_with_numpy(
    name: str, numpy: Callable[..., np.ndarray], dtype: DType
) -> None:
    a = values(dtype)
    got = probe(host_target(), scalar_op(name), [dtype], dtype)(a)
    expected = quietly(numpy, a)
    np.testing.assert_array_equal(got, expected)
    number = expected == expected
    assert (np.signbit(got) == np.signbit(expected))[number].all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sqrt_is_correctly_rounded(dtype: DType) -> None:
    a = np.concatenate([values(dtype), np.linspace(0, 9, 1001).astype(dtype.numpy)])
    got = probe(host_target(), scalar_op("sqrt"), [dtype], dtype)(a)
    np.testing.assert_array_equal(got, quietly(np.sqrt, a))


@pytest.mark.parametrize("target", RUNNABLE, ids=TARGET_IDS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floor_is_exact_and_keeps_the_sign_of_zero(dtype: DType, target: Target) -> None:
    digits = np.finfo(dtype.numpy).nmant
    ends = 2.0**digits + np.array([-1.5, -1, -0.5, 0, 1, 2])
    near = np.array([-0.3, 0.7, -1.0, 2.5, -2.5, 1e-30, -1e-30, 0.5, -0.5, 1 - 2.0**-digits])
    a = np.concatenate([values(dtype), ends, -ends, near]).astype(dtype.numpy)
    got = probe(target, scalar_op("floor"), [dtype], dtype)(a)
    expected = quietly(np.floor, a)
    np.testing.assert_array_equal(got, expected)
    number = expected == expected
    assert (np.signbit(got) == np.signbit(expected))[number].all()


@pytest.mark.parametrize("bound", [0.0, 2.5, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("constant_first", [False, True])
def test_extremes_with_a_constant_still_pass_nan_on(
    name: str, bound: float, constant_first: bool
) -> None:
    def formula(s: LaneScalars, x: Val) -> Val:
        limit = s.const(bound, x)
        return getattr(s, name)(*((limit, x) if constant_first else (x, limit)))

    a = values(DType.F32)
    got = probe(host_target(), formula, [DType.F32], DType.F32)(a)
    np.testing.assert_array_equal(got, quietly(NUMPY_BINARY[name], a, np.float32(bound)))


@pytest.mark.parametrize(
    ("name", "numpy"),
    [
        ("logical_and", np.logical_and),
        ("logical_or", np.logical_or),
        ("maximum", np.logical_or),
        ("minimum", np.logical_and),
        ("equal", np.equal),
        ("less", np.less),
        ("greater_equal", np.greater_equal),
    ],
)
def test_words_on_truth_values(name: str, numpy: Callable[..., np.ndarray]) -> None:
    a, b = pairs(DType.I1)
    got = probe(host_target(), scalar_op(name), [DType.I1, DType.I1], DType.I1, 8)(a, b)
    np.testing.assert_array_equal(got, numpy(a, b))


def test_logical_not_turns_truth_round() -> None:
    got = probe(host_target(), scalar_op("logical_not"), [DType.I1], DType.I1)(values(DType.I1))
    assert got.tolist() == [True, False]


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_select_takes_the_first_where_the_condition_holds(dtype: DType) -> None:
    a, b = pairs(dtype)
    condition = np.arange(a.size) % 3 == 0
    got = probe(host_target(), scalar_op("select"), [DType.I1, dtype, dtype], dtype, 4)(
        condition, a, b
    )
    np.testing.assert_array_equal(got, np.where(condition, a, b))


@pytest.mark.parametrize("target", RUNNABLE, ids=TARGET_IDS)
@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("to", INTEGERS, ids=str)
def test_float_to_integer_saturates_and_takes_nan_to_zero(
    source: DType, to: DType, target: Target
) -> None:
    info = np.iinfo(to.numpy)
    a = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -2.9, 0.0], source.numpy)
    got = probe(target, lambda s, x: s.cast(x, to), [source], to, 4)(a)
    assert got.tolist() == [0, info.max, info.min, info.max, info.min, 2, -2, 0]


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS, DType.I1], ids=str)
@pytest.mark.parametrize("to", FLOATS, ids=str)
def test_casts_to_float_agree_with_numpy(source: DType, to: DType) -> None:
    a = values(source)
    got = probe(host_target(), lambda s, x: s.cast(x, to), [source], to, 4)(a)
    np.testing.assert_array_equal(got, quietly(lambda x: x.astype(to.numpy), a))


@pytest.mark.parametrize("source", [*INTEGERS, DType.I1], ids=str)
@pytest.mark.parametrize("to", INTEGERS, ids=str)
def test_casts_between_integers_wrap_like_numpy(source: DType, to: DType) -> None:
    a = values(source)
    got = probe(host_target(), lambda s, x: s.cast(x, to), [source], to, 4)(a)
    np.testing.assert_array_equal(got, a.astype(to.numpy))


@pytest.mark.parametrize("source", FLOATS + INTEGERS, ids=str)
def test_cast_to_truth_asks_whether_it_is_not_zero(source: DType) -> None:
    a = values(source)
    got = probe(host_target(), lambda s, x: s.cast(x, DType.I1), [source], DType.I1, 4)(a)
    np.testing.assert_array_equal(got, a.astype(np.bool_))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_one_lane_and_many_lanes_give_the_same_bits(dtype: DType) -> None:
    a = np.linspace(-20, 20, 4001).astype(dtype.numpy)

    def formula(s: LaneScalars, x: Val) -> Val:
        return s.add(s.tanh(x), s.mul(s.sigmoid(x), s.log(s.exp(x))))

    runs = [probe(host_target(), formula, [dtype], dtype, lanes)(a) for lanes in (1, 4, 8, 16)]
    for other in runs[1:]:
        assert other.tobytes() == runs[0].tobytes()


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.isa)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_target_compiles_the_vocabulary(target: Target, dtype: DType) -> None:
    def formula(s: LaneScalars, x: Val) -> Val:
        y = s.maximum(s.add(s.tanh(x), s.log(x)), s.mul(s.sigmoid(x), s.exp(x)))
        return s.power(s.floor(y), s.add(s.sin(y), s.cos(y)))

    text = probe_text(target, formula, [dtype], dtype, target.machine.lanes(dtype))
    assert len(engine.object_code(text, target)) > 0


def test_targets_with_fused_multiply_add_use_it_and_others_do_not() -> None:
    def formula_text(target: Target) -> str:
        return probe_text(target, scalar_op("exp"), [DType.F32], DType.F32, 4)

    assert "@llvm.fma.v4f32" in formula_text(TARGETS["x86-64-v3"])
    assert "fma" not in formula_text(X86_64)


@pytest.mark.parametrize("lanes", [1, 4])
def test_no_library_call_is_left_in_the_object(lanes: int) -> None:
    def formula(s: LaneScalars, x: Val) -> Val:
        y = s.add(s.exp(s.tanh(x)), s.add(s.log(x), s.sigmoid(s.sqrt(x))))
        return s.power(s.floor(y), s.add(s.sin(y), s.cos(y)))

    for dtype in FLOATS:
        text = probe_text(X86_64, formula, [dtype], dtype, lanes)
        called = re.findall(r"\bcallq?\s+(\S+)", engine.assembly(text, X86_64))
        assert called and all(name.startswith("graphc.angle") for name in called)


def test_the_emitter_has_every_word_of_the_vocabulary() -> None:
    assert [name for name in WORDS if not callable(getattr(LaneScalars, name, None))] == []


def test_splat_of_a_constant_needs_no_instruction() -> None:
    code = Code(Module("x86_64"))
    scalars = LaneScalars(code, has_fma=True)
    before = code.line_count()
    splat = scalars.splat(constant(2.0, lane_type("float")), 8)
    assert (splat.type, code.line_count()) == (lane_type("float", 8), before)


def test_a_constant_nan_is_not_taken_for_a_number() -> None:
    type_ = lane_type("float", 4)
    assert is_number(constant(1.0, type_))
    assert not is_number(constant(float("nan"), type_))
    assert not is_number(constant(-float("nan"), type_))
