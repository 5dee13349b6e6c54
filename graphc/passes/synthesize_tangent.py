"""Appends the derivative of results along a direction of chosen arguments (forward mode).

    func @main(%x: tensor<3xf32> input) -> (y: tensor<3xf32>) { %y = exp %x … return %y }
becomes, for `synthesize-tangent{wrt = ["x"]}`,
    func @main(%x: … input, %tangent.x: … input) -> (y: …, tangent.y: tensor<3xf32>) {
      %y = exp %x …
      %tangent.y = mul %tangent.x, %y …
      return %y, %tangent.y
    }

Source to source, like `synthesize-gradient`: one walk in program order emits each operation's
`jvp` behind the operation and adds its terms; a loop carries tangents beside its values
(`loop_tangent.py`). Only what depends on `wrt` gets a tangent; a result that does not gets zeros.
Results that are no floating-point numbers get none. O(operations).
Source: forward accumulation, Griewank and Walther, "Evaluating Derivatives", chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from graphc.ir.printer import print_operation
from graphc.ir.types import TensorType
from graphc.ops.constant import full_like
from graphc.ops.elementwise import add
from graphc.passes.invariants import Invariant
from graphc.passes.loop_tangent import loop_jvp
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.diagnostics import DiagnosticSink, suggestion

PREFIX = "tangent."


def synthesize_tangent(
    function: Function, wrt: Sequence[str], of: Sequence[str], sink: DiagnosticSink
) -> bool:
    """Add an argument `tangent.NAME` for each of `wrt`, and results `tangent.RESULT` for `of`.

    Without `of`: for every result of floating-point numbers. False after errors, which are in the
    sink.
    """
    sources = [a for name in dict.fromkeys(wrt) if (a := _argument(function, name, sink))]
    targets = _targets(function, of, sink)
    taken = {a.name for a in function.arguments} | {r.name for r in function.results}
    for name in (*(s.name or "" for s in sources), *(function.results[i].name for i in targets)):
        if PREFIX + name in taken:
            sink.error("duplicate-name", f"`{PREFIX}{name}` is there already", function.location)
    if sink.has_errors:
        return False
    tangents = {s: _add_tangent(function, s) for s in sources}
    forward = [op for op in function.block if op is not function.block.terminator]
    _push_forward(forward, tangents, sink)
    terminator = function.block.end
    b = IRBuilder.before(terminator)
    returned = [function.returned[i] for i in targets]
    made = [tangents.get(v) or full_like(b, 0.0, v) for v in returned]
    terminator.set_operands([*terminator.operands, *made])
    function.results.extend(ResultInfo(PREFIX + function.results[i].name) for i in targets)
    return not sink.has_errors


def _argument(function: Function, name: str, sink: DiagnosticSink) -> Value | None:
    """The argument of that name, which has to be of floating-point numbers."""
    found = function.argument(name)
    if found is None:
        near = suggestion(name, [a.name or "" for a in function.arguments])
        sink.error("missing-node", f"there is no argument `{name}`{near}", function.location)
    elif not _is_float(found):
        sink.error(
            "not-differentiable",
            f"a tangent requires floating-point numbers, `{name}` is {found.type}",
            function.location,
        )
    return found


def _targets(function: Function, of: Sequence[str], sink: DiagnosticSink) -> list[int]:
    """Indices of the results that get a tangent."""
    names = [r.name for r in function.results]
    for name in of:
        if name not in names:
            near = suggestion(name, names)
            sink.error("missing-node", f"there is no result `{name}`{near}", function.location)
    floats = [_is_float(v) for v in function.returned]
    return [i for i, name in enumerate(names) if floats[i] and (not of or name in of)]


def _is_float(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype.is_float


def _add_tangent(function: Function, source: Value) -> Value:
    return function.add_argument(PREFIX + (source.name or ""), source.type, "input")


def _push_forward(
    operations: Sequence[Operation], tangents: dict[Value, Value], sink: DiagnosticSink
) -> None:
    """Walk through a block's operations; `tangents` is extended."""
    for op in operations:
        _propagate(op, tangents, sink)


def _propagate(op: Operation, tangents: dict[Value, Value], sink: DiagnosticSink) -> None:
    """Note the tangents of `op`'s results, if any operand has one."""
    if not any(v in tangents for v in op.operands) or op.opdef.vjp is NotDifferentiable.ZERO:
        return
    if isinstance(op.opdef.codegen, Loop):
        loop_jvp(op, tangents, partial(_push_forward, sink=sink))
        return
    if op.opdef.jvp is None or len(op.results) != 1:
        several = f" with {len(op.results)} results" if len(op.results) > 1 else ""
        sink.error(
            "not-differentiable",
            f"{op.opdef.name}{several} is not differentiable: {print_operation(op)}",
            op.location,
        )
        return
    assert op.block is not None
    b = IRBuilder(op.block, op.next)
    b.location = op.location.within(PREFIX + (op.location.node or op.results[0].called))
    terms = op.opdef.jvp(b, op, [tangents.get(v) for v in op.operands])
    if terms:
        total, *more = terms
        for term in more:
            total = add(b, total, term)
        if not (total.name or total.label):
            total.label = PREFIX + op.result.called
        tangents[op.result] = total


@dataclass(frozen=True)
class SynthesizeTangent(Pass):
    """`wrt`: names of arguments; `of`: names of results, all of floating-point numbers if empty."""

    name: ClassVar[str] = "synthesize-tangent"
    summary: ClassVar[str] = "append the derivative along a direction of arguments"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})
    differentiates: ClassVar[bool] = True

    wrt: tuple[str, ...]
    of: tuple[str, ...] = ()

    def run(self, module: Module, context: Context) -> PassOutcome:
        functions = [f for f in module.functions if f.kind is RegionKind.SSA]
        before = sum(len(f.block) for f in functions)
        for function in functions:
            synthesize_tangent(function, self.wrt, self.of, context.sink)
        after = sum(len(f.block) for f in functions)
        return PassOutcome(True, {"operations": after - before})
