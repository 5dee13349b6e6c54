"""What a function in f64 computes with: the digits given, whatever was compiled before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import graphc as gc

Array = np.ndarray
BACKENDS = ("reference", "numpy", "llvm")
TEXT = """
    x = Input(2)
    t = Input(3)
    W = Parameter(3, 2, init=fixedValue, value=0.1)
    z = Times(W, x, tag=output)
    e = SquareError(t, z, tag=criterion)
"""
TENTH = np.full((3, 2), 0.1)
IDENTITY = np.eye(2)
"""As samples: the products are the columns of the parameter."""


def network(text: str = TEXT, folder: Path | None = None) -> gc.Network:
    net = gc.loads(text) if folder is None else gc.load(folder / "net.ndl")
    assert isinstance(net, gc.Network)
    return net


def seen(net: gc.Network, precision: str = "f64", *, freeze: bool = False) -> Array:
    """W as a function of this precision has it."""
    exe = gc.compile(net, ["z"], backend="numpy", precision=precision, freeze=freeze)
    return np.array(exe(x=IDENTITY)["z"]).T


def train(net: gc.Network, precision: str, rate: float = 0.0, backend: str = "numpy") -> None:
    """One step on two samples, each of which pulls one column of W towards zero."""
    learner = gc.SGD(rate)
    step = gc.compile_training(net, learner=learner, batch=2, precision=precision, backend=backend)
    step(x=IDENTITY, t=np.zeros((2, 3)))


BEFORE: dict[str, Callable[[gc.Network], object]] = {
    "nothing": lambda net: None,
    "read": lambda net: dict(net.parameters),
    "compiled in f32": lambda net: gc.compile(net, ["z"])(x=IDENTITY),
    "compiled in f64": lambda net: gc.compile(net, ["z"], precision="f64")(x=IDENTITY),
    "trained in f64": lambda net: train(net, "f64"),
}


@pytest.mark.parametrize("before", BEFORE)
def test_a_value_in_the_text_is_that_number(before: str) -> None:
    net = network()
    BEFORE[before](net)
    np.testing.assert_array_equal(seen(net), TENTH)
    np.testing.assert_array_equal(seen(net, freeze=True), TENTH)
    np.testing.assert_array_equal(seen(net, "f32"), TENTH.astype(np.float32))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_has_it_and_so_has_training(backend: str) -> None:
    for freeze in (False, True):
        exe = gc.compile(network(), ["z"], backend=backend, precision="f64", freeze=freeze)
        np.testing.assert_array_equal(exe(x=IDENTITY)["z"].T, TENTH)
    net = network()
    train(net, "f64", rate=0.5, backend=backend)
    np.testing.assert_allclose(net.parameters["W"], TENTH - 0.5 * TENTH / 2, rtol=1e-15)


def test_a_matrix_in_a_file_is_those_numbers(tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text("0.1 0.2\n0.3 1e-30\n-0.7 3\n")
    fixed = "init=fixedValue, value=0.1"
    (tmp_path / "net.ndl").write_text(
        TEXT.replace(fixed, 'init=fromFile, initFromFilePath="w.txt"')
    )
    net = network(folder=tmp_path)
    wanted = np.array([[0.1, 0.2], [0.3, 1e-30], [-0.7, 3]])
    np.testing.assert_array_equal(seen(net, "f32"), wanted.astype(np.float32))
    np.testing.assert_array_equal(seen(net), wanted)


@pytest.mark.parametrize("before", BEFORE)
def test_what_is_assigned_are_those_numbers(before: str) -> None:
    net = network()
    BEFORE[before](net)
    wanted = np.random.default_rng(0).standard_normal((3, 2))
    net.parameters["W"] = wanted
    np.testing.assert_array_equal(seen(net), wanted)
    np.testing.assert_array_equal(seen(net, "f32"), wanted.astype(np.float32))


def test_what_is_assigned_may_lie_beyond_f32() -> None:
    net = network()
    wanted = np.array([[1e300, -1e300], [1e-300, 0.1], [-0.0, 5]])
    net.parameters["W"] = wanted
    assert net.parameters["W"].tolist() == [[np.inf, -np.inf], [0, np.float32(0.1)], [0, 5]]
    np.testing.assert_array_equal(seen(net), wanted)


def test_what_is_assigned_belongs_to_the_network() -> None:
    net = network()
    given = TENTH.copy()
    net.parameters["W"] = given
    given[...] = 5
    np.testing.assert_array_equal(seen(net), TENTH)


def test_elements_that_are_changed_in_place_are_what_the_array_holds() -> None:
    net = network()
    function = gc.compile(net, ["z"], precision="f64")
    net.parameters["W"][1, 0] = 0.3
    net.parameters["W"][2, 1] = -0.1
    wanted = TENTH.copy()
    wanted[1, 0], wanted[2, 1] = np.float32(0.3), np.float32(-0.1)
    np.testing.assert_array_equal(function(x=IDENTITY)["z"].T, wanted)
    np.testing.assert_array_equal(seen(net, freeze=True), wanted)


def test_random_values_are_those_of_f32() -> None:
    text = TEXT.replace("init=fixedValue, value=0.1", "init=gaussian")
    held = network(text).parameters["W"]
    assert held.dtype == np.float32
    np.testing.assert_array_equal(seen(network(text)), held)


def test_what_f32_trained_is_what_f64_computes_with() -> None:
    for rate in (0.0, 0.5):
        net = network()
        train(net, "f32", rate)
        held = net.parameters["W"]
        assert held.dtype == np.float32
        np.testing.assert_array_equal(seen(net), held)


def test_a_training_in_f32_leaves_what_it_does_not_train() -> None:
    bias = "b = Parameter(3, 1, init=fixedValue, value=0.2, needGradient=false)"
    net = network(TEXT.replace("z = Times(W, x,", bias + "\np = Times(W, x)\nz = Plus(p, b,"))
    train(net, "f32", rate=0.5)
    exe = gc.compile(net, ["z"], backend="numpy", precision="f64")
    np.testing.assert_array_equal(exe(x=np.zeros((1, 2)))["z"], [[0.2] * 3])


def test_functions_in_f32_stay_on_the_live_arrays() -> None:
    net = network()
    step = gc.compile_training(net, learner=gc.SGD(0.1), backend="numpy")
    function = gc.compile(net, ["z"], backend="numpy")
    held = net.parameters["W"]
    seen(net)
    step(x=IDENTITY, t=np.zeros((2, 3)))
    assert net.parameters["W"] is held
    np.testing.assert_array_equal(function(x=IDENTITY)["z"].T, held)
    assert held[0, 0] < 0.1


def test_a_model_file_has_the_type_that_the_network_holds(tmp_path: Path) -> None:
    net = network()
    net.save(tmp_path / "held.safetensors")
    train(net, "f64")
    net.save(tmp_path / "trained.safetensors")
    narrow = gc.load(tmp_path / "held.safetensors")
    wide = gc.load(tmp_path / "trained.safetensors")
    assert isinstance(narrow, gc.Network)
    assert isinstance(wide, gc.Network)
    np.testing.assert_array_equal(seen(narrow), TENTH.astype(np.float32))
    np.testing.assert_array_equal(seen(wide), TENTH)


def test_a_parameter_that_comes_after_a_training_in_f64_has_its_digits() -> None:
    net = network()
    train(net, "f64")
    net.parameter("late", 3, init="fixedValue", value=0.7)
    assert net.parameters["late"].dtype == np.float64
    np.testing.assert_array_equal(net.parameters["late"], np.full((3, 1), 0.7))


@pytest.mark.parametrize("backend", BACKENDS)
def test_statistics_have_the_digits_of_f64_though_f32_holds_them(backend: str) -> None:
    net = network("x = Input(2)\nm = Mean(x)\ns = InvStdDev(x)\nOutputNodes = (m2, s2)\n"
                  "m2 = Plus(m, Minus(x, x))\ns2 = Plus(s, Minus(x, x))")  # fmt: skip
    x = np.random.default_rng(0).standard_normal((100, 2)) + 3
    net.precompute(x=x)
    assert net.parameters["m"].dtype == np.float32
    gc.compile(net)
    found = gc.compile(net, backend=backend, precision="f64")(x=x[:1])
    np.testing.assert_allclose(found["m2"][0], x.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found["s2"][0], 1 / x.std(axis=0), rtol=1e-14)


def test_a_statistic_of_a_statistic_is_computed_from_all_digits() -> None:
    net = network("""
        x = Input(2)
        m = Mean(x)
        d = Minus(x, m)
        n = Mean(d)
        OutputNodes = (n2)
        n2 = Plus(n, d)
    """)
    x = np.random.default_rng(0).standard_normal((100, 2)) + 1e6
    net.precompute(x=x)
    assert np.abs(net.parameters["n"]).max() < 1e-9  # with the mean of f32 it is up to 0.03
