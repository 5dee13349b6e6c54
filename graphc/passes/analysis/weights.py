"""What formulas of the scalar vocabulary cost, relative to an addition."""

from __future__ import annotations

from graphc.ir.params import Params
from graphc.ir.scalar import ScalarRule

WEIGHTS = {
    "exp": 16,
    "expm1": 16,
    "log": 16,
    "log1p": 16,
    "tanh": 20,
    "sigmoid": 20,
    "erf": 32,
    "sin": 32,
    "cos": 32,
    "power": 64,
    "random_uniform": 64,
    "floor": 8,
    "div": 4,
    "sqrt": 4,
    "literal": 0,
}
"""Words that do not cost 1."""


class _Weigher:
    """Stands in for the scalar vocabulary and adds up what a formula costs."""

    def __init__(self) -> None:
        self.total = 0

    def __getattr__(self, word: str) -> object:
        def count(*_args: object) -> None:
            self.total += WEIGHTS.get(word, 1)

        return count


def formula_weight(rule: ScalarRule, params: Params, arguments: int) -> int:
    """The weight of an element-wise formula of so many arguments."""
    weigher = _Weigher()
    # The weigher only counts the words that the rule says; it has no values to say them of.
    rule(weigher, params, *([None] * arguments))  # type: ignore[arg-type]
    return weigher.total
