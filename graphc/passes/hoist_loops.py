"""Moves work out of loops where it need not be done in every step.

    %dw = loop %dy, %h, %zero {…} {                %kept = loop … { … yield …, %dy }
    ^(%dy, %h, %sum):                        =>    %dw = matmul %kept, %h {transpose_a = true,
      %0 = matmul %dy, %h {transpose_a = true}             contract = 2}
      %1 = add %sum, %0
      yield %1

  invariant  loop-invariant operations are computed once, before the loop
  transposed invariant matrices that steps would read against their row order are transposed once
  products   a product whose operands do not depend on carried values is one product for all steps
  sums       a carried sum becomes a sum over all steps after the loop: a sum of products is one
             product over T * S rows

Sums change their order and may begin with -0; nothing else changes. Constants, broadcasts and views
stay where they are read, since they are free inside a kernel. Sums after the loop read stacks, so
the loop keeps more of each step. Loops with a loop inside exist to keep less, so their sums stay.
O(operations).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from graphc.ir.codegen import FREE, Elementwise, Loop, View
from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, Operation, RegionKind, Trait, Value
from graphc.ir.traversal import made_of, walk
from graphc.ops.contraction import MATMUL, MatmulParams
from graphc.ops.elementwise import ADD, add
from graphc.ops.loop import LoopParts, loop_parts
from graphc.ops.movement import reshape, transpose
from graphc.ops.reduction import REDUCE_SUM, ReduceParams, reduce_sum
from graphc.passes.batching_rules import batching_rule
from graphc.passes.invariants import Invariant
from graphc.passes.loop_editing import append_stack, close_loop, open_loop
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.matching import is_float, is_number, made_by
from graphc.passes.trim_loops import trim_loops

KINDS: tuple[str, ...] = ("invariant", "transposed", "products", "sums")


def hoist(function: Function, kinds: Collection[str] = KINDS) -> dict[str, int]:
    """Hoist out of the loops of `function`; the number of hoisted operations of each kind."""
    counts: dict[str, int] = dict.fromkeys(KINDS, 0)
    if function.kind is not RegionKind.SSA or function.arena is not None:
        return counts
    # Inner loops first: operations that leave them may leave the outer one too.
    for op in reversed([op for op in walk(function) if isinstance(op.opdef.codegen, Loop)]):
        body = op.regions[0].block
        is_innermost = not any(isinstance(inner.opdef.codegen, Loop) for inner in body)
        if "sums" in kinds and is_innermost:
            counts["sums"] += _hoist_sums(op)
        _Mover(op, kinds, counts).run()
    if any(counts.values()):
        trim_loops(function)
    return counts


# --- invariants and products ----------------------------------------------------------------------


class _Mover:
    """Moves operations from the body of one loop to the place before it."""

    def __init__(self, loop: Operation, kinds: Collection[str], counts: dict[str, int]) -> None:
        self._kinds = kinds
        self._counts = counts
        self._draft = open_loop(loop)
        self._builder = IRBuilder.before(loop)
        self._count = self._draft.params.count
        # The same value outside: as it is, and for all steps at once.
        self._whole = {r.inner: r.outer for r in self._draft.invariants}
        self._transposed: dict[Value, Value] = {}
        self._streams = {r.inner: r.outer for r in self._draft.sequences}

    def run(self) -> None:
        before = dict(self._counts)
        for op in self._draft.block:
            self._look_at(op)
        if self._counts != before:
            self._draft.refresh()
            close_loop(self._draft)

    def _look_at(self, op: Operation) -> None:
        if not op.opdef.has(Trait.PURE) or op.opdef.has(Trait.TERMINATOR) or op.regions:
            return
        if isinstance(op.opdef.codegen, FREE):
            return
        if "invariant" in self._kinds and self._is_known(op, streams=False):
            outer = self._outside(op.result)
            self._counts["invariant"] += 1
            inner = self._draft.add_invariant(outer)
            self._whole[inner] = outer
            op.replace_with([inner])
        elif op.opdef is MATMUL and "products" in self._kinds and self._is_of_streams(op):
            outer = self._for_all_steps(op.result)
            self._counts["products"] += 1
            inner = self._draft.add_sequence(outer)
            self._streams[inner] = outer
            op.replace_with([inner])
        elif op.opdef is MATMUL and "transposed" in self._kinds and self._reads_transposed(op):
            self._counts["transposed"] += 1
            op.replace_with([self._with_transposed(op)])

    def _is_of_streams(self, op: Operation) -> bool:
        """Whether `op` depends on sequences, maybe on invariants too, and on nothing else."""
        return self._is_known(op, streams=True) and not self._is_known(op, streams=False)

    def _reads_transposed(self, op: Operation) -> bool:
        """Whether a product walks across the rows of an invariant matrix in every step."""
        params = op.params_as(MatmulParams)
        matrix = op.operands[1]
        is_plain = params.transpose_b and not params.batch and matrix.tensor.rank == 2
        return is_plain and matrix in self._whole

    def _with_transposed(self, op: Operation) -> Value:
        """The product with the matrix transposed before the loop."""
        x, matrix = op.operands
        if matrix not in self._transposed:
            with self._builder.at(op.location):
                self._transposed[matrix] = transpose(self._builder, self._whole[matrix], (1, 0))
            self._transposed[matrix].label = f"{self._whole[matrix].called}.transpose"
        outer = self._transposed[matrix]
        inner = self._draft.add_invariant(outer)
        self._whole[inner] = outer
        params = replace(op.params_as(MatmulParams), transpose_b=False)
        return IRBuilder.before(op).emit_one(MATMUL, x, inner, params=params)

    def _is_known(self, op: Operation, *, streams: bool) -> bool:
        """Whether `op` depends on invariants only, or with `streams` on sequences too."""
        work, seen = list(op.operands), set[Value]()
        while work:
            value = work.pop()
            if value in seen or value in self._whole or (streams and value in self._streams):
                continue
            seen.add(value)
            maker = value.op
            if maker is None or maker.block is not self._draft.block or maker.regions:
                return False
            cheap = isinstance(maker.opdef.codegen, (*FREE, Elementwise))
            if not cheap or (streams and maker.operands and batching_rule(maker) is None):
                return False
            work.extend(maker.operands)
        return True

    def _outside(self, value: Value) -> Value:
        """An invariant value of the body, computed before the loop."""
        for inner in made_of(value, self._whole.__contains__):
            if inner in self._whole:
                continue
            op = inner.definition
            operands = [self._whole[v] for v in op.operands]
            with self._builder.at(op.location):
                self._whole[inner] = self._builder.emit(op.opdef, operands, op.params).result
        return self._whole[value]

    def _for_all_steps(self, value: Value) -> Value:
        """A value of the body that depends on sequences, computed for all steps before the loop."""
        known = {**self._whole, **self._streams}
        for inner in made_of(value, known.__contains__):
            if inner in known:
                continue
            op = inner.definition
            has_axis = [v in self._streams for v in op.operands]
            if not any(has_axis):
                self._whole[inner] = known[inner] = self._outside(inner)
                continue
            rule = batching_rule(op)
            assert rule is not None
            operands = [known[v] for v in op.operands]
            with self._builder.at(op.location):
                outer = rule(self._builder, op, operands, has_axis, self._count)
            self._streams[inner] = known[inner] = outer
        return self._streams[value]


# --- sums -----------------------------------------------------------------------------------------


def _hoist_sums(loop: Operation) -> int:
    """Move sums over the steps of `loop` after it; how many."""
    parts = loop_parts(loop)
    terms = {i: list(_terms(parts, i)) for i in range(len(parts.carry_in))}
    found = 0
    # Products first: other sums may read the stacks that they add.
    for is_product in (True, False):
        for index, values in terms.items():
            if not values or all(_is_product(v) for v in values) is not is_product:
                continue
            _sum_behind(loop, index, values)
            found += 1
    return found


def _terms(parts: LoopParts, index: int) -> Iterator[Value]:
    """What each step adds to carried value `index`; nothing if it does anything else with it."""
    before, after = parts.carry_in[index], parts.carry_out[index]
    if not is_float(before) or len(before.uses) != 1:
        return
    found: list[Value] = []
    work, has_before = [after], False
    while work:
        value = work.pop()
        op = made_by(value, ADD)
        if value is before:
            has_before = True
        elif op is not None and len(value.uses) == 1:
            work.extend(op.operands)
        elif _is_product(value) or _summed(value) is not None:
            found.append(value)
        else:
            return
    if has_before:
        yield from reversed(found)


def _is_product(value: Value) -> bool:
    """Whether it is a product over rows: then the steps' rows can be put one below the other."""
    op = made_by(value, MATMUL)
    if op is None or not isinstance(op.params, MatmulParams):
        return False
    return op.params.transpose_a and not op.params.transpose_b and not op.params.batch


