"""Compares the gradients of a network with central differences, the toolkit's `gradientcheck`.

For some elements of each parameter the criterion is computed with the element moved a little up and
down, in double precision; the slope has to agree with the gradient to a number of digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import draw, infer
from graphc.driver.statistics import precompute
from graphc.ir.types import DType
from graphc.learn.step import training_outputs
from graphc.model.model import Model
from graphc.ops.nodes.leaves import ParameterParams
from graphc.passes.expand_nodes import inputs_of
from graphc.runtime.executable import needed_inputs
from graphc.runtime.sparse import sample_count
from graphc.support.diagnostics import fail
from graphc.support.graphs import reachable

STEP = 1e-5
"""Relative to the size of an element: the square root of f64's precision is near the best for
functions of a size like their arguments."""


@dataclass(frozen=True)
class Slope:
    """One element of a parameter: its gradient, and the slope that differences say."""

    parameter: str
    element: int
    gradient: float
    difference: float

    def agrees(self, digits: int) -> bool:
        """Whether the two are no further apart than the digits allow: 10^-digits, times the power
        of ten above the smaller one where that is over 1."""
        least = min(abs(self.gradient), abs(self.difference))
        power = max(0, math.ceil(math.log10(least))) if least > 0 else 0
        return abs(self.gradient - self.difference) < 10.0 ** (power - digits)


def slopes(
    model: Model,
    data: Mapping[str, object],
    options: CompileOptions,
    criterion: str | None = None,
    elements: int = 50,
    seed: int = 0,
) -> list[Slope]:
    """Gradient and slope of `criterion` on these samples, for up to `elements` elements, drawn by
    the seed, of each parameter that it learns. The network is as it was afterwards.

    GraphcError for a bad network or data, `missing-node` if nothing is learnt.
    """
    copy = model.frozen()
    infer(copy)
    (name, *_) = training_outputs(copy, criterion)
    root = copy.find(name)
    assert root is not None
    learnt = [
        op.result.name or ""
        for op in reachable([root], inputs_of)
        if isinstance(op.params, ParameterParams) and op.params.need_gradient
    ]
    if not learnt:
        raise fail("missing-node", f"`{name}` depends on no parameter that is learnt")
    draw(copy)
    copy.convert(DType.F64)
    batch = max((sample_count(column) for column in data.values()), default=1)
    bounds = replace(options, precision=DType.F64, batch=max(1, batch))
    precompute(copy, data, bounds)
    exe = bind(copy, lambda m, o: evaluation_passes(m, [name], learnt, o), bounds)
    given = needed_inputs(exe.signature, data)
    gradients = {p: np.array(g) for p, g in exe(**given).gradients.items()}
    generator = np.random.default_rng(seed)
    found: list[Slope] = []
    for parameter in learnt:
        value = copy.values[parameter].reshape(-1)
        chosen = generator.permutation(value.size)[:elements]
        for element in sorted(chosen.tolist()):
            before = float(value[element])
            step = STEP * max(1.0, abs(before))
            sides: list[float] = []
            for moved in (before + step, before - step):
                value[element] = moved
                sides.append(float(exe(**given)[name]))
            value[element] = before
            slope = (sides[0] - sides[1]) / (2 * step)
            gradient = float(gradients[parameter].reshape(-1)[element])
            found.append(Slope(parameter, element, gradient, slope))
    return found
