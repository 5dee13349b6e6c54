"""Random functions with loops: nested, backwards, one reading what another kept, in any mixture.

Bodies carry, swap, pass on and keep whatever is at hand: arguments, elements, invariants, one value
several times. All values stay between -1 and 1. The same seed gives the same function.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphc.ir.core import Array, Function, IRBuilder, Module, RegionKind, ResultInfo, Value
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops.constant import constant
from graphc.ops.contraction import matmul
from graphc.ops.control import RETURN
from graphc.ops.elementwise import LESS, add, compare, mul, select, sub
from graphc.ops.functions import SIN, TANH
from graphc.ops.loop import loop
from graphc.ops.movement import reshape
from graphc.ops.reduction import broadcast, reduce_sum

T, S, U = Symbol("T", 6), Symbol("S", 3), Symbol("U", 4)
ROWS = 3
STATE = TensorType((S, ROWS), DType.F64)
MATRIX = TensorType((ROWS, ROWS), DType.F64)
ROW = TensorType((1, ROWS), DType.F64)
KINDS = (STATE, STATE, STATE, MATRIX, ROW)
MAX_DEPTH = 2


class RandomLoops(NamedTuple):
    module: Module
    arguments: dict[str, Array]
    sizes: dict[str, int]

    @property
    def function(self) -> Function:
        return self.module.functions[0]


def make_loops(seed: int) -> RandomLoops:
    """A function with one to three loops, the arguments to call it with, and the sizes."""
    rng = random.Random(seed)
    function = Function("main", RegionKind.SSA)
    types = {
        "x": TensorType((T, *STATE.dims), DType.F64),
        "y": TensorType((T, *STATE.dims), DType.F64),
        "z": TensorType((U, *STATE.dims), DType.F64),
        "a": STATE,
        "b": STATE,
        "w": MATRIX,
        "r": ROW,
    }
    values = [function.add_argument(name, t, "input") for name, t in types.items()]
    b = IRBuilder(function.block)
    for _ in range(rng.randint(1, 3)):
        _operations(b, rng, values, rng.randint(0, 2))
        values += _loop(b, rng, values, 1)
    _operations(b, rng, values, rng.randint(0, 2))
    made = [v for v in values if v.op is not None]
    returned = rng.sample(made, min(len(made), rng.randint(1, 4)))
    b.emit(RETURN, returned)
    function.results = [ResultInfo(f"y{i}") for i in range(len(returned))]
    sizes = {"T": rng.choice((0, 1, 2, 5, 6)), "S": rng.choice((0, 1, 3)), "U": rng.randint(0, 4)}
    numbers = np.random.default_rng(seed)
    arguments = {n: numbers.uniform(-1, 1, t.shape(sizes)) for n, t in types.items()}
    return RandomLoops(Module([function], [T, S, U]), arguments, sizes)


def _of(values: Sequence[Value], type: TensorType) -> list[Value]:
    return [v for v in values if v.type == type]


def _loop(b: IRBuilder, rng: random.Random, values: list[Value], depth: int) -> list[Value]:
    """A loop over some of `values`; its results."""
    count = rng.choice((T, T, U, 2))
    streams = [v for v in values if isinstance(v.type, TensorType) and v.type.dims[:1] == (count,)]
    sequences = rng.sample(streams, min(len(streams), rng.randint(0, 2)))
    invariants = rng.sample(values, min(len(values), rng.randint(0, 4)))
    kinds = [rng.choice(KINDS) for _ in range(rng.randint(0, 3))]
    initial = [_some(b, rng, values, kind) for kind in kinds]

    def step(
        inner: IRBuilder,
        shared: Sequence[Value],
        elements: Sequence[Value],
        before: Sequence[Value],
    ) -> tuple[list[Value], list[Value]]:
        own = [*shared, *elements, *before]
        _operations(inner, rng, own, rng.randint(0, 4))
        if depth < MAX_DEPTH and rng.random() < 0.3:
            own += _loop(inner, rng, own, depth + 1)
            _operations(inner, rng, own, rng.randint(0, 2))
        after = [_some(inner, rng, own, kind) for kind in kinds]
        small = [v for v in own if v.type in KINDS] or [_some(inner, rng, own, STATE)]
        kept = [rng.choice(small) for _ in range(rng.randint(0 if kinds else 1, 3))]
        return after, kept

    made = loop(b, count, step, invariants, sequences, initial, backward=rng.random() < 0.4)
    return list(made.results)


def _some(b: IRBuilder, rng: random.Random, values: Sequence[Value], type: TensorType) -> Value:
    """One of the values, of that type; the later ones more often."""
    found = _of(values, type)
    if not found:
        return constant(b, round(rng.uniform(-1, 1), 3), type)
    return rng.choice(found[-4:] if rng.random() < 0.7 else found)


def _operations(b: IRBuilder, rng: random.Random, values: list[Value], count: int) -> None:
    """Append `count` operations on some of `values`, which learn the results."""
    for _ in range(count):
        type = rng.choice(KINDS)
        x, y = (_some(b, rng, values, type) for _ in range(2))
        match rng.choice(("add", "mul", "product", "sum", "select", "spread", "outer")):
            case "add":
                made = b.emit_one(TANH, add(b, x, y))
            case "mul":
                made = b.emit_one(SIN, mul(b, x, y))
            case "product":
                made = b.emit_one(TANH, matmul(b, x, _some(b, rng, values, MATRIX)))
            case "sum":
                made = b.emit_one(SIN, reduce_sum(b, _some(b, rng, values, STATE), (0,)))
            case "select":
                made = select(b, compare(b, LESS, x, y), x, sub(b, y, y))
            case "spread":
                row = reshape(b, _some(b, rng, values, ROW), (1, ROWS))
                made = broadcast(b, row, (S, ROWS))
            case _:
                left, right = (_some(b, rng, values, STATE) for _ in range(2))
                made = b.emit_one(SIN, matmul(b, left, right, transpose_a=True))
        values.append(made)
