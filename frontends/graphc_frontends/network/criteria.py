"""Methods that make criteria with operands or settings of a form of their own."""

from __future__ import annotations

from collections.abc import Sequence

from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode, Operand


class Criteria(NetworkBase):
    """Criteria, over the minibatch or over each column."""

    def cos_distance_with_negative_samples(
        self,
        x: Operand,
        y: Operand,
        shift: int,
        negatives: int,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """The cosines between each column of X and `negatives` + 1 columns of Y: the same one, then
        those from `shift` columns further on, as if the last were followed by the first."""
        settings = {"shift": shift, "negatives": negatives}
        return self._add("cos_distance_with_negative_samples", (x, y), settings, name, tag)

    def logistic(
        self,
        label: Operand,
        probability: Operand,
        weight: Operand | None = None,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """-Σ w (label · ln p + (1 - label) · ln(1 - p)), w a weight per column or element."""
        operands = (label, probability) if weight is None else (label, probability, weight)
        return self._add("logistic", operands, {}, name, tag)
