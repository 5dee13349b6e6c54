"""Convolutions mean what the products with windows meant, on random shapes; what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from graphc.ir.clone import clone_module
from graphc.ir.core import OpDef
from graphc.ir.evaluate import evaluate
from graphc.ir.params import Params
from graphc.ir.printer import print_module
from graphc.ir.types import DType, Symbol, TensorType, TypeRuleError
from graphc.ops import default_context
from graphc.ops.convolution import (
    CONV,
    CONV_DATA_GRAD,
    CONV_WEIGHT_GRAD,
    ConvDataGradParams,
    ConvParams,
    ConvWeightGradParams,
)
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.compiling import parse


def random_text(rng: np.random.Generator) -> str:
    """The three products of a convolution of random extents, over one or two axes."""
    walked = int(rng.integers(1, 3))
    sizes = [int(n) for n in rng.integers(1, 4, walked)]
    sizes[0] += max(sizes) == 1  # windows of one element are no windows
    strides = [int(n) for n in rng.integers(1, 4, walked)]
    low, high = ([int(n) for n in rng.integers(0, 3, walked)] for _ in range(2))
    if rng.random() < 0.4:
        low = high = [0] * walked
    extents = [s + int(n) for s, n in zip(sizes, rng.integers(0, 6, walked), strict=True)]
    places = [(e - s) // t + 1 for e, s, t in zip(extents, sizes, strides, strict=True)]
    lead = ["N"] if rng.random() < 0.7 else ["N", "3"]
    channels = [int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))]
    features = [int(n) for n in rng.integers(1, 5, int(rng.integers(1, 3)))]
    axis, inside, f = len(lead), walked + len(channels), len(features)
    is_first = rng.random() < 0.5  # whether the weights begin with the features

    inner = [max(1, e - a - z) for e, a, z in zip(extents, low, high, strict=True)]
    high = [e - i - a for e, i, a in zip(extents, inner, low, strict=True)]
    low = [a + min(0, z) for a, z in zip(low, high, strict=True)]
    high = [max(0, z) for z in high]

    def tensor(*dims: object) -> str:
        return f"tensor<{'x'.join(map(str, dims))}xf64>"

    x, y = tensor(*lead, *extents, *channels), tensor(*lead, *places, *features)
    patches = tensor(*lead, *places, *sizes, *channels)
    kernel = [*sizes, *channels]
    w = tensor(*features, *kernel) if is_first else tensor(*kernel, *features)
    flags = f"transpose_b = true, contract = {inside}" if is_first else f"contract = {inside}"
    back = f"contract = {f}" if is_first else f"transpose_b = true, contract = {f}"
    k = tensor(*features, *kernel)
    narrow = tensor(*lead, *inner, *channels)
    amounts = (*(0 for _ in lead), *low, *(0 for _ in channels))
    ends = (*(0 for _ in lead), *high, *(0 for _ in channels))
    zeros = [0] * len(amounts)
    stops = [*lead, *(a + i for a, i in zip(low, inner, strict=True)), *channels]
    return f"""
