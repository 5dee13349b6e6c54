"""The compiled training step: forward, backward and update in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphc.driver import pipelines
from graphc.driver.compile import bind, node_names
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import prepare
from graphc.learn.evaluate import require_sums
from graphc.learn.sgd import SGD
from graphc.model.model import Model
from graphc.ops.nodes.layout import find_node
from graphc.ops.nodes.leaves import ParameterParams
from graphc.passes.expand_nodes import inputs_of
from graphc.runtime.executable import Executable, Results
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail
from graphc.support.graphs import reachable


class TrainingStep:
    """Call it with a minibatch: `step(features=x, labels=t)` gives criterion and evaluation.

    The network's parameters are updated in place; they and the learner's state stay in the step's
    element type. `nominal` is the minibatch size that rates per minibatch refer to, by default the
    bound.
    """

    def __init__(self, executable: Executable, learner: SGD, nominal: int, criterion: str) -> None:
        self._executable = executable
        self._learner = learner
        self.nominal = nominal
        self.criterion = criterion

    def __call__(self, /, **inputs: object) -> Results:
        """One update. Raises GraphcError `input` for a bad input, with nothing changed."""
        return self._executable.run(inputs, self._settings)

    def _settings(self, samples: int) -> dict[str, float]:
        if samples == 0:
            raise fail("input", "a training step requires at least one sample, got none")
        return self._learner.settings(samples, self.nominal)

    @property
    def learner(self) -> SGD:
        """May be replaced between calls by one with other rates; `l2` is compiled in."""
        return self._learner

    @learner.setter
    def learner(self, learner: SGD) -> None:
        if learner.l2 != self._learner.l2:
            raise fail(
                "bad-value",
                f"the step was compiled for l2 = {self._learner.l2:g}, got {learner.l2:g}: "
                "compile another one",
            )
        self._learner = learner

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
    outputs = training_outputs(model, criterion)
    require_sums(model, outputs)
    model.convert(options.precision)
    executable = bind(model, lambda m, o: training_passes(m, learner, o, criterion)[1], options)
    return TrainingStep(executable, learner, options.batch, outputs[0])


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
