"""What stands between the brackets of `node[…]`, as stretches of rows that follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import index

from graphc.builder import Node
from graphc.support.diagnostics import GraphcError, fail
from graphc_frontends.network.caller import caller_location

Rows = int | slice | Sequence[int]
"""One row, a slice without a step, or the numbers of rows."""

_FORMS = "a row, a slice of rows or a list of rows, in whole numbers"


def runs_of(rows: object, node: Node) -> list[tuple[int, int]]:
    """First row and number of rows of each stretch; GraphcError `argument-type`, `bad-value`."""
    if isinstance(rows, slice):
        return [_stretch(rows, node)]
    try:
        numbers = [index(rows)]  # type: ignore[arg-type]  # whole numbers of numpy too
    except TypeError:
        numbers = _listed(rows, node)
    chosen = [_row(number, node) for number in numbers]
    breaks = [i for i, (a, b) in enumerate(pairwise(chosen), start=1) if b != a + 1]
    ends = pairwise([0, *breaks, len(chosen)])
    return [(chosen[first], last - first) for first, last in ends]


def _listed(rows: object, node: Node) -> list[int]:
    """The numbers of a list, a range, an array of one dimension."""
    try:
        if isinstance(rows, str | dict | tuple):  # a tuple would be an index of two dimensions
            raise TypeError
        numbers = [index(number) for number in rows]  # type: ignore[attr-defined]
    except TypeError:
        raise _refused("argument-type", node, _FORMS, f"{rows!r}"[:60]) from None
    if not numbers:
        raise _refused("bad-value", node, "at least one row", "none")
    return numbers


def _stretch(rows: slice, node: Node) -> tuple[int, int]:
    try:
        step = 1 if rows.step is None else index(rows.step)
        start = 0 if rows.start is None else index(rows.start)
        stop = None if rows.stop is None else index(rows.stop)
    except TypeError:
        raise _refused("argument-type", node, _FORMS, str(rows)) from None
    if step != 1:
        raise _refused("bad-value", node, "a slice of step 1", f"step {step}")
    start = start + _count(node) if start < 0 else start
    if stop is None or stop < 0:
        stop = _count(node) + (stop or 0)
    known = node.rows
    if start < 0 or stop <= start or (known is not None and stop > known):
        have = "" if known is None else f" of its {known}"
        raise _refused("bad-value", node, f"at least one row{have}", f"rows {start} to {stop - 1}")
    return start, stop - start


def _row(number: int, node: Node) -> int:
    row = number + _count(node) if number < 0 else number
    known = node.rows
    if row < 0 or (known is not None and row >= known):
        raise _refused("bad-value", node, f"a row from 0 to {_count(node) - 1}", str(number))
    return row


def _count(node: Node) -> int:
    if node.rows is None:
        what = "a number of rows that follows from the nodes made so far"
        raise _refused("bad-value", node, what, "none: count rows from the beginning")
    return node.rows


def _refused(slug: str, node: Node, what: str, got: str) -> GraphcError:
    return fail(slug, f"rows of `{node.name}`: requires {what}, got {got}", caller_location())
