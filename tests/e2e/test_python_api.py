"""What users do from Python: load or build, compile, call, differentiate, change, save."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.support.diagnostics import Diagnostic
from tests.support.networks import CLASSIFIER, central_difference, classes, classifier

Array = np.ndarray

MACROS = """
    Affine(x, outDim, inDim)
    {
        W = LearnableParameter(outDim, inDim)
        b = LearnableParameter(outDim, 1, init=fixedValue, value=0)
        t = Times(W, x)
        y = Plus(t, b)
    }
"""
MODEL = """
    features = Input(64, tag=feature)
    labels = Input(10, tag=label)
    m = Mean(features)
    s = InvStdDev(features)
    n = PerDimMeanVarNormalization(features, m, s)
    W0 = LearnableParameter(HDim, 64)
    t0 = Times(W0, n)
    h = Sigmoid(t0)
    z1 = Affine(h, 10, HDim)
    z = Softmax(z1)
    ce = CrossEntropyWithSoftmax(labels, z1, tag=criteria)
    OutputNodes = (z)
"""


def only(raised: pytest.ExceptionInfo[gc.GraphcError]) -> Diagnostic:
    (diagnostic,) = raised.value.diagnostics
    return diagnostic


# --- the way through -----------------------------------------------------------------------------


def test_a_network_in_files_is_compiled_trained_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.ndl").write_text(MODEL)
    Path("m.ndl").write_text(MACROS)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 64)).astype(np.float32)
    t = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 50)]

    net = gc.load("model.ndl", macros=["m.ndl"], defines={"HDim": 64})
    net.precompute(features=x)
    exe = gc.compile(net, outputs=["z"], backend="llvm", precision="f32", batch=256)
    z = exe(features=x)["z"]
    assert z.shape == (50, 10)
    np.testing.assert_allclose(z.sum(axis=1), 1, rtol=1e-6)

    exe = gc.compile(net, outputs=["ce"], gradients=["W0", "features"])
    r = exe(features=x, labels=t)
    assert r["ce"].shape == ()
    assert r.gradients["W0"].shape == (64, 64)
    assert r.gradients["features"].shape == (50, 64)

    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.1, momentum=0.9), batch=64)
    first = step(features=x, labels=t)["ce"]
    assert first == pytest.approx(r["ce"], rel=1e-5)
    assert step(features=x, labels=t)["ce"] < first

    assert net.parameters["W0"].shape == (64, 64)
    net.parameters["W0"] = np.zeros((64, 64))
    assert not net.parameters["W0"].any()
    net.save("model.safetensors")
    again = gc.load("model.safetensors")
    assert {n: v.tobytes() for n, v in again.parameters.items()} == {
        n: v.tobytes() for n, v in net.parameters.items()
    }


def test_a_network_is_built_in_python() -> None:
    net = gc.Network()
    x, y = net.input("features", 64, tag="feature"), net.input("labels", 10, tag="label")
    h = net.sigmoid(
        net.parameter("W0", 32, 64) @ x + net.parameter("B0", 32, init="fixedValue", value=0)
    )
    z = net.plus(net.parameter("W1", 10, 32) @ h, net.parameter("B1", 10), name="z", tag="output")
    net.cross_entropy_with_softmax(y, z, name="ce", tag="criterion")
    data = np.ones((3, 64))
    got = gc.compile(net, precision="f64")(features=data)["z"]
    p = {name: value.astype(np.float64) for name, value in net.parameters.items()}
    hidden = 1 / (1 + np.exp(-(data @ p["W0"].T + p["B0"].T)))
    np.testing.assert_allclose(got, hidden @ p["W1"].T + p["B1"].T, rtol=1e-14)


def shape_of(network: object) -> list[tuple[object, ...]]:
    """Nodes as (function, settings, operands by place in this list); no names."""
    assert isinstance(network, gc.Network)
    nodes = list(network.nodes)
    place = {node.operation: i for i, node in enumerate(nodes)}
    return [
        (node.op, str(node.operation.params), [place[v.op] for v in node.operation.operands])  # type: ignore[index]
        for node in nodes
    ]


def test_python_and_ndl_give_the_same_nodes_up_to_names() -> None:
    net = gc.Network()
    x, y = net.input("x", 6, tag="feature"), net.input("y", 3, tag="label")
    w0 = net.parameter("a", 5, 6)
    b0 = net.parameter("b", 5, init="fixedValue", value=0)
    h = net.sigmoid(w0 @ x + b0)
    w1 = net.parameter("c", 3, 5)
    b1 = net.parameter("d", 3, init="fixedValue", value=0)
    z = net.plus(w1 @ h, b1, tag="output")
    net.cross_entropy_with_softmax(y, z, tag="criterion")
    net.error_prediction(y, z, tag="evaluation")
    assert shape_of(net) == shape_of(classifier(6, 5, 3))


# --- inputs --------------------------------------------------------------------------------------


GOOD = classes(4)
WRONG: dict[str, dict[str, object]] = {
    "missing": {"features": GOOD["features"]},
    "unknown": {**GOOD, "extra": np.ones((4, 1))},
    "misspelt": {"feature": GOOD["features"], "labels": GOOD["labels"]},
    "given twice in other case": {**GOOD, "Features": GOOD["features"]},
    "too few rows": {**GOOD, "features": np.ones((4, 5))},
    "transposed": {**GOOD, "features": GOOD["features"].T},
    "one sample without its axis": {"features": np.ones(6), "labels": np.ones(3)},
    "other number of samples": {**GOOD, "labels": GOOD["labels"][:2]},
    "three axes": {**GOOD, "features": np.ones((4, 6, 1))},
    "a number": {**GOOD, "features": 1.0},
    "text": {**GOOD, "features": np.full((4, 6), "1")},
    "objects": {**GOOD, "features": np.full((4, 6), None)},
    "complex numbers": {**GOOD, "features": np.ones((4, 6), complex)},
    "ragged rows": {**GOOD, "features": [[1, 2], [3]]},
    "nothing": {**GOOD, "features": None},
    "dates": {**GOOD, "features": np.zeros((4, 6), "datetime64[s]")},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_is_one_error_and_changes_nothing(name: str) -> None:
    net = classifier()
    learner = gc.SGD(learning_rate=0.5, momentum=0.9)
    step = gc.compile_training(net, learner=learner, batch=8, backend="numpy")
    step(**GOOD)
    before = {n: v.copy() for n, v in {**net.parameters, **step.learner_state}.items()}
    with pytest.raises(gc.GraphcError) as raised:
        step(**WRONG[name])
    assert only(raised).slug == "input"
    assert "requires" in only(raised).message or "input" in only(raised).message
    for n, v in {**net.parameters, **step.learner_state}.items():
        assert v.tobytes() == before[n].tobytes()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "requires the inputs features, labels, got features: labels missing"),
        (
            "misspelt",
            "no input is called `feature`; the inputs are: features, labels; did you mean "
            "`features`?",
        ),
        ("too few rows", "input features requires shape (N, 6) of float32, got shape (4, 5)"),
        (
            "transposed",
            "input features requires shape (N, 6) of float32, got shape (6, 4); N is",
        ),
        (
            "one sample without its axis",
            "input features requires shape (N, 6) of float32, got shape (6,); for one sample x "
            "pass x[None, :]",
        ),
    ],
)
def test_the_message_says_what_is_required_and_what_came(name: str, message: str) -> None:
    if name == "transposed":
        given = {"labels": GOOD["labels"], "features": GOOD["features"].T}
    else:
        given = dict(WRONG[name])
    exe = gc.compile(classifier(), outputs=["ce"], backend="numpy")
    with pytest.raises(gc.GraphcError) as raised:
        exe(**given)
    assert only(raised).message.startswith(message)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize(
    "given",
    [
        lambda x: x,
        lambda x: x.tolist(),
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.astype(np.int64),
        lambda x: x.astype(np.int8),
        lambda x: x.astype(np.float16),
        lambda x: x.astype(">f8"),
        lambda x: np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape),
    ],
    ids=[
        *("float64", "lists", "fortran", "strided", "reversed", "int64", "int8", "float16"),
        *("big-endian", "unaligned"),
    ],
)
def test_other_layouts_and_number_types_are_converted(backend: str, given: object) -> None:
    assert callable(given)
    net = classifier()
    x = np.arange(-12, 12, dtype=np.float64).reshape(4, 6)
    exe = gc.compile(net, outputs=["z"], backend=backend)
    expected = exe(features=x.astype(np.float32))["z"]
    assert expected.dtype == np.float32
    assert exe(features=given(x))["z"].tobytes() == expected.tobytes()


def test_names_of_inputs_do_not_distinguish_case() -> None:
    exe = gc.compile(classifier(), outputs=["Z"], backend="numpy")
    assert exe(FEATURES=GOOD["features"])["z"].shape == (4, 3)


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_no_samples_give_sums_of_zero_and_empty_outputs(backend: str) -> None:
    exe = gc.compile(classifier(), outputs=["ce", "z"], gradients=["W0"], backend=backend)
    r = exe(features=np.empty((0, 6)), labels=np.empty((0, 3)))
    assert r["ce"] == 0
    assert r["z"].shape == (0, 3)
    assert not r.gradients["W0"].any()


# --- the bound -----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_up_to_the_bound_nothing_is_compiled_again(backend: str) -> None:
    exe = gc.compile(classifier(), outputs=["z"], backend=backend, batch=20)
    signature = exe.signature
    for samples in (1, 7, 20, 0, 19):
        assert exe(features=classes(samples)["features"])["z"].shape == (samples, 3)
    assert exe.signature is signature


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize(("samples", "bound"), [(21, 32), (32, 32), (33, 64), (1000, 1024)])
def test_above_the_bound_it_is_compiled_for_the_next_power_of_two(
    backend: str, samples: int, bound: int
) -> None:
    net = classifier()
    exe = gc.compile(net, outputs=["z"], backend=backend, batch=20)
    x = classes(samples)["features"]
    got = exe(features=x)["z"]
    assert [d.bound for d in exe.signature.dims] == [bound]
    wide = gc.compile(net, outputs=["z"], backend=backend, batch=samples)
    np.testing.assert_allclose(got, wide(features=x)["z"], rtol=1e-6)


def test_a_step_beyond_its_bound_keeps_state_rates_and_parameters() -> None:
    data = classes(50)
    learner = gc.SGD(learning_rate=0.5, momentum=0.9)
    values: list[dict[str, Array]] = []
    for bound in (10, 64):
        net = classifier()
        step = gc.compile_training(net, learner=learner, batch=bound, backend="numpy")
        step.nominal = 10
        step(**{n: a[:10] for n, a in data.items()})
        step(**data)
        values.append({**net.parameters, **step.learner_state})
    for name, value in values[0].items():
        np.testing.assert_allclose(value, values[1][name], rtol=1e-5, atol=1e-8)


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_parameters_are_live(backend: str) -> None:
    net = classifier()
    exe = gc.compile(net, outputs=["z"], backend=backend)
    x = GOOD["features"]
    before = exe(features=x)["z"]
    net.parameters["B1"][...] += 1
    np.testing.assert_allclose(exe(features=x)["z"], before + 1, rtol=1e-5)
    net.parameters["W1"] = np.zeros((3, 5))
    assert np.all(exe(features=x)["z"] == 1)


def test_assigning_copies_and_converts() -> None:
    net = classifier()
    value = np.arange(15.0).reshape(3, 5)
    net.parameters["w1"] = value
    value[...] = 0
    assert net.parameters["W1"].dtype == np.float32
    assert net.parameters["W1"].ravel().tolist() == list(range(15))
    net.parameters["W1"] = np.full((3, 5), 1e300)
    assert np.all(net.parameters["W1"] == np.inf)


@pytest.mark.parametrize(
    "value",
    [np.zeros((5, 3)), np.zeros(15), 0.0, [["a"] * 5] * 3, [[1], [2, 3]], None],
    ids=["transposed", "flat", "number", "text", "ragged", "nothing"],
)
def test_assigning_checks_shape_and_type(value: object) -> None:
    net = classifier()
    before = net.parameters["W1"].copy()
    with pytest.raises(gc.GraphcError) as raised:
        net.parameters["W1"] = value
    assert only(raised).slug == "input"
    assert only(raised).message.startswith("parameter `W1` requires ")
    assert net.parameters["W1"].tobytes() == before.tobytes()


def test_parameters_are_a_mapping_of_all_names() -> None:
    net = classifier()
    assert list(net.parameters) == ["W0", "B0", "W1", "B1"]
    assert len(net.parameters) == 4
    assert "w0" in net.parameters and "W2" not in net.parameters
    with pytest.raises(KeyError, match="the network has no parameter `W2`"):
        net.parameters["W2"]
    with pytest.raises(TypeError):
        del net.parameters["W0"]


def test_the_seed_decides_the_initial_values() -> None:
    first, same, other = (classifier(seed=s).parameters["W0"] for s in (1, 1, 2))
    assert first.tobytes() == same.tobytes() != other.tobytes()


# --- gradients -----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_gradients_of_parameters_and_inputs_are_central_differences(backend: str) -> None:
    net = classifier()
    data = {n: np.array(a) for n, a in classes(3).items()}
    # From here on the network holds its parameters in f64.
    gc.compile_training(net, learner=gc.SGD(learning_rate=0), backend="numpy", precision="f64")
    names = ["W0", "B0", "W1", "B1", "features", "labels"]
    exe = gc.compile(net, ["ce"], gradients=names, backend=backend, precision="f64")
    gradients = exe(**data).gradients
    assert list(gradients) == names
    for name in names:
        array = data[name] if name in data else net.parameters[name]
        wanted = central_difference(lambda: float(exe(**data)["ce"]), array)
        assert gradients[name].shape == array.shape
        np.testing.assert_allclose(gradients[name], wanted, rtol=1e-6, atol=1e-7)


def test_gradients_of_intermediate_nodes_are_central_differences() -> None:
    """A node's gradient is that of an input which is added to it."""
    net = classifier()
    z, labels = net.find("z"), net.find("labels")
    offset = net.input("offset", 3)
    moved = net.plus(z, offset, name="moved")
    net.cross_entropy_with_softmax(labels, moved, name="ce2")
    data = {**classes(3), "offset": np.zeros((3, 3))}
    exe = gc.compile(net, ["ce2"], gradients=["z", "h"], backend="numpy", precision="f64")
    gradients = exe(**data).gradients
    wanted = central_difference(lambda: float(exe(**data)["ce2"]), data["offset"])
    np.testing.assert_allclose(gradients["z"], wanted, rtol=1e-6, atol=1e-7)
    through_w1 = gradients["z"] @ net.parameters["W1"].astype(np.float64)
    np.testing.assert_allclose(gradients["h"], through_w1, rtol=1e-12)


