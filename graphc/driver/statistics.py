"""Computes Mean and InvStdDev nodes over a whole data set by compiled accumulations in f64."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count as count_from

import numpy as np

from graphc.backends.base import CompiledFunction
from graphc.driver import pipelines
from graphc.driver.compile import bounds_for, compile_model
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import draw, infer
from graphc.ir.core import Operation
from graphc.ir.types import DType
from graphc.model.model import Model
from graphc.ops.nodes.layout import node_type
from graphc.ops.nodes.statistics import INV_STD_DEV, VARIANCE_FLOOR, StatisticParams
from graphc.passes import pipeline
from graphc.passes.accumulate_statistics import CENTRE, TOTAL, AccumulateStatistics
from graphc.passes.expand_nodes import inputs_of
from graphc.runtime.communicators.alone import alone
from graphc.runtime.communicators.communicator import Communicator, shards_of
from graphc.runtime.communicators.sums import tree_sum
from graphc.runtime.executable import (
    Executable,
    check_inputs,
    check_sequences,
    needed_inputs,
)
from graphc.runtime.sequences import as_columns
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail
from graphc.support.graphs import topological_order

BATCH, SIDE_BY_SIDE = 1024, 16

Inputs = Mapping[str, object]
Blocks = Callable[[], Iterable[Inputs]]
"""Gives the data set in blocks of samples, from its beginning at every call."""


def precompute(
    model: Model,
    inputs: Inputs | Blocks,
    options: CompileOptions | None = None,
    communicator: Communicator | None = None,
) -> list[str]:
    """Give every Mean and InvStdDev node without a value its value; the names of those.

    `inputs` hold the whole data set, (samples, rows) each, or lists of sequences (steps, rows), or
    are a function that gives it in blocks; those that no statistic needs may be missing. The
    variance is the population's, at least 1e-10 (the toolkit's floor). Of the options, precision,
    bounds and what looks on do not count.

    communicator  this one of several members, who share the calls over the same data: call i is of
                  shard i mod V, and shards are added in the fixed tree
    """
    options = replace(
        options or CompileOptions(),
        precision=DType.F64,
        batch=BATCH,
        time=0,
        sequences=SIDE_BY_SIDE,
        after=None,
        profile=None,
    )
    member = communicator if communicator is not None else alone()
    blocks = inputs if callable(inputs) else lambda: [inputs]
    infer(model)
    pending = [op for op in model.graph.block if _is_pending(op)]
    order = topological_order(model.graph.block, lambda op: [v.op for v in op.operands if v.op])
    if order is not None:
        pending.sort(key={op: i for i, op in enumerate(order)}.__getitem__)
    means: dict[str, np.ndarray] = {}
    for op in pending:
        feature = op.operands[0].definition
        name = feature.result.name or ""
        if name not in means:
            means[name] = _average(model, name, blocks, None, options, member)
        value = means[name]
        if op.opdef is INV_STD_DEV:
            variance = _average(model, name, blocks, value, options, member)
            value = 1.0 / np.sqrt(np.maximum(variance, VARIANCE_FLOOR))
        model.set_statistic(op.result.name or "", value.reshape(-1, 1))
    return [op.result.name or "" for op in pending]


def _is_pending(op: Operation) -> bool:
    is_open = isinstance(op.params, StatisticParams) and bool(inputs_of(op))
    return is_open and node_type(op).is_known


def _average(
    model: Model,
    name: str,
    blocks: Blocks,
    centre: np.ndarray | None,
    options: CompileOptions,
    member: Communicator,
) -> np.ndarray:
    """f64[1, rows]: the mean over samples of the node's value, or of its squared deviations."""
    frozen = model.snapshot()

    def compiled(bounds: Mapping[str, int]) -> tuple[CompiledFunction, Signature]:
        wider = options.widened(bounds)
        passes = pipelines.expansion([name], wider.precision, bounds_for(frozen, [name], wider))
        passes += [AccumulateStatistics(centred=centre is not None)]
        return compile_model(frozen, [*passes, *pipeline(pipelines.OPTIMISE)], wider)

    shards = shards_of(member)
    own = shards // member.size
    functions = [compiled({}) for _ in range(own)]
    signature = functions[0][1]
    draw(model, signature.model_names)
    values = model.values_in(options.precision)
    fixed = values if centre is None else {**values, CENTRE: centre}
    totals = [Executable(*function, fixed, recompile=compiled) for function in functions]
    samples, numbers = 0, count_from()
    for inputs in blocks():
        calls, count = _calls(signature, needed_inputs(signature, inputs))
        samples += count
        for call in calls:
            shard = next(numbers) % shards - member.rank * own
            if 0 <= shard < own:
                totals[shard](**call)
    if samples == 0:
        raise fail("input", f"the statistics of `{name}` require at least one sample, got none")
    found = tree_sum([np.array(total.learner_state[TOTAL]) for total in totals])
    member.all_reduce(found)
    return found / samples


def _calls(signature: Signature, needed: Inputs) -> tuple[list[dict[str, object]], int]:
    """What goes through a block, and its samples."""
    if signature.sequences is not None:
        lists, lengths = check_sequences(signature, needed)
        parts = [slice(i, i + SIDE_BY_SIDE) for i in range(0, len(lengths), SIDE_BY_SIDE)]
        calls = [{n: items[part] for n, items in lists.items()} for part in parts]
        return [dict[str, object](call) for call in calls], int(lengths.sum())
    numbered = {spec.name.lower() for spec in (*signature.labels, *signature.sparse)}
    columns = {n: as_columns(v, takes_classes=n.lower() in numbered) for n, v in needed.items()}
    arrays, samples = check_inputs(signature, columns)
    starts = range(0, samples, BATCH)
    return [{n: a[i : i + BATCH] for n, a in arrays.items()} for i in starts], samples
