"""A part of an entry (`entry.py`): where values live, and the calls that compute operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import PurePath

from graphc.backends.loops import all_reduce
from graphc.backends.loops.chunk_sum import emit_chunk_sum
from graphc.backends.loops.control import add, loop, mul, offset, size_value, sub, when
from graphc.backends.loops.convolution import emit_convolution
from graphc.backends.loops.depthwise import Depthwise, emit_depthwise
from graphc.backends.loops.fused import emit_fused
from graphc.backends.loops.gemm import Product, emit_gemm
from graphc.backends.loops.indexed import LookedUp, emit_indexed
from graphc.backends.loops.moves import emit_move, move_of
from graphc.backends.loops.nests import NestFunction, emit_nest
from graphc.backends.loops.padding import emit_padding, padding_chunks
from graphc.backends.loops.parallel_for import (
    ChunkCall,
    WholeCall,
    chunk_count,
    emit_calls,
    emit_task,
)
from graphc.backends.loops.pooling import Pooling, emit_pooling
from graphc.backends.loops.prepacking import emit_prepacked, whole_copies
from graphc.backends.loops.selection import Selected, emit_selection
from graphc.backends.loops.update_rows import emit_update_rows
from graphc.backends.loops.values import (
    I32,
    I64,
    NULL,
    PTR,
    LaneType,
    Val,
    constant,
    element_of,
    index,
    memory_element,
    number_of,
)
from graphc.backends.loops.winograd import (
    emit_all_windows,
    emit_weights,
    weight_chunks,
    window_chunks,
)
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.backends.walk import Walker
from graphc.ir.codegen import (
    ChannelProduct,
    Collective,
    Contraction,
    Copy,
    Folding,
    FusedProduct,
    IndexedSum,
    Kernel,
    Role,
    RowUpdate,
    Selection,
    StridedCopy,
    WindowProduct,
    WindowReduction,
)
from graphc.ir.core import Operation, Value
from graphc.ir.elements import element_bytes
from graphc.ir.machine import Machine
from graphc.ir.placement import Address
from graphc.ir.types import Dim
from graphc.ops.communication import sum_number
from graphc.ops.constant import ConstantParams
from graphc.ops.depthwise import depthwise_shape
from graphc.ops.pooling import PoolParams, pool_shape
from graphc.ops.schedules import (
    ChannelSchedule,
    CopySchedule,
    ImagesSchedule,
    LaneSchedule,
    LookupSchedule,
    NestSchedule,
    has_one_behind,
    has_one_beside,
    is_behind,
    schedule_of,
)
from graphc.ops.update_rows import row_update
from graphc.passes.analysis.chunk_groups import require_behind
from graphc.passes.analysis.loopnest import Chunking, Nest, Size, constants_of, copy_nest
from graphc.passes.analysis.nest_schedules import scheduled_nests
from graphc.passes.analysis.window_products import (
    Convolution,
    convolution_schedule,
    product_of,
)
from graphc.runtime.signature import Signature
from graphc.support.adjacent import adjacent
from graphc.support.diagnostics import InternalError

Around = Callable[[Writer, Operation], AbstractContextManager[None]]
"""What an operation's calls are written in: time stamps, say."""


class _Where(dict[Value, Val]):
    """The addresses of values; of those that other parts of the entry made, by their `homes`."""

    def __init__(self, homes: Mapping[Value, Address], address: Callable[[Address], Val]) -> None:
        super().__init__()
        self._homes = homes
        self._address = address

    def __missing__(self, value: Value) -> Val:
        # Not kept: in a loop it is known only there, which `_address` takes care of.
        return self._address(self._homes[value])


