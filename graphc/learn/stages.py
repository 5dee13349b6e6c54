"""A network at any stage of its compilation, for whoever looks at it: as the driver makes it.

A training step is one of the things to look at, so this stands beside training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from graphc.driver import pipelines
from graphc.driver.compile import all_passes, bounds_for, node_names, run_passes
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import infer
from graphc.ir.clone import clone_module
from graphc.ir.core import Module
from graphc.learn.sgd import SGD
from graphc.learn.step import training_passes
from graphc.model.model import Model
from graphc.ops import default_context
from graphc.ops.nodes.layout import RESULT_TAGS
from graphc.ops.nodes.statistics import StatisticParams
from graphc.passes.manager import Pass
from graphc.support.diagnostics import fail

Stage = Literal["nodes", "tensor", "kernels", "schedule"]
STAGES: tuple[Stage, ...] = ("nodes", "tensor", "kernels", "schedule")


def module_at(
    model: Model,
    stage: Stage,
    options: CompileOptions,
    *,
    train: bool = False,
    nodes: Sequence[str] = (),
) -> Module:
    """A copy of the network at this stage; the network itself stays as it is."""
    copy = model.snapshot()
    copy.values = dict(model.values)
    infer(copy)
    if stage == "nodes":
        return copy.module
    pretend_statistics(copy)
    module = clone_module(copy.module)
    passes = stage_passes(copy, stage, options, train=train, nodes=nodes)
    run_passes(module, passes, default_context(), options)
    return module


def pretend_statistics(model: Model) -> None:
    """Mark Mean and InvStdDev nodes as computed, so that a network can be looked at without data.

    The text of no stage shows values, so none is made: it takes no memory, however many rows a
    text claims, and the text is the same as after the statistics were computed.
    """
    for op in model.graph.block:
        if isinstance(op.params, StatisticParams) and not op.params.computed:
            op.params = replace(op.params, computed=True)


def stage_passes(
    model: Model, stage: str, options: CompileOptions, *, train: bool, nodes: Sequence[str]
) -> list[Pass]:
    """The passes from the network to the stage, as the driver runs them.

    "schedule" is "kernels" with all that is decided for `options.machine`, by default this one.
    """
    if train:
        _, passes = training_passes(model, SGD(learning_rate=0.0), options)
    else:
        names = node_names(model, nodes) or shown_nodes(model)
        bounds = bounds_for(model, names, options)
        passes = pipelines.evaluation(
            names, (), options.precision, bounds, contraction=options.contraction
        )
    if stage == "kernels":
        return [*passes, *pipelines.kernels()]
    return all_passes(passes, options) if stage == "schedule" else list(passes)


def shown_nodes(model: Model) -> list[str]:
    """Output nodes, criteria and evaluation nodes."""
    names = list(dict.fromkeys(name for tag in RESULT_TAGS for name in model.tagged(tag)))
    if not names:
        raise fail("missing-node", "no output, criterion or evaluation nodes; name some by --nodes")
    return names
