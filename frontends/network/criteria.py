"""Methods that make criteria, evaluations and other sums."""

from __future__ import annotations

from collections.abc import Sequence

from frontends.network.base import NetworkBase
from frontends.network.node import NetworkNode


class Criteria(NetworkBase):
    """Sums and comparisons, over the minibatch or over each column."""

    def sum_elements(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The sum of all elements, 1x1."""
        return self._add("sum_elements", (x,), {}, name, tag)

    def sum_column_elements(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The sum of each column, a row vector."""
        return self._add("sum_column_elements", (x,), {}, name, tag)

    def cos_distance(
        self,
        x: NetworkNode,
        y: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """The cosine of the angle between columns, a row vector; 0 where a column is zero."""
        return self._add("cos_distance", (x, y), {}, name, tag)

    def cross_entropy_with_softmax(
        self,
        label: NetworkNode,
        prediction: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """-Σ label · ln softmax(prediction)."""
        return self._add("cross_entropy_with_softmax", (label, prediction), {}, name, tag)

    def cross_entropy(
        self,
        label: NetworkNode,
        probability: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """-Σ label · ln probability."""
        return self._add("cross_entropy", (label, probability), {}, name, tag)

    def square_error(
        self,
        target: NetworkNode,
        prediction: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """½ Σ (target - prediction)²."""
        return self._add("square_error", (target, prediction), {}, name, tag)

    def error_prediction(
        self,
        label: NetworkNode,
        prediction: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Number of samples whose largest label and largest prediction differ in place."""
        return self._add("error_prediction", (label, prediction), {}, name, tag)

    def matrix_l1_reg(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Σ |x|, 1x1."""
        return self._add("matrix_l1_reg", (x,), {}, name, tag)

    def matrix_l2_reg(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The Frobenius norm √Σ x², 1x1; slope 0 where X is zero."""
        return self._add("matrix_l2_reg", (x,), {}, name, tag)

    def crf(
        self,
        label: NetworkNode,
        score: NetworkNode,
        transition: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Minus the log likelihood of the label sequence under a conditional random field.

        The minibatch is one sequence; transition[i, j] is the score of label j after label i.
        """
        return self._add("crf", (label, score, transition), {}, name, tag)
