"""Minibatches of sequences for tests: how sequences lie side by side, and what nodes make of them.

`Packing` says where in a minibatch [T, S] each sequence is. Matrices are rows x columns, with the
real columns only: sequence after sequence, step after step. `evaluate_sequences` computes every
node of a network from such matrices, step by step where there are cycles: no expansion, no loops,
no packing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from graphc.backends.signature import make_signature
from graphc.driver.pipelines import OPTIMISE, kernels
from graphc.ir.clone import clone_module
from graphc.ir.core import Function, OpDef, Operation
from graphc.ir.evaluate import evaluate_node
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixType
from graphc.model.model import Model
from graphc.ops import default_context
from graphc.ops.nodes.delays import DelayParams
from graphc.ops.nodes.layout import node_type
from graphc.ops.nodes.sequence_columns import BEGIN, END
from graphc.passes import pipeline
from graphc.passes.expand_nodes import ExpandNodes
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.manager import Pass, PassManager
from graphc.passes.synthesize_gradient import SynthesizeGradient
from graphc.runtime.signature import NUMPY_DTYPES, concrete_shape
from graphc.runtime.sparse import sparse_rows
from graphc.support.graphs import strongly_connected_components
from tests.support.compiling import load_backend

Array = np.ndarray


# --- where sequences lie -------------------------------------------------------------------------


@dataclass(frozen=True)
class Packing:
    """`slots`: for each slot the (first step, length) of its sequences, in order of time."""

    time: int
    slots: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def lengths(self) -> list[int]:
        return [length for slot in self.slots for _, length in slot]

    @property
    def places(self) -> tuple[Array, Array]:
        """(step, slot) of each real column."""
        found = [
            (t, s)
            for s, slot in enumerate(self.slots)
            for first, length in slot
            for t in range(first, first + length)
        ]
        pairs = np.array(found, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    @property
    def tables(self) -> dict[str, Array]:
        """What a compiled function is told of it."""
        begin = np.full((self.time, len(self.slots)), self.time, np.int32)
        end = np.zeros_like(begin)
        for s, slot in enumerate(self.slots):
            for first, length in slot:
                begin[first : first + length, s] = first
                end[first : first + length, s] = first + length
        return {BEGIN: begin, END: end}

    def pack(self, matrix: Array, gap: float = np.nan) -> Array:
        """[T, S, rows] of rows x columns, with `gap` in the gaps."""
        packed = np.full((self.time, len(self.slots), matrix.shape[0]), gap, matrix.dtype)
        packed[self.places] = matrix.T
        return packed

    def unpack(self, packed: Array) -> Array:
        return np.ascontiguousarray(packed[self.places].T)


def in_one_slot(lengths: Sequence[int]) -> Packing:
    """The sequences one after the other, without gaps."""
    firsts = np.cumsum([0, *lengths])
    return Packing(int(firsts[-1]), (tuple(zip(map(int, firsts), lengths, strict=False)),))


def side_by_side(lengths: Sequence[int], slots: int, rng: np.random.Generator) -> Packing:
    """The sequences in their order in that many slots, gaps between, before and behind them."""
    shares = np.array_split(np.array(lengths, int), slots)
    gaps = [rng.integers(0, 3, len(share) + 1) for share in shares]
    filled: list[tuple[tuple[int, int], ...]] = []
    for share, gap in zip(shares, gaps, strict=True):
        firsts = np.cumsum(gap[:-1]) + np.cumsum([0, *share[:-1]]) if len(share) else []
        filled.append(tuple((int(f), int(n)) for f, n in zip(firsts, share, strict=True)))
    time = max(int(s.sum() + g.sum()) for s, g in zip(shares, gaps, strict=True))
    return Packing(max(time, 1), tuple(filled))


# --- what nodes make of them ---------------------------------------------------------------------

_WITHIN_SEQUENCES = ("time_reverse", "attention", "crf", "cos_distance_with_negative_samples")
"""Nodes whose reference takes its columns as one sequence."""
_AHEAD = {"past_value": -1, "future_value": 1}


def evaluate_sequences(
    graph: Function, leaves: Mapping[str, Array], lengths: Sequence[int]
) -> dict[str, Array]:
    """Every node's matrix from those of the leaves, for sequences of these lengths."""
    given = {op: op.result.name or "" for op in graph.block}
    values = {op: np.asarray(leaves[name]) for op, name in given.items() if name in leaves}
    evaluate_operations(list(graph.block), values, lengths)
    return {given[op]: value for op, value in values.items()}


