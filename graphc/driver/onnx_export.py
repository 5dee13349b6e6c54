"""From a network or a program to an ONNX file.

What is written is the optimised tensor level, before anything is fused or placed; windows of f32
are convolutions and pooling where they are that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from graphc.artifacts.onnx.model import make_model
from graphc.artifacts.onnx.saving import OUTSIDE_BYTES, write_model
from graphc.driver.compile import Lowered, evaluation_passes, lower_by, run_passes
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import draw
from graphc.driver.program import lower_program, parameter_arrays, tensor_passes, with_results
from graphc.ir.rewriter import apply_patterns
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import DType
from graphc.model.model import Model
from graphc.model.program import Program
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.fuse_patches import patterns
from graphc.runtime.residency import come_home
from graphc.support.diagnostics import fail
from graphc.support.version import VERSION

WINDOWS = ("conv", "conv-image", "pool", "inside")
"""Patterns of `fuse-patches` whose operations ONNX has."""


def export_model(
    source: Model | Program,
    path: Path,
    outputs: Sequence[str],
    options: CompileOptions,
    *,
    outside_bytes: int = OUTSIDE_BYTES,
) -> list[Path]:
    """Write `outputs`, by default all that a program gives or the network's output nodes, as an
    ONNX file; the files that there are then: parameters of 1 GB and more lie in a second one.

    GraphcError for a bad network or option, and with every operation that ONNX has nothing for.
    """
    if path.suffix.lower() != ".onnx":
        raise fail("bad-option", f"an ONNX file requires a name that ends in .onnx, got {path}")
    lowered, arrays = _lowered(source, outputs, options)
    function, signature = lowered.function, lowered.signature
    if all(v.tensor.dtype is not DType.F64 for v in function.arguments):
        for block in straight_blocks(function):
            apply_patterns(block, [p for p in patterns(0) if p.name in WINDOWS])
        run_passes(lowered.module, pipeline("cse,dce"), default_context(), options)
    model = make_model(function, [*arrays], signature.sequences, VERSION)
    return write_model(path, model, arrays, outside_bytes=outside_bytes)


def _lowered(
    source: Model | Program, outputs: Sequence[str], options: CompileOptions
) -> tuple[Lowered, Mapping[str, np.ndarray]]:
    """The tensor operations, and the parameters' values by the names of arguments."""
    if isinstance(source, Program):
        come_home(source.values.values())
        program = with_results(source, outputs)
        passes = [] if program.is_written else tensor_passes(program, options)
        lowered = lower_program(program, options, passes)
        return lowered, parameter_arrays(lowered.signature, program.values)
    lowered = lower_by(source, evaluation_passes(source, outputs, (), options), options)
    draw(source, lowered.signature.model_names)
    come_home(source.values.values())
    return lowered, lowered.signature.model_arrays(source.values_in(options.precision))
