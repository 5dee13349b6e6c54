"""Random networks with data, well typed and tame, made from a seed.

Every node operation occurs, and every form of broadcasting. In half of the networks with samples
these are the steps of sequences, and cycles through delays occur: recurrences of a few random nodes
with one or two delays, in either direction. Each node's value is
computed in f64 while the network grows, and a node is only kept if a rounding error cannot tip it
over: no huge numbers, nothing near a kink, no two largest labels that nearly tie. So what is left
to a judge is rounding. All numbers that go in are f32 numbers, so f32 and f64 start alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphc.builder import GraphBuilder, Node
from graphc.driver.prepare import prepare
from graphc.ir.core import OpDef
from graphc.ir.evaluate import evaluate_node
from graphc.ir.types import SAMPLES, Image, MatrixType
from graphc.ops.nodes.layout import node_type
from graphc.ops.nodes.pointwise import OF_OPERATIONS
from graphc.passes.expand_nodes import inputs_of
from graphc.passes.infer_shapes import infer_shapes
from graphc.support.diagnostics import DiagnosticSink
from graphc.support.graphs import reachable, strongly_connected_components
from tests.support.op_table import ROWS as ROWS_OF_OPERATIONS
from tests.support.sequences import evaluate_operations, evaluate_over_sequences

Array = np.ndarray

SAMPLE_COUNTS = (0, 1, 2, 5, 33)
ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 17)
COLS = (1, 2, 3, 4, 6)
MAX_VALUE = 30.0
MOST_ROWS = 40  # rows of what is stacked or convolved
MOST_FACTORS = 6  # rows of what is multiplied or repeated: every product stays small
MOST_SCORE = 2.0  # of a number that attention compares: weights magnify what scores lost
MARGIN = 0.02  # distance from kinks and ties, far above any rounding error of f32
ATTEMPTS = 40  # draws for one node before the network is given up


@dataclass(frozen=True)
class RandomNetwork:
    """A network with data and what to compute of it.

    lengths  of the sequences whose steps the samples are, one after the other; none: they are alone
    slots    into which the sequences are packed side by side
    leaves   matrices rows x columns of every input, parameter, constant and statistic, f64 numbers
             that f32 can hold
    outputs  the criterion (1x1) first
    wrt      nodes to differentiate the criterion by
    """

    seed: int
    builder: GraphBuilder
    samples: int
    batch: int
    leaves: dict[str, Array]
    outputs: tuple[str, ...]
    wrt: tuple[str, ...]
    lengths: tuple[int, ...] | None = None
    slots: int = 1

    @property
    def with_samples(self) -> frozenset[str]:
        """The nodes with one column per sample."""
        nodes = self.builder.nodes
        return frozenset(n.name for n in nodes if node_type(n.operation).has_samples)

    def inputs(self, names: Sequence[str], dtype: np.dtype) -> dict[str, Array]:
        """The data as a caller hands them over, (samples, rows)."""
        return {n: np.ascontiguousarray(self.leaves[n].T, dtype) for n in names}


@dataclass(eq=False)
class _Entry:
    """A node of the growing network and its value, rows x columns."""

    node: Node
    value: Array
    has_samples: bool
    depth: int = 1
    image: Image | None = None

    @property
    def rows(self) -> int:
        return self.value.shape[0]

    @property
    def cols(self) -> int | None:
        """Columns, None for one per sample."""
        return None if self.has_samples else self.value.shape[1]

    @property
    def type(self) -> MatrixType:
        return MatrixType(self.rows, SAMPLES if self.has_samples else self.cols, self.image)

    def is_size(self, rows: int, cols: int | None) -> bool:
        return self.rows == rows and self.cols == cols


class _Unsuitable(Exception):
    """This draw does not fit; the next one may."""


def random_network(seed: int) -> RandomNetwork | None:
    """The network of a seed; None if it could not be made tame (counted as discarded)."""
    growth = _Growth(seed)
    try:
        growth.grow()
        return growth.finish()
    except _Unsuitable:
        return None


@dataclass
class _Growth:
    seed: int
    builder: GraphBuilder = field(default_factory=GraphBuilder)
    entries: list[_Entry] = field(default_factory=list[_Entry])
    leaves: dict[str, Array] = field(default_factory=dict[str, Array])
    inferred: set[_Entry] = field(default_factory=set[_Entry])
    """Parameters of a size to be inferred: read once, so that what it comes to is certain."""
    lengths: tuple[int, ...] | None = None
    is_full: bool = False
    """The network is grown; what is picked now is rather deep in it."""

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.samples = int(self.rng.choice(SAMPLE_COUNTS))
        self.with_samples = bool(self.rng.random() < 0.95)
        self.size = int(self.rng.integers(3, 41))
        if self.with_samples and self.rng.random() < 0.5:
            self.lengths = self._cut(self.samples)

    def _cut(self, steps: int) -> tuple[int, ...]:
        """Lengths of 1 and more that add up to that many steps."""
        most = int(self.rng.choice([1, 4, 33]))
        lengths: list[int] = []
        while sum(lengths) < steps:
            lengths.append(min(int(self.rng.integers(1, most + 1)), steps - sum(lengths)))
        return tuple(lengths)

    # --- the whole -----------------------------------------------------------------------------

    def grow(self) -> None:
        first = self.input if self.with_samples else self.matrix
        for _ in range(int(self.rng.integers(1, 3))):
            first(int(self.rng.choice(ROWS)))
        names = list(_RULES)
        weights = np.array([_WEIGHTS.get(n, 1.0) for n in names])
        if self.lengths is not None:
            for _ in range(int(self.rng.integers(1, 3))):
                self._draw(_cycle)
        while len(self.entries) < self.size:
            for _ in range(ATTEMPTS):
                if self._draw(_RULES[str(self.rng.choice(names, p=weights / weights.sum()))]):
                    break
            else:
                raise _Unsuitable

    def _draw(self, rule: Callable[[_Growth], None]) -> bool:
        """Whether the rule could add its node; leaves that it made are taken out otherwise."""
        before = len(self.entries)
        try:
            rule(self)
        except _Unsuitable:
            for entry in reversed(self.entries[before:]):
                self.leaves.pop(entry.node.name, None)  # none for a node of a cycle
                self.builder.model.values.pop(entry.node.name, None)
                self.builder.remove(entry.node)
            del self.entries[before:]
            return False
        return True

    def finish(self) -> RandomNetwork:
        """Choose the criterion, other outputs and what to differentiate by."""
        self.is_full = True
        self._force_one_of(_CRITERIA)
        criterion = self.entries[-1]
        self.builder.add_tag(criterion.node, "criterion")
        count = int(self.rng.integers(0, 4))
        others = [self.pick() for _ in range(count)]
        outputs = tuple(dict.fromkeys(e.node.name for e in (criterion, *others)))
        roots = [e.node.operation for e in (criterion, *others)]
        used = reachable(roots[:1] if self.rng.random() < 0.8 else roots, inputs_of)
        in_cycles = {
            op
            for component in strongly_connected_components(used, inputs_of)
            if len(component) > 1
            for op in component
        }
        usable = [e.node.name for e in self.entries if e.node.operation in used.keys() - in_cycles]
        usable = [n for n in usable if not n.startswith(("constant", "mean", "inv_std_dev"))]
        chosen = min(len(usable), int(self.rng.integers(1, 4)))
        wrt = tuple(map(str, self.rng.choice(usable, chosen, replace=False)))
        batch = self.samples + int(self.rng.integers(1, 40))
        prepare(self.builder.model)
        return RandomNetwork(
            *(self.seed, self.builder, self.samples, batch, self.leaves, outputs, wrt),
            *(self.lengths, int(self.rng.integers(1, 4))),
        )

    def _force_one_of(self, names: Sequence[str]) -> None:
        for _ in range(ATTEMPTS):
            if self._draw(_RULES[str(self.rng.choice(names))]):
                return
        raise _Unsuitable

    # --- leaves --------------------------------------------------------------------------------

    def numbers(self, rows: int, cols: int) -> Array:
        """Numbers around 0 that f32 holds; now and then all positive, or with zeros."""
        x = self.rng.normal(0, 0.8, (rows, cols))
        kind = self.rng.random()
        if kind < 0.15:
            x = np.abs(x) + 0.1
        elif kind < 0.25:
            x = np.where(self.rng.random(x.shape) < 0.3, 0.0, x)
        return x.astype(np.float32).astype(np.float64)

    def add_leaf(
        self, op: str, value: Array, settings: dict[str, object], operands: Sequence[Node] = ()
    ) -> _Entry:
        name = f"{op}{len(self.entries)}"
        node = self.builder.apply(op, operands, settings, name=name)
        entry = _Entry(node, value, op in ("input", "sparse_input"))
        self.leaves[name] = value
        self.entries.append(entry)
        return entry

    def input(self, rows: int) -> _Entry:
        return self.add_leaf("input", self.numbers(rows, self.samples), {"rows": rows})

    def matrix(self, rows: int, cols: int | None = None) -> _Entry:
        """A parameter or constant."""
        if cols is None:
            cols = int(self.rng.choice(COLS))
        if self.rng.random() < 0.15:
            value = float(self.numbers(1, 1)[0, 0])
            full = np.full((rows, cols), value)
            return self.add_leaf("constant", full, {"value": value, "rows": rows, "cols": cols})
        return self.parameter(rows, cols, {"rows": rows, "cols": cols})

    def parameter(self, rows: int, cols: int, settings: dict[str, object]) -> _Entry:
        entry = self.add_leaf("parameter", self.numbers(rows, cols), settings)
        self.builder.model.values[entry.node.name] = entry.value.astype(np.float32)
        return entry

    # --- choosing ------------------------------------------------------------------------------

    def pick(self, fits: Callable[[_Entry], bool] = lambda _: True) -> _Entry:
        """An entry that fits; rather one that nobody reads yet, with samples, and no leaf."""
        found = [e for e in self.entries if fits(e) and e not in self.inferred]
        if not found:
            raise _Unsuitable
        weights = np.array([e.depth**2 if self.is_full else _appeal(e) for e in found])
        return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]

    def of_size(self, rows: int, cols: int | None) -> _Entry:
        """An entry of that size, a new leaf if there is none and now and then anyway."""
        found = [e for e in self.entries if e.is_size(rows, cols) and e not in self.inferred]
        if found and self.rng.random() < 0.7:
            return found[int(self.rng.integers(len(found)))]
        return self.input(rows) if cols is None else self.matrix(rows, cols)

    def add(self, op: str, *operands: _Entry, **settings: object) -> None:
        """Keep the node if its value is tame."""
        if len({e.image for e in operands if e.image is not None}) > 1:
            raise _Unsuitable
        opdef = self.builder._ops[f"node.{op}"]
        types = [e.type for e in operands]
        params = opdef.params(**settings)
        values = [e.value for e in operands]
        with np.errstate(all="ignore"):
            if self.lengths is None:
                value = evaluate_node(opdef, params, types, values)
            else:
                value = evaluate_over_sequences(opdef, params, types, values, self.lengths)
        (type,) = opdef.infer(types, params)
        assert isinstance(type, MatrixType)
        if not np.all(np.isfinite(value)) or np.any(np.abs(value) > MAX_VALUE):
            raise _Unsuitable
        name = f"{op}{len(self.entries)}"
        node = self.builder.apply(op, [e.node for e in operands], settings, name=name)
        has_samples = op not in _NUMBERS and any(e.has_samples for e in operands)
        depth = 1 + max(e.depth for e in operands)
        self.entries.append(_Entry(node, value, has_samples, depth, type.image))


def _appeal(entry: _Entry) -> float:
    unread = 4.0 if not entry.node.operation.result.users() else 1.0
    made = 2.0 if entry.node.operation.operands else 1.0
    return unread * made * (3.0 if entry.has_samples else 1.0)


# --- one rule per form ---------------------------------------------------------------------------


def _unary(op: str, is_safe: Callable[[Array], bool] = lambda _: True) -> Callable[[_Growth], None]:
    def rule(g: _Growth) -> None:
        x = g.pick()
        if not is_safe(x.value):
            raise _Unsuitable
        g.add(op, x)

    return rule


def _of_operation(node: OpDef, op: OpDef) -> Callable[[_Growth], None]:
    """Of operands of one size. Where slopes or values jump they are away from 0 and each other."""
    row = next(row for row in ROWS_OF_OPERATIONS if row.op is op)

    def rule(g: _Growth) -> None:
        x = g.pick()
        others = [g.of_size(x.rows, x.cols) for _ in op.operands[1:]]
        values = [entry.value for entry in (x, *others)]
        if row.domain[0] > 0 and not all(np.all(v > row.domain[0]) for v in values):
            raise _Unsuitable
        is_chosen = op.operands[0] == "condition"
        gaps = [a - b for i, a in enumerate(values) for b in values[:i]]
        if len(values) == 1 or is_chosen:
            gaps = values[:1]
        if (is_chosen or row.smoothness != "smooth") and not all(map(_away_from_zero, gaps)):
            raise _Unsuitable
        g.add(node.name.removeprefix("node."), x, *others)

    return rule


def _away_from_zero(x: Array) -> bool:
    return bool(np.all(np.abs(x) > MARGIN))


def _times(g: _Growth) -> None:
    right = g.pick()
    rows = int(g.rng.choice(ROWS))
    if g.rng.random() < 0.2:  # a parameter whose columns are left to be inferred
        left = g.parameter(rows, right.rows, {"rows": rows, "cols": 0})
        g.inferred.add(left)
    else:
        left = g.of_size(rows, right.rows)
    g.add("times", left, right)


def _equal(op: str) -> Callable[[_Growth], None]:
    def rule(g: _Growth) -> None:
        x = g.pick()
        g.add(op, *_either_order(g, x, g.of_size(x.rows, x.cols)))

    return rule


def _row_vector(op: str) -> Callable[[_Growth], None]:
    def rule(g: _Growth) -> None:
        x = g.pick()
        g.add(op, *_either_order(g, x, g.of_size(1, x.cols)))

    return rule


def _column_vector(op: str) -> Callable[[_Growth], None]:
    """A column whose rows divide the other's: tiled downwards, a scalar in the extreme."""

    def rule(g: _Growth) -> None:
        x = g.pick()
        divisors = [d for d in range(1, x.rows + 1) if x.rows % d == 0]
        g.add(op, *_either_order(g, x, g.of_size(int(g.rng.choice(divisors)), 1)))

    return rule


