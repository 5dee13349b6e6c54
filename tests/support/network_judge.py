"""Judges what a compiled network computes: values node by node, gradients without any pass.

Values are judged by `evaluate_graph`, matrices rows x columns without expansion or layout;
gradients by the expanded function, evaluated operation by operation. Both are also run in the next
wider type, which stands for the exact result. The compiled result may be off by twice the error of
the plain evaluation in its own type, plus 8 units in the last place of the largest element. The
plain error is the largest over a few evaluations with inputs moved by a rounding error, since one
alone may be exact by luck.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.ir.clone import clone_module
from graphc.ir.core import Function, Trait, Value
from graphc.ir.evaluate import evaluate_graph
from graphc.ir.params import resolve_sizes
from graphc.ir.types import DType
from graphc.ops import default_context
from graphc.passes.expand_nodes import ExpandNodes
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.manager import PassManager
from graphc.passes.synthesize_gradient import PREFIX, SynthesizeGradient
from tests.support.random_networks import RandomNetwork

Array = np.ndarray

WIDER = {DType.F32: np.float64, DType.F64: np.longdouble}
MOVED = 4  # plain evaluations with inputs moved by a rounding error
MAX_CONDITION = 1e4  # plain error in units of rounding above which a network says nothing
ULPS = 8


@dataclass(frozen=True)
class Expected:
    """What a result has to be: exact, and how far a plain evaluation is from that."""

    exact: Array
    plain_error: float

    def problem(self, got: Array) -> str:
        """What is wrong with a result, or ''."""
        if got.shape != self.exact.shape:
            return f"requires shape {self.exact.shape}, got {got.shape}"
        if not got.size:
            return ""
        error = float(np.max(np.abs(got - self.exact)))
        largest = np.max(np.abs(self.exact)).astype(got.dtype)
        allowed = 2 * self.plain_error + ULPS * float(np.spacing(largest))
        if error <= allowed:
            return ""
        return f"error {error:.3g} of at most {largest:.3g} is above {allowed:.3g}"


def expectations(network: RandomNetwork, dtype: DType) -> dict[str, Expected] | None:
    """Every result by name as `Results` has them; None if the network is too sensitive."""
    exact = _evaluated(network, dtype, WIDER[dtype], 0)
    plain = [_evaluated(network, dtype, dtype.numpy.type, move) for move in range(1 + MOVED)]
    expected: dict[str, Expected] = {}
    for name, value in exact.items():
        error = max((_distance(p[name], value) for p in plain), default=0.0)
        largest = float(np.max(np.abs(value), initial=0.0))
        unit = float(np.finfo(dtype.numpy).eps)
        if not np.all(np.isfinite(value)) or error > MAX_CONDITION * unit * max(largest, 1e-30):
            return None
        expected[name] = Expected(value, error)
    return expected


def computed(network: RandomNetwork, backend: str, dtype: DType) -> dict[str, Array]:
    """What the backend computes, by result name; matrices as it hands them out."""
    model = network.builder.model
    options = CompileOptions(backend, dtype, network.batch)

    def passes(batch: int) -> list:
        del batch
        return evaluation_passes(model, network.outputs, network.wrt, options)

    executable = bind(model, passes, options)
    names = [a.name for a in executable.signature.with_role("input")]
    results = executable(**network.inputs(names, dtype.numpy))
    return {name: np.atleast_2d(results[name]) for name in results}


def _distance(a: Array, b: Array) -> float:
    return float(np.max(np.abs(a - b), initial=0.0))


def _evaluated(
    network: RandomNetwork, dtype: DType, number: type[np.floating], move: int
) -> dict[str, Array]:
    """The results computed in `number`; for `move` > 0 from leaves moved by a rounding error."""
    leaves = {n: x.astype(number) for n, x in network.leaves.items()}
    if move:
        rng = np.random.default_rng(move)
        unit = np.finfo(dtype.numpy).eps
        leaves = {
            n: (x * (1 + unit * rng.uniform(-1, 1, x.shape))).astype(number)
            for n, x in leaves.items()
        }
    graph = network.builder.model.graph
    nodes = evaluate_graph(graph, leaves)
    with_samples = {n.name for n in network.builder.nodes if "*" in str(n.operation.result.type)}
    values = {n: nodes[n].T if n in with_samples else nodes[n] for n in network.outputs}
    return values | _gradients(network, dtype, leaves, with_samples)


def _gradients(
    network: RandomNetwork, dtype: DType, leaves: Mapping[str, Array], with_samples: set[str]
) -> dict[str, Array]:
    module = clone_module(network.builder.model.module)
    passes = [
        InferShapes(),
        ExpandNodes(network.outputs, dtype, network.batch),
        SynthesizeGradient(network.outputs[0], network.wrt),
    ]
    PassManager(passes).run(module, default_context())
    (function,) = module.functions
    given = {
        a.name or "": leaves[a.name or ""].T if a.name in with_samples else leaves[a.name or ""]
        for a in function.arguments
    }
    results = evaluate_in(function, given, {"N": network.samples})
    return {n: x for n, x in results.items() if n.startswith(PREFIX)}


def evaluate_in(
    function: Function, arguments: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """The results in whatever type the arguments have, which `evaluate` would refuse."""
    values: dict[Value, Array] = {a: arguments[a.name or ""] for a in function.arguments}
    with np.errstate(all="ignore"):
        for op in function.block:
            if op.opdef.has(Trait.TERMINATOR):
                break
            assert op.opdef.reference is not None
            params = resolve_sizes(op.params, sizes)
            made = op.opdef.reference(params, *[values[v] for v in op.operands])
            assert isinstance(made, np.ndarray)
            values[op.result] = made
    returned = zip(function.results, function.returned, strict=True)
    return {info.name: values[v] for info, v in returned}
