"""Kernel-level text through the LLVM backend, compared with the reference evaluation."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from graphc.backends.llvm.runtime import compile_function
from graphc.backends.llvm.target import X86_64, Target, host_target
from graphc.backends.native import NativeFunction
from graphc.backends.signature import make_signature
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.runtime.signature import NUMPY_DTYPES, Signature, concrete_shape
from tests.support.compiling import call, parse

Sizes = Mapping[str, int]
TOLERANCE = {"f32": 2e-5, "f64": 1e-12, "i32": 0.0, "i64": 0.0, "i1": 0.0}


def runnable_targets() -> tuple[Target, Target]:
    """The narrowest target and this machine: masks or none, fused multiply-add or not."""
    return X86_64, host_target()


Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
Run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, Task, ctypes.c_void_p, ctypes.c_int64)


@contextmanager
def backward_pool() -> Generator[tuple[int, list[int]]]:
    """The address of a pool that computes chunks from the last to the first, and how many there
    were in each job."""
    counts: list[int] = []

    def run(_pool: int, task: object, context: int, count: int) -> None:
        counts.append(count)
        for i in reversed(range(count)):
            task(context, i)  # type: ignore[operator]  # a function of ctypes

    kept = Run(run)
    pool = (ctypes.c_void_p * 1)(ctypes.cast(kept, ctypes.c_void_p).value)
    yield ctypes.addressof(pool), counts


@contextmanager
def last_chunk_first(function: NativeFunction) -> Generator[list[int]]:
    """Calls of the function compute their chunks so; gives how many there are in each job."""
    with (
        backward_pool() as (address, counts),
        patch.object(function, "_pool_address", lambda _: address),
    ):
        yield counts


def random_arguments(signature: Signature, sizes: Sizes, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Standard normal numbers in the shape and type of every argument."""
    rng = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for argument in signature.arguments:
        shape = concrete_shape(argument.shape, dict(sizes))
        values = np.asarray(2 * rng.standard_normal(shape))
        if argument.dtype == "i1":
            values = values > 0
        made[argument.name] = values.astype(NUMPY_DTYPES[argument.dtype])
    return made


def check_text(
    text: str,
    sizes: Iterable[Sizes] = ({},),
    *,
    targets: Iterable[Target] | None = None,
    tolerance: float | None = None,
    seed: int = 0,
) -> Module:
    """Run the planned function in `text` on every target and size, against the references."""
    module = parse(text)
    (function,) = module.functions
    signature = make_signature(module, function)
    for target in targets or runnable_targets():
        compiled = compile_function(function, signature, target)
        for size in sizes:
            arguments = random_arguments(signature, size, seed=seed)
            expected = evaluate(function, arguments, size)
            got = call(compiled, signature, arguments, size)
            for result in signature.results:
                allowed = TOLERANCE[result.dtype] if tolerance is None else tolerance
                np.testing.assert_allclose(
                    got[result.name],
                    expected[result.name],
                    rtol=allowed,
                    atol=allowed,
                    err_msg=f"{result.name} on {target.isa} with {dict(size)}",
                )
    return module


def fused(text: str) -> str:
    """The tensor-level function in `text` after fusion and planning, as text."""
    from graphc.ops import default_context
    from graphc.passes import pipeline
    from graphc.passes.manager import PassManager

    module = parse(text)
    PassManager(pipeline("fuse-patches,fuse-kernels,plan-memory"), verify=True).run(
        module, default_context()
    )
    return str(module)