def _fewer_columns(g: _Growth) -> None:
    """Plus alone: each column of the second operand stands for several of the first."""
    x = g.pick(lambda e: not e.has_samples and e.value.shape[1] > 1)
    count = x.value.shape[1]
    g.add("plus", x, g.of_size(x.rows, int(g.rng.choice([d for d in COLS if count % d == 0]))))


def _either_order(g: _Growth, x: _Entry, y: _Entry) -> tuple[_Entry, _Entry]:
    return (x, y) if g.rng.random() < 0.5 else (y, x)


def _transpose_times(g: _Growth) -> None:
    right = g.pick()
    cols = int(g.rng.choice(COLS))
    if g.rng.random() < 0.2:  # a parameter whose rows are left to be inferred
        left = g.parameter(right.rows, cols, {"rows": 0, "cols": cols})
        g.inferred.add(left)
    else:
        left = g.of_size(right.rows, cols)
    g.add("transpose_times", left, right)


def _row_element_times(g: _Growth) -> None:
    x = g.pick()
    g.add("row_element_times", x, g.of_size(1, x.cols))


def _column_element_times(g: _Growth) -> None:
    x = g.pick()
    g.add("column_element_times", x, g.of_size(x.rows, 1))


def _diag_times(g: _Growth) -> None:
    x = g.pick()
    g.add("diag_times", g.of_size(x.rows, 1), x)


