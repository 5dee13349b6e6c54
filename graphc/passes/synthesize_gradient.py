"""Appends the gradient of one result's sum with respect to chosen values (reverse mode).

    func @main(%x: … input, %W: … parameter) -> (ce: tensor<1x1xf32>) { … return %ce }
becomes, for `synthesize-gradient{of = "ce", wrt = ["W"]}`,
    func @main(…) -> (ce: tensor<1x1xf32>, gradient.W: tensor<10x64xf32>) { … return %ce, %d.W }

Source to source: one backward walk emits each operation's `vjp` behind the forward operations, so
every later pass sees one graph. Only values that both depend on `wrt` and lead to `of` get a
cotangent (needGradient prunes); what a rule emits beyond that is dead and left to `dce`. A value
that does not influence the result has a gradient of zeros. O(operations).
Source: reverse accumulation, Griewank and Walther, "Evaluating Derivatives", chapter 3; book 2.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from graphc.ir.codegen import Loop
from graphc.ir.context import Context
from graphc.ir.core import (
    Function,
    IRBuilder,
    Module,
    NotDifferentiable,
    Operation,
    RegionKind,
    ResultInfo,
    Value,
)
from graphc.ir.names import fix_names
from graphc.ir.printer import print_operation
from graphc.ir.types import Symbol
from graphc.ops.constant import full_like
from graphc.ops.movement import RESHAPE, reshape
from graphc.passes.invariants import Invariant
from graphc.passes.loop_gradient import LABEL, Recompute, call_gradient, loop_vjp
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.sum_gradients import sum_of
from graphc.support.diagnostics import DiagnosticSink, suggestion
from graphc.support.graphs import reachable

PREFIX = "gradient."


def synthesize_gradient(
    function: Function,
    of: str,
    wrt: Sequence[str],
    sink: DiagnosticSink,
    recompute: Recompute = "auto",
) -> bool:
    """Append results `gradient.NAME`, one for each value that `wrt` names, NAME as it is spelled.

    False after errors, which are in the sink.
    """
    terminator = function.block.end
    target = next(
        (v for r, v in zip(function.results, function.returned, strict=True) if r.name == of), None
    )
    sources = _find_values(function, wrt)
    if target is None:
        near = suggestion(of, [r.name for r in function.results])
        sink.error("missing-node", f"there is no result `{of}`{near}", function.location)
    for name, source in zip(wrt, sources, strict=True):
        if _is_inside_loop(function, name, source):
            sink.error(
                "not-differentiable",
                f"a gradient requires an input, a parameter or a node outside of cycles, got "
                f"`{name}`, which is computed step by step in a loop",
                function.location,
            )
        elif source is None:
            near = suggestion(name, [a.name or "" for a in function.arguments])
            sink.error(
                "missing-node",
                f"no gradient with respect to `{name}`: the result does not use such a node{near}",
                function.location,
            )
    if target is None or sink.has_errors:
        return False
    found = list(dict.fromkeys(s for s in sources if s is not None))
    for name, value in ((of, target), *((s.name or "", s) for s in found)):
        if not value.tensor.dtype.is_float:
            sink.error(
                "not-differentiable",
                f"a gradient requires floating-point numbers, got `{name}` of type "
                f"{value.tensor.dtype}",
                function.location,
            )
    taken = {r.name for r in function.results}
    for source in found:
        if (name := PREFIX + (source.name or "")) in taken:
            sink.error("duplicate-name", f"a result is called `{name}` already", function.location)
    if sink.has_errors:
        return False
    fix_names(function)  # so that the gradient of `ce.sub_1` is `d.ce.sub_1`
    builder = IRBuilder.before(terminator)
    gradients = _backward(function, builder, target, found, sink, recompute)
    gradients = [_by_factors(builder, g, x) for g, x in zip(gradients, found, strict=True)]
    terminator.set_operands([*terminator.operands, *gradients])
    function.results.extend(ResultInfo(PREFIX + (source.name or "")) for source in found)
    return not sink.has_errors


def _find_values(function: Function, names: Sequence[str]) -> list[Value | None]:
    """The arguments or results of these names; NDL names do not distinguish case."""
    exact: dict[str, Value] = {}
    folded: dict[str, Value] = {}
    for value in (*function.arguments, *(v for op in function.block for v in op.results)):
        name = value.name or ""
        exact.setdefault(name, value)
        folded.setdefault(name.lower(), value)
    return [exact.get(name) or folded.get(name.lower()) for name in names]


def _is_inside_loop(function: Function, name: str, source: Value | None) -> bool:
    """Whether a node of that name is part of a loop, read elsewhere or not.

    Its value is the loop's, so a change of one step would not reach the steps after it.
    """
    if source is not None:
        made = source.op
        if made is not None and made.opdef is RESHAPE:
            made = made.operands[0].op
        return made is not None and isinstance(made.opdef.codegen, Loop)
    bodies = [op.regions[0].block for op in function.block if isinstance(op.opdef.codegen, Loop)]
    names = {(v.name or "").lower() for body in bodies for op in body for v in op.results}
    return name.lower() in names


def _by_factors(b: IRBuilder, gradient: Value, source: Value) -> Value:
    """A gradient of columns [T * S, …] as [T, S, …], as callers know them. The gradient's own dim
    may be the same product the other way round."""
    first, *rest = source.tensor.dims or (1,)
    if not isinstance(first, Symbol) or len(first.factors) < 2:
        return gradient
    return reshape(b, gradient, (*first.factors, *rest))


def _backward(
    function: Function,
    b: IRBuilder,
    target: Value,
    sources: Sequence[Value],
    sink: DiagnosticSink,
    recompute: Recompute,
) -> list[Value]:
    dependent = reachable(sources, lambda v: [r for op in v.users() for r in op.results])
    cotangents: dict[Value, Value] = {}
    forward = [op for op in function.block if op is not function.block.terminator]
    if target in dependent:
        cotangents[target] = full_like(b, 1.0, target)
    _send_back(b, forward, cotangents, dependent, sink, recompute)
    for source in sources:
        call_gradient(cotangents.get(source), source)
    return [cotangents.get(s) or full_like(b, 0.0, s) for s in sources]


def _send_back(
    b: IRBuilder,
    forward: Sequence[Operation],
    cotangents: dict[Value, Value],
    dependent: Mapping[Value, None],
    sink: DiagnosticSink,
    recompute: Recompute,
) -> None:
    """Walk back through a block's operations; `cotangents` is extended."""
    for op in reversed(forward):
        if any(r in cotangents and r in dependent for r in op.results):
            _propagate(b, op, cotangents, dependent, sink, recompute)


