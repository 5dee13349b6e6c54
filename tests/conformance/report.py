"""Prints operations x backends x element types with the number of cases compared.

    python -m tests.conformance.report [OPERATION...]

The exit status is 1 if anything disagrees.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from tests.conformance.check import BACKEND_NAMES, check_row
from tests.support.compiling import load_backend
from tests.support.op_table import ALL, ROWS, Row


def report(wanted: Sequence[str], out: TextIO) -> int:
    """Write the table to `out`; returns how many cases failed."""
    failures: list[str] = []
    head = "".join(f"{f'{b} {d}':>15}" for b in BACKEND_NAMES for d in ALL)
    out.write(f"{'':<16}{'tolerance':<30}{head}\n")
    for row in ROWS:
        if not wanted or row.op.name in wanted:
            out.write(_line(row, failures) + "\n")
            out.flush()
    out.writelines(f"{failure}\n" for failure in failures)
    return len(failures)


def _line(row: Row, failures: list[str]) -> str:
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
                failed = len(outcome.failures)
                cells.append(f"{failed} of {outcome.cases}!" if failed else str(outcome.cases))
                failures += [f"{row.op.name} {dtype} {name}: {f}" for f in outcome.failures]
    return f"{row.op.name:<16}{row.judge.name:<30}" + "".join(f"{c:>15}" for c in cells)


if __name__ == "__main__":
    sys.exit(1 if report(sys.argv[1:], sys.stdout) else 0)
