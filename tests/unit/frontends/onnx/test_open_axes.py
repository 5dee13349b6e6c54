"""Operators that move, choose and put elements along axes whose sizes calls decide: one compilation
at several sizes, none at all among them, with gradients, judged by ONNX's own evaluator."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import graphc as gc
from graphc_frontends.onnx.model import GivenDims, program_of
from tests.support.compiling import JUDGED, RUN_HERE

node = helper.make_node
FIXED = {
    "zero": np.array(0),
    "one": np.array(1),
    "two": np.array(2),
    "minus two": np.array(-2),
    "zeros": np.array([0]),
    "ones": np.array([1]),
    "threes": np.array([3]),
    "twos": np.array([2]),
    "fives": np.array([5]),
    "minus": np.array([-1]),
    "minus seven": np.array([-7]),
    "halves": np.array([2, 4]),
    "numbers": np.arange(40).reshape(1, 40),
    "places": np.array([[1, 0], [-1, 2], [0, 1]]),
    "first": np.array([[0, -1], [1, 0]]),
    "picked": np.array([0, -1, 1]),
    "around": np.array([0, 1, 0, 0, 2, 0]),
    "twice": np.array([2.0], np.float32),
}


def sizes_of_x() -> list[Any]:
    """Nodes that give n and t, the sizes of x, as vectors and as numbers."""
    return [
        node("Shape", ["x"], ["n"], end=1),
        node("Shape", ["x"], ["t"], start=1, end=2),
        node("Squeeze", ["t", "zeros"], ["t number"]),
        node("Squeeze", ["n", "zeros"], ["n number"]),
    ]


def rolled(name: str, place: str) -> list[Any]:
    """`torch.roll` along t: what begins at a place that the call computes, and what is before."""
    before, behind = PART + name, PART + name + " behind"
    return [
        node("Slice", ["x", "zeros", place, "ones"], [before]),
        node("Slice", ["x", place, "t", "ones"], [behind]),
        node("Concat", [behind, before], [name], axis=1),
    ]


PART = "part of "
"""What the names begin with of values that are no outputs."""
NODES = [
    *sizes_of_x(),
    node("Split", ["x", "halves"], ["split.0", "split.1"], axis=2),
    node("Slice", ["numbers", "zeros", "t", "ones"], ["positions"]),
    node("Gather", ["x", "picked"], ["gathered"], axis=1),
    node("MatMul", ["x", "x^T"], ["square"]),
    node("Trilu", ["square"], ["triu"], upper=1),
    node("Trilu", ["square", "two"], ["triu 2"], upper=1),
    node("Trilu", ["square", "minus two"], ["tril -2"], upper=0),
    node("Trilu", ["square", "t number"], ["tril t"], upper=0),
    node("GatherND", ["x", "places"], ["nd"]),
    node("GatherND", ["x", "rows"], ["nd of each"], batch_dims=1),
    node("ScatterND", ["x", "places", "changes"], ["put"]),
    node("ScatterND", ["x", "places", "changes"], ["added"], reduction="add"),
    node("ScatterND", ["x", "places", "changes"], ["largest"], reduction="max"),
    node("ScatterElements", ["x", "few", "some"], ["elements"], axis=1),
    node("ScatterElements", ["x", "few", "some"], ["more"], axis=1, reduction="mul"),
    node("ArgMax", ["x"], ["argmax"], axis=1),
    node("ArgMin", ["x"], ["argmin"], axis=1, keepdims=0, select_last_index=1),
    node("Hardmax", ["x"], ["hardmax"], axis=1),
    node("TopK", ["x", "threes"], ["largest three", "their places"], axis=1),
    node("TopK", ["x", "twos"], ["smallest two", "places of these"], axis=1, largest=0),
    node("Mul", ["t number", "t number"], ["t squared"]),
    node("Range", ["t number", "t squared", "two"], ["from t on"]),
    node("Concat", ["n", "ones", "t"], ["by sizes"], axis=0),
    node("Unsqueeze", ["picked", "halves 2"], ["column"]),
    node("Tile", ["column", "by sizes"], ["tiled"]),
    node("Concat", ["twos", "t", "ones"], ["by t"], axis=0),
    node("Tile", ["x", "by t"], ["tiled x"]),
    node("Concat", ["t", "threes"], ["target"], axis=0),
    node("Expand", ["picked", "target"], ["expanded"]),
    *(node("Pad", ["x", "around"], [mode], mode=mode) for mode in ("reflect", "edge", "wrap")),
    node("Mod", ["t", "fives"], ["rest"]),
    node("Sub", ["fives", "rest"], ["missing"]),
    node("Concat", ["zeros", "zeros", "zeros", "zeros", "missing", "zeros"], ["widths"], axis=0),
    node("Pad", ["x", "widths"], ["filled up"]),
    node("Mul", ["n", "t"], ["total"]),
    node("Div", ["total", "n"], ["quotient"]),
    node("Div", ["t", "n"], ["of two sizes"]),
    node("Mod", ["fives", "t"], ["rest of five"]),
    node("Mod", ["minus seven", "t"], ["place"]),
    node("Sub", ["ones", "place"], ["from the end"]),
    *rolled("rolled", "place"),
    *rolled("rolled back", "from the end"),
    node("MaxPool", ["x"], ["pool"], kernel_shape=[3], strides=[2], ceil_mode=1),
    node("AveragePool", ["x"], ["mean"], kernel_shape=[3], pads=[1, 1]),
    node("AveragePool", ["x"], ["mean 2"], kernel_shape=[3], strides=[2], ceil_mode=1),
    node("Resize", ["x", "", "twice"], ["linear"], mode="linear", axes=[1]),
    node("Resize", ["x", "", "twice"], ["cubic"], mode="cubic", axes=[1]),
]  # fmt: skip
FIXED["halves 2"] = np.array([1, 2])
SHAPES: dict[str, list[Any]] = {
    "x": ["n", "t", 6],
    "x^T": ["n", 6, "t"],
    "changes": [3, 6],
    "rows": ["n", 2],
    "few": ["n", 2, 4],
    "some": ["n", 2, 4],
}
PLACES = dict.fromkeys(("rows", "few"), int(TensorProto.INT64))
FLOATS = [name for name in SHAPES if name not in PLACES]
SIZES = ((2, 5), (3, 4), (4, 9))


def arrays(n: int, t: int, dtype: str = "f4") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n * 100 + t)
    x = rng.normal(size=(n, t, 6)).astype(dtype)
    few = np.array([[rng.permutation(max(t, 2))[:2] for _ in range(4)] for _ in range(n)], int)
    return {
        "x": x,
        "x^T": np.ascontiguousarray(x.transpose(0, 2, 1)),
        "changes": rng.normal(size=(3, 6)).astype(dtype),
        "rows": np.stack([np.arange(n) % max(t, 1), np.arange(n) % 6], -1),
        "few": few.reshape(n, 4, 2).transpose(0, 2, 1).copy(),
        "some": rng.normal(size=(n, 2, 4)).astype(dtype),
    }


def model(
    nodes: list[Any],
    shapes: dict[str, list[Any]],
    kinds: dict[str, int],
    fixed: dict[str, np.ndarray] | None = None,
) -> ModelProto:
    def port(name: str, shape: list[Any] | None) -> Any:
        return helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)

    outputs = [name for n in nodes for name in n.output if not name.startswith(PART)]
    graph = helper.make_graph(
        nodes,
        "graph",
        [port(n, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (fixed or FIXED).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def judged(
    made: ModelProto, call: Any, given: dict[str, np.ndarray], tolerance: float = 1e-5
) -> None:
    agree(call(**given), ReferenceEvaluator(made).run(None, given), tolerance)


def agree(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    for (name, got), good in zip(found.items(), wanted, strict=True):
        assert got.shape == np.shape(good), name
        np.testing.assert_allclose(got, good, 10 * tolerance, tolerance, err_msg=name)


@pytest.mark.parametrize("backend", RUN_HERE)
def test_one_compilation_is_right_at_every_size(backend: str) -> None:
    made = model(NODES, SHAPES, PLACES)
    program = program_of(made, "x.onnx", GivenDims({"n": 4, "t": 9}))
    call = gc.compile(program, backend=backend)
    for n, t in SIZES:
        judged(made, call, arrays(n, t))


OUTSIDE = {"nd", "nd of each", "put", "added", "largest"}
"""What reads or changes places that are not there, where an axis has no element."""
RATIOS = {"quotient", "of two sizes"}
RESTS = {"rest of five", "place", "from the end", "rolled", "rolled back"}
NONE_TO_CHOOSE = {
    *("argmax", "argmin", "reflect", "edge", "wrap", "pool", "mean", "mean 2"),
    *("largest three", "their places", "smallest two", "places of these"),
}
RESIZED = {"linear", "cubic"}
UNSAID = {
    (0, 5): OUTSIDE | RATIOS | RESIZED,
    (2, 0): OUTSIDE | RESTS | NONE_TO_CHOOSE | RESIZED | {"gathered", "elements", "more"},
    (0, 0): OUTSIDE | RESTS | NONE_TO_CHOOSE | RESIZED | RATIOS,
}
"""Values that ONNX's evaluator does not give, or graphc refuses, at these sizes."""


