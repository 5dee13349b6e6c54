"""Training steps of programs, judged by numpy, by central differences and by networks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import JUDGED, RUN_HERE

Array = np.ndarray
EVERYWHERE = pytest.mark.parametrize("backend", RUN_HERE)
CLASSES = 3


def layers(x: Any, w: Any, b: Any, v: Any, scale: Any) -> Any:
    h = gc.tanh(x @ w + b)
    return {"logits": (h @ v) * scale, "hidden": h}


def values(dtype: str = "f64", seed: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    drawn = {"w": (6, 5), "b": (5,), "v": (5, CLASSES), "scale": ()}
    kind = np.float64 if dtype == "f64" else np.float32
    return {name: np.array(rng.normal(size=shape), kind) for name, shape in drawn.items()}


def network(dtype: str = "f64", bound: int = 4) -> gc.Program:
    return gc.program(layers, {"x": f"Nx6x{dtype}"}, parameters=values(dtype), bounds={"N": bound})


def drawn(n: int, dtype: str = "f64") -> tuple[Array, Array]:
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 6)).astype(np.float64 if dtype == "f64" else np.float32)
    return x, np.eye(CLASSES, dtype=x.dtype)[rng.integers(0, CLASSES, n)]


def slopes(p: dict[str, Array], x: Array, labels: Array) -> tuple[float, dict[str, Array]]:
    """Loss and gradients by hand."""
    h = np.tanh(x @ p["w"] + p["b"])
    z = h @ p["v"] * p["scale"]
    logs = z - z.max(1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    to_z = np.exp(logs) - labels
    to_h = to_z * p["scale"] @ p["v"].T * (1 - h**2)
    return -float((labels * logs).sum()), {
        "w": x.T @ to_h,
        "b": to_h.sum(0),
        "v": h.T @ to_z * p["scale"],
        "scale": (to_z * (h @ p["v"])).sum(),
    }


@EVERYWHERE
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_epochs_are_those_of_gradient_descent_in_numpy(backend: str, dtype: str) -> None:
    net, p = network(dtype), values()
    if dtype == "f32":
        p = {name: value.astype(np.float64) for name, value in values("f32").items()}
    step = gc.compile_training(
        net, learner=gc.SGD(0.3), loss="softmax_cross_entropy", output="logits", backend=backend
    )
    x, labels = drawn(11, dtype)  # minibatches of 4, 4 and 3
    order = np.random.default_rng(5).permutation(11)
    losses = step.run_epoch({"x": x, "labels": labels}, order=order)["loss"]
    wanted: list[float] = []
    for chosen in (order[:4], order[4:8], order[8:]):
        loss, gradients = slopes(p, x[chosen].astype(float), labels[chosen].astype(float))
        wanted.append(loss)
        p = {name: value - 0.3 / 4 * gradients[name] for name, value in p.items()}
    tolerance = 1e-12 if dtype == "f64" else 1e-5
    assert losses == pytest.approx(wanted, rel=tolerance)
    for name, value in p.items():
        np.testing.assert_allclose(net.parameters[name], value, rtol=tolerance, atol=tolerance)


LEARNERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: gc.SGD(0.1, momentum=0.9, l2=0.01),
    "adagrad": lambda: gc.AdaGrad(0.1, clip=gc.ClipElements(0.1)),
    "rmsprop": lambda: gc.RmsProp(0.1, l1=0.01),
    "adam": lambda: gc.Adam(0.1, clip=gc.ClipNorm(0.05)),
    "adamw": lambda: gc.AdamW(0.1, clip=gc.ClipGlobalNorm(0.05)),
    "stepping": lambda: gc.SteppingHeuristic(0.1),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_does_what_it_does_to_a_network(name: str) -> None:
    """A network's parameters are matrices; here there are vectors and numbers among them."""
    net = network()
    model = gc.loads("""
        x = Input(6)
        t = Input(3)
        W = Parameter(5, 6)
        b = Parameter(5, 1)
        V = Parameter(3, 5)
        s = Parameter(1, 1)
        z = Scale(s, Times(V, Tanh(Plus(Times(W, x), b))))
        e = CrossEntropyWithSoftmax(t, z, tag=criteria)
    """)
    shapes = {"W": ("w", (5, 6)), "b": ("b", (5, 1)), "V": ("v", (3, 5)), "s": ("scale", (1, 1))}
    own = gc.compile_training(model, learner=LEARNERS[name](), precision="f64", batch=4)
    for node, (parameter, shape) in shapes.items():
        model.model.values[node][...] = values()[parameter].T.reshape(shape)
    step = gc.compile_training(
        net, learner=LEARNERS[name](), loss="softmax_cross_entropy", output="logits"
    )
    for n in (4, 3, 1):
        x, labels = drawn(n)
        assert step(x=x, labels=labels)["loss"] == pytest.approx(own(x=x, t=labels)["e"])
    for node, (parameter, shape) in shapes.items():
        np.testing.assert_allclose(
            net.parameters[parameter].T.reshape(shape), model.model.values[node], rtol=1e-9
        )


