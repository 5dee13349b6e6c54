"""Loops that are ONNX's RNN, GRU or LSTM, known by what their bodies compute.

    c' = f(w x + r h + p c + b) * c + f(…) * g(w x + r h + b)      f, g, k: sigmoid, tanh, relu
    h' = f(w x + r h + p c' + b) * k(c')                           => LSTM

All gates read the same input x and the same state h, each by weights of its own. In a function of
sequences the state of a step before the first one is replaced, by a flag of each step; that is so
for each state or for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from graphc.artifacts.onnx.affine import Affine, Body, Part
from graphc.ir.core import OpDef, Operation, Value
from graphc.ir.types import DType, Symbol
from graphc.ops.constant import IOTA, IotaParams
from graphc.ops.elementwise import ADD, GREATER_EQUAL, LESS, MAXIMUM, MUL, SELECT, SUB
from graphc.ops.functions import SIGMOID, TANH
from graphc.ops.loop import LoopParts, loop_parts
from graphc.ops.movement import RESHAPE
from graphc.ops.reduction import BROADCAST
from graphc.passes.matching import is_number, made_by, splat

Vector = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """What a gate adds up: weights of the input and of the state, a bias of each, a peephole."""

    inputs: Vector
    states: Vector
    biases: tuple[Vector | None, Vector | None]
    peephole: Vector | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A state before the first step: an array around the loop, or one number everywhere."""

    value: Value | None
    number: float = 0.0


@dataclass(frozen=True, slots=True)
class Cell:
    """A loop as one of ONNX's operators.

    gates    in the operator's order
    starts   of h, and of c
    carried  which of the loop's carried values h is, and c
    lengths  whether each sequence has a length of its own
    inner    GRU: the reset gate is multiplied after the product with the state
    """

    operator: Literal["RNN", "GRU", "LSTM"]
    input: Value
    gates: tuple[Gate, ...]
    activations: tuple[str, ...]
    starts: tuple[Start, ...]
    carried: tuple[int, ...]
    lengths: bool
    inner: bool = False


Tables = tuple[Value, Value]
"""Where sequences begin and end, [T, S]."""


def cell_of(op: Operation, tables: Tables | None) -> Cell | None:
    """The operator that the loop is, None for any other.

    tables  of a function of sequences, whose flags the loop may read
    """
    parts = loop_parts(op)
    if parts.params.carried not in (1, 2) or not parts.sequences:
        return None
    if any(v.tensor.dtype is not DType.F32 or v.tensor.rank != 2 for v in parts.initial):
        return None
    reader = _Reader(parts, tables)
    for match in (_lstm, _gru, _rnn):
        if (found := match(reader)) is not None:
            return found if reader.results_are(found) else None
    return None


