"""Nodes that look at other columns, and what training does, over minibatches of sequences."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.builder import GraphBuilder
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import prepare
from graphc.driver.statistics import precompute
from graphc.ir.clone import clone_module
from graphc.ir.evaluate import evaluate
from graphc.ops import default_context
from graphc.ops.nodes.sequence_columns import BEGIN, END
from graphc.passes.accumulate_statistics import CENTRE, TOTAL, AccumulateStatistics
from graphc.passes.expand_nodes import ExpandNodes
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.manager import PassManager
from graphc.support.diagnostics import GraphcError
from graphc_frontends import ndl
from tests.support.sequences import (
    Call,
    Packing,
    compiled_for_sequences,
    evaluate_sequences,
    in_one_slot,
    side_by_side,
)

Array = np.ndarray
BACKENDS = ("reference", "numpy", "llvm")
LENGTHS = (3, 1, 5, 2)
PACKED = side_by_side(LENGTHS, 2, np.random.default_rng(1))


def network(text: str) -> GraphBuilder:
    made = GraphBuilder()
    ndl.load(made, text, file="net.ndl")
    prepare(made.model)
    return made


def computed(
    text: str, outputs: tuple[str, ...], backend: str = "reference", training: bool = False
) -> tuple[GraphBuilder, Call]:
    net = network(text)
    call = compiled_for_sequences(net.model, outputs, backend=backend, training=training)
    return net, call


def numbers(rows: int, cols: int = sum(LENGTHS), seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(rows, cols))


# --- delays outside cycles -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [1, 2, 4, 5, 60])
@pytest.mark.parametrize("function", ["PastValue", "FutureValue"])
def test_a_delay_is_a_shift_within_each_sequence(function: str, steps: int, backend: str) -> None:
    text = f"x = Input(2)\nd = {function}(2, x, timeStep={steps}, defaultHiddenActivity=-7)\n"
    _, call = computed(text, ("d",), backend)
    x = numbers(2)
    found = call(PACKED, {"x": x})["d"]
    ends = np.cumsum(LENGTHS)
    for end, length in zip(ends, LENGTHS, strict=True):
        sequence = x[:, end - length : end]
        filled = np.full((2, min(steps, length)), -7.0)
        rest = max(length - steps, 0)
        if function == "PastValue":
            wanted = np.concatenate([filled, sequence[:, :rest]], axis=1)
        else:
            wanted = np.concatenate([sequence[:, length - rest :], filled], axis=1)
        assert np.array_equal(found[:, end - length : end], wanted)


def test_a_delay_of_a_delay_adds_up() -> None:
    text = "x = Input(2)\na = PastValue(2, x, timeStep=2)\nb = PastValue(2, a)\n"
    text += "c = PastValue(2, x, timeStep=3)\n"
    _, call = computed(text, ("b", "c"))
    found = call(PACKED, {"x": numbers(2)})
    assert np.array_equal(found["b"], found["c"])


def test_delay_is_the_old_name_of_past_value() -> None:
    text = "x = Input(2)\na = Delay(2, x, delayTime=2, defaultPastValue=0)\n"
    text += "b = PastValue(2, x, timeStep=2, defaultHiddenActivity=0)\n"
    _, call = computed(text, ("a", "b"))
    found = call(PACKED, {"x": numbers(2)})
    assert np.array_equal(found["a"], found["b"])


def test_the_gradient_of_a_delay_goes_back_to_the_step_it_looks_at() -> None:
    text = "x = Input(1)\nw = Input(1)\nd = PastValue(1, x)\n"
    net = network(text + "y = ElementTimes(d, w)\nc = SumElements(y)\n")
    call = compiled_for_sequences(net.model, ("c",), ("x",), backend="llvm")
    w = numbers(1, 6)
    found = call(in_one_slot([4, 2]), {"x": numbers(1, 6, 1), "w": w})["gradient.x"]
    assert np.array_equal(found, [[w[0, 1], w[0, 2], w[0, 3], 0, w[0, 5], 0]])


# --- time_reverse --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_sequence_is_reversed_on_its_own(backend: str) -> None:
    _, call = computed("x = Input(1)\nr = TimeReverse(x)\n", ("r",), backend)
    x = np.arange(11.0).reshape(1, -1)
    found = call(PACKED, {"x": x})["r"]
    assert found.tolist() == [[2, 1, 0, 3, 8, 7, 6, 5, 4, 10, 9]]


def test_of_a_sequence_that_began_before_only_the_steps_of_this_call_are_reversed() -> None:
    _, call = computed("x = Input(1)\nr = TimeReverse(x)\n", ("r",))
    packing = Moved(4, (((0, 3),),), begin=-2)
    found = call(packing, {"x": np.arange(3.0).reshape(1, -1)})["r"]
    assert found.tolist() == [[2, 1, 0]]


class Moved(Packing):
    """Every sequence began at `begin`, before the call."""

    def __init__(
        self, time: int, slots: tuple[tuple[tuple[int, int], ...], ...], begin: int
    ) -> None:
        super().__init__(time, slots)
        object.__setattr__(self, "begin", begin)

    @property
    def tables(self) -> dict[str, Array]:
        tables = super().tables
        tables[BEGIN] = np.where(tables[END] > 0, self.begin, tables[BEGIN])  # type: ignore[attr-defined]
        return tables


# --- chains --------------------------------------------------------------------------------------

CRF = "l = Input(3)\ns = Input(3)\nA = Parameter(3, 3)\nc = CRF(l, s, A)\n"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_criterion_of_chains_is_the_sum_over_the_sequences(backend: str) -> None:
    net, call = computed(CRF, ("c",), backend)
    labels = np.eye(3)[:, np.random.default_rng(2).integers(0, 3, sum(LENGTHS))]
    leaves = {"l": labels, "s": numbers(3), "A": numbers(3, 3, 1)}
    found = call(PACKED, leaves)["c"]
    alone = 0.0
    for end, length in zip(np.cumsum(LENGTHS), LENGTHS, strict=True):
        part = slice(end - length, end)
        one = {"l": labels[:, part], "s": leaves["s"][:, part], "A": leaves["A"]}
        alone += call(in_one_slot([length]), one)["c"].item()
    assert found.item() == pytest.approx(alone, rel=1e-13)
    judged = evaluate_sequences(net.model.graph, leaves, LENGTHS)["c"]
    assert found.item() == pytest.approx(judged.item(), rel=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_chains_of_nothing_cost_nothing(backend: str) -> None:
    _, call = computed(CRF, ("c",), backend)
    empty = np.zeros((3, 0))
    assert call(Packing(3, ((), ())), {"l": empty, "s": empty, "A": np.eye(3)})["c"].item() == 0


# --- negative samples ----------------------------------------------------------------------------


def test_negative_samples_come_from_the_same_sequence() -> None:
    text = "x = Input(2)\ny = Input(2)\nd = CosDistanceWithNegativeSamples(x, y, 1, 3)\n"
    _, call = computed(text, ("d",))
    x, y = numbers(2), numbers(2, seed=1)
    packed = call(PACKED, {"x": x, "y": y})["d"]
    alone = [
        call(in_one_slot([n]), {"x": x[:, e - n : e], "y": y[:, e - n : e]})["d"]
        for e, n in zip(np.cumsum(LENGTHS), LENGTHS, strict=True)
    ]
    assert np.allclose(packed, np.concatenate(alone, axis=1), rtol=1e-14)


# --- values in gaps ------------------------------------------------------------------------------


class Raw(Packing):
    """Results with their gaps: [T, S, rows]."""

    def unpack(self, packed: Array) -> Array:
        return packed


RAW = Raw(4, (((1, 2),), ((0, 3),)))
GAPS = ~np.array([[0, 1], [1, 1], [1, 1], [0, 0]], bool)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("asked", ["tag=multiseq", ""])
def test_a_node_with_the_tag_is_zero_in_gaps(asked: str, backend: str) -> None:
    text = f"x = Input(2)\nb = Parameter(2, 1)\ny = Plus(x, b{', ' + asked if asked else ''})\n"
    _, call = computed(text, ("y",), backend)
    found = call(RAW, {"x": numbers(2, 5), "b": np.ones((2, 1))})["y"]
    assert np.all(found[~GAPS] != 0)
    assert np.all((found[GAPS] == 0) == (asked != ""))


def test_the_array_of_the_toolkit_has_the_same_meaning() -> None:
    text = "x = Input(2)\nb = Parameter(2, 1)\ny = Plus(x, b)\nNodesReqMultiSeqHandling = (y)\n"
    _, call = computed(text, ("y",))
    found = call(RAW, {"x": numbers(2, 5), "b": np.ones((2, 1))})["y"]
    assert np.all(found[GAPS] == 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_node_of_a_cycle_with_the_tag_is_zero_in_gaps(backend: str) -> None:
    text = "x = Input(2)\nb = Parameter(2, 1)\np = PastValue(2, y)\ns = Plus(p, x)\n"
    _, call = computed(text + "y = Plus(s, b, tag=multiseq)\n", ("y", "s"), backend)
    found = call(RAW, {"x": numbers(2, 5), "b": np.ones((2, 1))})
    assert np.all(found["y"][GAPS] == 0)
    assert np.all(found["s"][GAPS] != 0)
    assert np.allclose(found["y"][~GAPS], found["s"][~GAPS] + 1)


# --- gradients by nodes --------------------------------------------------------------------------

MIDDLE = """
x = Input(2)
y = Tanh(x)
p = PastValue(2, h)
h = Plus(p, y)
c = SumElements(h)
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_by_a_node_outside_of_cycles_has_a_column_for_each_step(backend: str) -> None:
    call = compiled_for_sequences(network(MIDDLE).model, ("c",), ("y",), backend=backend)
    found = call(PACKED, {"x": numbers(2)})["gradient.y"]
    steps_left = np.concatenate([np.arange(n, 0, -1) for n in LENGTHS])
    assert np.array_equal(found, np.stack([steps_left, steps_left]))


