"""From a planned function to a program: its kernels, and the steps that launch them.

What a category of operations becomes is written by the file of its kernels, through
`Launcher` (`launcher.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from graphc.backends.cuda.categories import write_operation
from graphc.backends.cuda.kernel import Kernel
from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.moves import launch_copy
from graphc.backends.cuda.steps import Either, Launch, Number, Part, Place, Step, Turns, Where
from graphc.backends.walk import Walker
from graphc.ir.core import Function, Operation, Value
from graphc.ir.elements import element_bytes
from graphc.ir.machine import GpuMachine
from graphc.ir.placement import Address
from graphc.ir.types import Dim, TensorType
from graphc.ops.constant import ConstantParams
from graphc.passes.analysis.costs import cost
from graphc.passes.analysis.loopnest import Size, constants_of
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import InternalError

SCRATCH_ALIGNMENT = 256
SCRATCH_IN_TURN = 16 * 1024 * 1024
"""Operations take scratch memory one behind the other, so that they can run side by side, and from
the start again when this much is taken: it stays in the cache that all share."""


@dataclass(frozen=True)
class Program:
    """A function as its kernels and steps.

    kernels  by name
    scratch  bytes of memory that it needs besides the arena
    summary  how it is run and why, for people
    epoch    steps that run minibatches of a data set, of a training step that goes through one by
             itself (`minibatches.py`); if it is one kernel, that is all of `steps` too
    """

    kernels: Mapping[str, Kernel]
    steps: tuple[Step, ...]
    scratch: int = 0
    summary: str = ""
    epoch: tuple[Step, ...] = ()


class ProgramWriter(Walker[Where, Number]):
    """Goes through a function; see `Launcher`."""

    def __init__(
        self, module: CudaModule, signature: Signature, machine: GpuMachine, contraction: str
    ) -> None:
        super().__init__({})
        self.module = module
        self.machine = machine
        self.contraction = contraction
        self._results = _result_slots(signature)
        self._steps: list[Step] = []
        self._loops = 0
        self._remark = ""
        self._flops = self._moved = 0
        self._scratch = self.most_scratch = 0

    def program(self) -> Program:
        return Program(dict(self.module.kernels), tuple(self._steps), self.most_scratch)

    # --- what kernels are written through

    def launch(self, kernel: Kernel, pointers: Sequence[Where], writes: Sequence[int]) -> None:
        if len(pointers) != len(kernel.pointers):
            raise InternalError(f"{kernel.name} takes {len(kernel.pointers)} pointers")
        flops, self._flops = self._flops, 0
        given = tuple(pointers), self._remark, frozenset(writes)
        self._steps.append(Launch(kernel.name, *given, flops, self._moved))

    def scratch(self, size: int) -> Where:
        place = Place("scratch", self._scratch, size)
        self._scratch += -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        self.most_scratch = max(self.most_scratch, self._scratch)
        return place

    def workspace(self, op: Operation) -> list[Where]:
        return [self._place(w.place, w.type) for w in op.workspace]

    def constants(self, op: Operation) -> dict[int, str]:
        return {
            i: self.module.data(_constant_bytes(params), params.type.dtype)
            for i, params in enumerate(constants_of(op))
        }

    # --- operations

    def begin(self, op: Operation) -> None:
        self._remark = _described(op)
        if self._scratch >= SCRATCH_IN_TURN:
            self._scratch = 0

    def compute(self, op: Operation) -> None:
        # What several launches share is counted with the first.
        found = cost(op)
        self._flops, self._moved = found.flops, found.bytes
        write_operation(self, op)
        self._flops = self._moved = 0

    def view(self, op: Operation) -> Where:
        return self.where[op.operands[0]]

    def placed(self, value: Value, place: Address) -> Where:
        found = self.in_step(place)
        return found if found is not None else self._place(place, value.tensor)

    def _place(self, place: Address, type: TensorType) -> Where:
        match place.kind:
            case "arena":
                return Place("arena", place.index, type.bound_bytes)
            case "argument":
                return Place("buffer", place.index, type.bound_bytes)
            case "result":
                return Place("buffer", self._results[place.index], type.bound_bytes)
            case _:
                raise InternalError(f"{place} outside of a loop")

    # --- loops

    def count(self, dim: Dim) -> Number:
        return Number(Size.of((dim,)))

    def last(self, count: Number, *, backward: bool) -> Number:
        return Number(Size(0)) if backward else self.shifted(count, -1)

    def shifted(self, step: Number, by: int) -> Number:
        return Number(step.size, step.sign, step.loop, step.plus + by)

    def steps(
        self, count: Number, body: Callable[[Number, Number], None], *, backward: bool
    ) -> None:
        loop, outer = self._loops, self._steps
        turn = Number(Size(0), 1, loop)
        step = Number(count.size, -1, loop, count.plus - 1) if backward else turn
        self._steps, self._loops = [], loop + 1
        body(step, turn)
        outer.append(Turns(loop, count, tuple(self._steps)))
        self._steps, self._loops = outer, loop

    def element(self, value: Value, outer: Value, step: Number, *, is_kept: bool = False) -> Where:
        type = value.tensor
        return Part(self.where[outer], step, Size.of(type.dims), type.dtype.itemsize)

    def kept(
        self, value: Value, stack: Value, step: Number, number: Number, otherwise: Where
    ) -> Where:
        return Either(number, self.element(value, stack, step), otherwise)

    def copy(self, source: Where, target: Value) -> None:
        launch_copy(self, target.tensor, source, self.where[target])


def write_program(
    module: CudaModule, function: Function, signature: Signature, machine: GpuMachine
) -> Program:
    """The program of a planned function; its kernels are in the module then."""
    writer = ProgramWriter(module, signature, machine, function.contraction)
    for i, argument in enumerate(function.arguments):
        writer.where[argument] = Place("buffer", i, argument.tensor.bound_bytes)
    for op in function.block:
        writer.operation(op)
    return writer.program()


def _result_slots(signature: Signature) -> dict[int, int]:
    """The buffer of each result that has memory of its own, by its index among all results."""
    slots: dict[int, int] = {}
    for i, result in enumerate(signature.results):
        if result.updates is None:
            slots[i] = len(signature.arguments) + len(slots)
    return slots


def _constant_bytes(params: ConstantParams) -> bytes:
    """The elements as they lie in memory, little-endian."""
    return element_bytes(params.value, params.type.dtype)


def _described(op: Operation) -> str:
    """The operation, its first result and the line it comes from, without the line's folder."""
    named = next((r.name for r in op.results if r.name), None)
    shown = f"`{named}` = {op.opdef.name}" if named else op.opdef.name
    types = f" : {op.results[0].type}" if op.results else ""
    span = op.location.span
    where = f", {PurePath(span.file).name}:{span.line}:{span.column}" if span else ""
    return f"{shown}{types}{where}"
