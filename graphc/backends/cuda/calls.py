"""Kernels that are one call of a function of `text/`, with sizes of the call as its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.backends.cuda.kernel import Kernel, Tiles, size_text, symbols_of
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.steps import Where
from graphc.passes.analysis.loopnest import Size


@dataclass(frozen=True, slots=True)
class Call:
    """A function, `fill<float>` say, of these pointers and numbers.

    sizes  numbers, each a sum of sizes
    """

    function: str
    pointers: tuple[str, ...]
    sizes: tuple[tuple[Size, ...], ...]
    tiles: Tiles
    shared: int = 0


def launch_call(
    program: Launcher, call: Call, pointers: Sequence[Where], writes: Sequence[int]
) -> None:
    prefix = call.function.partition("<")[0]
    kernel = program.module.kernel(call, prefix, lambda name: _calling(name, call))
    program.launch(kernel, pointers, writes)


def _calling(name: str, call: Call) -> Kernel:
    symbols = {s for total in call.sizes for size in total for s in size.symbols}
    listed = tuple(sorted(symbols | symbols_of(call.tiles)))
    names = {symbol: f"d{i}" for i, symbol in enumerate(listed)}
    kernel = Kernel(name, call.pointers, listed, call.tiles, "", call.shared)
    given = [f"p{i}" for i in range(len(call.pointers))]
    given += [" + ".join(size_text(size, names) for size in total) for total in call.sizes]
    step = f"{call.function}({', '.join([*given, 'block'])});"
    if call.tiles.limit is not None:
        step = f"if ({call.tiles.limit.text(names)})\n        {step}"
    head = f"__device__ void {name}({', '.join([*kernel.parameters, 'Block block'])})"
    return Kernel(
        name, call.pointers, listed, call.tiles, f"{head}\n{{\n    {step}\n}}\n", call.shared
    )
