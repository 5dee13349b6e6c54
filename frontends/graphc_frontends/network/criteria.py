"""Methods that make criteria, evaluations and other sums."""

from __future__ import annotations

from collections.abc import Sequence

from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode, Operand


class Criteria(NetworkBase):
    """Sums and comparisons, over the minibatch or over each column."""

    def sum_elements(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The sum of all elements, 1x1."""
        return self._add("sum_elements", (x,), {}, name, tag)

    def sum_column_elements(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The sum of each column, a row vector."""
        return self._add("sum_column_elements", (x,), {}, name, tag)

    def cos_distance(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """The cosine of the angle between columns, a row vector; 0 where a column is zero."""
        return self._add("cos_distance", (x, y), {}, name, tag)

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

    def cross_entropy_with_softmax(
        self,
        label: Operand,
        prediction: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """-Σ label · ln softmax(prediction)."""
        return self._add("cross_entropy_with_softmax", (label, prediction), {}, name, tag)

    def cross_entropy(
        self,
        label: Operand,
        probability: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """-Σ label · ln probability."""
        return self._add("cross_entropy", (label, probability), {}, name, tag)

    def class_based_cross_entropy_with_softmax(
        self,
        label: Operand,
        hidden: Operand,
        weight: Operand,
        class_score: Operand,
        *,
        max_class_size: int = 0,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """-Σ (ln p(class) + ln p(word | class)), by the columns of the class's words alone.

        label           4 rows: word, class, first word of the class, first word after it
        weight          hidden x words
        class_score     a row per class, before the softmax
        max_class_size  most words of a class, which bounds work and memory; 0: all words.
                        Larger classes give nan
        """
        operands = (label, hidden, weight, class_score)
        settings = {"max_class_size": max_class_size}
        return self._add("class_based_cross_entropy_with_softmax", operands, settings, name, tag)

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

    def gmm_log_likelihood(
        self,
        unnormed_prior: Operand,
        mean: Operand,
        log_std_dev: Operand,
        feature: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """The log likelihood of each column under a mixture of C Gaussians, a row vector.

        unnormed_prior  C rows; its softmax is the prior
        mean            C times the feature's rows, one component after the other
        log_std_dev     C rows; all dimensions of a component share one deviation

        These three have one column, or one for each of the feature.
        """
        operands = (unnormed_prior, mean, log_std_dev, feature)
        return self._add("gmm_log_likelihood", operands, {}, name, tag)

    def square_error(
        self,
        target: Operand,
        prediction: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """½ Σ (target - prediction)²."""
        return self._add("square_error", (target, prediction), {}, name, tag)

    def error_prediction(
        self,
        label: Operand,
        prediction: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Number of samples whose largest label and largest prediction differ in place."""
        return self._add("error_prediction", (label, prediction), {}, name, tag)

    def matrix_l1_reg(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Σ |x|, 1x1."""
        return self._add("matrix_l1_reg", (x,), {}, name, tag)

    def matrix_l2_reg(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The Frobenius norm √Σ x², 1x1; slope 0 where X is zero."""
        return self._add("matrix_l2_reg", (x,), {}, name, tag)

    def crf(
        self,
        label: Operand,
        score: Operand,
        transition: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Minus the log likelihood of the label sequence under a conditional random field.

        The minibatch is one sequence; transition[i, j] is the score of label j after label i.
        """
        return self._add("crf", (label, score, transition), {}, name, tag)