def _khatri_rao_product(g: _Growth) -> None:
    x = g.pick(lambda e: e.rows <= MOST_FACTORS)
    y = g.of_size(int(g.rng.choice([r for r in ROWS if r <= MOST_FACTORS])), x.cols)
    g.add("khatri_rao_product", *_either_order(g, x, y))


def _column_times(g: _Growth) -> None:
    x = g.pick(lambda e: e.rows <= MOST_FACTORS)
    y = g.of_size(int(g.rng.choice([r for r in ROWS if r <= MOST_FACTORS])), x.cols)
    common = [n for n in range(1, MOST_FACTORS + 1) if x.rows % n == 0 == y.rows % n]
    g.add("column_times", *_either_order(g, x, y), inner=int(g.rng.choice(common)))


def _attention(g: _Growth) -> None:
    """Of queries and keys that fit each other about evenly: large scores are magnified noise."""
    query = g.pick(lambda e: bool(np.all(np.abs(e.value) < MOST_SCORE)))
    key = g.pick(
        lambda e: (
            e.rows == query.rows
            and e.cols == query.cols
            and bool(np.all(np.abs(e.value) < MOST_SCORE))
        )
    )
    value = g.of_size(int(g.rng.choice(ROWS)), query.cols)
    g.add("attention", query, key, value, causal=bool(g.rng.random() < 0.5))