def _summed(value: Value) -> Operation | None:
    """The sum that `value` is a view of."""
    while value.op is not None and isinstance(value.op.opdef.codegen, View):
        value = value.op.operands[0]
    return made_by(value, REDUCE_SUM)


def _sum_behind(loop: Operation, index: int, values: list[Value]) -> None:
    assert loop.block is not None
    b = IRBuilder(loop.block, loop.next)
    b.location = loop.location
    final, total = loop.results[index], loop_parts(loop).initial[index]
    for value in values:
        summed = _over_all_steps(b, loop, value)
        total = summed if is_number(total, 0.0) else add(b, total, summed)
    total.label = final.called
    final.replace_all_uses(total)


def _over_all_steps(b: IRBuilder, loop: Operation, value: Value) -> Value:
    """The sum over the steps of a product or a sum of the body."""
    if _is_product(value):
        op = value.definition
        params = op.params_as(MatmulParams)
        factors = [_stack_of(loop, v) for v in op.operands]
        return b.emit_one(MATMUL, *factors, params=replace(params, contract=params.contract + 1))
    op = _summed(value)
    assert op is not None
    stack = _computed_behind(b, loop, op.operands[0])
    axes = (0, *(a + 1 for a in op.params_as(ReduceParams).axes))
    return reshape(b, reduce_sum(b, stack, axes), value.tensor.dims)