class EntryPart(Walker[Val, Val]):
    """Where every value lives, and the calls that compute them, for a part of the operations.

    homes   the places of arguments, and of what the parts before computed; those of this part are
            added
    beside  functions, pointers and sizes of products that wait for those computed beside them
    chunks  calls for each chunk that wait for those behind them, and what they are given
    """

    def __init__(
        self,
        module: ModuleWriter,
        signature: Signature,
        machine: Machine,
        homes: dict[Value, Address],
        part: Sequence[Operation],
        around: Around | None,
    ) -> None:
        self.module = module
        self.around = around
        self.machine = machine
        self.code = module.body()
        self.context, self.reserve_context = self.code.stack_words()
        self.context_slots = 0
        self.beside: list[tuple[str, list[Val], Sequence[str]]] = []
        self.chunks: list[ChunkCall] = []
        self.given: list[Val] = []
        self.results = _result_slots(signature)
        self.homes = homes
        super().__init__(_Where(homes, self._address))
        self.status = constant(0, I32)
        self.adder = len(signature.arguments) + len(signature.fresh_results)
        self.slots: dict[int, Val] = {}
        self.arena: dict[int, Val] = {}
        self.sizes: dict[str, Val] = {}
        for i, dim in enumerate(signature.dims):
            self.sizes[dim.name] = self._loaded(I64, "%dims", i)
        used = {v: None for op in part for v in op.operands}
        for value in used:
            # Before all loops, in which it would be loaded in every step.
            if (home := homes.get(value)) is not None and home.kind == "argument":
                self.where[value] = self._slot(home.index)

    def finish(self) -> None:
        """The end of the function, and workspace for tasks, now that its size is known."""
        self._compute_beside()
        self._compute_chunks()
        self.reserve_context(self.context_slots)
        self.code.leave([self.status])

    def operation(self, op: Operation) -> None:
        """Writes the calls of one operation, of a loop those of its steps."""
        with nullcontext() if self.around is None else self.around(self.code, op):
            super().operation(op)

    def begin(self, op: Operation) -> None:
        self.code.remark(_described(op))

    def compute(self, op: Operation) -> None:
        if is_behind(op):
            require_behind(op)
        self._compute(op)
        # The time of each operation is taken for itself.
        if self.around is not None or not has_one_behind(op):
            self._compute_chunks()

    def _compute(self, op: Operation) -> None:
        match op.opdef.codegen:
            case Kernel():
                constants = self._constants(op)
                for nest, how in scheduled_nests(op):
                    self._nest_call(op, nest, constants, how)
            case FusedProduct():
                self._fused(op)
            case RowUpdate():
                self._update_rows(op)
            case Contraction():
                self._gemm(op)
            case WindowProduct():
                self._convolution(op)
            case ChannelProduct(role):
                self._depthwise(op, role)
            case WindowReduction(folding):
                self._pooling(op, folding)
            case IndexedSum(subscripts):
                self._indexed(op, subscripts(op.params))
            case Selection():
                self._selection(op)
            case StridedCopy() as how:
                self._move(op, how)
            case Collective(part):
                self._collective(op, part)
            case Copy():
                nest = copy_nest(op.operands[0].tensor)
                self._nest_call(op, nest, {}, op.schedule_as(CopySchedule).nest)
            case _:
                raise InternalError(f"`{op.opdef.name}` is not of the kernel level")

    # --- memory

    def view(self, op: Operation) -> Val:
        if op.operands[0] in self.homes:
            self.homes[op.result] = self.homes[op.operands[0]]
        return self.where[op.operands[0]]

    def placed(self, value: Value, place: Address) -> Val:
        if not self.frames:
            self.homes[value] = place
        found = self.in_step(place)
        return found if found is not None else self._address(place)

    def _address(self, place: Address) -> Val:
        if place.kind == "argument":
            return self._slot(place.index)
        if place.kind == "result":
            return self._slot(self.results[place.index])
        if place.index not in self.arena:
            at = self.code.offset(Val("%arena", PTR), "i8", index(place.index))
            self.arena[place.index] = at
        return self.arena[place.index]

    def _slot(self, index: int) -> Val:
        if index not in self.slots:
            self.slots[index] = self._loaded(PTR, "%buffers", index)
        return self.slots[index]

    def _loaded(self, type_: LaneType, base: str, number: int) -> Val:
        address = self.code.offset(Val(base, PTR), "i64", index(number))
        return self.code.load(type_, address, 8)

    # --- loops

    def count(self, dim: Dim) -> Val:
        return size_value(self.code, Size.of((dim,)), self.sizes)

    def last(self, count: Val, *, backward: bool) -> Val:
        return index(0) if backward else sub(self.code, count, index(1))

    def shifted(self, step: Val, by: int) -> Val:
        return add(self.code, step, index(by))

    def steps(self, count: Val, body: Callable[[Val, Val], None], *, backward: bool) -> None:
        if number_of(count) == 0:
            return
        outside = dict(self.arena), dict(self.slots)
        with loop(self.code, index(0), count, 1) as state:
            step = state.index
            if backward:
                step = sub(self.code, sub(self.code, count, index(1)), step)
            body(step, state.index)
        # Addresses that were computed in the steps are not known behind them.
        self.arena, self.slots = outside

    def element(self, value: Value, outer: Value, step: Val, *, is_kept: bool = False) -> Val:
        size = size_value(self.code, Size.of(value.tensor.dims), self.sizes)
        element = memory_element(element_of(value.tensor.dtype))
        return offset(self.code, self.where[outer], element, mul(self.code, step, size))

    def kept(self, value: Value, stack: Value, step: Val, number: Val, otherwise: Val) -> Val:
        some = self.element(value, stack, step)
        return self.code.select(self.code.compare("sgt", number, index(0)), some, otherwise)

    def copy(self, source: Val, target: Value) -> None:
        made = emit_nest(self.module, self.machine, copy_nest(target.tensor), {})
        places = {"operand": source, "result": self.where[target]}
        self._call(made.name, [places[kind] for kind, _ in made.accesses], made.symbols)

    # --- calls

    def _arrays(self, op: Operation) -> list[Val]:
        """The addresses of operands, results and workspace."""
        values = [self.where[v] for v in (*op.operands, *op.results)]
        return [*values, *self._workspace(op)]

    def _workspace(self, op: Operation) -> list[Val]:
        return [self._address(w.place) for w in op.workspace]

    def _call(self, function: str, pointers: Sequence[Val], symbols: Sequence[str]) -> None:
        arguments = [*pointers, *(self.sizes[name] for name in symbols)]
        self.code.invoke(function, arguments)

    def _parallel_for(
        self, function: str, pointers: Sequence[Val], symbols: Sequence[str], chunking: Chunking
    ) -> None:
        """The call in chunks, now. One table serves all operations: each ends before the next
        begins."""
        task = emit_task(
            self.module, [ChunkCall(function, 0, len(pointers), tuple(symbols), chunking)]
        )
        chunks = chunk_count(self.code, chunking, self.sizes)
        self._hand_out(task, [*pointers, *(self.sizes[name] for name in symbols)], chunks)

    def _in_chunks(
        self, function: str, pointers: Sequence[Val], symbols: Sequence[str], chunking: Chunking
    ) -> None:
        """The call for each chunk, in the tasks of the operation before it if it is behind that."""
        made = ChunkCall(function, len(self.given), len(pointers), tuple(symbols), chunking)
        self.chunks.append(made)
        self.given += [*pointers, *(self.sizes[name] for name in symbols)]

    def _compute_chunks(self) -> None:
        """The calls for each chunk that wait, as one task."""
        calls, given = self.chunks, self.given
        self.chunks, self.given = [], []
        if calls:
            chunks = chunk_count(self.code, calls[0].chunking, self.sizes)
            self._hand_out(emit_task(self.module, calls), given, chunks)

    def _hand_out(self, task: str, given: Sequence[Val], count: Val) -> None:
        """The calls of a task for all numbers below `count`, with a table of what is given."""
        self.context_slots = max(self.context_slots, len(given))
        for slot, value in enumerate(given):
            place = offset(self.code, self.context, "i64", index(slot))
            self.code.store(value, place, 8)
        arguments = (Val("%pool", PTR), Val(task, PTR), self.context, count)
        self.code.invoke(self.module.parallel_for(), arguments)

    def _compute_beside(self) -> None:
        """The calls that wait, a task for each."""
        calls: list[WholeCall] = []
        given: list[Val] = []
        for function, pointers, symbols in self.beside:
            calls.append(WholeCall(function, len(given), len(pointers), len(symbols)))
            given += [*pointers, *(self.sizes[name] for name in symbols)]
        self.beside = []
        if calls:
            self._hand_out(emit_calls(self.module, calls), given, index(len(calls)))

    def _in_ranges(
        self, function: str, pointers: Sequence[Val], symbols: Sequence[str], chunking: Chunking
    ) -> None:
        """The call in chunks, of a function that takes less time for all at once: without a pool it
        is called once."""
        code, pool = self.code, Val("%pool", PTR)
        extent = size_value(code, chunking.extent, self.sizes)
        given = [*pointers, *(self.sizes[name] for name in symbols), index(0), extent]
        with when(code, code.compare("eq", pool, NULL), []):
            code.invoke(function, given)
        with when(code, code.compare("ne", pool, NULL), []):
            self._parallel_for(function, pointers, symbols, chunking)

    def _constants(self, op: Operation) -> dict[int, str]:
        """The arrays of the constants in a body."""
        return {
            i: self.module.data(_constant_bytes(params), 64)
            for i, params in enumerate(constants_of(op))
        }

    def _fused(self, op: Operation) -> None:
        made = emit_fused(self.module, self.machine, op, self._constants(op))
        inputs = [self.where[v] for v in op.operands[2:]]
        pointers = self._factors(op)
        for kind, i in made.accesses:
            pointers.append(inputs[i - 1] if kind == "operand" else self.where[op.results[i]])
        self._in_chunks(made.name, pointers, made.symbols, made.chunking)

    def _nest_call(
        self,
        op: Operation,
        nest: Nest,
        constants: dict[int, str],
        how: NestSchedule | None = None,
    ) -> None:
        window = () if nest.chunking is None else (nest.chunking.dim,)
        made: NestFunction = emit_nest(self.module, self.machine, nest, constants, window, how)
        pointers = [
            self.where[op.operands[i] if kind == "operand" else op.results[i]]
            for kind, i in made.accesses
        ]
        if nest.chunking is not None:
            self._in_chunks(made.name, pointers, made.symbols, nest.chunking)
        else:
            self._call(made.name, pointers, made.symbols)

    def _gemm(self, op: Operation) -> None:
        product = Product.of(op, self.machine)
        name = emit_gemm(self.module, self.machine, product)
        pointers = [*self._factors(op), self.where[op.result]]
        schedule = schedule_of(op)
        if self.beside or has_one_beside(op):
            self.beside.append((name, pointers, product.symbols()))
            if not has_one_beside(op):
                self._compute_beside()
            return
        if schedule is None:
            self._call(name, pointers, product.symbols())
            return
        chunking = Chunking(0, Size(), product.cut_extent, schedule.chunk)
        self._in_chunks(name, pointers, product.symbols(), chunking)

    def _factors(self, op: Operation) -> list[Val]:
        """Where a product reads its factors: in copies, which are made here, if it wants them."""
        factors, made = [self.where[v] for v in op.operands[:2]], self._workspace(op)
        for copy in whole_copies(op):
            place = made.pop(0)
            name = emit_prepacked(self.module, self.machine, copy)
            given = [factors[copy.operand], place]
            self._parallel_for(name, given, copy.symbols(), copy.chunking)
            factors[copy.operand] = place
        return factors

    def _convolution(self, op: Operation) -> None:
        what, schedule = product_of(op), convolution_schedule(op)
        x, second, result, *made = self._arrays(op)
        if what.winograd and what.role == "result" and not what.is_transformed:
            transformed = made.pop(-2 - what.shares_windows)
            name = emit_weights(self.module, self.machine, what)
            self._parallel_for(name, [second, transformed], (), weight_chunks(what))
            second = transformed
        if what.parts > 1 and what.is_padded:
            copies = made.pop(0)
            name = emit_padding(self.module, self.machine, what)
            self._parallel_for(name, [x, copies], what.symbols(), padding_chunks(what))
            x, what = copies, what.copied_around()
        if what.shares_windows:
            windows = made.pop(0)
            name = emit_all_windows(self.module, self.machine, what)
            self._parallel_for(name, [x, windows], what.symbols(), window_chunks(what))
            x = windows
        name = emit_convolution(self.module, self.machine, what, schedule)
        pointers, chunking = [x, second, result, *made], _chunks(what)
        if chunking is None:
            self._call(name, pointers, what.symbols())
        else:
            self._in_chunks(name, pointers, what.symbols(), chunking)
        if what.sums_chunks:
            assert chunking is not None
            self._compute_chunks()
            name = emit_chunk_sum(self.module, self.machine, what.weights, what.dtype, chunking)
            self._call(name, [result, made[what.is_padded]], what.symbols())

    def _depthwise(self, op: Operation, role: Role) -> None:
        types, schedule = [v.tensor for v in op.operands], op.schedule_as(ChannelSchedule)
        what = Depthwise.of(role, depthwise_shape(op.params, types), types[0].dtype)
        by_channels = schedule.parallel == "channels"
        what = replace(
            what, parallel=schedule.is_parallel, chunk=schedule.chunk if by_channels else 0
        )
        name = emit_depthwise(self.module, self.machine, what, schedule.lanes)
        pointers = [self.where[v] for v in (*op.operands, op.result)]
        if not schedule.is_parallel:
            self._call(name, pointers, what.symbols())
            return
        extent = Size(what.channels) if by_channels else what.all_rows
        chunking = Chunking(0, Size(), extent, schedule.chunk)
        self._parallel_for(name, pointers, what.symbols(), chunking)

    def _pooling(self, op: Operation, folding: Folding) -> None:
        types = [v.tensor for v in op.operands]
        scalar_op = op.params.scalar_op if isinstance(op.params, PoolParams) else ""
        what = Pooling.of(folding, scalar_op, pool_shape(op.params, types), types[0].dtype)
        what = replace(what, is_chunk=schedule_of(op) is not None)
        lanes = op.schedule_as(ImagesSchedule).lanes
        name = emit_pooling(self.module, self.machine, what, lanes)
        self._images(op, name, what.images)

    def _images(self, op: Operation, function: str, images: Size) -> None:
        """The call of a function that goes over images, or over those of a chunk."""
        pointers, schedule = self._arrays(op), schedule_of(op)
        if schedule is None:
            self._call(function, pointers, images.symbols)
        else:
            self._in_chunks(
                function, pointers, images.symbols, Chunking(0, Size(), images, schedule.chunk)
            )

    def _indexed(self, op: Operation, texts: tuple[str, ...]) -> None:
        types = [v.tensor for v in (*op.operands, op.result)]
        schedule = op.schedule_as(LookupSchedule)
        sums = LookedUp(texts, (*types[:-2], types[-1]), types[-2], schedule.is_parallel)
        name = emit_indexed(self.module, self.machine, sums, schedule.lanes)
        pointers = [self.where[v] for v in (*op.operands, op.result)]
        if not schedule.is_parallel:
            self._call(name, pointers, sums.symbols())
            return
        chunking = Chunking(0, Size(), Size.of(types[-1].dims[:1]), schedule.chunk)
        self._in_ranges(name, pointers, sums.symbols(), chunking)

    def _selection(self, op: Operation) -> None:
        x, y = op.operands[0].tensor, op.result.tensor
        columns, count = x.dims[1], y.dims[1]
        assert isinstance(columns, int) and isinstance(count, int)
        selected = Selected(Size.of((x.dims[0],)), columns, count, x.dtype)
        name = emit_selection(self.module, self.machine, selected)
        pointers = [self.where[v] for v in (op.operands[0], op.result)]
        self._call(name, pointers, tuple(sorted(set(selected.rows.symbols))))

    def _update_rows(self, op: Operation) -> None:
        update = row_update(op)
        for old, new in zip(update.tables, update.updated, strict=True):
            if self.where[old] != self.where[new]:
                self.copy(self.where[old], new)
        made = emit_update_rows(self.module, self.machine, update)
        pointers = [*(self.where[v] for v in made.pointers), *self._workspace(op)]
        self._call(made.number, pointers, made.symbols)
        if made.chunking is None:
            self._call(made.apply, pointers, made.symbols)
        else:
            self._in_ranges(made.apply, pointers, made.symbols, made.chunking)

    def _collective(self, op: Operation, part: str) -> None:
        """Of a sum, what does not lie side by side yet is copied there; then all of it is added."""
        adder, number = self._slot(self.adder), sum_number(op)
        if part == "finish":
            self.status = all_reduce.emit_finish(self.code, adder, number)
            return
        for operand, result in zip(op.operands, op.results, strict=True):
            if self.where[operand] != self.where[result]:
                self.copy(self.where[operand], result)
        function = all_reduce.START if part == "start" else all_reduce.ALL_REDUCE
        self.status = all_reduce.emit_sum(
            self.code,
            adder,
            function,
            number,
            self.where[op.results[0]],
            adjacent(v.tensor.bound_bytes for v in op.results)[-1],
            op.results[0].tensor.dtype.itemsize,
        )

    def _move(self, op: Operation, how: StridedCopy) -> None:
        move = move_of(how, op.params, [v.tensor for v in op.operands], op.result.tensor)
        lanes = op.schedule_as(LaneSchedule).lanes
        name = emit_move(self.module, self.machine, move, lanes)
        self._call(name, [self.where[v] for v in (*op.operands, op.result)], move.symbols())


