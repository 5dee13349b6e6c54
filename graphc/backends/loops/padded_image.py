"""Memory where an image has zeros around it: images are copied into it and out of it in turns."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.backends.loops import memory
from graphc.backends.loops.control import add, loop_if_any, mul, offset
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import Val, element_of, index
from graphc.ir.types import DType


@dataclass(frozen=True, slots=True)
class PaddedImage:
    """An array at `base` of `size` elements, zeros included.

    columns  of the image itself: `length` elements each, which lie together
    first    where the first column begins
    step     from one column to the next
    """

    base: Val
    size: int
    columns: int
    length: int
    first: int
    step: int
    dtype: DType
    lanes: int

    def clear(self, s: LaneScalars) -> None:
        """Zeros everywhere but where images are copied to."""
        if not self.columns * self.length:
            self._clear(s, index(0), self.size)
            return
        self._clear(s, index(0), self.first)
        behind = index(self.first + self.length)
        with loop_if_any(s.code, index(0), index(self.columns - 1), 1, []) as column:
            if column is not None:
                start = add(s.code, behind, mul(s.code, column.index, index(self.step)))
                self._clear(s, start, self.step - self.length)
        end = self.first + (self.columns - 1) * self.step + self.length
        self._clear(s, index(end), self.size - end)

    def copy(self, s: LaneScalars, image: Val, *, is_back: bool) -> None:
        """Copies an image to its place, or back."""
        with loop_if_any(s.code, index(0), index(self.columns), 1, []) as column:
            if column is None or not self.length:
                return
            here = self._at(s, image, mul(s.code, column.index, index(self.length)))
            start = add(s.code, index(self.first), mul(s.code, column.index, index(self.step)))
            there = self._at(s, self.base, start)
            source, goal = (there, here) if is_back else (here, there)
            memory.copy(s, goal, source, self.length, self.lanes, self.dtype)

    def _clear(self, s: LaneScalars, start: Val, elements: int) -> None:
        place = self._at(s, self.base, start)
        memory.clear(s, place, elements, self.lanes, element_of(self.dtype))

    def _at(self, s: LaneScalars, base: Val, position: Val) -> Val:
        return offset(s.code, base, element_of(self.dtype), position)
