"""Kernels that run several device functions side by side: the launches of a phase as one.

    __device__ void beside3(float *p0, …, i64 d0, Block block)
    {
        gemm0(p0, p1, p2, d0, block);
        i64 before = (d0 + 63) / 64;
        map2(p3, p4, d0, behind(block, before));
    }

Tiles are numbered through. What is large goes beside others only if its blocks find as much room on
a multiprocessor as alone: the shared memory of a kernel is that of its hungriest function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graphc.backends.cuda.kernel import THREADS, Kernel, symbols_of, tiles_text
from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.phases import Phase, Phased
from graphc.backends.cuda.steps import Launch, Step, Turns, Where

MOST_POINTERS = 256
"""Of a kernel: what it is given has to fit into 4096 bytes, sizes included."""


def steps_of(
    module: CudaModule, phases: Iterable[Phased], bounds: Mapping[str, int]
) -> tuple[Step, ...]:
    """The phases as steps, most of them one launch; `bounds` are the largest sizes of dims."""
    steps: list[Step] = []
    for phased in phases:
        if isinstance(phased, Phase):
            groups = _groups(module, phased.launches, bounds)
            steps += [_joined(module, group) for group in groups]
        else:
            inner = steps_of(module, phased.phases, bounds)
            steps.append(Turns(phased.loop, phased.count, inner))
    return tuple(steps)


def call_texts(
    kernels: Sequence[Kernel], pointers: Sequence[Sequence[str]], names: Mapping[str, str]
) -> list[str]:
    """Statements that run device functions with these pointers as parts of a phase.

    names  what the sizes of dims are called
    """
    lines: list[str] = []
    for i, (kernel, given) in enumerate(zip(kernels, pointers, strict=True)):
        if i:
            tiles = tiles_text(kernels[i - 1].tiles, names)
            lines.append(f"i64 before = {tiles};" if i == 1 else f"before += {tiles};")
        block = "behind(block, before)" if i else "block"
        passed = [*given, *(names[s] for s in kernel.symbols), block]
        lines.append(f"{kernel.name}({', '.join(passed)});")
    return lines


def all_symbols(kernels: Iterable[Kernel]) -> tuple[str, ...]:
    """The dims that any of them asks for the size of, or has tiles by."""
    return tuple(sorted({s for k in kernels for s in (*k.symbols, *symbols_of(k.tiles))}))


def blocks_of(kernels: Iterable[Kernel]) -> int:
    """Of a kernel that calls these: two find room on a multiprocessor, which costs products in f64
    too many registers."""
    return 1 if any("double" in type for k in kernels for type in k.pointers) else 2


def _groups(
    module: CudaModule, launches: Sequence[Launch], bounds: Mapping[str, int]
) -> list[list[Launch]]:
    """What is launched together."""
    groups: list[list[Launch]] = []
    for launch in launches:
        fitting = (g for g in groups if _fit(module, [*g, launch], bounds))
        group = next(fitting, None)
        if group is None:
            groups.append([launch])
        else:
            group.append(launch)
    return groups


def _fit(module: CudaModule, group: Sequence[Launch], bounds: Mapping[str, int]) -> bool:
    """Whether no kernel of several waves of blocks gets less room by being in this group."""
    kernels = [module.kernels[launch.kernel] for launch in group]
    if sum(len(k.pointers) for k in kernels) > MOST_POINTERS:
        return False
    room = module.machine.resident_blocks(max(k.shared for k in kernels), THREADS)
    return all(
        room >= min(module.machine.resident_blocks(k.shared, THREADS), k.tiles.count(bounds))
        for k in kernels
    )


def _joined(module: CudaModule, group: Sequence[Launch]) -> Launch:
    """One launch for all of a group."""
    if len(group) == 1:
        return group[0]
    kernels = [module.kernels[launch.kernel] for launch in group]
    module.keep_apart(kernels)
    key = ("beside", *(k.name for k in kernels))
    kernel = module.kernel(key, "beside", lambda name: _beside(name, kernels))
    pointers: list[Where] = []
    writes: set[int] = set()
    for launch in group:
        writes.update(len(pointers) + i for i in launch.writes)
        pointers.extend(launch.pointers)
    remark = "; ".join(launch.remark for launch in group)
    return Launch(kernel.name, tuple(pointers), remark, frozenset(writes))


def _beside(name: str, kernels: Sequence[Kernel]) -> Kernel:
    types = tuple(type for kernel in kernels for type in kernel.pointers)
    symbols = all_symbols(kernels)
    names = {symbol: f"d{i}" for i, symbol in enumerate(symbols)}
    numbers = iter(range(len(types)))
    pointers = [[f"p{next(numbers)}" for _ in kernel.pointers] for kernel in kernels]
    first, *others = (kernel.tiles for kernel in kernels)
    made = Kernel(
        name,
        types,
        symbols,
        replace(first, others=(*first.others, *others)),
        "",
        max(kernel.shared for kernel in kernels),
        blocks=blocks_of(kernels),
    )
    body = "\n".join(f"    {line}" for line in call_texts(kernels, pointers, names))
    text = (
        f"// {', '.join(k.name for k in kernels)} side by side.\n"
        f"__device__ void {name}({', '.join([*made.parameters, 'Block block'])})\n"
        f"{{\n{body}\n}}\n"
    )
    return replace(made, text=text)
