"""Vectors wider than a register, in parts that fit: loops work on several vectors a turn.

GCC keeps a vector wider than a register in memory. Here such a value is only the list of its
parts, each a vector of its own; what is computed of it is computed of each part. Types of other
sizes have other parts, so parts are cut again where two meet, down to the lanes of the narrowest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.backends.c.text import Code, Module
from graphc.backends.loops.control import offset
from graphc.backends.loops.values import ELEMENT_BYTES, LaneType, Val, index, lane_type

_TRUTH_BYTES = 4
"""Of a truth value in lanes, where nothing says how wide those are that it belongs to."""


class WideModule(Module):
    """A file whose functions are written so."""

    def body(self) -> WideCode:
        return WideCode(self)


class WideCode(Code):
    """The body of one function."""

    def __init__(self, module: WideModule) -> None:
        super().__init__(module)
        self._parts: dict[str, list[Val]] = {}
        self._register = module.register

    # --- parts

    def _fitting(self, type_: LaneType) -> int:
        """The lanes of a type that fit in a register."""
        size = ELEMENT_BYTES.get(type_.element, 8) if type_.element != "i1" else _TRUTH_BYTES
        return min(type_.lanes, self._register // size)

    def _lanes_of(self, a: Val) -> int:
        """The lanes of the parts of a value; of a constant those of all."""
        if a.number is not None:
            return a.type.lanes
        if a.ref in self._parts:
            return self._parts[a.ref][0].type.lanes
        return a.type.lanes if a.type.element == "i1" else self._fitting(a.type)

    def _joined(self, parts: Sequence[Val]) -> Val:
        """The value that consists of these."""
        if len(parts) == 1:
            return parts[0]
        lanes = sum(p.type.lanes for p in parts)
        made = Val(f"&{len(self._parts)}", lane_type(parts[0].type.element, lanes))
        self._parts[made.ref] = list(parts)
        return made

    def _pieces(self, a: Val, lanes: int) -> list[Val]:
        """A value split into pieces of that many lanes."""
        count, piece = a.type.lanes // lanes, lane_type(a.type.element, lanes)
        if count == 1:
            return [a]
        if isinstance(a.number, tuple):
            starts = range(0, a.type.lanes, lanes)
            return [Val(a.ref, piece, a.number[i : i + lanes]) for i in starts]
        if a.number is not None:
            return [Val(a.ref, piece, a.number)] * count
        parts = self._parts.get(a.ref)
        if parts is None:
            starts = range(0, a.type.lanes, lanes)
            return [super(WideCode, self).shuffle(a, None, range(i, i + lanes)) for i in starts]
        have = parts[0].type.lanes
        if have >= lanes:
            return [piece for part in parts for piece in self._pieces(part, lanes)]
        group = lanes // have
        return [self._joined(parts[i : i + group]) for i in range(0, len(parts), group)]

    def _whole(self, a: Val) -> Val:
        """The value as one vector, however wide."""
        parts = self._parts.get(a.ref)
        if parts is None or a.number is not None:
            return a
        while len(parts) > 1:
            order = range(2 * parts[0].type.lanes)
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [super(WideCode, self).shuffle(x, y, order) for x, y in pairs]
        return parts[0]

    def _each(
        self, make: Callable[..., Val], *operands: Val, result: LaneType | None = None
    ) -> Val | None:
        """`make` of the parts of the operands; None where they fit."""
        limits = [self._lanes_of(a) for a in operands]
        limits += [self._fitting(a.type) for a in operands if a.number is not None]
        if result is not None and result.element != "i1":
            limits.append(self._fitting(result))
        lanes = min(limits)
        if lanes == operands[0].type.lanes:
            return None
        pieces = [self._pieces(a, lanes) for a in operands]
        return self._joined([make(*each) for each in zip(*pieces, strict=True)])

    def _use(self, a: Val, binding: int = 4) -> str:
        return super()._use(self._whole(a), binding)

    def _as_mask(self, a: Val, size: int) -> str:
        return super()._as_mask(self._whole(a), size)

    # --- elements

    def binary(self, op: str, a: Val, b: Val) -> Val:
        whole = super().binary
        return self._each(lambda x, y: whole(op, x, y), a, b) or whole(op, a, b)

    def negate(self, a: Val) -> Val:
        whole = super().negate
        return self._each(whole, a) or whole(a)

    def compare(self, order: str, a: Val, b: Val) -> Val:
        whole = super().compare
        return self._each(lambda x, y: whole(order, x, y), a, b) or whole(order, a, b)

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        whole = super().select
        if condition.type.lanes == 1:
            return self._each(lambda x, y: whole(condition, x, y), a, b) or whole(condition, a, b)
        return self._each(whole, condition, a, b) or whole(condition, a, b)

    def convert(self, how: str, a: Val, type_: LaneType) -> Val:
        whole = super().convert
        if how == "bitcast" and type_.lanes != a.type.lanes:
            return whole(how, a, type_)

        def piece(x: Val) -> Val:
            return whole(how, x, lane_type(type_.element, x.type.lanes))

        return self._each(piece, a, result=type_) or whole(how, a, type_)

    def saturate(self, a: Val, type_: LaneType) -> Val:
        whole = super().saturate

        def piece(x: Val) -> Val:
            return whole(x, lane_type(type_.element, x.type.lanes))

        return self._each(piece, a, result=type_) or whole(a, type_)

    def function(self, name: str, *arguments: Val) -> Val:
        whole = super().function
        return self._each(lambda *x: whole(name, *x), *arguments) or whole(name, *arguments)

    def fold_truth(self, how: str, a: Val) -> Val:
        first, *others = self._parts.get(a.ref, [a])
        for other in others:
            first = super().binary(how, first, other)
        return super().fold_truth(how, first)

    # --- lanes

    def splat(self, a: Val, lanes: int) -> Val:
        type_ = lane_type(a.type.element, lanes)
        fitting = self._fitting(type_)
        if a.number is not None or fitting == lanes:
            return super().splat(a, lanes)
        return self._joined([super().splat(a, fitting)] * (lanes // fitting))

    def gather(self, values: Sequence[Val]) -> Val:
        lanes = self._fitting(lane_type(values[0].type.element, len(values)))
        starts = range(0, len(values), lanes)
        whole = super().gather
        return self._joined([whole(values[i : i + lanes]) for i in starts])

    def extract(self, a: Val, lane: int) -> Val:
        lanes = self._lanes_of(a)
        if a.ref not in self._parts:
            return super().extract(a, lane)
        return super().extract(self._parts[a.ref][lane // lanes], lane % lanes)

    def shuffle(self, a: Val, b: Val | None, order: Sequence[int]) -> Val:
        lanes, first = len(order), order[0]
        is_piece = b is None and list(order) == list(range(first, first + lanes))
        if is_piece and a.ref in self._parts and first % lanes == 0:
            return self._pieces(a, lanes)[first // lanes]
        return super().shuffle(a, b, order)

    # --- memory

    def load(self, type_: LaneType, address: Val, align: int) -> Val:
        lanes = self._fitting(type_)
        piece = lane_type(type_.element, lanes)
        whole = super().load
        return self._joined(
            [
                whole(piece, offset(self, address, type_.element, index(i)), align)
                for i in range(0, type_.lanes, lanes)
            ]
        )

    def store(self, value: Val, address: Val, align: int) -> None:
        lanes = min(self._lanes_of(value), self._fitting(value.type))
        for i, piece in enumerate(self._pieces(value, lanes)):
            place = offset(self, address, value.type.element, index(i * lanes))
            super().store(piece, place, align)

    # --- control

    def _state(self, initial: Val, place: int | None = None) -> Val:
        lanes = self._fitting(initial.type) if initial.number is not None else None
        if lanes is None:
            lanes = self._lanes_of(initial)
        whole = super()._state
        return self._joined([whole(piece, place) for piece in self._pieces(initial, lanes)])

    def _set(self, states: Sequence[Val], values: Sequence[Val]) -> None:
        """The parts of all."""
        to: list[Val] = []
        given: list[Val] = []
        for state, value in zip(states, values, strict=True):
            lanes = self._lanes_of(state)
            to += self._pieces(state, lanes)
            given += self._pieces(value, lanes)
        super()._set(to, given)
