"""Convolutions and their gradients by Winograd's algorithm: as exact as sums of windows, the same
bits however cut."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from graphc.backends.base import CompiledFunction
from graphc.backends.native import NativeFunction
from graphc.backends.signature import make_signature
from graphc.ir.core import Module, Operation
from graphc.ir.machine import MACHINES
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.traversal import walk
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.ops.convolution import OPS as CONVOLUTIONS
from graphc.ops.schedules import ConvSchedule, WeightGradSchedule
from graphc.passes import pipeline
from graphc.passes.analysis.schedules import complete_schedule
from graphc.passes.analysis.window_products import by_winograd
from graphc.passes.analysis.winograd import suits_winograd
from graphc.passes.choose_schedule import choose_schedules
from graphc.passes.manager import PassManager
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import JUDGED, call, load_backend, parse
from tests.support.guarded_child import exit_code_guarded
from tests.support.guarded_memory import SIDES, Side
from tests.support.native import random_arguments, runnable_targets

Parts = tuple[int, int]


def text(width: int, height: int, channels: int, features: int, dtype: str = "f32") -> str:
    """Zeros around the image leave its extents as they are."""
    block = 64 // (8 if dtype == "f64" else 4)
    y = f"tensor<Nx{width}x{height}x{features}x{dtype}>"
    return f"""
dim N <= 5
func @f(%x: tensor<Nx{width}x{height}x{channels}x{dtype}> input,
        %w: tensor<{features // block}x3x3x{channels}x{block}x{dtype}> parameter) -> (y: {y}) {{
  %y = conv %x, %w
    {{axis = 1, strides = [1, 1], low = [1, 1], high = [1, 1], block = {block}}} : {y}
  return %y
}}
"""


def alone(operation: str, first: str, second: str, result: str, settings: str) -> str:
    """An operation of arrays of these dims, up to 130 images."""
    x, w, y = (f"tensor<{dims}>" for dims in (first, second, result))
    return f"""
dim N <= 130
func @f(%x: {x} input, %w: {w} input) -> (y: {y}) {{
  %y = {operation} %x, %w {{axis = 1, strides = [1, 1], {settings}}} : {y}
  return %y
}}
"""


AROUND = "low = [1, 1], high = [1, 1]"
TEXTS = {
    "even": text(12, 12, 32, 32),
    "odd": text(13, 15, 35, 64),
    "f64": text(13, 14, 33, 32, "f64"),
    "no zeros": alone("conv", "Nx14x17x33xf32", "2x3x3x33x16xf32", "Nx12x15x32xf32", "block = 16"),
    "rows": alone("conv", "Nx13x14x16xf32", "3x3x16x20xf32", "Nx13x14x20xf32", AROUND),
}
OF_IMAGES = {
    "odd, to images": alone(
        "conv.data_grad",
        "Nx13x15x35xf32",
        "3x3x4x35x16xf32",
        "Nx13x15x64xf32",
        f"extents = [13, 15], {AROUND}, block = 16",
    ),
    "f64, to images": alone(
        "conv.data_grad",
        "Nx14x13x32xf64",
        "3x3x2x32x8xf64",
        "Nx14x13x16xf64",
        f"extents = [14, 13], {AROUND}, block = 8",
    ),
    "no zeros, to images": alone(
        "conv.data_grad",
        "Nx11x13x16xf32",
        "3x16x3x18xf32",
        "Nx13x15x18xf32",
        "extents = [13, 15]",
    ),
    "two zeros, to images": alone(
        "conv.data_grad",
        "Nx16x15x17xf32",
        "3x17x3x16xf32",
        "Nx14x14x16xf32",
        "extents = [14, 14], low = [2, 2], high = [2, 1]",
    ),
}
OF_WEIGHTS = {
    "odd, to weights": alone(
        "conv.weight_grad",
        "Nx13x15x35xf32",
        "Nx13x15x44xf32",
        "3x3x35x44xf32",
        f"sizes = [3, 3], {AROUND}",
    ),
    "f64, to weights": alone(
        "conv.weight_grad",
        "Nx14x13x17xf64",
        "Nx14x13x19xf64",
        "3x3x17x19xf64",
        f"sizes = [3, 3], {AROUND}",
    ),
    "no zeros, to weights": alone(
        "conv.weight_grad",
        "Nx26x8x16xf32",
        "Nx24x6x16xf32",
        "3x3x16x16xf32",
        "sizes = [3, 3]",
    ),
}
ALL = TEXTS | OF_IMAGES | OF_WEIGHTS
CUT: list[Parts] = [(1, 1), (3, 2), (6, 1)]


def convolution(module: Module) -> Operation:
    (conv,) = (op for op in walk(module.functions[0]) if op.opdef in CONVOLUTIONS)
    return conv


def planned(name: str, machine: str, parts: Parts = (1, 1)) -> Module:
    """As it is chosen for a machine, with images in so many parts, and read back from its text.

    Of gradients, which have no such parts, images are in chunks of the second number.
    """
    module = parse(ALL[name])
    across, features = parts
    if parts != (1, 1):
        conv = convolution(module)
        conv.schedule = ConvSchedule("images", 1, column_parts=across, feature_parts=features)
        if name in OF_IMAGES:
            conv.schedule = ConvSchedule("images", features)
        if name in OF_WEIGHTS:
            conv.schedule = WeightGradSchedule("images", features)
    choose_schedules(module.functions[0], MACHINES[machine])
    PassManager(pipeline("plan-memory"), verify=True).run(module, default_context())
    module = parse(print_module(module))
    assert "winograd = true" in print_module(module)
    return module


@cache
def compiled_for(
    backend: str, name: str, machine: str, parts: Parts
) -> tuple[CompiledFunction, Signature] | str:
    loaded = load_backend(backend)
    if isinstance(loaded, str):
        return loaded
    module = planned(name, machine, parts)
    (function,) = module.functions
    signature = make_signature(module, function)
    return loaded.compile(function, signature), signature


def result(
    backend: str,
    name: str,
    samples: int,
    parts: Parts = (1, 1),
    threads: int = 1,
    machine: str = "x86-64-v3",
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What a call gives, and what it was given: random numbers."""
    found = compiled_for(backend, name, machine, parts)
    if isinstance(found, str):
        pytest.skip(found)
    compiled, signature = found
    if isinstance(compiled, NativeFunction):
        compiled.threads = threads
    sizes = {"N": samples}
    given = random_arguments(signature, sizes)
    return call(compiled, signature, given, sizes)["y"], given


