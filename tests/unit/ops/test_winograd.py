"""Convolutions by Winograd's algorithm: as exact as sums of windows, the same bits however cut."""

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
from graphc.ops.convolution import CONV
from graphc.ops.schedules import ConvSchedule
from graphc.passes import pipeline
from graphc.passes.analysis.schedules import complete_schedule
from graphc.passes.analysis.window_products import product_of, suits_winograd
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


BARE = """
dim N <= 5
func @f(%x: tensor<Nx14x17x33xf32> input, %w: tensor<2x3x3x33x16xf32> parameter)
    -> (y: tensor<Nx12x15x32xf32>) {
  %y = conv %x, %w {axis = 1, strides = [1, 1], block = 16} : tensor<Nx12x15x32xf32>
  return %y
}
"""
TEXTS = {
    "even": text(12, 12, 32, 32),
    "odd": text(13, 15, 35, 64),
    "f64": text(13, 14, 33, 32, "f64"),
    "no zeros": BARE,
}
CUT: list[Parts] = [(1, 1), (3, 2), (6, 1)]


def convolution(module: Module) -> Operation:
    (conv,) = (op for op in walk(module.functions[0]) if op.opdef is CONV)
    return conv


def planned(name: str, machine: str, parts: Parts = (1, 1)) -> Module:
    """As it is chosen for a machine, with images in so many parts, and read back from its text."""
    module = parse(TEXTS[name])
    if parts != (1, 1):
        schedule = ConvSchedule("images", 1, column_parts=parts[0], feature_parts=parts[1])
        convolution(module).schedule = schedule
    choose_schedules(module.functions[0], MACHINES[machine])
    PassManager(pipeline("plan-memory"), verify=True).run(module, default_context())
    module = parse(print_module(module))
    assert convolution(module).schedule_as(ConvSchedule).winograd
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


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("backend", JUDGED)
def test_results_are_as_exact_as_sums_of_windows(backend: str, name: str) -> None:
    for samples in (0, 1, 5):
        got, given = result(backend, name, samples)
        conv = convolution(parse(TEXTS[name]))
        assert conv.opdef.reference is not None
        x, w = (given[n].astype(np.float64) for n in ("x", "w"))
        exact = np.asarray(conv.opdef.reference(conv.params, x, w))
        largest = np.abs(exact).max(initial=0)
        np.testing.assert_allclose(got, exact, rtol=0, atol=16 * np.finfo(got.dtype).eps * largest)


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        *(("odd", machine) for machine in ("x86-64", "x86-64-v3", "x86-64-v4")),
        *((name, "x86-64-v3") for name in ("even", "f64", "no zeros")),
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


@pytest.mark.parametrize("name", TEXTS)
def test_both_native_backends_give_the_same_bits(name: str) -> None:
    for parts in ((1, 1), (3, 2)):
        np.testing.assert_array_equal(
            result("c", name, 2, parts)[0], result("llvm", name, 2, parts)[0]
        )


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("parts", [(1, 1), (3, 2)])
def test_nothing_is_touched_outside_the_arrays(parts: Parts, side: Side) -> None:
    for target in runnable_targets():
        module = planned("odd" if parts == (1, 1) else "no zeros", "x86-64-v3", parts)
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
        ((28, 28, 16, 32), False),
    ],
)
def test_large_images_with_channels_suit(shape: tuple[int, int, int, int], suits: bool) -> None:
    assert suits_winograd(product_of(convolution(parse(text(*shape))))) == suits


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        (ConvSchedule(winograd=True, lanes=8, columns=3), "2 to 14 columns in a block of whole"),
        (ConvSchedule(winograd=True, lanes=8, columns=16), "2 to 14 columns in a block of whole"),
        (
            ConvSchedule("images", 1, column_parts=8, winograd=True, lanes=8, columns=2),
            "at most 7 parts of columns of tiles",
        ),
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
    with pytest.raises(GraphcError, match="windows 3 x 3, strides of 1 and weights in blocks"):
        complete_schedule(conv, MACHINES["x86-64-v3"])


def test_lanes_have_to_be_chosen_with_it() -> None:
    context = default_context()
    source = TEXTS["odd"].replace("block = 16}", "block = 16} schedule {winograd = true}")
    verify_module(parse_module(source, context), context.sink)
    assert "`winograd` requires `lanes` and `columns`" in context.sink.diagnostics[0].message
