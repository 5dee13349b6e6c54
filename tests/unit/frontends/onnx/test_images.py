"""Convolutions, poolings and normalisation of ONNX files, as networks use them: judged by the
package's own evaluator, at several numbers of samples by one compilation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import helper
from onnx.reference import ReferenceEvaluator

import graphc as gc
from graphc.driver import pipelines
from graphc.driver.options import CompileOptions
from graphc.driver.program import lower_program, optimised, tensor_passes
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.onnx_models import model, saved

NODE = helper.make_node
RANDOM = np.random.default_rng(11)


def weights(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32) / 3


NETWORKS: dict[str, Any] = {
    "conv": (
        [
            NODE("Conv", ["x", "w", "b"], ["c"], strides=[2, 1], pads=[1, 0, 1, 2]),
            NODE("Relu", ["c"], ["y"]),
        ],
        {"w": weights(5, 4, 3, 3), "b": weights(5)},
    ),
    "groups": (
        [NODE("Conv", ["x", "w"], ["y"], group=2, pads=[1, 1, 1, 1])],
        {"w": weights(6, 2, 3, 3)},
    ),
    "depthwise": (
        [NODE("Conv", ["x", "w"], ["y"], group=4, pads=[1, 1, 1, 1], strides=[2, 2])],
        {"w": weights(4, 1, 3, 3)},
    ),
    "dilations": (
        [NODE("Conv", ["x", "w"], ["y"], dilations=[2, 3])],
        {"w": weights(3, 4, 3, 2)},
    ),
    "transposed": (
        [NODE("ConvTranspose", ["x", "w"], ["y"], strides=[2, 3], pads=[1, 0, 0, 1])],
        {"w": weights(4, 3, 3, 4)},
    ),
    "depthwise, several features of a channel": (
        [NODE("Conv", ["x", "w"], ["y"], group=4, dilations=[2, 1], strides=[1, 2])],
        {"w": weights(8, 1, 3, 2)},
    ),
    "dilations that divide nothing, padded": (
        [NODE("Conv", ["x", "w", "b"], ["y"], dilations=[2, 3], pads=[1, 0, 2, 4])],
        {"w": weights(5, 4, 3, 2), "b": weights(5)},
    ),
    "dilations and strides": (
        [NODE("Conv", ["x", "w"], ["y"], dilations=[2, 3], strides=[2, 1], group=2)],
        {"w": weights(6, 2, 3, 2)},
    ),
    "transposed with dilations": (
        [NODE("ConvTranspose", ["x", "w"], ["y"], strides=[2, 1], dilations=[1, 2])],
        {"w": weights(4, 3, 3, 2)},
    ),
    "transposed, depthwise": (
        [NODE("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1], group=4)],
        {"w": weights(4, 1, 4, 4)},
    ),
    "dilations and strides without a common factor": (
        [NODE("Conv", ["x", "w"], ["y"], dilations=[2, 3], strides=[3, 2], pads=[3, 3, 2, 4])],
        {"w": weights(3, 4, 3, 3)},
    ),
    "dilations and strides with one": (
        [NODE("Conv", ["x", "w"], ["y"], dilations=[2, 2], strides=[2, 4], pads=[1, 2, 2, 1])],
        {"w": weights(3, 4, 3, 2)},
    ),
    "transposed with dilations and strides": (
        [
            NODE(
                *("ConvTranspose", ["x", "w"], ["y"]),
                strides=[3, 4],
                dilations=[2, 6],
                pads=[0, 1, 2, 0],
                output_padding=[1, 2],
            )
        ],
        {"w": weights(4, 3, 2, 3)},
    ),
    "pools": (
        [
            NODE("MaxPool", ["x"], ["m"], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
            NODE("AveragePool", ["m"], ["a"], kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
            NODE("GlobalAveragePool", ["a"], ["y"]),
        ],
        {},
    ),
    "normalised": (
        [
            NODE("Conv", ["x", "w"], ["c"]),
            NODE("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], epsilon=1e-3),
            NODE("InstanceNormalization", ["n", "s", "b"], ["y"]),
        ],
        {
            "w": weights(5, 4, 3, 3),
            **{n: weights(5) for n in "sbm"},
            "v": weights(5) ** 2,
        },
    ),
    "resized": (
        [NODE("Resize", ["x", "", "k"], ["y"], mode="linear")],
        {"k": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "resized by a scale that keeps the size": (
        [NODE("Resize", ["x", "", "k"], ["y"], mode="linear")],
        {"k": np.array([1, 1, 1.1, 0.6], np.float32)},
    ),
}


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("name", NETWORKS)
def test_one_compilation_is_right_for_any_number_of_samples(
    name: str, backend: str, tmp_path: Path
) -> None:
    nodes, arrays = NETWORKS[name]
    path = saved(model(nodes, {"x": ["batch", 4, 9, 8]}, ["y"], arrays, opset=18), tmp_path)
    call = gc.compile(gc.load_program(path, bounds={"batch": 3}), backend=backend)
    judge = ReferenceEvaluator(str(path))
    for samples in (1, 3, 2):
        x = RANDOM.normal(size=(samples, 4, 9, 8)).astype(np.float32)
        np.testing.assert_allclose(call(x=x)["y"], judge.run(None, {"x": x})[0], 1e-4, 1e-5)


@pytest.mark.parametrize("backend", ["numpy", "llvm", "c"])
def test_normalisation_is_in_the_weights_of_every_kind_of_convolution(
    backend: str, tmp_path: Path
) -> None:
    def normalised(x: str, y: str) -> Any:
        return NODE("BatchNormalization", [x, "s", "b", "m", "v"], [y])

    nodes = [
        NODE("Conv", ["x", "w", "b"], ["a0"], pads=[1, 1, 1, 1]),
        *(normalised("a0", "n0"), NODE("Relu", ["n0"], ["r"])),
        *(NODE("Conv", ["r", "one"], ["a1"], group=4), normalised("a1", "n1")),
        *(NODE("Conv", ["n1", "two"], ["a2"], group=2), normalised("a2", "n2")),
        *(NODE("ConvTranspose", ["n2", "w"], ["a3"], pads=[1, 0, 0, 1]), normalised("a3", "y")),
    ]
    vectors: dict[str, np.ndarray] = {**{n: weights(4) for n in "sbm"}, "v": weights(4).clip(0.1)}
    arrays = {"w": weights(4, 4, 3, 3), "one": weights(4, 1, 3, 2), "two": weights(4, 2, 2, 3)}
    made = model(nodes, {"x": ["batch", 4, 9, 8]}, ["y"], {**arrays, **vectors}, opset=18)
    path = saved(made, tmp_path)
    program = gc.load_program(path, bounds={"batch": 3})
    call = gc.compile(program, backend=backend, freeze=True)
    x = RANDOM.normal(size=(3, 4, 9, 8)).astype(np.float32)
    wanted = ReferenceEvaluator(str(path)).run(None, {"x": x})[0]
    limit = 1e-5 * np.abs(wanted).max()
    np.testing.assert_allclose(call(x=x)["y"], wanted, 1e-4, limit)
    passes = tensor_passes(program, CompileOptions("reference", freeze=True))
    lowered = lower_program(program, CompileOptions("reference"), passes)
    assert not any(op.opdef.name in ("mul", "div") for op in lowered.function.block)


def _block(inputs: str, name: str, outputs: str) -> list[Any]:
    """Depthwise, pointwise, a branch that is added, all with channels first."""
    return [
        NODE("Conv", [inputs, "d"], [f"{name}d"], group=8, pads=[1, 1, 1, 1]),
        NODE("Clip", [f"{name}d", "zero", "six"], [f"{name}c"]),
        NODE("Conv", [f"{name}c", "p", "b"], [f"{name}p"]),
        NODE("Add", [f"{name}p", inputs], [f"{name}a"]),
        NODE("Relu", [f"{name}a"], [outputs]),
    ]


def test_images_with_channels_first_are_transposed_at_the_ends_alone(tmp_path: Path) -> None:
    nodes = [
        *_block("x", "first", "u"),
        NODE("MaxPool", ["u"], ["v"], kernel_shape=[2, 2], strides=[2, 2]),
        *_block("v", "second", "z"),
        NODE("Concat", ["z", "v"], ["j"], axis=1),
        NODE("ConvTranspose", ["j", "t"], ["k"], strides=[2, 2]),
        NODE("Conv", ["k", "g"], ["l"], dilations=[2, 2], pads=[2, 2, 2, 2]),
        NODE("GlobalAveragePool", ["l"], ["y"]),
    ]
    arrays = {
        "d": weights(8, 1, 3, 3),
        "p": weights(8, 8, 1, 1),
        "b": weights(8),
        "t": weights(16, 8, 2, 2),
        "g": weights(8, 8, 3, 3),
        "zero": np.float32(0),
        "six": np.float32(6),
    }
    path = saved(model(nodes, {"x": [2, 8, 12, 16]}, ["y"], arrays, opset=17), tmp_path)
    program = gc.load_program(path)
    x = RANDOM.normal(size=(2, 8, 12, 16)).astype(np.float32)
    (expected,) = ReferenceEvaluator(str(path)).run(None, {"x": x})
    for backend in ("llvm", "c"):
        made = gc.compile(program, freeze=True, backend=backend)(x=x)["y"]
        np.testing.assert_allclose(made, expected, 1e-4, 1e-5)
    module = optimised(program, CompileOptions())
    moved = [
        op.operands[0]
        for op in module.functions[0].block
        if op.opdef.name == "transpose" and op.operands[0].tensor.bound_elements > 8 * 8 * 9
    ]
    # The input, and the images that gaps in windows need, there and back.
    assert len(moved) == 3
    assert moved[0].op is None
    PassManager(pipeline(pipelines.FUSED)).run(module, default_context())
    names = {op.opdef.name for op in module.functions[0].block}
    assert {"conv.depthwise", "conv.data_grad", "conv"} <= names
    assert not names & {"move.patches", "move.overlap_add"}


def test_groups_of_a_transposed_convolution_are_convolutions_of_their_own(tmp_path: Path) -> None:
    w, x = weights(4, 3, 3, 4), RANDOM.normal(size=(2, 4, 5, 6)).astype(np.float32)
    given = {"strides": [2, 3], "pads": [1, 0, 0, 1]}
    whole = model(
        [NODE("ConvTranspose", ["x", "w"], ["y"], group=2, **given)],
        {"x": x.shape},
        ["y"],
        {"w": w},
    )
    made = gc.compile(gc.load_program(saved(whole, tmp_path)))(x=x)["y"]
    for g in range(2):
        part = x[:, 2 * g : 2 * g + 2]
        node = NODE("ConvTranspose", ["x", "w"], ["y"], **given)
        single = model([node], {"x": part.shape}, ["y"], {"w": w[2 * g : 2 * g + 2]})
        expected = ReferenceEvaluator(single).run(None, {"x": part})[0]
        np.testing.assert_allclose(made[:, 3 * g : 3 * g + 3], expected, 1e-4, 1e-5)


def test_a_transposed_convolution_whose_windows_do_not_meet(tmp_path: Path) -> None:
    """SAME cannot give what no window reaches: there are as many elements as windows reach."""
    w, x = weights(2, 3, 1, 1), RANDOM.normal(size=(1, 2, 7, 5)).astype(np.float32)
    node = NODE("ConvTranspose", ["x", "w"], ["y"], strides=[2, 3], auto_pad="SAME_UPPER")
    path = saved(model([node], {"x": x.shape}, ["y"], {"w": w}), tmp_path)
    made = gc.compile(gc.load_program(path))(x=x)["y"]
    expected = np.zeros((1, 3, 13, 13), np.float32)
    expected[:, :, ::2, ::3] = np.einsum("nchw,cf->nfhw", x, w[:, :, 0, 0])
    np.testing.assert_allclose(made, expected, 1e-5, 1e-6)


@pytest.mark.parametrize(("auto_pad", "before"), [("NOTSET", 1), ("SAME_UPPER", 0)])
def test_an_odd_number_of_elements_is_cut_off_before_but_for_same_upper(
    auto_pad: str, before: int, tmp_path: Path
) -> None:
    """Windows of 3 with strides of 2 reach 9 elements of 4; 8 are wanted."""
    w, x = weights(2, 3, 1, 3), RANDOM.normal(size=(1, 2, 1, 4)).astype(np.float32)
    given: dict[str, Any] = {"strides": [1, 2], "auto_pad": auto_pad, "output_shape": [1, 8]}
    node = NODE("ConvTranspose", ["x", "w"], ["y"], **given)
    path = saved(model([node], {"x": x.shape}, ["y"], {"w": w}), tmp_path)
    whole = np.zeros((1, 3, 1, 9), np.float32)
    for place in range(4):
        whole[..., 2 * place : 2 * place + 3] += np.einsum("nch,cfhk->nfhk", x[..., place], w)
    made = gc.compile(gc.load_program(path))(x=x)["y"]
    np.testing.assert_allclose(made, whole[..., before : before + 8], 1e-5, 1e-6)


def test_a_depthwise_convolution_over_open_axes(tmp_path: Path) -> None:
    node = NODE("Conv", ["x", "w"], ["y"], group=4, pads=[1, 1, 1, 1])
    made = model([node], {"x": ["n", 4, "h", "w"]}, ["y"], {"w": weights(4, 1, 3, 3)})
    path = saved(made, tmp_path)
    call = gc.compile(gc.load_program(path, bounds={"h": 9, "w": 8}))
    judge = ReferenceEvaluator(str(path))
    for sizes in ((1, 4, 9, 8), (2, 4, 1, 5), (3, 4, 4, 3)):
        x = RANDOM.normal(size=sizes).astype(np.float32)
        np.testing.assert_allclose(call(x=x)["y"], judge.run(None, {"x": x})[0], 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("node", "sizes", "said"),
    [
        (NODE("Conv", ["x", "w"], ["y"], group=4), (4, 1, 9, 9), "requires windows of"),
        (NODE("Conv", ["x", "w"], ["y"], kernel_shape=[3, 2]), (5, 4, 3, 3), "kernel_shape of the"),
        (NODE("Conv", ["x", "w"], ["y"]), (5, 3, 3, 3), "weights for 4 channels in 1 groups"),
        (NODE("ConvTranspose", ["x", "w"], ["y"], pads=[3] * 4), (4, 1, 1, 1), "leave something"),
    ],
)
def test_convolutions_that_do_not_fit(node: Any, sizes: Any, said: str, tmp_path: Path) -> None:
    made = model([node], {"x": [1, 4, 5, 4]}, ["y"], {"w": weights(*sizes)})
    with pytest.raises(gc.GraphcError, match=said) as caught:
        gc.load_program(saved(made, tmp_path))
    assert caught.value.diagnostics[0].slug == "shape-mismatch"


def test_an_embedding_is_looked_up(tmp_path: Path) -> None:
    made = model([NODE("Gather", ["t", "i"], ["y"])], {}, ["y"], {"t": weights(50, 7)})
    made.graph.input.append(helper.make_tensor_value_info("i", 7, ["batch", 3]))
    program = gc.load_program(saved(made, tmp_path))
    table = program.parameters["t"]
    places = np.array([[0, 49, -1], [7, 7, 3]])
    np.testing.assert_array_equal(gc.compile(program)(i=places)["y"], table[places])
    assert "sparse_product" in str(program.module)


@pytest.mark.parametrize("freeze", [False, True])
def test_frozen_windows_of_one_element_are_a_matrix(freeze: bool, tmp_path: Path) -> None:
    """64 channels to 128, so that the weights are worth being laid in panels."""
    arrays = {"w": weights(128, 64, 1, 1), "v": weights(96, 128, 1, 1)}
    nodes = [NODE("Conv", ["x", "w"], ["h"]), NODE("Conv", ["h", "v"], ["y"])]
    path = saved(model(nodes, {"x": ["batch", 64, 7, 5]}, ["y"], arrays), tmp_path)
    call = gc.compile(gc.load_program(path, bounds={"batch": 3}), freeze=freeze)
    for samples in (1, 3):
        x = RANDOM.normal(size=(samples, 64, 7, 5)).astype(np.float32)
        expected = np.einsum(
            "nchw,fc,gf->nghw", x, arrays["w"][:, :, 0, 0], arrays["v"][:, :, 0, 0]
        )
        np.testing.assert_allclose(call(x=x)["y"], expected, 1e-3, 1e-3)