@pytest.mark.parametrize("backend", RUN_HERE)
@pytest.mark.parametrize("size", UNSAID)
def test_an_axis_without_an_element(size: tuple[int, int], backend: str) -> None:
    outputs = [o for n in NODES for o in n.output if o not in UNSAID[size]]
    nodes = [n for n in NODES if not UNSAID[size].intersection((*n.input, *n.output))]
    made = model(nodes, SHAPES, PLACES)
    call = gc.compile(program_of(made, "x.onnx", GivenDims({"n": 4, "t": 9})), backend=backend)
    assert [o for o in outputs if not o.startswith(PART)] == [o.name for o in made.graph.output]
    judged(made, call, arrays(*size))


def of_squares(names: list[str]) -> list[Any]:
    """Nodes that give the sum of all elements' squares."""
    rows = [PART + name + " flat" for name in names]
    flat = [node("Flatten", [n], [row], axis=0) for n, row in zip(names, rows, strict=True)]
    joined = node("Concat", rows, [PART + "all"], axis=1)
    return [*flat, joined, node("ReduceSumSquare", [PART + "all"], ["loss"], keepdims=0)]


@pytest.mark.parametrize("backend", JUDGED)
def test_f64_and_its_gradients(backend: str) -> None:
    """Against differences along a random way. Sizes and places have none."""
    kinds = {**dict.fromkeys(FLOATS, int(TensorProto.DOUBLE)), **PLACES}
    values = ReferenceEvaluator(model(NODES, SHAPES, kinds)).run(None, arrays(3, 4, "f8"))
    outputs = [o for n in NODES for o in n.output if not o.startswith(PART)]
    floats = [o for o, v in zip(outputs, values, strict=True) if np.asarray(v).dtype == float]
    assert len(floats) > 25
    made = model([*NODES, *of_squares(floats)], SHAPES, kinds)
    program = program_of(made, "x.onnx", GivenDims({"n": 4, "t": 9}))
    call = gc.compile(program, backend=backend)
    slopes = gc.compile(program, "loss", gradients=FLOATS, backend=backend)
    judge = ReferenceEvaluator(made)
    for n, t in ((3, 4), (4, 9)):
        given = arrays(n, t, "f8")
        judged(made, call, given, 1e-12)
        found, rng = slopes(**given), np.random.default_rng(n)
        for name in FLOATS:
            way = 1e-5 * rng.normal(size=given[name].shape)
            ends = [judge.run(["loss"], {**given, name: given[name] + s})[0] for s in (way, -way)]
            along = (found[f"gradient.{name}"] * way).sum()
            np.testing.assert_allclose(2 * along, ends[0] - ends[1], 1e-6, err_msg=name)
    nothing = slopes(**arrays(0, 5, "f8"))
    assert nothing["loss"] == 0
    assert [nothing[f"gradient.{name}"].any() for name in FLOATS] == [False] * len(FLOATS)