# Many images are sums of several chains; chunks have sums of their own.
@pytest.mark.parametrize(
    ("name", "parts", "counts"),
    [
        *((name, (1, 1), (0, 1, 5)) for name in ALL if name != "no zeros, to weights"),
        ("no zeros, to weights", (1, 1), (0, 1, 130)),
        *((name, (1, 2), (0, 1, 5)) for name in OF_WEIGHTS),
    ],
)
@pytest.mark.parametrize("backend", JUDGED)
def test_results_are_as_exact_as_sums_of_windows(
    backend: str, name: str, parts: Parts, counts: tuple[int, ...]
) -> None:
    for samples in counts:
        got, given = result(backend, name, samples, parts)
        conv = convolution(parse(ALL[name]))
        assert conv.opdef.reference is not None
        x, w = (given[n].astype(np.float64) for n in ("x", "w"))
        exact = np.asarray(conv.opdef.reference(conv.params, x, w))
        largest = np.abs(exact).max(initial=0)
        np.testing.assert_allclose(got, exact, rtol=0, atol=16 * np.finfo(got.dtype).eps * largest)


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        *(("odd", machine) for machine in ("x86-64", "x86-64-v3", "x86-64-v4")),
        *((name, "x86-64-v3") for name in ("even", "f64", "no zeros", "rows", *OF_IMAGES)),
    ],
)
def test_neither_parts_nor_threads_nor_other_images_change_a_bit(name: str, machine: str) -> None:
    whole, _ = result("llvm", name, 5, machine=machine)
    for parts in CUT:
        for threads in (1, 3):
            got, _ = result("llvm", name, 5, parts, threads, machine)
            np.testing.assert_array_equal(got, whole)
    found = compiled_for("llvm", name, machine, (1, 1))
    assert not isinstance(found, str)
    compiled, signature = found
    given = random_arguments(signature, {"N": 5})
    alone = call(compiled, signature, {**given, "x": given["x"][3:4].copy()}, {"N": 1})["y"]
    np.testing.assert_array_equal(alone[0], whole[3])


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        *(("odd, to weights", machine) for machine in ("x86-64", "x86-64-v3", "x86-64-v4")),
        *((name, "x86-64-v3") for name in OF_WEIGHTS),
    ],
)
def test_threads_change_no_bit_of_sums_over_images(name: str, machine: str) -> None:
    """Chunks do, as other sums of images do."""
    whole, _ = result("llvm", name, 5, (1, 2), machine=machine)
    got, _ = result("llvm", name, 5, (1, 2), 3, machine)
    np.testing.assert_array_equal(got, whole)


