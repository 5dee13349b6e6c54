"""Takes a function apart: what depends on some of its arguments alone is computed early, and kept.

    func @f(%x: tensor<Nx4xf32> input, %v: tensor<1x4xf32> parameter) -> (y: tensor<Nx4xf32>) {
      %e = exp %v : tensor<1x4xf32>
      %b = broadcast %e {…} : tensor<Nx4xf32>
      %y = mul %x, %b : tensor<Nx4xf32>
 =>   part = "early"                                  part = "rest"
    func @f(%v: … parameter)                      func @f(%x: …, %early.1f…: … parameter)
        -> (early.1f…: tensor<1x4xf32>) {             -> (y: tensor<Nx4xf32>) {
      %e = exp %v : tensor<1x4xf32>                 %b = broadcast %early.1f… {…} : tensor<Nx4xf32>
      return %e                                     %y = mul %x, %b : tensor<Nx4xf32>

Without `inputs` early is what depends on parameters alone, whose values never change: the rest
takes it as a parameter. With `inputs`, which a caller gives less often than others, it is what
depends on those, and on parameters if these are `frozen`; the rest takes it as `kept`, and those
inputs no more. Both parts are made of the same function, so they agree on names, which say what is
computed.

Stays in the rest: operations with regions, what costs nothing to compute again (broadcasts, views),
and what has as many elements as only a call says, unless an early input has them. O(operations).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from graphc.ir.codegen import FREE
from graphc.ir.context import Context
from graphc.ir.core import Function, Module, Operation, RegionKind, ResultInfo, Value
from graphc.ir.params import print_params
from graphc.passes.analysis.early_values import early_values
from graphc.passes.eliminate_dead_code import remove_dead_operations
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

EARLY = "early."
"""Before what names an early value: no parameter is called like that and 16 digits."""
EarlyPart = Literal["early", "rest"]


def split_early(
    function: Function, inputs: Sequence[str], part: EarlyPart, *, frozen: bool = True
) -> int:
    """Leave this part of `function`; how many values the early one makes."""
    if function.kind is not RegionKind.SSA:
        return 0
    known = early_values(function, inputs, frozen=frozen)
    wanted = _wanted(function, known)
    digests = _digests(function, known) if wanted else {}
    names = {value: f"{EARLY}{digests[value]}" for value in wanted}
    if part == "early":
        function.block.end.set_operands(wanted)
        function.results = [ResultInfo(names[value]) for value in wanted]
        remove_dead_operations(function)
        function.drop_unread(set(function.arguments))
    else:
        for value in wanted:
            role = "kept" if inputs else "parameter"
            value.replace_all_uses(function.add_argument(names[value], value.type, role))
        remove_dead_operations(function)
        function.drop_unread({v for v in known if v.op is None})
    return len(wanted)


def _wanted(function: Function, known: dict[Value, bool]) -> list[Value]:
    """The known values that the rest reads, in their order."""
    todo = [op for op in function.block if not any(v in known for v in op.results)]
    rest: set[Operation] = set(todo)
    wanted: set[Value] = set()
    while todo:
        for value in todo.pop().operands:
            op = value.op
            is_asked = known.get(value, False)
            if op is None:
                if is_asked and function.roles[value.index] == "input":
                    wanted.add(value)
            elif is_asked and not isinstance(op.opdef.codegen, FREE):
                wanted.add(value)
            elif op not in rest:
                rest.add(op)
                todo.append(op)
    results = [v for op in function.block for v in op.results]
    return [v for v in (*function.arguments, *results) if v in wanted]


def _digests(function: Function, known: Collection[Value]) -> dict[Value, str]:
    """What is computed, in short: the same for the same in any function of these arguments."""
    found = {a: _digest(f"{a.name} {a.type}") for a in function.arguments}
    for op in function.block:
        for value in (v for v in op.results if v in known):
            what = f"{op.opdef.name} {print_params(op.params)} {value.index} {value.type}"
            found[value] = _digest("\n".join([what, *(found[v] for v in op.operands)]))
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class SplitEarly(Pass):
    """`inputs`: names of inputs; `part`: what is left; `frozen`: parameters do not change."""

    name: ClassVar[str] = "split-early"
    summary: ClassVar[str] = "take apart what depends on some arguments alone, to compute it once"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    inputs: tuple[str, ...] = ()
    part: EarlyPart = "rest"
    frozen: bool = True

    def run(self, module: Module, context: Context) -> PassOutcome:
        counts = [
            split_early(f, self.inputs, self.part, frozen=self.frozen) for f in module.functions
        ]
        return PassOutcome(
            changed=self.part == "early" or any(counts), counters={"early": sum(counts)}
        )