def _row_repeat(g: _Growth) -> None:
    x = g.pick(lambda e: e.rows <= MOST_FACTORS)
    g.add("row_repeat", x, num_repeats=int(g.rng.integers(1, 4)))


def _transpose(g: _Growth) -> None:
    g.add("transpose", g.pick(lambda e: not e.has_samples))


def _diagonal(g: _Growth) -> None:
    """Of a square matrix that is there, or of a new one."""
    squares = [e for e in g.entries if e.rows == e.cols and e not in g.inferred]
    if squares:
        g.add("diagonal", squares[int(g.rng.integers(len(squares)))])
        return
    rows = int(g.rng.choice(COLS))
    g.add("diagonal", g.matrix(rows, rows))


def _hardmax(g: _Growth) -> None:
    g.add("hardmax", g.pick(lambda e: _has_clear_maximum(e.value)))


def _top_k(op: str) -> Callable[[_Growth], None]:
    def rule(g: _Growth) -> None:
        x = g.pick(lambda e: bool(np.all(np.diff(np.sort(e.value, axis=0), axis=0) > MARGIN)))
        g.add(op, x, k=int(g.rng.integers(1, x.rows + 1)))

    return rule


def _cos_distance(g: _Growth) -> None:
    x = g.pick(lambda e: _has_long_columns(e.value))
    y = g.of_size(x.rows, x.cols)
    if not _has_long_columns(y.value):
        raise _Unsuitable
    g.add("cos_distance", *_either_order(g, x, y))


def _has_long_columns(x: Array) -> bool:
    return _away_from_zero(np.sqrt(np.sum(x * x, axis=0)))


def _has_a_length(x: Array) -> bool:
    return x.size == 0 or bool(np.sum(x * x) > MARGIN)


def _scale(g: _Growth) -> None:
    g.add("scale", g.of_size(1, 1), g.pick())