def _propagate(
    b: IRBuilder,
    op: Operation,
    cotangents: dict[Value, Value],
    dependent: Mapping[Value, None],
    sink: DiagnosticSink,
    recompute: Recompute,
) -> None:
    """Send the cotangents of `op`'s results on to the operands that need one."""
    if not any(v in dependent for v in op.operands) or op.opdef.vjp is NotDifferentiable.ZERO:
        return
    has_rule = len(op.results) == 1 and not isinstance(op.opdef.vjp, NotDifferentiable)
    if not has_rule and not isinstance(op.opdef.codegen, Loop):
        several = f" with {len(op.results)} results" if len(op.results) > 1 else ""
        sink.error(
            "not-differentiable",
            f"{op.opdef.name}{several} is not differentiable: {print_operation(op)}",
            op.location,
        )
        return
    for result in op.results:
        call_gradient(cotangents.get(result), result)
    node = op.location.node or op.results[0].called
    with b.at(op.location.within(LABEL + node)):
        if isinstance(op.opdef.codegen, Loop):
            back = partial(_send_back, sink=sink, recompute=recompute)
            contributions = loop_vjp(b, op, cotangents, dependent, back, recompute)
        else:
            assert not isinstance(op.opdef.vjp, NotDifferentiable)
            contributions = op.opdef.vjp(b, op, cotangents[op.result])
        for operand, contribution in zip(op.operands, contributions, strict=True):
            if contribution is None or operand not in dependent:
                continue
            earlier = cotangents.get(operand)
            cotangents[operand] = (
                contribution if earlier is None else sum_of(b, earlier, contribution)
            )


@dataclass(frozen=True)
class SynthesizeGradient(Pass):
    """`of`: name of the result whose sum is differentiated; `wrt`: names of arguments or nodes.

    recompute  what the reverse steps of loops compute again (`loop_gradient.py`)
    """

    name: ClassVar[str] = "synthesize-gradient"
    summary: ClassVar[str] = "append the gradient of a result"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})
    differentiates: ClassVar[bool] = True

    of: str
    wrt: tuple[str, ...]
    recompute: Recompute = "auto"

    def run(self, module: Module, context: Context) -> PassOutcome:
        functions = [f for f in module.functions if f.kind is RegionKind.SSA]
        before = sum(len(f.block) for f in functions)
        for function in functions:
            synthesize_gradient(function, self.of, self.wrt, context.sink, self.recompute)
        after = sum(len(f.block) for f in functions)
        return PassOutcome(True, {"operations": after - before})
