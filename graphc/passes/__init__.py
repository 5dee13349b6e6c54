"""Passes: IR in, IR out, one file each, and the table of all of them by name (plugins.py: more).

`pipeline("simplify,cse,dce")` reads a pipeline as it is written after `graphc opt -p`.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.ir.params import Literalish
from graphc.ir.parser import parse_params_text
from graphc.passes.accumulate_statistics import AccumulateStatistics
from graphc.passes.apply_learner import ApplyLearner
from graphc.passes.choose_layout import ChooseLayout
from graphc.passes.choose_schedule import ChooseSchedule
from graphc.passes.eliminate_common_subexpressions import EliminateCommonSubexpressions
from graphc.passes.eliminate_dead_code import EliminateDeadCode
from graphc.passes.expand_nodes import ExpandNodes
from graphc.passes.expand_training import ExpandTraining
from graphc.passes.fold_constants import FoldConstants
from graphc.passes.fold_scales import FoldScales
from graphc.passes.fuse_chunks import FuseChunks
from graphc.passes.fuse_epilogues import FuseEpilogues
from graphc.passes.fuse_kernels import FuseKernels
from graphc.passes.fuse_patches import FusePatches
from graphc.passes.hoist_loops import HoistLoops
from graphc.passes.hoist_pooling import HoistPooling
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.join_sums import JoinSums
from graphc.passes.manager import Pass, parse_pipeline
from graphc.passes.merge_products import MergeProducts
from graphc.passes.overlap_sums import OverlapSums
from graphc.passes.pack_parameters import PackParameters
from graphc.passes.plan_memory import PlanMemory
from graphc.passes.plugins import PassTable
from graphc.passes.round_factors import RoundFactors
from graphc.passes.schedule_loops import ScheduleLoops
from graphc.passes.schedule_updates import ScheduleUpdates
from graphc.passes.simplify import Simplify
from graphc.passes.split_early import SplitEarly
from graphc.passes.split_outputs import SplitOutputs
from graphc.passes.split_work import SplitWork
from graphc.passes.synthesize_gradient import SynthesizeGradient
from graphc.passes.synthesize_tangent import SynthesizeTangent
from graphc.passes.transpose_parameters import TransposeParameters
from graphc.support.diagnostics import DiagnosticSink

PASSES: dict[str, type[Pass]] = {
    p.name: p
    for p in (
        # node level
        InferShapes,
        ExpandNodes,
        # tensor level
        ExpandTraining,
        MergeProducts,
        HoistPooling,
        SynthesizeGradient,
        SynthesizeTangent,
        ApplyLearner,
        SplitOutputs,
        JoinSums,
        OverlapSums,
        AccumulateStatistics,
        Simplify,
        FoldConstants,
        EliminateCommonSubexpressions,
        EliminateDeadCode,
        HoistLoops,
        ChooseLayout,
        FoldScales,
        RoundFactors,
        SplitEarly,
        TransposeParameters,
        # kernel level
        FusePatches,
        FuseKernels,
        FuseEpilogues,
        ScheduleUpdates,
        ScheduleLoops,
        SplitWork,
        ChooseSchedule,
        FuseChunks,
        PackParameters,
        PlanMemory,
    )
}


def read_options(text: str) -> dict[str, Literalish]:
    """The options of one pass, `name = value, …`, in the literals of the IR's text form.

    Raises GraphcError (parse) at the first thing that is none.
    """
    sink = DiagnosticSink()
    options = parse_params_text(text, sink, file="<pass options>")
    sink.raise_if_errors()
    return options


def pipeline(text: str, pipelines: Mapping[str, str] | None = None) -> list[Pass]:
    """The passes that `text` names, plug-ins too; `pipelines` gives names to whole pipelines.

    Raises GraphcError (bad-option, parse) for an unknown pass, option or value, (plug-in) for a
    broken plug-in.
    """
    return parse_pipeline(text, PassTable(PASSES), read_options, pipelines)
