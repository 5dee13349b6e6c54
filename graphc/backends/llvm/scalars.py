"""The closed scalar vocabulary on LLVM values, one lane or many: same words, same bits per lane."""

from __future__ import annotations

from graphc.backends.llvm import mathfunctions
from graphc.backends.llvm.arithmetic import Arithmetic
from graphc.backends.llvm.text import Val


class LlvmScalars(Arithmetic):
    """`graphc.ir.scalar.Scalars` over `Val`; appends instructions to a `Code`."""

    def exp(self, a: Val) -> Val:
        return mathfunctions.exp(self, a)

    def log(self, a: Val) -> Val:
        return mathfunctions.log(self, a)

    def tanh(self, a: Val) -> Val:
        return mathfunctions.tanh(self, a)

    def sigmoid(self, a: Val) -> Val:
        return mathfunctions.sigmoid(self, a)
