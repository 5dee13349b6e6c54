"""A network with two convolutions from NDL to numbers: all backends, training, files, messages."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.support.commands import graphc
from tests.support.compiling import load_backend

Array = np.ndarray
BACKENDS = ("reference", "numpy", "llvm")
SAMPLES, CLASSES = 6, 4

NETWORK = """
Layer(x, width, height, channels) {
  W = Parameter(0, 0, init=gaussian, initValueScale=5)
  b = Parameter(channels)
  c = Convolution(W, x, width, height, channels, 1, 1, zeroPadding=true)
  y = ReLU(Plus(c, b))
}
features = ImageInput(12, 10, 2, tag=feature)
labels = Input(4, tag=label)
L1 = Layer(features, 3, 5, 4)
p1 = MaxPooling(L1, 2, 2, 2, 2)
L2 = Layer(p1, 3, 2, 5)
p2 = AveragePooling(L2, 3, 2, 2, 2)
W = Parameter(4, 0, initValueScale=5)
b = Parameter(4)
z = Plus(Times(W, p2), b, tag=output)
ce = CrossEntropyWithSoftmax(labels, z, tag=criteria)
"""


def network() -> gc.Network:
    net = gc.loads(NETWORK, seed=3)
    assert isinstance(net, gc.Network)
    return net


def data() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    labels = np.eye(CLASSES)[rng.integers(0, CLASSES, SAMPLES)]
    return {"features": rng.standard_normal((SAMPLES, 240)), "labels": labels}


@cache
def stepped(backend: str) -> tuple[float, dict[str, Array]]:
    """Criterion and parameters after one training step in f64."""
    net = network()
    learner = gc.SGD(learning_rate=0.5, momentum=0.9)
    step = gc.compile_training(net, learner=learner, batch=8, backend=backend, precision="f64")
    found = step(**data())
    return float(found["ce"]), dict(net.parameters)


def require(backend: str) -> None:
    reason = load_backend(backend)
    if isinstance(reason, str):
        pytest.skip(reason)


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_a_training_step_over_images_is_the_same_on_every_backend(backend: str) -> None:
    require(backend)
    criterion, parameters = stepped(backend)
    wanted_criterion, wanted = stepped("reference")
    assert criterion == pytest.approx(wanted_criterion, rel=1e-9)
    assert parameters.keys() == wanted.keys()
    for name, value in parameters.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-9, atol=1e-9, err_msg=name)


def test_every_parameter_of_a_network_over_images_is_trained() -> None:
    before = dict(network().parameters)
    _, after = stepped("reference")
    assert [n for n in before if np.array_equal(before[n], after[n])] == []


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_training_over_images_learns(backend: str, precision: str) -> None:
    require(backend)
    net = network()
    learner = gc.SGD(learning_rate=1.0, momentum=0.9)
    step = gc.compile_training(net, learner=learner, batch=8, backend=backend, precision=precision)
    criteria = [float(step(**data())["ce"]) for _ in range(40)]
    assert criteria[-1] < 0.1 * criteria[0]


def test_a_network_over_images_is_the_same_after_saving_and_loading(tmp_path: Path) -> None:
    net = network()
    path = tmp_path / "images.safetensors"
    net.save(path)
    loaded = gc.load(path)
    assert str(loaded) == str(net)
    assert "matrix<480x* image 12x10x4>" in str(loaded)
    inputs = data()["features"]
    first, second = (
        gc.compile(n, outputs=["z"], backend="numpy", precision="f64")(features=inputs)["z"]
        for n in (net, loaded)
    )
    np.testing.assert_array_equal(first, second)


def test_dump_shows_what_columns_are_images_of(tmp_path: Path) -> None:
    path = tmp_path / "images.ndl"
    path.write_text(NETWORK, encoding="utf-8")
    text = graphc("dump", str(path)).out
    assert ": matrix<120x* image 6x5x4>" in text
    # With padding an even kernel gives one row more: 6x5 pixels become 6x6, and are then halved.
    assert text.count(": matrix<180x* image 6x6x5>") == 3  # convolution, bias added, rectified
    assert ": matrix<30x* image 2x3x5>" in text
    drawing = graphc("dump", str(path), "--format", "dot").out
    assert "MaxPooling 120x*\\nimage 6x5x4" in drawing


def test_pixels_are_found_where_the_layout_says(tmp_path: Path) -> None:
    """A picture drawn as [row, column, channel] becomes a sample by exchanging its first axes."""
    net = gc.Network()
    image = net.image_input("image", 4, 3, 2)
    largest = net.max_pooling(image, 1, 3, 1, 1, name="largest")  # of each column
    picture = np.random.default_rng(1).standard_normal((3, 4, 2))
    sample = picture.transpose(1, 0, 2).reshape(1, -1)
    exe = gc.compile(net, outputs=[largest.name], backend="numpy", precision="f64")
    found = exe(image=sample)["largest"]
    np.testing.assert_array_equal(found.reshape(4, 2), picture.max(axis=0))


X = "x = ImageInput(4, 3, 2)\nv = Input(24)\nw = Parameter(0, 0)\nm = Parameter(2, 2)\n"


@pytest.mark.parametrize(
    ("call", "slug", "message"),
    [
        ("MaxPooling(v, 2, 2, 1, 1)", "shape-mismatch", "requires columns that are images"),
        ("AveragePooling(x, 5, 2, 1, 1)", "shape-mismatch", "window of at most 4x3"),
        ("Convolution(w, v, 2, 2, 3, 1, 1)", "shape-mismatch", "requires columns that are images"),
        ("Convolution(w, x, 2, 4, 3, 1, 1)", "shape-mismatch", "kernel of at most 4x3"),
        ("Convolution(w, x, 2, 2, 3, 3, 1)", "ill-typed", "subsampling by at most the kernel's"),
        ("Convolution(w, x, 2, 2, 3, 1, 0)", "bad-value", "from 1 to 2147483647 is required"),
        ("Convolution(x, x, 2, 2, 3, 1, 1)", "shape-mismatch", "a weight whose columns are not"),
        ("Convolution(w, x, 2, 2, 3, 1)", "argument-count", "takes 7 arguments, got 6"),
        ("RowSlice(20, 5, x)", "shape-mismatch", "requires rows 20 to 24, counted from 0"),
        ("RowStack(x, m)", "shape-mismatch", "RowStack requires nodes with the same columns"),
        ("Plus(x, Reshape(x, 12))", "shape-mismatch", "x* image 4x3x2> and matrix<12x2*>"),
        ("Reshape(x, 24, imageWidth=5, imageHeight=5)", "shape-mismatch", "an image of 24 rows"),
        ("Plus(x, ImageInput(3, 4, 2))", "shape-mismatch", "that are images of one shape"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wrong_use_is_an_error_at_its_call(
    call: str, slug: str, message: str, backend: str
) -> None:
    require(backend)
    text = f"{X}y = {call}\nOutputNodes=(y)"
    with pytest.raises(gc.GraphcError) as caught:
        gc.compile(gc.loads(text), outputs=["y"], backend=backend)
    (found,) = caught.value.diagnostics
    assert found.slug == slug
    assert message in found.message
    assert found.span is not None
    wrong = "0" if slug == "bad-value" else call  # the argument, or the whole call
    marked = text.splitlines()[4][found.span.column - 1 : found.span.end_column - 1]
    assert (found.span.line, marked) == (5, wrong)
