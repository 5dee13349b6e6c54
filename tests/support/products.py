"""One matrix product compiled alone and called with the pointers that a caller would give."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import Target, host_target
from graphc.backends.llvm.text import Module
from graphc.backends.loops.gemm import Product, emit_gemm
from graphc.ir.types import DType
from graphc.passes.analysis.loopnest import Size


def size(extent: int | str) -> Size:
    """A static extent, or the dimension of a call."""
    return Size(1, (extent,)) if isinstance(extent, str) else Size(extent)


def product_of(
    dims: tuple[int | str, int | str, int | str],
    layout: tuple[bool, bool],
    dtype: DType = DType.F32,
) -> Product:
    m, n, k = dims
    return Product(size(m), size(n), size(k), dtype, *layout)


def product_text(product: Product, target: Target) -> str:
    """A module with the product as `go`."""
    module = Module(target.triple)
    name = emit_gemm(module, target.machine, product)
    parameters = ["ptr %a", "ptr %b", "ptr %c"]
    parameters += [f"i64 %d{i}" for i in range(len(product.symbols()))]
    parameters += ["i64 %begin", "i64 %end"] if product.split else []
    listed = ", ".join(parameters)
    return (
        f"{module.text()}\ndefine void @go({listed}) {{\n"
        f"  call void {name}({listed})\n  ret void\n}}\n"
    )


@dataclass(frozen=True, slots=True)
class CompiledProduct:
    """`run` takes addresses, and the range of a product with a split."""

    product: Product
    call: Callable[..., object]
    keep: object

    def run(
        self,
        a: int,
        b: int,
        c: int,
        sizes: Mapping[str, int] | None = None,
        part: tuple[int, int] | None = None,
    ) -> None:
        given = sizes or {}
        numbers = [given[name] for name in self.product.symbols()]
        if part is not None:
            numbers += part
        self.call(a, b, c, *numbers)


def compile_product(product: Product, target: Target | None = None) -> CompiledProduct:
    """The product ready to be called."""
    target = target or host_target()
    return compile_text(product, product_text(product, target), target)


def compile_text(product: Product, text: str, target: Target) -> CompiledProduct:
    """The same of a module that has the product as `go`."""
    loaded = engine.load(engine.object_code(text, target), ["go"], target)
    count = len(product.symbols()) + 2 * bool(product.split)
    types = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * count
    return CompiledProduct(product, engine.function(loaded, "go", None, *types), loaded)


def operands(
    dims: tuple[int, int, int], layout: tuple[bool, bool], dtype: type = np.float32, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Random A and B as they lie in memory."""
    m, n, k = dims
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((k, m) if layout[0] else (m, k)).astype(dtype)
    b = rng.standard_normal((n, k) if layout[1] else (k, n)).astype(dtype)
    return a, b
