"""When to end a training early, and which of its epochs to keep."""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphc.support.arguments import truth
from graphc.support.diagnostics import fail


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Ends the training when what is watched has not improved for some epochs.

    patience         so many epochs in a row without an improvement are the last
    min_improvement  by how much it has to fall below the lowest value so far, which is an absolute
                     number, in the unit of what is watched
    use_validation   watch the validation data, if there are any
    node             an evaluation node to watch in place of the trained criterion
    """

    patience: int = 5
    min_improvement: float = 0.0
    use_validation: bool = True
    node: str | None = None

    def __post_init__(self) -> None:
        truth(self.use_validation, "use_validation")
        if self.patience != int(self.patience) or self.patience < 1:
            message = f"patience requires a whole number of at least 1, got {self.patience}"
            raise fail("bad-value", message)
        if not 0 <= self.min_improvement < math.inf:
            got = self.min_improvement
            raise fail("bad-value", f"min_improvement requires at least 0, got {got}")


@dataclass(frozen=True, slots=True)
class KeepBest:
    """After the last epoch the parameters are those of the epoch with the lowest value.

    use_validation, node  of what, as for `EarlyStopping`
    """

    use_validation: bool = True
    node: str | None = None

    def __post_init__(self) -> None:
        truth(self.use_validation, "use_validation")


@dataclass(frozen=True, slots=True)
class Patience:
    """The lowest value so far, and the epochs since then."""

    lowest: float = math.inf
    epochs: int = 0

    def after(self, value: float, min_improvement: float = 0.0) -> Patience:
        """After an epoch that reached this value; one that is no number is no improvement."""
        if value < self.lowest - min_improvement or (
            math.isinf(self.lowest) and math.isfinite(value)
        ):
            return Patience(value)
        return Patience(self.lowest, self.epochs + 1)
