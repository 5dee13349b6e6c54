"""Sparse inputs from end to end: the same as their dense twin, and no dense product anywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.driver.options import CompileOptions
from graphc.ir.types import TensorType
from tests.support.commands import COLUMNS, NETWORK, graphc, write_data, write_network
from tests.support.networks import step_operations

Array = np.ndarray
BACKENDS = ("reference", "numpy", "llvm")
WORDS, CLASSES, SAMPLES = 50, 3, 40

BAG_OF_WORDS = """
x = {input}({words}, tag=feature)
t = Input(3, tag=label)
W1 = Parameter(8, 0)
b1 = Parameter(8, init=fixedValue)
h = Tanh(Plus(Times(W1, x), b1))
W2 = Parameter(3, 8)
b2 = Parameter(3, init=fixedValue)
z = Plus(Times(W2, h), b2, tag=output)
ce = CrossEntropyWithSoftmax(t, z, tag=criterion)
err = ErrorPrediction(t, z, tag=eval)
"""


def network(input: str, text: str = BAG_OF_WORDS, words: int = WORDS) -> gc.Network:
    net = gc.loads(text.format(input=input, words=words), seed=3)
    assert isinstance(net, gc.Network)
    return net


def bags(seed: int = 0) -> tuple[tuple[Array, Array, Array], Array]:
    """Random bags of words as (indices, offsets, values) and written out; some words come twice,
    and some bags are empty."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, SAMPLES)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    indices = rng.integers(0, WORDS, offsets[-1])
    values = rng.normal(size=offsets[-1]).astype(np.float32)
    dense = np.zeros((SAMPLES, WORDS))
    np.add.at(dense, (np.repeat(np.arange(SAMPLES), counts), indices), values)
    return (indices, offsets, values), dense


def labels(dense: Array) -> Array:
    scores = dense @ np.random.default_rng(9).normal(size=(WORDS, CLASSES))
    return np.eye(CLASSES)[scores.argmax(axis=1)]


# --- what is computed ---


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bag_of_words_classifier_trains_as_its_dense_twin(backend: str) -> None:
    sparse, dense = bags()
    t = labels(dense)
    options = {
        "epochs": 3,
        "minibatch": 7,
        "learning_rate": 0.5,
        "backend": backend,
        "precision": "f64",
        "seed": 5,
    }
    one, two = network("SparseInput"), network("Input")
    found = gc.train(one, {"x": sparse, "t": t}, **options)  # type: ignore[arg-type]
    wanted = gc.train(two, {"x": dense, "t": t}, **options)  # type: ignore[arg-type]
    for a, b in zip(found, wanted, strict=True):
        assert a.criterion == pytest.approx(b.criterion, rel=1e-11)
        assert a.evaluations == b.evaluations
    for name in ("W1", "b1", "W2", "b2"):
        np.testing.assert_allclose(one.parameters[name], two.parameters[name], rtol=1e-9)
    assert found[-1].criterion < found[0].criterion


