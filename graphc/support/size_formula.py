"""Sizes that follow from others, as records: `T * S`, `C / 8`, `(T - 1) / 2`, `T + U * 2 - 3`.

The IR's made dims print and are computed by these, and so does whatever calls compiled code:
Python, an artifact's C text, its native code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SizeTerm:
    """A whole number times the sizes of these names."""

    times: int
    factors: tuple[str, ...]

    def text(self, names: Mapping[str, str]) -> str:
        """Without its sign, with the factors called so."""
        parts = [names.get(f, f) for f in self.factors]
        return " * ".join([*parts, *([str(abs(self.times))] if abs(self.times) != 1 else [])])


@dataclass(frozen=True, slots=True)
class SizeFormula:
    """(Σ terms + constant) / divisor, rounded down; a call where the sum is negative is an error.

    exact  the division leaves no remainder: a call where it does is an error. Such a formula is
           one term
    """

    terms: tuple[SizeTerm, ...]
    constant: int = 0
    divisor: int = 1
    exact: bool = False

    @staticmethod
    def product(factors: tuple[str, ...], divisor: int = 1, times: int = 1) -> SizeFormula:
        """The product of sizes, of which a call has a whole number of parts."""
        return SizeFormula((SizeTerm(times, factors),), 0, divisor, divisor != 1)

    @property
    def names(self) -> tuple[str, ...]:
        """The sizes that it asks for, each once."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term.factors))

    @property
    def may_be_negative(self) -> bool:
        """Whether there may be sizes for which it has no value."""
        return self.constant < 0 or any(term.times < 0 for term in self.terms)

    @property
    def multiple(self) -> int:
        """What the product of an exact one's factors has to be a multiple of."""
        return self.divisor // math.gcd(self.divisor, self.terms[0].times) if self.exact else 1

    def total(self, sizes: Mapping[str, int]) -> int:
        """What is divided."""
        products = (t.times * math.prod(sizes[f] for f in t.factors) for t in self.terms)
        return sum(products) + self.constant

    def value(self, sizes: Mapping[str, int]) -> int:
        """The size where these are the others; where there is none, a negative number."""
        return self.total(sizes) // self.divisor

    def fits(self, sizes: Mapping[str, int]) -> bool:
        """Whether it has a value."""
        total = self.total(sizes)
        return total >= 0 and not (self.exact and total % self.divisor)

    def total_text(self, names: Mapping[str, str]) -> str:
        """What is divided, as IR and C have it, with the sizes called so."""
        constant, text = self.constant, ""
        if self.terms[0].times < 0:  # C and the IR have no sign in front
            constant, text = min(constant, 0), str(max(constant, 0))
        for term in self.terms:
            sign = "-" if term.times < 0 else "+"
            text = f"{text} {sign} {term.text(names)}" if text else term.text(names)
        if constant:
            text += f" {'-' if constant < 0 else '+'} {abs(constant)}"
        return text

    def text(self, names: Mapping[str, str]) -> str:
        """`(T - 1) / 2`, `T * 3 / 2`: what stands in parentheses is rounded down."""
        total = self.total_text(names)
        if self.divisor == 1:
            return total
        return f"{total} / {self.divisor}" if self.exact else f"({total}) / {self.divisor}"

    def __str__(self) -> str:
        return self.text({})
