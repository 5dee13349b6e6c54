"""Operators that draw random numbers: their distributions, and what decides the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import TensorProto, helper

import graphc as gc
from graphc_frontends.onnx.model import STEP, GivenDims, program_of
from tests.support.onnx_models import model

node = helper.make_node
NODES = [
    node("RandomNormal", [], ["normal"], shape=[40, 50], mean=2.0, scale=3.0),
    node("RandomNormal", [], ["seeded"], shape=[40, 50], seed=1.5, dtype=TensorProto.DOUBLE),
    node("RandomNormal", [], ["again"], shape=[40, 50], seed=1.5, dtype=TensorProto.DOUBLE),
    node("RandomNormalLike", ["x"], ["like"]),
    node("RandomUniform", [], ["flat"], shape=[40, 50], low=-1.0, high=3.0),
    node("RandomUniformLike", ["x"], ["half"], dtype=TensorProto.FLOAT16),
    node("Bernoulli", ["chance"], ["coin"]),
    node("Multinomial", ["x"], ["chosen"], sample_size=500, dtype=TensorProto.INT64),
    node("Dropout", ["x", "rate", "yes"], ["dropped", "kept"]),
    node("Dropout", ["x", "all", "yes"], ["nothing"]),
]
FIXED = {"rate": np.float32(0.25), "all": np.float32(1.0), "yes": np.array(True)}
SHARES = np.array([0, 0.1, 0.2, 0.7, 0], np.float32)


def drawing(nodes: list[Any] = NODES, **how: Any) -> Any:
    outputs = [name for n in nodes for name in n.output]
    made = model(nodes, {"x": ["n", 5], "chance": [3, 600]}, outputs, FIXED)
    return program_of(made, "x.onnx", GivenDims({"n": 600}), how)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_numbers_are_distributed_as_asked(backend: str) -> None:
    """Within 5 standard deviations of what many draws give; the step was chosen once."""
    call = gc.compile(drawing(), backend=backend)
    with np.errstate(divide="ignore"):
        x = np.tile(np.log(SHARES), (400, 1))
    given = {"x": x, "chance": np.repeat(np.float32([[0], [0.3], [1]]), 600, 1)}
    made, other = (call(**given, **{STEP: np.int64(step)}) for step in (3, 4))
    for name, mean, deviation, dtype in (
        ("normal", 2.0, 3.0, np.float32),
        ("seeded", 0.0, 1.0, np.float64),
        ("like", 0.0, 1.0, np.float32),
        ("flat", 1.0, 4 / np.sqrt(12), np.float32),
        ("half", 0.5, 1 / np.sqrt(12), np.float16),
    ):
        numbers = made[name].astype(np.float64)
        assert made[name].dtype == dtype and numbers.shape in ((40, 50), (400, 5))
        assert abs(numbers.mean() - mean) < 5 * deviation / np.sqrt(2000), name
        assert abs(numbers.std() / deviation - 1) < 5 / np.sqrt(4000), name
        assert (made[name] != other[name]).mean() > 0.99, name
    assert made["flat"].min() >= -1 and made["flat"].max() < 3
    coins = made["coin"].mean(1)
    assert coins[0] == 0 and coins[2] == 1 and abs(coins[1] - 0.3) < 5 * np.sqrt(0.21 / 600)
    often = np.bincount(made["chosen"].reshape(-1), minlength=5) / 200_000
    assert made["chosen"].shape == (400, 500) and often[0] == often[4] == 0
    assert (np.abs(often - SHARES) <= 5 * np.sqrt(SHARES / 200_000)).all()
    kept = made["kept"]
    assert kept.dtype == bool and abs(kept.mean() - 0.75) < 5 * np.sqrt(0.19 / 2000)
    np.testing.assert_allclose(made["dropped"], np.where(kept, x / np.float32(0.75), 0), 1e-6)
    assert not made["nothing"].any()
    np.testing.assert_array_equal(made["seeded"], made["again"])
    np.testing.assert_array_equal(call(**given, **{STEP: np.int64(3)})["like"], made["like"])


def test_the_step_can_be_fixed() -> None:
    given = {"x": np.zeros((2, 5), np.float32), "chance": np.zeros((3, 600), np.float32)}
    there = gc.compile(drawing(), backend="numpy")(**given, **{STEP: np.int64(7)})
    here = gc.compile(drawing(**{STEP: 7}), backend="numpy")(**given)
    for name, wanted in there.items():
        np.testing.assert_array_equal(here[name], wanted, name)


def test_without_a_draw_there_is_no_step() -> None:
    """In inference; and where nothing is left out, as in what PyTorch exports of Dropout(0)."""
    fixed = {**FIXED, "no": np.array(False), "none": np.float32(0.0)}
    for inputs in (["x", "rate", "no"], ["x", "none", "yes"]):
        nodes = [node("Dropout", inputs, ["y", "kept"])]
        program = program_of(model(nodes, {"x": [2]}, ["y", "kept"], fixed), "x.onnx")
        assert [a.name for a in program.function.arguments] == ["x"]
        found = gc.compile(program, backend="numpy")(x=np.float32([3.0, -2.0]))
        assert found["y"].tolist() == [3.0, -2.0] and found["kept"].tolist() == [True, True]


def test_a_step_of_a_loop_draws_nothing() -> None:
    inner = helper.make_graph(
        [node("RandomNormalLike", ["one"], ["y"])],
        "step",
        [helper.make_tensor_value_info("one", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )
    made = model(
        [node("Scan", ["x"], ["ys"], body=inner, num_scan_inputs=1)], {"x": [4, 3]}, ["ys"]
    )
    with pytest.raises(gc.GraphcError, match=r"not-supported.*random number in a step of a loop"):
        program_of(made, "x.onnx")
