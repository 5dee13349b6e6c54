"""Networks compiled with their parameters as they are: the same bits, and nothing moves them."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc
from tests.support.recurrent_networks import network as recurrent_network

NETWORK = """
features = Input(9, tag=feature)
W0 = Parameter(40, 9)
B0 = Parameter(40, 1)
W1 = Parameter(3, 40)
h = Sigmoid(Plus(Times(W0, features), B0))
z = Times(W1, h, tag=output)
"""


def samples(count: int, precision: str = "f32") -> np.ndarray:
    dtype = np.float32 if precision == "f32" else np.float64
    return np.random.default_rng(count).standard_normal((count, 9)).astype(dtype)


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("backend", ["llvm", "numpy", "reference"])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 30])
def test_a_frozen_network_gives_what_the_live_one_gives(
    count: int, backend: str, precision: str
) -> None:
    network = gc.loads(NETWORK)
    live = gc.compile(network, backend=backend, precision=precision)
    frozen = gc.compile(network, backend=backend, precision=precision, freeze=True)
    x = samples(count, precision)
    if backend == "llvm":
        np.testing.assert_array_equal(frozen(features=x)["z"], live(features=x)["z"])
    else:
        np.testing.assert_allclose(frozen(features=x)["z"], live(features=x)["z"], rtol=1e-5)


@pytest.mark.parametrize("count", [1, 30])
def test_frozen_weights_are_rounded_to_bf16_before_all_calls(count: int) -> None:
    network = gc.loads(NETWORK)
    live = gc.compile(network, precision="bf16")
    frozen = gc.compile(network, precision="bf16", freeze=True)
    x = samples(count)
    np.testing.assert_array_equal(frozen(features=x)["z"], live(features=x)["z"])
    assert not {"W0", "W1"} & {a.parameter for a in frozen.signature.arguments}
    assert (live(features=x)["z"] != gc.compile(network)(features=x)["z"]).any()


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_matrices_in_panels_give_the_same_bits_for_any_threads_and_rows(precision: str) -> None:
    wide = NETWORK.replace("40", "330").replace("Parameter(3,", "Parameter(200,")
    network = gc.loads(wide)
    live = gc.compile(network, precision=precision)
    for threads in (1, 2, 3):
        frozen = gc.compile(network, precision=precision, freeze=True, threads=threads)
        assert any(a.panel for a in frozen.signature.arguments)
        for count in (0, 1, 2, 5, 70):
            x = samples(count, precision)
            np.testing.assert_array_equal(frozen(features=x)["z"], live(features=x)["z"])


def test_functions_that_want_a_matrix_in_other_panels_do_not_meet() -> None:
    """A call beyond the bound is compiled for more samples, in chunks of other columns."""
    network = gc.loads(NETWORK.replace("40", "640").replace("Parameter(3,", "Parameter(640,"))
    live, frozen = gc.compile(network, batch=2), gc.compile(network, batch=2, freeze=True)
    for count in (1, 2, 300, 2, 1, 300):
        x = samples(count)
        np.testing.assert_array_equal(frozen(features=x)["z"], live(features=x)["z"])


def test_later_changes_of_parameters_are_not_seen_even_by_larger_calls() -> None:
    network = gc.loads(NETWORK)
    frozen = gc.compile(network, batch=4, freeze=True)
    few, many = samples(4), samples(20)
    before = frozen(features=few)["z"], gc.compile(network)(features=many)["z"]
    for values in network.parameters.values():
        values[...] = 0
    np.testing.assert_array_equal(frozen(features=few)["z"], before[0])
    np.testing.assert_allclose(frozen(features=many)["z"], before[1], rtol=1e-6)


def test_a_frozen_recurrent_network_goes_on_from_call_to_call() -> None:
    network = recurrent_network("lstm")
    live, frozen = (gc.compile(network, ["top.h"], freeze=f) for f in (False, True))
    x = np.random.default_rng(1).standard_normal((12, 3)).astype(np.float32)
    for part in (x[:5], x[5:]):
        wanted = live(features=part, carry=True)["top.h"]
        np.testing.assert_array_equal(frozen(features=part, carry=True)["top.h"], wanted)
