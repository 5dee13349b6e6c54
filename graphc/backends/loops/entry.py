"""A planned function as one module: a function per nest or product, and an entry that calls them.

    i32 entry(ptr buffers, ptr dims, ptr arena, ptr pool)

buffers  pointers of all arguments in order, then of the fresh results in order; then, of a function
         that adds over members, of what does that (`all_reduce.py`)
dims     the sizes of the signature's dims as i64, in order
arena    scratch memory of `signature.arena_bytes`, 64-byte aligned
pool     threads that share the chunks of split operations (`parallel_for.py`); null: this one
         computes all, the same bits

The result is 0, or what has kept the function from its end: `NO_AMX`, `NO_SUM`, `NO_CLASS`.

The same function and machine always give the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from graphc.artifacts import classes
from graphc.backends.loops.control import loop, mul, offset, when
from graphc.backends.loops.entry_part import Around, EntryPart
from graphc.backends.loops.memory import load
from graphc.backends.loops.parallel_for import WholeCall, emit_calls
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import (
    I1,
    I32,
    I64,
    PTR,
    LaneType,
    Val,
    constant,
    index,
)
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.codegen import (
    Collective,
)
from graphc.ir.core import Function, Operation
from graphc.ir.machine import Machine
from graphc.ir.placement import Address
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import DType
from graphc.ops.schedules import (
    LoopSchedule,
    ProductSchedule,
    has_one_beside,
    is_beside,
)
from graphc.passes.analysis.product_schedules import with_pairs
from graphc.runtime.signature import ClassNumbers, LabelInput, Signature

PART_OPERATIONS = 256

NO_AMX = constant(5, I32)
"""The status where the system does not lend the registers of AMX."""
NO_CLASS = constant(classes.NO_CLASS, I32)

ENTRY_PARAMETERS = tuple(Val(f"%{name}", PTR) for name in ("buffers", "dims", "arena", "pool"))


def write_entry(
    module: ModuleWriter,
    function: Function,
    signature: Signature,
    machine: Machine,
    around: Around | None = None,
) -> Writer:
    """The body of the entry, whose parameters are `ENTRY_PARAMETERS`; all it calls is written."""
    if function.contraction == "off":
        machine = replace(machine, has_fma=False)
    homes = {a: Address("argument", i) for i, a in enumerate(function.arguments)}
    stages: list[list[Writer]] = []
    sums: list[bool] = []
    for stage in _stages(list(function.block)):
        stages.append([])
        sums.append(any(map(_is_sum, stage[0])))
        for part in stage:
            emitter = EntryPart(module, signature, machine, homes, part, around)
            for op in part:
                emitter.operation(op)
            emitter.finish()
            stages[-1].append(emitter.code)
    needs_amx = _needs_amx(function, machine)
    labels = [*(x for x in signature.labels if x.is_numbered), *signature.classes]
    if len(stages) == 1 and len(stages[0]) == 1 and not (needs_amx or labels):
        return stages[0][0]
    whole = module.body()
    named = [
        [
            module.add("part", ENTRY_PARAMETERS, body, results=(I32,), only_calls=True)
            for body in stage
        ]
        for stage in stages
    ]
    status = ends = [constant(0, I32)]
    with ExitStack() as conditions:
        for label in labels:
            ends[:] = [NO_CLASS]
            fit = _are_classes(whole, signature, label)
            ends = conditions.enter_context(when(whole, fit, ends))
        if needs_amx:
            ends[:] = [NO_AMX]
            ends = conditions.enter_context(when(whole, whole.amx_permission(), ends))
        for stage, is_sum in zip(named, sums, strict=True):
            if is_sum:
                ends[:] = whole.invoke_for(stage[0], ENTRY_PARAMETERS, (I32,))
                has_sum = whole.compare("eq", ends[0], constant(0, I32))
                ends = conditions.enter_context(when(whole, has_sum, ends))
            # Time stamps are written by one thread.
            elif len(stage) > 1 and around is None:
                _run_together(module, whole, stage)
            else:
                for name in stage:
                    whole.invoke_for(name, ENTRY_PARAMETERS, (I32,))
        ends[0] = constant(0, I32)
    whole.leave(status)
    return whole


def _are_classes(code: Writer, signature: Signature, label: LabelInput | ClassNumbers) -> Val:
    """Whether all numbers of an input of labels are those of classes; those below 0 are large."""
    places = {argument.name: i for i, argument in enumerate(signature.arguments)}
    dims = {dim.name: i for i, dim in enumerate(signature.dims)}
    _, table, _, _ = ENTRY_PARAMETERS
    count, place = index(1), places[label.name]
    for size in signature.arguments[place].shape:
        known = index(size) if isinstance(size, int) else None
        count = mul(code, count, known or _loaded(code, I64, table, index(dims[str(size)])))
    numbers = _loaded(code, PTR, ENTRY_PARAMETERS[0], index(place))
    scalars, dtype = LaneScalars(code, has_fma=False), DType(signature.arguments[place].dtype)
    with loop(code, index(0), count, 1, [constant(1, I1)]) as state:
        number = scalars.cast(load(scalars, numbers, state.index, dtype, 1), DType.I64)
        is_class = code.compare("ult", number, index(label.classes))
        state.carried[0] = code.binary("and", state.carried[0], is_class)
    return state.carried[0]


def _loaded(code: Writer, type_: LaneType, table: Val, place: Val) -> Val:
    element = "ptr" if type_ is PTR else "i64"
    return code.load(type_, offset(code, table, element, place), 8)


def _run_together(module: ModuleWriter, code: Writer, parts: Sequence[str]) -> None:
    """Parts of the entry as the tasks of one job."""
    context, reserve = code.stack_words()
    reserve(len(ENTRY_PARAMETERS))
    for slot, value in enumerate(ENTRY_PARAMETERS):
        code.store(value, offset(code, context, "i64", index(slot)), 8)
    calls = [WholeCall(name, 0, len(ENTRY_PARAMETERS), 0, (I32,)) for name in parts]
    arguments = (ENTRY_PARAMETERS[-1], Val(emit_calls(module, calls), PTR), context)
    code.invoke(module.parallel_for(), (*arguments, index(len(parts))))


def _needs_amx(function: Function, machine: Machine) -> bool:
    """Whether products are computed in the registers of AMX, for which the system is asked."""
    operations = (op for block in straight_blocks(function) for op in block)
    products = (op for op in operations if isinstance(op.schedule, ProductSchedule))
    return machine.has_amx and any(with_pairs(op, machine).amx for op in products)


def _stages(operations: list[Operation]) -> list[list[list[Operation]]]:
    """The operations in parts that are functions of their own: the time that LLVM takes for one
    grows faster than its length. A stage is one part, or a part for each of loops that run at the
    same time. A sum over members, which may not be made, is a stage."""
    stages: list[list[list[Operation]]] = [[[]]]
    is_closed = False
    for op in operations:
        if is_beside(op) and isinstance(op.schedule, LoopSchedule):
            stages[-1].append([op])
        elif (isinstance(op.schedule, LoopSchedule) and has_one_beside(op)) or _is_sum(op):
            stages.append([[op]])
            is_closed = True
        elif is_closed or len(stages[-1][0]) == PART_OPERATIONS:
            stages.append([[op]])
            is_closed = False
        else:
            stages[-1][0].append(op)
    return [stage for stage in stages if stage != [[]]] or [[[]]]


def _is_sum(op: Operation) -> bool:
    return isinstance(op.opdef.codegen, Collective)
