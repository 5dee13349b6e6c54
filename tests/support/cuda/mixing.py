"""Programs of kernels that mix words, so that every byte says what was read and in which order.

They stand for operations where it matters how launches are put together, and not what they compute.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from graphc.backends.cuda.kernel import Kernel, Tiles
from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.steps import (
    Either,
    Launch,
    Number,
    Part,
    Place,
    Step,
    Turns,
    Where,
    address_of,
    run_order,
)
from graphc.passes.analysis.loopnest import Size
from tests.support.cuda.emulator import EmulatedCode, EmulatedDevice

SIZES = {"S": 2, "T": 3}
ROW = Size(40, ("S",))
"""Words of a step of a sequence."""

STEP = 320
SEQUENCE = 3 * STEP
"""Bytes of a step, and of a sequence, at these sizes, which are the bounds."""

ARENA = 4096
BUFFERS = 4
BUFFER = 512
TILE = 32
PRIME = 16777619


def mixing_program(module: CudaModule, seed: int) -> Program:
    """Random launches over arrays that overlap with those of others, and loops around them."""
    steps = _Chooser(module, seed).steps(0)
    return Program(dict(module.kernels), steps)


def chained_program(module: CudaModule) -> Program:
    """Every launch reads words all over what the one before wrote; two of them in a loop."""
    places = [Place("buffer", 0, STEP), Place("arena", 0, STEP), Place("arena", 512, STEP)]
    given, a, b = places
    lengths, writes = (STEP // 4,) * 2, frozenset({0})
    kernel = module.kernel("chained", "mix", lambda name: _mix(name, lengths, writes))

    def launch(target: Place, source: Place, remark: str) -> Launch:
        return Launch(kernel.name, (target, source), remark, writes)

    turns = Turns(0, Number(Size(1, ("T",))), (launch(b, a, "there"), launch(a, b, "back")))
    steps = (launch(a, given, "first"), turns, launch(b, a, "then"), launch(given, b, "last"))
    return Program(dict(module.kernels), steps)


class _Chooser:
    def __init__(self, module: CudaModule, seed: int) -> None:
        self._module = module
        self._random = random.Random(seed)
        self._launches = 0

    def steps(self, loops: int) -> tuple[Step, ...]:
        choose = self._random
        steps: list[Step] = []
        for _ in range(choose.randint(3, 6)):
            if loops < 2 and choose.random() < 0.3:
                count = Number(Size(1, ("T",)), plus=choose.choice([-1, 0]))
                steps.append(Turns(loops, count, self.steps(loops + 1)))
            else:
                steps.append(self._launch(loops))
        return tuple(steps)

    def _launch(self, loops: int) -> Launch:
        choose = self._random
        self._launches += 1
        pointers: list[Where] = []
        while len(pointers) < choose.randint(2, 4):
            where = self._where(loops)
            if not any(_could_meet(where, other) for other in pointers):
                pointers.append(where)
        writes = frozenset(range(choose.randint(1, len(pointers) - 1)))
        lengths = tuple(_words(where) for where in pointers)
        key = (lengths, writes, self._launches % 3)
        kernel = self._module.kernel(key, "mix", lambda name: _mix(name, lengths, writes))
        return Launch(kernel.name, tuple(pointers), f"launch {self._launches}", writes)

    def _where(self, loops: int) -> Where:
        choose = self._random
        if loops and choose.random() < 0.5:
            loop = choose.randrange(loops)
            whole = Place("arena", choose.choice([0, 0, SEQUENCE, 3 * STEP // 2]), SEQUENCE)
            step = choose.choice([Number(Size(0), 1, loop), Number(Size(1, ("T",)), -1, loop, -1)])
            part = Part(whole, step, ROW, 4)
            if choose.random() < 0.5:
                return part
            before = Number(step.size, step.sign, loop, step.plus - step.sign)
            return Either(Number(Size(0), 1, loop), Part(whole, before, ROW, 4), self._place(STEP))
        return self._place(choose.choice([64, STEP, BUFFER]))

    def _place(self, size: int) -> Place:
        choose = self._random
        if choose.random() < 0.3:
            return Place("buffer", choose.randrange(BUFFERS), size)
        base = "scratch" if choose.random() < 0.2 else "arena"
        return Place(base, 64 * choose.randint(0, (ARENA - BUFFER) // 64), size)


def _mix(name: str, lengths: Sequence[int], writes: frozenset[int]) -> Kernel:
    """Each word of the results is mixed from words all over the other arrays."""
    types = tuple("u32 *" if i in writes else "const u32 *" for i in range(len(lengths)))
    most = max(lengths[i] for i in writes)
    parameters = ", ".join(f"{type}p{i}" for i, type in enumerate(types))
    lines = [
        f"__device__ void {name}({parameters}, Block block)",
        "{",
        f"    for (i64 tile = block.index; tile < {-(-most // TILE)}; tile += block.count)",
        f"        for (int i = thread_index(); i < {TILE}; i += 256) {{",
        f"            const i64 at = tile * {TILE} + i;",
    ]
    for i in sorted(writes):
        mixed = f"{_salt(name) + i}u + (u32)at"
        for j, length in enumerate(lengths):
            if j not in writes:
                mixed = f"({mixed}) * {PRIME}u ^ p{j}[(at * 7 + 3) % {length}]"
        lines += [f"            if (at < {lengths[i]})", f"                p{i}[at] = {mixed};"]
    text = "\n".join([*lines, "        }", "}", ""])
    return Kernel(name, types, (), Tiles(((Size(most), TILE),)), text)


def _could_meet(a: Where, b: Where) -> bool:
    return any(
        x.base == y.base and (x.index == y.index or (x.base != "buffer" and _overlap(x, y)))
        for x in _places(a)
        for y in _places(b)
    )


def _overlap(a: Place, b: Place) -> bool:
    return max(a.index, b.index) < min(a.index + a.size, b.index + b.size)


def _places(where: Where) -> list[Place]:
    match where:
        case Place():
            return [where]
        case Part(whole):
            return _places(whole)
        case Either(_, some, otherwise):
            return _places(some) + _places(otherwise)


def _words(where: Where) -> int:
    return where.size // 4 if isinstance(where, Place) else STEP // 4


# --- what it computes, and how it is run


def expected(program: Program) -> list[bytes]:
    """What is in the arena, the scratch memory and the buffers after all launches in order."""
    memory = _start()
    for launch, turns in run_order(program.steps, SIZES):
        arrays: list[np.ndarray] = []
        for where in launch.pointers:
            region, offset = divmod(address_of(where, _address, SIZES, turns), _REGION)
            arrays.append(memory[region][offset // 4 : offset // 4 + _words(where)])
        _mix_in_numpy(arrays, launch.writes, _salt(launch.kernel))
    return [words.tobytes() for words in memory]


def run(program: Program, device: EmulatedDevice, code: EmulatedCode) -> list[bytes]:
    """The same of a call on a device."""
    memory = _start()
    held = [device.allocate(words.nbytes) for words in memory]
    for words, there in zip(memory, held, strict=True):
        device.upload(there.address, words)

    def address(place: Place) -> int:
        region, offset = divmod(_address(place), _REGION)
        return held[region].address + offset

    for launch, turns in run_order(program.steps, SIZES):
        kernel = program.kernels[launch.kernel]
        given = [address_of(where, address, SIZES, turns) for where in launch.pointers]
        given += [SIZES[symbol] for symbol in kernel.symbols]
        grid = kernel.tiles.count(SIZES)
        entry = f"run_{kernel.name}"
        code.launch(entry, grid, kernel.threads, kernel.shared, given, together=kernel.together)
    for words, there in zip(memory, held, strict=True):
        device.download(words, there.address)
    return [words.tobytes() for words in memory]


_REGION = 1 << 20


def _start() -> list[np.ndarray]:
    sizes = [ARENA, ARENA, *(BUFFER for _ in range(BUFFERS))]
    rng = np.random.default_rng(1)
    return [rng.integers(0, 2**32, size // 4, np.uint32) for size in sizes]


def _address(place: Place) -> int:
    if place.base == "buffer":
        return (2 + place.index) * _REGION
    return (place.base == "scratch") * _REGION + place.index


def _salt(kernel: str) -> int:
    return int(kernel.removeprefix("mix"))


def _mix_in_numpy(arrays: Sequence[np.ndarray], writes: frozenset[int], salt: int) -> None:
    for i in sorted(writes):
        at = np.arange(len(arrays[i]), dtype=np.uint32)
        mixed = at + np.uint32(salt + i)
        for j, words in enumerate(arrays):
            if j not in writes:
                mixed = mixed * np.uint32(PRIME) ^ words[(at * 7 + 3) % len(words)]
        arrays[i][:] = mixed
