"""Programs with dropout and batch normalisation, trained by members as by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from tests.support.compiling import require_backend
from tests.unit.learn.test_members_training import together

Array = np.ndarray
BACKENDS = pytest.mark.parametrize("backend", ["reference", "numpy", "llvm", "c"])
STEPS = 3
RNG = np.random.default_rng(4)
X = RNG.standard_normal((7, STEPS, 4))
GIVEN = {"x": X, "labels": RNG.standard_normal((7, 2))}
DRAWN = {
    "W": RNG.standard_normal((4, 5)),
    "V": RNG.standard_normal((STEPS * 5, 2)),
    "mean": RNG.standard_normal(5),
    "variance": 1 + RNG.random(5),
}


def rows(x: Any, W: Any, V: Any) -> Any:
    """Dropout where samples come first."""
    h = gc.tanh(gc.reshape(x, (x.shape[0] * STEPS, 4)) @ W)
    return gc.dropout(gc.reshape(h, (x.shape[0], STEPS * 5)), 0.25) @ V


def columns(x: Any, W: Any, V: Any) -> Any:
    """Of steps one below the other: an axis of three rows for each sample."""
    h = gc.dropout(gc.tanh(gc.reshape(x, (x.shape[0] * STEPS, 4)) @ W), 0.25)
    return gc.reshape(h, (x.shape[0], STEPS * 5)) @ V


def times(x: Any, W: Any, V: Any) -> Any:
    """Where the samples are the second axis, and of weights, which are the same for all."""
    h = gc.tanh(gc.dropout(gc.transpose(x, (1, 0, 2)), 0.5) @ gc.dropout(W, 0.5))
    return gc.reshape(gc.transpose(gc.dropout(h), (1, 0, 2)), (x.shape[0], STEPS * 5)) @ V


def normalised(x: Any, W: Any, V: Any, mean: Any, variance: Any) -> Any:
    h = gc.reshape(x, (x.shape[0] * STEPS, 4)) @ W
    h = gc.batch_normalization(h, 1.0, 0.0, mean, variance, momentum=0.75)
    return gc.dropout(gc.reshape(h, (x.shape[0], STEPS * 5)), 0.25) @ V


Rule = Callable[..., Any]


def program(rule: Rule) -> gc.Program:
    names = rule.__code__.co_varnames[1 : rule.__code__.co_argcount]
    drawn = {name: DRAWN[name].copy() for name in names}
    return gc.program(rule, {"x": f"Nx{STEPS}x4xf64"}, parameters=drawn, bounds={"N": 8})


def trained(
    rule: Rule, member: gc.comm.Communicator | None, backend: str, **options: Any
) -> tuple[gc.Program, list[float]]:
    net = program(rule)
    options = {"learner": gc.SGD(0.05, momentum=0.5), "epochs": 2, "minibatch": 3, **options}
    records = gc.train(
        *(net, GIVEN), loss="squared_error", backend=backend, comm=member, threads=1, **options
    )
    return net, [record.criterion for record in records]


@BACKENDS
@pytest.mark.parametrize("rule", [rows, columns, times])
@pytest.mark.parametrize("members", [2, 4])
def test_members_drop_what_one_drops(backend: str, rule: Rule, members: int) -> None:
    """7 samples by 3: members have one or two of a minibatch, or none."""
    require_backend(backend)
    alone, wanted = trained(rule, None, backend)
    found = together(members, lambda _, member: trained(rule, member, backend))
    for net, criteria in found:
        np.testing.assert_allclose(criteria, wanted, 1e-11)
        for name, value in alone.parameters.items():
            np.testing.assert_allclose(net.parameters[name], value, 1e-10, 1e-12)
            assert np.array_equal(net.parameters[name], found[0][0].parameters[name])
    _, other = trained(rule, None, backend, seed=1, shuffle=False)
    assert not np.allclose(other, wanted, 1e-3)


@BACKENDS
def test_running_statistics_are_averages_over_all_samples(backend: str) -> None:
    """Of 5, 2 and 0 samples, at a rate of 0; each normalises by its own."""
    require_backend(backend)
    cuts = (slice(0, 5), slice(5, 7), slice(7, 7))

    def member(number: int, communicator: gc.comm.Communicator) -> gc.Program:
        net = program(normalised)
        step = gc.compile_training(
            net, loss="squared_error", learner=gc.SGD(0.0), backend=backend, comm=communicator
        )
        step(**{name: array[cuts[number]] for name, array in GIVEN.items()})
        return net

    seen = [X[some].reshape(-1, 4) @ DRAWN["W"] for some in cuts[:2]]
    mean = (5 * seen[0].mean(0) + 2 * seen[1].mean(0)) / 7
    variance = (5 * seen[0].var(0) + 2 * seen[1].var(0)) / 7
    for net in together(3, member):
        for name, value in (("mean", mean), ("variance", variance)):
            expected = 0.75 * DRAWN[name] + 0.25 * value
            np.testing.assert_allclose(net.parameters[name], expected, 1e-11)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_members_normalise_and_stay_together(backend: str) -> None:
    require_backend(backend)
    first, *others = together(2, lambda _, member: trained(normalised, member, backend))
    for net, criteria in others:
        assert criteria == first[1]
        for name, value in first[0].parameters.items():
            assert np.isfinite(value).all() and np.any(value != DRAWN[name])
            assert np.array_equal(net.parameters[name], value)


@BACKENDS
def test_programs_of_fixed_sizes_count_their_samples_too(backend: str) -> None:
    """Two members with 4 samples each are one with 8."""
    require_backend(backend)

    def rule(x: Any, W: Any, mean: Any, variance: Any) -> Any:
        h = gc.batch_normalization(x, 1.0, 0.0, mean, variance, momentum=0.5)
        return gc.dropout(x + 0.0 * h, 0.5) @ gc.dropout(W, 0.25)

    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((8, 4)), rng.standard_normal((8, 4))

    def step(samples: int, some: slice, member: gc.comm.Communicator | None) -> gc.Program:
        drawn = {"W": np.eye(4), "mean": np.zeros(4), "variance": np.ones(4)}
        net = gc.program(rule, {"x": f"{samples}x4xf64"}, parameters=drawn)
        made = gc.compile_training(
            net, loss="squared_error", learner=gc.SGD(0.1), backend=backend, comm=member
        )
        for _ in range(2):
            made(x=x[some], labels=labels[some])
        return net

    alone = step(8, slice(None), None)
    for net in together(2, lambda i, member: step(4, slice(i, None, 2), member)):
        for name in ("W", "mean"):
            np.testing.assert_allclose(net.parameters[name], alone.parameters[name], 1e-11, 1e-13)
        assert np.any(net.parameters["variance"] != 1)


def test_random_numbers_that_are_the_same_for_all_samples_are_those_of_one() -> None:
    def noisy(x: Any, n: Any, w: Any) -> Any:
        return gc.where(gc.random_uniform((1, 4), n[0]) < 0.5, x, 0.0) @ w

    x, labels = np.arange(24.0).reshape(6, 4), np.ones((6, 3))

    def step(some: slice, member: gc.comm.Communicator | None) -> Array:
        drawn = {"w": np.linspace(-1, 1, 12).reshape(4, 3)}
        net = gc.program(noisy, {"x": "Nx4xf64", "n": "1xi64"}, parameters=drawn, bounds={"N": 6})
        made = gc.compile_training(
            net, loss="squared_error", learner=gc.SGD(1e-3), backend="numpy", comm=member
        )
        made.nominal = 6
        for number in range(3):
            made(x=x[some], labels=labels[some], n=np.array([number]))
        return net.parameters["w"]

    alone = step(slice(None), None)
    for found in together(2, lambda i, member: step(slice(i, None, 2), member)):
        np.testing.assert_allclose(found, alone, 1e-12)


def test_onnx_files_with_dropout_and_normalisation_are_trained(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")
    from onnx import helper

    from tests.support.onnx_models import model, saved

    rng = np.random.default_rng(2)
    held = {
        "W": rng.standard_normal((4, 5)).astype(np.float32),
        "V": rng.standard_normal((5, 2)).astype(np.float32),
        "scale": np.ones(5, np.float32),
        "bias": np.zeros(5, np.float32),
        "mean": np.zeros(5, np.float32),
        "variance": np.ones(5, np.float32),
        "rate": np.array(0.25, np.float32),
    }
    nodes = [
        helper.make_node("Dropout", ["x", "rate"], ["d"]),
        helper.make_node("MatMul", ["d", "W"], ["h"]),
        helper.make_node(
            "BatchNormalization", ["h", "scale", "bias", "mean", "variance"], ["b"], momentum=0.5
        ),
        helper.make_node("MatMul", ["b", "V"], ["y"]),
    ]
    path = saved(model(nodes, {"x": ["n", 4]}, ["y"], held), tmp_path)
    x, labels = X[:, 0].astype(np.float32), GIVEN["labels"].astype(np.float32)

    def step(some: slice, member: gc.comm.Communicator | None) -> tuple[gc.Program, float]:
        net = gc.load_program(path, bounds={"n": 8})
        made = gc.compile_training(
            net, loss="squared_error", learner=gc.SGD(0.0), backend="numpy", comm=member
        )
        return net, float(made(x=x[some], labels=labels[some])["loss"])

    alone, _ = step(slice(None), None)
    (one, loss), (other, also) = together(2, lambda i, member: step(slice(i, None, 2), member))
    assert loss == also
    np.testing.assert_allclose(one.parameters["mean"], alone.parameters["mean"], 1e-5, 1e-6)
    assert np.any(alone.parameters["mean"] != 0)
    for name, value in one.parameters.items():
        assert np.array_equal(other.parameters[name], value)