def _criterion(op: str) -> Callable[[_Growth], None]:
    def rule(g: _Growth) -> None:
        x = g.pick()
        g.add(op, g.of_size(x.rows, x.cols), x)

    return rule


def _cross_entropy(g: _Growth) -> None:
    x = g.pick(lambda e: _away_from_zero(e.value))
    g.add("cross_entropy", g.of_size(x.rows, x.cols), x)


def _error_prediction(g: _Growth) -> None:
    x = g.pick(lambda e: _has_clear_maximum(e.value))
    y = g.of_size(x.rows, x.cols)
    if not _has_clear_maximum(y.value):
        raise _Unsuitable
    g.add("error_prediction", x, y)


def _has_clear_maximum(x: Array) -> bool:
    if x.shape[0] == 1 or x.shape[1] == 0:
        return True
    ordered = np.sort(x, axis=0)
    return bool(np.all(ordered[-1] - ordered[-2] > MARGIN))


def _statistic(op: str) -> Callable[[_Growth], None]:
    """A statistic that has its value already, as after `precompute`."""

    def rule(g: _Growth) -> None:
        _computed_statistic(g, op, g.pick(lambda e: e.has_samples))

    return rule


def _computed_statistic(g: _Growth, op: str, feature: _Entry) -> _Entry:
    value = g.numbers(feature.rows, 1)
    if op == "inv_std_dev":
        value = (np.abs(value) + 0.25).astype(np.float32).astype(np.float64)
    entry = g.add_leaf(op, value, {}, [feature.node])
    g.builder.model.set_statistic(entry.node.name, value.astype(np.float32))
    return entry


def _normalization(g: _Growth) -> None:
    x = g.pick()
    if x.has_samples and g.rng.random() < 0.7:
        mean = _computed_statistic(g, "mean", x)
        inverse = _computed_statistic(g, "inv_std_dev", x)
    else:
        mean, inverse = g.of_size(x.rows, 1), g.of_size(x.rows, 1)
    g.add("per_dim_mean_var_normalization", x, mean, inverse)


def _layer_normalization(g: _Growth) -> None:
    """Of columns that differ in their rows: the others are only noise, magnified."""
    x = g.pick(lambda e: bool(np.all(np.std(e.value, axis=0) > MARGIN)))
    g.add("layer_normalization", x, g.of_size(x.rows, 1), g.of_size(x.rows, 1))


def _denormalization(g: _Growth) -> None:
    x = g.pick(lambda e: e.has_samples)
    mean = _computed_statistic(g, "mean", x)
    g.add("per_dim_mean_var_de_normalization", x, mean, _computed_statistic(g, "inv_std_dev", x))


def _batch_normalization(g: _Growth) -> None:
    """The form outside training; now and then of channels in place of rows."""
    x = g.pick(lambda e: e.has_samples)
    spatial = bool(g.rng.random() < 0.5)
    channels = [c for c in range(1, x.rows + 1) if x.rows % c == 0] if spatial else [x.rows]
    if spatial and x.image is not None:
        channels = [x.image.channels]
    rows = int(g.rng.choice(channels))
    columns = [g.of_size(rows, 1) for _ in range(4)]
    g.add("batch_normalization", x, *columns, spatial=spatial)


def _new_input(g: _Growth) -> None:
    if not g.with_samples:
        raise _Unsuitable
    g.input(int(g.rng.choice(ROWS)))


# --- rows and images -----------------------------------------------------------------------------


def _row_slice(g: _Growth) -> None:
    x = g.pick()
    start = int(g.rng.integers(0, x.rows))
    count = int(g.rng.integers(1, x.rows - start + 1))
    g.add("row_slice", x, start_row=start, num_rows=count)


def _row_stack(g: _Growth) -> None:
    x = g.pick(lambda e: e.rows <= MOST_ROWS)
    others = [g.of_size(int(g.rng.choice(ROWS)), x.cols) for _ in range(int(g.rng.integers(1, 3)))]
    parts = [x, *others]
    order = g.rng.permutation(len(parts))
    g.add("row_stack", *[parts[i] for i in order])


def _new_image(g: _Growth) -> None:
    """An input of images."""
    if not g.with_samples:
        raise _Unsuitable
    width, height, channels = (int(g.rng.integers(1, most)) for most in (6, 6, 4))
    value = g.numbers(width * height * channels, g.samples)
    entry = g.add_leaf("input", value, {"width": width, "height": height, "channels": channels})
    entry.image = Image(width, height, channels)


