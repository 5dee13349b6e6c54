"""The steps of a program as a C function that launches its kernels, for a program without Python.

Loops over time are loops of C; where an array lies is computed from the sizes and the turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphc.artifacts.interface import comment_text
from graphc.backends.cuda.kernel import size_text, tiles_text
from graphc.backends.cuda.listing import turn_name
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.steps import Either, Launch, Number, Part, Place, Step, Where
from graphc.runtime.signature import NUMPY_DTYPES, ROLES_OF_MODEL, Argument, Result, Signature

ALIGNMENT = 256
"""Of all arrays on the GPU, as in `text/host.c`."""

Spec = Argument | Result

_OPENING = """\
#define LAUNCH(kernel, tiles, ...) \\
    do { \\
        const u64 given[] = {__VA_ARGS__}; \\
        const size_t count = sizeof given / sizeof *given; \\
        int32_t status = launch(&gpu, &kernels[kernel], kernel, tiles, given, count); \\
        if (status) \\
            return status; \\
    } while (0)

// Begins all kernels of a call, with these sizes of dims."""


@dataclass(frozen=True)
class Layout:
    """Where everything lies in the memory of the GPU, as distances from its start.

    specs    the arguments, then the results with memory of their own
    buffers  where they lie, parameters first
    sizes    their bytes, with every dim at its bound
    bytes    all in all
    """

    specs: tuple[Spec, ...]
    buffers: tuple[int, ...]
    sizes: Mapping[Spec, int]
    arena: int
    scratch: int
    bytes: int


def layout_of(program: Program, signature: Signature) -> Layout:
    """Parameters, arena, scratch memory, then what a call brings and takes."""
    specs = (*signature.arguments, *signature.fresh_results)
    sizes = {spec: _bound_bytes(spec, signature) for spec in specs}
    held = [isinstance(s, Argument) and s.role in ROLES_OF_MODEL for s in specs]
    first = [spec for spec, is_held in zip(specs, held, strict=True) if is_held]
    last = [spec for spec, is_held in zip(specs, held, strict=True) if not is_held]
    taken = [*(sizes[s] for s in first), signature.arena_bytes, program.scratch]
    taken += [sizes[s] for s in last]
    starts = [0]
    for size in taken:
        starts.append(starts[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
    count = len(first)
    places = dict(zip(first, starts, strict=False)) | dict(
        zip(last, starts[count + 2 :], strict=False)
    )
    buffers = tuple(places[spec] for spec in specs)
    total = max(starts[-1], ALIGNMENT)
    return Layout(specs, buffers, sizes, starts[count], starts[count + 1], total)


def dim_names(signature: Signature) -> dict[str, str]:
    """What the sizes of dims are called in C."""
    return {d.name: f"d{i}" for i, d in enumerate(signature.dims)}


def steps_text(program: Program, signature: Signature, layout: Layout) -> str:
    """The function `run_steps`, which takes all sizes."""
    names = dim_names(signature)
    parameters = ", ".join(f"i64 {name}" for name in names.values()) or "void"
    lines = [
        _OPENING,
        f"static int32_t run_steps({parameters})",
        "{",
        "    const u64 start = gpu.start;",
        *(f"    (void){name};" for name in ("start", *names.values())),
        *_Writer(program, layout, names).lines(program.steps, "    "),
        "    return FINE;",
        "}",
    ]
    return "\n".join(lines)


def _bound_bytes(spec: Spec, signature: Signature) -> int:
    bounds = {d.name: d.bound for d in signature.dims}
    size = NUMPY_DTYPES[spec.dtype].itemsize
    for dim in spec.shape:
        size *= bounds[dim] if isinstance(dim, str) else dim
    return size


@dataclass(frozen=True)
class _Writer:
    program: Program
    layout: Layout
    names: Mapping[str, str]

    def lines(self, steps: Sequence[Step], indent: str) -> Iterator[str]:
        for step in steps:
            if isinstance(step, Launch):
                yield from self._launch(step, indent)
                continue
            turn, count = turn_name(step.loop), self._number(step.count)
            yield f"{indent}for (i64 {turn} = 0; {turn} < {count}; {turn}++) {{"
            yield from self.lines(step.steps, indent + "    ")
            yield f"{indent}}}"

    def _launch(self, launch: Launch, indent: str) -> Iterator[str]:
        kernel = self.program.kernels[launch.kernel]
        if launch.remark:
            yield f"{indent}/* {comment_text(launch.remark)} */"
        given = [self._address(where) for where in launch.pointers]
        given += [f"(u64){self.names[symbol]}" for symbol in kernel.symbols]
        yield f"{indent}LAUNCH(K_{kernel.name}, {tiles_text(kernel.tiles, self.names)},"
        yield f"{indent}       {', '.join(given)});"

    def _address(self, where: Where) -> str:
        layout = self.layout
        match where:
            case Place("buffer", index):
                return f"start + {layout.buffers[index]}"
            case Place(base, index):
                before = layout.arena if base == "arena" else layout.scratch
                return f"start + {before + index}"
            case Part(whole, number, size, itemsize):
                distance = f"{self._number(number)} * ({size_text(size, self.names)}) * {itemsize}"
                return f"{self._address(whole)} + (u64)({distance})"
            case Either(turn, some, otherwise):
                first, second = self._address(some), self._address(otherwise)
                return f"({self._number(turn)} > 0 ? {first} : {second})"

    def _number(self, number: Number) -> str:
        terms = [size_text(number.size, self.names)]
        if number.sign:
            terms.append(f"{'-' if number.sign < 0 else '+'} {turn_name(number.loop)}")
        if number.plus:
            terms.append(f"{'-' if number.plus < 0 else '+'} {abs(number.plus)}")
        return f"({' '.join(terms)})"
