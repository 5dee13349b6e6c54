"""Reshape to another number of columns of samples: values, gradients, and calls that do not fit.

The judge reshapes numpy's column-major arrays and takes differences; it knows no node.
"""

from __future__ import annotations

import ctypes
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import find_compiler
from graphc.driver.artifact import ArtifactRequest, emit
from graphc.driver.options import CompileOptions
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ops import default_context

BACKENDS = ["reference", "numpy", "llvm"]
TOLERANCE = {"f32": 1e-5, "f64": 1e-12}

MORE = """
x = Input(6, tag=feature)
W = Parameter(2, 3, init=gaussian)
r = Reshape(x, 3)
s = Softmax(Times(W, r))
z = Reshape(s, 4, tag=output)
u = Tanh(r, tag=output)
J = SumElements(ElementTimes(z, z), tag=criteria)
"""
FEWER = """
x = Input(2, tag=feature)
W = Parameter(3, 6, init=gaussian)
r = Reshape(x, 6)
z = Tanh(Times(W, r), tag=output)
b = Reshape(z, 1, tag=output)
J = SumElements(ElementTimes(b, b), tag=criteria)
"""
BOTH = """
x = Input(4, tag=feature)
W = Parameter(6, 6, init=gaussian)
r = Reshape(x, 6)
z = Times(W, r, tag=output)
c = SumColumnElements(z)
q = Minus(z, c)
J = SumElements(ElementTimes(q, q), tag=criteria)
"""

Results = dict[str, np.ndarray]


def columns(x: np.ndarray, rows: int) -> np.ndarray:
    return x.reshape((rows, -1), order="F")


def more(x: np.ndarray, w: np.ndarray) -> Results:
    r = columns(x.T, 3)
    e = np.exp(w @ r)
    z = columns(e / e.sum(axis=0), 4)
    return {"z": z.T, "u": np.tanh(r).T, "J": (z * z).sum()}


def fewer(x: np.ndarray, w: np.ndarray) -> Results:
    z = np.tanh(w @ columns(x.T, 6))
    return {"z": z.T, "b": columns(z, 1).T, "J": (z * z).sum()}


def both(x: np.ndarray, w: np.ndarray) -> Results:
    z = w @ columns(x.T, 6)
    q = z - z.sum(axis=0)
    return {"z": z.T, "J": (q * q).sum()}


Judge = Callable[[np.ndarray, np.ndarray], Results]
NETWORKS: dict[str, tuple[str, Judge, int, int]] = {
    "more": (MORE, more, 6, 1),
    "fewer": (FEWER, fewer, 2, 3),
    "three for two": (BOTH, both, 4, 3),
}
"""Text, judge, rows of x, and what the number of samples has to be a multiple of."""


def data(samples: int, rows: int) -> np.ndarray:
    return np.random.default_rng(samples).normal(size=(samples, rows))