def test_minibatches_that_are_not_shuffled_train_alike_too() -> None:
    sparse, dense = bags()
    data = {"t": labels(dense)}
    one, two = network("SparseInput"), network("Input")
    rates = {"learning_rate": 0.1, "shuffle": False, "precision": "f64", "minibatch": 16}
    found = gc.train(one, {**data, "x": sparse}, **rates)  # type: ignore[arg-type]
    wanted = gc.train(two, {**data, "x": dense}, **rates)  # type: ignore[arg-type]
    assert found[0].criterion == pytest.approx(wanted[0].criterion, rel=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_every_form_of_the_data_gives_the_same_numbers(backend: str, precision: str) -> None:
    (indices, offsets, values), dense = bags(1)
    net = network("SparseInput")
    executable = gc.compile(net, backend=backend, precision=precision)
    wanted = gc.compile(network("Input"), backend="reference", precision="f64")(x=dense)["z"]
    tolerance = 1e-5 if precision == "f32" else 1e-12
    for given in ((indices, offsets, values), dense):
        found = executable(x=given)["z"]
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    ones = executable(x=(indices, offsets))["z"]
    np.testing.assert_array_equal(
        ones, executable(x=(indices, offsets, np.ones(len(indices))))["z"]
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_samples_and_no_entries_are_fine(backend: str) -> None:
    executable = gc.compile(network("SparseInput"), backend=backend, precision="f64")
    assert executable(x=([], [0]))["z"].shape == (0, 3)
    zero = gc.compile(network("Input"), backend=backend, precision="f64")(x=np.zeros((2, WORDS)))
    np.testing.assert_allclose(executable(x=([], [0, 0, 0]))["z"], zero["z"])


def test_more_samples_than_the_bound_compile_again() -> None:
    sparse, dense = bags(2)
    executable = gc.compile(network("SparseInput"), batch=4, precision="f64")
    wanted = gc.compile(network("Input"), batch=64, precision="f64")(x=dense)["z"]
    np.testing.assert_allclose(executable(x=sparse)["z"], wanted, rtol=1e-12)
    np.testing.assert_allclose(executable(x=sparse)["z"], wanted, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_entries_than_the_bound_compile_again(backend: str) -> None:
    rng = np.random.default_rng(0)
    counts = np.array([3, 1000, 20])
    indices, values = rng.integers(0, WORDS, 1023), rng.normal(size=1023)
    dense = np.zeros((3, WORDS))
    np.add.at(dense, (np.repeat(np.arange(3), counts), indices), values)
    sparse = (indices, np.concatenate([[0], np.cumsum(counts)]), values)
    t = np.eye(CLASSES)
    one, two = network("SparseInput"), network("Input")
    options = {"learning_rate": 0.1, "precision": "f64", "backend": backend, "minibatch": 1}
    found = gc.train(one, {"x": sparse, "t": t}, **options)  # type: ignore[arg-type]
    wanted = gc.train(two, {"x": dense, "t": t}, **options)  # type: ignore[arg-type]
    assert found[0].criterion == pytest.approx(wanted[0].criterion, rel=1e-11)
    np.testing.assert_allclose(one.parameters["W1"], two.parameters["W1"], rtol=1e-9)
    text = "x = {input}({words})\nm = Mean(x)\nz = Minus(x, m)"
    one = network("SparseInput", text)
    one.precompute(x=sparse)
    np.testing.assert_allclose(one.parameters["m"][:, 0], dense.mean(axis=0), atol=1e-6)


EMBEDDINGS = """
x = {input}(150)
table = Parameter(4, 50)
e = LookupTable(table, x)
W = Parameter(2, 12)
z = Times(W, e, tag=output)
j = SumElements(Sigmoid(z))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lookup_table_of_several_words_has_the_gradients_of_its_dense_twin(backend: str) -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, WORDS, (6, 3)) + np.arange(3) * WORDS
    sparse = (words.ravel(), np.arange(7) * 3)
    dense = np.zeros((6, 3 * WORDS))
    dense[np.arange(6)[:, None], words] = 1
    results = [
        gc.compile(
            network(input, EMBEDDINGS),
            ["j", "z", "e"],
            gradients=["table", "W"],
            backend=backend,
            precision="f64",
        )(x=x)
        for input, x in (("SparseInput", sparse), ("Input", dense))
    ]
    found, wanted = results
    for name in ("z", "e"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-12)
    for name in ("table", "W"):
        np.testing.assert_allclose(found.gradients[name], wanted.gradients[name], rtol=1e-12)
    assert not found.gradients["table"][:, np.setdiff1d(np.arange(WORDS), words % WORDS)].any()


TWO = """
a = SparseInput(20)
b = {input}(30)
W = Parameter(30, 20)
z = Plus(Times(W, a), b, tag=output)
n = MatrixL2Reg(b)
c = CosDistance(z, b)
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_sparse_inputs_and_any_other_function(backend: str) -> None:
    rng = np.random.default_rng(0)
    a = np.where(rng.random((5, 20)) < 0.2, rng.normal(size=(5, 20)), 0)
    b = np.where(rng.random((5, 30)) < 0.4, rng.normal(size=(5, 30)), 0)
    found, wanted = (
        gc.compile(network(i, TWO), ["z", "n", "c"], backend=backend, precision="f64")(a=a, b=b)
        for i in ("SparseInput", "Input")
    )
    for name in ("z", "n", "c"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-12)


def test_statistics_of_a_sparse_input_are_those_of_its_twin() -> None:
    sparse, dense = bags()
    text = "x = {input}({words})\nm = Mean(x)\ns = InvStdDev(x)\nz = PerDimMVNorm(x, m, s)"
    one, two = network("SparseInput", text), network("Input", text)
    one.precompute(x=sparse)
    two.precompute(x=dense)
    for name in ("m", "s"):
        np.testing.assert_allclose(one.parameters[name], two.parameters[name], rtol=1e-6)


def test_averages_over_a_sparse_data_set_are_those_of_its_twin() -> None:
    sparse, dense = bags()
    t = labels(dense)
    found = gc.evaluate(network("SparseInput"), {"x": sparse, "t": t}, batch=16)
    wanted = gc.evaluate(network("Input"), {"x": dense, "t": t}, batch=16)
    assert dict(found) == pytest.approx(dict(wanted), rel=1e-5)


def test_a_saved_network_keeps_its_sparse_inputs(tmp_path: Path) -> None:
    sparse, dense = bags()
    net = network("SparseInput")
    net.save(tmp_path / "net.safetensors")
    loaded = gc.load(tmp_path / "net.safetensors")
    found = gc.compile(loaded)(x=sparse)["z"]
    np.testing.assert_array_equal(found, gc.compile(net)(x=sparse)["z"])
    np.testing.assert_allclose(found, gc.compile(net)(x=dense)["z"], rtol=1e-4, atol=1e-6)


def test_sparse_images_have_the_rows_of_the_image() -> None:
    net = gc.loads("x = SparseImageInput(4, 3, 2)\nW = Parameter(2, 0)\nz = Times(W, x)")
    found = gc.compile(net, ["z"], precision="f64")(x=([23], [0, 1], [2.0]))["z"]
    np.testing.assert_allclose(found, 2.0 * net.parameters["W"][None, :, 23])


def test_matrices_of_scipy_train_and_are_measured_as_their_dense_twins() -> None:
    csr_matrix = pytest.importorskip("scipy.sparse").csr_matrix
    (indices, offsets, values), dense = bags()
    x, t = csr_matrix((values, indices, offsets), shape=dense.shape), labels(dense)
    net, twin = network("SparseInput"), network("Input")
    options = {"epochs": 2, "minibatch": 7, "learning_rate": 0.5, "precision": "f64"}
    found = gc.train(net, {"x": x, "t": t}, **options)  # type: ignore[arg-type]
    wanted = gc.train(twin, {"x": dense, "t": t}, **options)  # type: ignore[arg-type]
    assert found[-1].criterion == pytest.approx(wanted[-1].criterion, rel=1e-11)
    averages = gc.evaluate(net, {"x": x, "t": t}, precision="f64")
    assert dict(averages) == pytest.approx(
        dict(gc.evaluate(twin, {"x": dense, "t": t}, precision="f64"))
    )
    scores = gc.compile(net, "z", precision="f64")(x=x.tocsc()[:1])["z"]
    np.testing.assert_allclose(scores, gc.compile(net, "z", precision="f64")(x=dense[:1])["z"])


def test_commands_take_columns_for_a_sparse_input(tmp_path: Path) -> None:
    """Each of them gives what it gives for the network's dense twin."""
    printed: list[list[str]] = []
    for input in ("SparseInput", "Input"):
        text = NETWORK.replace("features = Input", f"features = {input}")
        data, model = write_data(tmp_path), tmp_path / f"{input}.safetensors"
        columns = ("--data", data, *COLUMNS, "--precision", "double")
        rates = ("--learning-rate", "4", "--minibatch", "10", "--epochs", "3")
        trained = graphc("train", write_network(tmp_path, text), *columns, *rates, "-o", model)
        samples = "\n".join(" ".join(line.split()[:2]) for line in data.read_text().splitlines())
        measured = graphc("eval", model, *columns)
        computed = graphc("run", model, "--precision", "double", stdin=samples.encode())
        assert (trained.code, measured.code, computed.code) == (0, 0, 0)
        printed.append([*measured.out.split(), *computed.out.split()])
    assert len(printed[0]) == 4 + 2 * 60
    assert printed[0][::2][:2] == ["CE", "Err"]
    for one, two in zip(printed[0][1:4:2], printed[1][1:4:2], strict=True):
        assert float(one) == pytest.approx(float(two), rel=1e-6)
    scores = [np.array(row[4:], float) for row in printed]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9)


# --- how it is computed ---


def test_a_training_step_has_no_product_and_no_array_as_wide_as_a_sparse_input() -> None:
    operations = step_operations(network("SparseInput", BAG_OF_WORDS, 12345))
    names = [op.opdef.name for op in operations]
    assert "scatter_add" not in names
    assert "transposed_sparse_product" not in names
    assert names.count("sparse_product") == 1
    assert names.count("update_rows") == 1
    samples = ("N", "K")
    for op in operations:
        for value in (*op.operands, *op.results):
            assert isinstance(value.type, TensorType)
            dims = [str(d) for d in value.type.dims]
            assert not (dims[0] in samples and "12345" in dims), str(value)
    products = [op for op in operations if op.opdef.name == "matmul"]
    assert products  # those of the second layer, none of which is of the input's width
    assert not any("12345" in str(v.type) for op in products for v in (*op.operands, *op.results))


def test_a_step_through_a_lookup_table_looks_up_each_block() -> None:
    text = EMBEDDINGS.replace("z = ", "y = ").replace("tag=output", "")
    text += "z = SumElements(y, tag=criterion)\n"
    names = [op.opdef.name for op in step_operations(network("SparseInput", text))]
    assert "scatter_add" not in names
    assert "transposed_sparse_product" not in names
    assert names.count("sparse_product") == 3
    assert names.count("update_rows") == 1


# --- what is refused ---


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": ([WORDS], [0, 1])}, "input x requires indices from 0 to 49, got 50 at entry 0 of"),
        ({"x": ([-1], [0, 1])}, "requires indices from 0 to 49, got -1"),
        ({"x": np.zeros((1, 3))}, "input x requires a CSR matrix, a tuple (indices, offsets) or"),
        ({}, "requires the inputs x, got none: x missing"),
        ({"y": ([], [0])}, "no input is called `y`; the inputs are: x"),
        ({"x.indices": np.zeros((1, 1), np.int32)}, "no input is called `x.indices`"),
        ({"x": ([], [0]), "X": ([], [0])}, "input x is given twice"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(inputs: dict[str, object], message: str) -> None:
    executable = gc.compile(network("SparseInput"), backend="reference")
    with pytest.raises(gc.GraphcError) as caught:
        executable(**inputs)
    assert caught.value.diagnostics[0].slug == "input"
    assert message in caught.value.diagnostics[0].message


def test_numbers_of_samples_that_differ_are_refused() -> None:
    net = network("SparseInput")
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.1), backend="reference")
    with pytest.raises(gc.GraphcError, match="requires 2 samples as another input has, got 1"):
        step(t=np.zeros((2, 3)), x=([], [0, 0]))
    with pytest.raises(gc.GraphcError, match="N is 1 in another input"):
        step(x=([], [0, 0]), t=np.zeros((2, 3)))
    with pytest.raises(gc.GraphcError, match="requires 2 samples as another input has, got 1"):
        gc.train(net, {"t": np.zeros((2, 3)), "x": ([], [0, 0])}, learning_rate=0.1)


@pytest.mark.parametrize("name", ["net", "net.so", "net.o", "net.h", "net.ll", "net.s", "net.py"])
def test_a_file_with_a_sparse_input_is_refused_by_name(name: str, tmp_path: Path) -> None:
    from graphc.driver.artifact import ArtifactRequest, emit, kind_of

    request = ArtifactRequest((kind_of(Path(name)),), tmp_path / name)
    with pytest.raises(gc.GraphcError) as caught:
        emit(network("SparseInput").model, request, CompileOptions())
    assert caught.value.diagnostics[0].slug == "not-supported"
    assert "`x` is a sparse input" in caught.value.diagnostics[0].message
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert (span.line, span.column) == (2, 5)
    assert not list(tmp_path.iterdir())


def test_a_node_with_the_name_of_an_argument_is_refused() -> None:
    net = gc.loads("x = SparseInput(3)\nz = Sigmoid(x)")
    net.rename(net.find("z"), "x.values")  # type: ignore[arg-type]
    with pytest.raises(gc.GraphcError, match=r"as `x\.values`, which another"):
        gc.compile(net, ["x.values"])
