"""Programs: one compilation for every size up to the bounds, judged by numpy at each."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.driver.artifact import ArtifactRequest, emit
from graphc.driver.options import CompileOptions
from tests.support.compiling import JUDGED, RUN_HERE

Array = np.ndarray
EVERYWHERE = pytest.mark.parametrize("backend", RUN_HERE)
WEIGHTS = np.random.default_rng(3).normal(size=(8, 12))
SIZES = [(n, t) for n in (0, 1, 2, 3) for t in (0, 1, 4, 5)]


def attend(q: Any, k: Any, v: Any, out: Any) -> Any:
    scores = q @ k.transpose(0, 2, 1) / 2.0
    y = gc.softmax(scores) @ v
    z = (y.reshape(-1, 8) @ WEIGHTS).reshape(y.shape[0], y.shape[1], 12) + out["b"]
    return {"y": y, "z": z, "mean": gc.mean(z, axis=(0, 1)), "elements": z.size, "first": z[..., 0]}


def attention(bound: int = 5) -> gc.Program:
    types = dict.fromkeys(("q", "k", "v"), "NxTx8xf64")
    return gc.program(
        attend, types, parameters={"out": {"b": np.arange(12.0)}}, bounds={"N": 3, "T": bound}
    )


def attended(q: Array, k: Array, v: Array) -> dict[str, Array]:
    scores = np.exp(q @ k.transpose(0, 2, 1) / 2.0)
    y = scores / scores.sum(-1, keepdims=True) @ v
    z = y @ WEIGHTS + np.arange(12.0)
    with np.errstate(invalid="ignore"):
        mean = z.sum((0, 1)) / np.float64(z.shape[0] * z.shape[1])
    return {"y": y, "z": z, "mean": mean, "elements": np.array(z.size), "first": z[..., 0]}


def drawn(n: int, t: int) -> dict[str, Array]:
    rng = np.random.default_rng(n * 100 + t)
    return {name: rng.normal(size=(n, t, 8)) for name in ("q", "k", "v")}


@pytest.mark.parametrize("backend", JUDGED)
@pytest.mark.parametrize("freeze", [False, True])
def test_a_program_is_right_at_every_size_up_to_its_bounds(backend: str, freeze: bool) -> None:
    call = gc.compile(attention(), backend=backend, freeze=freeze)
    for n, t in SIZES:
        given = drawn(n, t)
        got, wanted = call(**given), attended(**given)
        assert set(got) == set(wanted)
        for name, array in wanted.items():
            assert np.shape(got[name]) == array.shape
            np.testing.assert_allclose(got[name], array, 1e-12, 1e-12, err_msg=f"{name} {n} {t}")


def test_a_call_beyond_a_bound_compiles_for_a_larger_one() -> None:
    given = drawn(7, 9)
    np.testing.assert_allclose(gc.compile(attention())(**given)["z"], attended(**given)["z"], 1e-12)


@EVERYWHERE
def test_gradients_of_a_program(backend: str) -> None:
    call = gc.compile(attention(), "z", gradients=["v", "out.b"], backend=backend)
    given = drawn(2, 3)
    found = call(**given)
    np.testing.assert_allclose(found["gradient.out.b"], np.full(12, 6.0))
    moved = {**given, "v": given["v"].copy()}
    moved["v"][1, 2, 5] += 1e-6
    change = (attended(**moved)["z"].sum() - attended(**given)["z"].sum()) / 1e-6
    np.testing.assert_allclose(found["gradient.v"][1, 2, 5], change, 1e-6)


def recurrent(xs: Any, w: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = gc.tanh(x + h @ w)
        return h, h

    def loss(w: Any) -> Any:
        last, _ = gc.scan(lambda h, x: (gc.tanh(x + h @ w), None), gc.zeros((xs.shape[1], 3)), xs)
        return gc.sum(last)

    _, hs = gc.scan(step, gc.zeros((xs.shape[1], 3)), xs)
    return hs, xs.shape[0], gc.grad(loss)(w)


@EVERYWHERE
def test_loops_and_gradients_over_a_length_that_the_call_decides(backend: str) -> None:
    w = np.array([[0.1, 0.3, -0.2], [0.0, 0.5, 0.4], [-0.6, 0.2, 0.1]])
    call = gc.compile(
        gc.program(recurrent, {"xs": "TxNx3xf64"}, parameters={"w": w}), backend=backend
    )

    def states(w: Array, xs: Array) -> Array:
        h, found = np.zeros((xs.shape[1], 3)), []
        for x in xs:
            h = np.tanh(x + h @ w)
            found.append(h)
        return np.array(found).reshape(xs.shape)

    for steps, n in ((0, 2), (1, 1), (4, 2), (9, 0)):
        xs = np.random.default_rng(steps).normal(size=(steps, n, 3))
        found = call(xs=xs)
        np.testing.assert_allclose(found["result0"], states(w, xs), 1e-12)
        assert found["result1"] == steps
        for place in np.ndindex(3, 3):
            moved = w.copy()
            moved[place] += 1e-6
            change = sum(states(moved, xs)[-1:].ravel()) - sum(states(w, xs)[-1:].ravel())
            np.testing.assert_allclose(found["result2"][place], change / 1e-6, 1e-4, 1e-5)


def test_parameters_are_live_unless_they_are_frozen() -> None:
    net = gc.program(lambda x, w: x @ w, {"x": "Nx2"}, parameters={"w": np.eye(2, dtype="f4")})
    live, frozen = gc.compile(net), gc.compile(net, freeze=True)
    x = np.array([[1.0, 2.0]], "f4")
    net.parameters["w"] = [[2, 0], [0, 3]]
    assert live(x=x)["result"].tolist() == [[2, 6]]
    assert frozen(x=x)["result"].tolist() == [[1, 2]]
    with pytest.raises(gc.GraphcError, match=r"`w` requires numbers of shape \(2, 2\)"):
        net.parameters["w"] = np.zeros(2)
    with pytest.raises(KeyError, match="no parameter `v`"):
        net.parameters["v"]


def test_names_of_parameters_and_results() -> None:
    layers = [{"w": np.ones((2, 2)), "b": np.zeros(2)} for _ in range(2)]

    def f(x: Any, layers: Any) -> Any:
        for layer in layers:
            x = gc.relu(x @ layer["w"] + layer["b"])
        return {"deep": {"y": x}, "both": (x, WEIGHTS)}

    net = gc.program(f, {"x": "Nx2xf64"}, parameters={"layers": layers})
    assert [*net.parameters] == [
        *("layers.0.w", "layers.0.b", "layers.1.w", "layers.1.b"),
        "WEIGHTS",
    ]
    assert [r.name for r in net.function.results] == ["deep.y", "both.0", "both.1"]


def test_the_same_again_from_a_file(tmp_path: Path) -> None:
    net, path = attention(), tmp_path / "net.safetensors"
    net.save(path)
    read = gc.load_program(path)
    assert str(read.module) == str(net.module)
    given = drawn(2, 4)
    np.testing.assert_array_equal(gc.compile(read)(**given)["z"], gc.compile(net)(**given)["z"])
    with pytest.raises(gc.GraphcError, match="holds a program, a network is required"):
        gc.load(path)
    network = tmp_path / "network.safetensors"
    gc.loads(NDL).save(network)
    with pytest.raises(gc.GraphcError, match="holds a network, a program is required"):
        gc.load_program(network)


NDL = "x = Input(2, tag=feature)\nW = Parameter(1, 2)\nz = Times(W, x, tag=output)"


def test_a_library_takes_each_size(tmp_path: Path) -> None:
    net = attention(4)
    emit(net, ArtifactRequest(["so"], tmp_path / "net.so"), CompileOptions())
    library = ctypes.CDLL(str(tmp_path / "net.so"))
    library.net_arena_bytes.restype = ctypes.c_int64
    arena = np.empty(library.net_arena_bytes() + 64, np.uint8)
    start = arena.ctypes.data + -arena.ctypes.data % 64

    def run(n: int, t: int, given: dict[str, Array], results: dict[str, Array]) -> int:
        arrays = [a.ctypes.data for a in (*given.values(), *results.values())]
        sizes = [ctypes.c_int64(n), ctypes.c_int64(t)]
        return library.net_run(*sizes, *map(ctypes.c_void_p, arrays), ctypes.c_void_p(start))

    for n, t in ((0, 3), (1, 1), (3, 4), (2, 3)):
        given, wanted = drawn(n, t), attended(**drawn(n, t))
        results = {name: np.empty_like(array) for name, array in wanted.items()}
        assert run(n, t, given, results) == 0
        for name, array in wanted.items():
            np.testing.assert_allclose(results[name], array, 1e-12, 1e-12)
    assert run(3, 5, given, results) == 1
    assert run(-1, 2, given, results) == 1


WRONG: list[tuple[str, Any, str]] = [
    ("length", lambda x: len(x), "the length N is known at the call only"),
    ("reshape", lambda x: x.reshape(7, 3), r"requires a shape of N \* 4 elements, got \(7, 3\)"),
    ("sizes", lambda x: x + gc.zeros((5, 4)), r"requires shapes that broadcast: .*\(N, 4\)"),
    ("cut", lambda x: x[1:] + x, r"equal in every call .* got \(N - 1, 4\) and \(N, 4\)"),
    ("element", lambda x: x[1.5], "requires indices that are integers, slices"),
    ("step", lambda x: x[::0], "requires a step other than 0"),
    ("pad", lambda x: gc.pad(x, -1), "requires widths of at least 0"),
    ("window", lambda x: gc.cross_correlate(x, gc.ones((2, 5))), r"got \(2, 5\) for \(N, 4\)"),
    ("jacobian", lambda x: gc.jacobian(gc.tanh)(x), "sizes that are known before the call"),
    ("nothing", lambda x: (), "a program requires a result"),
    ("text", lambda x: "y", "requires arrays and numbers as results"),
]


@pytest.mark.parametrize(("f", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_a_size_of_the_call_cannot_do(f: Any, message: str) -> None:
    with pytest.raises(gc.GraphcError, match=message):
        gc.program(f, {"x": "Nx4"})


def product(x: Any, w: Any) -> Any:
    return x @ w


ASKED: list[tuple[str, dict[str, Any], str]] = [
    ("type", {"inputs": {"x": "nx4", "w": "4x4"}}, 'requires sizes, names of dims .* got "nx4"'),
    ("element", {"inputs": {"x": "Nx4xf16", "w": "4x4"}}, "f16"),
    ("kind", {"inputs": {"x": 4, "w": "4x4"}}, 'requires a type such as "Nx64xf32"'),
    ("missing", {"inputs": {"x": "Nx4"}}, r"do not fit the arguments \(x, w\): missing .*'w'"),
    ("twice", {"inputs": {"x": "N", "w": "N"}, "parameters": {"w": 1}}, "an input and a parameter"),
    ("bound", {"inputs": {"x": "Nx4"}, "bounds": {"N": 0}}, "whole number from 1 to"),
    ("name", {"inputs": {"x": "Nx4"}, "bounds": {"n": 4}}, "names of dims in capital letters"),
    (
        "value",
        {"inputs": {"x": "Nx4"}, "parameters": {"w": "w"}},
        "parameter `w` requires an array",
    ),
]


@pytest.mark.parametrize(("asked", "message"), [a[1:] for a in ASKED], ids=[a[0] for a in ASKED])
def test_what_is_asked_wrongly(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(gc.GraphcError, match=message):
        gc.program(product, **asked)


def test_a_dim_of_the_inputs_may_not_be_called_as_a_product() -> None:
    with pytest.raises(gc.GraphcError, match=r"the dim N4 .* give it another name"):
        gc.program(lambda x, y: (x.reshape(-1), y), {"x": "Nx4", "y": "N4"})


def test_options_that_a_program_does_not_take() -> None:
    net = gc.program(product, {"x": "Nx2", "w": "2x2"})
    with pytest.raises(gc.GraphcError, match="no result `z`"):
        gc.compile(net, "z")
    with pytest.raises(gc.GraphcError, match="seldom= is for networks"):
        gc.compile(net, seldom="w")


@pytest.mark.parametrize(
    ("dtype", "value", "got"),
    [
        ("i32", np.array([0, 2**32]), "int32, got 4294967296"),
        ("i32", np.array([-(2**40), 7]), "int32, got -1099511627776"),
        ("i64", np.array([1, 2**63], np.uint64), "int64, got 9223372036854775808"),
        ("u8", np.array([255, 256], np.int16), "uint8, got 256"),
        ("u8", np.array([0, -1], np.int8), "uint8, got -1"),
    ],
)
def test_whole_numbers_that_a_type_lacks_are_no_others(dtype: str, value: Array, got: str) -> None:
    """They kept their low bits: 2^32 was class 0."""
    run = gc.compile(gc.program(lambda x: {"y": x + 0}, {"x": f"Nx{dtype}"}), backend="numpy")
    with pytest.raises(gc.GraphcError, match=rf"input x requires shape \(N\) of {got}"):
        run(x=value)
    fits = np.clip(value, 0, 7)
    np.testing.assert_array_equal(run(x=fits)["y"], fits)