def test_gradients_are_of_the_sum_of_the_first_output() -> None:
    net = classifier()
    data = classes(4)
    exe = gc.compile(net, ["z", "ce"], gradients=["B1", "z"], backend="numpy", precision="f64")
    gradients = exe(**data).gradients
    assert np.all(gradients["B1"] == 4)
    assert np.all(gradients["z"] == 1)


def test_what_does_not_influence_the_output_has_a_gradient_of_zeros() -> None:
    exe = gc.compile(classifier(), ["err"], gradients=["W0", "features"], backend="numpy")
    gradients = exe(**GOOD).gradients
    assert gradients["W0"].shape == (5, 6) and not gradients["W0"].any()
    assert gradients["features"].shape == (4, 6) and not gradients["features"].any()


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_a_trained_model_comes_back_bit_for_bit(tmp_path: Path, precision: str) -> None:
    net = gc.loads(MODEL, macros=[MACROS], defines={"HDim": 7}, seed=3)
    rng = np.random.default_rng(1)
    data = {
        "features": rng.standard_normal((40, 64)) * 3 + 5,
        "labels": np.eye(10)[rng.integers(0, 10, 40)],
    }
    gc.train(net, data, epochs=2, minibatch=8, learning_rate=0.5, precision=precision)
    net.save(tmp_path / "a.safetensors")
    again = gc.load(tmp_path / "a.safetensors")
    assert {n: (v.dtype, v.tobytes()) for n, v in again.parameters.items()} == {
        n: (v.dtype, v.tobytes()) for n, v in net.parameters.items()
    }
    assert {"m", "s", "W0", "z1.W", "z1.b"} == set(again.parameters)
    assert str(again) == str(net)
    results = [
        gc.compile(n, precision=precision, backend="numpy")(features=data["features"])["z"]
        for n in (net, again)
    ]
    assert results[0].tobytes() == results[1].tobytes()
    again.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_a_network_is_saved_before_anything_touched_its_parameters(tmp_path: Path) -> None:
    net = gc.loads(CLASSIFIER, defines={"FeatDim": 6, "HDim": 5, "LabelDim": 3}, seed=9)
    net.save(tmp_path / "a.safetensors")
    again = gc.load(tmp_path / "a.safetensors")
    for name, value in net.parameters.items():
        assert again.parameters[name].tobytes() == value.tobytes()


