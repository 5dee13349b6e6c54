"""A training step that goes through a data set by itself: minibatches as turns of a loop.

The data, the order of its rows, the numbers of all minibatches and their results are on the device,
and so is the number of the minibatch: so every minibatch is the same launches, which are recorded
once, or are one kernel for many of them. Before the step its rows are gathered; behind it its
results are kept, the minibatch is counted, and the next one's numbers are put in their places.

That kernel runs a step alone too, as one minibatch of no rows (`STEP_ALONE`), for which none of
this is done: a second kernel would take as long to compile again.
"""

from __future__ import annotations

from dataclasses import replace

from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, size_text, tiles_text
from graphc.backends.cuda.module import C_TYPES, CudaModule
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.steps import Launch, Number, Place, Step, Turns, in_loop
from graphc.backends.native import row_bytes
from graphc.ir.types import DType
from graphc.passes.analysis.loopnest import Size
from graphc.runtime.signature import Argument, Result, Signature

MINIBATCH = "minibatch"
"""The symbol of the rows of a whole minibatch."""

MINIBATCHES = "minibatches"
"""The symbol of how many minibatches are run."""

STEP_ALONE = {MINIBATCH: 0, MINIBATCHES: 1}
"""Sizes with which the rows are where the step reads them, and its results stay where they are."""

GATHERED = THREADS * 4
"""Elements of a tile of a gather."""

_UNITS = ((8, "u64"), (4, "u32"), (1, "unsigned char"))
"""What rows are copied as: the widest that fits."""


def order_buffer(signature: Signature) -> int:
    """The number of the buffer with the order; that with the minibatch's number is the next."""
    return len(signature.arguments) + len(signature.fresh_results)


def whole_buffer(signature: Signature, buffer: int) -> int:
    """The number of the buffer with what a buffer of the function has in all minibatches."""
    return order_buffer(signature) + 2 + buffer


def buffer_names(signature: Signature) -> list[str]:
    """What to call the buffers of a program of this signature, for people."""
    own = [*(a.name for a in signature.arguments), *(r.name for r in signature.fresh_results)]
    return [*own, "order", "minibatch", *(f"all {name}" for name in own)]


def epoch_steps(module: CudaModule, program: Program, signature: Signature) -> tuple[Step, ...]:
    """The minibatches of a function that `runs_epochs`, as many as its dim says.

    Their buffers come behind the function's: the order i64[any], the number of the minibatch i64,
    then for each of the function's what it has in all minibatches.
    """
    inputs = [(i, a) for i, a in enumerate(signature.arguments) if a.role == "input"]
    gathers = (_gather(module, signature, i, a) for i, a in inputs)
    steps = (*gathers, *in_loop(program.steps), _turn_over(module, signature))
    return (Turns(0, Number(Size(1, (MINIBATCHES,))), steps),)


def _gather(module: CudaModule, signature: Signature, buffer: int, argument: Argument) -> Launch:
    """Puts a minibatch's rows of an input where the function reads them."""
    (dim,) = signature.dims
    width = row_bytes(argument)
    size, unit = next(u for u in _UNITS if width % u[0] == 0)
    words = max(width // size, 1)
    index = "u32" if max(words * dim.bound, dim.bound) < 2**31 else "i64"

    def make(name: str) -> Kernel:
        tiles = Tiles(((Size(words, (dim.name,)), GATHERED),))
        names = {dim.name: "d0", MINIBATCH: "d1"}
        pointers = (f"const {unit} *", "const i64 *", "const i64 *", f"{unit} *")
        text = (
            f"// The rows p1[p2[0] * d1], ... of p0, each of {words} elements; none if d1 is 0.\n"
            f"__device__ void {name}(const {unit} *p0, const i64 *p1, const i64 *p2, {unit} *p3,\n"
            "    i64 d0, i64 d1, Block block)\n"
            "{\n"
            "    if (d1 == 0)\n"
            "        return;\n"
            "    const i64 *rows = p1 + p2[0] * d1;\n"
            f"    for (i64 tile = block.index; tile < {tiles_text(tiles, names)}; "
            "tile += block.count)\n"
            f"        for (int i = thread_index(); i < {GATHERED}; i += {THREADS}) {{\n"
            f"            const {index} at = ({index})(tile * {GATHERED} + i);\n"
            f"            if (at < {size_text(tiles.factors[0][0], names)})\n"
            f"                p3[at] = p0[rows[at / {words}] * {words} + at % {words}];\n"
            "        }\n"
            "}\n"
        )
        return Kernel(name, pointers, (dim.name, MINIBATCH), tiles, text)

    kernel = module.kernel(("rows", unit, words, index, dim.name), "rows", make)
    order = order_buffer(signature)
    places = (whole_buffer(signature, buffer), order, order + 1, buffer)
    pointers = tuple(Place("buffer", place, 0) for place in places)
    return Launch(kernel.name, pointers, f"rows of `{argument.name}`", frozenset({3}))


def _turn_over(module: CudaModule, signature: Signature) -> Launch:
    """Keeps the results, counts the minibatch, and gets the numbers of the next."""
    numbers = [(i, a) for i, a in enumerate(signature.arguments) if a.role == "hyperparameter"]
    results = [*enumerate(signature.fresh_results, start=len(signature.arguments))]
    specs: list[Argument | Result] = [spec for _, spec in (*results, *numbers)]
    types = tuple(C_TYPES[DType(spec.dtype)] for spec in specs)

    def make(name: str) -> Kernel:
        pointers = ["i64 *"]
        lines: list[str] = []
        for k, type in enumerate(types):
            one, all_ = f"p{1 + 2 * k}", f"p{2 + 2 * k}"
            if k < len(results):
                pointers += [f"const {type} *", f"{type} *"]
                lines.append(f"{all_}[turn] = {one}[0];")
            else:
                pointers += [f"{type} *", f"const {type} *"]
                lines.append(f"{one}[0] = {all_}[turn + 1];")
        kernel = Kernel(name, tuple(pointers), (MINIBATCH,), Tiles(), "")
        inner = "".join(f"        {line}\n" for line in lines)
        text = (
            "// Behind a minibatch: its results are kept, the next one's numbers put in place.\n"
            f"__device__ void {name}({', '.join(kernel.parameters)}, Block block)\n"
            "{\n"
            "    if (block.index == 0 && thread_index() == 0 && d0 != 0) {\n"
            "        const i64 turn = p0[0];\n"
            f"{inner}"
            "        p0[0] = turn + 1;\n"
            "    }\n"
            "}\n"
        )
        return replace(kernel, text=text)

    kernel = module.kernel(("turn over", types, len(results)), "turn_over", make)
    places = [order_buffer(signature) + 1]
    for buffer, _ in (*results, *numbers):
        places += [buffer, whole_buffer(signature, buffer)]
    pointers = tuple(Place("buffer", place, 0) for place in places)
    written = {0, *(2 + 2 * k for k in range(len(results)))}
    written |= {1 + 2 * k for k in range(len(results), len(types))}
    return Launch(kernel.name, pointers, "the next minibatch", frozenset(written))
