"""A planned function as one LLVM module: a function per nest or product, and an entry.

    i32 @graphc.entry(ptr buffers, ptr dims, ptr arena)

buffers  pointers of all arguments in order, then of the fresh results in order
dims     the sizes of the signature's dims as i64, in order
arena    scratch memory of `signature.arena_bytes`, 64-byte aligned

The same function and target always give the same text.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from graphc.backends.llvm.gemm import Product, emit_gemm
from graphc.backends.llvm.indexed import LookedUp, emit_indexed
from graphc.backends.llvm.kernels import NestFunction, emit_nest
from graphc.backends.llvm.moves import emit_move, move_of
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import I64, PTR, Code, LaneType, Module, Val
from graphc.backends.loopnest import Nest, Size, constants_of, copy_nest
from graphc.backends.nestplan import nests_of
from graphc.ir.codegen import (
    Contraction,
    Copy,
    IndexedSum,
    Rearrangement,
    Structured,
    Terminator,
    View,
)
from graphc.ir.core import Function, Operation, Value
from graphc.ir.types import DType, TensorType
from graphc.ops.constant import ConstantParams
from graphc.ops.contraction import MatmulParams, groups
from graphc.ops.kernel import Place, places
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import InternalError

ENTRY = "graphc.entry"

_FORMATS = {DType.F32: "f", DType.F64: "d", DType.I32: "i", DType.I64: "q", DType.I1: "?"}


def emit_function(function: Function, signature: Signature, target: Target) -> str:
    """The module whose only visible function is `graphc.entry`."""
    module = Module(target.triple)
    add_entry(module, function, signature, target, linkage="")
    return module.text()


def add_entry(
    module: Module, function: Function, signature: Signature, target: Target, *, linkage: str
) -> None:
    """Writes `graphc.entry` and everything it calls."""
    emitter = _EntryEmitter(module, function, signature, target)
    for op in function.block:
        emitter.operation(op)
    emitter.code.do("ret i32 0")
    linkage = f"{linkage} " if linkage else ""
    parameters = "ptr %buffers, ptr %dims, ptr %arena"
    module.add_function(f"define {linkage}i32 @{ENTRY}({parameters}) nounwind", emitter.code)


class _EntryEmitter:
    """Where every value lives, and the calls that compute them."""

    def __init__(
        self, module: Module, function: Function, signature: Signature, target: Target
    ) -> None:
        self.module = module
        self.target = target
        self.code = Code(module)
        self.results = _result_slots(signature)
        self.where: dict[Value, Val] = {}
        self.slots: dict[int, Val] = {}
        self.arena: dict[int, Val] = {}
        self.sizes: dict[str, Val] = {}
        for i, dim in enumerate(signature.dims):
            self.sizes[dim.name] = self._loaded(I64, "%dims", i)
        for i, argument in enumerate(function.arguments):
            self.where[argument] = self._slot(i)

    def operation(self, op: Operation) -> None:
        """Writes the calls of one top-level operation."""
        match op.opdef.codegen:
            case View():
                self.where[op.result] = self.where[op.operands[0]]
                return
            case Terminator():
                return
            case _:
                self._place_results(op)
        match op.opdef.codegen:
            case Structured():
                self._kernel(op)
            case Contraction():
                self._gemm(op)
            case IndexedSum(subscripts):
                self._indexed(op, subscripts(op.params))
            case Rearrangement() as how:
                self._move(op, how)
            case Copy():
                nest = copy_nest(_tensor(op.operands[0]))
                self._nest_call(op, nest, {})
            case _:
                raise InternalError(f"`{op.opdef.name}` is not of the kernel level")

    # --- memory

    def _place_results(self, op: Operation) -> None:
        for value, place in zip(op.results, places(op) or (), strict=True):
            self.where[value] = self._address(place)

    def _address(self, place: Place) -> Val:
        if place.kind == "argument":
            return self._slot(place.index)
        if place.kind == "result":
            return self._slot(self.results[place.index])
        if place.index not in self.arena:
            text = f"getelementptr inbounds i8, ptr %arena, i64 {place.index}"
            self.arena[place.index] = self.code.value(PTR, text)
        return self.arena[place.index]

    def _slot(self, index: int) -> Val:
        if index not in self.slots:
            self.slots[index] = self._loaded(PTR, "%buffers", index)
        return self.slots[index]

    def _loaded(self, type_: LaneType, base: str, index: int) -> Val:
        pointer = self.code.value(PTR, f"getelementptr inbounds i64, ptr {base}, i64 {index}")
        return self.code.value(type_, f"load {type_.text}, ptr {pointer.ref}, align 8")

    # --- calls

    def _call(self, function: str, pointers: Sequence[Val], symbols: Sequence[str]) -> None:
        arguments = [*pointers, *(self.sizes[name] for name in symbols)]
        self.code.do(f"call void {function}({', '.join(map(str, arguments))})")

    def _kernel(self, op: Operation) -> None:
        constants = {
            i: self.module.data(_constant_bytes(params), 64)
            for i, params in enumerate(constants_of(op))
        }
        for nest in nests_of(op):
            self._nest_call(op, nest, constants)

    def _nest_call(self, op: Operation, nest: Nest, constants: dict[int, str]) -> None:
        made: NestFunction = emit_nest(self.module, self.target, nest, constants)
        pointers = [
            self.where[op.operands[i] if kind == "operand" else op.results[i]]
            for kind, i in made.ports
        ]
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
        )
        name = emit_gemm(self.module, self.target, product)
        pointers = [self.where[v] for v in (*op.operands, op.result)]
        self._call(name, pointers, product.symbols())

    def _indexed(self, op: Operation, texts: tuple[str, ...]) -> None:
        types = [_tensor(v) for v in (*op.operands, op.result)]
        sums = LookedUp(texts, (*types[:-2], types[-1]), types[-2])
        name = emit_indexed(self.module, self.target, sums)
        pointers = [self.where[v] for v in (*op.operands, op.result)]
        self._call(name, pointers, sums.symbols())

    def _move(self, op: Operation, how: Rearrangement) -> None:
        move = move_of(how, op.params, [_tensor(v) for v in op.operands], _tensor(op.result))
        name = emit_move(self.module, self.target, move)
        self._call(name, [self.where[v] for v in (*op.operands, op.result)], move.symbols())


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