def test_a_loaded_model_is_built_on(tmp_path: Path) -> None:
    classifier().save(tmp_path / "a.safetensors")
    net = gc.load(tmp_path / "a.safetensors")
    assert isinstance(net, gc.Network)
    z = net.find("z")
    assert z is not None
    net.softmax(z, name="p", tag="output")
    p = gc.compile(net, outputs=["p"], backend="numpy")(features=GOOD["features"])["p"]
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)


# --- statistics ----------------------------------------------------------------------------------


def statistics_network() -> gc.Network:
    net = gc.loads("""
        x = Input(4)
        m = Mean(x)
        s = InvStdDev(x)
        n = PerDimMeanVarNormalization(x, m, s)
        e = Exp(n)
        m2 = Mean(e)
        s2 = InvStdDev(e)
        n2 = PerDimMeanVarNormalization(e, m2, s2)
        OutputNodes = (n, n2)
    """)
    assert isinstance(net, gc.Network)
    return net


def statistics_data(samples: int = 3000) -> Array:
    x = np.random.default_rng(0).standard_normal((samples, 4)) * [1, 3, 0.1, 1] + [0, 5, -2, 0]
    x[:, 3] = 7.0
    return x


@pytest.mark.parametrize("samples", [1, 2, 1024, 1025, 3000])
def test_statistics_are_those_of_numpy(samples: int) -> None:
    net, x = statistics_network(), statistics_data(samples)
    net.precompute(x=x)
    found = net.parameters
    np.testing.assert_allclose(found["m"][:, 0], x.mean(axis=0), rtol=1e-6, atol=1e-7)
    deviation = 1 / np.sqrt(np.maximum(x.var(axis=0), 1e-10))
    np.testing.assert_allclose(found["s"][:, 0], deviation, rtol=1e-6)
    assert found["m"].shape == found["s"].shape == (4, 1)