@pytest.mark.parametrize("name", ["h", "p", "H"])
def test_a_gradient_by_a_node_of_a_cycle_is_refused(name: str) -> None:
    with pytest.raises(GraphcError, match="requires an input, a parameter or a node outside"):
        compiled_for_sequences(network(MIDDLE).model, ("c",), (name,))


# --- statistics of a data set --------------------------------------------------------------------


def test_statistics_of_a_delay_are_those_of_its_sequences() -> None:
    net = network("x = Input(2)\np = PastValue(2, x)\nm = Mean(p)\ns = InvStdDev(p)\n")
    sequences = [numbers(2, n, n).T for n in LENGTHS]
    assert precompute(net.model, {"x": sequences}, CompileOptions("reference")) == ["m", "s"]
    delayed = np.concatenate([np.vstack([np.full((1, 2), 0.1), x[:-1]]) for x in sequences])
    mean, deviation = net.model.values["m"], net.model.values["s"]
    assert np.allclose(mean[:, 0], delayed.mean(axis=0), rtol=1e-6)
    assert np.allclose(deviation[:, 0], 1 / delayed.std(axis=0), rtol=1e-6)


def test_statistics_leave_out_gaps() -> None:
    module = clone_module(network("x = Input(2)\np = PastValue(2, x)\n").model.module)
    passes = [ExpandNodes(("p",), time=4, sequences=2), AccumulateStatistics(centred=True)]
    PassManager([InferShapes(), *passes], verify=True).run(module, default_context())
    (function,) = module.functions
    x = numbers(2, 5).astype(np.float32)
    given = {**RAW.tables, "x": RAW.pack(x), CENTRE: np.ones((1, 2), np.float32)}
    given[TOTAL] = np.full((1, 2), 7, np.float32)
    found = evaluate(function, given, {"T": 4, "S": 2, "N": 8})[TOTAL]
    delayed = np.stack([[0.1, 0.1], x[:, 0], [0.1, 0.1], x[:, 2], x[:, 3]])
    assert np.allclose(found, 7 + np.sum((delayed - 1) ** 2, axis=0), rtol=1e-6)


