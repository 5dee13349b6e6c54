"""Inputs that not every call gives, and what is computed of frozen parameters alone: the numbers
of a network that is given and computes everything in every call."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.backends.cuda.platform import using
from graphc.builder import GraphBuilder
from graphc.driver.artifact import ArtifactRequest, prepare_emission
from graphc.driver.options import CompileOptions
from graphc.runtime.executable import Executable
from tests.support.cuda.emulator import emulated_platform

Array = np.ndarray
NETWORK = """
features = Input(9, tag=feature)
speaker = Input(5)
W = Parameter(4, 9)
V = Parameter(4, 5)
prior = Parameter(4, 1)
s = Tanh(Times(V, speaker))
z = Minus(Plus(Times(W, features), s), Log(Exp(prior)), tag=output)
y = ElementTimes(s, z)
q = Exp(prior)
"""
OUTPUTS = ["z", "y", "s", "q"]


def network() -> GraphBuilder:
    net = gc.loads(NETWORK)
    net.parameters["prior"] = np.array([[0.5], [-1.0], [2.0], [0.25]])
    return net


def inputs(count: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    shapes = {"features": (count, 9), "speaker": (count, 5)}
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def same(found: object, wanted: object, backend: str) -> None:
    for name in OUTPUTS:
        one, other = found[name], wanted[name]  # type: ignore[index]
        assert one.shape == other.shape
        if backend not in ("llvm", "c"):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("freeze", [True, False])
@pytest.mark.parametrize("backend", ["llvm", "c", "numpy", "reference", "cuda"])
def test_a_call_goes_on_with_what_was_given_last(backend: str, freeze: bool) -> None:
    net = network()
    with using(emulated_platform()) if backend == "cuda" else nullcontext():
        live = gc.compile(net, OUTPUTS, backend=backend)
        exe = gc.compile(net, OUTPUTS, backend=backend, freeze=freeze, seldom="speaker", batch=4)
        for k, count in enumerate((3, 6, 1)):  # 6 is beyond the bound
            given = inputs(count, k)
            same(exe(**given), live(**given), backend)
            for again in range(4):
                other = inputs(count, 10 + again) | {"speaker": given["speaker"]}
                same(exe(features=other["features"]), live(**other), backend)


@pytest.fixture
def exe() -> Executable:
    return gc.compile(network(), OUTPUTS, freeze=True, seldom=["speaker"])


def test_what_is_not_given_anew_is_not_looked_at_again(exe: Executable) -> None:
    given = inputs(2)
    before = exe(**given)
    given["speaker"][...] = 7
    same(exe(features=given["features"]), before, "llvm")
    assert not np.array_equal(exe(**given)["s"], before["s"])


def test_a_changed_array_is_not_looked_at_when_another_is_given_anew() -> None:
    exe = gc.compile(network(), OUTPUTS, seldom=["speaker", "features"], freeze=True, batch=2)
    live = gc.compile(network(), OUTPUTS)
    given, other = inputs(2, 1), inputs(2, 2)
    wanted = live(features=other["features"], speaker=given["speaker"])
    exe(**given)
    given["speaker"][...] = 7
    same(exe(features=other["features"]), wanted, "llvm")
    given["speaker"][...] = 8
    same(exe(features=other["features"]), wanted, "llvm")


def test_more_samples_whose_function_is_taken_apart_elsewhere() -> None:
    """Two products of one row stay two, of more rows they are one."""
    net = gc.loads("""
        x = Input(3)
        s = Input(3)
        A = Parameter(3, 3)
        B = Parameter(3, 3)
        z = ElementTimes(x, ElementTimes(Times(A, s), Times(B, s)), tag=output)
    """)
    exe = gc.compile(net, freeze=True, seldom="s", batch=1)
    A, B = (net.parameters[name].astype(np.float64) for name in "AB")
    rng = np.random.default_rng(0)
    for count in (1, 2, 1, 5):
        x, s = rng.standard_normal((2, count, 3)).astype(np.float32)
        wanted = x * (s @ A.T) * (s @ B.T)
        np.testing.assert_allclose(exe(x=x, s=s)["z"], wanted, rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(exe(x=x)["z"], wanted, rtol=1e-4, atol=1e-7)


def test_live_parameters_are_read_at_every_call() -> None:
    net = network()
    exe, live = gc.compile(net, OUTPUTS, seldom="speaker"), gc.compile(net, OUTPUTS)
    given = inputs(2)
    exe(**given)
    net.parameters["V"] = np.ones((4, 5))
    same(exe(features=given["features"]), live(**given), "llvm")


def test_a_first_call_without_them_is_an_error(exe: Executable) -> None:
    with pytest.raises(gc.GraphcError, match="no call has given speaker yet"):
        exe(features=inputs(2)["features"])


def test_another_number_of_samples_wants_them_anew(exe: Executable) -> None:
    for _ in range(4):
        exe(**inputs(2))
        exe(features=inputs(2)["features"])
    with pytest.raises(gc.GraphcError, match=r"speaker requires 3 samples .* given with 2"):
        exe(features=inputs(3)["features"])
    assert exe(**inputs(3))["z"].shape == exe(features=inputs(3)["features"])["z"].shape == (3, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"features": np.zeros((2, 8))},
        {"features": np.zeros((3, 9))},
        {"features": np.zeros((2, 9)), "other": np.zeros((2, 1))},
        {},
    ],
)
def test_a_call_that_fails_leaves_what_was_given_before(
    exe: Executable, wrong: dict[str, Array]
) -> None:
    first, second = inputs(2, 1), inputs(2, 2)
    with pytest.raises(gc.GraphcError):
        exe(speaker=first["speaker"], **wrong)
    with pytest.raises(gc.GraphcError, match="no call has given speaker yet"):
        exe(features=first["features"])
    for _ in range(3):
        wanted = exe(**first)
        with pytest.raises(gc.GraphcError):
            exe(speaker=second["speaker"], **wrong)
        same(exe(features=first["features"]), wanted, "llvm")


def test_several_are_given_one_by_one() -> None:
    exe = gc.compile(network(), OUTPUTS, seldom=["speaker", "features"], freeze=True)
    live = gc.compile(network(), OUTPUTS)
    first, second = inputs(2, 1), inputs(2, 2)
    same(exe(**first), live(**first), "llvm")
    same(exe(), live(**first), "llvm")
    same(
        exe(Features=second["features"]),
        live(**{**first, "features": second["features"]}),
        "llvm",
    )


def test_sparse_ones_and_gradients() -> None:
    net = gc.loads("""
    x = Input(3, tag=feature)
    word = SparseInput(7)
    E = Parameter(3, 7)
    W = Parameter(2, 3)
    z = Times(W, ElementTimes(x, Sigmoid(Times(E, word))), tag=output)
    """)
    live = gc.compile(net, gradients=["W", "x"])
    exe = gc.compile(net, gradients=["W", "x"], seldom="word", freeze=True)
    word, rng = (np.array([1, 6, 0]), np.array([0, 2, 3])), np.random.default_rng(3)
    for k in range(3):
        x = rng.standard_normal((2, 3)).astype(np.float32)
        found, wanted = exe(x=x, word=word) if k == 0 else exe(x=x), live(x=x, word=word)
        for name in ("W", "x"):
            one, other = found.gradients[name], wanted.gradients[name]
            np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("speakr", "no node `speakr`; did you mean `speaker`"),
        ("V", "nothing depends on V and on no other input"),
        (3, "seldom requires"),
    ],
)
def test_wrong_names(names: object, message: str) -> None:
    with pytest.raises(gc.GraphcError, match=message):
        gc.compile(network(), OUTPUTS, seldom=names)  # type: ignore[arg-type]


def test_sequences_are_refused() -> None:
    net = gc.loads("x = Input(2)\nu = Input(2)\nz = Plus(Plus(x, u), PastValue(2, z), tag=output)")
    with pytest.raises(gc.GraphcError, match="seldom= is for inputs of samples"):
        gc.compile(net, seldom="u")


def test_parameters_that_are_replaced_do_not_reach_what_was_computed_once() -> None:
    net = network()
    frozen = gc.compile(net, OUTPUTS, freeze=True, batch=2)
    wanted = gc.compile(net, OUTPUTS)(**inputs(5))
    net.parameters["prior"] = np.zeros((4, 1))
    same(frozen(**inputs(5)), wanted, "llvm")


@pytest.mark.parametrize("backend", ["llvm", "c", "numpy", "cuda"])
def test_files_hold_what_depends_on_parameters_alone(backend: str, tmp_path: Path) -> None:
    request = ArtifactRequest(("obj",), tmp_path / "net", version="0", outputs=("z",))
    made = prepare_emission(network().model, backend, request, CompileOptions())
    (name,) = (n for n in made.request.parameters if n.startswith("early."))
    exact = np.log(np.exp(np.array([0.5, -1.0, 2.0, 0.25])))
    np.testing.assert_allclose(made.request.parameters[name].ravel(), exact, rtol=1e-6)
    assert "prior" not in made.request.parameters
