"""Rearrangements on a GPU, emulated: how many bytes at once, squares, places that are far away."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from graphc.backends.cuda.fetches import Fetches
from graphc.backends.cuda.source import Source, write_source
from graphc.backends.cuda.steps import Either, Number, Part, Place, alignment_of
from graphc.backends.signature import make_signature
from graphc.ir.codegen import StridedCopy
from graphc.ir.core import Function, OpDef
from graphc.ir.evaluate import evaluate
from graphc.ir.machine import GPUS
from graphc.ir.params import Params
from graphc.ir.types import Dim, DType, Symbol, TensorType
from graphc.ops import default_context
from graphc.ops.movement import (
    CONCAT,
    PAD,
    SLICE,
    TRANSPOSE,
    ConcatParams,
    PadParams,
    SliceParams,
    TransposeParams,
)
from graphc.passes import pipeline
from graphc.passes.analysis.loopnest import Size
from graphc.passes.manager import PassManager
from graphc.runtime.signature import Signature
from tests.support.compiling import KERNEL_PIPELINE, call, parse
from tests.support.cuda.building import missing
from tests.support.cuda.functions import CheckedFunction, compile_together

emulated = pytest.mark.skipif(bool(missing()), reason=missing())

Planned = tuple[Function, Signature]
N = Symbol("N", 8)


def planned(line: str, argument: str, result: str) -> Planned:
    text = (
        f"dim N <= 70\n\nfunc @f(%x: tensor<{argument}> input) -> (y: tensor<{result}>) {{\n"
        f"  %y = {line} : tensor<{result}>\n  return %y\n}}\n"
    )
    module = parse(text)
    PassManager(pipeline(KERNEL_PIPELINE), verify=True).run(module, default_context())
    return module.functions[0], make_signature(module, module.functions[0])


def source(functions: Sequence[Planned]) -> Source:
    return write_source(functions, GPUS["sm_90"])


@pytest.mark.parametrize(
    ("line", "argument", "result", "element"),
    [
        ("slice %x {starts = [0, 4], stops = [N, 12], steps = [1, 1]}", "Nx16xf32", "Nx8xf32", 16),
        ("slice %x {starts = [0, 4], stops = [N, 14], steps = [1, 1]}", "Nx16xf32", "Nx10xf32", 8),
        ("slice %x {starts = [0, 3], stops = [N, 11], steps = [1, 1]}", "Nx16xf32", "Nx8xf32", 4),
        ("slice %x {starts = [0, 0], stops = [N, 16], steps = [1, 2]}", "Nx16xf32", "Nx8xf32", 4),
        ("pad %x {low = [0, 2], high = [0, 2], inner = [0, 0]}", "Nx4xf64", "Nx8xf64", 16),
        ("pad %x {low = [1, 0], high = [0, 0], inner = [2, 0]}", "3x8xi1", "8x8xi1", 8),
        ("transpose %x {permutation = [1, 0, 2]}", "3xNx8xf32", "Nx3x8xf32", 16),
        ("reverse %x {axes = [0]}", "Nx8xf32", "Nx8xf32", 16),
        ("reverse %x {axes = [1]}", "Nx8xf32", "Nx8xf32", 4),
    ],
)
def test_as_many_bytes_are_moved_at_once_as_rows_allow(
    line: str, argument: str, result: str, element: int
) -> None:
    types = {4: "u32 *p1", 8: "u64 *p1", 16: "ulonglong2 *p1"}
    text = source([planned(line, argument, result)]).text
    assert [size for size, type in types.items() if type in text] == [element]


def test_the_elements_of_a_sequence_lie_where_their_size_says() -> None:
    whole, turn = Place("arena", 64, 4096), Number(Size(0), 1, 0)
    assert alignment_of(whole) == 16
    assert alignment_of(Place("arena", 4, 4)) == 4
    assert alignment_of(Part(whole, turn, Size(3), 4)) == 4
    assert alignment_of(Part(whole, turn, Size(2, ("N",)), 4)) == 8
    assert alignment_of(Part(whole, turn, Size(6, ("N",)), 8)) == 16
    assert alignment_of(Either(turn, Part(whole, turn, Size(1), 8), whole)) == 8


@pytest.mark.parametrize(
    ("op", "params", "operands", "axes"),
    [
        (TRANSPOSE, TransposeParams((1, 0, 2, 3)), ((2, 3, 4, 5),), 3),
        (SLICE, SliceParams((0, 0, 0), (N, 3, 4), (1, 1, 1)), ((N, 5, 4),), 2),
        (PAD, PadParams((1, 0, 0), (0, 0, 0), (0, 0, 0)), ((2, 3, 4),), 1),
        (PAD, PadParams((0, 0, 0), (0, 0, 0), (0, 1, 0)), ((2, 3, 4),), 3),
        (CONCAT, ConcatParams(1), ((N, 3, 4), (N, 2, 4)), 2),
        (CONCAT, ConcatParams(0), ((2, N, 4), (3, N, 4)), 1),
    ],
)
def test_axes_that_are_walked_together_are_one(
    op: OpDef, params: Params, operands: tuple[tuple[Dim, ...], ...], axes: int
) -> None:
    types = [TensorType(dims, DType.F32) for dims in operands]
    (result,) = op.infer(types, params)
    assert isinstance(op.codegen, StridedCopy)
    assert isinstance(result, TensorType)
    copies = op.codegen.copies(params, types, result)
    assert len(Fetches.of(copies, types, result).extents) == axes


LARGE = (
    ("transpose %x {permutation = [1, 0]}", "70x45xf32", "45x70xf32"),
    ("transpose %x {permutation = [0, 2, 1]}", "Nx33x65xf64", "Nx65x33xf64"),
    ("transpose %x {permutation = [1, 0]}", "Nx100xi1", "100xNxi1"),
    ("transpose %x {permutation = [2, 1, 0]}", "20xNx40xf32", "40xNx20xf32"),
)


@cache
def squares() -> list[tuple[Planned, CheckedFunction]]:
    plans = [planned(*case) for case in LARGE]
    return list(zip(plans, compile_together(plans), strict=True))


@emulated
@pytest.mark.parametrize("samples", [0, 1, 32, 70])
def test_transpositions_of_long_sides_go_through_shared_memory(samples: int) -> None:
    rng = np.random.default_rng(samples)
    for (function, signature), checked in squares():
        (kernel,) = source([(function, signature)]).programs[0].kernels.values()
        assert kernel.shared > 0
        (argument,) = signature.arguments
        shape = tuple(samples if isinstance(d, str) else d for d in argument.shape)
        x = rng.integers(0, 2, shape).astype({"f32": "f4", "f64": "f8"}.get(argument.dtype, "?"))
        sizes = {"N": samples}
        expected = evaluate(function, {"x": x}, sizes)["y"]
        got = call(checked, signature, {"x": x}, sizes)["y"]
        np.testing.assert_array_equal(got, expected)


def test_places_beyond_32_bits_are_counted_with_64() -> None:
    """No such array is made: nothing runs."""
    line = "pad %x {low = [1, 0], high = [0, 0], inner = [0, 0]}"
    small = source([planned(line, "40000x50001xf32", "40001x50001xf32")]).text
    large = source([planned(line, "50000x50001xf32", "50001x50001xf32")]).text
    assert "u64 at" not in small
    assert "u64 at" in large
