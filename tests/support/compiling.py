"""From one operation, or a module's text, to a function of a backend that can be called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from graphc.backends import BACKENDS
from graphc.backends.base import Backend, CompiledFunction
from graphc.backends.cuda.platform import using
from graphc.backends.signature import make_signature
from graphc.ir.core import Function, IRBuilder, Module, OpDef, RegionKind, ResultInfo
from graphc.ir.elements import stored
from graphc.ir.params import Params
from graphc.ir.parser import parse_module
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops import default_context
from graphc.ops.control import RETURN
from graphc.ops.reduction import broadcast
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.runtime.residency import come_home
from graphc.runtime.signature import Signature, concrete_shape
from tests.support.cuda.emulator import emulated_platform

Array = np.ndarray
KERNEL_PIPELINE = (
    "fuse-patches,fuse-kernels,fuse-epilogues{least_bytes = 0},schedule-updates,plan-memory"
)
"""As the driver's, but with bodies for products of any size."""

GPU_KERNEL_PIPELINE = KERNEL_PIPELINE.replace("fuse-kernels", "fuse-kernels{parts = false}")
"""The same for a GPU, whose kernels read and write whole arrays."""


def one_op_module(
    op: OpDef,
    params: Params,
    operand_types: Sequence[TensorType],
    argument_types: Sequence[TensorType],
    dims: Sequence[Symbol],
) -> Module:
    """`y = op(x0, x1, …)` where arguments of smaller extents are broadcast first."""
    function = Function("op", RegionKind.SSA)
    builder = IRBuilder(function.block)
    operands = []
    for index, (wanted, given) in enumerate(zip(operand_types, argument_types, strict=True)):
        argument = function.add_argument(f"x{index}", given, "input")
        operands.append(broadcast(builder, argument, wanted.dims))
    result = builder.emit_one(op, *operands, params=params)
    builder.emit(RETURN, [result])
    function.results.append(ResultInfo("y"))
    return Module([function], dims)


def parse(text: str) -> Module:
    """The module in `text`; raises GraphcError for errors in it."""
    context = default_context()
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    return module


def load_backend(name: str) -> Backend | str:
    """The backend, or why it cannot be used here."""
    try:
        backend = BACKENDS[name]()
    except ImportError as problem:
        return f"backend {name}: {problem}"
    missing = backend.missing()
    return f"backend {name}: {missing}" if missing else backend


def require_backend(name: str) -> None:
    """Skips the test, with the reason, where the backend cannot be used."""
    if isinstance(loaded := load_backend(name), str):
        pytest.skip(loaded)


RUN_HERE = tuple(name for name, load in BACKENDS.items() if not load().missing())
"""The backends whose functions can be run on this machine, by their names."""


def _judged() -> tuple[str, ...]:
    with using(emulated_platform()):
        return tuple(n for n, load in BACKENDS.items() if n in RUN_HERE or not load().missing())


JUDGED = _judged()
"""These, and `cuda` where there is no GPU too: tests that are given this name run on an emulated
one, which takes longer."""


def compile_for(backend: Backend, module: Module) -> tuple[CompiledFunction, Signature]:
    """The module's only function; brought to kernel level first where the backend takes that."""
    function, signature = lowered_for(backend, module)
    return backend.compile(function, signature), signature


def lowered_for(backend: Backend, module: Module) -> tuple[Function, Signature]:
    """What the backend compiles of the module's only function."""
    if backend.stage == "kernels" and module.functions[0].arena is None:
        passes = GPU_KERNEL_PIPELINE if backend.name == "cuda" else KERNEL_PIPELINE
        PassManager(pipeline(passes), verify=True).run(module, default_context())
    (function,) = module.functions
    return function, make_signature(module, function)


def call(
    compiled: CompiledFunction,
    signature: Signature,
    arguments: Mapping[str, Array],
    sizes: Mapping[str, int],
) -> dict[str, Array]:
    """The results by name. Arguments are copied, so that updates do not change them.

    Fresh results are handed over full of garbage, so that an element left out shows.
    """
    sizes = dict(sizes)
    for name, formula in signature.formulas.items():
        sizes.setdefault(name, formula.value(sizes))
    held = {a.name: np.array(arguments[a.name], order="C") for a in signature.arguments}
    fresh = {
        r.name: _garbage(concrete_shape(r.shape, sizes), r.dtype) for r in signature.fresh_results
    }
    compiled(list(held.values()), list(fresh.values()), sizes)
    come_home(held.values())
    return {
        r.name: fresh[r.name] if r.updates is None else held[r.updates] for r in signature.results
    }


def _garbage(shape: tuple[int, ...], dtype: str) -> Array:
    return np.full(shape, stored([dtype == "i1" or 77], DType(dtype))[0])