# --- training ------------------------------------------------------------------------------------


def hyperparameters(step: int = 3, rate: float = 0.5) -> dict[str, Array]:
    return {"dropout_rate": np.full((1, 1), rate), "step": np.full((1, 1), step, np.int64)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_in_a_cycle_has_the_mask_of_its_columns(backend: str) -> None:
    cycle = "x = Input(3)\np = PastValue(3, h)\nd = Dropout(p)\nh = Plus(d, x)\n"
    _, call = computed(cycle, ("d", "p"), backend, training=True)
    found = call(PACKED, {"x": numbers(3) + 5, **hyperparameters()})
    _, plain = computed("x = Input(3)\nd = Dropout(x)\n", ("d",), backend, training=True)
    factor = plain(PACKED, {"x": np.ones((3, sum(LENGTHS))), **hyperparameters()})["d"]
    assert set(factor.ravel()) == {0.0, 2.0}
    assert np.array_equal(found["d"], found["p"] * factor)


def test_dropout_in_a_cycle_has_another_mask_at_every_step_of_time_and_of_training() -> None:
    text = "x = Input(8)\np = PastValue(8, h)\nd = Dropout(p)\nh = Plus(d, x)\n"
    _, call = computed(text, ("d",), training=True)
    packing = in_one_slot([4])
    ones = np.ones((8, 4))
    first = call(packing, {"x": ones, **hyperparameters(0)})["d"] == 0
    second = call(packing, {"x": ones, **hyperparameters(1)})["d"] == 0
    masks = [tuple(m) for mask in (first, second) for m in mask.T]
    assert len(set(masks)) == 8


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_through_dropout_in_a_cycle_is_that_of_its_mask(backend: str) -> None:
    text = "x = Input(3)\nR = Parameter(3, 3)\np = PastValue(3, h)\nd = Dropout(p)\n"
    text += "u = Times(R, d)\ns = Plus(u, x)\nh = Tanh(s)\nc = SumElements(h)\n"
    wrt = ("R", "x")
    call = compiled_for_sequences(network(text).model, ("c",), wrt, backend=backend, training=True)
    leaves = {"x": numbers(3), "R": numbers(3, 3, 5), **hyperparameters()}
    found = call(PACKED, leaves)
    rng = np.random.default_rng(3)
    for name in wrt:
        way = rng.normal(size=leaves[name].shape) * 1e-6
        above, below = (
            call(PACKED, {**leaves, name: leaves[name] + sign * way})["c"].item()
            for sign in (1, -1)
        )
        slope = np.sum(found[f"gradient.{name}"] * way)
        assert (above - below) / 2 == pytest.approx(slope, rel=1e-6)


NORMALISED = """
x = Input(2)
s = Parameter(2, 1)
o = Parameter(2, 1)
m = Parameter(2, 1)
v = Parameter(2, 1)
y = BatchNormalization(x, s, o, m, v)
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_normalization_takes_its_statistics_of_real_columns(backend: str) -> None:
    _, call = computed(NORMALISED, ("y",), backend, training=True)
    x = numbers(2)
    columns = {n: np.full((2, 1), float(n == "s")) for n in "somv"}
    found = call(PACKED, {"x": x, **columns})
    variance = x.var(axis=1, keepdims=True)
    mean = x.mean(axis=1, keepdims=True)
    assert np.allclose(found["y"], (x - mean) / np.sqrt(variance + 1e-5), rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_of_batch_normalization_counts_real_columns(backend: str) -> None:
    text = NORMALISED + "w = Input(2)\nt = ElementTimes(y, w)\nc = SumElements(t)\n"
    net = network(text)
    call = compiled_for_sequences(
        net.model, ("c",), ("x", "s", "o"), backend=backend, training=True
    )
    leaves = {"x": numbers(2), "w": numbers(2, seed=1), "s": numbers(2, 1), "o": numbers(2, 1)}
    leaves |= {"m": np.zeros((2, 1)), "v": np.ones((2, 1))}
    packed, plain = call(PACKED, leaves), call(in_one_slot(LENGTHS), leaves)
    assert packed.keys() >= {"c", "gradient.x", "gradient.s", "gradient.o"}
    for name, value in plain.items():
        assert np.allclose(packed[name], value, rtol=1e-12, atol=1e-13), name
