"""Which passes run for what, as lists whose text can be pasted after `graphc opt -p`."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.types import DType
from graphc.passes import pipeline
from graphc.passes.apply_learner import ApplyLearner
from graphc.passes.expand_nodes import DEFAULT_ENTRIES, ExpandNodes
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.manager import Pass
from graphc.passes.synthesize_gradient import SynthesizeGradient

OPTIMISE = "simplify,fold-constants,hoist-loops,simplify,cse,dce"
KERNELS = "fuse-kernels,plan-memory"

PIPELINES: dict[str, str] = {
    "optimise": OPTIMISE,
    "kernels": KERNELS,
}
"""Named pipelines, usable wherever a pass name is."""


def expansion(
    outputs: Sequence[str], dtype: DType, batch: int, entries: int = DEFAULT_ENTRIES
) -> list[Pass]:
    """From the network to tensor operations that compute `outputs`."""
    return [InferShapes(), ExpandNodes(tuple(outputs), dtype, batch, entries=entries)]


def evaluation(
    outputs: Sequence[str],
    gradients: Sequence[str],
    dtype: DType,
    batch: int,
    entries: int = DEFAULT_ENTRIES,
) -> list[Pass]:
    """Compute `outputs`, and the gradients of the first one's sum."""
    passes = expansion(outputs, dtype, batch, entries)
    if gradients:
        passes.append(SynthesizeGradient(outputs[0], tuple(gradients)))
    return passes + pipeline(OPTIMISE)


def training(
    outputs: Sequence[str],
    trained: Sequence[str],
    dtype: DType,
    batch: int,
    *,
    learner: str,
    l2: float,
    seed: int = 0,
    entries: int = DEFAULT_ENTRIES,
) -> list[Pass]:
    """A training step: `outputs` (the criterion first), and the update of `trained`.

    seed  of what is random in the network while it is trained
    """
    passes: list[Pass] = [
        InferShapes(),
        ExpandNodes(tuple(outputs), dtype, batch, training=True, seed=seed, entries=entries),
    ]
    passes += [SynthesizeGradient(outputs[0], tuple(trained)), ApplyLearner(learner, l2)]
    return passes + pipeline(OPTIMISE)


def kernels() -> list[Pass]:
    """From tensor operations to fused, planned kernels."""
    return pipeline(KERNELS)
