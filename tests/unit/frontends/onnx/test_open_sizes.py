"""Operators over sizes that calls decide: one compilation, at several, judged by ONNX itself."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import graphc as gc
from graphc_frontends.onnx.model import GivenDims, program_of
from tests.support.compiling import JUDGED, RUN_HERE
from tests.support.onnx_models import model as small_model

ML = "ai.onnx.ml"
GRAMS = {
    "ngram_counts": [0, 3],
    "ngram_indexes": [0, 1, 2, 3, 4],
    "pool_int64s": [1, 2, 3, 1, 2, 2, 3],
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 1,
    "mode": "TF",
}

node = helper.make_node
GRID = ["images", "grid"]
NODES = [
    *(
        node("GridSample", GRID, [f"{mode}.{padding}"], mode=mode, padding_mode=padding)
        for mode in ("linear", "cubic", "nearest")
        for padding in ("zeros", "border", "reflection")
        if (mode, padding) != ("cubic", "border")  # of which ONNX's reference has its own idea
    ),
    node("GridSample", GRID, ["aligned"], align_corners=1, padding_mode="reflection"),
    node(
        "DeformConv",
        ["images", "weights", "offsets", "bias", "mask"],
        ["deformed"],
        pads=[1, 0, 1, 1],
        strides=[2, 1],
        dilations=[1, 2],
        group=2,
        offset_group=2,
    ),
    node(
        "RoiAlign",
        ["images", "regions", "numbers"],
        ["means"],
        output_height=2,
        output_width=3,
        sampling_ratio=2,
        spatial_scale=0.5,
    ),
    node("Col2Im", ["columns", "extents", "block"], ["image"], strides=[2, 1], pads=[0, 1, 1, 0]),
    node("DFT", ["wave"], ["halves"], onesided=1),
    node("DFT", ["halves", "", "middle"], ["back"], onesided=1, inverse=1),
    node("DFT", ["halves", "nine", "middle"], ["longer"]),
    node("STFT", ["wave", "three", "window"], ["frames"]),
    node("Det", ["matrices"], ["determinants"]),
    node("TensorScatter", ["cache", "update", "starts"], ["written"], axis=1, mode="circular"),
    node("TfIdfVectorizer", ["words"], ["counts"], **GRAMS),
    node("BitwiseXor", ["words", "numbers2"], ["mixed"]),
    node("BitShift", ["words", "two"], ["shifted"], direction="LEFT"),
    node("Asin", ["flat"], ["asin"]),
    node("Acos", ["flat"], ["acos"]),
    node("Atan", ["flat"], ["atan"]),
    node("ArrayFeatureExtractor", ["flat", "places"], ["features"], domain=ML),
    node("Binarizer", ["flat"], ["binary"], domain=ML, threshold=0.25),
    node("Shape", ["flat"], ["shape"], end=1),
    node("Squeeze", ["shape"], ["count"]),
    node("Range", ["zero", "count", "two"], ["every second"]),
]  # fmt: skip
FIXED = {
    "weights": np.random.default_rng(1).normal(size=(4, 1, 3, 2)).astype(np.float32),
    "bias": np.arange(4, dtype=np.float32),
    "extents": np.array([6, 4]),
    "block": np.array([3, 2]),
    "nine": np.array(9),
    "middle": np.array(1),
    "three": np.array(3),
    "two": np.array(2),
    "zero": np.array(0),
    "window": np.hanning(5).astype(np.float32),
    "places": np.array([[2, 0]]),
}
SHAPES: dict[str, tuple[int, ...]] = {
    "images": (2, 6, 5),
    "grid": (3, 4, 2),
    "offsets": (2 * 6 * 2, 3, 4),
    "mask": (2 * 6, 3, 4),
    "regions": (4,),
    "numbers": (),
    "columns": (12, 12),
    "wave": (11, 1),
    "matrices": (4, 4),
    "cache": (6, 2),
    "update": (4, 2),
    "starts": (),
    "words": (7,),
    "numbers2": (7,),
    "flat": (5,),
}
WHOLE = ("numbers", "starts", "words", "numbers2")


def arrays(samples: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(samples)
    made = {n: rng.normal(size=(samples, *s)).astype(np.float32) for n, s in SHAPES.items()}
    made |= {n: rng.integers(1, 6, (samples, *SHAPES[n])) for n in WHOLE}
    made["numbers"] = rng.integers(0, samples, samples) if samples else made["numbers"]
    made["grid"] *= 1.2
    made["flat"] = np.clip(made["flat"] / 2, -1, 1)
    sizes = np.abs(made["regions"]) * 3
    made["regions"] = np.concatenate([sizes[:, :2], sizes[:, :2] + sizes[:, 2:]], 1)
    return made


def model(values: dict[str, np.ndarray]) -> ModelProto:
    def port(name: str, array: np.ndarray) -> ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, ["samples", *array.shape[1:]])

    outputs = [name for n in NODES for name in n.output]
    graph = helper.make_graph(
        NODES,
        "graph",
        [port(n, a) for n, a in values.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in FIXED.items()],
    )
    sets = [helper.make_opsetid("", 28), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=sets)


@pytest.mark.parametrize("backend", [b for b in RUN_HERE if b != "c"])
def test_one_compilation_is_right_at_every_size(backend: str) -> None:
    made = model(arrays(3))
    call = gc.compile(program_of(made, "x.onnx", GivenDims({"samples": 8})), backend=backend)
    judge = ReferenceEvaluator(made)
    for samples in (1, 3, 8):
        given = arrays(samples)
        found, wanted = call(**given), judge.run(None, given)
        for (name, got), good in zip(found.items(), wanted, strict=True):
            assert got.shape == good.shape, name
            np.testing.assert_allclose(got, good, 1e-4, 2e-5, err_msg=f"{name} of {samples}")
    nothing = call(**arrays(0))
    assert [name for name, v in nothing.items() if v.size] == ["shape", "count"]


GRIDS = (
    *(("linear", padding, 0) for padding in ("zeros", "border", "reflection")),
    *(("linear", "reflection", 1), ("cubic", "zeros", 1), ("nearest", "border", 0)),
)


@pytest.mark.parametrize("backend", JUDGED)
def test_a_grid_over_images_of_any_size(backend: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    nodes = [
        node("GridSample", ["x", "grid"], [f"y{i}"], mode=m, padding_mode=p, align_corners=a)
        for i, (m, p, a) in enumerate(GRIDS)
    ]
    shapes = {"x": ["n", 2, "h", "w"], "grid": ["n", "a", "b", 2]}
    outputs = [f"y{i}" for i in range(len(GRIDS))]
    made = small_model(nodes, shapes, outputs, opset=20, ir_version=10)
    judge = runtime.InferenceSession(made.SerializeToString())
    bounds = {"h": 6, "w": 7, "a": 4, "b": 5}
    call = gc.compile(program_of(made, "x.onnx", GivenDims(bounds)), backend=backend)
    for n, h, w, a, b in ((2, 6, 7, 3, 4), (1, 1, 2, 2, 2), (3, 4, 1, 4, 5), (1, 3, 3, 0, 2)):
        rng = np.random.default_rng(h)
        x, grid = rng.normal(size=(n, 2, h, w)), rng.normal(size=(n, a, b, 2)) * 1.2
        given = {"x": x.astype(np.float32), "grid": grid.astype(np.float32)}
        for got, good in zip(call(**given).values(), judge.run(None, given), strict=True):
            np.testing.assert_allclose(got, good, 1e-4, 1e-5, err_msg=f"{h, w, a, b}")
