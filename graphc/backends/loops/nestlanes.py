"""What a loop nest asks of vectors: how many lanes, whether masks serve, what is read ahead."""

from __future__ import annotations

from graphc.backends.loops.values import Val
from graphc.backends.loops.writer import Writer
from graphc.ir.machine import Machine
from graphc.ir.types import DType
from graphc.passes.analysis.loopnest import Load, Nest, Port

MAX_AHEAD_BYTES = 131072
"""What is asked for before its row begins, at most: it has to wait in a cache for that."""


def _lane_dtypes(nest: Nest) -> set[DType]:
    """Element types of the values and arrays that have lanes."""
    values = {s.dtype for i, s in enumerate(nest.statements) if nest.has_lanes(i)}
    return values | {store.port.dtype for store in nest.stores if nest.lane in store.port.dims}


def lanes_of(nest: Nest, machine: Machine) -> int:
    """Lanes of a vector: one register of the widest type, less where the extent is small."""
    if nest.lane < 0:
        return 1
    types = _lane_dtypes(nest) or {s.dtype for s in nest.statements}
    lanes = min(machine.lanes(dtype) for dtype in types)
    while lanes > 1 and lanes // 2 >= nest.bound:
        lanes //= 2
    return lanes


def read_first(nest: Nest) -> tuple[Port, ...]:
    """What the first sweep of a row reads and no other row does, where more sweeps follow and it
    is not too much."""
    if nest.lane < 1 or len(nest.sweeps) < 2:
        return ()
    works = (nest.statements[n].work for n in nest.sweeps[0].compute)
    ports = dict.fromkeys(w.port for w in works if isinstance(w, Load))
    walked = tuple(p for p in ports if p.strides[nest.lane - 1] is not None)
    size = sum(nest.bound * p.dtype.itemsize for p in walked)
    return walked if size <= MAX_AHEAD_BYTES else ()


def is_masked(nest: Nest, machine: Machine) -> bool:
    """Whether left-over lanes are masked; bytes have no masked moves short of AVX-512."""
    ports = (p.dtype for p in nest.ports() if nest.lane in p.dims)
    kept = (nest.statements[k.value].dtype for k in nest.keeps)
    return machine.masks_memory and DType.I1 not in (*ports, *kept)


def halves(code: Writer, value: Val) -> tuple[Val, Val]:
    """The lanes of a vector in two."""
    half = value.type.lanes // 2
    return lanes_from(code, value, 0, half), lanes_from(code, value, half, half)


def lanes_from(code: Writer, value: Val, start: int, count: int) -> Val:
    """`count` lanes of a vector from `start` on."""
    if count == 1:
        return code.extract(value, start)
    return code.shuffle(value, None, range(start, start + count))
