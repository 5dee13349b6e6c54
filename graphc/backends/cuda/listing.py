"""A program as text for people: what a call launches, on how many tiles, with which arrays.

    for t = 0 .. T - 1
      gemm0  ceil(S / 64) tiles  (x[t], W, arena + 512)  `h` = gemm : tensor<Sx64xf32>, net.ndl:4:5

What a kernel writes comes behind an arrow. Blocks that wait for each other run at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from graphc.backends.cuda.kernel import Kernel, Tiles
from graphc.backends.cuda.minibatches import buffer_names
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.steps import Either, Launch, Number, Part, Place, Step, Where
from graphc.passes.analysis.loopnest import Size
from graphc.runtime.signature import Signature

TURNS = "tuvw"
"""What the turns of loops are called, from the outermost in."""


def program_lines(program: Program, signature: Signature) -> list[str]:
    """The steps of a program in order, a line each."""
    return list(_step_lines(program.steps, program.kernels, buffer_names(signature), ""))


def turn_name(loop: int) -> str:
    """`t` for the outermost loop."""
    return TURNS[loop] if loop < len(TURNS) else f"t{loop}"


def _step_lines(
    steps: Sequence[Step], kernels: Mapping[str, Kernel], buffers: Sequence[str], indent: str
) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Launch):
            yield indent + _launch_line(step, kernels[step.kernel], buffers)
            continue
        last = _number_text(replace(step.count, plus=step.count.plus - 1))
        yield f"{indent}for {turn_name(step.loop)} = 0 .. {last}"
        yield from _step_lines(step.steps, kernels, buffers, indent + "  ")


def _launch_line(launch: Launch, kernel: Kernel, buffers: Sequence[str]) -> str:
    texts = [_where_text(where, buffers) for where in launch.pointers]
    read = "".join(f"{t}, " for i, t in enumerate(texts) if i not in launch.writes)
    written = ", ".join(t for i, t in enumerate(texts) if i in launch.writes)
    arrays = f"{read.removesuffix(', ')} -> {written}".lstrip()
    tiles = _tiles_text(kernel.tiles)
    unit = "blocks at once" if kernel.together else "tile" if tiles == "1" else "tiles"
    return f"{launch.kernel}  {tiles} {unit}  ({arrays})  {launch.remark}"


def _where_text(where: Where, buffers: Sequence[str]) -> str:
    match where:
        case Place("buffer", index):
            return buffers[index]
        case Place(base, index):
            return f"{base} + {index}"
        case Part(whole, number, _, _):
            text = _where_text(whole, buffers)
            inner = f"({text})" if " " in text else text
            return f"{inner}[{_number_text(number)}]"
        case Either(turn, some, otherwise):
            first, second = (_where_text(w, buffers) for w in (some, otherwise))
            return f"({_number_text(turn)} > 0 ? {first} : {second})"


def _number_text(number: Number) -> str:
    """`T - 1 - t`"""
    terms: list[tuple[int, str]] = []
    plus = number.plus
    if number.size.symbols and number.size.factor:
        terms.append((1, _size_text(number.size)))
    else:
        plus += number.size.factor
    if number.sign:
        terms.append((number.sign, turn_name(number.loop)))
    if plus or not terms:
        terms.append((1 if plus >= 0 else -1, str(abs(plus))))
    terms.sort(key=lambda term: -term[0])  # a sum does not begin with what is taken away
    first, *others = (f"{' - ' if sign < 0 else ' + '}{text}" for sign, text in terms)
    return "".join([first.removeprefix(" + ").replace(" - ", "-"), *others])


def _size_text(size: Size) -> str:
    factors = [str(size.factor)] if size.factor != 1 or not size.symbols else []
    return " * ".join([*factors, *size.symbols])


def _tiles_text(tiles: Tiles) -> str:
    factors: list[str] = []
    for extent, length in tiles.factors:
        if not extent.symbols:
            factors.append(str(-(-extent.factor // length)))
        elif length == 1:
            factors.append(_size_text(extent))
        else:
            factors.append(f"ceil({_size_text(extent)} / {length})")
    product = " * ".join(f for f in factors if f != "1") or "1"
    if tiles.limit is not None:
        total = " + ".join(map(_size_text, tiles.limit.sizes))
        product += f" if {total} {'>' if tiles.limit.is_over else '<='} {tiles.limit.most}"
    return " + ".join([product, *map(_tiles_text, tiles.others)])
