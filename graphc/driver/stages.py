"""A step that meets other members several times: cut into stages, with meetings between them.

    stage 0   up to the hidden layer's values          meeting 0   all_gather
    stage 1   a part of the outputs, their maximum     meeting 1   all_fold
    …

Which stage computes what is in `stage_places.py`. Meetings have all collectives that come behind
the same stage. What a stage makes for later ones is a result of it and an argument of theirs. Any
backend compiles a stage, which knows nothing of members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from graphc.driver.compile import Lowered, compile_operations, lower_by, run_passes
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import infer
from graphc.driver.stage_places import stage_places
from graphc.ir.clone import clone_shallow, empty_like
from graphc.ir.core import Function, Module, Operation, ResultInfo, Value
from graphc.model.model import Model
from graphc.ops import default_context
from graphc.ops.communication import (
    ALL_FOLD,
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    AllFoldParams,
    AllGatherParams,
)
from graphc.passes import pipeline
from graphc.passes.manager import Pass
from graphc.passes.merge_products import MergeProducts
from graphc.passes.split_outputs import Part, split_outputs
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.shards import Shards
from graphc.runtime.signature import Signature
from graphc.runtime.stages import Exchange, Stage, StagedFunction

TOGETHER = ("sum", "gather")
"""Kinds of exchanges of which one does what several do."""


def compile_split(
    communicator: Communicator,
    names: Sequence[str],
    found: dict[str, int],
    model: Model,
    passes: Sequence[Pass],
    options: CompileOptions,
) -> tuple[CompiledFunction, Signature]:
    """What `passes` make of a network, with the outputs of these parameters split over members.

    found  gets the names of all arrays that are split, with their rows
    """
    infer(model)
    part = Part(communicator.rank, communicator.size)
    apart = [p for p in passes if not isinstance(p, MergeProducts)]
    lowered = lower_by(model, apart, options)
    function, split = split_outputs(lowered.module, lowered.function, names, part)
    rows = {a.name: a.shape[0] for a in lowered.signature.arguments if a.name in split}
    parts: dict[str, tuple[int, int]] = {}
    for name, count in rows.items():
        assert isinstance(count, int)
        found[name], parts[name] = count, part.of(count)
    module = Module([function], lowered.module.dims)
    run_passes(module, pipeline("cse,dce"), default_context(), options)
    lowered = replace(lowered, module=module, function=module.functions[0])
    made = compile_stages(communicator, lowered, options, parts=parts)
    return made, lowered.signature


def compile_stages(
    communicator: Communicator,
    lowered: Lowered,
    options: CompileOptions,
    shards: Shards | None = None,
    parts: Mapping[str, tuple[int, int]] = MappingProxyType({}),
) -> CompiledFunction:
    """A function that meets other members where its collectives stand.

    shards  those of a minibatch that this member computes
    parts   the rows of arguments that this member has, which are updated as soon as they may
    """
    signature = lowered.signature
    shards = shards or Shards(signature, 1, "")
    modules, meetings = cut(lowered.module, lowered.function, updates_last=not parts)
    stages = [Stage(*compile_operations(m, options)) for m in modules]
    return StagedFunction(signature, stages, meetings, communicator, shards, parts)


def cut(
    module: Module, function: Function, *, updates_last: bool = False
) -> tuple[list[Module], list[list[Exchange]]]:
    """The stages, and what members exchange behind each but the last.

    updates_last  arguments are updated in the last stage alone: others are computed several times,
                  for shards, and a meeting behind them may fail
    """
    return _Cut(module, function, updates_last).made()


def _add_exchange(meeting: list[Exchange], exchange: Exchange) -> None:
    """Sums of one element type, and rows of the same samples, travel together."""
    for index, other in enumerate(meeting):
        alike = ((e.kind, e.dtype, e.own, e.total) for e in (exchange, other))
        if exchange.kind in TOGETHER and len({*alike}) == 1:
            meeting[index] = replace(
                other,
                gives=(*other.gives, *exchange.gives),
                gets=(*other.gets, *exchange.gets),
                columns=(*other.columns, *exchange.columns),
            )
            return
    meeting.append(exchange)


class _Cut:
    def __init__(self, module: Module, function: Function, updates_last: bool) -> None:
        self.module, self.function, self.updates_last = module, function, updates_last
        self.ops = [op for op in function.block if op is not function.block.terminator]
        self.places = stage_places(function)
        self.ready, self.behind, self.count = (
            self.places.ready,
            self.places.behind,
            self.places.count,
        )
        self.names: dict[Value, str] = {}

    def made(self) -> tuple[list[Module], list[list[Exchange]]]:
        """From the last stage to the first: what one reads, an earlier one has to give."""
        given: list[dict[Value, None]] = [{} for _ in range(self.count)]
        meetings: list[list[Exchange]] = [[] for _ in range(self.count - 1)]
        for op, stage in self.behind.items():
            _add_exchange(meetings[stage], self._exchange(op))
            for x in op.operands:
                if not self._is_outside(x):
                    given[stage if self._is_free(x) else self.ready[x]][x] = None
        returned: list[list[tuple[ResultInfo, Value]]] = [[] for _ in range(self.count)]
        last_read = {
            a: max([0, *(self._stage_of(op) for op in a.users())]) for a in self.function.arguments
        }
        for info, value in zip(self.function.results, self.function.returned, strict=True):
            stage = self.count - 1
            if not self._is_outside(value) and not self._is_free(value):
                stage = self.ready[value]
            argument = self.function.argument(info.updates or "")
            if argument is not None and (self.updates_last or last_read[argument] > stage):
                stage = self.count - 1  # an update in place comes behind all that reads it
            returned[stage].append((info, value))
        modules: list[Module] = []
        for stage in reversed(range(self.count)):
            modules.insert(0, self._stage(stage, returned[stage], given))
        return modules, meetings

    def _stage_of(self, op: Operation) -> int:
        """The last stage that reads the operands."""
        return self.places.last.get(op, self.count - 1)

    def _name(self, value: Value) -> str:
        if value.op is None:
            return value.name or ""
        return self.names.setdefault(value, f"stage.{len(self.names)}")

    def _is_outside(self, value: Value) -> bool:
        """Whether no stage computes it: an argument, or what members exchanged."""
        return value.op is None or value.op in self.behind

    def _is_free(self, value: Value) -> bool:
        return value.op is not None and value.op in self.places.again

    def _exchange(self, op: Operation) -> Exchange:
        gives = tuple(self._name(x) for x in op.operands)
        gets = tuple(self._name(v) for v in op.results)
        made = Exchange("own", gives, gets)
        if op.opdef is ALL_REDUCE:
            made = replace(made, kind="sum", dtype=op.results[0].tensor.dtype.value)
        elif op.opdef is REDUCE_SCATTER:
            made = replace(made, kind="scatter")
        elif op.opdef is ALL_FOLD:
            made = replace(made, kind=op.params_as(AllFoldParams).by)
        elif op.opdef is ALL_GATHER:
            params = op.params_as(AllGatherParams)
            made = replace(made, kind="gather", columns=((params.start, params.stop),))
        has_samples = op.opdef not in (ALL_REDUCE, ALL_FOLD)
        if has_samples:
            (own, total) = op.operands[0].tensor.dims[0], op.result.tensor.dims[0]
            if op.opdef is not ALL_GATHER:
                own, total = total, own
            made = replace(made, own=str(own), total=str(total))
        return made

    def _stage(
        self,
        stage: int,
        returned: Sequence[tuple[ResultInfo, Value]],
        given: list[dict[Value, None]],
    ) -> Module:
        outputs = [*returned, *((ResultInfo(self._name(v)), v) for v in given[stage])]
        needed, arguments = self._needed(stage, [v for _, v in outputs])
        made = empty_like(self.function)
        made.results = [info for info, _ in outputs]
        values: dict[Value, Value] = {}
        updated = {info.updates for info, _ in returned}
        for argument, role in zip(self.function.arguments, self.function.roles, strict=True):
            if argument in arguments or argument.name in updated:
                values[argument] = made.add_argument(argument.name or "", argument.type, role)
        for value in arguments:
            if value.op is None:
                continue
            values[value] = made.add_argument(self._name(value), value.type, "input")
            if value.op not in self.behind:
                given[self.ready[value]][value] = None
        for op in self.ops:
            if op in needed:
                copy = clone_shallow(op)
                copy.set_operands(values[x] for x in op.operands)
                made.block.append(copy)
                values.update(zip(op.results, copy.results, strict=True))
        end = clone_shallow(self.function.block.end)
        end.set_operands(values[v] for _, v in outputs)
        made.block.append(end)
        return Module([made], self.module.dims)

    def _needed(
        self, stage: int, outputs: Sequence[Value]
    ) -> tuple[set[Operation], dict[Value, None]]:
        """The operations of a stage, and the values that it is given."""
        ops: set[Operation] = set()
        arguments: dict[Value, None] = {}
        work = list(outputs)
        while work:
            value = work.pop()
            op = value.op
            is_here = not self._is_outside(value) and (
                self.ready[value] == stage or self._is_free(value)
            )
            if op is None or not is_here:
                arguments[value] = None
            elif op not in ops:
                ops.add(op)
                work.extend(op.operands)
        return ops, arguments
