"""Which products are computed in pairs of bf16, and how frozen parameters lie for them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import graphc as gc
from graphc.backends import BACKENDS
from graphc.backends.llvm.target import host_target
from graphc.backends.signature import make_signature
from graphc.driver import pipelines
from graphc.ir.core import Module
from graphc.ir.machine import MACHINES, Machine
from graphc.ir.printer import print_module
from graphc.ir.types import DType
from graphc.ops import default_context
from graphc.ops.schedules import ProductSchedule
from graphc.passes import pipeline
from graphc.passes.analysis.product_schedules import misfit
from graphc.passes.analysis.product_tiles import ProductForm, ProductRange, choose_tiling
from graphc.passes.manager import PassManager
from graphc.runtime.layouts import in_pairs
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import load_backend, parse

V4 = MACHINES["x86-64-v4"]
DOTS = replace(V4, dots_bf16=True)
TEXT = """
dim N <= 40
func @f(%x: tensor<Nx70x{dtype}> input, %W: tensor<70x330x{dtype}> parameter
       ) -> (y: tensor<Nx330x{dtype}>) contraction bf16 {{
  %y = matmul %x, %W : tensor<Nx330x{dtype}>
  return %y
}}
"""


def kernels(machine: Machine, dtype: str = "f32", *, freeze: bool = False) -> Module:
    module = parse(TEXT.format(dtype=dtype))
    passes = [*pipelines.rounding("bf16")]
    passes += pipelines.early_parts("rest", (), freeze=freeze)
    passes += pipelines.kernels(machine, freeze=freeze)
    PassManager(passes, verify=True, check_claim=True).run(module, default_context())
    return module


def schedules(module: Module) -> list[ProductSchedule]:
    found = [op.schedule for op in module.functions[0].block]
    return [s for s in found if isinstance(s, ProductSchedule)]


@pytest.mark.parametrize(
    ("machine", "dtype", "pairs"), [(V4, "f32", False), (DOTS, "f32", True), (DOTS, "f64", False)]
)
def test_products_of_bf16_are_in_pairs_where_the_machine_multiplies_them(
    machine: Machine, dtype: str, pairs: bool
) -> None:
    module = kernels(machine, dtype)
    assert [s.pairs for s in schedules(module)] == [pairs]
    again = parse(print_module(module))
    assert [s.pairs for s in schedules(again)] == [pairs]


def test_other_functions_on_such_a_machine_are_not() -> None:
    module = parse(TEXT.format(dtype="f32").replace("contraction bf16 ", ""))
    PassManager(pipelines.kernels(DOTS)).run(module, default_context())
    assert [s.pairs for s in schedules(module)] == [False]


def test_a_frozen_matrix_lies_in_pairs_of_half_as_many_bytes() -> None:
    signatures = [_signature(kernels(m, freeze=True)) for m in (V4, DOTS)]
    plain, pairs = (next(a for a in s.arguments if a.panel) for s in signatures)
    assert (plain.dtype, pairs.dtype) == ("f32", "i32")
    assert pairs.shape == (plain.shape[0], 35, plain.panel)
    assert pairs.name.endswith(".pairs")


def _signature(module: Module) -> Signature:
    return make_signature(module, module.functions[0])


def test_pairs_hold_rounded_numbers_the_earlier_one_above() -> None:
    rows = np.array([[1.0, -3.0], [1 + 2.0**-8, 1 + 3 * 2.0**-8], [np.nan, 3.4e38]], np.float32)
    made = in_pairs(rows[None]).view(np.uint16).reshape(1, 2, 2, 2)[..., ::-1]
    values = (made.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(
        values[0],
        [[[1, 1], [-3, 1 + 2.0**-6]], [[np.nan, 0], [np.inf, 0]]],
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": "in place"}, 'a = "packed", a depth and a block for pairs, got a = "in place"'),
        ({"depth": 0}, 'a = "packed", a depth and a block for pairs'),
        ({"b": "packed by tiles"}, 'b = "in place", "packed" or "panels" for pairs'),
        ({"lanes": 32, "vectors": 1}, "at most 16 lanes for pairs, got 32"),
        ({"lanes": 2, "b": "in place"}, 'a B stored by rows and 4 lanes for pairs and b = "in'),
        ({"block": 50}, "a block of whole tiles of 12 rows, got 50"),
        ({"depth": 1 << 20, "block": 12}, "a panel of 1 to 1048576 bytes, got depth 1048576"),
    ],
)
def test_a_tiling_that_does_not_fit_pairs_is_told_what_is_required(
    change: dict[str, object], message: str
) -> None:
    x = ProductRange(DType.F32, 48, 200, 300, 200, 1 << 40, 1 << 40, pairs=True)
    made = choose_tiling(DOTS, x)
    assert misfit(made, x) == ""
    wrong = replace(made, **change)  # type: ignore[arg-type]  # names are above
    assert misfit(wrong, x).startswith(message)


@pytest.mark.parametrize("machine", [DOTS, MACHINES["sapphirerapids"]])
def test_narrow_products_of_any_length_have_blocks_that_fit(machine: Machine) -> None:
    """The gradient of one weight, a sum over a batch of any size, had a block of a megabyte."""
    for m, n, k in product((None, 1, 7, 40, 500), (None, 1, 2, 3, 5), (None, 300, 1 << 20)):
        form = ProductForm(DType.F32, m, n, k, False, False, pairs=True, amx=machine.has_amx)
        x = form.call_range()
        assert misfit(choose_tiling(machine, x), x) == "", (m, n, k)


def test_pairs_for_another_machine_or_another_function_are_errors() -> None:
    text = print_module(kernels(DOTS))
    module = parse(text)
    with pytest.raises(GraphcError, match="requires a machine with dot products of bf16"):
        BACKENDS["c"]().compile(module.functions[0], make_signature(module, module.functions[0]))
    other = parse(text.replace("contraction bf16 ", ""))
    with pytest.raises(GraphcError, match="in a function with `contraction bf16`"):
        BACKENDS["c"]().compile(other.functions[0], make_signature(other, other.functions[0]))


def test_a_machine_with_dot_products_masks_memory() -> None:
    assert "masks_memory" in replace(DOTS, masks_memory=False).misfit()


NETWORK = """
features = Input(9, tag=feature)
W0 = Parameter(330, 9)
W1 = Parameter(201, 330)
z = Times(W1, Tanh(Times(W0, features)), tag=output)
"""


@pytest.mark.skipif(
    not host_target().machine.dots_bf16, reason="this machine has no dot products of bf16"
)
def test_bits_depend_neither_on_the_batch_nor_on_threads_nor_on_being_frozen() -> None:
    network = gc.loads(NETWORK)
    x = np.random.default_rng(1).standard_normal((300, 9)).astype(np.float32)
    wanted = gc.compile(network, precision="bf16", batch=300)(features=x)["z"]
    judge = gc.compile(network, precision="bf16", backend="numpy")(features=x)["z"]
    np.testing.assert_allclose(wanted, judge, rtol=0, atol=2e-2 * np.abs(judge).max())
    for threads, freeze in ((1, False), (3, False), (1, True), (2, True)):
        function = gc.compile(network, precision="bf16", threads=threads, freeze=freeze)
        for count in (1, 2, 3, 13, 300):
            np.testing.assert_array_equal(function(features=x[:count])["z"], wanted[:count])


def test_bits_are_those_of_fused_multiply_adds_where_nothing_is_denormal() -> None:
    """The C backend has these; on machines without dot products both have. AMX adds otherwise."""
    if host_target().machine.has_amx:
        pytest.skip("this machine has AMX")
    if isinstance(why := load_backend("c"), str):
        pytest.skip(why)
    network = gc.loads(NETWORK)
    x = np.random.default_rng(2).standard_normal((30, 9)).astype(np.float32)
    found = [
        gc.compile(network, precision="bf16", backend=b)(features=x)["z"] for b in ("llvm", "c")
    ]
    np.testing.assert_array_equal(*found)


CHUNKED = """
func @f(%x: tensor<1024x512xf32> input, %W: tensor<512x512xf32> parameter,
        %v: tensor<1024x512xf32> input
       ) -> (y: tensor<1024x512xf32>, g: tensor<512x512xf32>){mode} {{
  %0 = matmul %x, %W : tensor<1024x512xf32>
  %y = tanh %0 : tensor<1024x512xf32>
  %g = matmul %x, %v {{transpose_a = true}} : tensor<512x512xf32>
  return %y, %g
}}
"""


def test_chunks_are_longer_where_each_copies_its_factors() -> None:
    lengths: list[list[int]] = []
    for mode in ("", " contraction bf16"):
        module = parse(CHUNKED.format(mode=mode))
        PassManager(pipeline(pipelines.FUSED), verify=True).run(module, default_context())
        lengths.append([s.chunk for s in schedules(module)])
    assert all(longer >= 2 * short > 0 for short, longer in zip(*lengths, strict=True))
    assert len(lengths[0]) == 2
