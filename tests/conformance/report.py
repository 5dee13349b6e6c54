"""Prints what conformance compares: operations x backends x element types, in numbers of cases.

    python -m tests.conformance.report [OPERATION...]

Tensor operations by their names, node operations as `node.NAME`. The exit status is 1 if anything
disagrees.

    cases    runs of one use with one set of operands, compared element by element: `ordinary`
             numbers, `special` values, `views` of both that are not contiguous; for a derivative,
             uses of the operation, each with every operand in its turn
    classes  different shapes among them (of a node: sizes of operands and numbers of samples)
    ULP      the largest error of an ordinary finite element, in units in the last place of the
             exact result; of a sum, of the absolute values of its terms, added
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TextIO, TypeVar

from graphc.backends.cuda.platform import NVIDIA, using
from graphc.ir.types import DType
from tests.conformance.check import BACKEND_NAMES, check_row
from tests.conformance.node_check import FLOATS, check_node
from tests.conformance.node_table import ROWS as NODE_ROWS
from tests.conformance.node_table import NodeRow
from tests.conformance.test_gradients import (
    DIFFERENTIABLE,
    SMOOTH,
    compare_second_order,
    compare_vjp,
)
from tests.conformance.test_tangents import (
    compare_directions,
    compare_tangent,
    compare_tangent_of_vjp,
)
from tests.support.compiling import load_backend
from tests.support.cuda.emulator import emulated_platform
from tests.support.op_table import ALL, ROWS, Row

_R = TypeVar("_R")

DERIVATIVES: tuple[tuple[str, Sequence[Row], Callable[[Row], int]], ...] = (
    ("vjp against differences", DIFFERENTIABLE, compare_vjp),
    ("vjp of vjp against differences", SMOOTH, compare_second_order),
    ("jvp against differences", DIFFERENTIABLE, compare_tangent),
    ("jvp against vjp", DIFFERENTIABLE, compare_directions),
    ("jvp of vjp against differences", SMOOTH, compare_tangent_of_vjp),
)
"""What is checked, of which rows, and by what."""


@dataclass
class Count:
    """What was found so far.

    cases    by (level, check, backend, element type)
    classes  shape classes of ordinary numbers by the same
    ulps     the largest error by (operation, backend, element type)
    """

    cases: Counter[tuple[str, str, str, DType]] = field(default_factory=Counter)
    classes: Counter[tuple[str, str, str, DType]] = field(default_factory=Counter)
    ulps: dict[tuple[str, str, DType], float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def report(wanted: Sequence[str], out: TextIO) -> int:
    """Write the tables to `out`; returns how many cases failed."""
    count = Count()
    rows = [row for row in ROWS if not wanted or row.op.name in wanted]
    _table("tensor operations", rows, ALL, _tensor_line, count, out)
    nodes = [row for row in NODE_ROWS if not wanted or f"node.{row.op}" in wanted]
    nodes = [row for row in nodes if row.kind != "delay"]
    _table("node operations", nodes, FLOATS, _node_line, count, out)
    _derivatives(rows, count)
    _totals(count, out)
    _largest_errors(count, out)
    out.writelines(f"{failure}\n" for failure in count.failures)
    return len(count.failures)


def _table(
    title: str,
    rows: Sequence[_R],
    dtypes: Sequence[DType],
    line: Callable[[_R, Count], str],
    count: Count,
    out: TextIO,
) -> None:
    if not rows:
        return
    head = "".join(f"{f'{b} {d}':>15}" for b in BACKEND_NAMES for d in dtypes)
    out.write(f"{title:<52}{'tolerance':<34}{head}\n")
    for row in rows:
        out.write(line(row, count) + "\n")
        out.flush()
    out.write("\n")


def _tensor_line(row: Row, count: Count) -> str:
    cells: list[str] = []
    for name in BACKEND_NAMES:
        backend = load_backend(name)
        for dtype in ALL:
            if dtype not in row.dtypes:
                cells.append("")
            elif isinstance(backend, str):
                cells.append("absent")
            else:
                outcome = check_row(row, dtype, backend)
                for kind, cases in outcome.kinds.items():
                    count.cases[("tensor", kind, name, dtype)] += cases
                count.classes[("tensor", "ordinary", name, dtype)] += outcome.kinds["ordinary"]
                if dtype.is_float:
                    count.ulps[(row.op.name, name, dtype)] = outcome.max_ulp
                cells.append(_cell(outcome.cases, outcome.failures))
                count.failures += [f"{row.op.name} {dtype} {name}: {f}" for f in outcome.failures]
    return _line(row.op.name, row.judge.name, cells)


def _node_line(row: NodeRow, count: Count) -> str:
    cells: list[str] = []
    for name in BACKEND_NAMES:
        for dtype in FLOATS:
            if isinstance(load_backend(name), str):
                cells.append("absent")
                continue
            outcome = check_node(row, dtype, name)
            for kind, cases in outcome.kinds.items():
                count.cases[("node", kind, name, dtype)] += cases
            count.classes[("node", "ordinary", name, dtype)] += outcome.classes
            count.ulps[(f"node.{row.op}", name, dtype)] = outcome.max_ulp
            cells.append(_cell(outcome.runs, outcome.failures))
            count.failures += [f"node.{row.op} {dtype} {name}: {f}" for f in outcome.failures]
    return _line(f"node.{row.op} ({row.classes} classes)", row.judge.name, cells)


def _cell(cases: int, failures: Sequence[str]) -> str:
    return f"{len(failures)} of {cases}!" if failures else str(cases)


def _line(name: str, tolerance: str, cells: Sequence[str]) -> str:
    return f"{name:<52}{tolerance:<34}" + "".join(f"{c:>15}" for c in cells)


def _derivatives(rows: Sequence[Row], count: Count) -> None:
    wanted = {row.op.name for row in rows}
    for check, tried, compare in DERIVATIVES:
        for row in tried:
            if row.op.name not in wanted:
                continue
            try:
                count.cases[("tensor", check, "reference", DType.F64)] += compare(row)
            except AssertionError as problem:
                count.failures.append(f"{row.op.name} {check}: {problem}")


def _totals(count: Count, out: TextIO) -> None:
    head = f"{'total':<8}{'check':<32}{'backend':<12}{'type':<6}{'cases':>10}{'classes':>10}"
    out.write(f"{head}\n")
    for key, cases in sorted(count.cases.items(), key=lambda item: item[0][:3]):
        level, check, backend, dtype = key
        classes = str(count.classes[key] or "")
        out.write(
            f"{level:<8}{check:<32}{backend:<12}{dtype!s:<6}{cases:>10}{classes:>10}".rstrip()
            + "\n"
        )
    out.write(f"{'all':<58}{sum(count.cases.values()):>10}\n\n")


def _largest_errors(count: Count, out: TextIO) -> None:
    """Every operation with an error, the largest first: on each backend in each type."""
    columns = [(b, d) for b in BACKEND_NAMES for d in FLOATS]
    names = {op for op, _, _ in count.ulps}
    worst = {op: max(count.ulps.get((op, b, d), 0.0) for b, d in columns) for op in names}
    shown = [op for op in sorted(worst, key=lambda op: (-worst[op], op)) if worst[op] > 0]
    out.write(f"{'largest errors in ULP':<42}" + "".join(f"{f'{b} {d}':>15}" for b, d in columns))
    out.write("\n")
    for op in shown:
        cells = [f"{count.ulps.get((op, b, d), 0.0):.3g}" for b, d in columns]
        out.write(f"{op:<42}" + "".join(f"{c:>15}" for c in cells) + "\n")
    exact = len(names) - len(shown)
    out.write(f"and {exact} operations that round exactly or not at all\n")


if __name__ == "__main__":
    with using(emulated_platform() if NVIDIA.missing() else NVIDIA):
        sys.exit(1 if report(sys.argv[1:], sys.stdout) else 0)