def evaluate_operations(
    nodes: Sequence[Operation], values: dict[Operation, Array], lengths: Sequence[int]
) -> None:
    """Add to `values` those of the nodes that have none yet."""
    waiting = {op for op in nodes if op not in values}
    components = strongly_connected_components(
        [op for op in nodes if op in waiting], lambda op: [i for i in _inputs(op) if i in waiting]
    )
    with np.errstate(all="ignore"):
        for component in components:
            op = component[0]
            if len(component) > 1 or op in _inputs(op):
                _evaluate_cycle(component, values, _spans(lengths))
            else:
                operands = [values[i] for i in _inputs(op)]
                types = [node_type(i) for i in _inputs(op)]
                values[op] = evaluate_over_sequences(op.opdef, op.params, types, operands, lengths)


def evaluate_over_sequences(
    opdef: OpDef,
    params: Params,
    types: Sequence[MatrixType],
    operands: Sequence[Array],
    lengths: Sequence[int],
) -> Array:
    """A node's matrix from those of its operands, by sequence where it looks along time."""
    name = opdef.name.removeprefix("node.")
    if name in _AHEAD:
        parts = [_shifted(name, params, operands[0][:, span]) for span in _spans(lengths)]
        return np.concatenate([operands[0][:, :0], *parts], axis=1)
    sampled = [type.has_samples for type in types]
    if name not in _WITHIN_SEQUENCES or not any(sampled):
        return evaluate_node(opdef, params, types, operands)
    parts = [
        evaluate_node(
            *(opdef, params, types),
            [x[:, span] if s else x for x, s in zip(operands, sampled, strict=True)],
        )
        for span in _spans(lengths)
    ]
    (type,) = opdef.infer(types, params)
    assert isinstance(type, MatrixType)
    if type.has_samples:
        return np.concatenate([np.zeros((type.rows or 0, 0), operands[0].dtype), *parts], axis=1)
    return np.sum([np.zeros((1, 1), operands[0].dtype), *parts], axis=0)


def _spans(lengths: Sequence[int]) -> list[slice]:
    ends = np.cumsum([0, *lengths])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def _inputs(op: Operation) -> list[Operation]:
    return [v.op for v in op.operands if v.op is not None]


def _shifted(name: str, params: Params, x: Array) -> Array:
    assert isinstance(params, DelayParams)
    steps = params.time_step * _AHEAD[name]
    result = np.full_like(x, params.default_hidden_activity)
    for t in range(x.shape[1]):
        if 0 <= t + steps < x.shape[1]:
            result[:, t] = x[:, t + steps]
    return result


def _evaluate_cycle(
    component: Sequence[Operation], values: dict[Operation, Array], spans: Sequence[slice]
) -> None:
    """Column by column, in the direction of the delays; in a step whichever node is ready."""
    dtype = np.result_type(*(x.dtype for x in values.values()))
    count = spans[-1].stop if spans else 0
    for op in component:
        values[op] = np.full((node_type(op).rows or 0, count), np.nan, dtype)
    is_backward = any(op.opdef.name == "node.future_value" for op in component)
    for span in spans:
        steps = range(span.start, span.stop)
        for t in reversed(steps) if is_backward else steps:
            waiting = list(component)
            while waiting:
                ready = [op for op in waiting if _is_ready(op, waiting)]
                assert ready, "a cycle without a delay"
                for op in ready:
                    values[op][:, t : t + 1] = _at_step(op, t, span, values)
                    waiting.remove(op)