def least_squares(output: Any, labels: Any) -> Any:
    return gc.sum((output - labels) ** 2, axis=1)


@EVERYWHERE
@pytest.mark.parametrize(
    "loss", ["softmax_cross_entropy", "sigmoid_cross_entropy", "squared_error", least_squares]
)
def test_a_small_step_moves_along_central_differences(backend: str, loss: Any) -> None:
    x, labels = drawn(3)
    net, rate = network(), 0.5
    before = {name: value.copy() for name, value in net.parameters.items()}

    def loss_at(name: str, index: tuple[int, ...], change: float) -> float:
        p = {n: v.copy() for n, v in before.items()}
        p[name][index] += change
        z = np.tanh(x @ p["w"] + p["b"]) @ p["v"] * p["scale"]
        if loss == "softmax_cross_entropy":
            return float((np.log(np.exp(z).sum(1, keepdims=True)) * labels - z * labels).sum())
        if loss == "sigmoid_cross_entropy":
            return float((np.log1p(np.exp(z)) - z * labels).sum())
        return float(((z - labels) ** 2).sum()) * (0.5 if loss == "squared_error" else 1.0)

    step = gc.compile_training(
        net,
        learner=gc.SGD(learning_rate_per_sample=rate),
        loss=loss,
        output="logits",
        backend=backend,
    )
    assert step(x=x, labels=labels)["loss"] == pytest.approx(loss_at("w", (0, 0), 0.0))
    for name, index in (("w", (2, 3)), ("b", (1,)), ("v", (4, 2)), ("scale", ())):
        slope = (loss_at(name, index, 1e-5) - loss_at(name, index, -1e-5)) / 2e-5
        moved = before[name][index] - net.parameters[name][index]
        assert moved == pytest.approx(rate * slope, rel=1e-6, abs=1e-9)


@EVERYWHERE
def test_class_numbers_train_as_shares_of_classes_do(backend: str) -> None:
    x, labels = drawn(4)
    one, other = network(), network()
    options: dict[str, Any] = {"loss": "softmax_cross_entropy", "output": "logits"}
    options |= {"learner": gc.SGD(0.1), "backend": backend}
    shares = gc.compile_training(one, **options)(x=x, labels=labels)
    numbers = gc.compile_training(other, labels="Nxi32", **options)(
        x=x, labels=labels.argmax(1).astype(np.int32)
    )
    assert numbers["loss"] == pytest.approx(shares["loss"])
    for name, value in one.parameters.items():
        np.testing.assert_allclose(other.parameters[name], value, rtol=1e-12)


def steps_of(x: Any, mask: Any, w: Any) -> Any:
    return (x * gc.expand_dims(mask, -1)) @ w


