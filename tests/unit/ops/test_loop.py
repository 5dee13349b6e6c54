"""`loop` on every backend: what it carries, keeps and reads, for every number of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from graphc.driver.pipelines import OPTIMISE
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ir.printer import print_module
from graphc.ir.types import DType, TensorType
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.ops.loop import LOOP, LoopParams, loop_parts
from graphc.passes import pipeline
from graphc.passes.analysis.memory import check_plan
from graphc.passes.manager import PassManager
from graphc.support.diagnostics import DiagnosticSink
from tests.support.compiling import (
    JUDGED,
    KERNEL_PIPELINE,
    call,
    compile_for,
    load_backend,
    parse,
)

Array = np.ndarray
EVERYWHERE = pytest.mark.parametrize("backend", JUDGED)
SIZES = ((0, 1), (1, 1), (1, 5), (2, 1), (7, 5), (64, 1), (64, 5), (7, 0), (0, 0))

_ARGUMENTS = """dim T <= 64
dim S <= 5
func @main(%x: tensor<TxSx3xf64> input, %y: tensor<TxSx3xf64> input, %a: tensor<Sx3xf64> input,
    %b: tensor<Sx3xf64> input, %w: tensor<3x3xf64> parameter)"""


@dataclass(frozen=True)
class Example:
    """A function with loops; `expected` of x, y, a, b, w, in the order of the results."""

    name: str
    text: str
    expected: Callable[[Array, Array, Array, Array, Array], tuple[Array, ...]]


def _steps(
    step: Callable[..., tuple[list[Array], list[Array]]],
    carried: list[Array],
    *sequences: Array,
    kept: int = 0,
    backward: bool = False,
) -> tuple[Array, ...]:
    """A loop of Python; what is kept has the shape of an element of the first sequence."""
    count = len(sequences[0])
    stacks = [np.zeros_like(sequences[0]) for _ in range(kept)]
    for t in reversed(range(count)) if backward else range(count):
        carried, made = step(*carried, *(s[t] for s in sequences))
        for stack, value in zip(stacks, made, strict=True):
            stack[t] = value
    return (*carried, *stacks)


def _function(results: str, *lines: str) -> str:
    body = "\n  ".join(lines)
    return f"{_ARGUMENTS} -> ({results}) {{\n  {body}\n}}\n"


_S, _T = "tensor<Sx3xf64>", "tensor<TxSx3xf64>"
_W = "tensor<3x3xf64>"

EXAMPLES = (
    Example(
        "recurrent",
        _function(
            f"h: {_S}, hs: {_T}",
            f"%h, %hs = loop %w, %x, %a {{count = T, sequences = 1, carried = 1}} : {_S}, {_T} {{",
            f"^(%v: {_W}, %e: {_S}, %before: {_S}):",
            f"  %0 = matmul %before, %v : {_S}",
            f"  %1 = add %0, %e : {_S}",
            f"  %2 = tanh %1 : {_S}",
            "  yield %2, %2",
            "}",
            "return %h, %hs",
        ),
        lambda x, y, a, b, w: _steps(
            lambda h, e: ([np.tanh(h @ w + e)], [np.tanh(h @ w + e)]), [a], x, kept=1
        ),
    ),
    Example(
        "backward",
        _function(
            f"h: {_S}, hs: {_T}",
            "%h, %hs = loop %x, %a {count = T, sequences = 1, carried = 1, backward = true}"
            f" : {_S}, {_T} {{",
            f"^(%e: {_S}, %before: {_S}):",
            f"  %0 = mul %before, %e : {_S}",
            f"  %1 = add %0, %e : {_S}",
            "  yield %1, %before",
            "}",
            "return %h, %hs",
        ),
        lambda x, y, a, b, w: _steps(
            lambda h, e: ([h * e + e], [h]), [a], x, kept=1, backward=True
        ),
    ),
    Example(
        "swapped",
        _function(
            f"p: {_S}, q: {_S}",
            f"%p, %q = loop %a, %b {{count = T, sequences = 0, carried = 2}} : {_S}, {_S} {{",
            f"^(%u: {_S}, %v: {_S}):",
            "  yield %v, %u",
            "}",
            "return %p, %q",
        ),
        lambda x, y, a, b, w: _steps(lambda u, v, _: ([v, u], []), [a, b], x),
    ),
    Example(
        "rotated and changed",
        _function(
            f"p: {_S}, q: {_S}, r: {_S}",
            "%p, %q, %r = loop %x, %a, %b, %b {count = T, sequences = 1, carried = 3}"
            f" : {_S}, {_S}, {_S} {{",
            f"^(%e: {_S}, %u: {_S}, %v: {_S}, %m: {_S}):",
            f"  %0 = add %u, %e : {_S}",
            "  yield %v, %m, %0",
            "}",
            "return %p, %q, %r",
        ),
        lambda x, y, a, b, w: _steps(lambda u, v, m, e: ([v, m, u + e], []), [a, b, b], x),
    ),
    Example(
        "unchanged",
        _function(
            f"p: {_S}, ps: {_T}",
            f"%p, %ps = loop %x, %a {{count = T, sequences = 1, carried = 1}} : {_S}, {_T} {{",
            f"^(%e: {_S}, %u: {_S}):",
            "  yield %u, %u",
            "}",
            "return %p, %ps",
        ),
        lambda x, y, a, b, w: _steps(lambda u, e: ([u], [u]), [a], x, kept=1),
    ),
    Example(
        "an element kept and carried",
        _function(
            f"p: {_S}, xs: {_T}, ys: {_T}",
            "%p, %xs, %ys = loop %x, %y, %a {count = T, sequences = 2, carried = 1}"
            f" : {_S}, {_T}, {_T} {{",
            f"^(%e: {_S}, %f: {_S}, %u: {_S}):",
            "  yield %e, %u, %f",
            "}",
            "return %p, %xs, %ys",
        ),
        lambda x, y, a, b, w: _steps(lambda u, e, f: ([e], [u, f]), [a], x, y, kept=2),
    ),
    Example(
        "an invariant carried and kept",
        _function(
            f"p: {_S}, ps: {_T}, qs: {_T}",
            "%p, %ps, %qs = loop %b, %a {count = T, sequences = 0, carried = 1}"
            f" : {_S}, {_T}, {_T} {{",
            f"^(%c: {_S}, %u: {_S}):",
            "  yield %c, %u, %c",
            "}",
            "return %p, %ps, %qs",
        ),
        lambda x, y, a, b, w: _steps(lambda u, e: ([b], [u, b]), [a], x, kept=2),
    ),
    Example(
        "one value for everything",
        _function(
            f"p: {_S}, q: {_S}, ps: {_T}, qs: {_T}",
            "%p, %q, %ps, %qs = loop %x, %a, %b {count = T, sequences = 1, carried = 2}"
            f" : {_S}, {_S}, {_T}, {_T} {{",
            f"^(%e: {_S}, %u: {_S}, %v: {_S}):",
            f"  %0 = sub %u, %v : {_S}",
            f"  %1 = add %0, %e : {_S}",
            "  yield %1, %1, %1, %1",
            "}",
            "return %p, %q, %ps, %qs",
        ),
        lambda x, y, a, b, w: _steps(
            lambda u, v, e: ([u - v + e] * 2, [u - v + e] * 2), [a, b], x, kept=2
        ),
    ),
    Example(
        "what was before, with what is after",
        _function(
            f"p: {_S}, q: {_S}, ps: {_T}",
            "%p, %q, %ps = loop %x, %a, %b {count = T, sequences = 1, carried = 2}"
            f" : {_S}, {_S}, {_T} {{",
            f"^(%e: {_S}, %u: {_S}, %v: {_S}):",
            f"  %0 = mul %u, %e : {_S}",
            f"  %1 = add %0, %v : {_S}",
            "  yield %1, %u, %0",
            "}",
            "return %p, %q, %ps",
        ),
        lambda x, y, a, b, w: _steps(lambda u, v, e: ([u * e + v, u], [u * e]), [a, b], x, kept=1),
    ),
    Example(
        "a sum of products",
        _function(
            f"g: {_W}, s: tensor<1x3xf64>",
            f"%z = constant {{type = {_W}, value = [0.0]}} : {_W}",
            "%o = constant {type = tensor<1x3xf64>, value = [0.0]} : tensor<1x3xf64>",
            "%g, %s = loop %x, %y, %z, %o {count = T, sequences = 2, carried = 2}"
            f" : {_W}, tensor<1x3xf64> {{",
            f"^(%e: {_S}, %f: {_S}, %u: {_W}, %v: tensor<1x3xf64>):",
            f"  %0 = matmul %e, %f {{transpose_a = true}} : {_W}",
            f"  %1 = add %u, %0 : {_W}",
            "  %2 = reduce_sum %e {axes = [0]} : tensor<1x3xf64>",
            "  %3 = add %2, %v : tensor<1x3xf64>",
            "  yield %1, %3",
            "}",
            "return %g, %s",
        ),
        lambda x, y, a, b, w: (
            np.einsum("tsi,tsj->ij", x, y),
            x.sum(axis=(0, 1)).reshape(1, 3),
        ),
    ),
    Example(
        "truth values and whole numbers",
        _function(
            f"n: tensor<Sx3xi32>, p: {_S}",
            "%z = constant {type = tensor<Sx3xi32>, value = [0]} : tensor<Sx3xi32>",
            "%n, %p = loop %x, %z, %a {count = T, sequences = 1, carried = 2}"
            f" : tensor<Sx3xi32>, {_S} {{",
            f"^(%e: {_S}, %c: tensor<Sx3xi32>, %u: {_S}):",
            "  %0 = less %u, %e : tensor<Sx3xi1>",
            "  %1 = cast %0 {dtype = i32} : tensor<Sx3xi32>",
            "  %2 = add %c, %1 : tensor<Sx3xi32>",
            f"  %3 = select %0, %e, %u : {_S}",
            "  yield %2, %3",
            "}",
            "return %n, %p",
        ),
        lambda x, y, a, b, w: _steps(
            lambda c, u, e: ([c + (u < e), np.where(u < e, e, u)], []),
            [np.zeros(a.shape, np.int32), a],
            x,
        ),
    ),
    Example(
        "one after the other",
        _function(
            f"ps: {_T}, q: {_S}",
            f"%p, %ps = loop %x, %a {{count = T, sequences = 1, carried = 1}} : {_S}, {_T} {{",
            f"^(%e: {_S}, %u: {_S}):",
            f"  %0 = sub %e, %u : {_S}",
            "  yield %0, %0",
            "}",
            "%q = loop %ps, %p {count = T, sequences = 1, carried = 1, backward = true}"
            f" : {_S} {{",
            f"^(%f: {_S}, %v: {_S}):",
            f"  %1 = mul %f, %v : {_S}",
            "  yield %1",
            "}",
            "return %ps, %q",
        ),
        lambda x, y, a, b, w: _one_after_the_other(x, a),
    ),
    Example(
        "nested",
        _function(
            f"p: {_S}, ps: {_T}",
            f"%p, %ps = loop %w, %y, %x, %a {{count = T, sequences = 1, carried = 1}}"
            f" : {_S}, {_T} {{",
            f"^(%v: {_W}, %all: {_T}, %e: {_S}, %u: {_S}):",
            "  %i, %is = loop %v, %e, %all, %u {count = T, sequences = 1, carried = 1}"
            f" : {_S}, {_T} {{",
            f"  ^(%m: {_W}, %k: {_S}, %f: {_S}, %c: {_S}):",
            f"    %0 = matmul %c, %m : {_S}",
            f"    %1 = add %0, %f : {_S}",
            f"    %2 = mul %1, %k : {_S}",
            f"    %3 = tanh %2 : {_S}",
            "    yield %3, %3",
            "  }",
            "  %s = reduce_sum %is {axes = [0]} : tensor<1xSx3xf64>",
            f"  %r = reshape %s {{dims = [S, 3]}} : {_S}",
            "  yield %i, %r",
            "}",
            "return %p, %ps",
        ),
        lambda x, y, a, b, w: _nested(x, y, a, w),
    ),
)
NAMES = [e.name for e in EXAMPLES]
EACH = pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)


def _one_after_the_other(x: Array, a: Array) -> tuple[Array, ...]:
    p, ps = _steps(lambda u, e: ([e - u], [e - u]), [a], x, kept=1)
    (q,) = _steps(lambda u, e: ([e * u], []), [p], ps, backward=True)
    return ps, q


def _nested(x: Array, y: Array, a: Array, w: Array) -> tuple[Array, ...]:
    def outer(u: Array, e: Array) -> tuple[list[Array], list[Array]]:
        def inner(c: Array, f: Array) -> tuple[list[Array], list[Array]]:
            c = np.tanh((c @ w + f) * e)
            return [c], [c]

        last, stack = _steps(inner, [u], y, kept=1)
        return [last], [stack.sum(axis=0)]

    return _steps(outer, [a], x, kept=1)


def operands(time: int, slots: int) -> dict[str, Array]:
    rng = np.random.default_rng(time * 10 + slots)
    shapes = {"x": (time, slots, 3), "y": (time, slots, 3), "a": (slots, 3), "b": (slots, 3)}
    return {k: rng.uniform(-1, 1, s) for k, s in {**shapes, "w": (3, 3)}.items()}


def agree(got: dict[str, Array], wanted: tuple[Array, ...]) -> None:
    assert len(got) == len(wanted)
    for array, expected in zip(got.values(), wanted, strict=True):
        assert np.shape(array) == np.shape(expected)
        np.testing.assert_allclose(array, expected, 1e-12, 1e-12)


# --- values ---------------------------------------------------------------------------------------


@EVERYWHERE
@EACH
@pytest.mark.parametrize("passes", ["", OPTIMISE], ids=["plain", "optimised"])
def test_a_loop_computes_its_steps(example: Example, backend: str, passes: str) -> None:
    module = parse(example.text)
    run(passes, module)
    target = load_backend(backend)
    assert not isinstance(target, str), target
    compiled, signature = compile_for(target, module)
    for time, slots in SIZES:
        given = operands(time, slots)
        got = call(compiled, signature, given, {"T": time, "S": slots})
        agree(got, example.expected(*given.values()))


@EACH
def test_the_references_compute_a_loop_s_steps(example: Example) -> None:
    (function,) = parse(example.text).functions
    for time, slots in SIZES:
        given = operands(time, slots)
        got = evaluate(function, given, {"T": time, "S": slots})
        agree(got, example.expected(*given.values()))


@EVERYWHERE
def test_a_known_number_of_steps(backend: str) -> None:
    for count in (0, 1, 4):
        text = f"""func @main(%x: tensor<{count}x3xf32> input, %a: tensor<3xf32> input)
            -> (p: tensor<3xf32>, ps: tensor<{count}x3xf32>) {{
          %p, %ps = loop %x, %a {{count = {count}, sequences = 1, carried = 1}}
              : tensor<3xf32>, tensor<{count}x3xf32> {{
          ^(%e: tensor<3xf32>, %u: tensor<3xf32>):
            %0 = add %e, %u : tensor<3xf32>
            yield %0, %0
          }}
          return %p, %ps
        }}"""
        target = load_backend(backend)
        assert not isinstance(target, str), target
        compiled, signature = compile_for(target, parse(text))
        x = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
        a = np.ones(3, np.float32)
        got = call(compiled, signature, {"x": x, "a": a}, {})
        np.testing.assert_array_equal(got["ps"], np.cumsum([a, *x], axis=0)[1:])
        np.testing.assert_array_equal(got["p"], a + x.sum(axis=0))


@EVERYWHERE
def test_a_loop_may_update_an_argument(backend: str) -> None:
    text = """dim T <= 8
      func @main(%x: tensor<Tx3xf64> input, %a: tensor<3xf64> state)
          -> (a: tensor<3xf64> updates %a, old: tensor<3xf64>) {
        %p = loop %x, %a {count = T, sequences = 1, carried = 1} : tensor<3xf64> {
        ^(%e: tensor<3xf64>, %u: tensor<3xf64>):
          %0 = add %e, %u : tensor<3xf64>
          yield %0
        }
        return %p, %a
      }"""
    target = load_backend(backend)
    assert not isinstance(target, str), target
    compiled, signature = compile_for(target, parse(text))
    for time in (0, 1, 8):
        x, a = np.ones((time, 3)), np.arange(3.0)
        got = call(compiled, signature, {"x": x, "a": a}, {"T": time})
        np.testing.assert_array_equal(got["a"], a + time)
        np.testing.assert_array_equal(got["old"], a)


# --- text, plans ----------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("passes", ["", KERNEL_PIPELINE, f"{OPTIMISE},{KERNEL_PIPELINE}"])
def test_a_loop_is_what_its_text_says(example: Example, passes: str) -> None:
    module = parse(example.text)
    run(passes, module)
    text = print_module(module)
    again = parse(text)
    assert print_module(again) == text
    sink = DiagnosticSink()
    verify_module(again, sink)
    assert sink.diagnostics == []


@EACH
def test_the_plan_of_a_loop_is_sound(example: Example) -> None:
    module = parse(example.text)
    run(KERNEL_PIPELINE, module)
    assert check_plan(module.functions[0]) == []


def run(passes: str, module: Module) -> None:
    if passes:
        PassManager(pipeline(passes), verify=True, check_claim=True).run(module, default_context())


def test_a_loop_comes_apart_into_its_groups() -> None:
    (function,) = parse(EXAMPLES[0].text).functions
    (op,) = [o for o in function.block if o.opdef is LOOP]
    parts = loop_parts(op)
    assert [v.name for v in (*parts.invariants, *parts.sequences, *parts.initial)] == list("wxa")
    assert [v.name for v in (*parts.shared, *parts.elements, *parts.carry_in)] == [
        *("v", "e", "before")
    ]
    assert parts.carry_out == parts.stacked
    assert [v.name for v in (*parts.final, *parts.stacks)] == ["h", "hs"]
    assert parts.params == LoopParams(parts.params.count, 1, 1)
    assert parts.stacks[0].type == function.arguments[0].type
    assert parts.final[0].type == TensorType(function.arguments[2].type.dims, DType.F64)  # type: ignore[union-attr]


# --- the checker of plans -------------------------------------------------------------------------

ROTATED = """func @main(%x: tensor<4x2xf64> input, %a: tensor<2xf64> input, %b: tensor<2xf64> input)
    -> (p: tensor<2xf64>, q: tensor<2xf64>, r: tensor<2xf64>) arena 192 {
  %p, %q, %r = loop %x, %a, %b, %b {count = 4, sequences = 1, carried = 3, history = [-1, -1, -1]}
      at result:0, result:1, result:2 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64> {
  ^(%e: tensor<2xf64>, %u: tensor<2xf64>, %v: tensor<2xf64>, %m: tensor<2xf64>):
    %0 = kernel %u, %e at arena:0 : tensor<2xf64> {
    ^(%1: tensor<2xf64>, %2: tensor<2xf64>):
      %3 = add %1, %2 : tensor<2xf64>
      yield %3
    }
    %4 = copy %v at arena:64 : tensor<2xf64>
    %5 = copy %m at arena:128 : tensor<2xf64>
    %6 = copy %4 at carried:0 : tensor<2xf64>
    %7 = copy %5 at carried:1 : tensor<2xf64>
    %8 = copy %0 at carried:2 : tensor<2xf64>
    yield %6, %7, %8
  }
  return %p, %q, %r
}"""

KEPT = """func @main(
    %w: tensor<2x2xf64> input, %x: tensor<4x3x2xf64> input, %a: tensor<3x2xf64> input)
    -> (h: tensor<3x2xf64>, s: tensor<1x3x2xf64>) arena 384 {
  %h, %hs = loop %w, %x, %a {count = 4, sequences = 1, carried = 1, history = [0]}
      at result:0, arena:0 : tensor<3x2xf64>, tensor<4x3x2xf64> {
  ^(%v: tensor<2x2xf64>, %e: tensor<3x2xf64>, %before: tensor<3x2xf64>):
    %0 = gemm %before, %v at arena:192 : tensor<3x2xf64>
    %1 = kernel %0, %e at stack:0 : tensor<3x2xf64> {
    ^(%2: tensor<3x2xf64>, %3: tensor<3x2xf64>):
      %4 = add %2, %3 : tensor<3x2xf64>
      yield %4
    }
    yield %1, %1
  }
  %s = kernel %hs at result:1 : tensor<1x3x2xf64> {
  ^(%5: tensor<4x3x2xf64>):
    %6 = reduce_sum %5 {axes = [0]} : tensor<1x3x2xf64>
    yield %6
  }
  return %h, %s
}"""

INNER = """func @main(%x: tensor<4x2xf64> input, %a: tensor<2xf64> input)
    -> (p: tensor<2xf64>) arena 128 {
  %q = loop %x, %a {count = 4, sequences = 1, carried = 1, history = [-1]} at arena:0
      : tensor<2xf64> {
  ^(%e: tensor<2xf64>, %u: tensor<2xf64>):
    %0 = copy %e at arena:64 : tensor<2xf64>
    %1 = kernel %u, %0 at carried:0 : tensor<2xf64> {
    ^(%2: tensor<2xf64>, %3: tensor<2xf64>):
      %4 = add %2, %3 : tensor<2xf64>
      yield %4
    }
    yield %1
  }
  %p = copy %q at result:0 : tensor<2xf64>
  return %p
}"""


@pytest.mark.parametrize("text", [ROTATED, KEPT, INNER], ids=["rotated", "kept", "inner"])
def test_a_sound_plan_has_no_problems(text: str) -> None:
    assert check_plan(parse(text).functions[0]) == []


@pytest.mark.parametrize(
    ("text", "old", "new", "problem"),
    [
        (ROTATED, "arena 192", "arena 128", "ends past the arena's 128 bytes"),
        (ROTATED, "%5 = copy %m at arena:128", "%5 = copy %m at arena:64", "reads"),
        # What is carried as %v is written before it is read.
        (
            ROTATED,
            "%0 = kernel %u, %e at arena:0",
            "%0 = kernel %u, %e at carried:1",
            "reads %v",
        ),
        (ROTATED, "%6 = copy %4", "%6 = copy %u", "over its operand"),
        (ROTATED, "%7 = copy %5", "%7 = copy %u", "reads %u"),
        (ROTATED, "yield %6, %7, %8", "yield %7, %6, %8", "carried value 0 is not what"),
        (ROTATED, "yield %6, %7, %8", "yield %4, %7, %8", "carried value 0 is not what"),
        (ROTATED, "yield %6, %7, %8", "yield %u, %7, %8", "whose memory holds something else"),
        (ROTATED, "carried:2", "result:2", "result r is written 3 times"),
        (ROTATED, "result:2 :", "arena:128 :", "result r is not what"),
        (KEPT, "stack:0", "arena:256", "stack 0 is not what the steps keep"),
        (KEPT, "arena:192", "arena:128", "reads %hs"),
        (KEPT, "arena:192", "carried:0", None),
        (KEPT, "at result:1", "at stack:0", "stack:0 outside every loop"),
        (INNER, "arena:64", "arena:0", "reads %u"),
        (INNER, "copy %q at result:0", "copy %a at result:0", None),
        (INNER, "at arena:0", "at result:0", "written 2 times"),
        (INNER, "kernel %u, %0", "kernel %0, %0", None),
    ],
)
def test_a_mistake_in_a_plan_is_found(text: str, old: str, new: str, problem: str | None) -> None:
    assert text.count(old) == 1
    found = check_plan(parse(text.replace(old, new)).functions[0])
    assert (found == []) if problem is None else any(problem in f for f in found), found


@pytest.mark.parametrize(
    ("text", "old", "new", "problem"),
    [
        (KEPT, "history = [0]", "history = [1]", "carried value 0 is not what stack 1 keeps"),
        (KEPT, "yield %1, %1", "yield %0, %1", "carried value 0 is not what stack 0 keeps"),
        (KEPT, "history = [0]", "history = [0, -1]", "is not what stack"),
    ],
)
def test_a_history_is_of_what_is_carried(text: str, old: str, new: str, problem: str) -> None:
    assert text.count(old) == 1
    sink = DiagnosticSink()
    verify_module(parse(text.replace(old, new)), sink)
    assert any(problem in d.message for d in sink.diagnostics), sink.diagnostics