def _computed_behind(b: IRBuilder, loop: Operation, value: Value) -> Value:
    """`value` of all steps: recomputed if its operands are kept anyway."""
    op = value.op
    if op is not None and isinstance(op.opdef.codegen, Elementwise):
        stacks = [_kept(loop, v) for v in op.operands]
        if all(s is not None for s in stacks):
            return b.emit_one(op.opdef, *(s for s in stacks if s is not None), params=op.params)
    return _stack_of(loop, value)


def _stack_of(loop: Operation, value: Value) -> Value:
    return _kept(loop, value) or append_stack(loop, value)


def _kept(loop: Operation, value: Value) -> Value | None:
    """The sequence or stack that has every step's `value`."""
    parts = loop_parts(loop)
    pairs = [
        *zip(parts.elements, parts.sequences, strict=True),
        *zip(parts.stacked, parts.stacks, strict=True),
    ]
    return next((outer for inner, outer in pairs if inner is value), None)


@dataclass(frozen=True)
class HoistLoops(Pass):
    """`kinds`: of what is moved."""

    name: ClassVar[str] = "hoist-loops"
    summary: ClassVar[str] = "move work out of loops that need not be done step by step"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    kinds: tuple[str, ...] = KINDS

    def run(self, module: Module, context: Context) -> PassOutcome:
        if unknown := [k for k in self.kinds if k not in KINDS]:
            known = ", ".join(KINDS)
            message = f"hoist-loops requires kinds out of {known}, got {unknown[0]}"
            context.sink.error("bad-option", message)
            return PassOutcome(False)
        found = [hoist(f, self.kinds) for f in module.functions]
        counters = {name: sum(f[name] for f in found) for name in found[0]} if found else {}
        return PassOutcome(any(counters.values()), counters)
