"""Which stage of a function computes what, where collectives cut it into stages.

    %h = matmul …            in stage 0
    %m = all_fold %z         behind stage 0
    %s = sub %z, %m          in stages 1 and 2, each of which reads it
    %v = mul %rate, %state   in stage 2, not 0: nothing else reads it

There are as many stages as collectives wait for each other. Others share the meetings of those: of
one of their kind, else the last one that comes before what reads them. An operation is in the first
stage that has what it reads. What another stage reads is written to memory and read there, unless
that stage computes it again: what costs nothing (constants, broadcasts, reshapes) always, light
arithmetic if it is made of at most two arrays of its size, which are in memory anyway.
O(operations).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphc.ir.codegen import FREE, Collective, Elementwise
from graphc.ir.core import Function, Operation, Value
from graphc.ir.dims import bound_elements
from graphc.passes.analysis.costs import is_light

LARGE_ARRAYS = 2
"""That are read to compute an array again: one is written and read where it is kept."""


@dataclass(frozen=True)
class Places:
    """count   of stages
    ready   by value: the first stage that has it
    behind  by collective: the stage that it comes behind
    again   the operations that are computed in every stage that reads them
    last    by operation: the last stage that computes it
    """

    count: int
    ready: Mapping[Value, int]
    behind: Mapping[Operation, int]
    again: frozenset[Operation]
    last: Mapping[Operation, int]


def stage_places(function: Function) -> Places:
    ops = [op for op in function.block if op is not function.block.terminator]
    earliest = _earliest(function, ops)
    count = 1 + max(earliest.values(), default=0)
    ready, behind = _placed(function, ops, earliest, _latest(ops, count))
    again = _computed_again(ops, ready, behind)
    return Places(count, ready, behind, again, _last(ops, ready, behind, again, count - 1))


def _earliest(function: Function, ops: list[Operation]) -> dict[Value, int]:
    """The first stage that may have a value."""
    ready: dict[Value, int] = dict.fromkeys(function.arguments, 0)
    for op in ops:
        stage = max([0, *(ready[x] for x in op.operands)])
        ready.update(dict.fromkeys(op.results, stage + _is_collective(op)))
    return ready


def _latest(ops: list[Operation], count: int) -> dict[Operation, int]:
    """The last stage that may compute an operation, or that a collective may come behind."""
    latest: dict[Operation, int] = {}
    for op in reversed(ops):
        stages = [latest[user] for v in op.results for user in v.users() if user in latest]
        latest[op] = min([count - 1, *stages]) - _is_collective(op)
    return latest


def _placed(
    function: Function,
    ops: list[Operation],
    earliest: Mapping[Value, int],
    latest: Mapping[Operation, int],
) -> tuple[dict[Value, int], dict[Operation, int]]:
    """The first stage that has a value, and what collectives come behind: one of the same kind that
    others wait for, or the last possible one."""
    waited_for = {
        (op.opdef, latest[op])
        for op in ops
        if _is_collective(op) and earliest[op.results[0]] == latest[op] + 1
    }
    ready: dict[Value, int] = dict.fromkeys(function.arguments, 0)
    behind: dict[Operation, int] = {}
    for op in ops:
        stage = max([0, *(ready[x] for x in op.operands)])
        if _is_collective(op):
            stages = range(stage, latest[op])
            behind[op] = next((s for s in stages if (op.opdef, s) in waited_for), latest[op])
            stage = behind[op] + 1
        ready.update(dict.fromkeys(op.results, stage))
    return ready, behind


def _is_collective(op: Operation) -> bool:
    return isinstance(op.opdef.codegen, Collective)


def _computed_again(
    ops: list[Operation], ready: Mapping[Value, int], behind: Mapping[Operation, int]
) -> frozenset[Operation]:
    free = {op for op in ops if isinstance(op.opdef.codegen, FREE)}
    reads = _last(ops, ready, behind, frozenset(free), 0)

    def is_in_memory(value: Value) -> bool:
        stages = (reads[user] for user in value.users() if user in reads)
        return (
            value.op is None
            or value.op in behind
            or any(user in behind for user in value.users())
            or any(stage > ready[value] for stage in stages)
        )

    def is_returned(op: Operation) -> bool:
        return any(user not in reads for user in op.result.users())

    again: set[Operation] = set(free)
    arrays: dict[Value, dict[Value, None]] = {}
    for op in ops:
        its = {v: None for x in op.operands for v in arrays.get(x, {x: None})}
        if isinstance(op.opdef.codegen, Elementwise) and is_light(op) and not is_returned(op):
            size = bound_elements(op.result.tensor.dims)
            large = [v for v in its if bound_elements(v.tensor.dims) >= size]
            if len(large) <= LARGE_ARRAYS and all(map(is_in_memory, large)):
                again.add(op)
        if op in again:
            arrays.update(dict.fromkeys(op.results, its))
    return frozenset(again)


def _last(
    ops: list[Operation],
    ready: Mapping[Value, int],
    behind: Mapping[Operation, int],
    again: frozenset[Operation],
    returned: int,
) -> dict[Operation, int]:
    """The last stage that computes each operation; `returned`, of those that are computed again and
    returned."""
    last: dict[Operation, int] = {}
    for op in reversed(ops):
        if op in behind:
            last[op] = behind[op]
        elif op in again:
            readers = [user for v in op.results for user in v.users()]
            last[op] = max([0, *(last.get(user, returned) for user in readers)])
        else:
            last[op] = ready[op.results[0]]
    return last
