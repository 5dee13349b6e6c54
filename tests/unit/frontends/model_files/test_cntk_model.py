"""The toolkit's model files, from bytes written by hand: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.support.model_bytes import (
    classifier,
    count,
    data_input,
    flag,
    integer,
    lstm_file,
    lstm_matrices,
    matrix,
    node,
    number,
    parameter,
    toolkit_model,
    wide,
)

Array = np.ndarray


def load(folder: Path, data: bytes, name: str = "simple.dnn.3") -> gc.Network:
    (folder / name).write_bytes(data)
    network = gc.load(folder / name)
    assert isinstance(network, gc.Network)
    return network


def refused(folder: Path, data: bytes) -> str:
    with pytest.raises(gc.GraphcError) as caught:
        load(folder, data)
    (diagnostic,) = caught.value.diagnostics
    return f"{diagnostic.slug}: {diagnostic.message}"


@pytest.mark.parametrize("version", [None, 1, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_classifier_computes_what_its_numbers_say(
    tmp_path: Path, dtype: str, version: int | None
) -> None:
    network = load(tmp_path, classifier(dtype, version=version))
    rng = np.random.default_rng(7)
    w, b = rng.standard_normal((2, 3)), rng.standard_normal((2, 1))
    mean, deviation = rng.standard_normal((3, 1)), rng.random((3, 1)) + 0.5
    x = np.random.default_rng(1).standard_normal((5, 3))
    expected = ((x - mean.T) * deviation.T) @ w.T + b.T
    got = gc.compile(network, "z", precision="f64")(features=x)["z"]
    assert np.allclose(got, expected, rtol=0, atol=1e-14 if dtype == "f8" else 1e-6)
    assert network.parameters["L1.W"].dtype == np.dtype(dtype)
    assert np.array_equal(network.parameters["L1.W"], w.astype(dtype))
    tags = {n.name: n.tags for n in network.nodes if n.tags}
    assert tags == {
        "features": ("feature",),
        "labels": ("label",),
        "ce": ("criterion",),
        "err": ("evaluation",),
        "z": ("output",),
    }


def test_every_node_stands_behind_what_it_reads(tmp_path: Path) -> None:
    network = load(tmp_path, classifier())
    names = [n.name for n in network.nodes]
    for n in network.nodes:
        for source in n.operation.operands:
            assert names.index(source.name or "") < names.index(n.name)


@pytest.mark.parametrize("name", ["model", "model.dnn", "model.ndl", "a.b.c.7"])
def test_what_a_file_is_its_first_bytes_say(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, classifier(), name).find("z") is not None


def test_a_model_goes_into_graphcs_own_file_and_back_under_any_name(tmp_path: Path) -> None:
    network = load(tmp_path, classifier())
    network.save(tmp_path / "again.dnn.0")
    again = gc.load(tmp_path / "again.dnn.0")
    assert str(again) == str(network)
    for name, value in network.parameters.items():
        assert np.array_equal(again.parameters[name], value)


def test_a_recurrent_network(tmp_path: Path) -> None:
    w, r = np.array([[0.5]]), np.array([[0.25]])
    nodes = {
        "h": node("Tanh", "h"),
        "past": node("PastValue", "past", integer(1) + count(1) + count(1) + number(0.75)),
        "r": parameter("r", r),
        "rp": node("Times", "rp"),
        "s": node("Plus", "s"),
        "w": parameter("w", w),
        "wx": node("Times", "wx"),
        "x": data_input("x", 1),
    }
    inputs = {"h": ["s"], "past": ["h"], "rp": ["r", "past"], "s": ["wx", "rp"], "wx": ["w", "x"]}
    network = load(tmp_path, toolkit_model(nodes, inputs, {"OutputNodes": ["h"]}))
    x = [0.3, -1.0, 2.0]
    h, expected = 0.75, []
    for value in x:
        h = np.tanh(0.5 * value + 0.25 * h)
        expected.append(h)
    (got,) = gc.compile(network, "h", precision="f64")(x=[np.array(x)[:, None]])["h"]
    assert np.allclose(got[:, 0], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("version", [1, 2])
def test_the_lstm_of_one_node(tmp_path: Path, version: int) -> None:
    network = load(tmp_path, lstm_file(version))
    x = np.random.default_rng(2).standard_normal((5, 3))
    w = {name: value.astype("f4").astype("f8") for name, value in lstm_matrices().items()}
    h, c = np.zeros(2), np.full(2, 0.25)
    expected: list[Array] = []

    def gate(name: str, seen: Array, state: Array) -> Array:
        return 1 / (1 + np.exp(-(w[name][:, :6] @ seen + w[name][:, 6] * state)))

    for step in x:
        seen = np.concatenate([[1.0], step, h])
        new = gate("wi", seen, c) * np.tanh(w["wc"] @ seen)
        c = gate("wf", seen, c) * c + new
        h = gate("wo", seen, c) * np.tanh(c)
        expected.append(h)
    (got,) = gc.compile(network, precision="f64")(x=[x])["lstm"]
    assert np.allclose(got, expected, rtol=0, atol=1e-12)


def test_an_lstm_with_matrices_that_do_not_fit(tmp_path: Path) -> None:
    assert "`lstm` requires matrices of sizes" in refused(tmp_path, lstm_file(2, peepholes=0))


def test_a_delay_of_version_1_has_the_usual_activity(tmp_path: Path) -> None:
    nodes = {
        "d": node("Delay", "d", integer(2) + count(3) + count(1)),
        "x": data_input("x", 3),
    }
    network = load(tmp_path, toolkit_model(nodes, {"d": ["x"]}, {}, version=1))
    x = np.arange(12.0).reshape(4, 3)
    (got,) = gc.compile(network, "d", precision="f64")(x=[x])["d"]
    assert np.array_equal(got, np.vstack([np.full((2, 3), 0.1), x[:2]]))


def test_images_convolution_and_pooling(tmp_path: Path) -> None:
    """Output channel fastest, then rows, then columns; kernels with their channel slowest."""
    rng = np.random.default_rng(3)
    w = rng.standard_normal((2, 2 * 3 * 1))
    sizes = [count(n) for n in (2, 3, 1, 1, 2)]  # width, height, steps, channels
    nodes = {
        "c": node("Convolution", "c", b"".join(sizes) + flag(False) + count(0)),
        "image": data_input("image", 4 * 5 * 1, 4, 5, 1),
        "p": node("MaxPooling", "p", b"".join(count(n) for n in (3, 1, 1, 1))),
        "w": parameter("w", w),
    }
    network = load(tmp_path, toolkit_model(nodes, {"c": ["w", "image"], "p": ["c"]}, {}))
    x = rng.standard_normal((1, 20))
    got = gc.compile(network, ["c", "p"], precision="f64")(image=x)
    picture = x[0].reshape(4, 5)  # [column, row]
    kernels = np.float64(np.float32(w)).reshape(2, 2, 3)  # [channel, column, row]
    expected = np.zeros((3, 3, 2))
    for col in range(3):
        for row in range(3):
            window = picture[col : col + 2, row : row + 3]
            expected[col, row] = (kernels * window).sum(axis=(1, 2))
    assert np.allclose(got["c"][0], expected.ravel(), rtol=0, atol=1e-12)
    assert np.allclose(got["p"][0], expected.max(axis=0).ravel(), rtol=0, atol=1e-12)


def test_nodes_with_settings_of_their_own(tmp_path: Path) -> None:
    nodes = {
        "cos": node("CosDistanceWithNegativeSamples", "cos"),
        "neg": parameter("neg", np.array([[2.0]]), learned=False),
        "rep": node("RowRepeat", "rep", count(3)),
        "shape": node("Reshape", "shape", b"".join(count(n) for n in (6, 0, 0, 0))),
        "shift": parameter("shift", np.array([[1.0]]), learned=False),
        "slice": node("RowSlice", "slice", count(1) + count(2)),
        "sparse": data_input("sparse", 4, 2**64 - 1, 2**64 - 1, 2**64 - 1, kind="SparseInputValue"),
        "stack": node("RowStack", "stack"),
        "x": data_input("x", 4),
        "y": data_input("y", 4),
    }
    inputs = {
        "cos": ["x", "y", "shift", "neg"],
        "rep": ["slice"],
        "shape": ["rep"],
        "slice": ["x"],
        "stack": ["x", "y", "slice"],
    }
    network = load(tmp_path, toolkit_model(nodes, inputs, {}))
    lines = network.to_ndl().splitlines()
    assert "slice = RowSlice(1, 2, x)" in lines
    assert "rep = RowRepeat(slice, 3)" in lines
    assert "shape = Reshape(rep, 6)" in lines
    assert "stack = RowStack(x, y, slice)" in lines
    assert "cos = CosDistanceWithNegativeSamples(x, y, 1, 2)" in lines
    assert "sparse = SparseInputValue(4)" in lines
    shift = next(line for line in lines if line.startswith("shift ="))
    assert shift == "shift = LearnableParameter(1, 1, needGradient=false)"


def test_statistics_that_were_not_computed_are_computed_here(tmp_path: Path) -> None:
    empty = flag(False) + matrix(np.zeros((0, 0)))
    nodes = {"m": node("Mean", "m", empty), "x": data_input("x", 2)}
    network = load(tmp_path, toolkit_model(nodes, {"m": ["x"]}, {"OutputNodes": ["m"]}))
    network.precompute(x=np.array([[1.0, 2.0], [3.0, 6.0]]))
    assert network.parameters["m"].tolist() == [[2.0], [4.0]]


# --- what is refused ------------------------------------------------------------------------------


def test_all_kinds_that_are_not_known_are_one_error_with_counts(tmp_path: Path) -> None:
    nodes = {
        "a": node("Whatever", "a"),
        "b": node("PairNetwork", "b", count(2) + count(3)),
        "c": node("Whatever", "c"),
        "x": data_input("x", 2),
    }
    message = refused(tmp_path, toolkit_model(nodes, {}, {}))
    assert message.startswith("not-supported: ")
    assert message.endswith(
        "kinds of nodes that are not supported: 'Whatever' (2), 'PairNetwork' (1)"
    )


def test_an_unknown_kind_with_fields_is_named_where_reading_stops(tmp_path: Path) -> None:
    nodes = {"a": node("Whatever", "a", count(1) * 9), "x": data_input("x", 2)}
    assert "'Whatever' (1)" in refused(tmp_path, toolkit_model(nodes, {}, {}))


def test_a_later_version_is_named(tmp_path: Path) -> None:
    message = refused(tmp_path, classifier(version=7))
    assert message.startswith("not-supported: ")
    assert message.endswith("of version 1 and 2 can be read, this is 7")


def test_a_sparse_matrix_is_not_supported(tmp_path: Path) -> None:
    w = parameter("w", np.ones((1, 1))).replace(b"d" + wide("BMAT"), b"s" + wide("BMAT"))
    assert "value of `w` is sparse" in refused(tmp_path, toolkit_model({"w": w}, {}, {}))


def large(rows: int, cols: int) -> bytes:
    """A parameter that claims this size."""
    w = parameter("w", np.ones((1, 1)))
    size = count(1) + count(1)
    return toolkit_model({"w": w.replace(size, count(rows) + count(cols))}, {}, {})


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (large(2**30, 2**30), "requires 4611686018427387904 bytes"),
        (large(2**31, 1), "from 0 to 2147483647"),
        (large(0, 1), "EMAT is required"),
        (classifier(count_of_nodes=2**60), "the number of nodes is 1152921504606846976"),
        (classifier(count_of_nodes=10), "the mark ENodeList is required"),
        (classifier()[:-2], "the mark ECN is required"),
        (wide("BCN"), "the number of nodes requires 8 bytes, 0 are left"),
        (classifier().replace(wide("ERelation"), wide("ERelatiom")), "ERelation is required"),
        (toolkit_model({"x": data_input("x", 2)}, {"x": ["y"]}, {}), "`y`, one of which is no"),
        (toolkit_model({"x": data_input("x", 2)}, {}, {"EvalNodes": ["q"]}), "`q` is to be"),
        (
            toolkit_model({"x": data_input("x", 2), "X": data_input("X", 2)}, {}, {}),
            "two nodes have the same name",
        ),
        (toolkit_model({"": data_input("", 2)}, {}, {}), "at least one character"),
        (toolkit_model({"x": data_input("x" * 5000, 2)}, {}, {}), "at most 4096 characters"),
        (
            toolkit_model(
                {"w": parameter("w", np.ones((2, 1))).replace(flag(True), b"\7")}, {}, {}
            ),
            "requires 0 or 1, got 7",
        ),
    ],
)
def test_damage_is_one_error_that_says_where(tmp_path: Path, data: bytes, part: str) -> None:
    message = refused(tmp_path, data)
    assert message.startswith("bad-model-file: ")
    assert part in message


def test_a_value_of_another_size_than_declared(tmp_path: Path) -> None:
    w = wide("LearnableParameter") + wide("w") + flag(True) + count(2) + count(2)
    data = toolkit_model({"w": w + matrix(np.ones((2, 1)))}, {}, {})
    assert "requires a value of 2x2 numbers, got 2x1" in refused(tmp_path, data)


def test_wrong_numbers_of_inputs_are_reported_by_the_builder(tmp_path: Path) -> None:
    nodes = {"p": node("Plus", "p"), "x": data_input("x", 2)}
    with pytest.raises(gc.GraphcError, match="Plus takes 2 nodes"):
        load(tmp_path, toolkit_model(nodes, {"p": ["x"]}, {}))


def test_defines_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(classifier())
    with pytest.raises(gc.GraphcError, match="takes no macros and no defines"):
        gc.load(tmp_path / "m", defines={"a": 1})