class _Reader:
    """A loop whose values are being looked at."""

    def __init__(self, parts: LoopParts, tables: Tables | None) -> None:
        self.parts = parts
        self.body = Body(parts)
        self._tables = tables

    # --- states ----------------------------------------------------------------------------------

    def state(self, value: Value) -> int | None:
        """Which carried value it is, as a step reads it."""
        value = self._read(value)[0]
        return self.parts.carry_in.index(value) if value in self.parts.carry_in else None

    def _read(self, value: Value) -> tuple[Value, Value | None]:
        """What a flag lets through, and what stands there instead where it does not."""
        op = made_by(value, SELECT)
        if op is None or not self._is_flag(op.operands[0]):
            return value, None
        return op.operands[1], op.operands[2]

    def _is_flag(self, value: Value) -> bool:
        """Whether it says of each sample that there is a step before this one."""
        op = self._origin(value).op
        if self._tables is None or op is None:
            return False
        backward = self.parts.params.backward
        opdef, limit = (LESS, self._tables[1]) if backward else (GREATER_EQUAL, self._tables[0])
        if op.opdef is not opdef or op.operands[1] is not limit:
            return False
        before = made_by(op.operands[0], ADD if backward else SUB)
        if before is None:
            return False
        steps, one = before.operands
        iota = made_by(steps, IOTA)
        return iota is not None and iota.params_as(IotaParams).axis == 0 and splat(one) == 1

    def _origin(self, value: Value) -> Value:
        """What is only repeated, or put under other dims, on the way into the body."""
        while True:
            outside = self.body.outside(value)
            op = outside.op
            if op is None or op.opdef not in (BROADCAST, RESHAPE):
                return outside
            value = op.operands[0]

    def is_one(self, value: Value) -> bool:
        """Whether it is 1 everywhere."""
        return is_number(self._origin(value), 1.0)

    def starts(self, carried: Sequence[int]) -> tuple[tuple[Start, ...], bool] | None:
        """What the states begin with, and whether flags say where."""
        found: list[tuple[Start, bool]] = []
        for k in carried:
            reads = self._reads_of(self.parts.carry_in[k])
            if reads is None:
                return None
            instead = next(iter(reads), None)
            start = self._start(self.parts.initial[k] if instead is None else instead)
            if start is None:
                return None
            found.append((start, instead is not None))
        flags = {flag for _, flag in found}
        return (tuple(s for s, _ in found), flags.pop()) if len(flags) == 1 else None

    def _reads_of(self, carry: Value) -> list[Value] | None:
        """What stands in place of a carried value, once; none where it is read as it is."""
        found = dict[Value, None]()
        plain = False
        for op, _ in carry.uses:
            through, instead = self._read(op.results[0]) if op.opdef is SELECT else (None, None)
            if through is carry and instead is not None:
                found[instead] = None
            else:
                plain = True
        if len(found) > 1 or (found and plain):
            return None
        return [*found]

    def _start(self, value: Value) -> Start | None:
        number = splat(value)
        if number is not None:
            return Start(None, float(number))
        value = self.body.outside(value)
        return None if self.body.is_inside(value) else Start(value)

    # --- gates -----------------------------------------------------------------------------------

    def squashed(self, value: Value) -> tuple[str, Value] | None:
        """(activation, what it is applied to)."""
        op = value.op
        if op is None:
            return None
        if op.opdef is MAXIMUM and is_number(op.operands[1], 0.0):
            return "Relu", op.operands[0]
        name = _ACTIVATIONS.get(op.opdef)
        return (name, op.operands[0]) if name is not None else None

    def gate(
        self, affine: Affine | None, *, state: int, seen: Value | int | None = None
    ) -> tuple[Value, Gate] | None:
        """(input, gate) of a sum with one product of each; `seen` by a peephole."""
        if affine is None or affine.others or len(affine.inputs) != 1:
            return None
        (x, inputs), products = affine.inputs[0], affine.products
        if len(products) != 1 or self.state(products[0][0]) != state or len(affine.biases) > 2:
            return None
        peephole = None
        if affine.peepholes:
            if len(affine.peepholes) != 1 or seen is None:
                return None
            value, peephole = affine.peepholes[0]
            if (self.state(value) if isinstance(seen, int) else value) != seen:
                return None
        first, second = [*affine.biases, None, None][:2]
        return x, Gate(inputs, products[0][1], (first, second), peephole)

    def results_are(self, cell: Cell) -> bool:
        """Whether the operator gives all that is read of the loop: every h and the last states."""
        h = self.parts.carry_out[cell.carried[0]]
        if any(v is not h for v in self.parts.stacked):
            return False
        return not (cell.lengths and any(v.uses for v in self.parts.final))


_ACTIVATIONS: dict[OpDef, str] = {SIGMOID: "Sigmoid", TANH: "Tanh"}


def _cell(
    reader: _Reader,
    operator: Literal["RNN", "GRU", "LSTM"],
    gates: Sequence[tuple[Value, Gate] | None],
    activations: Sequence[str],
    carried: Sequence[int],
    *,
    inner: bool = False,
) -> Cell | None:
    found = [g for g in gates if g is not None]
    starts = reader.starts(carried)
    if len(found) != len(gates) or starts is None or len({x for x, _ in found}) != 1:
        return None
    x = found[0][0]
    if x.tensor.rank not in (2, 3) or isinstance(x.tensor.dims[-1], Symbol):
        return None
    of_each = tuple(g for _, g in found)
    return Cell(
        operator, x, of_each, tuple(activations), starts[0], tuple(carried), starts[1], inner
    )


def _orders(op: Operation | None) -> Iterator[tuple[Value, Value]]:
    """The operands of an operation of two, either way round; nothing of none."""
    if op is not None:
        x, y = op.operands
        yield x, y
        yield y, x


