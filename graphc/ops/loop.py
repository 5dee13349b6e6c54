"""`loop`: steps over time in which values are carried from one to the next.

    %h, %y = loop %w, %x, %h0 {count = T, sequences = 1, carried = 1}
        : tensor<Sx32xf32>, tensor<TxSx32xf32> {
    ^(%v: tensor<32x32xf32>, %xt: tensor<Sx32xf32>, %carry: tensor<Sx32xf32>):
      %0 = matmul %carry, %v : tensor<Sx32xf32>
      %1 = add %xt, %0 : tensor<Sx32xf32>
      %2 = tanh %1 : tensor<Sx32xf32>
      yield %2, %2
    }

Operands   first what every step reads whole, then the sequences, of which step t reads element t,
           then what is carried, as the first step reads it
Block      one argument per operand; it reads nothing else
`yield`    what is carried to the next step, then what is kept of every step
Results    what the last step carried on (the operand itself for a count of 0), then what was kept,
           stacked along a first dim of time

The steps go from 0 to count - 1, with `backward` the other way round; element t of a stack always
belongs to step t. `at` says where the results live, and a schedule which loops run at the same
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import Loop
from graphc.ir.core import (
    Array,
    Block,
    IRBuilder,
    NotDifferentiable,
    OpDef,
    Operation,
    Region,
    Value,
)
from graphc.ir.params import Params
from graphc.ir.types import Dim, Symbol, TensorType, Type, TypeRuleError
from graphc.ops.control import YIELD
from graphc.ops.rules import tensor
from graphc.ops.schedules import LoopSchedule, check_loop_schedule


@dataclass(frozen=True)
class LoopParams(Params):
    """`count` of steps; how many operands are `sequences`, and how many `carried`.

    history  once memory is planned: for each carried value the stack in which it is found too, so
             that a step reads it there, or -1
    """

    count: int | Symbol
    sequences: int
    carried: int
    backward: bool = False
    history: tuple[int, ...] = ()


@dataclass(frozen=True)
class LoopParts:
    """A loop operation taken apart; every group in order.

    Of the operands: `invariants`, `sequences`, `initial`. Of the block's arguments: `shared`,
    `elements`, `carry_in`. Of what it yields: `carry_out`, `stacked`. Of the results: `final`,
    `stacks`.
    """

    op: Operation
    params: LoopParams
    block: Block
    invariants: tuple[Value, ...]
    sequences: tuple[Value, ...]
    initial: tuple[Value, ...]
    shared: tuple[Value, ...]
    elements: tuple[Value, ...]
    carry_in: tuple[Value, ...]
    carry_out: tuple[Value, ...]
    stacked: tuple[Value, ...]
    final: tuple[Value, ...]
    stacks: tuple[Value, ...]


def loop_parts(op: Operation) -> LoopParts:
    """The parts of a `loop` operation."""
    params = op.params_as(LoopParams)
    block = op.regions[0].block
    terminator = block.end
    first = len(op.operands) - params.carried - params.sequences
    middle = first + params.sequences
    arguments, yields = tuple(block.arguments), terminator.operands
    results = tuple(op.results)
    return LoopParts(
        op,
        params,
        block,
        *(op.operands[:first], op.operands[first:middle], op.operands[middle:]),
        *(arguments[:first], arguments[first:middle], arguments[middle:]),
        *(yields[: params.carried], yields[params.carried :]),
        *(results[: params.carried], results[params.carried :]),
    )


Step = Callable[
    [IRBuilder, Sequence[Value], Sequence[Value], Sequence[Value]],
    tuple[Sequence[Value], Sequence[Value]],
]
"""(builder in the body, shared, elements, before) -> (after, kept)."""


def loop(
    b: IRBuilder,
    count: Dim,
    step: Step,
    invariants: Sequence[Value] = (),
    sequences: Sequence[Value] = (),
    initial: Sequence[Value] = (),
    *,
    backward: bool = False,
) -> Operation:
    """A loop whose body is what `step` emits; its block arguments are named like the operands."""
    operands = [*invariants, *sequences, *initial]
    body = Block(_argument_types(invariants, sequences, initial), [v.name for v in operands])
    arguments = body.arguments
    first, middle = len(invariants), len(invariants) + len(sequences)
    inner = IRBuilder(body)
    inner.location = b.location
    carry_out, stacked = step(inner, arguments[:first], arguments[first:middle], arguments[middle:])
    inner.emit(YIELD, [*carry_out, *stacked])
    params = LoopParams(count, len(sequences), len(initial), backward)
    made = b.emit(LOOP, operands, params, regions=[Region([body])])
    for result, value in zip(made.results, (*carry_out, *stacked), strict=True):
        result.label = f"{value.called}.{'last' if result.index < len(carry_out) else 'stack'}"
    return made


def _argument_types(
    invariants: Sequence[Value], sequences: Sequence[Value], initial: Sequence[Value]
) -> list[Type]:
    """What a body takes for these operands."""
    elements = [element_type(tensor(v.type)) for v in sequences]
    return [*(v.type for v in invariants), *elements, *(v.type for v in initial)]


def element_type(sequence: TensorType) -> TensorType:
    """The type of what one step reads of a sequence, or keeps for a stack, of this type."""
    return sequence.with_dims(sequence.dims[1:])


def stack_type(element: TensorType, count: Dim) -> TensorType:
    return element.with_dims((count, *element.dims))


def _infer(types: Sequence[Type], params: LoopParams) -> Sequence[Type]:
    is_below_0 = isinstance(params.count, int) and params.count < 0
    if is_below_0 or params.sequences < 0 or params.carried < 0:
        raise TypeRuleError(
            "requires a count, sequences and carried of at least 0, "
            f"got {params.count}, {params.sequences} and {params.carried}"
        )
    if _groups(params) > len(types):
        raise TypeRuleError(
            f"requires {params.sequences} sequences and {params.carried} carried values, "
            f"got {len(types)} operands"
        )
    first = len(types) - _groups(params)
    for index, type in enumerate(types):
        found = tensor(type, index)
        is_sequence = first <= index < first + params.sequences
        if is_sequence and found.dims[:1] != (params.count,):
            raise TypeRuleError(
                f"requires sequences with a first dim of {params.count}, got {found}", operand=index
            )
    return []


def _groups(params: LoopParams) -> int:
    return params.sequences + params.carried


def _types(regions: Sequence[Region], params: LoopParams) -> Sequence[Type]:
    terminator = regions[0].block.terminator if regions and regions[0].blocks else None
    yields = [tensor(v.type) for v in terminator.operands] if terminator is not None else []
    stacks = [stack_type(t, params.count) for t in yields[params.carried :]]
    return [*yields[: params.carried], *stacks]


def _check(op: Operation) -> Iterable[str]:
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        yield "requires one region with one block"
        return
    block = op.regions[0].block
    if block.terminator is None or block.terminator.opdef is not YIELD:
        yield "its block must end in `yield`"
        return
    params = op.params_as(LoopParams)
    if len(block.arguments) != len(op.operands):
        yield f"has {len(op.operands)} operands but its block takes {len(block.arguments)}"
        return
    if len(block.terminator.operands) < params.carried:
        yield f"carries {params.carried} values but yields {len(block.terminator.operands)}"
        return
    parts = loop_parts(op)
    wanted = _argument_types(parts.invariants, parts.sequences, parts.initial)
    for index, (value, type) in enumerate(zip(block.arguments, wanted, strict=True)):
        if value.type != type:
            yield f"passes {type} as operand {index} but its block takes {value.type}"
    for index, stack in enumerate(params.history):
        same = stack < len(parts.stacked) and (
            stack < 0 or parts.stacked[stack] is parts.carry_out[index]
        )
        if len(params.history) != params.carried or not same:
            yield f"carried value {index} is not what stack {stack} keeps"
            return
    for carry_in, carry_out in zip(parts.carry_in, parts.carry_out, strict=True):
        if carry_in.type != carry_out.type:
            yield f"carries {carry_in.type} but yields {carry_out.type}"
    yield from check_loop_schedule(op)


def _run(
    params: LoopParams,
    body: Callable[..., tuple[Array, ...]],
    results: Sequence[Array],
    *arrays: Array,
) -> tuple[Array, ...]:
    first = len(arrays) - _groups(params)
    shared, rest = arrays[:first], arrays[first:]
    sequences, carried = rest[: params.sequences], rest[params.sequences :]
    stacks = results[params.carried :]
    steps = np.arange(params.count)  # type: ignore[arg-type]  # sizes are resolved by now
    for t in reversed(steps) if params.backward else steps:
        made = body(*shared, *(s[t] for s in sequences), *carried)
        carried = made[: params.carried]
        for stack, stacked in zip(stacks, made[params.carried :], strict=True):
            stack[t] = stacked
    return (*carried, *stacks)


LOOP = OpDef(
    name="loop",
    summary="steps over time that carry values from one to the next",
    operands=("inputs*",),
    params=LoopParams,
    schedule=LoopSchedule,
    infer=_infer,
    region_types=_types,
    reference=_run,
    check=_check,
    codegen=Loop(),
    vjp=NotDifferentiable.NONE,
    equation="c_(t+1), y_t = body(w, x_t, c_t)",
    source="book 2.6, Algorithm 2.6",
)

OPS = (LOOP,)