@EVERYWHERE
def test_samples_are_the_first_axis_of_labels_in_whatever_order_inputs_are_given(
    backend: str,
) -> None:
    rng, rate = np.random.default_rng(0), 0.5
    start = rng.normal(size=(2, 2))
    types = {"mask": "Txf64", "x": "NxTx2xf64"}
    net = gc.program(steps_of, types, parameters={"w": start}, bounds={"N": 2, "T": 4})
    step = gc.compile_training(
        net, learner=gc.SGD(rate, momentum=0.5), loss="squared_error", backend=backend
    )
    w, velocity = start, np.zeros((2, 2))
    for n, t in ((2, 3), (1, 4), (3, 6), (2, 1), (2, 0)):  # the third beyond both bounds
        x, mask, y = rng.normal(size=(n, t, 2)), rng.normal(size=t), rng.normal(size=(n, t, 2))
        made = step(mask=mask, x=x, labels=y)["loss"]
        error = x * mask[:, None] @ w - y
        assert made == pytest.approx((error**2).sum() / 2)
        kept = 0.5 ** (n / 2)
        gradient = np.einsum("nti,nto->io", x * mask[:, None], error)
        velocity = (1 - kept) * rate / 2 * gradient + kept * velocity
        w = w - velocity
        np.testing.assert_allclose(net.parameters["w"], w, rtol=1e-10)
    with pytest.raises(GraphcError, match="`mask` is T: call the step"):
        step.run_epoch({"mask": np.ones(3), "x": x, "labels": y})


def test_fixed_sizes_have_the_samples_of_the_labels() -> None:
    net = gc.program(lambda x, w: x @ w, {"x": "5x2"}, parameters={"w": np.ones((2, 1), "f4")})
    step = gc.compile_training(net, learner=gc.SGD(1.0), loss="squared_error")
    x = np.arange(10, dtype=np.float32).reshape(5, 2) / 10
    step(x=x, labels=np.zeros((5, 1)))
    wanted = np.ones((2, 1)) - x.T @ x @ np.ones((2, 1)) / 5
    np.testing.assert_allclose(net.parameters["w"], wanted, rtol=1e-5)
    with pytest.raises(GraphcError, match="run_epoch requires a dim of samples"):
        step.run_epoch({"x": x, "labels": np.zeros((5, 1))})


def test_a_program_may_compute_its_own_loss() -> None:
    def loss(x: Any, w: Any) -> Any:
        return gc.sum((x @ w) ** 2)

    net = gc.program(loss, {"x": "Nx2xf64"}, parameters={"w": np.ones((2, 1))})
    x = np.arange(6.0).reshape(3, 2)
    made = gc.compile_training(net, learner=gc.SGD(learning_rate_per_sample=0.01))(x=x)
    assert made["loss"] == ((x.sum(1)) ** 2).sum()
    np.testing.assert_allclose(net.parameters["w"], 1 - 0.02 * x.T @ x @ np.ones((2, 1)))


def test_only_what_patterns_name_is_trained_and_a_saved_program_trains_on(tmp_path: Path) -> None:
    net = network()
    options: dict[str, Any] = {"loss": "softmax_cross_entropy", "output": "logits"}
    options["learner"] = gc.SGD(0.1)
    x, labels = drawn(4)
    step = gc.compile_training(net, train=["v", "s*"], **options)
    step(x=x, labels=labels)
    changed = {n for n, v in values().items() if not np.array_equal(v, net.parameters[n])}
    assert changed == {"v", "scale"}
    assert set(step.learner_state) == {"velocity.v", "velocity.scale"}
    net.save(tmp_path / "net.safetensors")
    read = gc.load_program(tmp_path / "net.safetensors")
    for each in (net, read):
        gc.compile_training(each, **options)(x=x, labels=labels)
    assert all(np.array_equal(read.parameters[n], v) for n, v in net.parameters.items())


