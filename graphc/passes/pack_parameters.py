"""Takes matrices of the model in the order in which tiles read them; for code that parameters are
part of.

    %y = gemm %x, %W schedule {tile = {rows = 12, vectors = 2, lanes = 16, b = "packed by tiles"}}
 =>
    %y = gemm %x, %W schedule {tile = {rows = 12, vectors = 2, lanes = 16, b = "panels"}}

Whoever binds the function lays a parameter that is read so in panels as wide as a tile, once
(`runtime.layouts.in_panels`). A call then reads memory from its beginning to its end, which the
processor fetches ahead, and copies nothing. Products of one or two rows read several panels at
once. The numbers keep their bits;
of products in pairs of bf16 they lie in pairs (`runtime.layouts.in_pairs`), half as many bytes.

    %0 = reshape %K {dims = [4, 16, 3, 7, 7]} : tensor<4x16x3x7x7xf32>
    %1 = move.transpose %0 {permutation = [0, 3, 4, 2, 1]} : tensor<4x7x7x3x16xf32>
 =>
    %1 = laid %K {dims = [4, 16, 3, 7, 7], permutation = [0, 3, 4, 2, 1]} : tensor<4x7x7x3x16xf32>

Likewise weights that are only transposed, as convolutions want them: their memory holds them so.
And those of convolutions by Winograd's algorithm lie as it transforms them (`transformed = true`,
`runtime.layouts.transformed`), which smaller images are worth then: those have other last bits.

Leaves alone: a parameter that is no matrix, or that anything but products reads, or not all of
them by rows in panels of one width; short rows, which lie side by side as they are; products over a
batch; a parameter that is not transposed, or by more than one operation. O(operations).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, Operation, Value
from graphc.ir.machine import MACHINES, Machine
from graphc.ir.types import fixed_size
from graphc.ops.kernel import FORMS, LAID, LaidParams
from graphc.ops.movement import RESHAPE, TRANSPOSE, TransposeParams
from graphc.ops.schedules import ConvSchedule, ProductSchedule
from graphc.passes.analysis.panels import is_product, laid_value, readers
from graphc.passes.analysis.product_tiles import panel_schedule, panel_width
from graphc.passes.analysis.winograd import transformed_schedule
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.diagnostics import suggestion
from graphc.support.matrix_sizes import matrix_sizes


def pack_parameters(function: Function, machine: Machine) -> int:
    """Change the schedules of products with parameters; how many parameters are to be packed."""
    updated = {result.updates for result in function.results}
    count = 0
    for argument, role in zip(function.arguments, function.roles, strict=True):
        if role not in ("parameter", "transposed") or argument.name in updated:
            continue
        if role == "parameter":
            is_laid, is_transformed = _lay(argument), _transform(argument, machine)
            if is_laid or is_transformed:
                count += 1
                continue
        schedules = _schedules(argument, machine)
        for op, schedule in schedules.items():
            op.schedule = schedule
        count += bool(schedules)
    return count


def _lay(argument: Value) -> bool:
    """Whether all that is read of the parameter is one transposition, which is then a view."""
    path: list[Operation] = []
    value = argument
    while len(value.uses) == 1:
        op = value.uses[0][0]
        path.insert(0, op)
        if op.opdef is FORMS[TRANSPOSE]:
            break
        if op.opdef is not RESHAPE:
            return False
        value = op.result
    if not path or path[0].opdef is not FORMS[TRANSPOSE]:
        return False
    last, *views = path
    dims = tuple(map(fixed_size, last.operands[0].tensor.dims))
    params = LaidParams(dims, last.params_as(TransposeParams).permutation)
    last.replace_with([IRBuilder.before(last).emit_one(LAID, argument, params=params)])
    for view in views:
        view.erase()
    return True


def _transform(argument: Value, machine: Machine) -> bool:
    """Whether all that reads it are convolutions by Winograd's algorithm, which then take its
    windows transformed."""
    reads = [*readers(laid_value(argument))]
    found: dict[Operation, ConvSchedule] = {}
    for op, place in reads:
        schedule = transformed_schedule(op, machine) if place == 1 else None
        if schedule is None:
            return False
        found[op] = schedule
    for op, schedule in found.items():
        op.schedule = schedule
    return bool(found)


def _schedules(argument: Value, machine: Machine) -> dict[Operation, ProductSchedule]:
    """Those of all that reads it, in panels of one width; empty if there is one that cannot."""
    found: dict[Operation, ProductSchedule] = {}
    if len(matrix_sizes(argument.tensor.dims)) != 2:
        return found
    for op, place in readers(argument):
        schedule = panel_schedule(op, machine) if is_product(op) and place == 1 else None
        if schedule is None:
            return {}
        found[op] = schedule
    return found if len({(panel_width(s, "panels"), s.pairs) for s in found.values()}) == 1 else {}


@dataclass(frozen=True)
class PackParameters(Pass):
    """`machine`: the name of an instruction set, or a machine with all its fields."""

    name: ClassVar[str] = "pack-parameters"
    summary: ClassVar[str] = "take matrices of the model in panels, as tiles read them"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})

    machine: str | Machine = "x86-64-v3"

    def run(self, module: Module, context: Context) -> PassOutcome:
        machine = MACHINES.get(self.machine) if isinstance(self.machine, str) else self.machine
        if machine is None:
            known, near = ", ".join(MACHINES), suggestion(str(self.machine), MACHINES)
            message = f"pack-parameters requires a machine out of {known}, got {self.machine}{near}"
            context.sink.error("bad-option", message)
            return PassOutcome(changed=False)
        count = sum(pack_parameters(f, machine) for f in module.functions)
        return PassOutcome(changed=count > 0, counters={"packed": count})