@pytest.mark.parametrize(
    "reader",
    [
        node("Neg", [PART + "x"], ["y"]),
        node("Concat", [PART + "x", "x"], ["y"], axis=1),
        node("Concat", [PART + "x", PART + "x behind"], ["y"], axis=1),
        node("Concat", [PART + "x behind", PART + "x"], ["y"], axis=0),
        node("Identity", ["x"], ["y"]),
    ],
    ids=lambda n: f"{n.op_type} {n.input}",
)
def test_a_part_is_of_no_size_that_can_be_said(reader: Any) -> None:
    nodes = [*sizes_of_x(), node("Mod", ["minus seven", "t"], ["place"]), *rolled("x", "place")]
    made = model([*nodes[:-1], reader], {"x": ["n", "t", 6]}, {})
    if reader.op_type == "Identity":
        made.graph.output[-1].name = PART + "x"
    with pytest.raises(gc.GraphcError, match="a Slice up to or from a place that each call") as e:
        program_of(made, "x.onnx", GivenDims({"t": 9}))
    assert [d.slug for d in e.value.diagnostics] == ["not-supported"]


# --- Resize --------------------------------------------------------------------------------------

MODES = [
    *(
        {"mode": mode, "coordinate_transformation_mode": how}
        for mode in ("linear", "cubic")
        for how in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    ),
    *(
        {"mode": "nearest", "coordinate_transformation_mode": how, "nearest_mode": rounding}
        for how in ("asymmetric", "half_pixel")
        for rounding in ("floor", "round_prefer_floor", "ceil", "round_prefer_ceil")
    ),
    {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
    {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
]
"""Where one element is left, ONNX's evaluator has its own idea of `pytorch_half_pixel`."""
SCALES = {"twice": [2.0, 3.0], "part": [1.5, 0.5]}


def resizes() -> list[Any]:
    """Each mode by scales, and to the sizes of another input."""
    nodes = [node("Shape", ["like"], ["wanted"], start=2)]
    for i, mode in enumerate(MODES):
        for name in SCALES:
            nodes.append(node("Resize", ["x", "", name], [f"{name}.{i}"], axes=[2, 3], **mode))
        sizes = [f"sizes.{i}"]
        nodes.append(node("Resize", ["x", "", "", "wanted"], sizes, axes=[2, 3], **mode))
    by_half = {"mode": "linear", "antialias": 1}
    nodes.append(node("Resize", ["x", "", "half"], ["smooth"], axes=[2, 3], **by_half))
    return nodes


@cache
def resized() -> tuple[ModelProto, list[tuple[dict[str, np.ndarray], Any]]]:
    """The model, and what it is given and gives at three sizes; the judge takes seconds."""
    scales = {n: np.array(s, np.float32) for n, s in {**SCALES, "half": [0.5, 0.5]}.items()}
    shapes: dict[str, list[Any]] = {"x": ["n", 2, "h", "w"], "like": ["n", 1, "a", "b"]}
    made = model(resizes(), shapes, {}, scales)
    judge, rng = ReferenceEvaluator(made), np.random.default_rng(0)
    cases: list[tuple[dict[str, np.ndarray], Any]] = []
    for n, h, w, a, b in ((1, 2, 4, 3, 2), (2, 6, 8, 9, 7), (1, 5, 4, 2, 4)):
        given = {
            "x": rng.normal(size=(n, 2, h, w)).astype(np.float32),
            "like": np.zeros((n, 1, a, b), np.float32),
        }
        cases.append((given, judge.run(None, given)))
    return made, cases


@pytest.mark.parametrize("backend", RUN_HERE)
def test_resize(backend: str) -> None:
    made, cases = resized()
    bounds = {"n": 2, "h": 6, "w": 8, "a": 9, "b": 7}
    call = gc.compile(program_of(made, "x.onnx", GivenDims(bounds)), backend=backend)
    for given, wanted in cases:
        agree(call(**given), wanted)
    nothing = call(x=np.ones((2, 2, 0, 4), "f4"), like=np.ones((2, 1, 0, 7), "f4"))
    sizes = {"twice": (0, 12), "part": (0, 2), "sizes": (0, 7), "smooth": (0, 2)}
    for name in nothing.keys() - {"wanted"}:
        assert nothing[name].shape == (2, 2, *sizes[name.split(".")[0]])


def test_a_scale_that_is_no_ratio() -> None:
    scale = {"scale": np.array([1, 1.23456], np.float32)}
    made = model([node("Resize", ["x", "", "scale"], ["y"])], {"x": ["n", "h"]}, {}, scale)
    with pytest.raises(gc.GraphcError, match=r"the scale 1.2345.* over an axis of the size H"):
        program_of(made, "x.onnx", GivenDims({"h": 8}))


# --- windows --------------------------------------------------------------------------------------


def windows() -> list[Any]:
    """Padding that follows from the sizes."""
    apart = {"strides": [2, 3], "kernel_shape": [3, 3]}
    return [
        node("Conv", ["x", "w"], [f"conv {how}"], auto_pad=how, **apart)
        for how in ("SAME_UPPER", "SAME_LOWER")
    ] + [
        node("Conv", ["x", "v"], ["depthwise"], auto_pad="SAME_UPPER", group=2, **apart),
        node("MaxPool", ["x"], ["most"], auto_pad="SAME_UPPER", **apart),
        node("AveragePool", ["x"], ["mean"], auto_pad="SAME_LOWER", **apart),
    ]


@pytest.mark.parametrize("backend", RUN_HERE)
def test_padding_for_as_many_windows_as_strides(backend: str) -> None:
    rng = np.random.default_rng(0)
    weights = {"w": (3, 2, 3, 3), "v": (2, 1, 3, 3)}
    made = {n: rng.normal(size=s).astype(np.float32) for n, s in weights.items()}
    shapes: dict[str, list[Any]] = {"x": ["n", 2, "h", "w"]}
    program = program_of(
        model(windows(), shapes, {}, made), "x.onnx", GivenDims({"n": 2, "h": 9, "w": 8})
    )
    call = gc.compile(program, backend=backend)
    for n, h, w in ((1, 1, 1), (2, 9, 8), (1, 4, 6), (2, 5, 7)):
        x = rng.normal(size=(n, 2, h, w)).astype(np.float32)
        fixed = model(windows(), {"x": [n, 2, h, w]}, {}, made)
        wanted = gc.compile(program_of(fixed, "x.onnx"), backend="reference")(x=x)
        for name, got in call(x=x).items():
            np.testing.assert_allclose(got, wanted[name], 1e-4, 1e-5, err_msg=f"{name} {h} {w}")


# --- whether a size is a number ------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 3, -1])
def test_an_if_on_a_size_is_decided_by_each_call(number: int) -> None:
    def branch(name: str) -> Any:
        output = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
        return helper.make_graph([node(name, ["x"], ["b"])], "b", [], [output])

    nodes = [
        node("Shape", ["x"], ["n"], end=1),
        node("Constant", [], ["number"], value_ints=[number]),
        node("Equal", ["n", "number"], ["is it"]),
        node("Squeeze", ["is it", "zeros"], ["condition"]),
        node("If", ["condition"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs")),
    ]
    made = model(nodes, {"x": ["n", 2]}, {})
    del made.graph.output[:4]
    call = gc.compile(program_of(made, "x.onnx"))
    for n in (1, 2, 3):
        judged(made, call, {"x": np.random.default_rng(n).normal(size=(n, 2)).astype(np.float32)})
