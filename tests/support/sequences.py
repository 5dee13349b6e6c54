"""Minibatches of sequences for tests: how sequences lie side by side, and what nodes make of them.

`Packing` says where in a minibatch [T, S] each sequence is. Matrices are rows x columns, with the
real columns only: sequence after sequence, step after step. `evaluate_sequences` computes every
node of a network from such matrices, step by step where there are cycles: no expansion, no loops,
no packing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.backends.signature import make_signature
from graphc.driver.pipelines import OPTIMISE, kernels
from graphc.ir.clone import clone_module
from graphc.ir.core import Function, Operation
from graphc.ir.evaluate import evaluate_node
from graphc.ir.types import DType
from graphc.model.model import Model
from graphc.ops import default_context
from graphc.ops.nodes.layout import node_type
from graphc.ops.nodes.sequence_columns import BEGIN, END
from graphc.passes import pipeline
from graphc.passes.expand_nodes import ExpandNodes, inputs_of
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

_WITHIN_SEQUENCES = ("time_reverse", "crf", "cos_distance_with_negative_samples")
"""Nodes whose reference takes its columns as one sequence."""
_AHEAD = {"past_value": -1, "future_value": 1}


def evaluate_sequences(
    graph: Function, leaves: Mapping[str, Array], lengths: Sequence[int]
) -> dict[str, Array]:
    """Every node's matrix from those of the leaves, for sequences of these lengths."""
    ends = np.cumsum([0, *lengths])
    spans = [slice(int(a), int(b)) for a, b in zip(ends, ends[1:], strict=False)]
    values: dict[Operation, Array] = {}
    with np.errstate(all="ignore"):
        for component in strongly_connected_components(graph.block, inputs_of):
            op = component[0]
            if len(component) > 1 or op in inputs_of(op):
                _evaluate_cycle(component, values, spans)
            elif (op.result.name or "") in leaves:
                values[op] = np.asarray(leaves[op.result.name or ""])
            else:
                values[op] = _evaluate(op, [values[i] for i in inputs_of(op)], spans)
    return {op.result.name or "": value for op, value in values.items()}


def _evaluate(op: Operation, operands: list[Array], spans: Sequence[slice]) -> Array:
    name = op.opdef.name.removeprefix("node.")
    if name in _AHEAD:
        parts = [_shifted(op, operands[0][:, span]) for span in spans]
        return np.concatenate([operands[0][:, :0], *parts], axis=1)
    sampled = [node_type(i).has_samples for i in inputs_of(op)]
    if name in _WITHIN_SEQUENCES and any(sampled):
        parts = [
            _apply(op, [x[:, span] if s else x for x, s in zip(operands, sampled, strict=True)])
            for span in spans
        ]
        if node_type(op).has_samples:
            empty = np.zeros((node_type(op).rows or 0, 0), operands[0].dtype)
            return np.concatenate([empty, *parts], axis=1)
        return np.sum([np.zeros((1, 1), operands[0].dtype), *parts], axis=0)
    return _apply(op, operands)


def _apply(op: Operation, operands: Sequence[Array]) -> Array:
    types = [v.type for v in op.operands]
    return evaluate_node(op.opdef, op.params, types, operands)


def _shifted(op: Operation, x: Array) -> Array:
    steps = op.params.time_step * _AHEAD[op.opdef.name.removeprefix("node.")]  # type: ignore[attr-defined]
    result = np.full_like(x, op.params.default_hidden_activity)  # type: ignore[attr-defined]
    for t in range(x.shape[1]):
        if 0 <= t + steps < x.shape[1]:
            result[:, t] = x[:, t + steps]
    return result


def _evaluate_cycle(
    component: Sequence[Operation], values: dict[Operation, Array], spans: Sequence[slice]
) -> None:
    """Column by column, in the direction of the delays; in a step whichever node is ready."""
    members = set(component)
    some = next(values[i] for op in component for i in inputs_of(op) if i not in members)
    count = spans[-1].stop if spans else 0
    for op in component:
        values[op] = np.full((node_type(op).rows or 0, count), np.nan, some.dtype)
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
    return is_delay or not any(i in waiting for i in inputs_of(op))


def _at_step(op: Operation, t: int, span: slice, values: Mapping[Operation, Array]) -> Array:
    ahead = _AHEAD.get(op.opdef.name.removeprefix("node."))
    if ahead is not None:
        place = t + ahead * op.params.time_step  # type: ignore[attr-defined]
        if span.start <= place < span.stop:
            return values[inputs_of(op)[0]][:, place : place + 1]
        default = op.params.default_hidden_activity  # type: ignore[attr-defined]
        return np.full((node_type(op).rows or 0, 1), default)
    operands = [
        values[i][:, t : t + 1] if node_type(i).has_samples else values[i] for i in inputs_of(op)
    ]
    return _apply(op, operands)


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
    PassManager(passes, verify=True, check_claim=True).run(module, default_context())
    function = module.function("main")
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
