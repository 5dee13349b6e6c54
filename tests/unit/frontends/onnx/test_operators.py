"""Operators where ONNX's own suite does not look: extremes, slopes, versions, wrong uses."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import TensorProto, defs, helper
from onnx.reference import ReferenceEvaluator

import graphc as gc
from graphc_frontends.onnx.model import program_of
from graphc_frontends.onnx.operators import NEWEST_OPSET, handler_of, operators
from tests.support.onnx_models import model

node = helper.make_node
ML = "ai.onnx.ml"


def run(nodes: Sequence[Any], fixed: Mapping[str, Any] | None = None, /, **given: Any) -> list[Any]:
    """What nodes give for arrays, whose types are those of the inputs."""
    return [*compiled(nodes, fixed or {}, given)(**given).values()]


def graph(nodes: Sequence[Any], given: Mapping[str, Any]) -> Any:
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in nodes[-1].output
    ]
    made = helper.make_graph(nodes, "graph", ports, outputs)
    sets = [("", NEWEST_OPSET), (ML, 3), ("ai.onnx.preview.training", 1)]
    return helper.make_model(made, opset_imports=[helper.make_opsetid(*s) for s in sets])


def compiled(
    nodes: Sequence[Any], fixed: Mapping[str, Any], given: Mapping[str, Any], **how: Any
) -> Any:
    program = program_of(graph(nodes, {**given, **fixed}), "x.onnx", values=fixed)
    return gc.compile(program, backend="numpy", **how)


# --- versions ------------------------------------------------------------------------------------


def test_operators_mean_something_in_every_version_from_7_on() -> None:
    for domain, name in operators():
        if domain:
            continue
        for opset in range(7, NEWEST_OPSET + 1):
            try:
                schema = defs.get_schema(name, opset, domain)
            except defs.SchemaError:
                continue
            handler = handler_of(domain, name, schema.since_version)
            assert handler is not None, f"{name} of version {schema.since_version}"
            parameters = inspect.signature(handler.function).parameters.values()
            required = {
                p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty
            }
            attributes = schema.attributes.items()
            given = {n for n, a in attributes if a.required or a.default_value.name}
            assert required <= given | {"context"}, f"{name} of version {schema.since_version}"


def test_before_version_7_an_attribute_says_whether_the_second_operand_is_repeated() -> None:
    x, y = np.arange(24.0).reshape(2, 3, 4), np.arange(3.0)
    add = node("Add", ["x", "y"], ["z"], broadcast=1, axis=1)
    made = model([add], {"x": x.shape, "y": y.shape}, ["z"], kind=TensorProto.DOUBLE, opset=6)
    call = gc.compile(program_of(made, "x.onnx"), backend="numpy")
    np.testing.assert_array_equal(call(x=x, y=y)["z"], x + y[:, None])


# --- values --------------------------------------------------------------------------------------

EXTREMES = [0.0, -0.0, 1e-8, -1e-8, 0.5, 1.0, -1.0, 3e38, -3e38, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh"])
def test_inverse_functions_at_extremes(name: str, dtype: Any) -> None:
    x = np.array([*EXTREMES, 1e20, 1e9, 2e9, 1.5], dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, f"arc{name[1:].lower()}")(x.astype(np.longdouble))
    (made,) = run([node(name, ["x"], ["y"])], x=x)
    accuracy = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(made, wanted.astype(dtype), accuracy, 0)


def test_the_slope_of_asinh_at_0_is_1() -> None:
    given = {"x": np.zeros(3)}
    call = compiled([node("Asinh", ["x"], ["y"])], {}, given, gradients=["x"])
    np.testing.assert_array_equal(call(**given)["gradient.x"], 1)


def test_regions_have_their_maxima() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 9, 7)).astype(np.float32)
    corners = np.sort(rng.uniform(0, 16, (5, 2, 2)), 1).reshape(5, 4)
    corners = np.concatenate([corners, [[3, 3, 2, 2], [30, 30, 40, 40], [-5, -4, 3, 3]]])
    regions = np.column_stack([np.arange(8) % 2, corners]).astype(np.float32)
    (made,) = run(
        [node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[3, 2], spatial_scale=0.5)],
        x=x,
        r=regions,
    )
    wanted = np.zeros((8, 3, 3, 2), np.float32)
    for r, (sample, left, top, right, bottom) in enumerate(regions):
        x0, y0, x1, y1 = (
            int(math.copysign(math.floor(abs(v) / 2 + 0.5), v)) for v in (left, top, right, bottom)
        )
        height, width = max(y1 - y0 + 1, 1) / 3, max(x1 - x0 + 1, 1) / 2
        for i, j in np.ndindex(3, 2):
            rows = slice(
                max(y0 + math.floor(i * height), 0), max(y0 + math.ceil((i + 1) * height), 0)
            )
            cols = slice(
                max(x0 + math.floor(j * width), 0), max(x0 + math.ceil((j + 1) * width), 0)
            )
            cell = x[int(sample), :, rows, cols]
            wanted[r, :, i, j] = cell.max((1, 2)) if cell.size else 0
    np.testing.assert_array_equal(made, wanted)


def test_grids_beyond_the_border() -> None:
    """As PyTorch has them: cubic interpolation takes the border's element for each that it lacks,
    and a place that is infinite is outside."""
    x = np.array([1.0, 2, 4, 8]).reshape(1, 1, 1, 4)
    places = [-1.3, 1.1, math.inf]
    grid = np.array([[p, 0] for p in places]).reshape(1, 1, 3, 2)
    cubic = node("GridSample", ["x", "g"], ["y"], mode="cubic", padding_mode="border")
    linear = node("GridSample", ["x", "g"], ["y"], mode="linear")
    # The places are -1.1, whose elements are all the first, and 3.7: the third, thrice the last.
    share = -0.75 * (1.7**3 - 5 * 1.7**2 + 8 * 1.7 - 4)
    wanted = [1, 4 * share + 8 * (1 - share)]
    np.testing.assert_allclose(run([cubic], x=x, g=grid)[0][0, 0, 0, :2], wanted, 1e-12)
    np.testing.assert_allclose(run([linear], x=x, g=grid)[0][0, 0, 0], [0, 8 * 0.3, 0], 1e-12)


@pytest.mark.parametrize("reduction", ["none", "max", "min", "mul"])
def test_whole_numbers_are_scattered_exactly(reduction: str) -> None:
    x = np.array([2**62 + 1, -(2**61) - 1, 3, 7])
    changes, places = np.array([2**60 + 1, 2**55 - 1, -5]), np.array([1, -2, 0])
    scatter = node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction=reduction)
    (made,) = run([scatter], x=x, i=places, u=changes)
    if reduction == "none":
        wanted = x.copy()
        wanted[places] = changes
    else:
        wanted = x.copy()
        fold = {"max": np.maximum, "min": np.minimum, "mul": np.multiply}[reduction]
        with np.errstate(all="ignore"):
            fold.at(wanted, places, changes)
    np.testing.assert_array_equal(made, wanted)


FEATURES = [
    *(node("Normalizer", ["x"], [norm], domain=ML, norm=norm) for norm in ("MAX", "L1", "L2")),
    node("Scaler", ["x"], ["s"], domain=ML, offset=[1.0, 2, 3], scale=[0.5, 1, 2]),
    node("LabelEncoder", ["k"], ["a"], domain=ML, keys_int64s=[1, 2], values_floats=[0.5, 9.0]),
    node("LabelEncoder", ["k"], ["b"], domain=ML, keys_int64s=[2, 3], values_int64s=[2**40, 1]),
]


@pytest.mark.parametrize("feature", FEATURES, ids=lambda n: f"{n.op_type} {n.output[0]}")
def test_features_are_those_of_the_reference(feature: Any) -> None:
    x = np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32)
    x = np.abs(x) if "MAX" in feature.output else x  # of which the reference takes the sizes
    given = {"x": x, "k": np.array([[1, 2], [3, 4]])}
    given = {n: a for n, a in given.items() if n in feature.input}
    (wanted,) = ReferenceEvaluator(graph([feature], given)).run(None, given)
    (made,) = run([feature], **given)
    np.testing.assert_allclose(made, wanted, 1e-6)
    assert made.dtype == wanted.dtype


# --- slopes --------------------------------------------------------------------------------------

_RNG = np.random.default_rng(4)
SLOPES: dict[str, tuple[Any, dict[str, np.ndarray]]] = {
    "GridSample": (
        node("GridSample", ["x", "g"], ["y"], mode="cubic", padding_mode="reflection"),
        {"x": _RNG.normal(size=(1, 2, 4, 3)), "g": _RNG.uniform(-1.2, 1.2, (1, 2, 3, 2))},
    ),
    "DeformConv": (
        node("DeformConv", ["x", "w", "o"], ["y"]),
        {
            "x": _RNG.normal(size=(1, 2, 4, 4)),
            "w": _RNG.normal(size=(3, 2, 2, 2)),
            "o": _RNG.uniform(0.1, 0.4, (1, 8, 3, 3)),
        },
    ),
    "Det": (node("Det", ["x"], ["y"]), {"x": _RNG.normal(size=(2, 3, 3))}),
    "DFT": (node("DFT", ["x"], ["y"], onesided=1), {"x": _RNG.normal(size=(2, 5, 1))}),
    "Atan": (node("Atan", ["x"], ["y"]), {"x": _RNG.normal(size=(7,))}),
    "Asin": (node("Asin", ["x"], ["y"]), {"x": _RNG.uniform(-0.9, 0.9, 7)}),
    "Acos": (node("Acos", ["x"], ["y"]), {"x": _RNG.uniform(-0.9, 0.9, 7)}),
    "ScatterElements of places that differ": (
        node("ScatterElements", ["x", "i", "u"], ["y"]),
        {"x": _RNG.normal(size=(4,)), "u": _RNG.normal(size=(3,))},
    ),
    "ScatterElements": (
        node("ScatterElements", ["x", "i", "u"], ["y"], reduction="max"),
        {"x": _RNG.normal(size=(4,)), "u": _RNG.normal(size=(3,))},
    ),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_are_central_differences(name: str) -> None:
    operator, given = SLOPES[name]
    fixed = {"i": np.array([1, 3, 0 if "differ" in name else 1])}
    fixed = {n: a for n, a in fixed.items() if n in operator.input}
    nodes = [
        operator,
        node("Mul", ["y", "y"], ["squares"]),
        node("ReduceSum", ["squares"], ["total"], keepdims=0),
    ]
    call = compiled(nodes, fixed, given, gradients=[*given])
    made = call(**given)
    for one, array in given.items():
        way = np.random.default_rng(5).normal(size=array.shape)
        sides = [call(**{**given, one: array + s * way})["total"] for s in (1e-5, -1e-5)]
        slope = np.sum(made[f"gradient.{one}"] * way)
        assert slope == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-6), one


# --- wrong uses ----------------------------------------------------------------------------------

X = np.zeros((2, 4, 5, 5), np.float32)
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (node("GridSample", ["x", "g"], ["y"]), {"x": X, "g": X[..., :3]}, "places on 2 axes"),
    (node("GridSample", ["x", "g"], ["y"], mode="odd"), {"x": X, "g": X[..., :2]}, "the mode odd"),
    (node("DeformConv", ["x", "w", "o"], ["y"]), {"x": X, "w": X, "o": X}, "requires 50 offsets"),
    (
        node("RoiAlign", ["x", "r", "b"], ["y"]),
        {"x": X, "r": X[:, :, 0, 0], "b": np.zeros(2, np.int64)},
        "sampling_ratio=0",
    ),
    (node("DFT", ["x"], ["y"]), {"x": X}, "real or complex numbers along the last axis"),
    (node("Det", ["x"], ["y"]), {"x": X[..., :3]}, "requires square matrices"),
    (
        node("TensorScatter", ["x", "u"], ["y"]),
        {"x": X[:, :, :2], "u": X},
        "an update of at most 2 along axis 2, got 5",
    ),
    (node("NonZero", ["x"], ["y"]), {"x": X}, "the array of NonZero has to be known"),
    (node("BitShift", ["x", "x"], ["y"], direction="LEFT"), {"x": X}, "elements of i32, i64"),
    (node("ImageDecoder", ["x"], ["y"]), {"x": X}, "not known here: ImageDecoder"),
    (node("BitCast", ["x"], ["y"], to=TensorProto.DOUBLE), {"x": X}, "a type of as many bits"),
]


@pytest.mark.parametrize(
    ("operator", "given", "message"), WRONG, ids=lambda v: getattr(v, "op_type", "")
)
def test_wrong_uses_say_what_is_required(
    operator: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(gc.GraphcError, match=message):
        run([operator], **given)
