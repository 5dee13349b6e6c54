"""A matrix product with a body, a part at a time: the part on the stack, then its body over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphc.backends.loops import memory
from graphc.backends.loops.control import mul, sub
from graphc.backends.loops.gemm import Product, emit_gemm
from graphc.backends.loops.nests import ArrayKey, emit_nest
from graphc.backends.loops.values import I64, PTR, Val, element_of, index
from graphc.backends.loops.writer import ModuleWriter
from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ops.schedules import ProductSchedule
from graphc.passes.analysis.loopnest import Chunking, Size
from graphc.passes.analysis.nest_schedules import check_nest
from graphc.passes.analysis.nestplan import epilogue_nest

PRODUCT: ArrayKey = ("operand", 0)
"""What the body's nest calls the product."""


@dataclass(frozen=True, slots=True)
class FusedFunction:
    """`void (a, b, pointers of accesses…, sizes of symbols…, i64 begin, i64 end)`.

    Computes the rows or columns from `begin` to before `end`, at most as many as `chunking` says.
    An access ("operand", i) is the operation's operand i + 1.
    """

    name: str
    accesses: tuple[ArrayKey, ...]
    symbols: tuple[str, ...]
    chunking: Chunking


def emit_fused(
    module: ModuleWriter, machine: Machine, op: Operation, constants: Mapping[int, str]
) -> FusedFunction:
    """Writes the function of a `gemm.fused`. `constants` names the arrays of constant accesses."""
    schedule, product = op.schedule_as(ProductSchedule), Product.of(op, machine)
    by_rows, pitch = product.split == "rows", product.pitch
    loops, dim = epilogue_nest(op), 0 if by_rows else 1
    if schedule.body is not None:
        check_nest(op, loops, schedule.body)
    window = (dim,) if loops.dims[dim] != Size() else ()  # a single row or column is one chunk
    nest = emit_nest(module, machine, loops, constants, window, schedule.body)
    chunking = Chunking(dim, Size(), product.m if by_rows else product.n, schedule.chunk)
    gemm = emit_gemm(module, machine, product)

    code = module.body()
    accesses = tuple(key for key in nest.accesses if key != PRODUCT)
    symbols = tuple(sorted({*product.symbols(), *nest.symbols}))
    pointers = {key: Val(f"%p{i}", PTR) for i, key in enumerate(accesses)}
    sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(symbols)}
    begin, end = Val("%begin", I64), Val("%end", I64)
    element = element_of(product.dtype)
    across = pitch if by_rows else product.most_m
    part = memory.stack_array(code, element, schedule.chunk * across, 64)
    # Where the product would begin if all of it were there.
    before = sub(code, index(0), mul(code, begin, index(pitch if by_rows else 1)))
    whole = code.offset(part, element, before, inside=False)
    pointers[PRODUCT] = whole
    given = [Val("%a", PTR), Val("%b", PTR), whole, *(sizes[s] for s in product.symbols())]
    code.invoke(gemm, [*given, begin, end])
    given = [*(pointers[p] for p in nest.accesses), *(sizes[s] for s in nest.symbols)]
    given += [begin, end] if window else []
    code.invoke(nest.name, given)
    code.leave()
    factors = (Val("%a", PTR), Val("%b", PTR))
    parameters = (*factors, *(pointers[p] for p in accesses), *sizes.values(), begin, end)
    name = module.add("fused", parameters, code, long_stack=True, only_calls=True)
    return FusedFunction(name, accesses, symbols, chunking)