def _reshape(g: _Growth) -> None:
    """Columns become images of a random shape, or plain; without samples there may be others."""
    x = g.pick()
    rows = x.rows if x.has_samples else _divisor(g, x.value.size)
    width = _divisor(g, rows)
    height = _divisor(g, rows // width)
    sizes = {
        "image_width": width,
        "image_height": height,
        "image_channels": rows // width // height,
    }
    if g.rng.random() < 0.3:
        sizes = {}
    elif g.rng.random() < 0.3:
        sizes.pop(str(g.rng.choice(list(sizes))))  # follows from the other two
    g.add("reshape", x, num_rows=rows, **sizes)


def _divisor(g: _Growth, number: int) -> int:
    return int(g.rng.choice([d for d in range(1, number + 1) if number % d == 0]))


def _image_of(entry: _Entry) -> Image:
    assert entry.image is not None
    return entry.image


def _is_image(entry: _Entry) -> bool:
    return entry.image is not None and entry.rows <= MOST_ROWS


def _convolution(g: _Growth) -> None:
    x = g.pick(_is_image)
    image = _image_of(x)
    width, height = (int(g.rng.integers(1, 1 + min(3, n))) for n in (image.width, image.height))
    outputs = int(g.rng.integers(1, 4))
    cols = width * height * image.channels
    if g.rng.random() < 0.3:  # a parameter whose size is left to be inferred
        weight = g.parameter(outputs, cols, {"rows": 0, "cols": 0})
        g.inferred.add(weight)
    else:
        weight = g.of_size(outputs, cols)
    if weight.has_samples:
        raise _Unsuitable
    g.add(
        "convolution",
        weight,
        x,
        kernel_width=width,
        kernel_height=height,
        output_channels=outputs,
        horizontal_subsample=int(g.rng.integers(1, width + 1)),
        vertical_subsample=int(g.rng.integers(1, height + 1)),
        zero_padding=bool(g.rng.random() < 0.5),
    )


def _pooling(op: str) -> Callable[[_Growth], None]:
    def rule(g: _Growth) -> None:
        x = g.pick(_is_image)
        image = _image_of(x)
        width, height = (int(g.rng.integers(1, 1 + min(3, n))) for n in (image.width, image.height))
        if op == "max_pooling" and not _has_clear_maxima(x, width, height):
            raise _Unsuitable
        steps = {f"step_{axis}": int(g.rng.integers(1, 4)) for axis in ("width", "height")}
        g.add(op, x, window_width=width, window_height=height, **steps)

    return rule


def _has_clear_maxima(x: _Entry, width: int, height: int) -> bool:
    """Whether no window of this size has two largest pixels that nearly tie."""
    image = _image_of(x)
    pixels = x.value.reshape(image.width, image.height, image.channels, x.value.shape[1])
    columns = [
        pixels[i : i + width, j : j + height].reshape(width * height, -1)
        for i in range(image.width - width + 1)
        for j in range(image.height - height + 1)
    ]
    return all(map(_has_clear_maximum, columns))


def _new_sparse_input(g: _Growth) -> None:
    if not g.with_samples:
        raise _Unsuitable
    rows = int(g.rng.choice(ROWS))
    numbers = g.numbers(rows, g.samples)
    kept = g.rng.random(numbers.shape) < 0.3
    g.add_leaf("sparse_input", np.where(kept, numbers, 0.0), {"rows": rows})


def _logistic(g: _Growth) -> None:
    p = g.pick(lambda e: bool(np.all((e.value > MARGIN) & (e.value < 1 - MARGIN))))
    operands = [g.of_size(p.rows, p.cols), p]
    if g.rng.random() < 0.5:
        operands.append(g.of_size(1 if g.rng.random() < 0.5 else p.rows, p.cols))
    g.add("logistic", *operands)


def _class_based(g: _Growth) -> None:
    """Words of 2 to 4 classes of 1 to 4 words."""
    hidden = g.pick(lambda e: e.has_samples)
    sizes = g.rng.integers(1, 5, int(g.rng.integers(2, 5)))
    ends = np.cumsum(sizes)
    chosen = g.rng.integers(0, len(sizes), g.samples)
    starts = ends - sizes
    words = starts[chosen] + (g.rng.random(g.samples) * sizes[chosen]).astype(int)
    label = np.stack([words, chosen, starts[chosen], ends[chosen]]).astype(np.float64)
    most = int(g.rng.choice([0, sizes.max()]))
    weight, score = g.of_size(hidden.rows, int(ends[-1])), g.of_size(len(sizes), None)
    label_leaf = g.add_leaf("input", label, {"rows": 4})
    operands = (label_leaf, hidden, weight, score)
    g.add("class_based_cross_entropy_with_softmax", *operands, max_class_size=most)


def _mixture(g: _Growth) -> None:
    x = g.pick(lambda e: e.rows <= MOST_FACTORS)
    components, cols = int(g.rng.integers(1, 4)), x.cols if g.rng.random() < 0.3 else 1
    prior, deviation = g.of_size(components, cols), g.of_size(components, cols)
    g.add("gmm_log_likelihood", prior, g.of_size(components * x.rows, cols), deviation, x)


def _negatives(g: _Growth) -> None:
    x = g.pick(lambda e: _has_long_columns(e.value))
    y = g.of_size(x.rows, x.cols)
    if not _has_long_columns(y.value):
        raise _Unsuitable
    settings = {"shift": int(g.rng.integers(0, 5)), "negatives": int(g.rng.integers(1, 4))}
    g.add("cos_distance_with_negative_samples", x, y, **settings)


def _crf(g: _Growth) -> None:
    labels = int(g.rng.integers(1, 4))
    chosen = np.eye(labels)[:, g.rng.integers(0, labels, g.samples)]
    label = g.add_leaf("input", chosen, {"rows": labels})
    scores = g.of_size(labels, None)
    if not scores.has_samples:
        raise _Unsuitable
    g.add("crf", label, scores, g.of_size(labels, labels))


def _lookup_table(g: _Growth) -> None:
    x = g.pick()
    words = int(g.rng.choice([d for d in range(1, x.rows + 1) if x.rows % d == 0]))
    g.add("lookup_table", g.of_size(int(g.rng.integers(1, MOST_FACTORS)), words), x)


# --- sequences -----------------------------------------------------------------------------------

DELAYS = ("past_value", "future_value")


def _time_steps(g: _Growth) -> dict[str, object]:
    default = float(np.float32(g.rng.choice([0.0, 0.1, -0.5])))
    return {"time_step": int(g.rng.choice([1, 1, 1, 2, 5])), "default_hidden_activity": default}


def _delay(op: str) -> Callable[[_Growth], None]:
    """A shift of what is there."""

    def rule(g: _Growth) -> None:
        if g.lengths is None:
            raise _Unsuitable
        g.add(op, g.pick(lambda e: e.has_samples), rows=0, **_time_steps(g))

    return rule


def _cycle(g: _Growth) -> None:
    """A few nodes over one or two delays, which look at some of them."""
    if g.lengths is None:
        raise _Unsuitable
    x = g.pick(lambda e: e.has_samples and e.image is None and e.rows <= MOST_FACTORS)
    before = len(g.entries)
    kind = str(g.rng.choice(DELAYS))
    delays = [_open_delay(g, kind, x.rows) for _ in range(int(g.rng.integers(1, 3)))]
    cell = [x, *delays]
    for _ in range(int(g.rng.integers(2, 7))):
        cell.append(_cell_node(g, cell))
    cell.append(_unevaluated(g, "plus", cell[-1], delays[0]))
    cell.append(_unevaluated(g, str(g.rng.choice(["tanh", "sigmoid"])), cell[-1]))
    ends = cell[1 + len(delays) :]
    for index, delay in enumerate(delays):
        end = ends[-1] if index == 0 else ends[int(g.rng.integers(len(ends)))]
        g.builder.set_operand(delay.node, 0, end.node)
    infer_shapes(g.builder.model.graph, DiagnosticSink())
    values = {e.node.operation: e.value for e in g.entries if e.depth}
    evaluate_operations([e.node.operation for e in g.entries], values, g.lengths)
    made = g.entries[before:]
    if any(not np.all(np.abs(values[e.node.operation]) <= MAX_VALUE) for e in made):
        for delay in delays:  # so that the nodes can be taken out again, last first
            g.builder.set_operand(delay.node, 0, delay.node)
        raise _Unsuitable
    for entry in made:
        entry.value = values[entry.node.operation]
        entry.depth = entry.depth or x.depth + 3


def _open_delay(g: _Growth, op: str, rows: int) -> _Entry:
    return _unevaluated_node(g, op, [None], rows, {"rows": rows, **_time_steps(g)})


def _cell_node(g: _Growth, cell: list[_Entry]) -> _Entry:
    """A smooth node over nodes of the cell, with parameters of its own."""
    x, y = (cell[int(g.rng.integers(len(cell)))] for _ in range(2))
    rows = x.rows
    match str(g.rng.choice(_CELL)):
        case "times":
            return _unevaluated(g, "times", g.matrix(rows, rows), x)
        case "gate":
            return _unevaluated(g, "element_times", _unevaluated(g, "sigmoid", x), y)
        case "bias":
            return _unevaluated(g, "plus", x, g.matrix(rows, 1))
        case "peephole":
            return _unevaluated(g, "diag_times", g.matrix(rows, 1), x)
        case "stack":
            both = _unevaluated(g, "row_stack", x, y, rows=2 * rows)
            return _unevaluated(g, "times", g.matrix(rows, 2 * rows), both, rows=rows)
        case "scale":
            return _unevaluated(g, "scale", g.matrix(1, 1), x)
        case "plus" | "minus" | "element_times" as op:
            return _unevaluated(g, op, x, y)
        case op:
            return _unevaluated(g, op, x)


_CELL = (
    *("times", "times", "gate", "bias", "peephole", "stack", "scale", "plus", "minus"),
    *("element_times", "tanh", "sigmoid", "softmax", "negate", "dropout"),
)


def _unevaluated(g: _Growth, op: str, *operands: _Entry, rows: int | None = None) -> _Entry:
    """A node of a cycle, whose value is not known before the cycle is whole."""
    rows = operands[-1].rows if rows is None else rows
    return _unevaluated_node(g, op, [e.node for e in operands], rows, {})


def _unevaluated_node(
    g: _Growth, op: str, operands: list[Node | None], rows: int, settings: dict[str, object]
) -> _Entry:
    node = g.builder.apply(op, operands, settings, name=f"{op}{len(g.entries)}")
    entry = _Entry(node, np.zeros((rows, g.samples)), True, 0)
    g.entries.append(entry)
    return entry


_RULES: dict[str, Callable[[_Growth], None]] = {
    "input": _new_input,
    "sparse_input": _new_sparse_input,
    "past_value": _delay("past_value"),
    "future_value": _delay("future_value"),
    "cycle": _cycle,
    **{
        node.name.removeprefix("node."): _of_operation(node, op)
        for node, op in OF_OPERATIONS.items()
    },
    "logistic": _logistic,
    "class_based_cross_entropy_with_softmax": _class_based,
    "gmm_log_likelihood": _mixture,
    "cos_distance_with_negative_samples": _negatives,
    "lookup_table": _lookup_table,
    "crf": _crf,
    "times": _times,
    "plus equal": _equal("plus"),
    "plus row": _row_vector("plus"),
    "plus column": _column_vector("plus"),
    "plus fewer columns": _fewer_columns,
    "minus equal": _equal("minus"),
    "minus row": _row_vector("minus"),
    "minus column": _column_vector("minus"),
    "element_times": _equal("element_times"),
    "scale": _scale,
    "square_error": _criterion("square_error"),
    "cross_entropy": _cross_entropy,
    "cross_entropy_with_softmax": _criterion("cross_entropy_with_softmax"),
    "error_prediction": _error_prediction,
    "rectified_linear": _unary("rectified_linear", _away_from_zero),
    "log": _unary("log", _away_from_zero),
    "softmax": _unary("softmax"),
    "log_softmax": _unary("log_softmax"),
    "sum_elements": _unary("sum_elements"),
    "mean": _statistic("mean"),
    "inv_std_dev": _statistic("inv_std_dev"),
    "per_dim_mean_var_normalization": _normalization,
    "per_dim_mean_var_de_normalization": _denormalization,
    "layer_normalization": _layer_normalization,
    "batch_normalization": _batch_normalization,
    "dropout": _unary("dropout"),
    "new image": _new_image,
    "reshape": _reshape,
    "convolution": _convolution,
    "max_pooling": _pooling("max_pooling"),
    "average_pooling": _pooling("average_pooling"),
    "row_slice": _row_slice,
    "row_stack": _row_stack,
    "time_reverse": _unary("time_reverse"),
    "transpose_times": _transpose_times,
    "row_element_times": _row_element_times,
    "column_element_times": _column_element_times,
    "diag_times": _diag_times,
    "khatri_rao_product": _khatri_rao_product,
    "column_times": _column_times,
    "attention": _attention,
    "row_repeat": _row_repeat,
    "transpose": _transpose,
    "diagonal": _diagonal,
    "hardmax": _hardmax,
    "top_k": _top_k("top_k"),
    "top_k_rows": _top_k("top_k_rows"),
    "sum_column_elements": _unary("sum_column_elements"),
    "cos_distance": _cos_distance,
    "matrix_l1_reg": _unary("matrix_l1_reg", _away_from_zero),
    "matrix_l2_reg": _unary("matrix_l2_reg", _has_a_length),
}
_NUMBERS = frozenset(
    {
        "square_error",
        "cross_entropy",
        "cross_entropy_with_softmax",
        "error_prediction",
        "logistic",
        "class_based_cross_entropy_with_softmax",
        "crf",
        "sum_elements",
        "matrix_l1_reg",
        "matrix_l2_reg",
    }
)
"""Nodes that are 1x1 whatever they read."""
_CRITERIA = (
    "sum_elements",
    "square_error",
    "cross_entropy",
    "cross_entropy_with_softmax",
    "logistic",
    "class_based_cross_entropy_with_softmax",
    "matrix_l1_reg",
    "matrix_l2_reg",
)
_WEIGHTS = {
    "times": 3.0,
    "plus column": 2.0,
    "input": 0.3,
    "sparse_input": 0.3,
    "reshape": 1.5,
    "convolution": 5.0,  # only where there are images
    "max_pooling": 3.0,
    "average_pooling": 3.0,
    "mean": 0.3,
    "inv_std_dev": 0.3,
} | dict.fromkeys(_NUMBERS, 0.5)
