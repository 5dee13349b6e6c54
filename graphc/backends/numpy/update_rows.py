"""`update_rows` as Python lines: the rows that are looked up and their sums, then the rule on them.

    rows, sums = row_sums(W.shape[0], (x, y, index))
    for first in range(0, len(rows), 512):
        some = rows[first : first + 512]
        v1 = W[some]
        …
        W[some] = v7

As many rows at once as keep temporaries in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends.numpy.linear_kernel import Constant, Input, Item, ScalarOp, record
from graphc.backends.numpy.names import Names
from graphc.backends.numpy.scalars import Recorder, callee, extra_operand, is_helper
from graphc.backends.numpy.text import Constants, Lines, dtype_text
from graphc.ir.types import bound_of
from graphc.ops.update_rows import RowUpdateParts
from graphc.support.diagnostics import InternalError

BLOCK_BYTES = 64 * 1024
"""Of the rows of one table that are worked on together."""


class UpdateText:
    """Writes one; the tables' new forms are named by `updated`, and hold the old ones by then."""

    def __init__(self, names: Names, constants: Constants, lines: Lines) -> None:
        self._names = names
        self._constants = constants
        self._lines = lines
        self.helpers: dict[str, None] = {"indexed_sum": None, "row_sums": None}

    def write(
        self,
        parts: RowUpdateParts,
        updated: Sequence[str],
        numbers: Sequence[str],
        lookups: Sequence[tuple[str, str, str]],
    ) -> None:
        """The lines of one; the arrays are given by name."""
        rows, sums = self._names.fresh("rows"), self._names.fresh("sums")
        listed = ", ".join(f"({', '.join(names)})" for names in lookups)
        columns = parts.params.columns
        size = f"{updated[0]}.shape[{1 if columns else 0}]"
        self._lines.add(f"{rows}, {sums} = row_sums({size}, {listed})")
        first, some = self._names.fresh("first"), self._names.fresh("some")
        step = _rows_at_once(parts)
        self._lines.add(f"for {first} in range(0, len({rows}), {step}):")
        self._lines.indent()
        self._lines.add(f"{some} = {rows}[{first} : {first} + {step}]")
        where = f"[:, {some}]" if columns else f"[{some}]"
        gradient = f"{sums}[{first} : {first} + {step}]" + ".T" * columns
        arguments = [self._named(name + where) for name in updated]
        arguments += [self._named(gradient), *numbers]
        kernel = record(parts.op, Recorder)
        texts: dict[Item, str] = {}
        for step in kernel.steps:
            if not isinstance(step, ScalarOp):
                raise InternalError("a fold in the rule of `update_rows`")
            texts[step] = self._scalar_op(
                step, [self._text(a, texts, arguments) for a in step.args]
            )
        for name, result in zip(updated, kernel.results, strict=True):
            self._lines.add(f"{name}{where} = {self._text(result.item, texts, arguments)}")
        self._lines.dedent()

    def _named(self, text: str) -> str:
        name = self._names.fresh("v1")
        self._lines.add(f"{name} = {text}")
        return name

    def _text(self, item: Item, texts: dict[Item, str], arguments: Sequence[str]) -> str:
        match item:
            case Input():
                return arguments[item.index]
            case Constant():
                return self._constants.number(item.values[0], item.dtype)
            case _:
                return texts[item]

    def _scalar_op(self, scalar_op: ScalarOp, operands: list[str]) -> str:
        function = callee(scalar_op)
        if extra_operand(scalar_op):
            operands.append(extra_operand(scalar_op))
        if not is_helper(scalar_op):
            return self._named(f"{function}({', '.join(operands)})")
        self.helpers[function] = None
        shapes = ", ".join(f"np.shape({o})" for o in operands)
        out = self._named(f"np.empty(np.broadcast_shapes({shapes}), {dtype_text(scalar_op.dtype)})")
        self._lines.add(f"{function}({', '.join(operands)}, out={out})")
        return out


def _rows_at_once(parts: RowUpdateParts) -> int:
    table = parts.tables[0].tensor
    width = bound_of(table.dims[0 if parts.params.columns else 1])
    return max(1, BLOCK_BYTES // max(1, width * table.dtype.itemsize))