dim N <= 4
func @f(%i: {narrow} input, %w: {w} parameter, %dy: {y} input)
    -> (y: {y}, di: {narrow}, dw: {k}) {{
  %x = pad %i {{low = {list(amounts)}, high = {list(ends)}, inner = {zeros}}} : {x}
  %p = patches %x {{axis = {axis}, sizes = {sizes}, strides = {strides}}} : {patches}
  %y = matmul %p, %w {{{flags}}} : {y}
  %q = matmul %dy, %w {{{back}}} : {patches}
  %dx = overlap_add %q {{axis = {axis}, extents = {extents}, strides = {strides}}} : {x}
  %di = slice %dx {{starts = {list(amounts)}, stops = [{", ".join(map(str, stops))}],
      steps = {[1] * len(amounts)}}} : {narrow}
  %dw = matmul %dy, %p {{transpose_a = true, contract = {axis + walked}}} : {k}
  return %y, %di, %dw
}}
"""


@pytest.mark.parametrize("seed", range(40))
def test_convolutions_are_the_products_that_they_replace(seed: int) -> None:
    rng = np.random.default_rng(seed)
    module = parse(random_text(rng))
    fused = clone_module(module)
    PassManager(pipeline("simplify,fuse-patches,dce"), verify=True, check_claim=True).run(
        fused, default_context()
    )
    text = print_module(fused)
    assert [
        text.count(f"= {name} ") for name in ("conv", "conv.data_grad", "conv.weight_grad")
    ] == [1] * 3
    for gone in ("patches", "overlap_add", "pad ", "slice"):
        assert gone not in text
    for samples in (0, 1, 4):
        sizes = {"N": samples}
        given = {
            a.name or "": rng.standard_normal(a.type.shape(sizes))  # type: ignore[union-attr]
            for a in module.functions[0].arguments
        }
        expected = evaluate(module.functions[0], given, sizes)
        found = evaluate(fused.functions[0], given, sizes)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


def test_weights_in_blocks_are_the_same_weights() -> None:
    text = """
