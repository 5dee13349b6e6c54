"""Arrays that a device works on, as a network's users see them; the device is a table here."""

from __future__ import annotations

import gc as collector
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.model.model import load_model
from graphc.runtime.residency import come_home, homecomings, is_away, leave, some_are_away
from graphc_frontends.network import Network

Array = np.ndarray

NETWORK = """
x = Input(2)
W = Parameter(2, 2)
b = Parameter(2, 1)
z = Plus(Times(W, x), b)
"""


class Device:
    """Takes arrays away, and has moved them by one when they are fetched."""

    def __init__(self) -> None:
        self.fetched = 0

    def take(self, array: Array) -> None:
        leave(array, self._fetch)

    def _fetch(self, array: Array) -> None:
        self.fetched += 1
        array += 1


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def network() -> Network:
    net = gc.loads(
        "W = Parameter(2, 2)\nb = Parameter(2, 1)\nx = Input(2)\nz = Plus(Times(W, x), b)"
    )
    assert isinstance(net, Network)
    for name in ("W", "b"):
        net.parameters[name] = np.zeros(net.parameters[name].shape)
    return net


def test_an_array_comes_home_once(device: Device) -> None:
    array = np.zeros(3)
    device.take(array)
    assert (is_away(array), some_are_away()) == (True, True)
    before = homecomings()
    come_home([array, array])
    assert (device.fetched, is_away(array)) == (1, False)
    assert homecomings() != before
    assert array.tolist() == [1, 1, 1]
    array[0] = 5


def test_an_array_that_was_read_only_stays_so(device: Device) -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    leave(array, lambda _: None)
    come_home([array])
    assert not array.flags.writeable


def test_an_array_that_cannot_be_fetched_stays_away() -> None:
    def fail(array: Array) -> None:
        raise OSError

    array = np.zeros(3)
    leave(array, fail)
    with pytest.raises(OSError):  # the one of `fail`
        come_home([array])
    assert is_away(array)
    assert not array.flags.writeable


def test_an_array_that_is_gone_is_away_no_more(device: Device) -> None:
    array = np.zeros(3)
    device.take(array)
    del array
    collector.collect()
    assert not some_are_away()


def test_parameters_show_the_truth_one_by_one(network: Network, device: Device) -> None:
    bias = network.parameters["b"]
    for array in (network.parameters["W"], bias):
        device.take(array)
    assert network.parameters["w"].tolist() == [[1, 1], [1, 1]]
    assert device.fetched == 1
    assert is_away(bias)


def test_what_is_assigned_to_a_parameter_that_is_away_counts(
    network: Network, device: Device
) -> None:
    device.take(network.parameters["b"])
    network.parameters["b"] = np.full((2, 1), 7.0)
    assert network.parameters["b"].tolist() == [[7], [7]]


def test_a_saved_network_has_the_truth(network: Network, device: Device, tmp_path: Path) -> None:
    device.take(network.parameters["b"])
    network.save(tmp_path / "net.safetensors")
    assert load_model(tmp_path / "net.safetensors").values["b"].tolist() == [[1], [1]]


def test_functions_of_the_processor_compute_with_the_truth(
    network: Network, device: Device
) -> None:
    exe = gc.compile(network, "z")
    x = np.ones((1, 2), np.float32)
    assert exe(x=x)["z"].tolist() == [[0, 0]]
    for _ in range(2):  # the second call is a fast one
        device.take(network.parameters["b"])
        exe(x=x)
    assert exe(x=x)["z"].tolist() == [[2, 2]]


def test_a_function_in_f64_computes_with_the_truth(network: Network, device: Device) -> None:
    device.take(network.parameters["b"])
    exe = gc.compile(network, "z", precision="f64")
    device.take(network.parameters["b"])
    assert exe(x=np.ones((1, 2)))["z"].tolist() == [[2, 2]]


def test_what_a_learner_keeps_shows_the_truth(device: Device) -> None:
    net = gc.loads("x = Input(2)\nW = Parameter(1, 2)\nc = SumElements(Times(W, x), tag=criterion)")
    step = gc.compile_training(net, learner=gc.SGD(0.1, momentum=0.5))
    velocity = step.learner_state["velocity.W"]
    device.take(velocity)
    assert step.learner_state["velocity.W"].tolist() == [[1, 1]]
