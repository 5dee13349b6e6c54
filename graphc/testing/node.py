"""`check_node`: a node of one's own against its reference, on every backend, and its gradient.

For authors of nodes (docs/extending.md). The node's value is compared with the record's numpy
reference, its gradient with central differences of that reference, neither of which shares anything
with the expansion: as samples in calls of several sizes, as steps of sequences with gaps between
them, and in a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphc import api
from graphc.builder import GraphBuilder
from graphc.ir.core import Array, OpDef
from graphc.ops.nodes.layout import display_name, node_type
from graphc.support import arguments
from graphc.support.diagnostics import fail
from graphc.tensor.node_type import NodeType
from graphc.testing.backends import usable
from graphc.testing.node_case import DTYPES, Draw, NodeCase, Size, node_case
from graphc.testing.report import Check, Report

BOUND = 4
COUNTS = (0, 1, 3, BOUND, BOUND + 5)
"""Samples of the calls: none, one, the bound, and beyond it."""
LENGTHS = (3, 1, 2)
"""Steps of the sequences that lie side by side."""
ROUNDINGS = 256
"""How many roundings of the largest number a value may be off."""
STEP = 1e-6
SLOPE_ERROR = 1e-5
"""Of the size of the largest slope, what a difference may be off."""


def check_node(
    node: NodeType | OpDef,
    *sizes: Size,
    settings: Mapping[str, object] | None = None,
    draw: Draw | Sequence[Draw] | None = None,
    gradient: bool = True,
    backends: Sequence[str] = (),
    seed: int = 0,
) -> Report:
    """Compare a node with its reference; GraphcError `plug-in` with the table where they differ.

        gc.check_node(MAXOUT, (3, None), (3, 1), settings={"leak": 0.5})

    sizes     (rows, columns) of each operand; columns None: one for each sample
    settings  those that are not at their default
    draw      (generator, rows, columns) -> the numbers of the operands, or one such function for
              each; by default normal ones. At kinks, which they should avoid, no difference is a
              slope
    gradient  False for a node without one
    backends  by default all that can be used here
    """
    case = node_case(node, sizes, settings, draw, seed)
    has_gradient = arguments.truth(gradient, "gradient")
    found, left_out = usable(backends)
    checks = [c for backend in found for c in _checks(case, backend, has_gradient)]
    report = Report(display_name(case.opdef), tuple(checks), left_out)
    if not report.passed:
        failed = "; ".join(" ".join(str(c).split()) for c in checks if not c.passed)
        raise fail("plug-in", f"{report.title} is not what its reference says: {failed}")
    return report


def _checks(case: NodeCase, backend: str, gradient: bool) -> list[Check]:
    net = case.network()
    y = net.find("y")
    assert y is not None
    per_sample = [i for i, (_, columns) in enumerate(case.sizes) if columns is None]
    found: list[Check] = []
    for precision in DTYPES:
        excess = _of_samples(case, net, backend, precision)
        found.append(Check("value", backend, precision, excess))
    if not all(check.passed for check in found):
        return found  # what follows from the value would fail too
    if gradient:
        for name in case.names:
            excess = _of_slopes(case, net, name, backend)
            found.append(Check(f"gradient of {name}", backend, "f64", excess))
    if per_sample and not node_type(y.operation).has_samples:
        excess = _of_gaps(case, net, backend)
        found.append(Check("sum over sequences", backend, "f64", excess))
    elif 0 in per_sample:
        found.append(Check("in a cycle", backend, "f64", _of_cycle(case, backend)))
    if gradient and 0 in per_sample:
        excess = _of_slopes_in_gaps(case, net, backend)
        found.append(Check("gradient over sequences", backend, "f64", excess))
    return found


def _excess(got: Array, wanted: Array, allowed: float) -> float:
    """The largest error over `allowed` of the largest number; infinite for another shape."""
    if got.shape != wanted.shape or not np.array_equal(np.isnan(got), np.isnan(wanted)):
        return np.inf
    got, wanted = np.nan_to_num(got), np.nan_to_num(wanted)
    size = max(float(np.max(np.abs(wanted), initial=0)), float(np.finfo(np.float32).tiny))
    return float(np.max(np.abs(got - wanted), initial=0)) / (allowed * size)


# --- samples -------------------------------------------------------------------------------------


def _set(case: NodeCase, net: GraphBuilder, operands: Sequence[Array]) -> dict[str, Array]:
    """Give the parameters their values; the inputs, a sample in each row."""
    inputs: dict[str, Array] = {}
    for name, value, (_, columns) in zip(case.names, operands, case.sizes, strict=True):
        if columns is None:
            inputs[name] = value.T
        else:
            net.parameters[name] = value
    return inputs


def _of_samples(case: NodeCase, net: GraphBuilder, backend: str, precision: str) -> float:
    """The worst of calls with several numbers of samples."""
    has_samples = _has_samples(net)
    exe = api.compile(net, "y", backend=backend, precision=precision, batch=BOUND)
    worst = 0.0
    for count in COUNTS:
        operands = case.operands(count, precision)
        inputs = _set(case, net, operands)
        got = np.asarray(exe(**inputs)["y"], np.float64)
        got = got.T if has_samples else np.atleast_2d(got)
        allowed = ROUNDINGS * float(np.finfo(DTYPES[precision]).eps)
        worst = max(worst, _excess(got, case.reference(operands), allowed))
    return worst


def _has_samples(net: GraphBuilder) -> bool:
    y = net.find("y")
    assert y is not None
    return node_type(y.operation).has_samples


def _weighted(
    case: NodeCase, net: GraphBuilder, operands: Sequence[Array]
) -> tuple[Array, dict[str, Array]]:
    """Random weights of the sum `s`, and the inputs."""
    inputs = _set(case, net, operands)
    weights = np.random.default_rng((case.seed, 7)).standard_normal(case.reference(operands).shape)
    if _has_samples(net):
        inputs["c"] = weights.T
    else:
        net.parameters["c"] = weights
    return weights, inputs


def _of_slopes(case: NodeCase, net: GraphBuilder, name: str, backend: str) -> float:
    """The gradient of the weighted sum with respect to an operand, by differences."""
    exe = api.compile(net, "s", gradients=name, backend=backend, precision="f64", batch=BOUND)
    operands = case.operands(3, "f64")
    weights, inputs = _weighted(case, net, operands)
    got = np.asarray(exe(**inputs)[f"gradient.{name}"], np.float64)
    index = case.names.index(name)
    got = got.T if case.sizes[index][1] is None else got
    wanted = np.zeros(operands[index].shape)
    for place in np.ndindex(*wanted.shape):
        wanted[place] = _difference(case, operands, index, place, weights)
    return _excess(got, wanted, SLOPE_ERROR)


def _difference(
    case: NodeCase,
    operands: Sequence[Array],
    index: int,
    place: tuple[int | slice, ...],
    weights: Array,
) -> float:
    """The slope of the weighted sum where elements of an operand move together."""
    sides: list[Array] = []
    for sign in (1, -1):
        moved = [x.copy() for x in operands]
        moved[index][place] += sign * STEP
        sides.append(case.reference(moved))
    return float(np.sum(weights * (sides[0] - sides[1]))) / (2 * STEP)


# --- sequences -----------------------------------------------------------------------------------


def _in_sequences(columns: Array) -> list[Array]:
    """Columns, one sequence after the other, as sequences of a step in each row."""
    ends = np.cumsum(LENGTHS)
    return np.split(columns.T, ends[:-1])


def _of_gaps(case: NodeCase, net: GraphBuilder, backend: str) -> float:
    """A node that folds the columns, over sequences side by side: the gaps count nothing."""
    exe = api.compile(
        net, "y", backend=backend, precision="f64", time=max(LENGTHS), sequences=len(LENGTHS)
    )
    operands = case.operands(sum(LENGTHS), "f64")
    inputs = _set(case, net, operands)
    got = exe(**{name: _in_sequences(x.T) for name, x in inputs.items()})["y"]
    allowed = ROUNDINGS * float(np.finfo(np.float64).eps)
    return _excess(np.atleast_2d(np.asarray(got)), case.reference(operands), allowed)


def _of_slopes_in_gaps(case: NodeCase, net: GraphBuilder, backend: str) -> float:
    """The gradient with respect to the bias over sequences: what is in the gaps adds nothing."""
    exe = api.compile(
        *(net, "s"),
        gradients="bias",
        backend=backend,
        precision="f64",
        time=max(LENGTHS),
        sequences=len(LENGTHS),
    )
    operands = case.operands(sum(LENGTHS), "f64")
    weights, inputs = _weighted(case, net, operands)
    got = exe(**{name: _in_sequences(x.T) for name, x in inputs.items()})["gradient.bias"]
    places = range(case.sizes[0][0])
    slopes = [_difference(case, operands, 0, (i, slice(None)), weights) for i in places]
    return _excess(np.asarray(got), np.reshape(slopes, (-1, 1)), SLOPE_ERROR)


def _of_cycle(case: NodeCase, backend: str) -> float:
    """The node in a cycle, against the reference step by step."""
    net = case.cycle()
    exe = api.compile(
        net, "y", backend=backend, precision="f64", time=max(LENGTHS), sequences=len(LENGTHS)
    )
    operands = case.operands(sum(LENGTHS), "f64")
    inputs = _set(case, net, operands)
    p = np.random.default_rng((case.seed, 9)).standard_normal(net.parameters["p"].shape) / 4
    net.parameters["p"] = p
    got = exe(**{name: _in_sequences(x.T) for name, x in inputs.items()})["y"]
    at, worst = 0, 0.0
    for length, found in zip(LENGTHS, got, strict=True):
        before = np.zeros((p.shape[1], 1))
        for step in range(length):
            here = [
                x[:, at : at + 1] if columns is None else x
                for x, (_, columns) in zip(operands, case.sizes, strict=True)
            ]
            before = case.reference([here[0] + p @ before, *here[1:]])
            allowed = ROUNDINGS * float(np.finfo(np.float64).eps)
            worst = max(worst, _excess(found[step : step + 1].T, before, allowed))
            at += 1
    return worst
