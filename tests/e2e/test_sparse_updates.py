"""Training through lookups: the rows of a minibatch take their steps, by the lazy rule exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

import graphc as gc
from tests.support.networks import step_operations

Array = np.ndarray
BACKENDS = ("reference", "numpy", "llvm")
EVERYWHERE = pytest.mark.parametrize("backend", BACKENDS)
WORDS, RATE, MOMENTUM = 12, 0.2, 0.7

LINEAR = """
words = SparseInput({rows}, tag=feature)
t = Input(3, tag=label)
E = Parameter(3, 12)
z = {product}
distance = SquareError(t, z, tag=criterion)
"""


def network(text: str, **rest: object) -> gc.Network:
    net = gc.loads(text, seed=4, **rest)
    assert isinstance(net, gc.Network)
    return net


@dataclass
class Lazily:
    """The rule of the toolkit, in plain numpy: v and w of a row change when it is looked up."""

    w: Array
    v: Array = field(init=False)

    def __post_init__(self) -> None:
        self.w = np.array(self.w, np.float64)
        self.v = np.zeros_like(self.w)

    def step(self, gradient: Array, columns: Array, rate: float, momentum: float) -> None:
        used = np.unique(columns)
        v = (1 - momentum) * rate * gradient[:, used] + momentum * self.v[:, used]
        self.v[:, used] = v
        self.w[:, used] -= v


def minibatches(entries: int, samples: int = 6) -> Iterator[tuple[Array, Array, Array]]:
    """Words [N, K] of a few each time, so that most rows are left out for some steps."""
    rng = np.random.default_rng(7)
    for _ in range(12):
        few = rng.choice(WORDS, 4, replace=False)
        words = rng.choice(few, (samples, entries))
        yield words, rng.normal(size=words.shape), rng.normal(size=(samples, 3))


def one_hot(words: Array, values: Array) -> Array:
    """[N, WORDS]."""
    dense = np.zeros((len(words), WORDS))
    np.add.at(dense, (np.arange(len(words))[:, None], words), values)
    return dense


@EVERYWHERE
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("product", ["Times(E, words)", "LookupTable(E, words)"])
def test_steps_are_those_of_the_lazy_rule(product: str, precision: str, backend: str) -> None:
    net = network(LINEAR.format(rows=WORDS, product=product))
    plain = Lazily(net.parameters["E"])
    learner = gc.SGD(learning_rate_per_sample=RATE, momentum=MOMENTUM)
    step = gc.compile_training(net, learner=learner, batch=6, backend=backend, precision=precision)
    for words, values, t in minibatches(3):
        x = one_hot(words, values)
        difference = x @ plain.w.T - t
        plain.step(difference.T @ x, words, RATE, MOMENTUM)
        step(words=(words.ravel(), np.arange(7) * 3, values.ravel()), t=t)
    tolerance = 1e-12 if precision == "f64" else 1e-5
    np.testing.assert_allclose(net.parameters["E"], plain.w, tolerance, tolerance)
    np.testing.assert_allclose(step.learner_state["velocity.E"], plain.v, tolerance, tolerance)


@EVERYWHERE
def test_several_words_of_a_table_share_its_velocity(backend: str) -> None:
    """Two blocks of words that look into one table: their gradients meet in its rows."""
    text = LINEAR.format(rows=2 * WORDS, product="Times(V, LookupTable(E, words))")
    net = network(text + "V = Parameter(3, 6)\n")
    plain = Lazily(net.parameters["E"])
    learner = gc.SGD(learning_rate_per_sample=RATE, momentum=MOMENTUM)
    step = gc.compile_training(net, learner=learner, batch=6, backend=backend, precision="f64")
    for words, _, t in minibatches(2):
        v = net.parameters["V"].copy()
        blocks = [one_hot(words[:, i : i + 1], np.ones((6, 1))) for i in range(2)]
        z = np.concatenate([x @ plain.w.T for x in blocks], axis=1) @ v.T
        up = ((z - t) @ v).T
        gradient = up[:3] @ blocks[0] + up[3:] @ blocks[1]
        plain.step(gradient, words, RATE, MOMENTUM)
        places = words + np.array([0, WORDS])
        step(words=(places.ravel(), np.arange(7) * 2), t=t)
    np.testing.assert_allclose(net.parameters["E"], plain.w, 1e-11, 1e-11)
    np.testing.assert_allclose(step.learner_state["velocity.E"], plain.v, 1e-11, 1e-11)


CLASSES = """
words = SparseInput(12, tag=feature)
next = Input(4, tag=label)
E = Parameter(5, 12)
W = Parameter(5, 12)
C = Parameter(3, 5)
h = Tanh(Times(E, words))
CE = ClassBasedCrossEntropyWithSoftmax(next, h, W, Times(C, h), maxClassSize=4, tag=criterion)
"""


@EVERYWHERE
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_words_of_a_class_that_is_not_asked_for_keep_their_weights(
    precision: str, backend: str
) -> None:
    net = network(CLASSES)
    learner = gc.SGD(learning_rate=RATE, momentum=MOMENTUM)
    step = gc.compile_training(net, learner=learner, batch=4, backend=backend, precision=precision)
    for classes in ([0, 2, 0], [1, 1], [2]):
        first = 4 * np.array(classes)
        label = np.stack([first + 1, classes, first, first + 4], axis=1)
        before = {n: net.parameters[n].copy() for n in "EW"}
        velocity = {n: step.learner_state[f"velocity.{n}"].copy() for n in "EW"}
        step(words=(np.arange(len(classes)), np.arange(len(classes) + 1)), next=label)
        asked = np.isin(np.arange(12) // 4, classes)
        for name, used in (("W", asked), ("E", np.arange(12) < len(classes))):
            now, moving = net.parameters[name], step.learner_state[f"velocity.{name}"]
            assert (now[:, used] != before[name][:, used]).all()
            np.testing.assert_array_equal(now[:, ~used], before[name][:, ~used])
            np.testing.assert_array_equal(moving[:, ~used], velocity[name][:, ~used])


RECURRENT = """
words = SparseInput(12, tag=feature)
t = Input(3, tag=label)
E = Parameter(3, 12)
U = Parameter(3, 3)
h = Tanh(Plus(Times(E, words), Times(U, PastValue(3, h))))
distance = SquareError(t, h, tag=criterion)
"""


@EVERYWHERE
def test_what_stands_in_the_gaps_of_sequences_moves_no_row(backend: str) -> None:
    """Sequences of 4, 1 and 2 steps beside each other, words in their gaps as well."""
    net = network(RECURRENT)
    learner = gc.SGD(learning_rate=RATE, momentum=MOMENTUM)
    step = gc.compile_training(
        net, learner=learner, time=4, sequences=3, backend=backend, precision="f64"
    )
    words = np.array([[0, 1, 4], [2, 9, 5], [3, 9, 9], [0, 9, 9]])
    before = net.parameters["E"].copy()
    given = {"words": (words.ravel(), np.arange(13)), "t": np.ones((4, 3, 3))}
    step.learner_state["velocity.E"][...] = 1
    step(lengths=np.array([4, 1, 2]), **given)
    used = np.arange(12) < 6
    now, velocity = net.parameters["E"], step.learner_state["velocity.E"]
    assert (now[:, used] != before[:, used]).all()
    np.testing.assert_array_equal(now[:, ~used], before[:, ~used])
    assert (velocity[:, ~used] == 1).all()


@EVERYWHERE
def test_two_tables_of_one_input_are_each_looked_up_in(backend: str) -> None:
    """Products that share a dense factor are joined (`merge-products`)."""
    net = network("""
        words = SparseInput(12, tag=feature)
        t = Input(3, tag=label)
        E = Parameter(3, 12)
        F = Parameter(3, 12)
        z = ElementTimes(Times(E, words), Times(F, words))
        distance = SquareError(t, z, tag=criterion)
    """)
    learner = gc.SGD(learning_rate_per_sample=RATE, momentum_per_sample=MOMENTUM)
    step = gc.compile_training(net, learner=learner, batch=1, backend=backend, precision="f64")
    tables = {name: Lazily(net.parameters[name]) for name in "EF"}
    rng = np.random.default_rng(3)
    for word in (7, 2, 2, 7, 11):
        t = rng.normal(size=(1, 3))
        e, f = tables["E"].w[:, word].copy(), tables["F"].w[:, word].copy()
        step(words=([word], [0, 1]), t=t)
        for name, other in (("E", f), ("F", e)):
            gradient = np.zeros((3, WORDS))
            gradient[:, word] = (e * f - t[0]) * other
            tables[name].step(gradient, np.array([word]), RATE, MOMENTUM)
            np.testing.assert_allclose(net.parameters[name], tables[name].w, rtol=1e-12)


@EVERYWHERE
def test_a_minibatch_beyond_the_bound_and_one_without_words(backend: str) -> None:
    net = network(LINEAR.format(rows=WORDS, product="Times(E, words)"))
    learner = gc.SGD(learning_rate_per_sample=RATE, momentum=MOMENTUM)
    step = gc.compile_training(net, learner=learner, batch=2, backend=backend, precision="f64")
    plain = Lazily(net.parameters["E"])
    rng = np.random.default_rng(0)
    for samples in (1, 5, 2):
        words, t = rng.integers(0, WORDS, (samples, 2)), rng.normal(size=(samples, 3))
        x = one_hot(words, np.ones(words.shape))
        momentum = learner.hyperparameters(samples, 2)["momentum"]
        plain.step((x @ plain.w.T - t).T @ x, words, RATE, momentum)
        step(words=(words.ravel(), np.arange(samples + 1) * 2), t=t)
    np.testing.assert_allclose(net.parameters["E"], plain.w, rtol=1e-12)
    step(words=([], [0, 0]), t=np.ones((1, 3)))
    np.testing.assert_allclose(net.parameters["E"], plain.w, rtol=1e-12)
    np.testing.assert_allclose(step.learner_state["velocity.E"], plain.v, rtol=1e-12)


@EVERYWHERE
def test_with_l2_every_row_moves(backend: str) -> None:
    net = network(LINEAR.format(rows=WORDS, product="Times(E, words)"))
    before = net.parameters["E"].copy()
    learner = gc.SGD(learning_rate=RATE, l2=0.1)
    step = gc.compile_training(net, learner=learner, batch=2, backend=backend)
    step(words=([3], [0, 1]), t=np.ones((1, 3)))
    assert (net.parameters["E"] != before).all()


def test_a_table_that_is_used_as_a_whole_too_takes_whole_steps() -> None:
    text = LINEAR.format(rows=WORDS, product="Plus(Times(E, words), Times(E, Sigmoid(words)))")
    names = [op.opdef.name for op in step_operations(network(text))]
    assert "update_rows" not in names


def test_without_momentum_steps_are_those_of_the_dense_twin() -> None:
    """Then only rows that are looked up have anything to add."""
    text = LINEAR.format(rows=WORDS, product="Times(E, words)")
    nets = [network(text), network(text.replace("SparseInput", "Input"))]
    learner = gc.SGD(learning_rate_per_sample=RATE)
    steps = [gc.compile_training(n, learner=learner, batch=6, precision="f64") for n in nets]
    for words, values, t in minibatches(3):
        x = one_hot(words, values)
        for step in steps:
            step(words=x, t=t)
    np.testing.assert_allclose(
        nets[0].parameters["E"], nets[1].parameters["E"], rtol=1e-12, atol=1e-12
    )