dim N <= 4
func @f(%x: tensor<Nx5x4x16xf64> input, %k: tensor<24x16x3x2xf64> parameter)
    -> (y: tensor<Nx3x3x24xf64>, dx: tensor<Nx5x4x16xf64>) {
  %p = patches %x {axis = 1, sizes = [3, 2], strides = [1, 1]} : tensor<Nx3x3x3x2x16xf64>
  %o = transpose %k {permutation = [0, 2, 3, 1]} : tensor<24x3x2x16xf64>
  %y = matmul %p, %o {transpose_b = true, contract = 3} : tensor<Nx3x3x24xf64>
  %q = matmul %y, %o : tensor<Nx3x3x3x2x16xf64>
  %dx = overlap_add %q {axis = 1, extents = [5, 4], strides = [1, 1]} : tensor<Nx5x4x16xf64>
  return %y, %dx
}
"""
    module = parse(text)
    fused = clone_module(module)
    PassManager(pipeline("fuse-patches,dce"), verify=True).run(fused, default_context())
    assert print_module(fused).count("block = 8") == 2
    rng = np.random.default_rng(0)
    given = {"x": rng.standard_normal((3, 5, 4, 16)), "k": rng.standard_normal((24, 16, 3, 2))}
    expected = evaluate(module.functions[0], given, {"N": 3})
    for name, value in evaluate(fused.functions[0], given, {"N": 3}).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-12, atol=1e-12, err_msg=name)


X, W = (TensorType(dims, DType.F32) for dims in ((Symbol("N", 4), 5, 6, 2), (2, 3, 2, 4)))


@pytest.mark.parametrize(
    ("op", "operands", "params", "message"),
    [
        (CONV, (X, W), ConvParams(1, (1, 0)), "strides of at least 1 for one or two axes from 1"),
        (CONV, (X, W), ConvParams(1, (1, 1, 1)), "strides of at least 1 for one or two axes"),
        (CONV, (X, W), ConvParams(0, (1, 1)), "requires known extents, got [N, 5]"),
        (CONV, (X, X), ConvParams(1, (1, 1)), "requires known extents, got [N, 5, 6, 2]"),
        (
            CONV,
            (W, W),
            ConvParams(0, (1, 1)),
            "requires weights of 2 sizes, the channels [2, 4] and features",
        ),
        (CONV, (X, W.with_dtype(DType.F64)), ConvParams(1, (1, 1)), "of one element type"),
        (CONV, (W, X.with_dims((3, 1, 2, 4))), ConvParams(0, (1, 1)), "windows that fit into"),
        (CONV, (X, W), ConvParams(1, (1, 1), (1, 0), (1,)), "low and high of at least 0 for 2"),
        (CONV, (X, W), ConvParams(1, (1, 1), (-1, 0), (1, 0)), "low and high of at least 0 for 2"),
        (CONV, (X, W), ConvParams(1, (1, 1), block=8), "requires weights in blocks of 8"),
        (
            CONV_DATA_GRAD,
            (X, W),
            ConvDataGradParams(1, (5, 6), (1, 1), block=4),
            "requires weights in blocks of 4",
        ),
        (
            CONV_DATA_GRAD,
            (X, W),
            ConvDataGradParams(1, (5, 9), (1, 1)),
            "windows over [5, 9] and weights of the features [2]",
        ),
        (
            CONV_WEIGHT_GRAD,
            (X, X),
            ConvWeightGradParams(1, (6, 1), (1, 1)),
            "windows that fit into [5, 6], got [6, 1]",
        ),
        (
            CONV_WEIGHT_GRAD,
            (X, X),
            ConvWeightGradParams(1, (2, 1), (1, 1)),
            "requires results of dims [N, 4, 6] and features",
        ),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(
    op: OpDef, operands: tuple[TensorType, ...], params: Params, message: str
) -> None:
    with pytest.raises(TypeRuleError, match=re.escape(message)):
        op.infer(operands, params)


OPEN_EXTENTS = {
    "weights": (
        "%x: tensor<1x8x4xf32> input, %w: tensor<Nx3x4xf32> input",
        "%p = patches %x {axis = 1, sizes = [3], strides = [1]} : tensor<1x6x3x4xf32>\n"
        "  %y = matmul %p, %w {transpose_b = true, contract = 2} : tensor<1x6xNxf32>",
        "1x6xN",
    ),
    "places": (
        "%x: tensor<1x8x4xf32> input, %g: tensor<1x6xNxf32> input",
        "%p = patches %x {axis = 1, sizes = [3], strides = [1]} : tensor<1x6x3x4xf32>\n"
        "  %y = matmul %g, %p {transpose_a = true, contract = 2} : tensor<Nx3x4xf32>",
        "Nx3x4",
    ),
    "both": (
        "%g: tensor<1x6xNxf32> input, %w: tensor<Nx3x4xf32> input",
        "%q = matmul %g, %w : tensor<1x6x3x4xf32>\n"
        "  %y = overlap_add %q {axis = 1, extents = [8], strides = [1]} : tensor<1x8x4xf32>",
        "1x8x4",
    ),
    "no channels": (
        "%x: tensor<Nx8x0xf32> input, %w: tensor<3x0x5xf32> input",
        "%p = patches %x {axis = 1, sizes = [3], strides = [1]} : tensor<Nx6x3x0xf32>\n"
        "  %y = matmul %p, %w {contract = 2} : tensor<Nx6x5xf32>",
        "Nx6x5",
    ),
}


@pytest.mark.parametrize("which", OPEN_EXTENTS)
def test_what_a_call_decides_or_is_empty_stays_a_product_with_windows(which: str) -> None:
    arguments, body, result = OPEN_EXTENTS[which]
    head = f"dim N <= 9\nfunc @f({arguments}) -> (y: tensor<{result}xf32>) {{"
    text = f"{head}\n  {body}\n  return %y\n}}"
    module = parse(text)
    PassManager(pipeline("fuse-patches"), verify=True).run(module, default_context())
    assert "matmul" in print_module(module)


def test_without_lines_weights_lie_in_whole_rows() -> None:
    module = parse("""
func @f(%x: tensor<5x4x16xf32> input, %k: tensor<3x2x16x32xf32> parameter)
    -> (y: tensor<3x3x32xf32>) {
  %p = patches %x {axis = 0, sizes = [3, 2], strides = [1, 1]} : tensor<3x3x3x2x16xf32>
  %y = matmul %p, %k {contract = 3} : tensor<3x3x32xf32>
  return %y
}
""")
    found = {}
    for option in ("", "{line_bytes = 0}"):
        fused = clone_module(module)
        PassManager(pipeline(f"fuse-patches{option},dce"), verify=True).run(
            fused, default_context()
        )
        found[option] = print_module(fused)
    assert "block = 16" in found[""]
    assert "block" not in found["{line_bytes = 0}"]
    assert "= conv %x, %k {" in found["{line_bytes = 0}"]
