"""The compiled training step: forward, backward and update in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from graphc.driver import pipelines
from graphc.driver.compile import bind, node_names
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import prepare
from graphc.learn.sgd import SGD
from graphc.model.model import Model
from graphc.ops.nodes.leaves import ParameterParams
from graphc.passes.expand_nodes import find_node, inputs_of
from graphc.runtime.executable import Executable, Results
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail
from graphc.support.graphs import reachable


class TrainingStep:
    """Call it with a minibatch: `step(features=x, labels=t)` gives criterion and evaluation.

    The network's parameters are updated in place; they and the learner's state stay in the step's
    element type. `learner` may be replaced between calls (another rate); `nominal` is the minibatch
    size that rates per minibatch refer to, by default the bound.
    """

    def __init__(
        self, executable: Executable, learner: SGD, nominal: int, criterion: str, passes: str
    ) -> None:
        self._executable = executable
        self.learner = learner
        self.nominal = nominal
        self.criterion = criterion
        self.passes = passes

    def __call__(self, /, **inputs: object) -> Results:
        """One update. Raises GraphcError `input` for a bad input, with nothing changed."""
        return self._executable.run(inputs, lambda n: self.learner.settings(n, self.nominal))

    @property
    def signature(self) -> Signature:
        return self._executable.signature

    @property
    def state(self) -> Mapping[str, np.ndarray]:
        """The learner's state by name, such as `velocity.W0`."""
        return self._executable.state


def training_passes(
    model: Model, learner: SGD, options: CompileOptions, criterion: str | None = None
) -> tuple[list[str], list[pipelines.Pass]]:
    """The step's outputs, the trained criterion first, and the passes that make it."""
    outputs = training_outputs(model, criterion)
    trained = trainable_parameters(model, outputs[0])
    passes = pipelines.training(
        outputs, trained, options.precision, options.batch, learner=learner.rule, l2=learner.l2
    )
    return outputs, passes


def compile_training_step(
    model: Model, learner: SGD, options: CompileOptions, *, criterion: str | None = None
) -> TrainingStep:
    """A training step for `criterion`, by default the first criterion node."""
    prepare(model)
    model.convert(options.precision)

    def passes_for(batch: int) -> list[pipelines.Pass]:
        return training_passes(model, learner, replace(options, batch=batch), criterion)[1]

    executable = bind(model, passes_for, options)
    outputs, passes = training_passes(model, learner, options, criterion)
    text = ",".join(map(str, passes))
    return TrainingStep(executable, learner, options.batch, outputs[0], text)


def training_outputs(model: Model, criterion: str | None = None) -> list[str]:
    """The criterion to train, then the evaluation nodes and the other criteria."""
    criteria = model.tagged("criterion")
    if criterion is not None:
        criteria = [*node_names(model, [criterion]), *criteria]
    if not criteria:
        raise fail(
            "missing-node",
            "no criterion nodes are specified: tag one `criterion` or list it in CriteriaNodes",
        )
    return list(dict.fromkeys([*criteria, *model.tagged("evaluation")]))


def trainable_parameters(model: Model, criterion: str) -> list[str]:
    """Parameters with needGradient that the criterion depends on, in the network's order."""
    root = find_node(model.graph, criterion)
    assert root is not None
    used = reachable([root], inputs_of)
    names = [
        op.result.name or ""
        for op in model.graph.block
        if op in used and isinstance(op.params, ParameterParams) and op.params.need_gradient
    ]
    if not names:
        raise fail("missing-node", f"the criterion `{criterion}` depends on no trainable parameter")
    return names


__all__: Sequence[str] = (
    "TrainingStep",
    "compile_training_step",
    "trainable_parameters",
    "training_outputs",
    "training_passes",
)
