"""Judges what a compiled network computes: values node by node, gradients without any pass.

Values are judged by `evaluate_graph`, matrices rows x columns without expansion or layout;
gradients by the expanded function, evaluated operation by operation. Both are run in the next
wider type, which stands for the exact result. The compiled result may be off by twice the error of
a plain evaluation in its own type, plus 8 units in the last place of the largest element. One
plain evaluation may be exact by luck, and a sum in which much cancels is not so in another order:
so the plain error is the largest over a few evaluations, all but the first with every rounding
going another way (Monte Carlo arithmetic: Parker, "Monte Carlo Arithmetic", 1997).

Where samples are steps of sequences, the judges see them in one slot without gaps, values step by
step, and the compiled function side by side in several slots with nan in the gaps. The gradients of
such networks are held against differences of values too, along one direction for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.ir.clone import clone_module
from graphc.ir.core import Block, Function, Operation, Trait, Value
from graphc.ir.evaluate import evaluate_graph
from graphc.ir.params import resolve_sizes
from graphc.ir.types import DType, TensorType
from graphc.model.model import Model
from graphc.ops import contraction, default_context, elementwise, functions, indexed, reduction
from graphc.passes.expand_nodes import ExpandNodes
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.manager import Pass, PassManager
from graphc.passes.synthesize_gradient import PREFIX, SynthesizeGradient
from graphc.runtime.sparse import sparse_rows
from tests.support.random_networks import RandomNetwork
from tests.support.sequences import (
    compiled_for_sequences,
    evaluate_sequences,
    in_one_slot,
    side_by_side,
)

Array = np.ndarray

WIDER = {DType.F32: np.float64, DType.F64: np.longdouble}
MOVED = 3  # plain evaluations with other roundings
MAX_CONDITION = 1e4  # plain error in units of rounding above which a network says nothing
SMALL = 0.01  # below this size, where much cancelled, the condition is measured against it
ULPS = 8

_ROUNDED = (
    elementwise.ADD,
    elementwise.SUB,
    elementwise.MUL,
    elementwise.DIV,
    functions.EXP,
    functions.EXPM1,
    functions.LOG1P,
    functions.ERF,
    functions.SIN,
    functions.COS,
    functions.LOG,
    functions.TANH,
    functions.SIGMOID,
    functions.SQRT,
)
_SUMS = (
    reduction.REDUCE_SUM,
    contraction.MATMUL,
    indexed.SCATTER_ADD,
    indexed.SPARSE_PRODUCT,
    indexed.SAMPLED_PRODUCT,
    indexed.TRANSPOSED_SPARSE_PRODUCT,
)


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
        error = _distance(got, self.exact)
        largest = np.max(np.abs(self.exact)).astype(got.dtype)
        allowed = 2 * self.plain_error + ULPS * float(np.spacing(largest))
        if error <= allowed:  # so that nan is none
            return ""
        return f"error {error:.3g} of at most {largest:.3g} is above {allowed:.3g}"


def expectations(network: RandomNetwork, dtype: DType) -> dict[str, Expected] | None:
    """Every result by name as `Results` has them; None if the network is too sensitive."""
    function = _expanded(network, dtype)
    sizes = sizes_of(network, function)
    wide = evaluate_in(function, arguments_of(network, function, WIDER[dtype]), sizes)
    wide = {n: one_row_per_sample(network, n, x) for n, x in wide.items()}
    exact = _values(network, WIDER[dtype]) | _gradients(wide)
    arguments = arguments_of(network, function, dtype.numpy.type)
    plain = [_values(network, dtype.numpy.type)]
    for move in range(1 + MOVED):
        rng = np.random.default_rng(move) if move else None
        results = evaluate_in(function, arguments, sizes, rng)
        plain.append({n: one_row_per_sample(network, n, x) for n, x in results.items()})
    expected: dict[str, Expected] = {}
    for name, value in exact.items():
        error = max(_distance(p[name], value) for p in plain if name in p)
        largest = float(np.max(np.abs(value), initial=0.0))
        unit = float(np.finfo(dtype.numpy).eps)
        if not np.all(np.isfinite(value)) or error > MAX_CONDITION * unit * max(largest, SMALL):
            return None
        expected[name] = Expected(value, error)
    return expected


def computed(network: RandomNetwork, backend: str, dtype: DType) -> dict[str, Array]:
    """What the backend computes, by result name; matrices as it hands them out."""
    if network.lengths is not None:
        return _computed_packed(network, backend, dtype)
    options = CompileOptions(backend, dtype, network.batch)

    def passes(model: Model, wider: CompileOptions) -> list[Pass]:
        return evaluation_passes(model, network.outputs, network.wrt, wider)

    executable = bind(network.builder.model, passes, options)
    names = executable.signature.input_names
    results = executable(**network.inputs(names, dtype.numpy))
    return {name: np.atleast_2d(results[name]) for name in results}


def _computed_packed(network: RandomNetwork, backend: str, dtype: DType) -> dict[str, Array]:
    """As `computed`, of sequences side by side."""
    assert network.lengths is not None
    packing = side_by_side(network.lengths, network.slots, np.random.default_rng(network.seed))
    bounds = (packing.time + network.seed % 3, len(packing.slots) + network.seed % 2)
    call = compiled_for_sequences(
        *(network.builder.model, network.outputs, network.wrt),
        backend=backend,
        dtype=dtype,
        bounds=bounds,
        verify=False,
    )
    return {name: _laid_out(network, name, x) for name, x in call(packing, network.leaves).items()}


def _laid_out(network: RandomNetwork, name: str, matrix: Array) -> Array:
    """A matrix, rows x columns, as results have it: one row per sample."""
    return matrix.T if name.removeprefix(PREFIX) in network.with_samples else matrix


def gradient_problem(network: RandomNetwork, expected: Mapping[str, Expected]) -> str:
    """What differences of the criterion, in longdouble, say against the gradients; or ''."""
    rng = np.random.default_rng(network.seed)
    step = np.longdouble(1e-6)
    for name in network.wrt if network.lengths is not None else ():
        exact = expected[f"{PREFIX}{name}"].exact
        way = rng.choice([-1.0, 1.0], network.leaves.get(name, np.zeros(())).shape)
        if name not in network.leaves or _is_label_of_classes(network, name):
            continue  # a node in the middle, or words and classes: they cannot be moved
        ends = [
            _values(network, np.longdouble, {name: network.leaves[name] + sign * step * way})
            for sign in (1, -1)
        ]
        above, below = (end[network.outputs[0]].item() for end in ends)
        slope = float((above - below) / (2 * step))
        found = float(np.sum(_laid_out(network, name, way) * exact))
        scale = float(np.sum(np.abs(exact))) + abs(slope)
        if not abs(slope - found) <= 1e-5 * max(scale, 1e-3):
            return f"the slope of `{name}` is {slope:.9g}, the gradient says {found:.9g}"
    return ""


def _is_label_of_classes(network: RandomNetwork, name: str) -> bool:
    node = network.builder.find(name)
    assert node is not None
    readers = node.operation.result.uses
    return any("class_based" in op.opdef.name and index == 0 for op, index in readers)


def _distance(a: Array, b: Array) -> float:
    return float(np.max(np.abs(a - b), initial=0.0))


def sizes_of(network: RandomNetwork, function: Function) -> dict[str, int]:
    """The size of every dim of the function."""
    sizes = {"N": network.samples}
    if network.lengths is not None:
        sizes |= {"T": network.samples, "S": 1}
    arguments = _sparse_arguments(network)
    for argument in function.arguments:
        if argument.name in arguments and isinstance(argument.type, TensorType):
            sizes[str(argument.type.dims[1])] = arguments[argument.name].shape[1]
    return sizes


def _sparse_arguments(network: RandomNetwork) -> dict[str, Array]:
    """What the sparse inputs are handed over as."""
    found: dict[str, Array] = {}
    for node in network.builder.nodes:
        if node.op == "sparse_input":
            matrix = network.leaves[node.name]
            rows = sparse_rows(node.name, matrix.T, len(matrix))
            indices, values = rows.padded(np.dtype(np.float64))
            found |= {f"{node.name}.indices": indices, f"{node.name}.values": values}
    return found


def _gradients(results: Mapping[str, Array]) -> dict[str, Array]:
    return {n: x for n, x in results.items() if n.startswith(PREFIX)}


def _values(
    network: RandomNetwork,
    number: type[np.floating],
    moved: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """The outputs computed node by node, laid out as results are; some leaves may be `moved`."""
    leaves = {n: x.astype(number) for n, x in network.leaves.items()} | dict(moved or {})
    graph = network.builder.model.graph
    if network.lengths is None:
        nodes = evaluate_graph(graph, leaves)
    else:
        nodes = evaluate_sequences(graph, leaves, network.lengths)
    return {n: _laid_out(network, n, nodes[n]) for n in network.outputs}


def _expanded(network: RandomNetwork, dtype: DType) -> Function:
    """The function that computes outputs and gradients, before any pass that improves it."""
    module = clone_module(network.builder.model.module)
    passes = [
        InferShapes(),
        expansion(network, dtype),
        SynthesizeGradient(network.outputs[0], network.wrt),
    ]
    PassManager(passes).run(module, default_context())
    (function,) = module.functions
    return function


def expansion(network: RandomNetwork, dtype: DType) -> ExpandNodes:
    """The pass that makes operations of the network, for calls of its size."""
    time = 0 if network.lengths is None else network.batch
    return ExpandNodes(network.outputs, dtype, network.batch, time=time)


def arguments_of(
    network: RandomNetwork, function: Function, number: type[np.floating]
) -> dict[str, Array]:
    """What the function takes, in its layout."""
    sparse = _sparse_arguments(network)
    given = {
        n: x.astype(number) if x.dtype.kind == "f" else x
        for n, x in sparse.items()
        if function.argument(n) is not None
    }
    if network.lengths is not None:
        given |= in_one_slot(network.lengths).tables
    names = [a.name or "" for a in function.arguments if a.name not in given]
    plain = {n: _laid_out(network, n, network.leaves[n].astype(number)) for n in names}
    if network.lengths is not None:
        plain = {n: x[:, None, :] if n in network.with_samples else x for n, x in plain.items()}
    return given | plain


def one_row_per_sample(network: RandomNetwork, name: str, result: Array) -> Array:
    """What a function for `arguments_of` gives: [T, 1, rows] of nodes with steps as [N, rows]."""
    is_stepped = name.removeprefix(PREFIX) in network.with_samples
    return result[:, 0] if is_stepped and network.lengths is not None else result


def evaluate_in(
    function: Function,
    arguments: Mapping[str, Array],
    sizes: Mapping[str, int],
    rng: np.random.Generator | None = None,
) -> dict[str, Array]:
    """The results in whatever type the arguments have, which `evaluate` would refuse.

    With `rng` every rounding goes another way: results of arithmetic and terms of sums are moved
    by up to one unit.
    """
    inputs = [arguments[a.name or ""] for a in function.arguments]
    with np.errstate(all="ignore"):
        results = _evaluate_block(function.block, inputs, sizes, rng)
    return {info.name: x for info, x in zip(function.results, results, strict=True)}


def _evaluate_block(
    block: Block,
    inputs: Sequence[Array],
    sizes: Mapping[str, int],
    rng: np.random.Generator | None,
) -> tuple[Array, ...]:
    values: dict[Value, Array] = dict(zip(block.arguments, inputs, strict=True))
    for op in block:
        operands = [values[v] for v in op.operands]
        if op.opdef.has(Trait.TERMINATOR):
            return tuple(operands)
        if rng is not None and op.opdef in _SUMS:
            operands = [_moved(x, rng) for x in operands]
        for value, made in zip(op.results, _apply(op, operands, sizes, rng), strict=True):
            values[value] = _moved(made, rng) if rng and op.opdef in _ROUNDED else made
    raise AssertionError("a block without a terminator")


def _apply(
    op: Operation,
    operands: list[Array],
    sizes: Mapping[str, int],
    rng: np.random.Generator | None,
) -> tuple[Array, ...]:
    assert op.opdef.reference is not None
    params = resolve_sizes(op.params, sizes)
    if not op.regions:
        return (np.asarray(op.opdef.reference(params, *operands)),)
    body = op.regions[0].block
    number = max((x.dtype for x in operands if x.dtype.kind == "f"), default=np.dtype(np.float64))
    types = [v.type for v in op.results]
    empty = [np.zeros(t.shape(sizes), number) for t in types if isinstance(t, TensorType)]
    made = op.opdef.reference(
        params, lambda *inputs: _evaluate_block(body, inputs, sizes, rng), empty, *operands
    )
    assert isinstance(made, tuple)
    return made


def _moved(x: Array, rng: np.random.Generator) -> Array:
    """Every number up, down, or where it is, by one unit in the last place."""
    if x.dtype.kind != "f":
        return x
    return (x * (1 + np.finfo(x.dtype).eps * rng.integers(-1, 2, x.shape))).astype(x.dtype)
