"""Edits of compiled networks, steps without samples, and trainings that blow up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc_frontends.network import Network


def regression(rows: int = 3) -> Network:
    net = gc.Network()
    x, t = net.input("x", rows, tag="feature"), net.input("t", 1, tag="label")
    y = net.times(net.parameter("W", 1, rows), x, name="y", tag="output")
    net.square_error(t, y, name="c", tag="criterion")
    return net


def data(samples: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {"x": rng.normal(size=(samples, 3)), "t": rng.normal(size=(samples, 1))}


def test_a_renamed_parameter_keeps_its_value(tmp_path: Path) -> None:
    net = regression()
    trained = net.parameters["W"] = np.array([[1.0, 2.0, 3.0]])
    node = net.find("W")
    assert node is not None
    net.rename(node, "V")
    assert np.array_equal(net.parameters["V"], trained)
    net.save(tmp_path / "m.safetensors")
    assert np.array_equal(gc.load(tmp_path / "m.safetensors").parameters["V"], trained)


def test_a_removed_parameter_leaves_no_value_behind(tmp_path: Path) -> None:
    net = regression()
    extra = net.parameter("extra", 2, 3)
    assert net.parameters["extra"].shape == (2, 3)
    net.remove(extra)
    net.save(tmp_path / "m.safetensors")
    assert "extra" not in gc.load(tmp_path / "m.safetensors").parameters
    net.parameter("extra", 4, 3)
    assert net.parameters["extra"].shape == (4, 3)


def test_a_larger_call_compiles_the_network_as_it_was() -> None:
    net = regression()
    exe = gc.compile(net, ["y"], batch=2, backend="numpy")
    node = net.find("y")
    assert node is not None
    net.rename(node, "z")
    assert exe(x=data(9)["x"])["y"].shape == (9, 1)


def test_a_step_without_samples_is_an_error_that_changes_nothing() -> None:
    net = regression()
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.1), batch=4, backend="numpy")
    step(**data())
    before, velocity = net.parameters["W"].copy(), step.learner_state["velocity.W"].copy()
    with pytest.raises(gc.GraphcError, match="at least one sample"):
        step(**data(0))
    assert np.array_equal(net.parameters["W"], before)
    assert np.array_equal(step.learner_state["velocity.W"], velocity)


def test_a_blow_up_in_the_last_update_is_found_and_undone() -> None:
    net = regression()
    before = net.parameters["W"].copy()
    wild = {"x": np.full((2, 3), 1e3, np.float32), "t": np.ones((2, 1), np.float32)}
    with pytest.raises(gc.GraphcError, match="the parameter `W` is not a finite number in epoch 1"):
        gc.train(net, wild, minibatch=2, learning_rate=1e38, backend="numpy")
    assert np.array_equal(net.parameters["W"], before)


@pytest.mark.parametrize("sample", [0, 3])
def test_nan_in_the_data_is_found_wherever_it_is(sample: int) -> None:
    bad = data()
    bad["x"][sample, 0] = np.nan
    with pytest.raises(gc.GraphcError, match=f"`x` is nan in sample {sample} ") as caught:
        gc.train(regression(), bad, minibatch=1, shuffle=False, learning_rate=0.1, backend="numpy")
    assert "smaller learning rate" not in str(caught.value)


def test_huge_numbers_in_the_first_minibatch_point_at_the_data() -> None:
    bad = data()
    bad["x"][0, 0] = 1e30
    with pytest.raises(gc.GraphcError, match="for the first minibatch; look for huge numbers"):
        gc.train(regression(), bad, learning_rate=0.1, backend="numpy")


def test_another_l2_needs_another_step() -> None:
    step = gc.compile_training(regression(), learner=gc.SGD(learning_rate=1), backend="numpy")
    step.learner = gc.SGD(learning_rate=0.5)
    with pytest.raises(
        gc.GraphcError, match="compiled with no further terms, got a learner with l2:"
    ):
        step.learner = gc.SGD(learning_rate=0.5, l2=2.0)


def test_only_sums_over_the_samples_are_trained_or_measured() -> None:
    net = regression()
    node = net.find("y")
    assert node is not None
    net.add_tag(node, "evaluation")
    with pytest.raises(gc.GraphcError, match=r"sums over the samples \(1x1\), `y` is matrix<1x\*>"):
        gc.compile_training(net, learner=gc.SGD(learning_rate=1), backend="numpy")


def test_a_result_cannot_be_called_like_a_gradient() -> None:
    net = regression()
    y = net.find("y")
    assert y is not None
    net.sum_elements(y, name="gradient.W")  # type: ignore[arg-type]
    with pytest.raises(gc.GraphcError, match=r"a result is called `gradient\.W` already"):
        gc.compile(net, ["gradient.W"], gradients=["W"], backend="numpy")


def test_minibatches_larger_than_the_data_are_no_larger_bound() -> None:
    net, rate = regression(), 0.1
    (record,) = gc.train(
        net, data(), minibatch=2**31 - 1, learning_rate_per_sample=rate, backend="numpy"
    )
    assert record.samples == 4
