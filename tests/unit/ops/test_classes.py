"""ClassBasedCrossEntropyWithSoftmax: against the factorised probability of every word, computed
densely, and the book's gradients; labels that are wrong; what of the weight is touched."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.core import Array
from graphc.ir.types import DType
from graphc.passes.synthesize_gradient import synthesize_gradient
from graphc.support.diagnostics import DiagnosticSink
from tests.support.nodes import (
    complaint,
    computed,
    difference_quotients,
    expanded,
    gradients,
    judged,
    network,
)

HIDDEN = 3
STARTS = (0, 2, 3, 7)  # classes of 2, 1, 4 and 3 words
WORDS, CLASSES = 10, 4
NODES = {
    "label": "node.input {rows = 4}",
    "h": f"node.input {{rows = {HIDDEN}}}",
    "w": f"node.parameter {{rows = {HIDDEN}, cols = {WORDS}}}",
    "q": f"node.input {{rows = {CLASSES}}}",
    "v": "node.class_based_cross_entropy_with_softmax %label, %h, %w, %q",
}
NEVER = -np.log(1e-37)


def with_setting(size: int) -> dict[str, str]:
    return {**NODES, "v": f"{NODES['v']} {{max_class_size = {size}}}"}


def labels(words: list[int]) -> Array:
    """The four rows for these words."""
    ends = (*STARTS[1:], WORDS)
    classes = [max(c for c in range(CLASSES) if STARTS[c] <= w) for w in words]
    rows = [[w, c, STARTS[c], ends[c]] for w, c in zip(words, classes, strict=True)]
    return np.array(rows, float).reshape(-1, 4).T


def values(words: list[int], seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "label": labels(words),
        "h": rng.normal(size=(HIDDEN, len(words))),
        "w": rng.normal(size=(HIDDEN, WORDS)),
        "q": rng.normal(size=(CLASSES, len(words))),
    }


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


def word_probabilities(leaves: dict[str, Array]) -> Array:
    """p(class) p(word | class) of every word in every column, words x columns."""
    scores = leaves["w"].T @ leaves["h"]
    parts = np.split(scores, STARTS[1:])
    sizes = [len(p) for p in parts]
    within = np.concatenate([softmax(p) for p in parts])
    return within * np.repeat(softmax(leaves["q"]), sizes, axis=0)


ALL = list(range(WORDS))


@pytest.mark.parametrize("nodes", [NODES, with_setting(4), with_setting(99)])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("words", [ALL, [3], [9, 0, 0, 5], []])
def test_it_is_minus_the_log_probability_of_the_words(
    nodes: dict[str, str], words: list[int], dtype: DType
) -> None:
    leaves = values(words)
    of_all = word_probabilities(leaves)
    np.testing.assert_allclose(of_all.sum(axis=0), 1)
    expected = -np.sum(np.log(of_all[words, range(len(words))]))
    found = computed(network(nodes), "v", leaves, len(words), dtype)
    np.testing.assert_allclose(found, [[expected]], rtol=1e-5 if dtype is DType.F32 else 1e-13)
    np.testing.assert_allclose(judged(network(nodes), "v", leaves), [[expected]], rtol=1e-13)


def test_columns_that_are_no_samples_do_as_well() -> None:
    nodes = {
        **NODES,
        "label": "node.parameter {rows = 4, cols = 0}",
        "h": f"node.parameter {{rows = {HIDDEN}, cols = 5}}",
        "q": f"node.parameter {{rows = {CLASSES}, cols = 0}}",
        "w": f"node.parameter {{rows = 0, cols = {WORDS}}}",
    }
    net, leaves = network(nodes), values([0, 2, 3, 8, 5])
    sizes = [str(net.type(name)) for name in ("label", "q", "w")]
    assert sizes == ["matrix<4x5>", "matrix<4x5>", "matrix<3x10>"]
    np.testing.assert_allclose(computed(net, "v", leaves, 1), judged(net, "v", leaves))


@pytest.mark.parametrize("nodes", [NODES, with_setting(4)])
def test_gradients_are_what_central_differences_say(nodes: dict[str, str]) -> None:
    net, leaves = network(nodes), values([1, 2, 6, 9, 3])
    found = gradients(net, "v", leaves, 5, ["h", "w", "q"])
    for name in ("h", "w", "q"):
        expected = difference_quotients(net, "v", leaves, name)
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-8, err_msg=name)


def test_gradients_are_what_the_book_prints() -> None:
    """Equations 2.145 to 2.148, column by column."""
    words = [1, 2, 6]
    net, leaves = network(NODES), values(words, seed=5)
    found = gradients(net, "v", leaves, 3, ["h", "w", "q", "label"])
    dw = np.zeros((HIDDEN, WORDS))
    for t in range(len(words)):
        word, own, start, end = leaves["label"][:, t].astype(int)
        h, part = leaves["h"][:, t], leaves["w"][:, start:end]
        dp = softmax(part.T @ h) - np.eye(end - start)[word - start]
        dw[:, start:end] += np.outer(h, dp)
        np.testing.assert_allclose(found["h"][:, t], part @ dp, rtol=1e-12, atol=1e-14)
        dq = softmax(leaves["q"][:, t]) - np.eye(CLASSES)[own]
        np.testing.assert_allclose(found["q"][:, t], dq, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found["w"], dw, rtol=1e-12, atol=1e-14)
    assert not found["label"].any()


def test_columns_of_other_classes_are_not_touched() -> None:
    """Not even read: nan there does not reach the value, nor the gradient of other words."""
    net, leaves = network(NODES), values([4, 5, 1])
    leaves["w"][:, [2, 7, 8, 9]] = np.nan
    found = gradients(net, "v", leaves, 3, ["w", "h"])
    assert np.isfinite(computed(net, "v", leaves, 3)).all()
    assert np.isfinite(found["h"]).all()
    assert found["w"][:, [2, 7, 8, 9]].tolist() == [[0.0] * 4] * HIDDEN


def test_no_product_of_all_columns_is_made_forward_or_backward() -> None:
    module = expanded(network(NODES), ["v"])
    function = module.functions[0]
    assert synthesize_gradient(function, "v", ["w", "h"], DiagnosticSink())
    names = {op.opdef.name for op in function.block}
    assert "matmul" not in names
    assert {"sampled_product", "sparse_product", "transposed_sparse_product"} <= names


def test_the_largest_class_bounds_what_is_computed() -> None:
    text = str(expanded(network(with_setting(4)), ["v"]))
    assert "tensor<Nx4xi32>" in text
    assert f"tensor<Nx{WORDS}x" not in text


# --- labels that are wrong ---

GOOD = [4.0, 2.0, 3.0, 7.0]


@pytest.mark.parametrize(
    ("label", "misses"),
    [
        ([8, 2, 3, 7], 1),  # a word after the class
        ([2, 2, 3, 7], 1),  # a word before it
        ([-1, 2, 3, 7], 1),
        ([4, 2, 4, 4], 1),  # an empty class
        ([4, 2, 7, 3], 1),  # one that ends before it starts
        ([12, 2, 10, 20], 1),  # words that the weight does not have
        ([4, 4, 3, 7], 1),  # a class that is not there
        ([4, -1, 3, 7], 1),
        ([8, 9, 3, 7], 2),
        ([np.nan, 2, 3, 7], 1),
        ([4, np.nan, 3, 7], 1),
        ([1e30, 1e30, 3, 7], 2),
        ([-1e30, 2, -1e30, 1e30], 1),
        ([4, 2, 3, np.nan], 1),
    ],
)
def test_a_word_or_class_that_is_not_there_has_the_floor_s_probability(
    label: list[float], misses: int
) -> None:
    net, leaves = network(NODES), values([4])
    right = computed(net, "v", leaves, 1)[0, 0]
    of_class = -np.log(softmax(leaves["q"])[2, 0])
    leaves["label"] = np.array([label]).T
    found = computed(net, "v", leaves, 1)[0, 0]
    class_is_there = label[1] == 2
    rest = (of_class if class_is_there else right - of_class) if misses == 1 else 0.0
    np.testing.assert_allclose(found, misses * NEVER + rest)
    slopes = gradients(net, "v", leaves, 1, ["h", "w", "q"])
    assert all(np.isfinite(s).all() for s in slopes.values())
    if not class_is_there:
        assert not slopes["q"].any()
    if class_is_there or misses == 2:
        assert not slopes["h"].any() and not slopes["w"].any()


def test_a_class_that_reaches_beyond_the_words_has_those_that_are_there() -> None:
    net, leaves = network(NODES), values([8])
    expected = computed(net, "v", leaves, 1)
    leaves["label"][3] = 1000
    np.testing.assert_array_equal(computed(net, "v", leaves, 1), expected)
    leaves["label"] = labels([1])
    expected = computed(net, "v", leaves, 1)
    leaves["label"][2] = -5
    np.testing.assert_array_equal(computed(net, "v", leaves, 1), expected)


def test_fractions_of_a_label_are_cut_off() -> None:
    net, leaves = network(NODES), values([4, 8])
    expected = computed(net, "v", leaves, 2)
    leaves["label"] += 0.75
    np.testing.assert_array_equal(computed(net, "v", leaves, 2), expected)


def test_a_class_above_the_largest_gives_no_number() -> None:
    net, leaves = network(with_setting(3)), values([4])
    assert np.isnan(computed(net, "v", leaves, 1)).all()
    assert np.isnan(judged(net, "v", leaves)).all()
    assert np.isfinite(computed(net, "v", values([8]), 1)).all()


def test_large_scores_do_not_overflow() -> None:
    net, leaves = network(NODES), values([4, 2])
    leaves["w"] = 1000 * leaves["w"]
    leaves["q"] = 1000 * leaves["q"]
    found = computed(net, "v", leaves, 2)
    np.testing.assert_allclose(found, judged(net, "v", leaves))
    assert np.isfinite(found).all()
    slopes = gradients(net, "v", leaves, 2, ["h", "w", "q"])
    assert all(np.isfinite(s).all() for s in slopes.values())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"label": "node.input {rows = 3}"}, "requires a label of 4 rows (word, class, first"),
        ({"w": "node.input {rows = 3}"}, "requires a weight whose columns are not samples"),
        ({"w": "node.parameter {rows = 2, cols = 9}"}, "requires a weight with a row for each row"),
        ({"h": "node.parameter {rows = 3, cols = 2}"}, "the columns of the label matrix<4x*>, got"),
        ({"q": "node.parameter {rows = 4, cols = 2}"}, "got matrix<4x2>"),
        ({"v": with_setting(-1)["v"]}, "requires a class size of at least 0, got -1"),
    ],
)
def test_a_wrong_setting_or_operand_is_refused(changed: dict[str, str], message: str) -> None:
    found = complaint({**NODES, **changed})
    assert "ClassBasedCrossEntropyWithSoftmax requires" in found
    assert message in found
