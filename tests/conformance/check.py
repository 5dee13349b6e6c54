"""Runs one row of the operation table on a backend and compares with the reference."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from graphc.backends.base import Backend, CompiledFunction
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ir.params import resolve_sizes
from graphc.ir.types import DType, TensorType, size_of
from graphc.runtime.executable import Executable
from graphc.runtime.signature import Signature
from tests.support import c_functions
from tests.support.compiling import JUDGED, call, compile_for, lowered_for, one_op_module
from tests.support.cuda import functions as cuda_functions
from tests.support.guarded import GuardedFunction
from tests.support.judges import (
    EXACT,
    SAME_NUMBERS,
    Array,
    Fill,
    index_extent,
    make_index,
    make_operand,
)
from tests.support.op_table import Case, N, Row
from tests.support.ulp import largest_ulp

BACKEND_NAMES = JUDGED
FILLS: tuple[Fill, ...] = ("ordinary", "special")
PARTS = 3
"""A type as wide as another one of its row tries every third case; see `dealt`."""
_TAME = (
    *("reduce_sum", "matmul", "depthwise", "depthwise_data_grad", "depthwise_weight_grad"),
    *("gather", "scatter_add", "sparse_product", "sampled_product", "transposed_sparse_product"),
)
_Made = tuple[CompiledFunction, Signature]


@dataclass
class Outcome:
    """How many cases were compared, a sentence for each that failed, and the largest error of an
    ordinary element in units in the last place.

    kinds  the cases by what was tried: a fill, or `views`, the same numbers not contiguous
    """

    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    max_ulp: float = 0.0

    @property
    def cases(self) -> int:
        return self.kinds.total()


def dealt(row: Row, dtype: DType, backend_name: str) -> list[Case]:
    """The cases that tests try of a type: all, or a part where an earlier type of the row is as
    wide.

    Where elements lie and how many are computed at a time follows from their width, which that
    type has tried in every case (f32 for i32, f64 for i64). The type itself decides what is
    computed, which is the same in all cases: a few of each size find it. The cases go round from
    the smallest to the largest, so that each part has some of each size, and every backend has
    another part: LLVM, C and CUDA together try all of them.
    """
    uses = _uses(list(row.cases(dtype)))
    number = row.dtypes.index(dtype)
    if is_dealt(row, dtype):
        uses = sorted(uses, key=lambda use: _elements(use[0]))
        uses = uses[(number + BACKEND_NAMES.index(backend_name)) % PARTS :: PARTS]
    return [case for use in uses for case in use]


def _elements(case: Case) -> int:
    """How many numbers the operands have, or the result if there are none."""
    types = case.types or [v for v in vars(case.params).values() if isinstance(v, TensorType)]
    return sum(t.bound_elements for t in types)


def is_dealt(row: Row, dtype: DType) -> bool:
    """Whether an earlier type of the row has the same width."""
    earlier = row.dtypes[: row.dtypes.index(dtype)]
    return dtype.numpy.itemsize in {d.numpy.itemsize for d in earlier}


def check_row(
    row: Row, dtype: DType, backend: Backend, cases: Sequence[Case] | None = None
) -> Outcome:
    """All cases of the row, or these, with ordinary and special operands and with views of both."""
    outcome = Outcome()
    cases = list(row.cases(dtype)) if cases is None else cases
    for case, (compiled, signature) in zip(cases, _make_all(row, cases, backend), strict=True):
        executable = Executable(compiled, signature, {})
        sizes = {N.name: case.samples}
        for fill in FILLS if case.types else FILLS[:1]:
            seed = zlib.crc32(f"{row.op.name} {dtype} {case.name} {fill}".encode())
            operands, expected = _judgement(row, case, fill, seed)
            arguments = {f"x{i}": x for i, x in enumerate(operands)}
            got = call(compiled, signature, arguments, sizes)["y"]
            outcome.kinds[fill] += 1
            problem = _compare(row, case, operands, got, expected)
            if problem:
                outcome.failures.append(f"{case.name} ({fill}, seed {seed}): {problem}")
            elif fill == "ordinary":
                outcome.max_ulp = max(outcome.max_ulp, _error(row, case, operands, got))
            if any(x.size > 1 for x in operands) and _sizes_are_seen(signature):
                outcome.kinds["views"] += 1
                viewed = {name: not_contiguous(x, seed) for name, x in arguments.items()}
                if not same_bits(executable(**viewed)["y"], got):
                    outcome.failures.append(f"{case.name} ({fill}): another result of a view")
    return outcome


@lru_cache(maxsize=600)
def _judgement(row: Row, case: Case, fill: Fill, seed: int) -> tuple[Sequence[Array], Array]:
    """Operands and what the reference makes of them, for whichever backend is judged next."""
    operands = operands_for(row, case, fill, seed)
    (reference,) = module_of(row, case).functions
    arguments = {f"x{i}": x for i, x in enumerate(operands)}
    expected = evaluate(reference, arguments, {N.name: case.samples})["y"]
    for array in (*operands, expected):
        if isinstance(array, np.ndarray):  # one number alone cannot be written to
            array.flags.writeable = False
    return operands, expected


def _make_all(row: Row, cases: Sequence[Case], backend: Backend) -> Iterator[_Made]:
    """For each case the operation alone, compiled."""
    uses = _uses(cases)
    modules = (module_of(row, use[0]) for use in uses)
    for use, compiled in zip(uses, _compile_all(backend, modules), strict=True):
        yield from [compiled] * len(use)


def _uses(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases that differ in the number of samples alone, which stand behind each other and share
    one function."""
    uses: list[list[Case]] = []
    for case in cases:
        first = uses[-1][0] if uses else None
        if first is not None and replace(first, name=case.name, samples=case.samples) == case:
            uses[-1].append(case)
        else:
            uses.append([case])
    return uses


