"""A planned function as one module: a function per nest or product, and an entry that calls them.

    i32 entry(ptr buffers, ptr dims, ptr arena, ptr pool)

buffers  pointers of all arguments in order, then of the fresh results in order
dims     the sizes of the signature's dims as i64, in order
arena    scratch memory of `signature.arena_bytes`, 64-byte aligned
pool     threads that share the parts of split operations (`share.py`); null: this one computes
         all, the same bits

The same function and machine always give the same text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import PurePath
from typing import Literal, NamedTuple

from graphc.backends.loops.control import add, loop, mul, offset, size_value, sub
from graphc.backends.loops.convolution import Convolution, emit_convolution
from graphc.backends.loops.fused import emit_fused
from graphc.backends.loops.gemm import Product, emit_gemm, even_part
from graphc.backends.loops.indexed import LookedUp, emit_indexed
from graphc.backends.loops.loopnest import Cut, Nest, Size, constants_of, copy_nest
from graphc.backends.loops.machine import Machine
from graphc.backends.loops.moves import emit_move, move_of
from graphc.backends.loops.nestplan import nests_of
from graphc.backends.loops.nests import NestFunction, emit_nest
from graphc.backends.loops.pooling import Pooling, emit_pooling
from graphc.backends.loops.selection import Selected, emit_selection
from graphc.backends.loops.share import emit_task, parts_of
from graphc.backends.loops.update_rows import emit_update_rows
from graphc.backends.loops.values import (
    I32,
    I64,
    PTR,
    LaneType,
    Val,
    constant,
    element_of,
    index,
    memory_element,
    number_of,
)
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.codegen import (
    Contraction,
    Copy,
    Folding,
    IndexedSum,
    Rearrangement,
    Role,
    Selection,
    Structured,
    Terminator,
    View,
    WindowProduct,
    WindowReduction,
)
from graphc.ir.core import Function, Operation, Value
from graphc.ir.placement import Place
from graphc.ir.types import DType, TensorType, bound_elements
from graphc.ops.constant import ConstantParams
from graphc.ops.contraction import MatmulParams, groups
from graphc.ops.convolution import conv_shape
from graphc.ops.epilogue import GEMM_FUSED
from graphc.ops.loop import LOOP, Loop, loop_parts
from graphc.ops.pooling import PoolParams, pool_shape
from graphc.ops.schedules import schedule_of
from graphc.ops.update_rows import UPDATE_ROWS, row_update
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import InternalError

PART_OPERATIONS = 256

_FORMATS = {DType.F32: "f", DType.F64: "d", DType.I32: "i", DType.I64: "q", DType.I1: "?"}


ENTRY_PARAMETERS = tuple(Val(f"%{name}", PTR) for name in ("buffers", "dims", "arena", "pool"))

Around = Callable[[Writer, Operation], AbstractContextManager[None]]
"""What an operation's calls are written in: time stamps, say."""


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
    homes = {a: Place("argument", i) for i, a in enumerate(function.arguments)}
    bodies: list[Writer] = []
    for part in _parts(list(function.block)):
        emitter = _EntryEmitter(module, signature, machine, homes, part, around)
        for op in part:
            emitter.operation(op)
        emitter.finish()
        bodies.append(emitter.code)
    if len(bodies) == 1:
        return bodies[0]
    whole = module.body()
    for body in bodies:
        name = module.add("part", ENTRY_PARAMETERS, body, results=(I32,), only_calls=True)
        whole.invoke_for(name, ENTRY_PARAMETERS, (I32,))
    whole.leave([constant(0, I32)])
    return whole


def _parts(operations: list[Operation]) -> list[list[Operation]]:
    """The operations in pieces that are functions of their own: the time that LLVM takes for one
    grows faster than its length."""
    most = PART_OPERATIONS
    return [operations[i : i + most] for i in range(0, len(operations), most)] or [[]]


class _Where(dict[Value, Val]):
    """The addresses of values; of those that other parts of the entry made, by their `homes`."""

    def __init__(self, homes: Mapping[Value, Place], address: Callable[[Place], Val]) -> None:
        super().__init__()
        self._homes = homes
        self._address = address

    def __missing__(self, value: Value) -> Val:
        # Not kept: in a loop it is known only there, which `_address` takes care of.
        return self._address(self._homes[value])


