"""How a backend goes through a planned function: where each value is, and the steps of loops.

What holds for every backend is written here once: results go to the places that `plan-memory`
chose, and in each step a loop's body reads elements of the sequences, finds carried values where
the step before left them and writes what is kept into the stacks. A backend says what stands for an
array (an address, a name) and for an index, and writes the calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from graphc.ir.codegen import Loop, Terminator, View
from graphc.ir.core import Operation, Value
from graphc.ir.placement import Address
from graphc.ir.types import Dim
from graphc.ops.loop import LoopParts, loop_parts
from graphc.support.diagnostics import InternalError

A = TypeVar("A")
N = TypeVar("N")


class _Frame(NamedTuple, Generic[A]):
    """Where the results of a loop are in the step that is being written."""

    carried: Sequence[A]
    stacks: Sequence[A]


class Walker(ABC, Generic[A, N]):
    """Writes operations in order; `A` stands for an array, `N` for an index or a count.

    A backend calls `operation` for those of the function; the methods below it are the backend's.

    where   the arrays of arguments at first, then of all values
    frames  of the loops around the operation that is being written
    """

    def __init__(self, where: dict[Value, A]) -> None:
        self.where = where
        self.frames: list[_Frame[A]] = []

    def operation(self, op: Operation) -> None:
        """Writes one operation, of a loop all its steps."""
        match op.opdef.codegen:
            case Terminator():
                pass
            case View():
                self.where[op.result] = self.view(op)
            case category:
                if len(op.placement) != len(op.results):
                    raise InternalError(f"a `{op.opdef.name}` has no place")
                self.begin(op)
                for value, place in zip(op.results, op.placement, strict=True):
                    self.where[value] = self.placed(value, place)
                if isinstance(category, Loop):
                    self._loop(loop_parts(op))
                else:
                    self.compute(op)

    def in_step(self, place: Address) -> A | None:
        """What the step that is being written has at the place; None for places outside loops."""
        match place.kind:
            case "carried":
                return self.frames[-1].carried[place.index]
            case "stack":
                return self.frames[-1].stacks[place.index]
            case _:
                return None

    def _loop(self, parts: LoopParts) -> None:
        where, backward, count = self.where, parts.params.backward, self.count(parts.params.count)
        carried = list(zip(parts.params.history, parts.initial, parts.final, strict=True))
        for stack, initial, final in carried:
            if stack < 0:
                self.copy(where[initial], final)

        def body(step: N, turn: N) -> None:
            self._enter_step(parts, step, turn)
            for op in parts.block:
                self.operation(op)
            self.frames.pop()

        self.steps(count, body, backward=backward)
        for stack, initial, final in carried:
            if stack >= 0 and final.has_uses:
                last = self.last(count, backward=backward)
                kept = self.kept(final, parts.stacks[stack], last, count, where[initial])
                self.copy(kept, final)

    def _enter_step(self, parts: LoopParts, step: N, turn: N) -> None:
        """Where the body's arguments and results are in a step, the `turn`th that runs."""
        where, back = self.where, 1 if parts.params.backward else -1
        where.update((i, where[o]) for i, o in zip(parts.shared, parts.invariants, strict=True))
        for inner, outer in zip(parts.elements, parts.sequences, strict=True):
            where[inner] = self.element(inner, outer, step)
        carried = [where[v] for v in parts.final]
        for i, (value, stack) in enumerate(zip(parts.carry_in, parts.params.history, strict=True)):
            where[value] = carried[i]
            if stack >= 0:
                earlier, initial = self.shifted(step, back), where[parts.initial[i]]
                where[value] = self.kept(value, parts.stacks[stack], earlier, turn, initial)
        pairs = zip(parts.stacked, parts.stacks, strict=True)
        stacks = [self.element(kept, stack, step, is_kept=True) for kept, stack in pairs]
        self.frames.append(_Frame(carried, stacks))

    # --- operations

    def begin(self, op: Operation) -> None:
        """What is written before an operation that has places for its results."""

    @abstractmethod
    def view(self, op: Operation) -> A:
        """The operand's array under another shape."""

    @abstractmethod
    def placed(self, value: Value, place: Address) -> A:
        """The array at the place, in the shape of the result `value`."""

    @abstractmethod
    def compute(self, op: Operation) -> None:
        """Writes an operation of any category but loops and views, whose results are placed."""

    # --- loops

    @abstractmethod
    def count(self, dim: Dim) -> N: ...

    @abstractmethod
    def last(self, count: N, *, backward: bool) -> N:
        """The step that runs last."""

    @abstractmethod
    def shifted(self, step: N, by: int) -> N: ...

    @abstractmethod
    def steps(self, count: N, body: Callable[[N, N], None], *, backward: bool) -> None:
        """Writes a loop around `body`, which takes the step and how many have run before it."""

    @abstractmethod
    def element(self, value: Value, outer: Value, step: N, *, is_kept: bool = False) -> A:
        """The element of a sequence, or of a stack that `value` is kept in."""

    @abstractmethod
    def kept(self, value: Value, stack: Value, step: N, number: N, otherwise: A) -> A:
        """The element of a stack where `number` is above 0, which alone may be read then."""

    @abstractmethod
    def copy(self, source: A, target: Value) -> None: ...
