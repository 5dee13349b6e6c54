"""The scalar vocabulary over a writer, one lane or many: the same bits in each lane."""

from __future__ import annotations

from graphc.backends.loops import mathfunctions, philox
from graphc.backends.loops.conversions import Conversions
from graphc.backends.loops.values import Val
from graphc.backends.loops.writer import Writer
from graphc.ir.machine import Machine


class LaneScalars(Conversions):
    """`graphc.ir.scalar.Scalars` over `Val`; appends instructions to a `Writer`."""

    def __init__(
        self,
        code: Writer,
        *,
        has_fma: bool,
        slow_denormals: bool = False,
        has_scalef: bool = False,
    ) -> None:
        super().__init__(
            code, has_fma=has_fma, slow_denormals=slow_denormals, has_scalef=has_scalef
        )
        self._at_most_zero: set[Val] = set()

    @classmethod
    def of(cls, code: Writer, machine: Machine) -> LaneScalars:
        """As functions are computed on a machine."""
        return cls(
            code,
            has_fma=machine.has_fma,
            slow_denormals=machine.slow_denormals,
            has_scalef=machine.has_scalef,
        )

    def note_at_most_zero(self, a: Val) -> None:
        """Says that no lane of a value is above 0 (nan is not): its functions have less to do."""
        self._at_most_zero.add(a)

    def exp(self, a: Val) -> Val:
        if a in self._at_most_zero:
            return mathfunctions.exp_of_at_most_zero(self, a)
        return mathfunctions.exp(self, a)

    def expm1(self, a: Val) -> Val:
        return mathfunctions.expm1(self, a)

    def log(self, a: Val) -> Val:
        return mathfunctions.log(self, a)

    def log1p(self, a: Val) -> Val:
        return mathfunctions.log1p(self, a)

    def tanh(self, a: Val) -> Val:
        return mathfunctions.tanh(self, a)

    def sigmoid(self, a: Val) -> Val:
        return mathfunctions.sigmoid(self, a)

    def erf(self, a: Val) -> Val:
        return mathfunctions.erf(self, a)

    def sin(self, a: Val) -> Val:
        return mathfunctions.sin(self, a)

    def cos(self, a: Val) -> Val:
        return mathfunctions.cos(self, a)

    def arctan(self, a: Val) -> Val:
        return mathfunctions.arctan(self, a)

    def power(self, a: Val, b: Val) -> Val:
        return mathfunctions.power(self, a, b)

    def random_uniform(self, counter: Val, key: Val) -> Val:
        return philox.uniform(self, counter, key)
