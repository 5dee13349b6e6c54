"""Runs one row of the operation table on a backend and compares with the reference."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from graphc.backends import BACKENDS
from graphc.backends.base import Backend
from graphc.ir.evaluate import evaluate
from graphc.ir.params import resolve_sizes
from graphc.ir.types import DType, size_of
from tests.support.compiling import call, compile_for, one_op_module
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

BACKEND_NAMES = tuple(BACKENDS)
FILLS: tuple[Fill, ...] = ("ordinary", "special")
_TAME = (
    *("reduce_sum", "matmul"),
    *("take", "put_add", "lookup_sum", "lookup_dot", "lookup_outer"),
)


@dataclass
class Outcome:
    """How many cases were compared, a sentence for each that failed, and the largest error of an
    ordinary element in units in the last place."""

    cases: int = 0
    failures: list[str] = field(default_factory=list)
    max_ulp: float = 0.0


def check_row(row: Row, dtype: DType, backend: Backend) -> Outcome:
    """Every case of the row with ordinary and special operands."""
    outcome = Outcome()
    for case in row.cases(dtype):
        module = one_op_module(row.op, case.params, case.types, case.argument_types, [N])
        reference = one_op_module(row.op, case.params, case.types, case.argument_types, [N])
        compiled, signature = compile_for(backend, module)
        sizes = {N.name: case.samples}
        for fill in FILLS if case.types else FILLS[:1]:
            seed = zlib.crc32(f"{row.op.name} {dtype} {case.name} {fill}".encode())
            operands = _operands(row, case, fill, seed)
            arguments = {f"x{i}": x for i, x in enumerate(operands)}
            expected = evaluate(reference.functions[0], arguments, sizes)["y"]
            got = call(compiled, signature, arguments, sizes)["y"]
            outcome.cases += 1
            problem = _compare(row, case, operands, got, expected)
            if problem:
                outcome.failures.append(f"{case.name} ({fill}, seed {seed}): {problem}")
            elif fill == "ordinary":
                outcome.max_ulp = max(outcome.max_ulp, _error(row, case, operands, got))
    return outcome


def _operands(row: Row, case: Case, fill: Fill, seed: int) -> list[Array]:
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
    """The distance from the reference in the next wider type."""
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
        return largest_ulp(got, np.asarray(row.op.reference(params, *operands)))