@pytest.mark.parametrize("backend", JUDGED)
def test_what_was_trained_is_read_and_saved_wherever_it_lies(backend: str, tmp_path: Path) -> None:
    x, labels = drawn(4)
    options: dict[str, Any] = {"learner": gc.SGD(0.1), "loss": "squared_error", "output": "logits"}
    one, other = network(), network()
    gc.compile_training(one, backend="reference", **options)(x=x, labels=labels)
    step = gc.compile_training(other, backend=backend, **options)
    step(x=x, labels=labels)
    other.save(tmp_path / "net.safetensors")
    read = gc.load_program(tmp_path / "net.safetensors")
    step(x=x, labels=labels)
    for name, value in one.parameters.items():
        np.testing.assert_allclose(read.parameters[name], value, rtol=1e-12)
    gc.compile_training(one, backend="reference", **options)(x=x, labels=labels)
    frozen = gc.compile(other, "logits", freeze=True)(x=x)["logits"]
    np.testing.assert_allclose(frozen, gc.compile(one, "logits")(x=x)["logits"], rtol=1e-12)
    step(x=x, labels=labels)
    gc.compile_training(one, backend="reference", **options)(x=x, labels=labels)
    for name, value in one.parameters.items():
        np.testing.assert_allclose(other.parameters[name], value, rtol=1e-12)


def with_numbers(x: Any, w: Any, which: Any) -> Any:
    return (x @ w) * gc.cast(which, "f32")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "loss": ({"loss": "softmax_cross_entropie"}, "did you mean `softmax_cross_entropy`"),
    "loss type": ({"loss": 3}, "a name or a function"),
    "no number": ({}, "without one the output is the loss"),
    "output": ({"loss": "squared_error", "output": "resul"}, "did you mean `result`"),
    "labels": ({"loss": "squared_error", "labels": "Nx7"}, "requires labels of Nx3"),
    "samples": ({"loss": "squared_error", "labels": "Mx3"}, "the samples of the output"),
    "class numbers": ({"loss": "cross_entropy", "labels": "Nx3xi32"}, "requires labels of N,"),
    "pattern": ({"loss": "squared_error", "train": "v"}, "fits no parameter"),
    "integers": ({"loss": "squared_error", "train": "wh*"}, "f32 or f64 are required"),
    "integer loss": ({"loss": lambda y, t: gc.cast(y, "i32")}, "array of floating point"),
    "precision": ({"loss": "squared_error", "precision": "f64"}, "got precision f64"),
    "criterion": ({"loss": "squared_error", "criterion": "e"}, "criterion= is for networks"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_said(case: str) -> None:
    options, message = WRONG[case]
    weights = {"w": np.ones((2, 3), np.float32), "which": np.ones((1, 3), np.int32)}
    net = gc.program(with_numbers, {"x": "Nx2"}, parameters=weights)
    with pytest.raises(GraphcError, match=message):
        gc.compile_training(net, learner=gc.SGD(0.1), **options)


def test_a_program_without_parameters_and_networks_with_a_loss_are_refused() -> None:
    net = gc.program(lambda x: x * 2.0, {"x": "Nx2"})
    with pytest.raises(GraphcError, match="no trainable parameter"):
        gc.compile_training(net, learner=gc.SGD(0.1), loss="squared_error")
    model = gc.loads(
        "x = Input(2)\nW = Parameter(1, 2)\ne = SumElements(Times(W, x), tag=criteria)"
    )
    with pytest.raises(GraphcError, match="are for programs"):
        gc.compile_training(model, learner=gc.SGD(0.1), loss="squared_error")
    named = gc.program(
        lambda labels, w: labels @ w, {"labels": "Nx2xf64"}, parameters={"w": np.eye(2)}
    )
    with pytest.raises(GraphcError, match="has an argument `labels` already"):
        gc.compile_training(named, learner=gc.SGD(0.1), loss="squared_error")
