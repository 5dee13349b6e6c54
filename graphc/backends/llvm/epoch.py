"""A second entry for training steps: many minibatches of data in memory in one call.

    i32 @graphc.epoch(ptr buffers, ptr dims, ptr arena, ptr pool,
                      ptr whole, ptr rows, ptr order, i64 samples, i64 size, ptr done)

buffers, dims, arena, pool
         as for `graphc.entry`; the caller fills in parameters and state, this function the rest
whole    a pointer for every buffer: to all data of an input, to the numbers of a hyperparameter for
         all minibatches, to memory for the numbers of a result for all minibatches
rows     a pointer for every buffer: to memory for the rows of an input in one minibatch
order    i64[samples], the rows that make up the minibatches, `size` each, the last may be shorter
done     i64, the number of finished minibatches; the caller sets it to 0

A minibatch of contiguous rows is read in place; the rows of others are gathered.
The result is the status of the first call of `graphc.entry` that is not 0, which ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends.llvm.entries import EPOCH
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import CALLER, Code, Module
from graphc.backends.loops.control import add, loop, mul, offset, sub, when
from graphc.backends.loops.values import I1, I64, PTR, LaneType, Val, constant, index, lane_type
from graphc.backends.native import row_bytes
from graphc.runtime.signature import NUMPY_DTYPES, Argument, Result, Signature

UNROLLED = 8
"""Vectors of a row that are copied by straight-line code."""

_I32 = lane_type("i32")


def add_epoch(module: Module, signature: Signature, target: Target, entry: str) -> None:
    """Writes `graphc.epoch`, which calls the `entry` of this module."""
    code = Code(module)
    samples, size = Val("%samples", I64), Val("%size", I64)
    rounded = add(code, samples, sub(code, size, index(1)))
    calls = code.value(I64, f"sdiv i64 {rounded.ref}, {size.ref}")
    whole = [_pointer(code, "%whole", i) for i in range(_buffer_count(signature))]
    with loop(code, index(0), calls, 1) as state:
        first = mul(code, state.index, size)
        left = sub(code, samples, first)
        is_whole = code.value(I1, f"icmp slt i64 {size.ref}, {left.ref}")
        count = code.value(I64, f"select {is_whole}, {size}, {left}")
        code.do(f"store {count}, ptr %dims, align 8")
        _place_inputs(code, signature, target, whole, (first, count))
        _place_numbers(code, signature, whole, state.index)
        status = code.value(
            _I32, f"call i32 @{entry}(ptr %buffers, ptr %dims, ptr %arena, ptr %pool)"
        )
        _leave_if_bad(code, status)
        code.do(f"store {add(code, state.index, index(1))}, ptr %done, align 8")
    code.do("ret i32 0")
    parameters = (
        "ptr %buffers, ptr %dims, ptr %arena, ptr %pool, ptr %whole, ptr %rows, ptr %order, "
        "i64 %samples, i64 %size, ptr %done"
    )
    module.add_function(f"define i32 @{EPOCH}({parameters}) nounwind {CALLER}", code)


def _buffer_count(signature: Signature) -> int:
    return len(signature.arguments) + len(signature.fresh_results)


def _place_inputs(
    code: Code, signature: Signature, target: Target, whole: Sequence[Val], part: tuple[Val, Val]
) -> None:
    """Puts the rows order[first] … of every input into `buffers`, copied only where they must be.

    part  first and count
    """
    first, count = part
    order = offset(code, Val("%order", PTR), "i64", first)
    start = code.load(I64, order, 8)
    function = _consecutive(code.module)
    (scattered,) = code.invoke_for(function, (order, count), (I1,))
    inputs = [(i, row_bytes(a)) for i, a in enumerate(signature.arguments) if a.role == "input"]
    places = [offset(code, whole[i], "i8", mul(code, start, index(b))) for i, b in inputs]
    with when(code, scattered, places) as gathered:
        for k, (i, width) in enumerate(inputs):
            gathered[k] = _pointer(code, "%rows", i)
            copy = _gather(code.module, target, width)
            code.invoke(copy, (whole[i], order, count, gathered[k]))
    for (i, _), place in zip(inputs, places, strict=True):
        _set_buffer(code, i, place)


def _place_numbers(code: Code, signature: Signature, whole: Sequence[Val], turn: Val) -> None:
    """Puts the hyperparameters and results of this minibatch into `buffers`."""
    arguments: list[tuple[int, Argument | Result]] = [
        (i, a) for i, a in enumerate(signature.arguments) if a.role == "hyperparameter"
    ]
    results = enumerate(signature.fresh_results, start=len(signature.arguments))
    for i, spec in (*arguments, *results):
        size = NUMPY_DTYPES[spec.dtype].itemsize
        _set_buffer(code, i, offset(code, whole[i], f"[{size} x i8]", turn))


def _pointer(code: Code, table: str, place: int) -> Val:
    return code.load(PTR, offset(code, Val(table, PTR), "ptr", index(place)), 8)


def _set_buffer(code: Code, place: int, pointer: Val) -> None:
    code.store(pointer, offset(code, Val("%buffers", PTR), "ptr", index(place)), 8)


def _leave_if_bad(code: Code, status: Val) -> None:
    bad = code.value(I1, f"icmp ne {status}, 0")
    leave, go_on = code.fresh_label("leave"), code.fresh_label("fine")
    code.do(f"br {bad}, label %{leave}, label %{go_on}")
    code.enter(leave)
    code.do(f"ret {status}")
    code.enter(go_on)


def _consecutive(module: Module) -> str:
    """`@name` of a function that says whether `count` >= 1 row numbers do not rise by 1 each."""
    code = Code(module)
    order, count = Val("%order", PTR), Val("%count", I64)
    start = code.load(I64, order, 8)
    with loop(code, index(1), count, 1, [constant(0, I1)]) as state:
        found = code.load(I64, offset(code, order, "i64", state.index), 8)
        expected = add(code, start, state.index)
        differs = code.compare("ne", found, expected)
        state.carried[0] = code.binary("or", state.carried[0], differs)
    code.leave(state.carried)
    return module.add("scattered", (order, count), code, results=(I1,))


def _gather(module: Module, target: Target, width: int) -> str:
    """`@name` of a function that gathers rows of `width` bytes into contiguous memory."""
    code = Code(module)
    data, order, to = (Val(f"%{name}", PTR) for name in ("data", "order", "to"))
    count = Val("%count", I64)
    with loop(code, index(0), count, 1) as state:
        row = code.load(I64, offset(code, order, "i64", state.index), 8)
        source = offset(code, data, "i8", mul(code, row, index(width)))
        place = offset(code, to, "i8", mul(code, state.index, index(width)))
        _copy_row(code, source, place, width, target.machine.vector_bits // 8)
    code.leave()
    return module.add("gather", (data, order, count, to), code)


def _copy_row(code: Code, source: Val, place: Val, width: int, vector: int) -> None:
    """Copies a row: whole vectors (a long row in a loop), then the rest in ever shorter ones."""
    done = 0
    block = UNROLLED * vector
    if width >= 2 * block:
        done = width - width % block
        with loop(code, index(0), index(done), block) as state:
            for k in range(0, block, vector):
                _copy_piece(code, source, place, add(code, state.index, index(k)), vector)
    piece = vector
    while done < width:
        while done + piece > width:
            piece //= 2
        _copy_piece(code, source, place, index(done), piece)
        done += piece


def _copy_piece(code: Code, source: Val, place: Val, position: Val, size: int) -> None:
    type_: LaneType = lane_type("i8", size)
    read = offset(code, source, "i8", position)
    value = code.load(type_, read, 1)
    code.store(value, offset(code, place, "i8", position), 1)