def _is_ready(op: Operation, waiting: Sequence[Operation]) -> bool:
    is_delay = op.opdef.name.removeprefix("node.") in _AHEAD
    return is_delay or not any(i in waiting for i in _inputs(op))


def _at_step(op: Operation, t: int, span: slice, values: Mapping[Operation, Array]) -> Array:
    if isinstance(op.params, DelayParams):
        ahead = _AHEAD[op.opdef.name.removeprefix("node.")]
        place = t + ahead * op.params.time_step
        if span.start <= place < span.stop:
            return values[_inputs(op)[0]][:, place : place + 1]
        return np.full((node_type(op).rows or 0, 1), op.params.default_hidden_activity)
    operands = [
        values[i][:, t : t + 1] if node_type(i).has_samples else values[i] for i in _inputs(op)
    ]
    return evaluate_node(op.opdef, op.params, [v.type for v in op.operands], operands)


# --- compiled ------------------------------------------------------------------------------------

Call = Callable[[Packing, Mapping[str, Array]], dict[str, Array]]
"""(packing, matrix of each leaf) -> matrix of each result."""


def compiled_for_sequences(
    model: Model,
    outputs: Sequence[str],
    wrt: Sequence[str] = (),
    *,
    backend: str = "llvm",
    dtype: DType = DType.F64,
    bounds: tuple[int, int] = (32, 8),
    training: bool = False,
    verify: bool = True,
) -> Call:
    """A function of matrices; `bounds` on steps and slots. Further leaves are handed over as is."""
    module = clone_module(model.module)
    expansion = ExpandNodes(
        *(tuple(outputs), dtype), time=bounds[0], sequences=bounds[1], training=training
    )
    passes: list[Pass] = [InferShapes(), expansion]
    if wrt:
        passes.append(SynthesizeGradient(outputs[0], tuple(wrt)))
    passes += pipeline(OPTIMISE)
    target = load_backend(backend)
    assert not isinstance(target, str), target
    if target.stage == "kernels":
        passes += kernels()
    PassManager(passes, verify=verify, check_claim=verify).run(module, default_context())
    (function,) = module.functions
    signature = make_signature(module, function)
    compiled = target.compile(function, signature)
    argument_dims = {a.name: a.shape for a in signature.arguments}
    sparse = {a.removesuffix(".values") for a in argument_dims if a.endswith(".values")}
    sampled = {op.result.name or "" for op in model.graph.block if node_type(op).has_samples}

    def call(packing: Packing, leaves: Mapping[str, Array]) -> dict[str, Array]:
        time, slots = packing.time, len(packing.slots)
        sizes = {"T": time, "S": slots, "N": time * slots}
        given: dict[str, Array] = dict(packing.tables)
        for name, x in leaves.items():
            given[name] = packing.pack(x) if name in sampled else x
            if name in sparse:
                given |= _sparse_arguments(name, packing, x)
                sizes[str(argument_dims[f"{name}.values"][1])] = given[f"{name}.values"].shape[1]
        arguments = [
            np.ascontiguousarray(given[a.name], NUMPY_DTYPES[a.dtype]) for a in signature.arguments
        ]
        results = [
            np.full(concrete_shape(r.shape, sizes), np.nan, NUMPY_DTYPES[r.dtype])
            for r in signature.fresh_results
        ]
        compiled(arguments, results, sizes)
        return {
            r.name: packing.unpack(x) if r.name.removeprefix("gradient.") in sampled else x
            for r, x in zip(signature.fresh_results, results, strict=True)
        }

    return call


def _sparse_arguments(name: str, packing: Packing, x: Array) -> dict[str, Array]:
    """Places and numbers of a sparse input [N, K]; what stands in a gap is wrong."""
    packed = packing.pack(x, 0.0).reshape(-1, x.shape[0])
    indices, values = sparse_rows(name, packed, x.shape[0]).padded(np.dtype(np.float64))
    is_gap = (packing.pack(x[:1] * 0, 1.0) == 1).reshape(-1)
    values[is_gap], indices[is_gap] = np.nan, 0
    return {f"{name}.indices": indices, f"{name}.values": values}
