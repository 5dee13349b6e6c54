"""A language model whose words have classes: the same numbers as a softmax over all words of the
factorised probability, which is written with other nodes, on every backend."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc
from tests.support.networks import step_operations

Array = np.ndarray
BACKENDS = ("reference", "numpy", "llvm")
STARTS, WORDS, HIDDEN, SAMPLES = (0, 1, 6, 8), 12, 5, 23
ENDS = (*STARTS[1:], WORDS)
CLASSES = len(STARTS)

BY_CLASSES = """
x = SparseInput({words}, tag=feature)
label = Input(4, tag=label)
E = Parameter({hidden}, {words}, initValueScale=20)
h = Tanh(Times(E, x))
W = Parameter({hidden}, {words}, initValueScale=20)
C = Parameter({classes}, {hidden}, initValueScale=20)
q = Times(C, h, tag=output)
ce = ClassBasedCrossEntropyWithSoftmax(label, h, W, q, maxClassSize=5, tag=criterion)
"""
# What is not in the word's class gets a score of -1e30, so that its probability is 0.
BY_ALL_WORDS = """
x = Input({words}, tag=feature)
word = Input({words}, tag=label)
class = Input({classes}, tag=label)
outside = Input({words}, tag=feature)
E = Parameter({hidden}, {words}, initValueScale=20)
h = Tanh(Times(E, x))
W = Parameter({hidden}, {words}, initValueScale=20)
C = Parameter({classes}, {hidden}, initValueScale=20)
q = Times(C, h, tag=output)
never = Constant(-1e30)
s = Plus(TransposeTimes(W, h), Scale(never, outside))
ce = Plus(CEWithSM(word, s), CEWithSM(class, q), tag=criterion)
"""


def network(text: str) -> gc.Network:
    net = gc.loads(text.format(words=WORDS, hidden=HIDDEN, classes=CLASSES), seed=1)
    assert isinstance(net, gc.Network)
    return net


def data() -> tuple[dict[str, object], dict[str, Array]]:
    """The words before and after, for either network."""
    rng = np.random.default_rng(0)
    before, after = rng.integers(0, WORDS, (2, SAMPLES))
    classes = np.searchsorted(STARTS, after, side="right") - 1
    starts, ends = np.array(STARTS)[classes], np.array(ENDS)[classes]
    every = np.arange(WORDS)
    inside = (every >= starts[:, None]) & (every < ends[:, None])
    by_classes: dict[str, object] = {
        "x": (before, np.arange(SAMPLES + 1)),
        "label": np.stack([after, classes, starts, ends], axis=1),
    }
    by_words = {
        "x": np.eye(WORDS)[before],
        "word": np.eye(WORDS)[after],
        "class": np.eye(CLASSES)[classes],
        "outside": 1.0 - inside,
    }
    return by_classes, by_words


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_value_and_gradients_are_those_of_a_softmax_over_all_words(
    backend: str, precision: str
) -> None:
    by_classes, by_words = data()
    names = ["E", "W", "C"]
    found = gc.compile(
        network(BY_CLASSES), ["ce"], gradients=names, backend=backend, precision=precision
    )(**by_classes)
    wanted = gc.compile(
        network(BY_ALL_WORDS), ["ce"], gradients=names, backend="reference", precision="f64"
    )(**by_words)
    tolerance = 1e-5 if precision == "f32" else 1e-12
    np.testing.assert_allclose(found["ce"], wanted["ce"], rtol=tolerance)
    for name in names:
        np.testing.assert_allclose(
            found.gradients[name], wanted.gradients[name], rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_trains_as_the_softmax_over_all_words_does(backend: str) -> None:
    by_classes, by_words = data()
    options = {
        "epochs": 4,
        "minibatch": 8,
        "learning_rate": 0.5,
        "backend": backend,
        "precision": "f64",
    }
    one, two = network(BY_CLASSES), network(BY_ALL_WORDS)
    found = gc.train(one, by_classes, **options)  # type: ignore[arg-type]
    wanted = gc.train(two, by_words, **options)  # type: ignore[arg-type]
    for a, b in zip(found, wanted, strict=True):
        assert a.criterion == pytest.approx(b.criterion, rel=1e-10)
    for name in ("E", "W", "C"):
        np.testing.assert_allclose(one.parameters[name], two.parameters[name], rtol=1e-8)
    assert found[-1].criterion < found[0].criterion


def test_a_training_step_has_nothing_as_wide_as_the_vocabulary_but_the_weights() -> None:
    """No product, and nothing with samples: forward, backward or in the update."""
    words, largest = 12345, 50
    text = BY_CLASSES.replace("maxClassSize=5", f"maxClassSize={largest}")
    net = gc.loads(text.format(words=words, hidden=HIDDEN, classes=CLASSES))
    operations = step_operations(net)
    products = [op for op in operations if op.opdef.name == "matmul"]
    assert products
    assert not any(
        str(words) in str(v.type) for op in products for v in (*op.operands, *op.results)
    )
    types = {str(v.type) for op in operations for v in (*op.operands, *op.results)}
    wide = {t for t in types if str(words) in t}
    assert wide == {f"tensor<{HIDDEN}x{words}xf32>"}
    assert f"tensor<Nx{largest}xf32>" in types


def test_a_class_larger_than_declared_stops_the_training() -> None:
    by_classes, _ = data()
    net = gc.loads(
        BY_CLASSES.replace("maxClassSize=5", "maxClassSize=3").format(
            words=WORDS, hidden=HIDDEN, classes=CLASSES
        )
    )
    with pytest.raises(gc.GraphcError, match="`ce` is not a finite number"):
        gc.train(net, by_classes, learning_rate=0.1)
