"""Runs one row of the node table on a backend and compares with the node's own reference.

All uses of a row stand in one network, so that one compilation serves every shape class.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from graphc.builder import GraphBuilder, Node
from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import prepare
from graphc.driver.statistics import precompute
from graphc.ir.evaluate import evaluate_graph
from graphc.ir.types import DType
from graphc.ops.nodes.layout import node_type
from graphc.runtime.executable import Executable
from graphc.support.diagnostics import render
from tests.conformance.check import not_contiguous, same_bits
from tests.conformance.node_table import BOUND, SAMPLES, Leaf, NodeRow, Use

Array = np.ndarray

FLOATS = (DType.F32, DType.F64)
WIDER = {DType.F32: np.float64, DType.F64: np.longdouble}
FILLS = ("ordinary", "special")
_LEAVES = ("input", "sparse_input", "parameter")  # operands and the node under test in one


@dataclass
class NodeOutcome:
    """What was compared: shape classes, a sentence for each run that failed, the largest error.

    kinds  the runs by what was tried: a fill, or `views`, the same numbers not contiguous
    """

    classes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    max_ulp: float = 0.0

    @property
    def runs(self) -> int:
        return self.kinds.total()


@dataclass(frozen=True)
class _Part:
    """A use in the network: the node, and its leaves by name."""

    use: Use
    node: str
    leaves: dict[str, Leaf]


def check_node(row: NodeRow, dtype: DType, backend: str) -> NodeOutcome:
    """Every use of the row with every number of samples, ordinary, special and as views."""
    if row.kind == "statistic":
        return _check_statistic(row, dtype, backend)
    builder, parts = _network(row)
    executable = _compiled(builder, parts, dtype, backend)
    outcome = NodeOutcome(classes=row.classes)
    for fill in FILLS if row.specials != "none" else FILLS[:1]:
        for count in SAMPLES:
            seed = zlib.crc32(f"{row.op} {dtype} {fill} {count}".encode())
            leaves = _values(row, parts, dtype, fill, count, np.random.default_rng(seed))
            got = _run(executable, builder, leaves, np.ascontiguousarray)
            views = partial(not_contiguous, choice=seed)
            viewed = _run(executable, builder, leaves, views)
            references = _references(row, builder, leaves, dtype)
            for part in parts:
                if not part.use.has_samples and count != SAMPLES[0]:
                    continue
                if fill == "special" and part.use.skips_zeros and row.op not in _LEAVES:
                    continue
                outcome.kinds[fill] += 1
                found = _shown(got[part.node], builder, part.node)
                operands = [leaves[n].astype(WIDER[dtype]) for n in part.leaves]
                problem, error = _compare(row, part.node, dtype, found, operands, references)
                if problem:
                    outcome.failures.append(f"{part.use}, N = {count}, {fill}: {problem}")
                elif fill == "ordinary":
                    outcome.max_ulp = max(outcome.max_ulp, error)
                if any(x.size > 1 for x in operands):
                    outcome.kinds["views"] += 1
                    if not same_bits(viewed[part.node], got[part.node]):
                        here = f"{part.use}, N = {count}, {fill}"
                        outcome.failures.append(f"{here}: another result of views")
    return outcome


def _compare(
    row: NodeRow,
    node: str,
    dtype: DType,
    found: Array,
    operands: list[Array],
    references: tuple[dict[str, Array], dict[str, Array], dict[str, Array]],
) -> tuple[str, float]:
    """What is wrong with a node's value, and its largest error; operands in the wider type."""
    exact, plain, magnitude = references
    wanted, plainly = exact[node], plain[node].astype(dtype.numpy)
    problem = row.judge.check(found, wanted, plainly, operands, magnitude.get(node))
    error = row.judge.error(found, wanted, operands, magnitude.get(node))
    return problem, 0.0 if problem else error


def _network(row: NodeRow) -> tuple[GraphBuilder, list[_Part]]:
    builder = GraphBuilder()
    parts: list[_Part] = []
    for index, use in enumerate(row.uses):
        leaves = {f"u{index}{letter}": leaf for letter, leaf in _lettered(use)}
        operands: list[Node] = []
        for name, leaf in leaves.items():
            operands.append(builder.apply(leaf.op, settings=leaf.arguments, name=name))
        node = next(iter(leaves), "")
        if row.op not in _LEAVES:
            node = builder.apply(row.op, operands, use.settings, name=f"v{index}").name
        parts.append(_Part(use, node, leaves))
    assert not builder.sink.diagnostics, render(builder.sink.diagnostics)
    prepare(builder.model)
    return builder, parts


def _lettered(use: Use) -> Iterator[tuple[str, Leaf]]:
    return zip("abcdefgh", use.leaves, strict=False)


def _compiled(builder: GraphBuilder, parts: list[_Part], dtype: DType, backend: str) -> Executable:
    outputs = [part.node for part in parts]
    options = CompileOptions(backend, dtype, BOUND)
    return bind(builder.model, lambda m, o: evaluation_passes(m, outputs, (), o), options)


