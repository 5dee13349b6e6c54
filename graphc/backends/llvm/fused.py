"""A matrix product with a body, block by block: a strip of the product, then its body over it.

The strip lies on the stack, so the product itself never goes to memory. Whether strips are rows or
columns, and how long they are, the operation says (`ops/epilogue.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphc.backends.llvm import memory
from graphc.backends.llvm.gemm import Product, emit_gemm
from graphc.backends.llvm.kernels import PortKey, emit_nest
from graphc.backends.llvm.loops import add, loop, mul, size_value, smaller, sub
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import I64, PTR, Code, Module, Val, element_of, index
from graphc.backends.loopnest import Size
from graphc.backends.nestplan import epilogue_nest
from graphc.ir.core import Operation
from graphc.ir.types import TensorType, bound_of
from graphc.ops.contraction import groups
from graphc.ops.epilogue import FusedParams

STRIP: PortKey = ("operand", 0)
"""What the body's nest calls the product."""


@dataclass(frozen=True, slots=True)
class FusedFunction:
    """`void (a, b, pointers of ports…, sizes of symbols…, i64 first, i64 last)`.

    Computes the blocks from `first` to before `last`; there are `blocks_of` blocks. A port
    ("operand", i) is the operation's operand i + 1.
    """

    name: str
    ports: tuple[PortKey, ...]
    symbols: tuple[str, ...]


def emit_fused(
    module: Module, target: Target, op: Operation, constants: Mapping[int, str]
) -> FusedFunction:
    """Writes the function of a `gemm.fused`. `constants` names the arrays of constant ports."""
    params, a, b = _parts(op)
    roles = groups(params, a, b)
    by_rows = params.along == "rows"
    pitch = Size.of(map(bound_of, roles.cols)).factor if by_rows else params.block
    loops, cut = epilogue_nest(op, pitch), 0 if by_rows else 1
    window = (cut,) if loops.dims[cut] != Size() else ()  # a single row or column is one block
    nest = emit_nest(module, target, loops, constants, window)
    product = Product(
        Size.of(roles.rows),
        Size.of(roles.cols),
        Size.of(roles.inner),
        a.dtype,
        params.transpose_a,
        params.transpose_b,
        split="rows" if by_rows else "cols",
        pitch=pitch,
    )
    gemm = emit_gemm(module, target, product)
    extent = product.m if by_rows else product.n
    across = Size.of(map(bound_of, roles.cols if by_rows else roles.rows)).factor

    code = Code(module)
    ports = tuple(key for key in nest.ports if key != STRIP)
    symbols = tuple(sorted({*product.symbols(), *nest.symbols}))
    pointers = {key: Val(f"%p{i}", PTR) for i, key in enumerate(ports)}
    sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(symbols)}
    strip = memory.stack_array(code, element_of(a.dtype), params.block * across, 64)
    stop = size_value(code, extent, sizes)
    with loop(code, Val("%first", I64), Val("%last", I64), 1) as state:
        begin = mul(code, state.index, index(params.block))
        end = smaller(code, add(code, begin, index(params.block)), stop)
        # Where the product would begin if all of it were there.
        before = sub(code, index(0), mul(code, begin, index(pitch if by_rows else 1)))
        text = f"getelementptr {element_of(a.dtype)}, ptr {strip.ref}, {before}"
        pointers[STRIP] = code.value(PTR, text)
        factors = [Val("%a", PTR), Val("%b", PTR), pointers[STRIP]]
        given = [*factors, *(sizes[s] for s in product.symbols()), begin, end]
        code.do(f"call void {gemm}({', '.join(map(str, given))})")
        given = [*(pointers[p] for p in nest.ports), *(sizes[s] for s in nest.symbols)]
        given += [begin, end] if window else []
        code.do(f"call void {nest.name}({', '.join(map(str, given))})")
    code.do("ret void")
    listed = ["ptr %a", "ptr %b", *(f"ptr {pointers[p].ref}" for p in ports)]
    listed += [*(str(v) for v in sizes.values()), "i64 %first", "i64 %last"]
    return FusedFunction(module.add_internal("fused", ", ".join(listed), code), ports, symbols)


def blocks_of(code: Code, op: Operation, sizes: Mapping[str, Val]) -> Val:
    """How many blocks the product has in this call."""
    params, a, b = _parts(op)
    roles = groups(params, a, b)
    extent = size_value(code, Size.of(roles.rows if params.along == "rows" else roles.cols), sizes)
    return _rounded_up(code, extent, params.block)


def _rounded_up(code: Code, extent: Val, step: int) -> Val:
    if extent.ref.isdigit():
        return index(-(-int(extent.ref) // step))
    most = add(code, extent, index(step - 1))
    return code.value(I64, f"udiv i64 {most.ref}, {step}")


def _parts(op: Operation) -> tuple[FusedParams, TensorType, TensorType]:
    a, b = (v.type for v in op.operands[:2])
    assert isinstance(op.params, FusedParams)
    assert isinstance(a, TensorType) and isinstance(b, TensorType)
    return op.params, a, b