def _chunks(what: Convolution) -> Chunking | None:
    """How a convolution is cut, if it is: by rows of weights, parts of images or images."""
    if what.parallel is None:
        return None
    if what.parallel == "rows":
        return Chunking(0, Size(), Size(what.sizes[0] * what.run), what.chunk)
    images = Size(what.images.factor * what.parts, what.images.symbols)
    return Chunking(0, Size(), images, what.chunk)


def _described(op: Operation) -> str:
    """The operation, its first result and the line it comes from, without the line's folder."""
    named = next((r.name for r in op.results if r.name), None)
    shown = f"`{named}` = {op.opdef.name}" if named else op.opdef.name
    types = f" : {op.results[0].type}" if op.results else ""
    span = op.location.span
    where = f", {PurePath(span.file).name}:{span.line}:{span.column}" if span else ""
    return f"{shown}{types}{where}"


def _result_slots(signature: Signature) -> dict[int, int]:
    """The buffer of each result that has memory of its own, by its index among all results."""
    slots: dict[int, int] = {}
    for i, result in enumerate(signature.results):
        if result.updates is None:
            slots[i] = len(signature.arguments) + len(slots)
    return slots


def _constant_bytes(params: ConstantParams) -> bytes:
    """The elements as they lie in memory, little-endian."""
    return element_bytes(params.value, params.type.dtype)