def _values(
    row: NodeRow,
    parts: list[_Part],
    dtype: DType,
    fill: str,
    count: int,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """A matrix, rows x columns, for every leaf."""
    values: dict[str, Array] = {}
    for part in parts:
        for operand, (name, leaf) in enumerate(part.leaves.items()):
            cols = count if leaf.cols is None else leaf.cols
            x = row.numbers_of(operand)(rng, leaf.rows, cols).astype(dtype.numpy)
            if fill == "special":
                x = _with_corners(rng, x, dtype, tame=row.specials == "tame")
            values[name] = x
    return values


def _with_corners(rng: np.random.Generator, x: Array, dtype: DType, *, tame: bool) -> Array:
    """A few elements are what arithmetic finds hard; rarely where one spoils a whole sum."""
    info = np.finfo(dtype.numpy)
    tiny, small = float(info.smallest_subnormal), float(info.tiny)
    corners = [0.0, -0.0, 1.0, -1.0, tiny, -tiny, small, -small, np.inf, -np.inf, np.nan]
    if not tame:
        large = float(info.max)
        corners += [large, -large, 1e30, -1e30, 100.0, -100.0, 1e-38, 88.8, -104.0, 709.9]
    chosen = rng.random(x.shape) < (0.03 if tame else 0.6)
    with np.errstate(over="ignore"):
        return np.where(chosen, rng.choice(np.array(corners, dtype.numpy), x.shape), x)


def _run(
    executable: Executable,
    builder: GraphBuilder,
    leaves: Mapping[str, Array],
    arranged: Callable[[Array], Array],
) -> Mapping[str, Array]:
    """A call with every array as `arranged` lays it out in memory."""
    for name in builder.model.values:
        builder.model.values[name] = arranged(leaves[name])
    # A sparse input is two arguments, NAME.indices and NAME.values, and is given as one array.
    names = {a.name.partition(".")[0] for a in executable.signature.with_role("input")}
    return executable(**{n: arranged(leaves[n].T) for n in names})


def _references(
    row: NodeRow, builder: GraphBuilder, leaves: Mapping[str, Array], dtype: DType
) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
    """Every node in the next wider type, in its own, and of absolute values where that judges."""
    wide = {n: x.astype(WIDER[dtype]) for n, x in leaves.items()}
    graph = builder.model.graph
    sizes = {n: np.abs(x) for n, x in wide.items()}
    magnitude = evaluate_graph(graph, sizes) if row.judge.terms is not None else {}
    return evaluate_graph(graph, wide), evaluate_graph(graph, leaves), magnitude


def _shown(array: Array, builder: GraphBuilder, name: str) -> Array:
    """A result as the book writes it, rows x columns."""
    node = builder.find(name)
    assert node is not None
    return array.T if node_type(node.operation).has_samples else np.atleast_2d(array)


# --- statistics ----------------------------------------------------------------------------------

_STATISTIC_COUNTS = (1, 2, 7, BOUND, 1024, 1031)  # the last two: a full part, and one and a rest


def _check_statistic(row: NodeRow, dtype: DType, backend: str) -> NodeOutcome:
    """Mean and InvStdDev: computed over a data set by functions that add up its parts."""
    outcome = NodeOutcome(classes=len(_STATISTIC_COUNTS) * len(row.uses))
    for count in _STATISTIC_COUNTS:
        builder, parts = _network(row)
        seed = zlib.crc32(f"{row.op} {dtype} {count}".encode())
        leaves = _values(row, parts, dtype, "ordinary", count, np.random.default_rng(seed))
        builder.apply("parameter", settings={"rows": 1}, name="p")
        prepare(builder.model)
        builder.model.convert(dtype)  # a network holds its values in one element type
        precompute(builder.model, {n: x.T for n, x in leaves.items()}, CompileOptions(backend))
        for part in parts:
            outcome.kinds["ordinary"] += 1
            (x,) = (leaves[n].astype(np.longdouble) for n in part.leaves)
            exact = _statistic(row.op, x)
            found = builder.model.values[part.node]
            plain = exact.astype(dtype.numpy)
            problem = row.judge.check(found, exact, plain, [x])
            if problem:
                outcome.failures.append(f"{part.use}, N = {count}: {problem}")
            else:
                outcome.max_ulp = max(outcome.max_ulp, row.judge.error(found, exact, [x]))
    return outcome


def _statistic(op: str, x: Array) -> Array:
    """The definition (book 2.4.4; the floor of the variance is the toolkit's)."""
    mean = np.mean(x, axis=1, keepdims=True)
    if op == "mean":
        return mean
    variance = np.mean((x - mean) ** 2, axis=1, keepdims=True)
    return 1 / np.sqrt(np.maximum(variance, np.longdouble(1e-10)))
