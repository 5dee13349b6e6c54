"""The matrices of one product while its code is written: their addresses and the range computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphc.backends.loops.control import add, mul, offset, sub
from graphc.backends.loops.pairs import count_of
from graphc.backends.loops.values import Val, element_of, index
from graphc.backends.loops.writer import Writer
from graphc.ir.types import DType


@dataclass(frozen=True, slots=True)
class Operands:
    """C = op(A) op(B) for a range of rows and columns of the whole C.

    a, b, c         the addresses of the first elements of the range
    m, n, k         rows and columns of the range, and the length of the sums
    lda, ldb, ldc   the row stride of each matrix in memory
    a_transposed    A is stored [k, m]
    b_transposed    B is stored [n, k]
    most_m, most_k  upper bounds of m and k where these are known at run time only
    panel           B lies in panels of so many columns, each [k, panel], one after the other, and
                    ldb is k, or how many pairs that is; what is left over at the right is in a last
                    panel that begins earlier
    pairs           tiles read copies of A and B as pairs of bf16
    a_ready         a is such a copy, of which lda is in pairs
    """

    dtype: DType
    a: Val
    b: Val
    c: Val
    m: Val
    n: Val
    k: Val
    lda: Val
    ldb: Val
    ldc: Val
    a_transposed: bool
    b_transposed: bool
    most_m: int
    most_k: int
    panel: int = 0
    pairs: bool = False
    a_ready: bool = False

    def at(self, code: Writer, base: Val, place: Val) -> Val:
        """The address of an element of one of the matrices."""
        return offset(code, base, element_of(self.dtype), place)

    def a_offset(self, code: Writer, row: Val, step: Val) -> Val:
        if self.a_ready:
            return add(code, mul(code, row, self.lda), count_of(code, step))
        if self.a_transposed:
            return add(code, row, mul(code, step, self.lda))
        return add(code, mul(code, row, self.lda), step)

    def b_offset(self, code: Writer, step: Val, column: Val) -> Val:
        if self.panel:  # the column is the first of a panel
            return add(code, mul(code, step, index(self.panel)), mul(code, column, self.ldb))
        if self.b_transposed:
            return add(code, step, mul(code, column, self.ldb))
        return add(code, mul(code, step, self.ldb), column)

    def c_offset(self, code: Writer, row: Val, column: Val) -> Val:
        return add(code, mul(code, row, self.ldc), column)

    def of_rows(self, code: Writer, begin: Val, end: Val) -> Operands:
        """Only these rows."""
        return replace(
            self,
            a=self.at(code, self.a, self.a_offset(code, begin, index(0))),
            c=self.at(code, self.c, self.c_offset(code, begin, index(0))),
            m=sub(code, end, begin),
        )

    def of_columns(self, code: Writer, begin: Val, end: Val) -> Operands:
        """Only these columns."""
        return replace(
            self,
            b=self.at(code, self.b, self.b_offset(code, index(0), begin)),
            c=self.at(code, self.c, begin),
            n=sub(code, end, begin),
        )

    def exchanged(self) -> Operands:
        """The transposed product of a C with one column, which is contiguous like a row."""
        return replace(
            self,
            a=self.b,
            b=self.a,
            m=self.n,
            n=self.m,
            lda=self.k,
            ldb=self.lda,
            ldc=self.m,
            a_transposed=False,
            b_transposed=not self.a_transposed,
        )


def call(code: Writer, function: str, *arguments: Val) -> None:
    """A call without a result."""
    code.invoke(function, arguments)
