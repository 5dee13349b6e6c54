"""Which passes run for what, as lists whose text can be pasted after `graphc opt -p`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from graphc.ir.core import ContractionMode
from graphc.ir.machine import AnyMachine, GpuMachine, Machine
from graphc.ir.types import DType
from graphc.passes import pipeline
from graphc.passes.apply_learner import ApplyLearner
from graphc.passes.choose_schedule import ChooseSchedule
from graphc.passes.expand_nodes import DEFAULT_ENTRIES, ExpandNodes
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.join_sums import JoinSums
from graphc.passes.loop_gradient import Recompute
from graphc.passes.manager import Pass
from graphc.passes.merge_products import MergeProducts
from graphc.passes.pack_parameters import PackParameters
from graphc.passes.split_early import SplitEarly
from graphc.passes.synthesize_gradient import SynthesizeGradient
from graphc.passes.transpose_parameters import TransposeParameters

SIMPLIFY = "hoist-pooling,simplify,fold-constants,hoist-loops,choose-layout,simplify"
CLEAN = "cse,dce"
OPTIMISE = f"{SIMPLIFY},{CLEAN}"
FOLD = "simplify,fold-scales"
"""For inference with parameters that do not change."""
ROUND = f'round-factors,fold-constants,hoist-loops{{kinds = ["invariant"]}},{CLEAN}'
"""For factors in bf16: what steps of a loop share is rounded once, before it."""
FUSED = "fuse-patches,fuse-kernels,fuse-epilogues,schedule-updates,schedule-loops,split-work"
GPU_FUSED = (
    "fuse-patches{line_bytes = 0},fuse-kernels{parts = false},"
    "fuse-epilogues{least_bytes = 0, in_parts = false},schedule-updates"
)
"""For a GPU: what a launch costs is more than what a small product saves by staying alone, and
tiles are shared among blocks by whoever writes the kernels, which move whole vectors of whole
arrays."""
PLAN = "fuse-chunks,plan-memory"
GPU_PLAN = "plan-memory{side_by_side = true}"
KERNELS = f"{FUSED},{PLAN}"

PIPELINES: dict[str, str] = {
    "optimise": OPTIMISE,
    "round": ROUND,
    "kernels": KERNELS,
    "gpu-kernels": f"{GPU_FUSED},{GPU_PLAN}",
}
"""Named pipelines, usable wherever a pass name is."""


@dataclass(frozen=True)
class Bounds:
    """What one call holds at most, and how: the options of `expand-nodes` that say it.

    time      0 where samples are not steps of sequences
    numbered  inputs of labels that calls give as class numbers
    """

    batch: int = 256
    entries: int = DEFAULT_ENTRIES
    time: int = 0
    sequences: int = 1
    carry: bool = False
    numbered: tuple[str, ...] = ()

    def expand(
        self,
        outputs: Sequence[str],
        dtype: DType,
        *,
        training: bool = False,
        seed: int = 0,
        recompute: Recompute = "auto",
        shards: int = 1,
        sync: bool = False,
    ) -> ExpandNodes:
        """The pass that makes tensor operations of the network for such calls."""
        return ExpandNodes(
            tuple(outputs),
            dtype,
            self.batch,
            training=training,
            seed=seed,
            entries=self.entries,
            time=self.time,
            sequences=self.sequences,
            carry=self.carry,
            segment=math.isqrt(max(self.time - 1, 0)) + 1 if recompute == "sqrt" else 0,
            shards=shards,
            sync=sync,
            numbered=self.numbered,
        )


def folding(gradients: Sequence[str], *, freeze: bool) -> list[Pass]:
    """What comes first in inference with frozen parameters; nothing where gradients are taken.

    Before `hoist-pooling`, which would take a chain of factors and summands apart.
    """
    return pipeline(FOLD) if freeze and not gradients else []


def rounding(contraction: ContractionMode) -> list[Pass]:
    """What follows differentiation where factors of products are rounded on every backend."""
    return pipeline(ROUND) if contraction == "bf16" else []


def expansion(
    outputs: Sequence[str], dtype: DType, bounds: Bounds, recompute: Recompute = "auto"
) -> list[Pass]:
    """From the network to tensor operations that compute `outputs`."""
    return [InferShapes(), bounds.expand(outputs, dtype, recompute=recompute)]


def differentiation(
    of: str, parameters: Sequence[str], recompute: Recompute, *, freeze: bool = False
) -> list[Pass]:
    """What makes the gradients of `of`, if there are `parameters` to take them of, and what comes
    before: what is computed twice is so once, so that what flows back to it is one sum.

    freeze  the parameters never change
    """
    merge = MergeProducts(tuple(parameters), freeze)
    if not parameters:
        return [merge]
    return [*pipeline("cse"), merge, SynthesizeGradient(of, tuple(parameters), recompute)]


def evaluation(
    outputs: Sequence[str],
    gradients: Sequence[str],
    dtype: DType,
    bounds: Bounds,
    recompute: Recompute = "auto",
    contraction: ContractionMode = "fma",
    *,
    freeze: bool = False,
) -> list[Pass]:
    """Compute `outputs`, and the gradients of the first one's sum.

    freeze  the parameters never change
    """
    passes = expansion(outputs, dtype, bounds, recompute if gradients else "auto")
    passes += differentiation(outputs[0], gradients, recompute, freeze=freeze)
    passes += folding(gradients, freeze=freeze)
    return [*passes, *pipeline(OPTIMISE), *rounding(contraction)]


def early_parts(
    part: Literal["frozen", "seldom", "rest"], seldom: tuple[str, ...], *, freeze: bool
) -> list[Pass]:
    """What leaves this part of a function: of what depends on frozen parameters alone, of what
    depends on inputs that are given seldom too, of the rest."""
    passes: list[Pass] = []
    if freeze:
        passes += [TransposeParameters(), SplitEarly(part="early" if part == "frozen" else "rest")]
    if seldom and part != "frozen":
        early = "early" if part == "seldom" else "rest"
        passes.append(SplitEarly(seldom, early, frozen=freeze))
    # What has become an argument may be read turned now.
    return [*passes, TransposeParameters()] if freeze else passes


def training(
    outputs: Sequence[str],
    trained: Sequence[str],
    dtype: DType,
    bounds: Bounds,
    *,
    learner: ApplyLearner,
    seed: int = 0,
    recompute: Recompute = "auto",
    contraction: ContractionMode = "fma",
    sync_batchnorm: bool = False,
) -> list[Pass]:
    """A training step: `outputs` (the criterion first), and the update of `trained`.

    learner  the pass that makes the update
    seed     of what is random in the network while it is trained
    sync_batchnorm  BatchNormalization is by the samples of all members
    """
    expand = bounds.expand(
        *(outputs, dtype),
        training=True,
        seed=seed,
        recompute=recompute,
        shards=learner.members,
        sync=sync_batchnorm,
    )
    update = array_training(outputs[0], trained, learner, recompute, contraction)
    return [InferShapes(), expand, *update]


def array_training(
    criterion: str,
    trained: Sequence[str],
    learner: ApplyLearner,
    recompute: Recompute = "auto",
    contraction: ContractionMode = "fma",
) -> list[Pass]:
    """From tensor operations that compute a criterion to those of a training step."""
    gradients = differentiation(criterion, trained, recompute)
    # After simplifying it shows which gradients are sums of lookups.
    made = [*gradients, *pipeline(SIMPLIFY), learner, *pipeline(CLEAN), *rounding(contraction)]
    return made if learner.members == 1 else [*made, JoinSums()]


def training_gradients(
    outputs: Sequence[str],
    trained: Sequence[str],
    dtype: DType,
    bounds: Bounds,
    *,
    seed: int = 0,
    recompute: Recompute = "auto",
    contraction: ContractionMode = "fma",
) -> list[Pass]:
    """What a training step computes before its update: `outputs`, the first one's gradients."""
    expand = bounds.expand(outputs, dtype, training=True, seed=seed, recompute=recompute)
    gradients = differentiation(outputs[0], trained, recompute)
    return [InferShapes(), expand, *gradients, *pipeline(OPTIMISE), *rounding(contraction)]


def kernels(machine: AnyMachine | None = None, *, freeze: bool = False) -> list[Pass]:
    """From tensor operations to fused, planned kernels, with schedules for a machine.

    freeze  parameters are laid as products read them
    """
    fused = GPU_FUSED if isinstance(machine, GpuMachine) else FUSED
    chosen: list[Pass] = [ChooseSchedule(machine)] if machine is not None else []
    if freeze and isinstance(machine, Machine):
        chosen.append(PackParameters(machine))
    return [*pipeline(fused), *chosen, *planned(machine)]


def planned(machine: AnyMachine | None) -> list[Pass]:
    """The last passes: from fused kernels to planned ones."""
    return pipeline(GPU_PLAN if isinstance(machine, GpuMachine) else PLAN)