@pytest.mark.parametrize("name", ALL)
def test_both_native_backends_give_the_same_bits(name: str) -> None:
    for parts in ((1, 1), (3, 2)):
        np.testing.assert_array_equal(
            result("c", name, 2, parts)[0], result("llvm", name, 2, parts)[0]
        )


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("odd", (1, 1)),
        ("no zeros", (3, 2)),
        ("rows", (1, 1)),
        ("odd, to images", (1, 1)),
        ("two zeros, to images", (1, 1)),
        ("odd, to weights", (1, 1)),
        ("f64, to weights", (1, 2)),
    ],
)
def test_nothing_is_touched_outside_the_arrays(name: str, parts: Parts, side: Side) -> None:
    for target in runnable_targets():
        module = planned(name, "x86-64-v3", parts)
        (function,) = module.functions
        signature = make_signature(module, function)
        given = random_arguments(signature, {"N": 2})
        code = exit_code_guarded(function, signature, target, given, {"N": 2}, side)
        assert code == 0, target.isa


@pytest.mark.parametrize(
    ("shape", "suits"),
    [
        ((56, 56, 64, 64), True),
        ((12, 12, 32, 32), True),
        ((7, 7, 512, 512), False),  # transforming the weights takes longer
        ((1, 400, 64, 64), False),
        ((28, 28, 16, 16), True),
        ((28, 28, 15, 32), False),
    ],
)
def test_large_images_with_channels_suit(shape: tuple[int, int, int, int], suits: bool) -> None:
    assert suits_winograd(by_winograd(convolution(parse(text(*shape))))) == suits


@pytest.mark.parametrize(
    ("channels", "outputs", "suits"),
    [
        (256, 256, True),
        (256, 272, False),  # each chunk of images would have more than 4 MiB of sums
        (64, 15, False),
    ],
)
def test_sums_of_weights_that_stay_near_suit(channels: int, outputs: int, suits: bool) -> None:
    x, y, w = (
        f"Nx14x14x{channels}xf32",
        f"Nx14x14x{outputs}xf32",
        f"3x3x{channels}x{outputs}xf32",
    )
    source = alone("conv.weight_grad", x, y, w, f"sizes = [3, 3], {AROUND}")
    assert suits_winograd(by_winograd(convolution(parse(source)))) == suits


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        (ConvSchedule(winograd=True, lanes=8, columns=3), "2 to 14 columns in a block of whole"),
        (ConvSchedule(winograd=True, lanes=8, columns=16), "2 to 14 columns in a block of whole"),
        (
            ConvSchedule("images", 1, column_parts=8, winograd=True, lanes=8, columns=2),
            "at most 7 parts of columns of tiles",
        ),
        (ConvSchedule(winograd=True, prefetch=-1, lanes=8, columns=2), "`prefetch` of 0 rows or"),
    ],
)
def test_schedules_that_do_not_fit(schedule: ConvSchedule, problem: str) -> None:
    conv = convolution(parse(TEXTS["odd"]))
    conv.schedule = schedule
    with pytest.raises(GraphcError, match=problem):
        complete_schedule(conv, MACHINES["x86-64-v3"])


def test_other_windows_are_no_tiles() -> None:
    module = parse(
        TEXTS["odd"].replace("x3x3x35", "x2x3x35").replace("high = [1, 1]", "high = [0, 1]")
    )
    conv = convolution(module)
    conv.schedule = ConvSchedule(winograd=True, lanes=8, columns=2)
    with pytest.raises(GraphcError, match="windows 3 x 3 and strides of 1"):
        complete_schedule(conv, MACHINES["x86-64-v3"])


def test_gradients_that_it_does_not_fit() -> None:
    """Rows of the weights are no chunks of it, and zeros of more than a window's are no results."""
    conv = convolution(parse(OF_WEIGHTS["odd, to weights"]))
    conv.schedule = WeightGradSchedule("rows", 35, winograd=True, lanes=8, columns=2)
    with pytest.raises(GraphcError, match="all rows of the weights, in chunks of images"):
        complete_schedule(conv, MACHINES["x86-64-v3"])
    source = OF_IMAGES["two zeros, to images"]
    wide = source.replace("Nx16x", "Nx18x").replace("low = [2, 2]", "low = [3, 2]")
    conv = convolution(parse(source))
    conv.schedule = ConvSchedule(prefetch=8, lanes=8, columns=2)
    with pytest.raises(GraphcError, match="`prefetch` for a convolution, not for its gradient"):
        complete_schedule(conv, MACHINES["x86-64-v3"])
    conv = convolution(parse(wide.replace("high = [2, 1]", "high = [3, 1]")))
    conv.schedule = ConvSchedule(winograd=True, lanes=8, columns=2)
    with pytest.raises(GraphcError, match="at most two zeros at each end of an axis"):
        complete_schedule(conv, MACHINES["x86-64-v3"])


def test_lanes_have_to_be_chosen_with_it() -> None:
    context = default_context()
    for name in ("odd", "odd, to weights"):
        source = ALL[name].replace("} :", "} schedule {winograd = true} :")
        verify_module(parse_module(source, context), context.sink)
    found = [d.message for d in context.sink.diagnostics]
    assert len(found) == 2
    assert all("`winograd` requires `lanes` and `columns`" in message for message in found)