def test_a_constant_column_has_the_largest_deviation_and_normalises_to_zero() -> None:
    net, x = statistics_network(), statistics_data()
    net.precompute(x=x)
    assert net.parameters["s"][3, 0] == np.float32(1e5)
    n = gc.compile(net, outputs=["n"], backend="numpy")(x=x)["n"]
    assert not n[:, 3].any()


def test_statistics_of_statistics_are_computed_in_order() -> None:
    net, x = statistics_network(), statistics_data()
    net.precompute(x=x)
    e = np.exp((x - x.mean(axis=0)) / np.sqrt(np.maximum(x.var(axis=0), 1e-10)))
    np.testing.assert_allclose(net.parameters["m2"][:, 0], e.mean(axis=0), rtol=1e-5)
    deviation = 1 / np.sqrt(np.maximum(e.var(axis=0), 1e-10))
    np.testing.assert_allclose(net.parameters["s2"][:3, 0], deviation[:3], rtol=1e-5)


def test_statistics_have_the_digits_of_a_training_in_f64() -> None:
    net = gc.loads("""
        x = Input(4)
        y = Input(1)
        m = Mean(x)
        s = InvStdDev(x)
        n = PerDimMeanVarNormalization(x, m, s)
        W = Parameter(1, 4)
        t = Times(W, n)
        c = SquareError(y, t, tag=criteria)
    """)
    x = statistics_data()
    data = {"x": x, "y": np.zeros((3000, 1))}
    gc.train(net, data, learning_rate=0.0, precision="f64", backend="numpy")
    np.testing.assert_allclose(net.parameters["m"][:, 0], x.mean(axis=0), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(net.parameters["s"][:3, 0], 1 / x.std(axis=0)[:3], rtol=1e-13)


def test_the_mean_of_numbers_far_from_zero_loses_no_digits() -> None:
    net = statistics_network()
    x = statistics_data() + 1e7
    net.precompute(x=x)
    np.testing.assert_allclose(net.parameters["s"][:3, 0], 1 / x.std(axis=0)[:3], rtol=1e-6)


def test_statistics_that_have_a_value_keep_it() -> None:
    net, x = statistics_network(), statistics_data()
    net.precompute(x=x)
    before = net.parameters["m"].copy()
    net.precompute(x=x + 1)
    assert net.parameters["m"].tobytes() == before.tobytes()


def test_without_samples_there_are_no_statistics() -> None:
    with pytest.raises(gc.GraphcError) as raised:
        statistics_network().precompute(x=np.empty((0, 4)))
    assert only(raised).slug == "input"


def test_compiling_before_precompute_says_what_to_do() -> None:
    with pytest.raises(gc.GraphcError) as raised:
        gc.compile(statistics_network(), backend="numpy")
    assert {d.slug for d in raised.value.diagnostics} == {"not-precomputed"}
    assert "`gc.train` or `net.precompute` computes it over data" in str(raised.value)


# --- the same every time -------------------------------------------------------------------------

HASHED = """
import hashlib, sys
import graphc as gc
from tests.support.networks import classes, classifier

net, digest = classifier(), hashlib.sha256()
gc.train(net, classes(30), epochs=2, minibatch=8, learning_rate=1, backend=sys.argv[1])
r = gc.compile(net, ["ce", "z"], gradients=["W0", "h"], backend=sys.argv[1])(**classes(4))
for name, value in [*net.parameters.items(), *r.items()]:
    digest.update(name.encode() + value.tobytes())
digest.update(str(net).encode())
sys.stdout.write(digest.hexdigest())
"""


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_results_do_not_depend_on_the_seed_of_hashing(backend: str) -> None:
    root = str(Path(__file__).parents[2])
    found: set[str] = set()
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        done = subprocess.run(
            [sys.executable, "-c", HASHED, backend],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1
    assert len(found.pop()) == 64


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "slug", "message"),
    [
        ({"outputs": ["zz"]}, "missing-node", "the network has no node `zz`"),
        ({"gradients": ["fetures"]}, "missing-node", "did you mean `features`?"),
        ({"gradients": ["labels"]}, "missing-node", "no gradient with respect to `labels`"),
        ({"backend": "lvm"}, "bad-option", "got `lvm`; did you mean `llvm`?"),
        ({"precision": "f16"}, "bad-option", "a precision is f32 or f64, got `f16`"),
        ({"batch": 0}, "bad-option", "batch requires 1 to 2147483647 samples, got 0"),
        ({"batch": 2.5}, "bad-option", "batch requires 1 to 2147483647 samples, got 2.5"),
    ],
)
def test_a_wrong_option_is_one_error(options: dict[str, object], slug: str, message: str) -> None:
    with pytest.raises(gc.GraphcError) as raised:
        gc.compile(classifier(), **options)  # type: ignore[arg-type]
    assert only(raised).slug == slug
    assert message in only(raised).message


def test_one_name_stands_for_a_list_of_it() -> None:
    exe = gc.compile(classifier(), "ce", gradients="W0", backend="numpy")
    assert list(exe(**GOOD)) == ["ce", "gradient.W0"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: gc.compile(3),  # type: ignore[arg-type]
        lambda: gc.loads(b"x = Input(3)"),  # type: ignore[arg-type]
        lambda: gc.train(classifier(), [1], learning_rate=0.1),  # type: ignore[arg-type]
        lambda: gc.evaluate(classifier(), [1]),  # type: ignore[arg-type]
    ],
)
def test_a_thing_of_the_wrong_kind_is_an_error(call: object) -> None:
    assert callable(call)
    with pytest.raises(gc.GraphcError) as raised:
        call()
    assert only(raised).slug == "argument-type"
