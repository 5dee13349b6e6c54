"""BatchNormalization: both forms against plain numpy, running values, gradients, sizes, misuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from graphc.ir.core import Array, Module
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType, Symbol
from graphc.ir.verifier import verify_module
from graphc.passes.expand_nodes import expand_nodes
from graphc.passes.synthesize_gradient import synthesize_gradient
from graphc.support.diagnostics import DiagnosticSink, render
from tests.support.nodes import complaint, computed, gradients, network

COLUMNS = ("scale", "bias", "mean", "inverse")
SIZES = [(1, 1), (3, 3), (10, 10), (6, 2), (6, 1), (12, 3)]
"""(rows, channels); spatial where they differ."""


def nodes_of(rows: int, channels: int, settings: str = "") -> dict[str, str]:
    """The node `v` over `x` and its four columns."""
    leaves = dict.fromkeys(COLUMNS, f"node.parameter {{rows = {channels}}}")
    options = ["spatial = true"] * (rows != channels) + [settings] * bool(settings)
    tail = f" {{{', '.join(options)}}}" if options else ""
    call = f"node.batch_normalization %x, {', '.join('%' + c for c in COLUMNS)}{tail}"
    return {"x": f"node.input {{rows = {rows}}}", **leaves, "v": call}


def values(rows: int, channels: int, samples: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    columns = {name: rng.uniform(0.2, 2, (channels, 1)) for name in COLUMNS}
    return {"x": rng.normal(0.5, 2, (rows, samples)), **columns}


def plain_inference(leaves: Mapping[str, Array]) -> Array:
    """Channel `r mod C` of row r, element by element."""
    x, channels = leaves["x"], len(leaves["scale"])
    y = np.empty_like(x)
    for row in range(len(x)):
        scale, bias, mean, inverse = (leaves[c][row % channels, 0] for c in COLUMNS)
        y[row] = scale * (x[row] - mean) * inverse + bias
    return y


@dataclass(frozen=True)
class Trained:
    value: Array
    mean: Array
    inverse: Array


def plain_training(leaves: Mapping[str, Array], epsilon: float = 1e-5) -> Trained:
    """Mean and population variance of each channel over its rows and all samples."""
    x, channels = leaves["x"], len(leaves["scale"])
    means, inverses, y = np.empty((channels, 1)), np.empty((channels, 1)), np.empty_like(x)
    for c in range(channels):
        part = x[c::channels]
        means[c], inverses[c] = part.mean(), 1 / np.sqrt(part.var() + epsilon)
        normal = (part - means[c]) * inverses[c]
        y[c::channels] = leaves["scale"][c] * normal + leaves["bias"][c]
    return Trained(y, means, inverses)


def trained(
    nodes: Mapping[str, str],
    leaves: Mapping[str, Array],
    wrt: tuple[str, ...] = (),
    dtype: DType = DType.F64,
) -> dict[str, Array]:
    """The node's value in training, the running values after it, gradients of the value's sum."""
    net = network(dict(nodes))
    sink, dim = DiagnosticSink(), Symbol("N", 64)
    function = expand_nodes(net.graph, ["v"], dtype, dim, sink, 0)
    assert function is not None, render(sink.diagnostics)
    if wrt:
        assert synthesize_gradient(function, "v", wrt, sink)
    verify_module(Module([function], [dim]), sink)
    assert not sink.diagnostics, render(sink.diagnostics)
    arguments = {
        name: np.ascontiguousarray(a.T if name == "x" else a).astype(dtype.numpy)
        for name, a in leaves.items()
    }
    found = evaluate(function, arguments, {"N": leaves["x"].shape[1]})
    return {name: a.T if name in ("v", "gradient.x") else a for name, a in found.items()}


@pytest.mark.parametrize("samples", [0, 1, 7])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_outside_training_it_normalises_by_the_running_values(
    rows: int, channels: int, samples: int
) -> None:
    leaves = values(rows, channels, samples)
    found = computed(network(nodes_of(rows, channels)), "v", leaves, samples)
    np.testing.assert_allclose(found, plain_inference(leaves), rtol=1e-13)


@pytest.mark.parametrize("samples", [1, 2, 7, 31])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_in_training_it_normalises_by_the_minibatch(rows: int, channels: int, samples: int) -> None:
    leaves = values(rows, channels, samples)
    found, wanted = trained(nodes_of(rows, channels), leaves), plain_training(leaves)
    np.testing.assert_allclose(found["v"], wanted.value, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found["mean"], wanted.mean, rtol=1e-12)
    np.testing.assert_allclose(found["inverse"], wanted.inverse, rtol=1e-12)


def test_a_minibatch_alone_decides_the_running_values_whatever_they_were() -> None:
    leaves = values(3, 3, 8)
    leaves["mean"][:] = np.nan
    found = trained(nodes_of(3, 3), leaves)
    np.testing.assert_allclose(found["mean"], plain_training(leaves).mean, rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "factor"),
    [
        ("exp_avg_factor = 0.25", 0.25),
        ("normalization_time_constant = 16.0", 1 - np.exp(-0.5)),
        ("normalization_time_constant = 16.0, exp_avg_factor = 0.25", 1 - np.exp(-0.5)),
        ("normalization_time_constant = 1e9", 8e-9),
    ],
)
def test_running_values_move_by_their_share(settings: str, factor: float) -> None:
    leaves = values(6, 2, 8)
    found, seen = trained(nodes_of(6, 2, settings), leaves), plain_training(leaves)
    for name, target in (("mean", seen.mean), ("inverse", seen.inverse)):
        moved = (found[name] - leaves[name]) / (target - leaves[name])
        np.testing.assert_allclose(moved, factor, rtol=1e-6)


def test_a_small_share_is_exact_in_f32() -> None:
    """1 - e^(-1e-6) computed as written would be off by percents."""
    leaves = values(2, 2, 1)
    leaves["mean"][:] = 0.0
    leaves["x"][:] = 1e6
    nodes = nodes_of(2, 2, "normalization_time_constant = 1e6")
    found = trained(nodes, leaves, dtype=DType.F32)
    np.testing.assert_allclose(found["mean"], 1.0, rtol=1e-5)


@pytest.mark.parametrize("settings", ["exp_avg_factor = 0.0", "normalization_time_constant = inf"])
def test_running_values_that_never_move_are_no_results(settings: str) -> None:
    assert set(trained(nodes_of(3, 3, settings), values(3, 3, 8))) == {"v"}


def test_the_evaluation_form_can_be_asked_for_in_training() -> None:
    leaves = values(6, 2, 5)
    found = trained(nodes_of(6, 2, "eval_mode = true"), leaves)
    assert set(found) == {"v"}
    np.testing.assert_allclose(found["v"], plain_inference(leaves), rtol=1e-13)


def test_epsilon_keeps_a_constant_row_finite() -> None:
    leaves = values(2, 2, 4)
    leaves["x"][:] = 3.0
    found = trained(nodes_of(2, 2, "epsilon = 0.01"), leaves)
    np.testing.assert_allclose(found["v"], np.broadcast_to(leaves["bias"], (2, 4)), rtol=1e-12)
    np.testing.assert_allclose(found["inverse"], 10.0, rtol=1e-12)


# --- gradients -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "channels"), [(3, 3), (6, 2), (6, 1)])
def test_gradients_in_training_are_those_of_central_differences(rows: int, channels: int) -> None:
    """Of Σ w ∘ V², since the sum of V alone has no slope in x."""
    leaves = values(rows, channels, 5, seed=1)
    nodes = nodes_of(rows, channels)
    nodes = {**nodes, "n": nodes["v"], "v": "node.element_times %n, %n"}
    wrt = ("x", "scale", "bias")
    found = trained(nodes, leaves, wrt)

    def total(moved: Mapping[str, Array]) -> float:
        return float(np.sum(plain_training(moved).value ** 2))

    for name in wrt:
        slope = np.empty_like(leaves[name])
        for index in np.ndindex(slope.shape):
            up, down = leaves[name].copy(), leaves[name].copy()
            up[index] += 1e-6
            down[index] -= 1e-6
            rise = total({**leaves, name: up}) - total({**leaves, name: down})
            slope[index] = rise / 2e-6
        np.testing.assert_allclose(found[f"gradient.{name}"], slope, rtol=1e-4, atol=1e-6)


def test_gradients_outside_training_are_those_of_the_formula() -> None:
    leaves = values(6, 2, 5)
    found = gradients(network(nodes_of(6, 2)), "v", leaves, 5, ("x", *COLUMNS))
    tiled = {c: np.tile(leaves[c], (3, 1)) for c in COLUMNS}
    slope = tiled["scale"] * tiled["inverse"]
    centred = leaves["x"] - tiled["mean"]

    def of_channels(x: Array) -> Array:
        return x.sum(axis=1).reshape(3, 2).sum(axis=0)[:, None]

    np.testing.assert_allclose(found["x"], np.broadcast_to(slope, (6, 5)), rtol=1e-12)
    np.testing.assert_allclose(found["scale"], of_channels(centred * tiled["inverse"]), rtol=1e-11)
    np.testing.assert_allclose(found["bias"], 15.0)
    np.testing.assert_allclose(found["mean"], -15 * leaves["scale"] * leaves["inverse"], rtol=1e-12)
    np.testing.assert_allclose(found["inverse"], of_channels(centred * tiled["scale"]), rtol=1e-11)


# --- sizes and misuse ----------------------------------------------------------------------------

PARAMETER = "node.parameter {rows = 0}"


def test_sizes_of_its_parameters_are_those_of_the_rows() -> None:
    nodes = nodes_of(6, 6) | dict.fromkeys(COLUMNS, PARAMETER)
    net = network(nodes)
    assert {str(net.type(c)) for c in COLUMNS} == {"matrix<6x1>"}


def test_with_channels_one_known_size_gives_the_others() -> None:
    nodes = nodes_of(6, 2) | dict.fromkeys(("scale", "mean", "inverse"), PARAMETER)
    net = network(nodes)
    assert {str(net.type(c)) for c in COLUMNS} == {"matrix<2x1>"}


def test_the_channels_of_an_image_give_all_sizes() -> None:
    image = {"x": "node.input {width = 4, height = 5, channels = 3}"}
    net = network(nodes_of(60, 3) | dict.fromkeys(COLUMNS, PARAMETER) | image)
    assert {str(net.type(c)) for c in COLUMNS} == {"matrix<3x1>"}
    assert net.type("v") == net.type("x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": "node.parameter {rows = 6, cols = 4}"}, "a node with one column per sample, got"),
        ({"bias": "node.parameter {rows = 5}"}, "bias of size 6x1, as many as rows, for"),
        ({"mean": "node.parameter {rows = 6, cols = 2}"}, "run_mean of size 6x1"),
        ({"inverse": "node.input {rows = 6}"}, "run_inv_std_dev of size 6x1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(change: dict[str, str], message: str) -> None:
    assert message in complaint(nodes_of(6, 6) | change)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("exp_avg_factor = 1.5", "requires expAvgFactor from 0 to 1, got 1.5"),
        ("exp_avg_factor = nan", "requires expAvgFactor from 0 to 1, got nan"),
        ("normalization_time_constant = -1.0", "normalizationTimeConstant of at least 0, got -1"),
        ("epsilon = -1.0", "requires a finite epsilon of at least 0, got -1"),
        ("epsilon = inf", "requires a finite epsilon of at least 0, got inf"),
    ],
)
def test_settings_out_of_their_range_are_refused(settings: str, message: str) -> None:
    found = complaint(nodes_of(6, 6, settings))
    assert found.startswith("bad-value: ")
    assert message in found


def test_channels_that_do_not_divide_the_rows_are_refused() -> None:
    nodes = nodes_of(6, 2) | dict.fromkeys(COLUMNS, "node.parameter {rows = 4}")
    assert "rows that are a multiple of the 4 channels" in complaint(nodes)


def problems_in_training(nodes: Mapping[str, str]) -> list[str]:
    sink = DiagnosticSink()
    found = expand_nodes(network(dict(nodes)).graph, ["v"], DType.F32, Symbol("N", 4), sink, 0)
    assert found is None
    return [f"{d.slug}: {d.message}" for d in sink.diagnostics]


def test_what_training_moves_has_to_be_a_parameter() -> None:
    nodes = nodes_of(3, 3) | {"mean": "node.constant {value = 0.0, rows = 3}"}
    computed(network(nodes), "v", {**values(3, 3, 2), "mean": np.zeros((3, 1))}, 2)
    assert problems_in_training(nodes) == [
        "argument-type: BatchNormalization `v` updates its run_mean in training: requires a "
        "LearnableParameter, got `mean`"
    ]


def test_two_nodes_cannot_move_one_parameter() -> None:
    nodes = nodes_of(3, 3)
    again = nodes["v"].replace("%x", "%n").replace("%inverse", "%other")
    other = {"other": "node.parameter {rows = 3}"}
    nodes = {**nodes, **other, "n": nodes["v"], "v": again}
    assert problems_in_training(nodes) == [
        "bad-value: BatchNormalization `v` updates its run_mean `mean`, which another node "
        "updates too"
    ]
