"""Gives every buffer of a kernel-level function its place.

    func @f(…) -> (y: …) {                          func @f(…) -> (y: …) arena 40960 {
      %0 = gemm %x, %w : tensor<Nx10xf32>     =>      %0 = gemm %x, %w {at = ["arena:0"]} : …
      %y = kernel %0, %b : tensor<Nx10xf32> {         %y = kernel %0, %b {at = ["result:0"]} : … {

Results of the function are written where the caller wants them: "result:I", or "argument:I" for one
that updates an argument. Where that cannot be (a returned argument, a value returned twice, an
argument still read after its update) a `copy` is added. Everything else lies in the arena at
constant offsets, planned with every dimension at its bound. Leaves alone: what operations compute,
and their order.

Algorithm: one walk in program order with a list of free ranges; each buffer takes the smallest
range that holds it (best fit), and is given back after its last reader (`analysis/liveness.py`;
views count as readers). A kernel without reductions may write its result over an operand that dies
there, if it reads that operand element by element at the result's dims. Buffers are aligned to 64
bytes. O(n log n) for n operations, besides moving list entries.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from graphc.ir.codegen import Reduction
from graphc.ir.context import Context
from graphc.ir.core import Function, Module, Operation, Value
from graphc.ir.types import TensorType
from graphc.ops.kernel import COPY, KERNEL, KernelParams, Place, PlacedParams, places
from graphc.passes.analysis.liveness import Liveness, live_ranges
from graphc.passes.analysis.memory import ALIGNMENT, memory_report, peak_formula
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

__all__ = ["PlanMemory", "peak_formula", "plan"]


def can_write_over(op: Operation, result: Value, root: Value, liveness: Liveness) -> bool:
    """Whether `op` may write `result` over `root`, one of its operands, seen from `op` alone."""
    if op.opdef is not KERNEL:
        return False
    body = op.regions[0].block
    if any(isinstance(inner.opdef.codegen, Reduction) for inner in body):
        return False
    if any(_elements(v) > _elements(result) for inner in body for v in inner.results):
        return False  # the kernel runs over more than the result, which is then written repeatedly
    reads = [v for v in op.operands if liveness.roots[v] is root]
    return all(v.type == result.type for v in reads)


def _elements(value: Value) -> int:
    assert isinstance(value.type, TensorType)
    return value.type.bound_elements


def plan(function: Function) -> None:
    """Place every result of a fused function; adds copies where results need them."""
    copies_first = _stage_updated_arguments(function)
    outside = _place_results(function)
    offsets, size = _plan_arena(function, outside)
    del copies_first
    for op in function.block:
        if isinstance(op.params, PlacedParams):
            at = (outside.get(v) or Place("arena", offsets[v]) for v in op.results)
            op.params = replace(op.params, at=tuple(map(str, at)))
    function.arena = size