def module_of(row: Row, case: Case) -> Module:
    return one_op_module(row.op, case.params, case.types, case.argument_types, [N])


def _compile_all(backend: Backend, modules: Iterable[Module]) -> Iterator[_Made]:
    """The only function of each module; those of C and CUDA in one object."""
    if backend.name not in ("c", "cuda"):
        yield from (compile_for(backend, module) for module in modules)
        return
    lowered = [lowered_for(backend, module) for module in modules]
    if backend.name == "cuda":
        yield from ((f, f.signature) for f in cuda_functions.compile_for_gpu(lowered))
        return
    for compiled in c_functions.compile_together(lowered):
        yield GuardedFunction(compiled), compiled.signature


def _sizes_are_seen(signature: Signature) -> bool:
    """Whether a call by names can tell every dim of the results from its arguments."""
    given = {d for a in signature.arguments for d in a.shape}
    return all(isinstance(d, int) or d in given for r in signature.results for d in r.shape)


def not_contiguous(array: Array, choice: int) -> Array:
    """The same numbers lying otherwise in memory: transposed, backwards or with gaps between them.

    One number or none lies in one piece however it is held.
    """
    if array.size < 2:
        return array
    view = np.asfortranarray(array)
    if choice % 3 == 0:
        backwards = (slice(None, None, -1),) * array.ndim
        view = np.ascontiguousarray(array[backwards])[backwards]
    if choice % 3 == 1 or view.flags.c_contiguous:  # a vector transposed is what it was
        view = np.ones((*array.shape, 2), array.dtype)[..., 1]
        view[...] = array
    assert not view.flags.c_contiguous
    return view


def same_bits(a: Array, b: Array) -> bool:
    """Whether both are the same, zeros by sign and nan by payload included.

    Only the elements count: a call by names hands out a number for a matrix of one.
    """
    return a.dtype == b.dtype and a.size == b.size and a.tobytes() == b.tobytes()


def operands_for(row: Row, case: Case, fill: Fill, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    sizes = {N.name: case.samples}
    operands = [
        make_operand(rng, t.shape(sizes), t.dtype, fill, tame=row.op.name in _TAME)
        for t in case.argument_types
    ]
    looked_up = index_extent(row.op, case.params, case.types)
    if looked_up is not None:
        shape = case.argument_types[-1].shape(sizes)
        operands[-1] = make_index(rng, shape, size_of(looked_up, sizes), fill)
    return operands


def _compare(row: Row, case: Case, operands: Sequence[Array], got: Array, expected: Array) -> str:
    sizes = {N.name: case.samples}
    seen = [np.broadcast_to(x, t.shape(sizes)) for x, t in zip(operands, case.types, strict=True)]
    with np.errstate(all="ignore"):
        params = resolve_sizes(case.params, sizes)
        return row.judge.check(row.op, params, seen, got, expected)


def _error(row: Row, case: Case, operands: Sequence[Array], got: Array) -> float:
    """The distance from the reference in the next wider type, in units in the last place."""
    if got.dtype.kind != "f" or row.judge in (EXACT, SAME_NUMBERS):
        return 0.0
    assert row.op.reference is not None
    sizes = {N.name: case.samples}
    wide = np.float64 if got.dtype == np.float32 else np.longdouble
    given = zip(operands, case.types, strict=True)
    seen = [np.broadcast_to(x, t.shape(sizes)) for x, t in given]
    with np.errstate(all="ignore"):
        params = resolve_sizes(case.params, sizes)
        operands = [x.astype(wide) if x.dtype.kind == "f" else x for x in seen]
        exact = np.asarray(row.op.reference(params, *operands))
        if not row.judge.adds:
            return largest_ulp(got, exact)
        positive = [np.abs(x) if x.dtype.kind == "f" else x for x in operands]
        return largest_ulp(got, exact, np.asarray(row.op.reference(params, *positive)))
