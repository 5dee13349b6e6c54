"""What predefined networks are put together from: parameters, layers, criteria, priors.

A node without a name of its own is called `AutoName<N>`, as in the toolkit; the numbers are not the
toolkit's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphc_frontends.simple.options import Criterion, SimpleOptions

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder, Node

_CRITERION_NAMES: dict[Criterion, str] = {
    "cross_entropy_with_softmax": "CrossEntropyWithSoftmax",
    "square_error": "SquareError",
    "class_based_cross_entropy_with_softmax": "ClassCrossEntropyWithSoftmax",
    "error_prediction": "EvalErrorPrediction",
}


class Parts:
    """A builder being filled with layers."""

    def __init__(self, builder: GraphBuilder, options: SimpleOptions) -> None:
        self.builder = builder
        self.options = options
        self._unnamed = 0

    # --- nodes -------------------------------------------------------------------------------

    def node(
        self,
        op: str,
        *operands: Node | None,
        name: str | None = None,
        tags: Sequence[str] = (),
        **settings: object,
    ) -> Node:
        """Any node; an operand None is bound later."""
        if name is None:
            name = f"AutoName{self._unnamed}"
            self._unnamed += 1
        return self.builder.apply(op, operands, settings, name=name, tags=tags)

    def weights(self, name: str, rows: int, cols: int) -> Node:
        """A parameter that is drawn."""
        init = "uniform" if self.options.uniform_init else "gaussian"
        scale = self.options.init_value_scale
        return self.node(
            "parameter", name=name, rows=rows, cols=cols, init=init, init_value_scale=scale
        )

    def bias(self, name: str, rows: int, value: float = 0.0) -> Node:
        """A parameter that starts with one value everywhere."""
        return self.node("parameter", name=name, rows=rows, init="fixed_value", value=value)

    def times(self, a: Node, b: Node, name: str | None = None) -> Node:
        return self.node("times", a, b, name=name)

    def plus(self, a: Node, b: Node, name: str | None = None) -> Node:
        return self.node("plus", a, b, name=name)

    def past(self, rows: int, *, default: float | None = None, name: str | None = None) -> Node:
        """The value of a node one step before, which is bound later."""
        activity = self.options.default_hidden_activity if default is None else default
        return self.node("past_value", None, name=name, rows=rows, default_hidden_activity=activity)

    def bind(self, delays: Sequence[Node], to: Node) -> None:
        """Say what these delays are of."""
        for delay in delays:
            self.builder.set_operand(delay, 0, to)

    # --- layers ------------------------------------------------------------------------------

    def features(self, *, sparse: bool = False, names: Sequence[str | None] = (None,) * 3) -> Node:
        """The input, normalised if the options say so; `names` of mean, deviation and result."""
        op = "sparse_input" if sparse else "input"
        x = self.node(op, name="features", tags=["feature"], rows=self.options.layer_sizes[0])
        if not self.options.apply_mean_var_norm:
            return x
        mean = self.node("mean", x, name=names[0])
        deviation = self.node("inv_std_dev", x, name=names[1])
        return self.node("per_dim_mean_var_normalization", x, mean, deviation, name=names[2])

    def looked_up(self, x: Node, name: str = "LookupTable") -> Node:
        """The vectors of the words in `x`, if the options ask for a table of them."""
        order, sizes = self.options.lookup_table_order, self.options.layer_sizes
        if not order:
            return x
        table = self.weights("E0", sizes[1], sizes[0] // order)
        return self.dropped(self.node("lookup_table", table, x, name=name))

    def nonlinear(self, x: Node, layer: int, name: str | None = None) -> Node:
        """The nonlinearity of a hidden layer, counted from 0. A linear layer is `x` itself, which
        takes the name."""
        kind = self.options.nonlinearities[layer]
        if kind != "none":
            return self.node(kind, x, name=name)
        if name is not None:
            self.builder.rename(x, name)
        return x

    def dropped(self, x: Node, name: str | None = None) -> Node:
        """A Dropout behind `x`, if the options ask for it."""
        return self.node("dropout", x, name=name) if self.options.add_dropout_nodes else x

    # --- ends --------------------------------------------------------------------------------

    def labels(self, rows: int) -> Node:
        return self.node("input", name="labels", tags=["label"], rows=rows)

    def criteria(
        self,
        labels: Node,
        output: Node,
        train_name: str | None = None,
        eval_name: str | None = None,
    ) -> None:
        """The criteria of training and evaluation: one node where both are the same."""
        training, evaluation = self.options.training, self.options.evaluation
        name = train_name or _CRITERION_NAMES[training]
        trained = self.node(training, labels, output, name=name, tags=["criterion"])
        if training == evaluation:
            self.builder.add_tag(trained, "evaluation")
        else:
            name = eval_name or _CRITERION_NAMES[evaluation]
            self.node(evaluation, labels, output, name=name, tags=["evaluation"])

    def class_criteria(self, hidden: Node, weight: Node, size: int) -> Node:
        """The criterion over classes of words, for training and evaluation alike."""
        labels = self.labels(4)
        classes = self.weights("WeightForClassPostProb", self.options.nbr_class, size)
        scores = self.times(classes, hidden, "ClassPostProb")
        return self.node(
            self.options.training, labels, hidden, weight, scores,
            name="TrainNodeClassBasedCrossEntropy", tags=["criterion", "evaluation"],
        )  # fmt: skip

    def output_or_likelihood(self, output: Node, labels: Node, prior_name: str | None) -> None:
        """Tag the result: `output`, or with a prior its logarithms of scaled likelihoods."""
        if not self.options.need_prior:
            self.builder.add_tag(output, "output")
            return
        prior = self.node("mean", labels, name=prior_name)
        log = self.node("log", prior, name="LogOfPrior")
        self.node("minus", output, log, name="ScaledLogLikelihood", tags=["output"])

    def unused_prior(self, labels: Node) -> None:
        """The toolkit computes the labels' frequencies of some networks and uses them nowhere."""
        if self.options.need_prior:
            self.node("mean", labels)