class _Frame(NamedTuple):
    """Where the results of a loop are in the step that is being written."""

    carried: list[Val]
    stacks: list[Val]


class _EntryEmitter:
    """Where every value lives, and the calls that compute them, for a part of the operations.

    homes  the places of arguments, and of what the parts before computed; those of this part are
           added
    """

    def __init__(
        self,
        module: ModuleWriter,
        signature: Signature,
        machine: Machine,
        homes: dict[Value, Place],
        part: Sequence[Operation],
        around: Around | None,
    ) -> None:
        self.module = module
        self.around = around
        self.machine = machine
        self.code = module.body()
        self.context, self.reserve_context = self.code.stack_words()
        self.context_slots = 0
        self.results = _result_slots(signature)
        self.homes = homes
        self.where = _Where(homes, self._address)
        self.slots: dict[int, Val] = {}
        self.arena: dict[int, Val] = {}
        self.frames: list[_Frame] = []
        self.sizes: dict[str, Val] = {}
        for i, dim in enumerate(signature.dims):
            self.sizes[dim.name] = self._loaded(I64, "%dims", i)
        used = {v: None for op in part for v in op.operands}
        for value in used:
            # Before all loops, in which it would be loaded in every step.
            if (home := homes.get(value)) is not None and home.kind == "argument":
                self.where[value] = self._slot(home.index)

    def finish(self) -> None:
        """The end of the function, and room for what tasks take, now that its size is known."""
        self.reserve_context(self.context_slots)
        self.code.leave([constant(0, I32)])

    def operation(self, op: Operation) -> None:
        """Writes the calls of one operation, of a loop those of its steps."""
        if self.around is None:
            self._operation(op)
            return
        with self.around(self.code, op):
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        match op.opdef.codegen:
            case View():
                self.where[op.result] = self.where[op.operands[0]]
                if op.operands[0] in self.homes:
                    self.homes[op.result] = self.homes[op.operands[0]]
                return
            case Terminator():
                return
            case _:
                self.code.remark(_described(op))
                self._place_results(op)
        match op.opdef.codegen:
            case Structured():
                self._structured(op)
            case Contraction():
                self._gemm(op)
            case WindowProduct(role):
                self._convolution(op, role)
            case WindowReduction(folding):
                self._pooling(op, folding)
            case IndexedSum(subscripts):
                self._indexed(op, subscripts(op.params))
            case Selection():
                self._selection(op)
            case Rearrangement() as how:
                self._move(op, how)
            case Copy():
                nest = copy_nest(_tensor(op.operands[0]))
                self._nest_call(op, nest, {})
            case _:
                raise InternalError(f"`{op.opdef.name}` is not of the kernel level")

    # --- memory

    def _place_results(self, op: Operation) -> None:
        for value, place in zip(op.results, op.placement, strict=True):
            self.where[value] = self._address(place)
            if not self.frames:
                self.homes[value] = place

    def _address(self, place: Place) -> Val:
        if place.kind == "argument":
            return self._slot(place.index)
        if place.kind == "carried":
            return self.frames[-1].carried[place.index]
        if place.kind == "stack":
            return self.frames[-1].stacks[place.index]
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

    def _loop(self, op: Operation) -> None:
        parts = loop_parts(op)
        history = parts.params.history
        count = size_value(self.code, Size.of((parts.params.count,)), self.sizes)
        for stack, initial, final in zip(history, parts.initial, parts.final, strict=True):
            if stack < 0:
                self._copy(self.where[initial], self.where[final], _tensor(final))
        if number_of(count) != 0:
            self._steps(parts, count)
        for stack, initial, final in zip(history, parts.initial, parts.final, strict=True):
            if stack >= 0 and final.has_uses:
                last = index(0) if parts.params.backward else sub(self.code, count, index(1))
                source = self._element(parts.stacks[stack], last)
                chosen = self._select(count, source, self.where[initial])
                self._copy(chosen, self.where[final], _tensor(final))

    def _steps(self, parts: Loop, count: Val) -> None:
        outside = dict(self.arena), dict(self.slots)
        with loop(self.code, index(0), count, 1) as state:
            step = state.index
            if parts.params.backward:
                step = sub(self.code, sub(self.code, count, index(1)), state.index)
            self._enter_step(parts, state.index, step)
            for inner in parts.block:
                self.operation(inner)
            self.frames.pop()
        # Addresses that were computed in the steps are not known behind them.
        self.arena, self.slots = outside

    def _enter_step(self, parts: Loop, turn: Val, step: Val) -> None:
        """Where the arguments of the body are in the step that runs as number `turn`."""
        self.where.update(
            (i, self.where[o]) for i, o in zip(parts.shared, parts.invariants, strict=True)
        )
        for inner, outer in zip(parts.elements, parts.sequences, strict=True):
            self.where[inner] = self._element(outer, step)
        carried = [self.where[v] for v in parts.final]
        back = 1 if parts.params.backward else -1
        for i, stack in enumerate(parts.params.history):
            before = carried[i]
            if stack >= 0:
                earlier = add(self.code, step, index(back))
                kept = self._element(parts.stacks[stack], earlier)
                before = self._select(turn, kept, self.where[parts.initial[i]])
            self.where[parts.before[i]] = before
        stacks = [self._element(v, step) for v in parts.stacks]
        self.frames.append(_Frame(carried, stacks))

    def _element(self, sequence: Value, step: Val) -> Val:
        """The address of what a step reads of a sequence or keeps in a stack."""
        type = _tensor(sequence)
        size = size_value(self.code, Size.of(type.dims[1:]), self.sizes)
        element = memory_element(element_of(type.dtype))
        return offset(self.code, self.where[sequence], element, mul(self.code, step, size))

    def _select(self, number: Val, some: Val, none: Val) -> Val:
        """`some` where the number is above 0, else `none`."""
        return self.code.select(self.code.compare("sgt", number, index(0)), some, none)

    def _copy(self, source: Val, target: Val, type: TensorType) -> None:
        made = emit_nest(self.module, self.machine, copy_nest(type), {})
        places = {"operand": source, "result": target}
        self._call(made.name, [places[kind] for kind, _ in made.ports], made.symbols)

    # --- calls

    def _call(self, function: str, pointers: Sequence[Val], symbols: Sequence[str]) -> None:
        arguments = [*pointers, *(self.sizes[name] for name in symbols)]
        self.code.invoke(function, arguments)

    def _share(
        self, function: str, pointers: Sequence[Val], symbols: Sequence[str], cut: Cut
    ) -> None:
        """The call in parts. One table serves all operations: each ends before the next begins."""
        given = [*pointers, *(self.sizes[name] for name in symbols)]
        self.context_slots = max(self.context_slots, len(given))
        for slot, value in enumerate(given):
            place = offset(self.code, self.context, "i64", index(slot))
            self.code.store(value, place, 8)
        task = emit_task(self.module, function, len(pointers), symbols, cut)
        parts = parts_of(self.code, cut, self.sizes)
        share = self.module.share()
        arguments = (Val("%pool", PTR), Val(task, PTR), self.context, parts)
        self.code.invoke(share, arguments)

    def _structured(self, op: Operation) -> None:
        if op.opdef is LOOP:
            self._loop(op)
        elif op.opdef is GEMM_FUSED:
            self._fused(op)
        elif op.opdef is UPDATE_ROWS:
            self._update_rows(op)
        else:
            for nest in nests_of(op):
                self._nest_call(op, nest, self._constants(op))

    def _constants(self, op: Operation) -> dict[int, str]:
        """The arrays of the constants in a body."""
        return {
            i: self.module.data(_constant_bytes(params), 64)
            for i, params in enumerate(constants_of(op))
        }

    def _fused(self, op: Operation) -> None:
        made = emit_fused(self.module, self.machine, op, self._constants(op))
        a, b, *inputs = (self.where[v] for v in op.operands)
        pointers = [a, b]
        for kind, i in made.ports:
            pointers.append(inputs[i - 1] if kind == "operand" else self.where[op.results[i]])
        self._share(made.name, pointers, made.symbols, made.cut)

    def _nest_call(self, op: Operation, nest: Nest, constants: dict[int, str]) -> None:
        window = () if nest.cut is None else (nest.cut.dim,)
        made: NestFunction = emit_nest(self.module, self.machine, nest, constants, window)
        pointers = [
            self.where[op.operands[i] if kind == "operand" else op.results[i]]
            for kind, i in made.ports
        ]
        if nest.cut is not None:
            self._share(made.name, pointers, made.symbols, nest.cut)
        else:
            self._call(made.name, pointers, made.symbols)

    def _gemm(self, op: Operation) -> None:
        assert isinstance(op.params, MatmulParams)
        a, b = map(_tensor, op.operands)
        roles = groups(op.params, a, b)
        product = Product(
            Size.of(roles.rows),
            Size.of(roles.cols),
            Size.of(roles.inner),
            a.dtype,
            op.params.transpose_a,
            op.params.transpose_b,
            Size.of(roles.batch),
            most_m=bound_elements(roles.rows),
            most_k=bound_elements(roles.inner),
        )
        pointers = [self.where[v] for v in (*op.operands, op.result)]
        schedule = schedule_of(op)
        if schedule is None:
            name = emit_gemm(self.module, self.machine, product)
            self._call(name, pointers, product.symbols())
            return
        where: Literal["rows", "cols"] = "rows" if schedule.parallel == "rows" else "cols"
        cut = Cut(0, Size(), product.m if where == "rows" else product.n, schedule.chunk)
        part = even_part(cut)
        name = emit_gemm(self.module, self.machine, replace(product, split=where, part=part))
        self._share(name, pointers, product.symbols(), cut)

    def _convolution(self, op: Operation, role: Role) -> None:
        types = [_tensor(v) for v in op.operands]
        what = Convolution.of(role, conv_shape(op.params, types), types[0].dtype)
        schedule = schedule_of(op)
        rows = schedule.chunk if schedule is not None and role == "weights" else 0
        what = replace(what, is_part=schedule is not None, part_rows=rows)
        name = emit_convolution(self.module, self.machine, what)
        if schedule is None or role != "weights":
            self._images(op, name, what.images)
            return
        pointers = [self.where[v] for v in (*op.operands, *op.results)]
        rows = Size(what.sizes[0] * what.run)
        self._share(name, pointers, what.symbols(), Cut(0, Size(), rows, schedule.chunk))

    def _pooling(self, op: Operation, folding: Folding) -> None:
        types = [_tensor(v) for v in op.operands]
        word = op.params.word if isinstance(op.params, PoolParams) else ""
        what = Pooling.of(folding, word, pool_shape(op.params, types), types[0].dtype)
        what = replace(what, is_part=schedule_of(op) is not None)
        name = emit_pooling(self.module, self.machine, what)
        self._images(op, name, what.images)

    def _images(self, op: Operation, function: str, images: Size) -> None:
        """The call of a function that goes over images, or over those of a part."""
        pointers, schedule = [self.where[v] for v in (*op.operands, *op.results)], schedule_of(op)
        if schedule is None:
            self._call(function, pointers, images.symbols)
        else:
            self._share(function, pointers, images.symbols, Cut(0, Size(), images, schedule.chunk))

    def _indexed(self, op: Operation, texts: tuple[str, ...]) -> None:
        types = [_tensor(v) for v in (*op.operands, op.result)]
        sums = LookedUp(texts, (*types[:-2], types[-1]), types[-2])
        name = emit_indexed(self.module, self.machine, sums)
        pointers = [self.where[v] for v in (*op.operands, op.result)]
        self._call(name, pointers, sums.symbols())

    def _selection(self, op: Operation) -> None:
        x, y = _tensor(op.operands[0]), _tensor(op.result)
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
                self._copy(self.where[old], self.where[new], _tensor(new))
        made = emit_update_rows(self.module, self.machine, update)
        self._call(made.name, [self.where[v] for v in made.pointers], made.symbols)

    def _move(self, op: Operation, how: Rearrangement) -> None:
        move = move_of(how, op.params, [_tensor(v) for v in op.operands], _tensor(op.result))
        name = emit_move(self.module, self.machine, move)
        self._call(name, [self.where[v] for v in (*op.operands, op.result)], move.symbols())


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


def _tensor(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _constant_bytes(params: ConstantParams) -> bytes:
    """The elements as they lie in memory, little-endian."""
    return struct.pack(f"<{len(params.value)}{_FORMATS[params.type.dtype]}", *params.value)
