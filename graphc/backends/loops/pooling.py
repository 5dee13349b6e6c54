"""Pooling and its gradients as one function each: one pass over the images.

Vectors hold channels, which are contiguous; the remaining channels go in ever narrower vectors. The
loop over a small window is unrolled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphc.backends.loops import memory
from graphc.backends.loops.control import add, loop, loop_if_any, mul, offset, size_value
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import I64, PTR, Val, constant, element_of, index
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.codegen import Folding
from graphc.ir.machine import Machine
from graphc.ir.types import DType
from graphc.ops.pooling import PoolShape
from graphc.passes.analysis.loopnest import Size
from graphc.passes.analysis.window_products import Span, spans

MAX_STRAIGHT = 16
"""The loop over a window of at most this many elements is unrolled."""

VECTORS = 4
"""Vectors of channels in one iteration of a position."""


@dataclass(frozen=True, slots=True)
class Pooling:
    """What is computed; `scalar_op` folds a window, extents are columns, then rows of pixels.

    is_chunk   the function takes `begin, end` as last arguments and computes these images only
    """

    folding: Folding
    scalar_op: str
    images: Size
    extents: tuple[int, int]
    sizes: tuple[int, int]
    strides: tuple[int, int]
    output_positions: tuple[int, int]
    channels: int
    dtype: DType
    is_chunk: bool = False

    @staticmethod
    def of(folding: Folding, scalar_op: str, shape: PoolShape, dtype: DType) -> Pooling:
        """A single axis is treated as an image that is one pixel wide."""
        (e, f), (s, t), (u, v), (p, q) = (
            (*(1,) * (2 - len(of_axes)), *of_axes)
            for of_axes in (shape.extents, shape.sizes, shape.strides, shape.output_positions)
        )
        channels = math.prod(shape.channels)
        lead = Size.of(shape.lead)
        return Pooling(folding, scalar_op, lead, (e, f), (s, t), (u, v), (p, q), channels, dtype)

    def symbols(self) -> tuple[str, ...]:
        """The dimensions of the call that the function asks for."""
        return self.images.symbols

    @property
    def image(self) -> int:
        return self.extents[0] * self.extents[1] * self.channels

    @property
    def column(self) -> int:
        return self.extents[1] * self.channels

    @property
    def operands(self) -> int:
        return 3 if self.folding == "max_grad" else 1

    @property
    def are_apart(self) -> bool:
        """Whether no element is in two windows."""
        return all(size <= stride for size, stride in zip(self.sizes, self.strides, strict=True))

    @property
    def are_all(self) -> bool:
        """Whether every element is in a window, given that none is in two."""
        return all(
            s == t and n * s == e
            for e, s, t, n in zip(
                self.extents, self.sizes, self.strides, self.output_positions, strict=True
            )
        )


def emit_pooling(module: ModuleWriter, machine: Machine, what: Pooling, lanes: int = 0) -> str:
    """`@name` of `void (operands…, result, sizes of what.symbols()…)`."""
    code = module.body()
    sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(what.symbols())}
    emitter = _Emitter(code, machine, what, lanes or machine.lanes(what.dtype))
    begin, end = index(0), size_value(code, what.images, sizes)
    if what.is_chunk:
        begin, end = Val("%begin", I64), Val("%end", I64)
    with loop_if_any(code, begin, end, 1, []) as state:
        if state is not None:
            emitter.image(state.index)
    code.leave()
    parameters = [*(Val(f"%from{i}", PTR) for i in range(what.operands)), Val("%to", PTR)]
    parameters += [*sizes.values(), *([begin, end] if what.is_chunk else [])]
    return module.add("pool", parameters, code)


class _Emitter:
    def __init__(self, code: Writer, machine: Machine, what: Pooling, lanes: int) -> None:
        self.code = code
        self.what = what
        self.s = LaneScalars(code, has_fma=machine.has_fma)
        self.element = element_of(what.dtype)
        self.lanes = lanes

    def image(self, number: Val) -> None:
        """All places of one image."""
        what = self.what
        wide = mul(self.code, number, index(what.image))
        narrow = mul(
            self.code,
            number,
            index(what.output_positions[0] * what.output_positions[1] * what.channels),
        )
        starts = {
            "fold": [wide, narrow],
            "max_grad": [wide, narrow, narrow, wide],
            "sum_grad": [narrow, wide],
        }[what.folding]
        names = [*(f"%from{i}" for i in range(what.operands)), "%to"]
        arrays = [
            offset(self.code, Val(name, PTR), self.element, start)
            for name, start in zip(names, starts, strict=True)
        ]
        if what.folding != "fold" and not what.are_all:
            self._clear(arrays[-1])
        with loop(self.code, index(0), index(what.output_positions[0]), 1) as p:
            across = mul(self.code, p.index, index(what.strides[0] * what.column))
            row = mul(self.code, p.index, index(what.output_positions[1]))
            with loop(self.code, index(0), index(what.output_positions[1]), 1) as q:
                down = mul(self.code, q.index, index(what.strides[1] * what.channels))
                place = mul(self.code, add(self.code, row, q.index), index(what.channels))
                self._place(arrays, add(self.code, across, down), place)

    def _place(self, arrays: Sequence[Val], window: Val, place: Val) -> None:
        """All channels of one place: some vectors at a time."""
        step = VECTORS * self.lanes
        whole = self.what.channels // step * step
        vectors = [(i * self.lanes, self.lanes) for i in range(VECTORS)]
        with loop_if_any(self.code, index(0), index(whole), step, []) as state:
            if state is not None:
                self._vectors(
                    arrays,
                    add(self.code, window, state.index),
                    add(self.code, place, state.index),
                    vectors,
                )
        if whole < self.what.channels:
            rest = spans(self.what.channels - whole, self.lanes)
            start = index(whole)
            self._vectors(arrays, add(self.code, window, start), add(self.code, place, start), rest)

    def _vectors(
        self, arrays: Sequence[Val], window: Val, place: Val, vectors: Sequence[Span]
    ) -> None:
        if self.what.folding == "fold":
            self._fold(arrays[0], arrays[1], window, place, vectors)
            return
        *given, goal = arrays
        held = [self._loaded(array, place, vectors) for array in given[-2:]]
        is_max_grad = self.what.folding == "max_grad"

        def element(at: Val) -> None:
            values = held[-1]
            if is_max_grad:
                elements = self._loaded(given[0], at, vectors)
                values = [
                    self.s.select(self.s.equal(x, y), dy, constant(0.0, dy.type))
                    for x, y, dy in zip(elements, *held, strict=True)
                ]
            if not self.what.are_apart:
                before = self._loaded(goal, at, vectors)
                values = [self.s.add(a, b) for a, b in zip(before, values, strict=True)]
            self._store(values, goal, at, vectors)

        self._each_element(window, [], lambda at, _carried: element(at))

    def _fold(self, x: Val, y: Val, window: Val, place: Val, vectors: Sequence[Span]) -> None:
        totals = self._loaded(x, window, vectors)
        if self.what.scalar_op == "add":
            totals = [constant(0.0, v.type) for v in totals]

        def element(at: Val, carried: list[Val]) -> None:
            fold = getattr(self.s, self.what.scalar_op)
            elements = self._loaded(x, at, vectors)
            carried[:] = [fold(total, v) for total, v in zip(carried, elements, strict=True)]

        self._each_element(window, totals, element, is_sum=self.what.scalar_op == "add")
        self._store(totals, y, place, vectors)

    def _each_element(
        self,
        window: Val,
        carried: list[Val],
        element: Callable[[Val, list[Val]], None],
        *,
        is_sum: bool = False,
    ) -> None:
        """Calls `element(address, carried)` for each element of a window, with its last result.

        Sums are taken by columns first, so that rounding errors do not grow with the area.
        """
        what = self.what
        if what.sizes[0] * what.sizes[1] <= MAX_STRAIGHT:
            for i in range(what.sizes[0]):
                for j in range(what.sizes[1]):
                    step = index(i * what.column + j * what.channels)
                    element(add(self.code, window, step), carried)
            return
        with loop_if_any(self.code, index(0), index(what.sizes[0]), 1, carried) as i:
            assert i is not None
            column = add(self.code, window, mul(self.code, i.index, index(what.column)))
            values = [constant(0.0, v.type) for v in i.carried] if is_sum else i.carried
            with loop_if_any(self.code, index(0), index(what.sizes[1]), 1, values) as j:
                assert j is not None
                step = mul(self.code, j.index, index(what.channels))
                element(add(self.code, column, step), j.carried)
            if is_sum:
                i.carried[:] = [self.s.add(a, b) for a, b in zip(i.carried, values, strict=True)]

    # --- memory

    def _loaded(self, array: Val, position: Val, vectors: Sequence[Span]) -> list[Val]:
        return [
            memory.load(self.s, array, add(self.code, position, index(at)), self.what.dtype, n)
            for at, n in vectors
        ]

    def _store(
        self, values: Sequence[Val], array: Val, position: Val, vectors: Sequence[Span]
    ) -> None:
        for value, (at, _) in zip(values, vectors, strict=True):
            memory.store(self.s, value, array, add(self.code, position, index(at)))

    def _clear(self, array: Val) -> None:
        memory.clear(self.s, array, self.what.image, self.lanes, self.element)
