"""In which order a function wants matrices of the model: in panels where products say so,
transposed, where `laid` does, and as Winograd's algorithm transforms them where convolutions do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphc.ir.codegen import Loop
from graphc.ir.core import Function, Operation, Value
from graphc.ir.traversal import walk
from graphc.ops.kernel import LAID, LaidParams
from graphc.ops.loop import loop_parts
from graphc.ops.schedules import ConvSchedule, ProductSchedule
from graphc.passes.analysis.product_tiles import panel_width
from graphc.passes.analysis.window_products import by_windows
from graphc.support.diagnostics import fail


@dataclass(frozen=True)
class Panels:
    """Panels of so many columns; `pairs`: of pairs of bf16."""

    width: int
    pairs: bool = False


@dataclass(frozen=True)
class Windows:
    """Weights [blocks, 3, 3, channels, columns] that lie transformed."""

    blocks: int
    channels: int
    columns: int


def readers(value: Value) -> Iterator[tuple[Operation, int]]:
    """The operations that read a value, and at which operand, those in loops included."""
    for op, place in value.uses:
        if isinstance(op.opdef.codegen, Loop) and place < len(loop_parts(op).invariants):
            yield from readers(op.regions[0].block.arguments[place])
        else:
            yield op, place


def is_product(op: Operation) -> bool:
    """Whether it is a product of the kernel level."""
    return isinstance(op.schedule, ProductSchedule)


def panels_of(function: Function) -> dict[Value, Panels]:
    """The arguments that lie in panels, and in which.

    GraphcError (bad-schedule) where a product wants something else in panels, or not all that read
    a matrix want it in the same.
    """
    wanting = {op for op in walk(function) if is_product(op) and _panels(op)}
    found: dict[Value, Panels] = {}
    for argument, role in zip(function.arguments, function.roles, strict=True):
        reads = [*readers(argument)] if wanting and role in ("parameter", "transposed") else []
        wanted = {_panels(op) if is_product(op) and place == 1 else None for op, place in reads}
        if len(wanted) == 1 and (panels := wanted.pop()):
            found[argument] = panels
            wanting -= {op for op, _ in reads}
    for op in wanting:
        message = f'`{op.opdef.name}` with b = "panels" requires a parameter as its second operand'
        what = "that is read so by all that read it"
        raise fail("bad-schedule", f"{message}, {what}", op.location)
    return found


def laid_of(function: Function) -> dict[Value, LaidParams]:
    """The arguments that lie transposed, and how.

    GraphcError (bad-schedule) where `laid` is of something else.
    """
    laid = [op for op in walk(function) if op.opdef is LAID]
    roles = dict(zip(function.arguments, function.roles, strict=True))
    for op in laid:
        (x,) = op.operands
        if roles.get(x) != "parameter" or len(x.uses) > 1:
            message = "`laid` requires a parameter that nothing else reads"
            raise fail("bad-schedule", message, op.location)
    return {op.operands[0]: op.params_as(LaidParams) for op in laid}


def transformed_of(function: Function) -> dict[Value, Windows]:
    """The arguments whose windows lie transformed.

    GraphcError (bad-schedule) where a convolution wants something else so, or not all that read the
    weights want it so.
    """
    wanting = {op for op in walk(function) if _windows(op)}
    found: dict[Value, Windows] = {}
    for argument, role in zip(function.arguments, function.roles, strict=True):
        reads = [*readers(laid_value(argument))] if wanting and role == "parameter" else []
        wanted = {_windows(op) if place == 1 else None for op, place in reads}
        if len(wanted) == 1 and (windows := wanted.pop()):
            found[argument] = windows
            wanting -= {op for op, _ in reads}
    for op in wanting:
        message = f"`{op.opdef.name}` with transformed weights requires a parameter for them"
        raise fail("bad-schedule", f"{message}, that is read so by all that read it", op.location)
    return found


def laid_value(argument: Value) -> Value:
    """What reads an argument as its memory holds it: `laid`, or itself."""
    op = argument.uses[0][0] if len(argument.uses) == 1 else None
    return op.result if op is not None and op.opdef is LAID else argument


def _windows(op: Operation) -> Windows | None:
    if not isinstance(op.schedule, ConvSchedule) or not op.schedule.transformed:
        return None
    what = by_windows(op)
    block = what.block or what.outputs
    return Windows(what.outputs // block, what.channels, block)


def _panels(op: Operation) -> Panels | None:
    schedule = op.schedule_as(ProductSchedule)
    width = panel_width(schedule, "panels")
    return Panels(width, schedule.pairs) if width else None