def slopes(of: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    found = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[index] = 1e-6
        found[index] = (of(at + step) - of(at - step)) / 2e-6
    return found


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_values_are_those_of_the_elements_column_by_column(
    name: str, backend: str, precision: str
) -> None:
    text, judge, rows, multiple = NETWORKS[name]
    net = gc.loads(text)
    weights = net.parameters["W"].astype(np.float64)
    outputs = list(judge(np.zeros((multiple, rows)), weights))
    exe = gc.compile(
        net, outputs, backend=backend, precision=precision, batch=2 * multiple, verify=True
    )
    for samples in (0, 1, 2, 5):  # the last beyond the bound
        x = data(samples * multiple, rows)
        found, wanted = exe(x=x), judge(x, weights)
        for output, value in wanted.items():
            tolerance = TOLERANCE[precision]
            np.testing.assert_allclose(found[output], value, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_differences(name: str, backend: str) -> None:
    text, judge, rows, multiple = NETWORKS[name]
    net = gc.loads(text)
    w = net.parameters["W"].astype(np.float64)
    exe = gc.compile(net, "J", gradients=["W", "x"], backend=backend, precision="f64", verify=True)
    for samples in (multiple, 2 * multiple):
        x = data(samples, rows)
        found = exe(x=x)
        of_x = slopes(lambda x: judge(x, w)["J"], x)
        of_w = slopes(lambda w, x=x: judge(x, w)["J"], w)
        np.testing.assert_allclose(found["gradient.x"], of_x, atol=1e-7)
        np.testing.assert_allclose(found["gradient.W"], of_w, atol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("samples", [1, 2, 4, 100])
def test_a_number_of_samples_that_does_not_fit_is_an_error(backend: str, samples: int) -> None:
    exe = gc.compile(gc.loads(FEWER), backend=backend, batch=12)
    message = f"requires a number of samples that is a multiple of 3, got {samples}"
    with pytest.raises(gc.GraphcError, match=message) as caught:
        exe(x=data(samples, 2))
    assert caught.value.diagnostics[0].slug == "input"
    assert exe(x=data(3, 2))["z"].shape == (1, 3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_training_follows_the_slopes(name: str, backend: str) -> None:
    text, judge, rows, multiple = NETWORKS[name]
    net = gc.loads(text)
    w = net.parameters["W"].astype(np.float64)
    x = data(4 * multiple, rows)
    options = {"minibatch": 2 * multiple, "shuffle": False, "precision": "f64"}
    gc.train(net, {"x": x}, learning_rate_per_sample=0.01, backend=backend, **options)  # type: ignore[arg-type]
    for part in (x[: 2 * multiple], x[2 * multiple :]):
        w = w - 0.01 * slopes(lambda w, part=part: judge(part, w)["J"], w)
    np.testing.assert_allclose(net.parameters["W"], w, atol=1e-6)


def test_dropout_draws_for_every_column() -> None:
    net = gc.loads(
        "x = Input(6)\nW = Parameter(1, 2, init=fixedValue, value=1)\n"
        "d = Dropout(Reshape(x, 2))\nJ = SumElements(Times(W, d), tag=criteria)"
    )
    for backend in BACKENDS:
        learner = gc.SGD(learning_rate=0.0)
        step = gc.compile_training(net, learner=learner, dropout=0.5, backend=backend, seed=3)
        found = step(x=np.ones((50, 6)))["J"]
        assert 200 < found < 400  # 300 on average: each of 300 elements is 0 or 2
        assert found % 2 == 0


def test_sizes_are_shown_and_read_back() -> None:
    net = gc.loads(FEWER + "t = Reshape(r, 4)\nOutputNodes=(t)")
    sizes = {n.name: str(n.operation.result.type) for n in net.nodes}
    assert sizes["r"] == "matrix<6x*/3>"
    assert sizes["b"] == "matrix<1x*>"
    assert sizes["t"] == "matrix<4x*/2>"
    text = str(net)
    context = default_context()
    assert print_module(parse_module(text, context)) == text
    assert not context.sink.diagnostics


def test_columns_of_different_numbers_do_not_fit_together() -> None:
    net = gc.loads("x = Input(4)\nr = Reshape(x, 2)\ny = Plus(Reshape(x, 1), r, tag=output)")
    with pytest.raises(gc.GraphcError, match=r"got matrix<1x4\*> and matrix<2x2\*>"):
        gc.compile(net)


@pytest.mark.parametrize("node", ["Mean(r)", "PastValue(2, r)"])
def test_what_counts_samples_takes_one_column_for_each(node: str) -> None:
    net = gc.loads(f"x = Input(4)\nr = Reshape(x, 2)\ny = {node}\nOutputNodes=(y)")
    with pytest.raises(gc.GraphcError, match=r"one column per .*, got matrix<2x2\*>"):
        gc.compile(net)


def test_the_columns_of_sequences_stay_as_many() -> None:
    text = (
        "x = Input(4)\nr = Reshape(x, 2)\np = PastValue(4, x)\ny = Plus(x, p)\nJ = SumElements(r)"
    )
    net = gc.loads(f"{text}\nOutputNodes=(y, J)")
    with pytest.raises(gc.GraphcError, match=r"stay as many.*got `r`, matrix<2x2\*>") as caught:
        gc.compile(net, time=4)
    assert caught.value.diagnostics[0].slug == "not-supported"
    assert gc.compile(net, "J")(x=np.ones((3, 4)))["J"] == 12


# --- files ---------------------------------------------------------------------------------------


def written(text: str, folder: Path, *kinds: str) -> dict[str, Path]:
    request = ArtifactRequest(kinds, folder / "net", version="0.1.0", name="net")
    return emit(gc.loads(text).model, request, CompileOptions(batch=24))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_python_file_computes_the_same(name: str, tmp_path: Path) -> None:
    text, judge, rows, multiple = NETWORKS[name]
    run = runpy.run_path(str(written(text, tmp_path, "py")["py"]))["run"]
    x = data(4 * multiple, rows).astype(np.float32)
    weights = gc.loads(text).parameters["W"].astype(np.float64)
    wanted = judge(x.astype(np.float64), weights)
    for output, value in run(x).items():
        np.testing.assert_allclose(value, wanted[output], rtol=1e-5, atol=1e-5)
    if multiple > 1:
        with pytest.raises(ValueError, match=f"N is a multiple of {multiple}, got 1"):
            run(x[:1])


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("name", NETWORKS)
def test_a_library_computes_the_same(name: str, tmp_path: Path) -> None:
    text, judge, rows, multiple = NETWORKS[name]
    files = written(text, tmp_path, "so", "header")
    library = ctypes.CDLL(str(files["so"]))
    library.net_arena_bytes.restype = ctypes.c_int64
    x = data(4 * multiple, rows).astype(np.float32)
    wanted = judge(x.astype(np.float64), gc.loads(text).parameters["W"].astype(np.float64))
    outputs = {k: np.full(v.shape, np.nan, np.float32) for k, v in wanted.items() if k != "J"}
    room = np.empty(library.net_arena_bytes() + 64, np.uint8)
    places = [x.ctypes.data, *(y.ctypes.data for y in outputs.values())]
    places.append(room.ctypes.data + -room.ctypes.data % 64)
    pointers = [ctypes.c_void_p(place) for place in places]
    assert library.net_run(ctypes.c_int64(len(x)), *pointers) == 0
    for output, value in outputs.items():
        np.testing.assert_allclose(value, wanted[output], rtol=1e-5, atol=1e-5)
    header = files["header"].read_text()
    assert (f"no multiple of {multiple}" in header) == (multiple > 1)
    if multiple > 1:
        assert library.net_run(ctypes.c_int64(1), *pointers) == 1


def test_the_header_says_how_many_columns_an_output_has(tmp_path: Path) -> None:
    header = written(MORE, tmp_path, "header")["header"].read_text()
    assert "N2 is N * 2." in header
    assert "static float out_u[6 * 3];" in header
    info = runpy.run_path(str(written(MORE, tmp_path, "py")["py"]))["info"]()
    assert info["derived"] == {"N2": "N * 2"}


def test_a_program_needs_as_many_columns_as_samples(tmp_path: Path) -> None:
    with pytest.raises(gc.GraphcError, match=r"as many columns as samples everywhere, got N \* 2"):
        written(MORE, tmp_path, "exe")