def _rnn(r: _Reader) -> Cell | None:
    squashed = r.squashed(r.parts.carry_out[0])
    if len(r.parts.initial) != 1 or squashed is None:
        return None
    gate = r.gate(r.body.affine(squashed[1]), state=0)
    return _cell(r, "RNN", [gate], [squashed[0]], [0])


def _lstm(r: _Reader) -> Cell | None:
    for h, c in ((0, 1), (1, 0)) if len(r.parts.initial) == 2 else ():
        cell = r.parts.carry_out[c]
        for opened, shown in _orders(made_by(r.parts.carry_out[h], MUL)):
            o, k = r.squashed(opened), r.squashed(shown)
            if o is None or k is None or k[1] is not cell:
                continue
            for kept, written in _orders(made_by(cell, ADD)):
                found = _lstm_cell(r, (h, c), o, k[0], kept, written)
                if found is not None:
                    return found
    return None


def _lstm_cell(
    r: _Reader, carried: tuple[int, int], o: tuple[str, Value], k: str, kept: Value, written: Value
) -> Cell | None:
    h, c = carried
    for forgets, past in _orders(made_by(kept, MUL)):
        f = r.squashed(forgets)
        if f is None or r.state(past) != c or f[0] != o[0]:
            continue
        for opens, candidate in _orders(made_by(written, MUL)):
            i, g = r.squashed(opens), r.squashed(candidate)
            if i is None or g is None or i[0] != o[0]:
                continue
            gates = [
                r.gate(r.body.affine(i[1]), state=h, seen=c),
                r.gate(r.body.affine(o[1]), state=h, seen=r.parts.carry_out[c]),
                r.gate(r.body.affine(f[1]), state=h, seen=c),
                r.gate(r.body.affine(g[1]), state=h),
            ]
            found = _cell(r, "LSTM", gates, [o[0], g[0], k], carried)
            if found is not None:
                return found
    return None


def _gru(r: _Reader) -> Cell | None:
    """(1 - z) n + z h, where n reads a product of the reset state, or a reset product of it."""
    if len(r.parts.initial) != 1:
        return None
    for fresh, kept in _orders(made_by(r.parts.carry_out[0], ADD)):
        for updates, past in _orders(made_by(kept, MUL)):
            z = r.squashed(updates)
            if z is None or r.state(past) != 0:
                continue
            for rest, candidate in _orders(made_by(fresh, MUL)):
                n, over = r.squashed(candidate), made_by(rest, SUB)
                if n is None or over is None or over.operands[1] is not updates:
                    continue
                if r.is_one(over.operands[0]):
                    return _gru_cell(r, z, n)
    return None


def _gru_cell(r: _Reader, z: tuple[str, Value], n: tuple[str, Value]) -> Cell | None:
    affine = r.body.affine(n[1])
    if affine is None or affine.peepholes or len(affine.inputs) != 1:
        return None
    x, inputs = affine.inputs[0]
    if len(affine.products) + len(affine.others) != 1 or len(affine.biases) > 2:
        return None
    inner = not affine.products
    multiplied = affine.others[0] if inner else affine.products[0][0]
    for resets, product in _orders(made_by(multiplied, MUL)):
        reset = r.squashed(resets)
        if reset is None or reset[0] != z[0]:
            continue
        if inner:
            of_state = _state_product(r, product)
        else:
            of_state = (affine.products[0][1], None) if r.state(product) == 0 else None
        biases = [*affine.biases, None, None]
        if of_state is None or (inner and biases[1] is not None):
            continue
        second = of_state[1] if inner else biases[1]
        gates = [
            r.gate(r.body.affine(z[1]), state=0),
            r.gate(r.body.affine(reset[1]), state=0),
            (x, Gate(inputs, of_state[0], (biases[0], second))),
        ]
        return _cell(r, "GRU", gates, [z[0], n[0]], [0], inner=inner)
    return None


def _state_product(r: _Reader, value: Value) -> tuple[Vector, Vector | None] | None:
    """The weights and the bias of a product with the state alone."""
    affine = r.body.affine(value)
    if affine is None or affine.inputs or affine.others or affine.peepholes:
        return None
    if len(affine.products) != 1 or r.state(affine.products[0][0]) != 0 or len(affine.biases) > 1:
        return None
    return affine.products[0][1], affine.biases[0] if affine.biases else None
