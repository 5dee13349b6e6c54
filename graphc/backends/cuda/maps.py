"""Nests that fold nothing, as kernels: the elements in memory order, some neighbours a thread.

A result may lie over an operand: each thread has read its elements before it writes them.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphc.backends.cuda.body import Element
from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles
from graphc.backends.cuda.stages import Frame, StageWriter, is_whole
from graphc.backends.cuda.text import indented
from graphc.backends.loops.values import Val, element_of, lane_type
from graphc.passes.analysis.gpu_nests import can_move, needed_by
from graphc.passes.analysis.loopnest import ArrayAccess, Index, Load, product_of


def write_map(writer: StageWriter, name: str) -> Kernel:
    """The kernel of a stage without folds."""
    w, count = writer, product_of(writer.nest.dims)
    width = THREADS * w.lanes
    step = "thread_index()" if w.lanes == 1 else f"thread_index() * {w.lanes}"
    about = "Element by element." if w.lanes == 1 else f"Elements, {w.lanes} at once."
    frame = Frame([about], Tiles(((count, width),)), [w.define("count", w.size(count))])
    lines = _Map(w, is_ragged=count.factor % w.lanes != 0).lines()
    at = w.define("at", f"({w.integer})tile * {width} + {step}")
    return w.kernel(name, frame, [at, "if (at < count) {", *indented(lines), "}"])


class _Map:
    """State while the elements from `at` on are written.

    left      how many there are, where they may be fewer than a vector
    is_apart  a vector may go over the end of a row: its elements have indices of their own
    """

    def __init__(self, writer: StageWriter, *, is_ragged: bool) -> None:
        self.writer = writer
        self.nest = writer.nest
        self.needed = needed_by(self.nest, (s.value for s in self.nest.stores))
        self.left = "count - at" if is_ragged else ""
        self.is_apart = not can_move(self.nest, writer.lanes)
        self.indices = [f"i{d}" for d in range(len(self.nest.dims))]

    def lines(self) -> list[str]:
        w, code = self.writer, self.writer.code
        outside = w.element(self.indices)
        lines = [] if self.is_apart else self._numbers("at", self._used())
        vectors = [n for n in self.needed if self._is_vector_load(n)]
        for number in vectors:
            work = self.nest.statements[number].work
            if isinstance(work, Load):
                place = self._place(work.access, outside)
                vector = w.load(work.access, place, self.left)
                lines.append(f"const {w.vector(work.access.dtype)} v{number} = {vector};")
        if not self.is_apart:
            alike = (n for n in self.needed if not self.nest.has_lanes(n))
            outside.require(n for n in alike if n not in vectors)
        lines += code.taken()
        inside = self._inside(outside)
        for store in self.nest.stores:
            lines.append(f"{w.vector(store.access.dtype)} r{store.access.index};")
        lines += w.each_lane(inside)
        for store in self.nest.stores:
            access = store.access
            array = w.array((access.kind, access.index))
            lines.append(w.store(array, "at", f"r{access.index}", self.left))
        return lines

    def _inside(self, outside: Element) -> list[str]:
        """What is computed of each element."""
        w, code = self.writer, self.writer.code
        lines: list[str] = []
        indices = list(self.indices)
        if self.is_apart:
            lines.append(w.define("here", "at + k < count ? at + k : count - 1"))
            lines += self._numbers("here", self._used())
        elif w.lanes > 1 and self._counts_lanes():
            lines.append(w.define("lane", f"i{self.nest.lane} + k"))
            indices[-1] = "lane"
        inside = w.element(indices, outside.values)
        for number in self.needed:
            statement = self.nest.statements[number]
            if self._is_vector_load(number):
                type_ = lane_type(element_of(statement.dtype))
                inside.values[number] = Val(w.of_lane(f"v{number}"), type_)
        results = [(s.access.index, inside.text(s.value)) for s in self.nest.stores]
        made = (f"{w.of_lane(f'r{index}')} = {text};" for index, text in results)
        return [*lines, *code.taken(), *made]

    def _is_vector_load(self, number: int) -> bool:
        work = self.nest.statements[number].work
        return isinstance(work, Load) and self._is_vector(work.access)

    def _is_vector(self, access: ArrayAccess) -> bool:
        """Whether several elements are moved at once. Of others there is one for all of them, or
        each is found by itself."""
        whole = is_whole(access, len(self.nest.dims))
        return whole if self.is_apart else whole or self.nest.lane in access.dims

    def _place(self, access: ArrayAccess, element: Element) -> str:
        return "at" if is_whole(access, len(self.nest.dims)) else element.place(access)

    def _counts_lanes(self) -> bool:
        works = (self.nest.statements[n].work for n in self.needed)
        return any(isinstance(w, Index) and w.dim == self.nest.lane for w in works)

    def _used(self) -> frozenset[int]:
        """The dims whose indices are asked for."""
        used = set[int]()
        for number in self.needed:
            work = self.nest.statements[number].work
            if isinstance(work, Index):
                used.add(work.dim)
            elif isinstance(work, Load) and not is_whole(work.access, len(self.nest.dims)):
                used |= work.access.dims
        return frozenset(used)

    def _numbers(self, number: str, used: Iterable[int]) -> list[str]:
        return self.writer.part_of(number, range(len(self.nest.dims)), frozenset(used))
